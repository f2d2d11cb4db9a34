// Double-buffered: every rank copies its block into its staging piece by piece, and takes the
// others' from theirs. See node/double_buffered.hpp.
#include "collectives/node/double_buffered.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group, Staging::needed};
  const Blocks& blocks = arguments.out_blocks;
  const Pieces parts{blocks, 1};
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  co_await double_buffered_all_pairs(
      group, node, {arguments.in, arguments.bytes()}, parts.count(),
      [&](std::size_t part) {
        group.copy(node.staging(part), arguments.in + parts.begin(part),
                   parts.length(part, arguments.bytes()));
      },
      [&](int from, std::size_t part) {
        group.copy(arguments.out + blocks.first_bytes(from) + parts.begin(part),
                   node.staging(from, part), parts.length(part, blocks.length_bytes(from)));
      },
      [&](int from) {
        const std::size_t bytes = blocks.length_bytes(from);
        group.copy(arguments.out + blocks.first_bytes(from), node.data_of(from, 0, bytes), bytes);
      });
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(chunk_count(block) + 1)
      .keep(block)
      .give(block)
      .take(shape.vector_bytes() - block)
      .stream(block + shape.vector_bytes())
      .cost();
}

}  // namespace

extern constexpr Algorithm allgather_double_buffered{Collective::allgather, "double_buffered",
                                                     fits_staging, cost, run};

}  // namespace qpmesh::collectives

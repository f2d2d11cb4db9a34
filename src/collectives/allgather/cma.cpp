// Cross memory attach: every rank copies the others' blocks straight from where they lie.
// See node/cma.hpp.
#include "collectives/node/cma.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.out_blocks;
  co_await node.own_slot();
  node.publish_in_place(arguments.in, arguments.bytes());
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  co_await all_pairs_in_place(
      group, node, [&](int from) { return arguments.out + blocks.first_bytes(from); },
      [](int) { return std::size_t{0}; }, [&](int from) { return blocks.length_bytes(from); });
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2)
      .system_copies(shape.ranks() - 1, shape.vector_bytes() - block)
      .keep(block)
      .stream(block + shape.vector_bytes())
      .cost();
}

}  // namespace

extern constexpr Algorithm allgather_cma{Collective::allgather, "cma", fits_cma, cost, run};

}  // namespace qpmesh::collectives

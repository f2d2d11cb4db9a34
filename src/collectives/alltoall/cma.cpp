// Cross memory attach: every rank copies its blocks straight from where the others have them.
// See node/cma.hpp.
#include "collectives/node/cma.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t own = blocks.first_bytes(group.rank());
  const std::size_t block_bytes = blocks.length_bytes(0);
  co_await node.own_slot();
  node.publish_in_place(arguments.in, blocks.bytes());
  group.copy(arguments.out + own, arguments.in + own, block_bytes);
  co_await all_pairs_in_place(
      group, node, [&](int from) { return arguments.out + blocks.first_bytes(from); },
      [=](int) { return own; }, [=](int) { return block_bytes; });
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2)
      .system_copies(shape.ranks() - 1, shape.vector_bytes() - block)
      .keep(block)
      .stream(2 * shape.vector_bytes())
      .cost();
}

}  // namespace

extern constexpr Algorithm alltoall_cma{Collective::alltoall, "cma", fits_cma, cost, run};

}  // namespace qpmesh::collectives

// Cross memory attach: the root copies every rank's block straight from where it lies.
// See node/cma.hpp.
#include "collectives/node/cma.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  co_await node.own_slot();
  if (group.rank() != root) {
    node.publish_in_place(arguments.in, bytes);
    co_await node.member(root, 1);
    co_return;
  }
  group.copy(arguments.out + arguments.out_blocks.first_bytes(root), arguments.in, bytes);
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    std::byte* const target = arguments.out + arguments.out_blocks.first_bytes(from);
    if (!node.copy_in_place(from, target, 0, bytes)) co_await node.failure_of(from);
  }
  node.publish({});
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double others = shape.vector_bytes() - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2)
      .system_copies_alone(shape.ranks() - 1, others)
      .stream_alone(shape.vector_bytes())
      .cost();
}

}  // namespace

extern constexpr Algorithm gather_cma{Collective::gather, "cma", fits_cma, cost, run};

}  // namespace qpmesh::collectives

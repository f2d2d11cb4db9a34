// Cross memory attach: every rank copies its block straight from where the root has it.
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
  if (group.rank() == root) {
    node.publish_in_place(arguments.in, bytes * static_cast<std::size_t>(group.size()));
    group.copy(arguments.out, arguments.in + arguments.in_blocks.first_bytes(root), bytes);
    co_await node.all(1);
    co_return;
  }
  co_await node.member(root, 1);
  const std::size_t place = bytes * static_cast<std::size_t>(group.rank());
  if (!node.copy_in_place(root, arguments.out, place, bytes)) co_await node.failure_of(root);
  node.publish({});
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}.steps(2).system_copies(1, block).stream(2 * block).cost();
}

}  // namespace

extern constexpr Algorithm scatter_cma{Collective::scatter, "cma", fits_cma, cost, run};

}  // namespace qpmesh::collectives

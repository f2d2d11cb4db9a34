// Cross memory attach: every rank copies the vector straight from where the root has it. The root,
// which would only wait, copies too where each rank has a core (base/fill_guard.hpp). See
// node/cma.hpp.
#include <exception>

#include "base/fill_guard.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/cma.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// Where each rank has a core the root fills as much for every reader as leaves all of them the same
// to do.
Task broadcast_filled(Group group, NodeOperation& node, const Arguments& arguments) {
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  if (group.rank() == root) {
    node.publish_in_place(arguments.out, bytes);
    for (int distance = 1; distance < group.size(); ++distance) {
      const int to = group.plus(distance);
      co_await node.member(to, 1);
      node.fill(to, {arguments.out, bytes});
    }
    co_await node.all(2);
    co_return;
  }
  const std::size_t begin = node.open_to_fill({arguments.out, bytes});
  bool copied = false;
  std::exception_ptr failure;
  try {
    node.publish({});
    co_await node.member(root, 1);
    copied = node.copy_in_place(root, arguments.out, 0, begin);
  } catch (...) {
    failure = std::current_exception();  // which nobody hears before the vector is private again
  }
  co_await node.settle_fill(root);
  if (failure) std::rethrow_exception(failure);
  if (!node.is_filled())
    copied = copied && node.copy_in_place(root, arguments.out + begin, begin, bytes - begin);
  if (!copied) co_await node.failure_of(root);
  node.advance(2);
}

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  co_await node.own_slot();
  if (node.fills_together(bytes)) {
    co_await broadcast_filled(group, node, arguments);
    co_return;
  }
  if (group.rank() == root) {
    node.publish_in_place(arguments.out, bytes);
    co_await node.all(1);
    co_return;
  }
  co_await node.member(root, 1);
  if (!node.copy_in_place(root, arguments.out, 0, bytes)) co_await node.failure_of(root);
  node.publish({});
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const bool filled = model.node.ranks_per_core <= 1 && bytes >= base::filled_bytes_min;
  const double copied = filled ? bytes * (shape.ranks() - 1) / shape.ranks() : bytes;
  return CoreWork{shape, model}.steps(2).system_copies(1, copied).stream(copied).cost();
}

}  // namespace

extern constexpr Algorithm broadcast_cma{Collective::broadcast, "cma", fits_cma, cost, run};

}  // namespace qpmesh::collectives

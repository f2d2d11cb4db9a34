// Cross memory attach: every rank copies the vector straight from where the root has it. The root, which would only wait, copies too where each
// rank has a core (base/fill_guard.hpp).
// See node/cma.hpp.
#include <span>
#include <utility>

#include "base/fill_guard.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/cma.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// Where each rank has a core the root fills as much for every reader as leaves all of them the same to do. The reader's target is
// private again when this ends, however it ends.
class FilledTarget {
 public:
  FilledTarget(NodeOperation& node, int root, std::span<std::byte> vector) noexcept
      : node_{node}, root_{root}, begin_{node.open_to_fill(vector)} {}
  ~FilledTarget() { settle(); }
  FilledTarget(const FilledTarget&) = delete;
  FilledTarget& operator=(const FilledTarget&) = delete;

  std::size_t begin() const noexcept { return begin_; }
  bool settle() noexcept { return !std::exchange(settled_, true) && node_.settle_fill(root_); }

 private:
  NodeOperation& node_;
  int root_;
  std::size_t begin_;
  bool settled_ = false;
};

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
  FilledTarget rest{node, root, {arguments.out, bytes}};
  node.publish({});
  co_await node.member(root, 1);
  const std::size_t begin = rest.begin();
  bool copied = node.copy_in_place(root, arguments.out, 0, begin);
  if (!rest.settle())
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

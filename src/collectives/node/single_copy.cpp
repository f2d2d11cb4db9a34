// Single copy: who has something to give says where it lies, and whoever wants it copies it straight from there, out of private memory too:
// the kernel does that (process_vm_readv). Who gave waits until the others have it.
// A broadcast's root, which would only wait, copies too where each rank has a core (base/fill_guard.hpp).
// Wins for long vectors on one node, from where a copy saved is worth a call of the system. Later where ranks share cores:
// the system copies more slowly than a core does inside its cache.
// Cost: a call and one copy of each block that a rank wants; two lines.
// Source: D. Buntinas, G. Mercier, W. Gropp, 2006; J. Vienne's CMA in MVAPICH2, and Open MPI's btl/vader.
#include <span>
#include <utility>

#include "base/fill_guard.hpp"
#include "collectives/node/node.hpp"
#include "collectives/node/operation.hpp"
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

}  // namespace

Task broadcast_single_copy(Group group, const Arguments& arguments) {
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

Task gather_single_copy(Group group, const Arguments& arguments) {
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

Task scatter_single_copy(Group group, const Arguments& arguments) {
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

namespace {

// Every rank gives, and takes its part from every other one: place(from) of so many bytes(from), to target(from).
template <class Target, class Place, class Bytes>
Task exchange_in_place(Group group, NodeOperation& node, Target target, Place place, Bytes bytes) {
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    if (!node.copy_in_place(from, target(from), place(from), bytes(from))) co_await node.failure_of(from);
  }
  node.advance(2);
  co_await node.all(2);  // others still read ours
}

}  // namespace

Task allgather_single_copy(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.out_blocks;
  co_await node.own_slot();
  node.publish_in_place(arguments.in, arguments.bytes());
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  co_await exchange_in_place(
      group, node, [&](int from) { return arguments.out + blocks.first_bytes(from); },
      [](int) { return std::size_t{0}; }, [&](int from) { return blocks.length_bytes(from); });
}

Task alltoall_single_copy(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t own = blocks.first_bytes(group.rank());
  const std::size_t block_bytes = blocks.length_bytes(0);
  co_await node.own_slot();
  node.publish_in_place(arguments.in, blocks.bytes());
  group.copy(arguments.out + own, arguments.in + own, block_bytes);
  co_await exchange_in_place(
      group, node, [&](int from) { return arguments.out + blocks.first_bytes(from); },
      [=](int) { return own; }, [=](int) { return block_bytes; });
}

bool fits_single_copy(const Shape& shape) {
  return shape.single_copy && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0;
}

Cost broadcast_single_copy_cost(const Shape& shape, const Model& model) {
  const double bytes = shape.vector_bytes();
  const bool filled = model.node.ranks_per_core <= 1 && bytes >= base::filled_bytes_min;
  const double copied = filled ? bytes * (shape.ranks() - 1) / shape.ranks() : bytes;
  return CoreWork{shape, model}.steps(2).system_copies(1, copied).stream(copied).cost();
}

Cost gather_single_copy_cost(const Shape& shape, const Model& model) {
  const double others = shape.vector_bytes() - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2)
      .system_copies_alone(shape.ranks() - 1, others)
      .stream_alone(shape.vector_bytes())
      .cost();
}

Cost scatter_single_copy_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}.steps(2).system_copies(1, block).stream(2 * block).cost();
}

Cost allgather_single_copy_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2)
      .system_copies(shape.ranks() - 1, shape.vector_bytes() - block)
      .keep(block)
      .stream(block + shape.vector_bytes())
      .cost();
}

Cost alltoall_single_copy_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(2)
      .system_copies(shape.ranks() - 1, shape.vector_bytes() - block)
      .keep(block)
      .stream(2 * shape.vector_bytes())
      .cost();
}

}  // namespace qpmesh::collectives

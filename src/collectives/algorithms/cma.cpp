// SPDX-License-Identifier: MIT
// Cross memory attach: who has something to give says where it lies, and whoever wants it copies it
// straight from there, out of private memory too: the kernel does that (process_vm_readv). Who gave
// waits until the others have it. Where each rank has a core, who would only wait copies too: the
// root of a broadcast, and the rank behind the root of a gather (base/fill_guard.hpp).
// Wins for long vectors on one node, from where a copy saved is worth a call of the system. Later
// where ranks share cores: the system copies more slowly than a core does inside its cache. Cost: a
// call and one copy of each block that a rank wants; two lines.
// Reductions: every rank copies its slice of all vectors, in parts that stay in its cache, and
// reduces them; in an allreduce it then copies the others' slices of the result from where they
// were reduced. What lies in Buffers is reduced where it lies. Nothing is staged, what other cores
// have written crosses once, and there are three steps however long the vector is, which ranks that
// share cores wait for. In a reduce the root reads all vectors, in a scan each rank those before
// it, and who is read waits for that. In rank order: ordered reductions included; the same bits on
// every rank. Cost per rank: (N-1)/N S copied and reduced; an allreduce (N-1)/N S copied once more;
// in a reduce the root (N-1) S, in a scan the last rank; a call of the system for each copy.
// Sources: D. Buntinas, G. Mercier, W. Gropp, 2006; J. Vienne's CMA in MVAPICH2, and Open MPI's
// btl/vader. Reductions: J. Hashmi, S. Chakraborty, M. Bayatpour, H. Subramoni, D. Panda,
// "Designing efficient shared address space reduction collectives for multi-/many-cores", 2018,
// with process_vm_readv for shared address spaces.
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "base/fill_guard.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// The ranks read each other's private memory.
bool fits(const CallShape& shape) {
  return shape.cma && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0;
}

// The same where one rank reads the whole vectors of others: of many ranks too much.
bool fits_reader(const CallShape& shape) {
  constexpr int ranks_max = 16;
  constexpr std::size_t bytes_max = std::size_t{32} << 10;  // of more ranks
  return fits(shape) && (shape.size <= ranks_max || shape.bytes <= bytes_max);
}

// Publishes, does something else, and takes what a member exposes, which may fill the end of the
// target. Nothing in between may leave the frame: until that is settled the target is not private.
template <class Meanwhile>
Task take_filled(NodeOperation& node, int from, std::span<std::byte> target, base::FillShare& share,
                 Meanwhile meanwhile) {
  const std::size_t begin = node.open_to_fill(target, share);
  bool copied = false;
  std::exception_ptr failure;
  try {
    node.publish({});
    meanwhile();
    co_await node.member(from, 1);
    copied = node.copy_exposed(from, target.data(), 0, begin);
  } catch (...) {
    failure = std::current_exception();  // which nobody hears before
  }
  co_await node.settle_fill(from, share);
  if (failure) std::rethrow_exception(failure);
  if (!node.is_filled()) {
    copied = copied && node.copy_exposed(from, target.data() + begin, begin, target.size() - begin);
  }
  if (!copied) co_await node.failure_of(from);
}

// The root fills as much for every reader as leaves all of them the same to do.
Task broadcast_filled(Group group, NodeOperation& node, const Arguments& arguments) {
  const int root = arguments.root;
  const std::span vector{arguments.out, arguments.bytes()};
  if (group.rank() == root) {
    node.expose(vector.data(), vector.size());
    for (int to = group.next(); to != group.rank(); to = group.after(to)) {
      co_await node.member(to, 1);
      node.fill(to, vector);
    }
    co_await node.all(2);
    co_return;
  }
  co_await take_filled(node, root, vector, node.broadcast_share(), [] {});
  node.advance(2);
}

Task broadcast(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  co_await node.own_slot();
  if (node.fills_together(bytes)) {
    co_await broadcast_filled(group, node, arguments);
    co_return;
  }
  if (group.rank() == root) {
    node.expose(arguments.out, bytes);
    co_await node.all(1);
    co_return;
  }
  co_await node.member(root, 1);
  if (!node.copy_exposed(root, arguments.out, 0, bytes)) co_await node.failure_of(root);
  node.publish({});
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const bool filled =
      model.node.ranks_per_core <= 1 && shape.vector_bytes() >= base::filled_bytes_min;
  const double copied = filled ? shape.others_bytes() : shape.vector_bytes();
  return core_cost(shape, model, 2, {.stream = copied, .system_calls = 1, .system_copies = copied});
}

// The member behind the root fills of its block what it can while the root copies its own.
Task gather_filled(Group group, NodeOperation& node, const Arguments& arguments) {
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  const int filler = group.after(root);
  if (group.rank() != root) {
    node.expose(arguments.in, bytes);
    if (group.rank() == filler) {
      co_await node.member(root, 1);
      node.fill(root, {arguments.in, bytes});
    }
    co_await node.member(root, 2);
    co_return;
  }
  const Blocks& blocks = arguments.out_blocks;
  const auto copy_own = [&] {
    group.copy(arguments.out + blocks.first_bytes(root), arguments.in, bytes);
  };
  co_await take_filled(node, filler, blocks.of(arguments.out, filler), node.gather_share(),
                       copy_own);
  for (int from = group.after(filler); from != root; from = group.after(from)) {
    co_await node.member(from, 1);
    if (!node.copy_exposed(from, arguments.out + blocks.first_bytes(from), 0, bytes))
      co_await node.failure_of(from);
  }
  node.advance(2);
}

Task gather(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  co_await node.own_slot();
  if (node.fills_together(bytes)) {
    co_await gather_filled(group, node, arguments);
    co_return;
  }
  if (group.rank() != root) {
    node.expose(arguments.in, bytes);
    co_await node.member(root, 1);
    co_return;
  }
  group.copy(arguments.out + arguments.out_blocks.first_bytes(root), arguments.in, bytes);
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    co_await node.member(from, 1);
    std::byte* const target = arguments.out + arguments.out_blocks.first_bytes(from);
    if (!node.copy_exposed(from, target, 0, bytes)) co_await node.failure_of(from);
  }
  node.publish({});
}

Cost gather_cost(const CallShape& shape, const CostModel& model) {
  const bool filled =
      model.node.ranks_per_core <= 1 && shape.block_bytes() >= base::filled_bytes_min;
  const double others = shape.others_bytes() - (filled ? shape.block_bytes() / 2 : 0);
  return core_cost(shape, model, 2, {},
                   {.stream = shape.block_bytes() + others,
                    .system_calls = shape.ranks() - 1,
                    .system_copies = others});
}

Task scatter(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  co_await node.own_slot();
  if (group.rank() == root) {
    node.expose(arguments.in, bytes * static_cast<std::size_t>(group.size()));
    group.copy(arguments.out, arguments.in + arguments.in_blocks.first_bytes(root), bytes);
    co_await node.all(1);
    co_return;
  }
  co_await node.member(root, 1);
  const std::size_t begin = bytes * static_cast<std::size_t>(group.rank());
  if (!node.copy_exposed(root, arguments.out, begin, bytes)) co_await node.failure_of(root);
  node.publish({});
}

Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return core_cost(shape, model, 2,
                   {.stream = 2 * block, .system_calls = 1, .system_copies = block});
}

// Allgather and alltoall: every rank takes of the others' vectors what is for it: all, or its
// block.
template <Collective collective>
Task take_blocks(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  constexpr bool is_alltoall = collective == Collective::alltoall;
  const Blocks& blocks = arguments.out_blocks;
  const std::size_t begin = is_alltoall ? arguments.in_blocks.first_bytes(group.rank()) : 0;
  co_await node.own_slot();
  node.expose(arguments.in, is_alltoall ? arguments.in_blocks.bytes() : arguments.bytes());
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in + begin,
             blocks.length_bytes(group.rank()));
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    co_await node.member(from, 1);
    std::byte* const target = arguments.out + blocks.first_bytes(from);
    if (!node.copy_exposed(from, target, begin, blocks.length_bytes(from)))
      co_await node.failure_of(from);
  }
  node.advance(2);
  co_await node.all(2);  // others still read ours
}

Cost take_blocks_cost(const CallShape& shape, const CostModel& model, double stream) {
  return core_cost(shape, model, 2,
                   {.keep = shape.block_bytes(),
                    .stream = stream,
                    .system_calls = shape.ranks() - 1,
                    .system_copies = shape.others_bytes()});
}

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  return take_blocks_cost(shape, model, shape.block_bytes() + shape.vector_bytes());
}

Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  return take_blocks_cost(shape, model, 2 * shape.vector_bytes());
}

// How much of a slice is copied at once: that of all others together lies in the cache, but a call
// of the system should be worth it.
std::size_t part_bytes_of(int size, std::size_t element_bytes) {
  constexpr std::size_t cached_bytes = std::size_t{512} << 10;
  constexpr std::size_t part_bytes_min = std::size_t{32} << 10;
  const std::size_t bytes =
      std::max(part_bytes_min, cached_bytes / static_cast<std::size_t>(size - 1));
  return std::max<std::size_t>(bytes / element_bytes, 1) * element_bytes;
}

// Calls of the system for so many bytes of every other rank's vector.
double calls_for(const CallShape& shape, double bytes) {
  const auto part_bytes = static_cast<double>(part_bytes_of(shape.size, shape.element_bytes));
  return (shape.ranks() - 1) * std::ceil(bytes / part_bytes);
}

// Memory for a part of every other rank's slice, each aligned.
struct PartMemory {
  PartMemory(const Group& group, std::size_t slice_bytes, std::size_t element_bytes)
      : part_bytes{std::min(slice_bytes, part_bytes_of(group.size(), element_bytes))},
        stride_bytes{base::round_up(part_bytes, base::cache_line_bytes)},
        scratch{group, stride_bytes * static_cast<std::size_t>(group.size() - 1)} {}

  std::size_t part_bytes;
  std::size_t stride_bytes;
  Scratch scratch;
};

// target = the bytes from `first` on of vectors, reduced, part by part. operands_of lists those of
// a part, of this rank's own and of where the others' are. Returns the rank, if any, whose vector
// could not be read.
template <class OperandsOf>
std::optional<int> reduce_exposed(const Group& group, const NodeOperation& node,
                                  const Arguments& arguments, const PartMemory& memory,
                                  std::byte* target, std::size_t first, std::size_t bytes,
                                  OperandsOf operands_of) {
  for (std::size_t begin = 0; begin < bytes; begin += memory.part_bytes) {
    const std::size_t part_bytes = std::min(memory.part_bytes, bytes - begin);
    std::byte* unused = memory.scratch.data();
    std::optional<int> unread;
    const auto where_of = [&](int rank) -> const std::byte* {
      if (node.is_in_arena(rank)) return node.data_of(rank, first + begin, part_bytes);
      std::byte* const part = std::exchange(unused, unused + memory.stride_bytes);
      if (!node.copy_exposed(rank, part, first + begin, part_bytes)) unread = rank;
      return part;
    };
    Operands operands;
    const auto sources = operands_of(operands, arguments.in + first + begin, where_of);
    if (unread) return unread;
    combine(group, arguments.reducer, target + begin, sources, part_bytes);
  }
  return std::nullopt;
}

// The same of everybody's vector.
std::optional<int> reduce_all_exposed(const Group& group, const NodeOperation& node,
                                      const Arguments& arguments, const PartMemory& memory,
                                      std::byte* target, std::size_t first, std::size_t bytes) {
  return reduce_exposed(group, node, arguments, memory, target, first, bytes,
                        [&](Operands& operands, const std::byte* own, const auto& where_of) {
                          return operands_in_rank_order(operands, group, own, where_of);
                        });
}

// Only the root reads, and the others wait until it has.
Task reduce(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const std::size_t bytes = arguments.bytes();
  co_await node.own_slot();
  if (group.rank() != arguments.root) {
    node.expose(arguments.in, bytes);
    co_await node.member(arguments.root, 1);
    co_return;
  }
  const PartMemory memory{group, bytes, arguments.element_bytes};
  co_await node.all(1);
  const auto unread = reduce_all_exposed(group, node, arguments, memory, arguments.out, 0, bytes);
  if (unread) co_await node.failure_of(*unread);
  co_await node.none_revoked();
  node.publish({});
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const double others = (shape.ranks() - 1) * shape.vector_bytes();
  return core_cost(shape, model, 2, {},
                   {.reduce = others,
                    .stream = 2 * shape.vector_bytes(),
                    .system_calls = calls_for(shape, shape.vector_bytes()),
                    .system_copies = others});
}

// A rank's step 2 says that it has read the vectors of those before it. A result that goes where
// others still read waits for that of those behind it.
template <Collective collective>
Task scan(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const int rank = group.rank();
  const std::size_t bytes = arguments.bytes();
  const bool gives = rank + 1 < group.size();
  const bool is_late = gives && arguments.in == arguments.out && rank > 0;
  const Scratch result{group, is_late ? bytes : 0};
  std::byte* const target = is_late ? result.data() : arguments.out;
  co_await node.own_slot();
  node.expose(arguments.in, bytes);
  if (rank == 0) {
    if (collective == Collective::scan && arguments.in != arguments.out)
      group.copy(arguments.out, arguments.in, bytes);
  } else if (collective == Collective::exscan && rank == 1) {
    co_await node.member(0, 1);
    if (!node.copy_exposed(0, target, 0, bytes)) co_await node.failure_of(0);
  } else {
    co_await node.members({0, rank}, 1);
    const PartMemory memory{group, bytes, arguments.element_bytes};
    const auto unread = reduce_exposed(
        group, node, arguments, memory, target, 0, bytes,
        [&](Operands& operands, const std::byte* own, const auto& where_of) {
          const bool is_exclusive = collective == Collective::exscan;
          return operands_before(operands, group, is_exclusive ? nullptr : own, where_of);
        });
    if (unread) co_await node.failure_of(*unread);
    co_await node.none_revoked();
  }
  node.advance(2);
  if (gives) co_await node.members({rank + 1, group.size()}, 2);
  if (is_late) group.copy(arguments.out, target, bytes);
}

// Of the last rank, which all wait for.
Cost scan_cost(const CallShape& shape, const CostModel& model) {
  const double others = (shape.ranks() - 1) * shape.vector_bytes();
  return core_cost(shape, model, 2,
                   {.reduce = others,
                    .stream = 2 * shape.vector_bytes(),
                    .system_calls = calls_for(shape, shape.vector_bytes()),
                    .system_copies = others});
}

Task reduce_scatter(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t own = blocks.first_bytes(group.rank());
  const PartMemory memory{group, arguments.bytes(), arguments.element_bytes};
  co_await node.own_slot();
  node.expose(arguments.in, blocks.bytes());
  co_await node.all(1);
  const auto unread =
      reduce_all_exposed(group, node, arguments, memory, arguments.out, own, arguments.bytes());
  if (unread) co_await node.failure_of(*unread);
  co_await node.none_revoked();  // of Buffers, which were reduced where they lie
  node.advance(2);
  co_await node.all(2);  // others still read ours
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 2,
                   {.reduce = shape.others_bytes(),
                    .stream = shape.vector_bytes() + shape.block_bytes(),
                    .system_calls = calls_for(shape, shape.block_bytes()),
                    .system_copies = shape.others_bytes()});
}

Task allreduce(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks slices = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  const std::size_t own = slices.first_bytes(group.rank());
  const std::size_t own_bytes = slices.length_bytes(group.rank());
  const PartMemory memory{group, own_bytes, arguments.element_bytes};
  co_await node.own_slot();
  node.expose(arguments.in, arguments.bytes(), arguments.out);
  co_await node.all(1);
  const auto unread =
      reduce_all_exposed(group, node, arguments, memory, arguments.out + own, own, own_bytes);
  if (unread) co_await node.failure_of(*unread);
  node.advance(2);
  // Whoever has come to step 2 reads no more of our vector, which may be where the result goes.
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    const std::size_t first = slices.first_bytes(from);
    co_await node.member(from, 2);
    if (!node.copy_exposed_result(from, arguments.out + first, first, slices.length_bytes(from)))
      co_await node.failure_of(from);
  }
  node.advance(3);
  co_await node.all(3);  // others still read ours
}

// The others' results have left the caches when they are copied.
Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const double others = shape.others_bytes();
  return core_cost(shape, model, 3,
                   {.reduce = others,
                    .stream = 2 * shape.vector_bytes() + others,
                    .system_calls = calls_for(shape, shape.block_bytes()) + shape.ranks() - 1,
                    .system_copies = 2 * others});
}

}  // namespace

extern constexpr Algorithm broadcast_cma{Collective::broadcast, "cma", fits, broadcast_cost,
                                         broadcast};
extern constexpr Algorithm gather_cma{Collective::gather, "cma", fits, gather_cost, gather};
extern constexpr Algorithm scatter_cma{Collective::scatter, "cma", fits, scatter_cost, scatter};
extern constexpr Algorithm allgather_cma{Collective::allgather, "cma", fits, allgather_cost,
                                         take_blocks<Collective::allgather>};
extern constexpr Algorithm alltoall_cma{Collective::alltoall, "cma", fits, alltoall_cost,
                                        take_blocks<Collective::alltoall>};
extern constexpr Algorithm reduce_cma{Collective::reduce, "cma",  fits_reader,
                                      reduce_cost,        reduce, Bits::of_rank_order};
extern constexpr Algorithm scan_cma{
    Collective::scan, "cma", fits_reader, scan_cost, scan<Collective::scan>, Bits::of_rank_order};
extern constexpr Algorithm exscan_cma{
    Collective::exscan, "cma", fits_reader, scan_cost, scan<Collective::exscan>,
    Bits::of_rank_order};
extern constexpr Algorithm reduce_scatter_cma{
    Collective::reduce_scatter, "cma",          fits,
    reduce_scatter_cost,        reduce_scatter, Bits::of_rank_order};
extern constexpr Algorithm allreduce_cma{Collective::allreduce, "cma",     fits,
                                         allreduce_cost,        allreduce, Bits::of_rank_order};

}  // namespace qpmesh::collectives

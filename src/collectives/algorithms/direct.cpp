// SPDX-License-Identifier: MIT
// Direct: every rank reduces its slice of the vector from all ranks in one pass, and takes the
// other slices where they were reduced; in a reduce only the root does, and a reduce_scatter ends
// before. In rank order: ordered reductions included; the same bits on every rank. Wins for long
// vectors on one node.
// Vectors in Buffers are read and written where they lie. Private ones come through staging, in
// chunks that stay in the cache: only its owner touches private memory. A rank's own slice, which
// nobody else reads, is reduced from where it lies. A chunk has two steps, "staged" and "reduced";
// the next chunk but one may overwrite its buffer, because whoever has staged the chunk between has
// taken all of it.
// Cost per rank of an allreduce: Buffers read S + (N-1)/N S and write S; staging reads 3 S - 2 S/N
// and writes 2 S; two lines per chunk.
// direct_streamed stages past the caches (node/stores.hpp): other rows, the same bits.
// Source: NCCL's RSxLD_AGxST kernels.
#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"
#include "collectives/node/stores.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// Until everybody's vector is in a Buffer, or the first part of everybody's is staged. stage(0)
// stages ours; result: where others read ours, with it in Buffers.
template <class Stage>
Task share(NodeOperation& node, std::span<const std::byte> vector, const std::byte* result,
           bool own_in_arena, Stage stage) {
  co_await node.own_slot();
  if (own_in_arena) {
    node.expose(vector.data(), vector.size(), result);
  } else {
    stage(0);
    node.publish_staged();
  }
  co_await node.all(1);
  if (node.all_in_arena() || node.none_in_arena()) co_return;
  // Some Buffers, some private: all through staging.
  if (own_in_arena) stage(0);
  node.advance_staged(2);
}
// Steps of it before the one that says that the first part is staged.
std::uint32_t steps_before_staged(const NodeOperation& node) {
  return node.none_in_arena() ? 0 : 1;
}

// target = the bytes from `first` on of everybody's vectors, which lie in Buffers.
void reduce_buffers(const Group& group, const NodeOperation& node, const Arguments& arguments,
                    std::byte* target, std::size_t first, std::size_t bytes) {
  reduce_in_rank_order(group, arguments.reducer, target, arguments.in + first, bytes,
                       [&](int rank) { return node.data_of(rank, first, bytes); });
}

// Into two targets, in parts: the second is written while the first is still in the nearest cache.
template <Stores stores, class WhereOf>
void reduce_into_both(const Group& group, const Reducer& reducer, std::byte* target,
                      std::byte* copy, const std::byte* own, std::size_t bytes,
                      WhereOf&& where_of) {
  Operands operands;
  operands_in_rank_order(operands, group, own, where_of);
  const std::span sources{operands.data(), static_cast<std::size_t>(group.size())};
  constexpr std::size_t part_bytes_max = 4096;
  const std::size_t part_bytes =
      std::max<std::size_t>(part_bytes_max / reducer.element_bytes, 1) * reducer.element_bytes;
  for (std::size_t begin = 0; begin < bytes; begin += part_bytes) {
    const std::size_t count_bytes = std::min(part_bytes, bytes - begin);
    group.reduce(reducer, target + begin, sources, count_bytes);
    stage_copy<stores>(group, copy + begin, target + begin, count_bytes);
    for (const std::byte*& source : sources) source += count_bytes;
  }
}

// Allreduce, or reduce, where only the root wants the result.
template <Collective collective, Stores stores>
Task reduction(Group group, const Arguments& arguments) {
  constexpr bool everybody_wants = collective == Collective::allreduce;
  const bool wants = everybody_wants || group.rank() == arguments.root;
  const std::size_t bytes = arguments.bytes();
  const int size = group.size();
  const Pieces chunks{bytes, 1, arguments.element_bytes, two_buffers};
  NodeOperation node{group, chunks.staging_bytes()};
  const auto slices_of = [&](std::size_t chunk) {
    return even_blocks(chunks.length(chunk) / arguments.element_bytes, size,
                       arguments.element_bytes);
  };
  const auto stage = [&](std::size_t chunk) {
    const Blocks slices = slices_of(chunk);
    const std::byte* const in = arguments.in + chunks.begin(chunk);
    const std::size_t own = slices.first_bytes(group.rank());
    const std::size_t behind = own + slices.length_bytes(group.rank());
    std::byte* const staging = node.staging(chunks.staged_at(chunk));
    stage_copy<stores>(group, staging, in, own);
    stage_copy<stores>(group, staging + behind, in + behind, chunks.length(chunk) - behind);
  };
  // Only an allreduce has a result at every rank.
  const bool own_in_arena =
      everybody_wants && node.in_arena(arguments.in, bytes) && node.in_arena(arguments.out, bytes);
  co_await share(node, {arguments.in, bytes}, arguments.out, own_in_arena, stage);
  if (node.all_in_arena()) {
    const Blocks slices = even_blocks(arguments.element_count, size, arguments.element_bytes);
    const std::size_t own = slices.first_bytes(group.rank());
    reduce_buffers(group, node, arguments, arguments.out + own, own,
                   slices.length_bytes(group.rank()));
    node.advance(2);
    for (int from = group.next(); from != group.rank(); from = group.after(from)) {
      co_await node.member(from, 2);
      const std::size_t first = slices.first_bytes(from);
      group.copy(arguments.out + first, node.result_of(from, first, slices.length_bytes(from)),
                 slices.length_bytes(from));
    }
    co_await node.none_revoked();
    node.advance(3);
    co_await node.all(3);  // others still read our Buffers
    co_return;
  }
  const std::uint32_t steps_before = steps_before_staged(node);
  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    const std::uint32_t staged = steps_before + 2 * static_cast<std::uint32_t>(chunk) + 1;
    if (chunk > 0) {
      stage(chunk);
      node.advance(staged);
    }
    co_await node.all(staged);
    const Blocks slices = slices_of(chunk);
    const std::size_t own = slices.first_bytes(group.rank());
    const std::size_t own_bytes = slices.length_bytes(group.rank());
    std::byte* const result = arguments.out + chunks.begin(chunk);
    const std::size_t staged_at = chunks.staged_at(chunk);
    std::byte* const shared = node.staging(staged_at + own);
    const std::byte* const in = arguments.in + chunks.begin(chunk) + own;
    const auto operand_of = [&](int rank) {
      return node.staging(rank, staged_at + own, own_bytes);
    };
    if (everybody_wants) {
      reduce_into_both<stores>(group, arguments.reducer, result + own, shared, in, own_bytes,
                               operand_of);
    } else {
      reduce_in_rank_order(group, arguments.reducer, wants ? result + own : shared, in, own_bytes,
                           operand_of);
    }
    node.advance(staged + 1);
    if (!wants) continue;
    for (int from = group.next(); from != group.rank(); from = group.after(from)) {
      co_await node.member(from, staged + 1);
      const std::size_t first = slices.first_bytes(from);
      const std::size_t length = slices.length_bytes(from);
      group.copy(result + first, node.staging(from, staged_at + first, length), length);
    }
  }
}

double reduction_steps(const CallShape& shape) { return 2 * chunk_count(shape.vector_bytes()) + 1; }

template <Stores stores>
Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = shape.others_bytes();
  return core_cost(
      shape, model, reduction_steps(shape),
      stored<stores>({.give = bytes, .parts = others, .reduce = others, .stream = bytes}),
      stored<stores>({.take = others, .stream = bytes}));
}

template <Stores stores>
Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = shape.others_bytes();
  return core_cost(shape, model, reduction_steps(shape),
                   stored<stores>({.keep = shape.block_bytes(),
                                   .give = bytes,
                                   .take = others,
                                   .parts = others,
                                   .reduce = others,
                                   .stream = 2 * bytes}));
}

template <Stores stores>
Task reduce_scatter(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.in_blocks;
  const int size = group.size();
  const std::size_t own = blocks.first_bytes(group.rank());
  const Pieces pieces{blocks.longest_bytes(), size, arguments.element_bytes, four_buffers};
  NodeOperation node{group, pieces.staging_bytes()};
  const auto stage = [&](std::size_t piece) {
    for (int block = 0; block < size; ++block) {
      if (block == group.rank()) continue;
      stage_copy<stores>(group, node.staging(pieces.staged_at(piece, block)),
                         arguments.in + blocks.first_bytes(block) + pieces.begin(piece),
                         pieces.length(piece, blocks.length_bytes(block)));
    }
  };
  const bool own_in_arena = node.in_arena(arguments.in, blocks.bytes());
  co_await share(node, {arguments.in, blocks.bytes()}, nullptr, own_in_arena, stage);
  if (node.all_in_arena()) {
    reduce_buffers(group, node, arguments, arguments.out, own, arguments.bytes());
    co_await node.none_revoked();
    node.advance(2);
    co_await node.all(2);  // others still read our Buffer
    co_return;
  }
  const std::uint32_t steps_before = steps_before_staged(node);
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    if (piece + 1 < pieces.count()) {
      stage(piece + 1);
      node.advance(steps_before + step_of(piece + 1));
    }
    co_await node.all(steps_before + step_of(piece));
    const std::size_t length = pieces.length(piece, arguments.bytes());
    reduce_in_rank_order(group, arguments.reducer, arguments.out + pieces.begin(piece),
                         arguments.in + own + pieces.begin(piece), length, [&](int rank) {
                           return node.staging(rank, pieces.staged_at(piece, group.rank()), length);
                         });
  }
}

template <Stores stores>
Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  const double others = shape.others_bytes();
  return core_cost(shape, model, chunk_count(shape.vector_bytes()) + 1,
                   stored<stores>({.parts = 2 * others,
                                   .reduce = others,
                                   .stream = shape.vector_bytes() + shape.block_bytes()}));
}

}  // namespace

extern constexpr Algorithm reduce_direct{Collective::reduce,
                                         "direct",
                                         fits_staging,
                                         reduce_cost<Stores::cached>,
                                         reduction<Collective::reduce, Stores::cached>,
                                         Bits::of_rank_order,
                                         staged_from_bytes,
                                         Stores::cached};
extern constexpr Algorithm reduce_direct_streamed{Collective::reduce,
                                                  "direct_streamed",
                                                  fits_staging,
                                                  reduce_cost<Stores::streaming>,
                                                  reduction<Collective::reduce, Stores::streaming>,
                                                  Bits::of_rank_order,
                                                  staged_from_bytes,
                                                  Stores::streaming};
extern constexpr Algorithm allreduce_direct{Collective::allreduce,
                                            "direct",
                                            fits_staging,
                                            allreduce_cost<Stores::cached>,
                                            reduction<Collective::allreduce, Stores::cached>,
                                            Bits::of_rank_order,
                                            staged_from_bytes,
                                            Stores::cached};
extern constexpr Algorithm allreduce_direct_streamed{
    Collective::allreduce,
    "direct_streamed",
    fits_staging,
    allreduce_cost<Stores::streaming>,
    reduction<Collective::allreduce, Stores::streaming>,
    Bits::of_rank_order,
    staged_from_bytes,
    Stores::streaming};
extern constexpr Algorithm reduce_scatter_direct{Collective::reduce_scatter,
                                                 "direct",
                                                 fits_staging,
                                                 reduce_scatter_cost<Stores::cached>,
                                                 reduce_scatter<Stores::cached>,
                                                 Bits::of_rank_order,
                                                 staged_from_bytes,
                                                 Stores::cached};
extern constexpr Algorithm reduce_scatter_direct_streamed{Collective::reduce_scatter,
                                                          "direct_streamed",
                                                          fits_staging,
                                                          reduce_scatter_cost<Stores::streaming>,
                                                          reduce_scatter<Stores::streaming>,
                                                          Bits::of_rank_order,
                                                          staged_from_bytes,
                                                          Stores::streaming};

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
// Double-buffered copies: who has something to give copies it into its staging in pieces, and
// whoever wants it copies it out from there; what lies in a Buffer is read where it lies. Only its
// owner touches private memory. A rank that only gives waits for nobody until its four buffers are
// full, and what it gives is cut so that shorter vectors fill them, too. Wins for long vectors on
// one node.
// Cost: private memory is copied twice, Buffers once; one step per piece. What lies between costs
// as if another core has it in its cache.
// double_buffered_streamed stages past the caches (node/stores.hpp).
// Source: the shared-memory broadcasts of Open MPI's coll/sm and MVAPICH2, with more buffers.
#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"
#include "collectives/node/stores.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// Says which pieces this rank has taken, where somebody waits for that: nobody does where all
// pieces fit the buffers.
class TakenSteps {
 public:
  TakenSteps(NodeOperation& node, const Pieces& pieces) noexcept
      : node_{node}, is_told_{!pieces.all_fit()} {}
  bool is_told() const noexcept { return is_told_; }
  void tell(std::size_t piece) noexcept {
    if (!is_told_) return;
    if (piece == 0) node_.publish_staged();
    else node_.advance(step_of(piece));
  }

 private:
  NodeOperation& node_;
  bool is_told_;
};

// Broadcast and scatter: the root stages the vector, or a piece of each block, at a time, and waits
// before it overwrites a buffer; the others tell how far they are.
template <Collective collective, Stores stores>
Task give_from_root(Group group, const Arguments& arguments) {
  constexpr bool is_scatter = collective == Collective::scatter;
  const int root = arguments.root;
  const int rank = group.rank();
  const std::size_t bytes = arguments.bytes();  // for each
  const std::byte* const vector = is_scatter ? arguments.in : arguments.out;
  const std::size_t all_bytes = is_scatter ? bytes * static_cast<std::size_t>(group.size()) : bytes;
  const int blocks = is_scatter ? group.size() : 1;
  const Pieces pieces{bytes, blocks, 1, four_filled_buffers(bytes, blocks)};
  const auto first_of = [&](int to) { return bytes * static_cast<std::size_t>(to); };
  NodeOperation node{group, rank == root ? pieces.staging_bytes() : 0};
  if (rank == root) {
    co_await node.own_slot();
    if (node.in_arena(vector, all_bytes)) {
      node.expose(vector, all_bytes);
      if (is_scatter) group.copy(arguments.out, vector + first_of(rank), bytes);
      co_await node.all(1);
      co_return;
    }
    for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
      if (piece >= pieces.buffers.count) co_await node.all(step_of(piece - pieces.buffers.count));
      const std::size_t length = pieces.length(piece);
      for (int block = 0; block < blocks; ++block) {
        if (is_scatter && block == rank) continue;
        stage_copy<stores>(group, node.staging(pieces.staged_at(piece, block)),
                           vector + first_of(block) + pieces.begin(piece), length);
      }
      if (piece == 0) node.publish_staged();
      else node.advance(step_of(piece));
    }
    if (is_scatter) group.copy(arguments.out, vector + first_of(rank), bytes);
    co_return;
  }
  co_await node.member(root, 1);
  if (node.is_in_arena(root)) {
    const std::size_t begin = is_scatter ? first_of(rank) : 0;
    group.copy(arguments.out, node.data_of(root, begin, bytes), bytes);
    if (node.is_revoked(root)) co_await node.failure_of(root);
    co_await node.own_slot();
    node.publish_staged();
    co_return;
  }
  TakenSteps taken{node, pieces};
  if (taken.is_told()) co_await node.own_slot();
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    co_await node.member(root, step_of(piece));
    const std::size_t length = pieces.length(piece);
    const std::size_t staged_at = pieces.staged_at(piece, is_scatter ? rank : 0);
    group.copy(arguments.out + pieces.begin(piece), node.staging(root, staged_at, length), length);
    taken.tell(piece);
  }
}

// The same the other way round.
template <Stores stores>
Task gather(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();  // of each
  const Pieces pieces{bytes, 1, 1, four_filled_buffers(bytes, 1)};
  const std::uint32_t last = step_of(pieces.count());
  NodeOperation node{group, group.rank() == root ? 0 : pieces.staging_bytes()};
  if (group.rank() != root) {
    co_await node.own_slot();
    if (node.in_arena(arguments.in, bytes)) {
      node.expose(arguments.in, bytes);
      co_await node.member(root, last);
      co_return;
    }
    for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
      if (piece >= pieces.buffers.count)
        co_await node.member(root, step_of(piece - pieces.buffers.count));
      stage_copy<stores>(group, node.staging(pieces.staged_at(piece)),
                         arguments.in + pieces.begin(piece), pieces.length(piece));
      if (piece == 0) node.publish_staged();
      else node.advance(step_of(piece));
    }
    co_return;
  }
  const auto target_of = [&](int from) {
    return arguments.out + arguments.out_blocks.first_bytes(from);
  };
  group.copy(target_of(root), arguments.in, bytes);
  TakenSteps taken{node, pieces};
  if (taken.is_told()) co_await node.own_slot();
  bool some_in_arena = false;
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    const std::size_t length = pieces.length(piece);
    for (int from = group.next(); from != root; from = group.after(from)) {
      co_await node.member(from, 1);
      if (!node.is_in_arena(from)) {
        co_await node.member(from, step_of(piece));
        group.copy(target_of(from) + pieces.begin(piece),
                   node.staging(from, pieces.staged_at(piece), length), length);
      } else if (piece == 0) {
        some_in_arena = true;
        group.copy(target_of(from), node.data_of(from, 0, bytes), bytes);
        if (node.is_revoked(from)) co_await node.failure_of(from);
      }
    }
    taken.tell(piece);
  }
  if (!some_in_arena) co_return;
  if (!taken.is_told()) {
    co_await node.own_slot();
    node.publish_staged();
  }
  node.advance(last);
}

// The root stages a piece while the others take the ones before.
template <Stores stores>
Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  return core_cost(
      shape, model, chunk_count(bytes), stored<stores>({.take = bytes, .stream = bytes}),
      stored<stores>({.give = std::min(bytes, double{node_chunk_bytes}) / 4, .stream = bytes}));
}

template <Stores stores>
Cost gather_cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return core_cost(shape, model, chunk_count(block),
                   stored<stores>({.give = block, .stream = block}),
                   stored<stores>({.take = shape.others_bytes(), .stream = shape.vector_bytes()}));
}

template <Stores stores>
Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return core_cost(shape, model, chunk_count(shape.vector_bytes()),
                   stored<stores>({.parts = block, .stream = block}),
                   stored<stores>({.give = shape.others_bytes(), .stream = shape.vector_bytes()}));
}

// Allgather and alltoall: every rank stages its vector, or a piece of each of its blocks, at a
// time, and takes of the others' what is for it. Members that gave Buffers are read at once, others
// piece by piece.
template <Collective collective, Stores stores>
Task take_blocks(Group group, const Arguments& arguments) {
  constexpr bool is_alltoall = collective == Collective::alltoall;
  const int rank = group.rank();
  const Blocks& blocks = arguments.out_blocks;
  const Blocks& in_blocks = arguments.in_blocks;
  const std::size_t in_bytes = is_alltoall ? in_blocks.bytes() : arguments.bytes();
  const Pieces pieces{blocks.longest_bytes(), is_alltoall ? group.size() : 1, 1, four_buffers};
  NodeOperation node{group, pieces.staging_bytes()};
  // What is for this rank, in a member's vector and among the pieces that it stages at once.
  const std::size_t begin = is_alltoall ? in_blocks.first_bytes(rank) : 0;
  const int staged_block = is_alltoall ? rank : 0;
  const auto give = [&](std::size_t piece) {
    if constexpr (is_alltoall) {
      for (int to = group.next(); to != group.rank(); to = group.after(to)) {
        stage_copy<stores>(group, node.staging(pieces.staged_at(piece, to)),
                           arguments.in + in_blocks.first_bytes(to) + pieces.begin(piece),
                           pieces.length(piece));
      }
    } else {
      stage_copy<stores>(group, node.staging(pieces.staged_at(piece)),
                         arguments.in + pieces.begin(piece), pieces.length(piece, in_bytes));
    }
  };
  const auto take = [&](int from, std::size_t piece) {
    const std::size_t length = pieces.length(piece, blocks.length_bytes(from));
    group.copy(arguments.out + blocks.first_bytes(from) + pieces.begin(piece),
               node.staging(from, pieces.staged_at(piece, staged_block), length), length);
  };

  group.copy(arguments.out + blocks.first_bytes(rank), arguments.in + begin,
             blocks.length_bytes(rank));
  co_await node.own_slot();
  const bool own_in_arena = node.in_arena(arguments.in, in_bytes);
  if (own_in_arena) {
    node.expose(arguments.in, in_bytes);
  } else {
    give(0);
    node.publish_staged();
  }
  bool some_staged = true;
  for (std::size_t piece = 0; piece < pieces.count() && some_staged; ++piece) {
    if (piece + 1 < pieces.count()) {
      if (!own_in_arena) give(piece + 1);
      node.advance(step_of(piece + 1));
    }
    some_staged = !own_in_arena;
    for (int from = group.next(); from != group.rank(); from = group.after(from)) {
      co_await node.member(from, step_of(piece));
      if (!node.is_in_arena(from)) {
        some_staged = true;
        take(from, piece);
      } else if (piece == 0) {
        const std::size_t bytes = blocks.length_bytes(from);
        group.copy(arguments.out + blocks.first_bytes(from), node.data_of(from, begin, bytes),
                   bytes);
        if (node.is_revoked(from)) co_await node.failure_of(from);
      }
    }
  }
  const std::uint32_t last = step_of(pieces.count());
  node.advance(last);
  if (own_in_arena) co_await node.all(last);  // others still read our Buffer
}

template <Stores stores>
Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return core_cost(shape, model, chunk_count(block) + 1,
                   stored<stores>({.keep = block,
                                   .give = block,
                                   .take = shape.others_bytes(),
                                   .stream = block + shape.vector_bytes()}));
}

template <Stores stores>
Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, chunk_count(shape.vector_bytes()) + 1,
                   stored<stores>({.keep = shape.block_bytes(),
                                   .parts = 2 * shape.others_bytes(),
                                   .stream = 2 * shape.vector_bytes()}));
}

}  // namespace

extern constexpr Algorithm broadcast_double_buffered{
    Collective::broadcast,
    "double_buffered",
    fits_staging,
    broadcast_cost<Stores::cached>,
    give_from_root<Collective::broadcast, Stores::cached>,
    Bits::its_own,
    staged_from_bytes,
    Stores::cached};
extern constexpr Algorithm broadcast_double_buffered_streamed{
    Collective::broadcast,
    "double_buffered_streamed",
    fits_staging,
    broadcast_cost<Stores::streaming>,
    give_from_root<Collective::broadcast, Stores::streaming>,
    Bits::its_own,
    staged_from_bytes,
    Stores::streaming};
extern constexpr Algorithm allgather_double_buffered{
    Collective::allgather,
    "double_buffered",
    fits_staging,
    allgather_cost<Stores::cached>,
    take_blocks<Collective::allgather, Stores::cached>,
    Bits::its_own,
    staged_from_bytes,
    Stores::cached};
extern constexpr Algorithm allgather_double_buffered_streamed{
    Collective::allgather,
    "double_buffered_streamed",
    fits_staging,
    allgather_cost<Stores::streaming>,
    take_blocks<Collective::allgather, Stores::streaming>,
    Bits::its_own,
    staged_from_bytes,
    Stores::streaming};
extern constexpr Algorithm gather_double_buffered{
    Collective::gather,     "double_buffered", fits_staging,      gather_cost<Stores::cached>,
    gather<Stores::cached>, Bits::its_own,     staged_from_bytes, Stores::cached};
extern constexpr Algorithm gather_double_buffered_streamed{Collective::gather,
                                                           "double_buffered_streamed",
                                                           fits_staging,
                                                           gather_cost<Stores::streaming>,
                                                           gather<Stores::streaming>,
                                                           Bits::its_own,
                                                           staged_from_bytes,
                                                           Stores::streaming};
extern constexpr Algorithm scatter_double_buffered{
    Collective::scatter,
    "double_buffered",
    fits_staging,
    scatter_cost<Stores::cached>,
    give_from_root<Collective::scatter, Stores::cached>,
    Bits::its_own,
    staged_from_bytes,
    Stores::cached};
extern constexpr Algorithm scatter_double_buffered_streamed{
    Collective::scatter,
    "double_buffered_streamed",
    fits_staging,
    scatter_cost<Stores::streaming>,
    give_from_root<Collective::scatter, Stores::streaming>,
    Bits::its_own,
    staged_from_bytes,
    Stores::streaming};
extern constexpr Algorithm alltoall_double_buffered{
    Collective::alltoall,
    "double_buffered",
    fits_staging,
    alltoall_cost<Stores::cached>,
    take_blocks<Collective::alltoall, Stores::cached>,
    Bits::its_own,
    staged_from_bytes,
    Stores::cached};
extern constexpr Algorithm alltoall_double_buffered_streamed{
    Collective::alltoall,
    "double_buffered_streamed",
    fits_staging,
    alltoall_cost<Stores::streaming>,
    take_blocks<Collective::alltoall, Stores::streaming>,
    Bits::its_own,
    staged_from_bytes,
    Stores::streaming};

}  // namespace qpmesh::collectives

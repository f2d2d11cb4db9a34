// Double-buffered copies: who has something to give copies it into its staging in pieces, and
// whoever wants it copies it out from there; what lies in a Buffer is read where it lies. Only its
// owner touches private memory. Wins for long vectors on one node.
// Cost: private memory is copied twice, Buffers once; one step per piece. What lies between costs
// as if another core has it in its cache.
// double_buffered_streamed stages past the caches (node/stores.hpp).
// Source: the shared-memory broadcasts of Open MPI's coll/sm and MVAPICH2, with two buffers.
#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"
#include "collectives/node/stores.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

std::uint32_t step_of(std::size_t piece) noexcept { return static_cast<std::uint32_t>(piece) + 1; }

// The root waits before it overwrites a buffer; readers tell how far they are.
template <Stores stores>
Task broadcast(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  const Pieces pieces{bytes, 1, 1};
  NodeOperation node{group, group.rank() == root ? pieces.staging_bytes() : 0};
  const auto publish = [&](std::size_t piece) {
    if (piece == 0) node.publish_staged();
    else node.advance(step_of(piece));
  };
  co_await node.own_slot();
  if (group.rank() == root) {
    if (node.in_arena(arguments.out, bytes)) {
      node.expose(arguments.out, bytes);
      co_await node.all(1);
      co_return;
    }
    for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
      if (piece >= 2) co_await node.all(step_of(piece - 2));
      stage_copy<stores>(group, node.staging(pieces.staged_at(piece)),
                         arguments.out + pieces.begin(piece), pieces.length(piece));
      publish(piece);
    }
    co_return;
  }
  co_await node.member(root, 1);
  if (node.is_in_arena(root)) {
    group.copy(arguments.out, node.data_of(root, 0, bytes), bytes);
    if (node.is_revoked(root)) co_await node.failure_of(root);
    node.publish_staged();
    co_return;
  }
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    co_await node.member(root, step_of(piece));
    const std::size_t length = pieces.length(piece);
    group.copy(arguments.out + pieces.begin(piece),
               node.staging(root, pieces.staged_at(piece), length), length);
    publish(piece);
  }
}

// The root stages a piece while the others take the one before.
template <Stores stores>
Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  return core_cost(
      shape, model, chunk_count(bytes), stored<stores>({.take = bytes, .stream = bytes}),
      stored<stores>({.give = std::min(bytes, double{node_chunk_bytes}), .stream = bytes}));
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
  const Pieces pieces{blocks.longest_bytes(), is_alltoall ? group.size() : 1, 1};
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
  bool some_staged = !own_in_arena;
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    co_await node.member(from, 1);
    if (node.is_in_arena(from)) {
      const std::size_t bytes = blocks.length_bytes(from);
      group.copy(arguments.out + blocks.first_bytes(from), node.data_of(from, begin, bytes), bytes);
      if (node.is_revoked(from)) co_await node.failure_of(from);
    } else {
      some_staged = true;
      take(from, 0);
    }
  }
  // Who has staged a piece has taken the one before from everybody: the buffer of that piece may be
  // written again.
  for (std::size_t piece = 1; piece < pieces.count() && some_staged; ++piece) {
    if (!own_in_arena) give(piece);
    node.advance(step_of(piece));
    for (int from = group.next(); from != group.rank(); from = group.after(from)) {
      co_await node.member(from, step_of(piece));
      if (!node.is_in_arena(from)) take(from, piece);
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

extern constexpr Algorithm broadcast_double_buffered{Collective::broadcast, "double_buffered",
                                                     fits_staging, broadcast_cost<Stores::cached>,
                                                     broadcast<Stores::cached>};
extern constexpr Algorithm broadcast_double_buffered_streamed{
    Collective::broadcast, "double_buffered_streamed", fits_staging,
    broadcast_cost<Stores::streaming>, broadcast<Stores::streaming>};
extern constexpr Algorithm allgather_double_buffered{
    Collective::allgather, "double_buffered", fits_staging, allgather_cost<Stores::cached>,
    take_blocks<Collective::allgather, Stores::cached>};
extern constexpr Algorithm allgather_double_buffered_streamed{
    Collective::allgather, "double_buffered_streamed", fits_staging,
    allgather_cost<Stores::streaming>, take_blocks<Collective::allgather, Stores::streaming>};
extern constexpr Algorithm alltoall_double_buffered{
    Collective::alltoall, "double_buffered", fits_staging, alltoall_cost<Stores::cached>,
    take_blocks<Collective::alltoall, Stores::cached>};
extern constexpr Algorithm alltoall_double_buffered_streamed{
    Collective::alltoall, "double_buffered_streamed", fits_staging,
    alltoall_cost<Stores::streaming>, take_blocks<Collective::alltoall, Stores::streaming>};

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
// One pass: every rank copies its vector once to where all can read it, waits, and reduces
// everybody's into its own result; there is no second step. In a reduce only the root reads. In
// rank order, ordered reductions included: the same bits on every rank, and those of one_shot and
// direct. Wins from some KiB to some MiB with few ranks on one node: it reads (N-1) S where direct
// reads 2 (N-1)/N S, but waits once where direct waits twice.
// The vector goes through staging in pieces, of which a rank stages some before it waits for the
// first one. What lies in a Buffer is read where it lies, but where it is in place: others may read
// it until the end. Others stage meanwhile, each as its own memory says.
// In a scan a rank reads those before it, and its own: the first one waits for nobody.
// one_pass_streamed stages past the caches (node/stores.hpp): other rows, the same bits.
// Cost per rank of an allreduce: S staged, N S read, S written; one line for each piece. Of a scan,
// the last rank's: as much, and nothing staged.
// Source: the shared-memory allreduces of inference servers (vLLM's and SGLang's for CPUs).
#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"
#include "collectives/node/stores.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// A step for each; all buffers together are half of the staging, so that the next operation need
// not wait for this one.
constexpr StagingBuffers pass_buffers{8, std::size_t{64} << 10};
// Staged before a rank waits for the first piece, in one step; then one more for each that it has
// read. Whoever has staged piece p has read all before p - 3, and before this rank stages piece
// p + 4 it has seen that: everybody has read piece p - 4, which was in that buffer.
constexpr std::size_t pass_ahead = pass_buffers.count / 2;
constexpr std::uint32_t pass_step(std::size_t piece) noexcept {
  return piece < pass_ahead ? 1 : static_cast<std::uint32_t>(piece - pass_ahead) + 2;
}

// The ranks share memory, and an element of each fits a piece.
bool fits(const CallShape& shape) {
  return fits_staging(shape) && shape.element_bytes <= pass_buffers.bytes;
}

// A part of a member's vector, where that lies.
const std::byte* part_of(const NodeOperation& node, int rank, std::size_t begin, std::size_t bytes,
                         std::size_t staged_at) {
  return node.is_in_arena(rank) ? node.data_of(rank, begin, bytes)
                                : node.staging(rank, staged_at, bytes);
}

// The same part of everybody's vector, combined.
void reduce_part(const Group& group, const NodeOperation& node, const Arguments& arguments,
                 std::size_t begin, std::size_t bytes, std::size_t staged_at) {
  reduce_in_rank_order(group, arguments.reducer, arguments.out + begin, arguments.in + begin, bytes,
                       [&](int rank) { return part_of(node, rank, begin, bytes, staged_at); });
}

template <Stores stores>
void stage_piece(const Group& group, const NodeOperation& node, const Arguments& arguments,
                 const Pieces& pieces, std::size_t piece) {
  stage_copy<stores>(group, node.staging(pieces.staged_at(piece)),
                     arguments.in + pieces.begin(piece), pieces.length(piece));
}

template <Stores stores>
Task allreduce(Group group, const Arguments& arguments) {
  const std::size_t bytes = arguments.bytes();
  const Pieces pieces{bytes, 1, arguments.element_bytes, pass_buffers};
  NodeOperation node{group, pieces.staging_bytes()};
  // Others read it while the result is written.
  const bool own_in_arena = arguments.in != arguments.out && node.in_arena(arguments.in, bytes);
  co_await node.own_slot();
  if (own_in_arena) {
    node.expose(arguments.in, bytes);
  } else {
    for (std::size_t piece = 0; piece < std::min(pieces.count(), pass_ahead); ++piece)
      stage_piece<stores>(group, node, arguments, pieces, piece);
    node.publish_staged();
  }
  co_await node.all(1);
  if (node.all_in_arena()) {
    reduce_part(group, node, arguments, 0, bytes, 0);
  } else {
    for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
      const std::size_t next = piece + pass_ahead - 1;
      if (piece > 0 && next < pieces.count()) {
        if (!own_in_arena) stage_piece<stores>(group, node, arguments, pieces, next);
        node.advance(pass_step(next));
      }
      if (piece >= pass_ahead) co_await node.all(pass_step(piece));
      reduce_part(group, node, arguments, pieces.begin(piece), pieces.length(piece),
                  pieces.staged_at(piece));
    }
  }
  if (node.none_in_arena()) co_return;
  co_await node.none_revoked();
  // A step of its own also where there are few pieces: who has come to it has read all.
  const std::uint32_t last = pass_step(std::max(pieces.count(), pass_ahead));
  node.advance(last);
  if (own_in_arena) co_await node.all(last);
}

template <Stores stores>
Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return core_cost(
      shape, model, chunk_count(bytes),
      stored<stores>({.give = bytes, .take = others, .reduce = others, .stream = 2 * bytes}));
}

// Only the root reads: it says how far it has come to those that fill a buffer again, or wait until
// it has read their Buffer. The others go on while the root has still to come.
template <Stores stores>
Task reduce(Group group, const Arguments& arguments) {
  const int root = arguments.root;
  const bool is_root = group.rank() == root;
  const std::size_t bytes = arguments.bytes();
  const Pieces pieces{bytes, 1, arguments.element_bytes, pass_buffers};
  NodeOperation node{group, is_root ? 0 : pieces.staging_bytes()};
  co_await node.own_slot();
  if (!is_root) {
    if (node.in_arena(arguments.in, bytes)) {
      node.expose(arguments.in, bytes);
      co_await node.member(root, step_of(pieces.count() - 1));
      co_return;
    }
    for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
      if (piece >= pieces.buffers.count)
        co_await node.member(root, step_of(piece - pieces.buffers.count));
      stage_piece<stores>(group, node, arguments, pieces, piece);
      if (piece == 0) node.publish_staged();
      else node.advance(step_of(piece));
    }
    co_return;
  }
  co_await node.all(1);
  const bool is_awaited = !pieces.all_fit() || !node.none_in_arena();
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    for (int from = group.next(); piece > 0 && from != root; from = group.after(from)) {
      if (!node.is_in_arena(from)) co_await node.member(from, step_of(piece));
    }
    reduce_part(group, node, arguments, pieces.begin(piece), pieces.length(piece),
                pieces.staged_at(piece));
    if (!is_awaited) continue;
    if (piece == 0) node.publish({});
    else node.advance(step_of(piece));
  }
  co_await node.none_revoked();
}

template <Stores stores>
Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return core_cost(shape, model, chunk_count(bytes),
                   stored<stores>({.give = bytes, .stream = bytes}),
                   stored<stores>({.take = others, .reduce = others, .stream = bytes}));
}

// The ranks share memory, and an element fits the shortest piece. Of many ranks the last one would
// read too many long vectors.
bool fits_scan(const CallShape& shape) {
  constexpr int ranks_max = 16;
  return fits_staging(shape) && shape.element_bytes <= node_piece_bytes_min &&
         (shape.size <= ranks_max || shape.bytes <= node_piece_bytes_min);
}

// A piece of the vectors of the ranks before, and of this rank's own, combined.
template <bool is_exclusive>
void reduce_part_before(const Group& group, const NodeOperation& node, const Arguments& arguments,
                        const Pieces& pieces, std::size_t piece) {
  const std::size_t begin = pieces.begin(piece);
  const std::size_t bytes = pieces.length(piece);
  reduce_before(group, arguments.reducer, arguments.out + begin,
                is_exclusive ? nullptr : arguments.in + begin, bytes, [&](int rank) {
                  return part_of(node, rank, begin, bytes, pieces.staged_at(piece));
                });
}

bool some_before_in_arena(const Group& group, const NodeOperation& node) {
  for (int rank = 0; rank < group.rank(); ++rank) {
    if (node.is_in_arena(rank)) return true;
  }
  return false;
}

// A rank's step p + 1 says that its piece p is there, and that it has read the pieces before p of
// all ranks before it: those may fill that buffer again.
template <Stores stores, Collective collective>
Task scan(Group group, const Arguments& arguments) {
  const int rank = group.rank();
  const int behind = rank + 1;  // from there on, ranks read ours
  const bool gives = behind < group.size();
  const std::size_t bytes = arguments.bytes();
  constexpr bool is_exclusive = collective == Collective::exscan;
  const Pieces pieces{bytes, 1, arguments.element_bytes, four_filled_buffers(bytes, 1)};
  const std::uint32_t last = step_of(pieces.count());
  NodeOperation node{group, gives ? pieces.staging_bytes() : 0};
  // Others read it while the result is written.
  const bool own_in_arena = gives && bytes > node_piece_bytes_min &&
                            arguments.in != arguments.out && node.in_arena(arguments.in, bytes);
  const bool is_awaited = !pieces.all_fit();  // by those before, to read
  if (gives || is_awaited) co_await node.own_slot();
  for (std::size_t piece = 0; piece < pieces.count(); ++piece) {
    if (gives && !own_in_arena && piece >= pieces.buffers.count)
      co_await node.members({behind, group.size()}, step_of(piece - pieces.buffers.count + 1));
    if (gives && !own_in_arena) stage_piece<stores>(group, node, arguments, pieces, piece);
    if (piece > 0) {
      if (gives || is_awaited) node.advance(step_of(piece));
    } else if (own_in_arena) {
      node.expose(arguments.in, bytes);
    } else if (gives || is_awaited) {
      node.publish_staged();
    }
    if (rank == 0) {
      if (!is_exclusive) {
        group.copy(arguments.out + pieces.begin(piece), arguments.in + pieces.begin(piece),
                   pieces.length(piece));
      }
      continue;
    }
    co_await node.members({0, rank}, step_of(piece));
    reduce_part_before<is_exclusive>(group, node, arguments, pieces, piece);
  }
  const bool read_buffers = some_before_in_arena(group, node);
  if (read_buffers) co_await node.none_revoked();
  if (read_buffers && !gives && !is_awaited) {
    co_await node.own_slot();
    node.publish_staged();
  }
  if (read_buffers || is_awaited) node.advance(last);
  if (own_in_arena) co_await node.members({behind, group.size()}, last);
}

// Of the last rank, which all wait for that call again.
template <Stores stores>
Cost scan_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return core_cost(shape, model, 1, stored<stores>({.give = bytes, .stream = 2 * bytes}),
                   stored<stores>({.take = others, .reduce = others}));
}

}  // namespace

extern constexpr Algorithm reduce_one_pass{Collective::reduce,
                                           "one_pass",
                                           fits,
                                           reduce_cost<Stores::cached>,
                                           reduce<Stores::cached>,
                                           Bits::of_rank_order,
                                           staged_from_bytes,
                                           Stores::cached};
extern constexpr Algorithm reduce_one_pass_streamed{Collective::reduce,
                                                    "one_pass_streamed",
                                                    fits,
                                                    reduce_cost<Stores::streaming>,
                                                    reduce<Stores::streaming>,
                                                    Bits::of_rank_order,
                                                    staged_from_bytes,
                                                    Stores::streaming};
extern constexpr Algorithm allreduce_one_pass{Collective::allreduce,
                                              "one_pass",
                                              fits,
                                              allreduce_cost<Stores::cached>,
                                              allreduce<Stores::cached>,
                                              Bits::of_rank_order,
                                              staged_from_bytes,
                                              Stores::cached};
extern constexpr Algorithm allreduce_one_pass_streamed{Collective::allreduce,
                                                       "one_pass_streamed",
                                                       fits,
                                                       allreduce_cost<Stores::streaming>,
                                                       allreduce<Stores::streaming>,
                                                       Bits::of_rank_order,
                                                       staged_from_bytes,
                                                       Stores::streaming};
extern constexpr Algorithm scan_one_pass{Collective::scan,
                                         "one_pass",
                                         fits_scan,
                                         scan_cost<Stores::cached>,
                                         scan<Stores::cached, Collective::scan>,
                                         Bits::of_rank_order,
                                         staged_from_bytes,
                                         Stores::cached};
extern constexpr Algorithm scan_one_pass_streamed{Collective::scan,
                                                  "one_pass_streamed",
                                                  fits_scan,
                                                  scan_cost<Stores::streaming>,
                                                  scan<Stores::streaming, Collective::scan>,
                                                  Bits::of_rank_order,
                                                  staged_from_bytes,
                                                  Stores::streaming};
extern constexpr Algorithm exscan_one_pass{Collective::exscan,
                                           "one_pass",
                                           fits_scan,
                                           scan_cost<Stores::cached>,
                                           scan<Stores::cached, Collective::exscan>,
                                           Bits::of_rank_order,
                                           staged_from_bytes,
                                           Stores::cached};
extern constexpr Algorithm exscan_one_pass_streamed{Collective::exscan,
                                                    "one_pass_streamed",
                                                    fits_scan,
                                                    scan_cost<Stores::streaming>,
                                                    scan<Stores::streaming, Collective::exscan>,
                                                    Bits::of_rank_order,
                                                    staged_from_bytes,
                                                    Stores::streaming};

}  // namespace qpmesh::collectives

// Staged copies: who has something to give copies it into its staging in chunks, and whoever wants it copies it out from there; what lies in
// a Buffer is read where it lies. Only its owner touches private memory.
// Wins for long vectors on one node.
// Cost: private memory is copied twice, Buffers once; one step per chunk. What lies between costs as if another core has it in its cache.
// Source: the shared-memory broadcasts of Open MPI's coll/sm and MVAPICH2, with two buffers.
#include "collectives/node/node.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {

// The root waits before it overwrites a buffer; readers tell how far they are.
Task broadcast_staged(Group group, const Arguments& arguments) {
  NodeOperation node{group, Staging::needed};
  const int root = arguments.root;
  const std::size_t bytes = arguments.bytes();
  const Chunks chunks{bytes};
  const auto chunk_step = [](std::size_t chunk) { return static_cast<std::uint32_t>(chunk) + 1; };
  co_await node.own_slot();
  co_await node.own_staging();
  if (group.rank() == root) {
    if (node.in_arena(arguments.out, bytes)) {
      node.publish_in_place(arguments.out, bytes);
      co_await node.all(1);
      co_return;
    }
    for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
      if (chunk >= 2) co_await node.all(chunk_step(chunk - 2));
      group.copy(node.staging(chunk), arguments.out + chunks.begin(chunk), chunks.length(chunk));
      if (chunk == 0) node.publish_staged();
      else node.advance(chunk_step(chunk));
    }
    co_return;
  }
  co_await node.member(root, 1);
  if (node.is_direct(root)) {
    group.copy(arguments.out, node.data_of(root, 0, bytes), bytes);
    if (node.is_withdrawn(root)) co_await node.failure_of(root);
    node.publish_staged();
    co_return;
  }
  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    co_await node.member(root, chunk_step(chunk));
    group.copy(arguments.out + chunks.begin(chunk), node.staging(root, chunk), chunks.length(chunk));
    if (chunk == 0) node.publish_staged();
    else node.advance(chunk_step(chunk));
  }
}

namespace {

// Allgather and alltoall: every rank gives, and takes from every other one. mine is what this rank gives, give(n) stages the n-th part of it;
// take(from, n) copies that part of a member's out of its staging, take_all(from) all of it out of its Buffer. Members that gave
// Buffers are read at once, others part by part.
template <class Give, class Take, class TakeAll>
Task exchange_staged(Group group, NodeOperation& node, std::span<const std::byte> mine, std::size_t parts,
                     Give give, Take take, TakeAll take_all) {
  const int size = group.size();
  co_await node.own_slot();
  co_await node.own_staging();
  const bool direct = node.in_arena(mine.data(), mine.size());
  if (direct) {
    node.publish_in_place(mine.data(), mine.size());
  } else {
    give(0);
    node.publish_staged();
  }
  bool some_staged = !direct;
  for (int distance = 1; distance < size; ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    if (node.is_direct(from)) {
      take_all(from);
      if (node.is_withdrawn(from)) co_await node.failure_of(from);
    } else {
      some_staged = true;
      take(from, 0);
    }
  }
  // Who has staged a part has taken the one before from everybody: the buffer of that part may be written again.
  for (std::size_t part = 1; part < parts && some_staged; ++part) {
    const auto step = static_cast<std::uint32_t>(part) + 1;
    if (!direct) give(part);
    node.advance(step);
    for (int distance = 1; distance < size; ++distance) {
      const int from = group.plus(distance);
      co_await node.member(from, step);
      if (!node.is_direct(from)) take(from, part);
    }
  }
  if (direct) {  // others still read our Buffer
    const auto last = static_cast<std::uint32_t>(parts) + 1;
    node.advance(last);
    co_await node.all(last);
  } else {
    node.advance(static_cast<std::uint32_t>(parts) + 1);
  }
}

}  // namespace

Task allgather_staged(Group group, const Arguments& arguments) {
  NodeOperation node{group, Staging::needed};
  const Blocks& blocks = arguments.out_blocks;
  const Pieces parts{blocks, 1};
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  co_await exchange_staged(
      group, node, {arguments.in, arguments.bytes()}, parts.count(),
      [&](std::size_t part) {
        group.copy(node.staging(part), arguments.in + parts.begin(part),
                   parts.length(part, arguments.bytes()));
      },
      [&](int from, std::size_t part) {
        group.copy(arguments.out + blocks.first_bytes(from) + parts.begin(part), node.staging(from, part),
                   parts.length(part, blocks.length_bytes(from)));
      },
      [&](int from) {
        const std::size_t bytes = blocks.length_bytes(from);
        group.copy(arguments.out + blocks.first_bytes(from), node.data_of(from, 0, bytes), bytes);
      });
}

Task alltoall_staged(Group group, const Arguments& arguments) {
  NodeOperation node{group, Staging::needed};
  const Blocks& blocks = arguments.in_blocks;
  const int rank = group.rank();
  const std::size_t block_bytes = blocks.length_bytes(0);
  const Pieces pieces{blocks, group.size()};
  group.copy(arguments.out + blocks.first_bytes(rank), arguments.in + blocks.first_bytes(rank), block_bytes);
  co_await exchange_staged(
      group, node, {arguments.in, blocks.bytes()}, pieces.count(),
      [&](std::size_t piece) {
        for (int distance = 1; distance < group.size(); ++distance) {
          const int to = group.plus(distance);
          group.copy(node.staging(piece) + pieces.place(to),
                     arguments.in + blocks.first_bytes(to) + pieces.begin(piece),
                     pieces.length(piece, block_bytes));
        }
      },
      [&](int from, std::size_t piece) {
        group.copy(arguments.out + blocks.first_bytes(from) + pieces.begin(piece),
                   node.staging(from, piece) + pieces.place(rank), pieces.length(piece, block_bytes));
      },
      [&](int from) {
        group.copy(arguments.out + blocks.first_bytes(from),
                   node.data_of(from, blocks.first_bytes(rank), block_bytes), block_bytes);
      });
}

bool fits_staging(const Shape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes > 0 && shape.element_bytes * shape.ranks_count() <= node_chunk_bytes;
}

// The root stages a chunk while the others take the one before.
Cost broadcast_staged_cost(const Shape& shape, const Model& model) {
  const double bytes = shape.vector_bytes();
  return CoreWork{shape, model}
      .steps(chunk_count(bytes))
      .give_alone(std::min(bytes, double{node_chunk_bytes}))
      .take(bytes)
      .stream_alone(bytes)
      .stream(bytes)
      .cost();
}

Cost allgather_staged_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(chunk_count(block) + 1)
      .keep(block)
      .give(block)
      .take(shape.vector_bytes() - block)
      .stream(block + shape.vector_bytes())
      .cost();
}

Cost alltoall_staged_cost(const Shape& shape, const Model& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}
      .steps(chunk_count(shape.vector_bytes()) + 1)
      .keep(block)
      .give_parts(others)
      .take_parts(others)
      .stream(2 * shape.vector_bytes())
      .cost();
}

}  // namespace qpmesh::collectives

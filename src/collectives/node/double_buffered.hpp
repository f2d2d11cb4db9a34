// Double-buffered copies: who has something to give copies it into its staging in chunks, and
// whoever wants it copies it out from there; what lies in a Buffer is read where it lies. Only its
// owner touches private memory. Wins for long vectors on one node. Cost: private memory is copied
// twice, Buffers once; one step per chunk. What lies between costs as if another core has it in its
// cache. Source: the shared-memory broadcasts of Open MPI's coll/sm and MVAPICH2, with two buffers.
#pragma once

#include <span>

#include "collectives/cost.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/pieces.hpp"

namespace qpmesh::collectives {

// Allgather and alltoall: every rank gives, and takes from every other one. mine is what this rank
// gives, give(n) stages the n-th part of it; take(from, n) copies that part of a member's out of
// its staging, take_all(from) all of it out of its Buffer. Members that gave Buffers are read at
// once, others part by part.
template <class Give, class Take, class TakeAll>
Task double_buffered_all_pairs(Group group, NodeOperation& node, std::span<const std::byte> mine,
                               std::size_t parts, Give give, Take take, TakeAll take_all) {
  const int size = group.size();
  co_await node.own_slot();
  co_await node.own_staging();
  const bool own_in_arena = node.in_arena(mine.data(), mine.size());
  if (own_in_arena) {
    node.publish_in_place(mine.data(), mine.size());
  } else {
    give(0);
    node.publish_staged();
  }
  bool some_staged = !own_in_arena;
  for (int distance = 1; distance < size; ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    if (node.is_in_arena(from)) {
      take_all(from);
      if (node.is_withdrawn(from)) co_await node.failure_of(from);
    } else {
      some_staged = true;
      take(from, 0);
    }
  }
  // Who has staged a part has taken the one before from everybody: the buffer of that part may be
  // written again.
  for (std::size_t part = 1; part < parts && some_staged; ++part) {
    const auto step = static_cast<std::uint32_t>(part) + 1;
    if (!own_in_arena) give(part);
    node.advance(step);
    for (int distance = 1; distance < size; ++distance) {
      const int from = group.plus(distance);
      co_await node.member(from, step);
      if (!node.is_in_arena(from)) take(from, part);
    }
  }
  if (own_in_arena) {  // others still read our Buffer
    const auto last = static_cast<std::uint32_t>(parts) + 1;
    node.advance(last);
    co_await node.all(last);
  } else {
    node.advance(static_cast<std::uint32_t>(parts) + 1);
  }
}

}  // namespace qpmesh::collectives

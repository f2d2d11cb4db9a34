// SPDX-License-Identifier: MIT
#include "calls/gather_values.hpp"

#include "calls/pending_operation.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::calls {

Gathering gathering_of_all(const context::CommunicatorState& state, std::span<const std::byte> mine,
                           std::span<std::byte> out) {
  collectives::Arguments arguments;
  arguments.in = mine.data();
  arguments.out = out.data();
  arguments.element_count = mine.size();
  arguments.element_bytes = 1;
  arguments.out_blocks = collectives::even_blocks(out.size(), state.size());
  collectives::CallShape shape = state.shape();
  shape.bytes = out.size();
  return {.algorithm = collectives::allgather_one_shot.applies(shape)
                           ? &collectives::allgather_one_shot
                           : &collectives::allgather_circulant,
          .arguments = arguments};
}

std::vector<std::byte> gather_of_all(const std::shared_ptr<context::CommunicatorState>& state,
                                     const context::CollectiveCall& what,
                                     std::span<const std::byte> mine, const CallOptions& options) {
  const CallScope scope{*state, what.operation.text, options};
  std::vector<std::byte> blocks(mine.size() * static_cast<std::size_t>(state->size()));
  PendingOperation request{*state, what.operation.text, options};
  const collectives::Group group = state->begin(what);
  const Gathering gathering = gathering_of_all(*state, mine, blocks);
  start_algorithm(request, group, *gathering.algorithm, gathering.arguments);
  finish_waiting(request);
  return blocks;
}

}  // namespace qpmesh::calls

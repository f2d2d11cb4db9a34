#include "calls/gather_values.hpp"

#include "calls/pending_operation.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::calls {

std::vector<std::byte> gather_of_all(const std::shared_ptr<context::CommunicatorState>& state,
                                     const context::CollectiveCall& what,
                                     std::span<const std::byte> mine, const CallOptions& options) {
  const CallScope scope{*state, what.operation.text, options};
  std::vector<std::byte> blocks(mine.size() * static_cast<std::size_t>(state->size()));
  PendingOperation request{*state, what.operation.text, options};
  const collectives::Group group = state->begin(what);
  collectives::Arguments arguments;
  arguments.in = mine.data();
  arguments.out = blocks.data();
  arguments.element_count = mine.size();
  arguments.element_bytes = 1;
  arguments.out_blocks = collectives::even_blocks(blocks.size(), state->size());
  collectives::CallShape shape = state->shape();
  shape.bytes = blocks.size();
  const collectives::Algorithm& algorithm = collectives::allgather_one_shot.applies(shape)
                                                ? collectives::allgather_one_shot
                                                : collectives::allgather_circulant;
  start_algorithm(request, group, algorithm, arguments);
  finish_waiting(request);
  return blocks;
}

}  // namespace qpmesh::calls

// Double-buffered: the root copies the vector into its staging chunk by chunk, and waits before it
// overwrites a buffer; readers tell how far they are. See node/double_buffered.hpp.
#include "collectives/node/double_buffered.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// The root waits before it overwrites a buffer; readers tell how far they are.
Task run(Group group, const Arguments& arguments) {
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
  if (node.is_in_arena(root)) {
    group.copy(arguments.out, node.data_of(root, 0, bytes), bytes);
    if (node.is_withdrawn(root)) co_await node.failure_of(root);
    node.publish_staged();
    co_return;
  }
  for (std::size_t chunk = 0; chunk < chunks.count(); ++chunk) {
    co_await node.member(root, chunk_step(chunk));
    group.copy(arguments.out + chunks.begin(chunk), node.staging(root, chunk),
               chunks.length(chunk));
    if (chunk == 0) node.publish_staged();
    else node.advance(chunk_step(chunk));
  }
}

// The root stages a chunk while the others take the one before.
Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  return CoreWork{shape, model}
      .steps(chunk_count(bytes))
      .give_alone(std::min(bytes, double{node_chunk_bytes}))
      .take(bytes)
      .stream_alone(bytes)
      .stream(bytes)
      .cost();
}

}  // namespace

extern constexpr Algorithm broadcast_double_buffered{Collective::broadcast, "double_buffered",
                                                     fits_staging, cost, run};

}  // namespace qpmesh::collectives

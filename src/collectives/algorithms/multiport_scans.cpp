// Scans by multiport: each node tells those behind it what it comes to, in one round of few
// messages from each rank. On the node the ranks tell each other their vectors before it, and
// behind it what the nodes of their shares come to, and each combines those that come before it.
// Wins for small vectors on many nodes of many ranks, where leaders take log2 nodes rounds. Costs:
// two allgathers on the node, and a round. Nobody waits for a node behind its own.
// Operands are combined in the order of the ranks, those of a share first.
// Sources: those of multiport.cpp.
#include "collectives/algorithms/ports.hpp"

namespace qpmesh::collectives {
namespace {

// Vectors of the ranks of this node, one behind another.
struct NodeVectors {
  NodeVectors(const Group& group, const Arguments& arguments)
      : ranks{group.hierarchy().node_ranks()},
        bytes{arguments.bytes()},
        blocks{even_blocks(static_cast<std::size_t>(ranks) * arguments.element_count, ranks,
                           arguments.element_bytes)},
        memory{group, blocks.bytes()} {}
  std::byte* of(int rank) const noexcept {
    return memory.data() + static_cast<std::size_t>(rank) * bytes;
  }

  int ranks;
  std::size_t bytes;  // of one
  Blocks blocks;
  Scratch memory;
};

// inclusive: a scan, otherwise an exscan.
Task prefix(Group group, const Arguments& arguments, bool inclusive) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const int own = levels.node();
  if (levels.is_first_node()) ports.after.leave();
  const NodeVectors here{group, arguments};
  const std::size_t bytes = here.bytes;
  // Pointers to operands: of all ranks here, and of each of their shares.
  const Numbers<const std::byte*> operands{2 * static_cast<std::size_t>(here.ranks)};
  std::size_t count = 0;
  const auto add = [&](const std::byte* operand) { operands.data()[count++] = operand; };
  const auto combine_to = [&](std::byte* target) {
    group.reduce(arguments.reducer, target, {operands.data(), count}, bytes);
    count = 0;
  };

  Arguments part = arguments;
  part.out = here.memory.data();
  part.out_blocks = here.blocks;
  co_await ports.before.pass();
  co_await levels.before(group, Collective::allgather, here.blocks.bytes(), part);

  const Scratch sum{group, ports.end() > own + 1 ? bytes : 0};  // of this node, for those behind it
  if (sum.data() != nullptr) {
    for (int rank = 0; rank < here.ranks; ++rank) add(here.of(rank));
    combine_to(sum.data());
  }
  const ShareVectors arrived{group, ports, bytes};
  const auto sum_here = [&](int /*node*/) { return std::span<const std::byte>{sum.data(), bytes}; };
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await tell_nodes_behind(group, ports, sum_here, vector_of);

  const NodeVectors before{group, arguments};  // what the nodes of each share come to
  int shares = 0;                              // that have a node before this one
  if (!levels.is_first_node()) {
    for (int node = ports.first(); node < std::min(own, ports.end()); ++node)
      add(arrived.of(node).data());
    if (count > 0) {
      combine_to(arrived.of(ports.first()).data());
      part.in = arrived.of(ports.first()).data();
    }  // otherwise its own vector, which nobody looks at
    part.out = before.memory.data();
    co_await ports.after.pass();
    co_await levels.after(group, Collective::allgather, before.blocks.bytes(), part);
    shares = ports.to(own - 1) + 1;
  }
  for (int share = 0; share < shares; ++share) add(before.of(share));
  for (int rank = 0; rank < levels.index() + (inclusive ? 1 : 0); ++rank) add(here.of(rank));
  if (count > 0) combine_to(arguments.out);
}

Task scan(Group group, const Arguments& arguments) { return prefix(group, arguments, true); }
Task exscan(Group group, const Arguments& arguments) { return prefix(group, arguments, false); }

// Combined one after another: a node, its part of a share elsewhere, and of the last rank all that
// come before it and, of a scan, its own vector.
Cost prefix_cost(const CallShape& shape, const CostModel& model, double own_vectors) {
  const PartCost part{shape, model};
  const double bytes = shape.vector_bytes();
  const int ranks = shape.levels.node_ranks_max;
  const int shares = std::min(shape.levels.nodes - 1, shape.levels.node_ranks_min);
  const Cost on_node = part.on_node(Collective::allgather, ranks * bytes);
  Cost cost = on_node;
  cost += exchange_cost(shape, part, bytes);
  cost += on_node;
  const double combined = 2.0 * (ranks - 1) + share_nodes(shape) - 1 + shares - 1 + own_vectors;
  cost.time_s += combined * bytes * model.reduced_byte_s;
  return cost;
}
Cost scan_cost(const CallShape& shape, const CostModel& model) {
  return prefix_cost(shape, model, 1);
}
Cost exscan_cost(const CallShape& shape, const CostModel& model) {
  return prefix_cost(shape, model, 0);
}

}  // namespace

extern constexpr Algorithm scan_multiport{Collective::scan, "multiport", has_levels_in_order,
                                          scan_cost, scan};
extern constexpr Algorithm exscan_multiport{Collective::exscan, "multiport", has_levels_in_order,
                                            exscan_cost, exscan};

}  // namespace qpmesh::collectives

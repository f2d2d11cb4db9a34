// SPDX-License-Identifier: MIT
// Lanes: ranks of equal index on all nodes are a lane, and every lane does its share of the vector
// between the nodes at the same time; on the nodes it is cut and put together. No byte crosses the
// network more often than by leaders, and every rank works on it. Every part is a row of its own,
// for fewer ranks (hierarchy.hpp).
// Wins for long vectors on several nodes. Costs are the sums of the parts'. A long vector of
// a broadcast, reduce, allreduce or scan goes in pieces, of which some are on the nodes while one
// is between them: all but the first cost the longer one of the two. There are as many lanes as the
// node with the fewest ranks has. Blocks of each rank need nodes with equally many. Operands are
// combined node by node: every rank has the same bits, and rank order is kept where the ranks of
// each node follow one another. Sources: J. L. Träff, "Decomposing collectives for exploiting
// multi-lane communication", 2019; UCC cl/hier.
#include "collectives/hierarchy.hpp"

namespace qpmesh::collectives {
namespace {

// ---- vectors: each lane has a slice ----

// By rank of a node: those without a lane have none.
struct Slices {
  Slices(const Group& group, const Arguments& arguments)
      : levels{group.hierarchy()},
        listed{levels.node_ranks(), arguments.element_bytes, [&](int index) {
                 const Blocks even = even_blocks(arguments.element_count, levels.lanes());
                 return index < levels.lanes() ? even.length(index) : 0;
               }} {}

  const Blocks& all() const noexcept { return listed.blocks(); }
  std::size_t first_bytes() const noexcept { return all().first_bytes(levels.index()); }
  std::size_t length() const noexcept { return all().length(levels.index()); }
  std::size_t bytes() const noexcept { return all().length_bytes(levels.index()); }
  bool differ() const noexcept {
    return levels.node_ranks() != levels.lanes() ||
           all().length(0) != all().length(levels.lanes() - 1);
  }

  Hierarchy& levels;
  ListedBlocks listed;
};

// The slice of a call of this rank's lane, in place.
Arguments in_lane(const Arguments& arguments, const Slices& slices, std::byte* slice) {
  Arguments part = arguments;
  part.in = part.out = slice;
  part.element_count = slices.length();
  return part;
}

// Until the vector is whole on this node, whose ranks have their slices in it.
Task put_together(Group group, const Arguments& arguments, const Slices& slices, Ticket& after) {
  Arguments part = in_lane(arguments, slices, arguments.out + slices.first_bytes());
  part.out = arguments.out;
  part.out_blocks = slices.all();
  co_await turn(group, after);
  co_await slices.levels.after(group, Collective::allgather, slices.all().bytes(), part);
  after.leave();
}

double slice_bytes(const CallShape& shape) {
  return shape.vector_bytes() / shape.levels.node_ranks_min;
}

// A call on each node, one in each lane, and another one on each node.
Cost cost_of(const CallShape& shape, const CostModel& model, Collective first, Collective between,
             Collective last) {
  const PartCost part{shape, model};
  const int lanes = shape.levels.node_ranks_min;
  return part.in_pieces([&](double bytes, int pieces) {
    Cost on_node = part.on_node(first, bytes);
    on_node += part.on_node(last, bytes);
    return PartCost::Both{on_node, part.between_nodes(between, bytes / lanes, lanes, pieces)};
  });
}

Task broadcast_piece(Group group, const Arguments& arguments, std::size_t pieces) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const Slices slices{group, arguments};
  const int root_node = levels.placement().node_of(arguments.root);
  const bool on_root_node = levels.node() == root_node;
  if (on_root_node) {
    after.leave();
    Arguments on_node = arguments;
    on_node.root = levels.placement().index_of(arguments.root);
    co_await turn(group, before);
    co_await levels.before(group, Collective::broadcast, arguments.bytes(), on_node);
    before.leave();
  } else {
    before.leave();
  }
  if (slices.bytes() > 0) {
    Arguments part = in_lane(arguments, slices, arguments.out + slices.first_bytes());
    part.root = root_node;
    co_await levels.lane(group, Collective::broadcast, pieces * slices.bytes(), part);
  }
  if (!on_root_node) co_await put_together(group, arguments, slices, after);
}

Task broadcast(Group group, const Arguments& arguments) {
  return group.hierarchy().in_pieces(group, arguments, broadcast_piece);
}

// On the root's node a piece is handed out while on others one is put together.
Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  return cost_of(shape, model, Collective::broadcast, Collective::broadcast, Collective::allgather);
}

// Of each rank with a lane: the sum of its slice on this node.
Task reduce_slices(Group group, const Arguments& arguments, const Slices& slices, std::byte* slice,
                   Ticket& before) {
  Arguments part = arguments;
  part.in_blocks = slices.all();
  part.out = slice;
  part.element_count = slices.length();
  co_await turn(group, before);
  co_await slices.levels.before(group, Collective::reduce_scatter, slices.all().bytes(), part);
  before.leave();
}

Task reduce_piece(Group group, const Arguments& arguments, std::size_t pieces) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const Slices slices{group, arguments};
  const int root_node = levels.placement().node_of(arguments.root);
  if (levels.node() != root_node) after.leave();
  const bool is_root = group.rank() == arguments.root;
  const Scratch sums{group, is_root ? 0 : slices.bytes()};
  std::byte* const slice = is_root ? arguments.out + slices.first_bytes() : sums.data();
  co_await reduce_slices(group, arguments, slices, slice, before);
  Arguments part = in_lane(arguments, slices, slice);
  if (slices.bytes() > 0) {
    part.root = root_node;
    co_await levels.lane(group, Collective::reduce, pieces * slices.bytes(), part);
  }
  if (levels.node() != root_node) co_return;
  part.root = levels.placement().index_of(arguments.root);
  part.out = arguments.out;
  part.out_blocks = slices.all();
  co_await turn(group, after);
  co_await levels.after(group, Collective::gather, slices.all().bytes(), part, slices.differ());
  after.leave();
}

Task reduce(Group group, const Arguments& arguments) {
  return group.hierarchy().in_pieces(group, arguments, reduce_piece);
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  return cost_of(shape, model, Collective::reduce_scatter, Collective::reduce, Collective::gather);
}

Task allreduce_piece(Group group, const Arguments& arguments, std::size_t pieces) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const Slices slices{group, arguments};
  std::byte* const slice = arguments.out + slices.first_bytes();
  co_await reduce_slices(group, arguments, slices, slice, before);
  if (slices.bytes() > 0) {
    const Arguments part = in_lane(arguments, slices, slice);
    co_await levels.lane(group, Collective::allreduce, pieces * slices.bytes(), part);
  }
  co_await put_together(group, arguments, slices, after);
}

Task allreduce(Group group, const Arguments& arguments) {
  return group.hierarchy().in_pieces(group, arguments, allreduce_piece);
}

Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  return cost_of(shape, model, Collective::reduce_scatter, Collective::allreduce,
                 Collective::allgather);
}

// ---- scans: each lane has its slice of all ranks of the node ----

// inclusive: a scan, otherwise an exscan.
Task prefix_piece(Group group, const Arguments& arguments, std::size_t pieces, bool inclusive) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const Slices slices{group, arguments};
  const std::size_t bytes = slices.bytes();
  const int ranks = levels.node_ranks();
  const Blocks of_ranks = even_blocks(static_cast<std::size_t>(ranks) * slices.length(), ranks,
                                      arguments.element_bytes);
  // What the nodes before come to, and this one until each of its ranks: a rank of a scan gets the
  // one behind it, of an exscan the one before it.
  const Scratch sums{group, bytes + of_ranks.bytes()};
  const auto sum = [&](int ranks_here) {
    return sums.data() + static_cast<std::size_t>(ranks_here) * bytes;
  };
  Arguments part = arguments;
  part.in_blocks = slices.all();
  part.out = sum(1);
  part.out_blocks = of_ranks;
  co_await turn(group, before);
  co_await levels.before(group, Collective::alltoall, arguments.bytes(), part, slices.differ());
  before.leave();
  if (bytes > 0) {
    for (int i = 2; i <= ranks; ++i)
      group.reduce_behind(sum(i - 1), arguments.reducer, sum(i), bytes);
    Arguments in_lane_part = in_lane(arguments, slices, sum(ranks));
    in_lane_part.out = sum(0);
    co_await levels.lane(group, Collective::exscan, pieces * bytes, in_lane_part);
    if (!levels.is_first_node()) {
      for (int i = 1; i <= (inclusive ? ranks : ranks - 1); ++i)
        group.reduce_behind(sum(0), arguments.reducer, sum(i), bytes);
    }
  }
  // Of an exscan the first rank of all gets nothing.
  const bool gets_nothing = !inclusive && group.rank() == 0;
  const Scratch nothing{group, gets_nothing ? arguments.bytes() : 0};
  // That block goes to its `nothing`: some sum, so that no bytes are sent that nobody wrote.
  if (!inclusive && levels.is_first_node()) group.copy(sum(0), sum(1), bytes);
  part.in = inclusive ? sum(1) : sum(0);
  part.in_blocks = of_ranks;
  part.out = gets_nothing ? nothing.data() : arguments.out;
  part.out_blocks = slices.all();
  co_await turn(group, after);
  co_await levels.after(group, Collective::alltoall, arguments.bytes(), part, slices.differ());
  after.leave();
}

Task scan_piece(Group group, const Arguments& arguments, std::size_t pieces) {
  return prefix_piece(group, arguments, pieces, true);
}

Task exscan_piece(Group group, const Arguments& arguments, std::size_t pieces) {
  return prefix_piece(group, arguments, pieces, false);
}

Task scan(Group group, const Arguments& arguments) {
  return group.hierarchy().in_pieces(group, arguments, scan_piece);
}

Task exscan(Group group, const Arguments& arguments) {
  return group.hierarchy().in_pieces(group, arguments, exscan_piece);
}

// A rank combines so many slices: of each rank here before the lane and behind it, and in it.
Cost prefix_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  const int lanes = shape.levels.node_ranks_min;
  const double combined = 2.0 * shape.levels.node_ranks_max + 1;
  return part.in_pieces([&](double bytes, int pieces) {
    Cost on_node = part.on_node(Collective::alltoall, bytes);
    on_node += on_node;
    on_node.time_s += combined * bytes / lanes * model.reduced_byte_s;
    return PartCost::Both{on_node,
                          part.between_nodes(Collective::exscan, bytes / lanes, lanes, pieces)};
  });
}

// ---- blocks: each rank moves those of its lane between the nodes, and shares them on its own ----

bool reduces_known_blocks_of_equal_nodes(const CallShape& shape) {
  return reduces_by_nodes(shape) && has_known_blocks_and_equal_nodes(shape);
}

int rank_at(const Placement& placement, int node, int index) {
  return placement.ranks_of(node)[static_cast<std::size_t>(index)];
}

Task allgather(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket after = levels.ticket_after(group);
  const Placement& placement = levels.placement();
  const Blocks& all = arguments.out_blocks;
  const auto of_lane = [&](int node) { return rank_at(placement, node, levels.index()); };
  {
    const ListedBlocks lane{placement.nodes(), all.element_bytes,
                            [&](int node) { return all.length(of_lane(node)); },
                            [&](int node) { return all.first_bytes(of_lane(node)); }};
    Arguments part = arguments;
    part.out_blocks = lane.blocks();
    co_await levels.lane(group, Collective::allgather, lane.blocks().bytes(), part);
  }
  co_await after.come();
  for (int node = 0; node < placement.nodes(); ++node) {
    const auto on_node = [&](int index) { return rank_at(placement, node, index); };
    const ListedBlocks blocks{levels.node_ranks(), all.element_bytes,
                              [&](int index) { return all.length(on_node(index)); },
                              [&](int index) { return all.first_bytes(on_node(index)); }};
    Arguments part = arguments;
    const std::span<std::byte> own = all.of(arguments.out, of_lane(node));
    part.in = own.data();
    part.element_count = all.length(of_lane(node));
    part.out_blocks = blocks.blocks();
    if (node + 1 == placement.nodes()) after.leave();
    co_await levels.after(group, Collective::allgather, blocks.blocks().bytes(), part);
  }
}

Cost of_each_node(const CallShape& shape, const PartCost& part, Collective collective) {
  Cost cost = part.on_node(collective, shape.vector_bytes() / shape.levels.nodes);
  cost.time_s *= shape.levels.nodes;
  cost.messages *= shape.levels.nodes;
  cost.bytes *= shape.levels.nodes;
  return cost;
}

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost =
      part.between_nodes(Collective::allgather, slice_bytes(shape), shape.levels.node_ranks_min);
  return cost += of_each_node(shape, part, Collective::allgather);
}

// The blocks of a node are a vector of their own.
Task reduce_scatter(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  const Placement& placement = levels.placement();
  const Blocks& all = arguments.in_blocks;
  const ListedBlocks lane{placement.nodes(), all.element_bytes, [&](int node) {
                            return all.length(rank_at(placement, node, levels.index()));
                          }};
  const Scratch sums{group, lane.blocks().bytes()};
  const NodeByNode by_nodes{group, all};
  const std::byte* node_vector = by_nodes.pack(arguments.in);
  co_await before.come();
  for (int node = 0; node < placement.nodes(); ++node) {
    const ListedBlocks blocks{levels.node_ranks(), all.element_bytes, [&](int index) {
                                return all.length(rank_at(placement, node, index));
                              }};
    Arguments part = arguments;
    part.in = node_vector;
    part.in_blocks = blocks.blocks();
    part.out = sums.data() + lane.blocks().first_bytes(node);
    part.element_count = lane.blocks().length(node);
    node_vector += blocks.blocks().bytes();
    if (node + 1 == placement.nodes()) before.leave();
    if (blocks.blocks().element_count == 0) continue;
    co_await levels.before(group, Collective::reduce_scatter, blocks.blocks().bytes(), part);
  }
  Arguments part = arguments;
  part.in = sums.data();
  part.in_blocks = lane.blocks();
  if (lane.blocks().element_count > 0)
    co_await levels.lane(group, Collective::reduce_scatter, lane.blocks().bytes(), part);
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = of_each_node(shape, part, Collective::reduce_scatter);
  cost.time_s += packing_s(shape, model);
  return cost += part.between_nodes(Collective::reduce_scatter, slice_bytes(shape),
                                    shape.levels.node_ranks_min);
}

// A rank gets from its lane what that has for its node, and hands it on there.
Task alltoall(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket after = levels.ticket_after(group);
  const int nodes = levels.placement().nodes();
  const int node_ranks = levels.node_ranks();
  const std::size_t all_count = arguments.in_blocks.element_count;
  const std::size_t node_count = all_count / static_cast<std::size_t>(nodes);
  const Scratch arrived{group, arguments.in_blocks.bytes()};
  const NodeByNode result{group, arguments.out_blocks};
  {
    const NodeByNode by_nodes{group, arguments.in_blocks};
    Arguments part = arguments;
    part.in = by_nodes.pack(arguments.in);
    part.in_blocks = part.out_blocks = even_blocks(all_count, nodes, arguments.element_bytes);
    part.element_count = node_count;
    part.out = arrived.data();
    co_await levels.lane(group, Collective::alltoall, arguments.in_blocks.bytes(), part);
  }
  co_await after.come();
  for (int node = 0; node < nodes; ++node) {
    Arguments part = arguments;
    part.in_blocks = part.out_blocks = even_blocks(node_count, node_ranks, arguments.element_bytes);
    const std::size_t begin = static_cast<std::size_t>(node) * part.in_blocks.bytes();
    part.in = arrived.data() + begin;
    part.out = result.of(arguments.out) + begin;
    if (node + 1 == nodes) after.leave();
    co_await levels.after(group, Collective::alltoall, part.in_blocks.bytes(), part);
  }
  result.unpack(arguments.out);
}

Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost =
      part.between_nodes(Collective::alltoall, shape.vector_bytes(), shape.levels.node_ranks_min);
  cost.time_s += 2 * packing_s(shape, model);
  return cost += of_each_node(shape, part, Collective::alltoall);
}

}  // namespace

extern constexpr Algorithm broadcast_lanes{Collective::broadcast, "lanes", has_levels,
                                           broadcast_cost, broadcast};
extern constexpr Algorithm reduce_lanes{Collective::reduce, "lanes", reduces_by_nodes, reduce_cost,
                                        reduce};
extern constexpr Algorithm allreduce_lanes{Collective::allreduce, "lanes", reduces_by_nodes,
                                           allreduce_cost, allreduce};
extern constexpr Algorithm allgather_lanes{
    Collective::allgather, "lanes", has_known_blocks_and_equal_nodes, allgather_cost, allgather};
extern constexpr Algorithm reduce_scatter_lanes{Collective::reduce_scatter, "lanes",
                                                reduces_known_blocks_of_equal_nodes,
                                                reduce_scatter_cost, reduce_scatter};
extern constexpr Algorithm alltoall_lanes{
    Collective::alltoall, "lanes", has_known_blocks_and_equal_nodes, alltoall_cost, alltoall};
extern constexpr Algorithm scan_lanes{Collective::scan, "lanes", has_levels_in_order, prefix_cost,
                                      scan};
extern constexpr Algorithm exscan_lanes{Collective::exscan, "lanes", has_levels_in_order,
                                        prefix_cost, exscan};

}  // namespace qpmesh::collectives

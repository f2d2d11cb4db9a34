// SPDX-License-Identifier: MIT
// Leaders: each node gathers, or combines, at one of its ranks; these do the collective among
// themselves, and hand the result to their nodes. The root of a collective is the leader of its
// node. Every part is a row of its own, for fewer ranks (hierarchy.hpp).
// Wins for small vectors on several nodes: a message between each two leaders where there would be
// one between each two ranks. Costs are the sums of the parts'.
// Operands are combined node by node: every rank has the same bits, and rank order is kept where
// the ranks of each node follow one another.
// Sources: Open MPI coll/han; MVAPICH2; A. Ruhela and others.
#include "collectives/hierarchy.hpp"

namespace qpmesh::collectives {
namespace {

// Everybody's word reaches the leader, and the leader's everybody: nothing is moved on the node.
Task barrier(Group group, const Arguments& /*arguments*/) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  Arguments on_node = no_arguments;
  on_node.out_blocks = even_blocks(0, levels.node_ranks());
  co_await before.pass();
  co_await levels.before(group, Collective::gather, 0, on_node);
  if (levels.index() == 0) co_await levels.leaders(group, Collective::barrier, 0, no_arguments);
  co_await after.pass();
  co_await levels.after(group, Collective::broadcast, 0, on_node);
}

Cost barrier_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::gather, 0);
  cost += part.between_nodes(Collective::barrier, 0);
  return cost += part.on_node(Collective::broadcast, 0);
}

Task broadcast(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket after = levels.ticket_after(group);
  const Leaders leaders{group, arguments.root};
  const std::size_t bytes = arguments.bytes();
  Arguments part = arguments;
  if (leaders.leads()) {
    part.root = leaders.root_node();
    co_await leaders.run(group, Collective::broadcast, bytes, part);
  }
  part.root = leaders.leader();
  co_await after.pass();
  co_await levels.after(group, Collective::broadcast, bytes, part);
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.between_nodes(Collective::broadcast, shape.vector_bytes());
  return cost += part.on_node(Collective::broadcast, shape.vector_bytes());
}

Task reduce(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  const Leaders leaders{group, arguments.root};
  const std::size_t bytes = arguments.bytes();
  const bool is_root = group.rank() == arguments.root;
  const Scratch sums{group, leaders.leads() && !is_root ? bytes : 0};
  Arguments part = arguments;
  part.out = is_root ? arguments.out : sums.data();
  part.root = leaders.leader();
  co_await before.pass();
  co_await levels.before(group, Collective::reduce, bytes, part);
  if (!leaders.leads()) co_return;
  part.in = part.out;
  part.root = leaders.root_node();
  co_await leaders.run(group, Collective::reduce, bytes, part);
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::reduce, shape.vector_bytes());
  return cost += part.between_nodes(Collective::reduce, shape.vector_bytes());
}

Task allreduce(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const std::size_t bytes = arguments.bytes();
  Arguments part = arguments;
  part.root = 0;
  co_await before.pass();
  co_await levels.before(group, Collective::reduce, bytes, part);
  if (levels.index() == 0) {
    part.in = part.out;
    co_await levels.leaders(group, Collective::allreduce, bytes, part);
  }
  co_await after.pass();
  co_await levels.after(group, Collective::broadcast, bytes, part);
}

Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::reduce, shape.vector_bytes());
  cost += part.between_nodes(Collective::allreduce, shape.vector_bytes());
  return cost += part.on_node(Collective::broadcast, shape.vector_bytes());
}

// ---- of blocks: those of a node lie together ----

Task allgather(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const Blocks& all = arguments.out_blocks;
  const bool leads = levels.index() == 0;
  const NodeByNode result{group, all};
  std::byte* const vector = result.of(arguments.out);
  const ListedBlocks nodes = node_blocks(levels.placement(), all);
  const ListedBlocks here = blocks_here(levels, all);
  const std::span<std::byte> own = nodes.blocks().of(vector, levels.node());
  Arguments part = arguments;
  part.root = 0;
  part.out = own.data();
  part.out_blocks = here.blocks();
  co_await before.pass();
  co_await levels.before(group, Collective::gather, own.size(), part, all.counts != nullptr);
  if (leads) {
    part.in = own.data();
    part.element_count = nodes.blocks().length(levels.node());
    part.out = vector;
    part.out_blocks = nodes.blocks();
    co_await levels.leaders(group, Collective::allgather, all.bytes(), part);
  }
  part.out = vector;
  part.element_count = all.element_count;
  co_await after.pass();
  co_await levels.after(group, Collective::broadcast, all.bytes(), part);
  result.unpack(arguments.out);
}

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::gather, shape.vector_bytes() / shape.levels.nodes);
  cost += part.between_nodes(Collective::allgather, shape.vector_bytes());
  cost += part.on_node(Collective::broadcast, shape.vector_bytes());
  cost.time_s += packing_s(shape, model);
  return cost;
}

bool reduces_known_blocks(const CallShape& shape) {
  return reduces_by_nodes(shape) && has_known_blocks(shape);
}

Task reduce_scatter(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  const Blocks& all = arguments.in_blocks;
  const bool leads = levels.index() == 0;
  const ListedBlocks nodes = node_blocks(levels.placement(), all);
  const ListedBlocks here = blocks_here(levels, all);
  const Scratch sums{group, leads ? all.bytes() : 0};
  const NodeByNode by_nodes{group, all, leads};
  Arguments part = arguments;
  part.root = 0;
  part.out = sums.data();
  part.element_count = all.element_count;
  co_await before.pass();
  co_await levels.before(group, Collective::reduce, all.bytes(), part);
  if (leads) {
    const std::span<std::byte> own = nodes.blocks().of(by_nodes.of(sums.data()), levels.node());
    part.in = by_nodes.pack(sums.data());
    part.in_blocks = nodes.blocks();
    part.out = own.data();
    part.element_count = nodes.blocks().length(levels.node());
    co_await levels.leaders(group, Collective::reduce_scatter, all.bytes(), part);
    part.in = own.data();
  }
  part.in_blocks = here.blocks();
  part.out = arguments.out;
  part.element_count = arguments.element_count;
  co_await after.pass();
  co_await levels.after(group, Collective::scatter, nodes.blocks().length_bytes(levels.node()),
                        part, all.counts != nullptr);
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::reduce, shape.vector_bytes());
  cost += part.between_nodes(Collective::reduce_scatter, shape.vector_bytes());
  cost.time_s += packing_s(shape, model);
  return cost += part.on_node(Collective::scatter, shape.vector_bytes() / shape.levels.nodes);
}

struct EqualBlocks {
  EqualBlocks(const Group& group, const Arguments& arguments)
      : placement{group.hierarchy().placement()},
        all{of(group.size(), arguments)},
        nodes{node_blocks(placement, all)},
        here{of(group.hierarchy().node_ranks(), arguments)} {}

  bool nodes_differ() const noexcept {
    return placement.levels().node_ranks_min != placement.levels().node_ranks_max;
  }

  const Placement& placement;
  Blocks all;          // by rank
  ListedBlocks nodes;  // by node
  Blocks here;         // by index on this node

 private:
  static Blocks of(int ranks, const Arguments& arguments) {
    return even_blocks(static_cast<std::size_t>(ranks) * arguments.element_count, ranks,
                       arguments.element_bytes);
  }
};

Task gather(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  const Leaders leaders{group, arguments.root};
  const EqualBlocks equal{group, arguments};
  const bool is_root = group.rank() == arguments.root;
  const std::size_t node_bytes = equal.here.bytes();
  const NodeByNode result{group, equal.all, is_root};
  std::byte* const vector = result.of(arguments.out);
  const Scratch packed{group, leaders.leads() && !is_root ? node_bytes : 0};
  Arguments part = arguments;
  part.root = leaders.leader();
  part.out = is_root ? equal.nodes.blocks().of(vector, levels.node()).data() : packed.data();
  part.out_blocks = equal.here;
  co_await before.pass();
  co_await levels.before(group, Collective::gather, node_bytes, part);
  if (!leaders.leads()) co_return;
  part.root = leaders.root_node();
  part.in = part.out;
  part.element_count = equal.here.element_count;
  part.out = vector;
  part.out_blocks = equal.nodes.blocks();
  co_await leaders.run(group, Collective::gather, equal.nodes.blocks().bytes(), part,
                       equal.nodes_differ());
  if (is_root) result.unpack(arguments.out);
}

bool nodes_differ(const CallShape& shape) {
  return shape.levels.node_ranks_min != shape.levels.node_ranks_max;
}

Cost gather_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::gather, shape.vector_bytes() / shape.levels.nodes);
  cost.time_s += packing_s(shape, model);
  return cost +=
         part.between_nodes(Collective::gather, shape.vector_bytes(), 1, 1, nodes_differ(shape));
}

Task scatter(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket after = levels.ticket_after(group);
  const Leaders leaders{group, arguments.root};
  const EqualBlocks equal{group, arguments};
  const bool is_root = group.rank() == arguments.root;
  const std::size_t node_bytes = equal.here.bytes();
  const NodeByNode by_nodes{group, equal.all, is_root};
  const Scratch packed{group, leaders.leads() && !is_root ? node_bytes : 0};
  Arguments part = arguments;
  if (leaders.leads()) {
    if (is_root) part.in = by_nodes.pack(arguments.in);
    part.root = leaders.root_node();
    part.in_blocks = equal.nodes.blocks();
    part.element_count = equal.here.element_count;
    // The root's own blocks stay where they are: in place, nothing is written.
    part.out = is_root
                   ? const_cast<std::byte*>(equal.nodes.blocks().of(part.in, levels.node()).data())
                   : packed.data();
    co_await leaders.run(group, Collective::scatter, equal.nodes.blocks().bytes(), part,
                         equal.nodes_differ());
    part.in = part.out;
  }
  part.root = leaders.leader();
  part.in_blocks = equal.here;
  part.element_count = arguments.element_count;
  part.out = arguments.out;
  co_await after.pass();
  co_await levels.after(group, Collective::scatter, node_bytes, part);
}

Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost =
      part.between_nodes(Collective::scatter, shape.vector_bytes(), 1, 1, nodes_differ(shape));
  cost.time_s += packing_s(shape, model);
  return cost += part.on_node(Collective::scatter, shape.vector_bytes() / shape.levels.nodes);
}

// ---- scans: the last rank of a node has the sum of the node, and gets that of all before it ----

// Until every rank of this node has what all nodes before it come to, and has put it before its
// result; the last rank has it already. The first node has none before it.
Task hand_out(Group group, std::byte* nodes_before, const Arguments& arguments, Ticket& after) {
  Hierarchy& levels = group.hierarchy();
  Arguments part = arguments;
  part.out = nodes_before;
  part.root = levels.last_index();
  co_await after.pass();
  co_await levels.after(group, Collective::broadcast, arguments.bytes(), part);
  if (nodes_before == arguments.out) co_return;
  group.reduce_behind(nodes_before, arguments.reducer, arguments.out, arguments.bytes());
}

Task scan(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  if (levels.is_first_node()) after.leave();
  const std::size_t bytes = arguments.bytes();
  const Scratch nodes_before{group, levels.is_first_node() ? 0 : bytes};
  co_await before.pass();
  co_await levels.before(group, Collective::scan, bytes, arguments);
  if (levels.index() == levels.last_index()) {
    Arguments part = arguments;
    part.in = arguments.out;
    part.out = nodes_before.data();
    co_await levels.last_ranks(group, Collective::exscan, bytes, part);
  }
  if (!levels.is_first_node()) co_await hand_out(group, nodes_before.data(), arguments, after);
}

// The first rank of a node has nobody before it there: what the nodes before come to is its result.
Task exscan(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  if (levels.is_first_node()) after.leave();
  const std::size_t bytes = arguments.bytes();
  const bool has_ranks_before = levels.index() > 0;
  const bool is_last = levels.index() == levels.last_index();
  const Scratch received{group, has_ranks_before && !levels.is_first_node() ? bytes : 0};
  const Scratch sum{group, has_ranks_before && is_last ? bytes : 0};
  std::byte* const nodes_before = has_ranks_before ? received.data() : arguments.out;
  const std::byte* own = arguments.in;
  if (sum.data() != nullptr && arguments.in == arguments.out) {
    group.copy(sum.data(), arguments.in, bytes);  // the result will be there
    own = sum.data();
  }
  co_await before.pass();
  co_await levels.before(group, Collective::exscan, bytes, arguments);
  if (is_last) {
    Arguments part = arguments;
    if (sum.data() != nullptr) {
      const std::array<const std::byte*, 2> sources{arguments.out, own};
      group.reduce(arguments.reducer, sum.data(), sources, bytes);
      part.in = sum.data();
    }
    part.out = nodes_before;
    co_await levels.last_ranks(group, Collective::exscan, bytes, part);
  }
  if (!levels.is_first_node()) co_await hand_out(group, nodes_before, arguments, after);
}

// A rank combines so many times by itself.
Cost scan_of(const CallShape& shape, const CostModel& model, Collective collective, int combined) {
  const PartCost part{shape, model};
  const double bytes = shape.vector_bytes();
  Cost cost = part.on_node(collective, bytes);
  cost += part.between_nodes(Collective::exscan, bytes);
  cost += part.on_node(Collective::broadcast, bytes);
  cost.time_s += combined * bytes * model.reduced_byte_s;
  return cost;
}
Cost scan_cost(const CallShape& shape, const CostModel& model) {
  return scan_of(shape, model, Collective::scan, 1);
}
Cost exscan_cost(const CallShape& shape, const CostModel& model) {
  return scan_of(shape, model, Collective::exscan, 2);
}

}  // namespace

extern constexpr Algorithm barrier_leaders{Collective::barrier, "leaders", has_levels, barrier_cost,
                                           barrier};
extern constexpr Algorithm broadcast_leaders{Collective::broadcast, "leaders", has_levels,
                                             broadcast_cost, broadcast};
extern constexpr Algorithm reduce_leaders{Collective::reduce, "leaders", reduces_by_nodes,
                                          reduce_cost, reduce};
extern constexpr Algorithm allreduce_leaders{Collective::allreduce, "leaders", reduces_by_nodes,
                                             allreduce_cost, allreduce};
extern constexpr Algorithm allgather_leaders{Collective::allgather, "leaders", has_levels,
                                             allgather_cost, allgather};
extern constexpr Algorithm reduce_scatter_leaders{Collective::reduce_scatter, "leaders",
                                                  reduces_known_blocks, reduce_scatter_cost,
                                                  reduce_scatter};
extern constexpr Algorithm gather_leaders{Collective::gather, "leaders", has_known_blocks,
                                          gather_cost, gather};
extern constexpr Algorithm scatter_leaders{Collective::scatter, "leaders", has_known_blocks,
                                           scatter_cost, scatter};
extern constexpr Algorithm scan_leaders{Collective::scan, "leaders", has_levels_in_order, scan_cost,
                                        scan};
extern constexpr Algorithm exscan_leaders{Collective::exscan, "leaders", has_levels_in_order,
                                          exscan_cost, exscan};

}  // namespace qpmesh::collectives

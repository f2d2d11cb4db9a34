// SPDX-License-Identifier: MIT
// Multiport: a node is a processor with as many ports as it has ranks. Each rank has a port to its
// share of the other nodes, so that every node tells every other one in one round of few messages
// from each rank; before it and behind it the ranks of a node share what they have. Where one rank
// of each node took log2 nodes rounds, or one rank a message to each node, there is one latency.
// Wins for small vectors on many nodes of many ranks. Costs: those of the parts on the node, and a
// round of ceil(nodes / ranks of a node) messages of each rank.
// Nodes are combined in their order, those of a share first: every rank has the same bits, and rank
// order is kept where the ranks of each node follow one another. Reductions, allgather and alltoall
// need nodes with equally many ranks, and as many nodes: a rank without a share would have nothing
// to combine, or to give. In a scan a node tells only those behind it.
//
// Sources: J. Bruck and others, "Efficient algorithms for all-to-all communications in multiport
// message-passing systems", 1997; J. L. Träff, "k-ported vs. k-lane broadcast, scatter, and
// alltoall algorithms", 2020.
#include <algorithm>

#include "collectives/algorithms/ports.hpp"

namespace qpmesh::collectives {
namespace {

// ---- barrier, and vectors ----

Task barrier(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const auto nothing = [](int /*node*/) { return std::span<std::byte>{}; };
  co_await ports.before.pass();
  co_await levels.before(group, Collective::barrier, 0, arguments);
  co_await exchange(group, ports, nothing, nothing);
  co_await ports.after.pass();
  co_await levels.after(group, Collective::barrier, 0, arguments);
}

Cost barrier_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::barrier, 0);
  cost += exchange_cost(shape, part, 0);
  return cost += part.on_node(Collective::barrier, 0);
}

Task broadcast(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const std::span<std::byte> vector{arguments.out, arguments.bytes()};
  const int root_node = ports.placement.node_of(arguments.root);
  Arguments part = arguments;
  if (levels.node() == root_node) {
    ports.after.leave();
    part.root = ports.placement.index_of(arguments.root);
    co_await ports.before.pass();
    co_await levels.before(group, Collective::broadcast, vector.size(), part);
    const auto all_of_it = [&](int /*node*/) { return vector; };
    co_await fan_out(group, ports, all_of_it);
    co_return;
  }
  ports.before.leave();
  part.root = ports.to(root_node);
  if (levels.index() == part.root) co_await receive_from_node(group, ports, root_node, vector);
  co_await ports.after.pass();
  co_await levels.after(group, Collective::broadcast, vector.size(), part);
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  const Cost on_node = part.on_node(Collective::broadcast, shape.vector_bytes());
  Cost cost = on_node;
  cost += fan_cost(shape, part, shape.vector_bytes());
  return cost += on_node;
}

Task reduce(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const std::size_t bytes = arguments.bytes();
  const int root_node = ports.placement.node_of(arguments.root);
  const bool on_root_node = levels.node() == root_node;
  if (!on_root_node) ports.after.leave();
  Arguments part = arguments;
  part.root = ports.to(root_node);
  const bool has_sum = levels.index() == part.root;
  const Scratch sum{group, has_sum ? bytes : 0};
  part.out = sum.data();
  co_await ports.before.pass();
  co_await levels.before(group, Collective::reduce, bytes, part);
  if (!on_root_node) {
    if (has_sum) co_await send_to_node(group, ports, root_node, {sum.data(), bytes});
    co_return;
  }
  const ShareVectors arrived{group, ports, bytes};
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await fan_in(group, ports, vector_of);
  part.in = combine_share(group, ports, arguments.reducer, arrived.of(ports.first()).data(), bytes,
                          [&](int node) -> const std::byte* {
                            return node == root_node ? sum.data() : arrived.of(node).data();
                          });
  part.root = ports.placement.index_of(arguments.root);
  part.out = arguments.out;
  co_await ports.after.pass();
  co_await levels.after(group, Collective::reduce, bytes, part);
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  const Cost on_node = part.on_node(Collective::reduce, shape.vector_bytes());
  Cost cost = on_node;
  cost += combined(shape, part, fan_cost(shape, part, shape.vector_bytes()), shape.vector_bytes());
  return cost += on_node;
}

Task allreduce(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const std::size_t bytes = arguments.bytes();
  Arguments part = arguments;
  co_await ports.before.pass();
  co_await levels.before(group, Collective::allreduce, bytes, part);
  const ShareVectors arrived{group, ports, bytes};
  const auto sum = [&](int /*node*/) { return std::span<const std::byte>{arguments.out, bytes}; };
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await exchange(group, ports, sum, vector_of);
  part.in = combine_share(group, ports, arguments.reducer, arguments.out, bytes,
                          [&](int node) -> const std::byte* {
                            return node == levels.node() ? arguments.out : arrived.of(node).data();
                          });
  co_await ports.after.pass();
  co_await levels.after(group, Collective::allreduce, bytes, part);
}

Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  const Cost on_node = part.on_node(Collective::allreduce, shape.vector_bytes());
  Cost cost = on_node;
  cost +=
      combined(shape, part, exchange_cost(shape, part, shape.vector_bytes()), shape.vector_bytes());
  return cost += on_node;
}

// ---- blocks ----

Task allgather(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const Blocks& all = arguments.out_blocks;
  const NodeByNode result{group, all};
  std::byte* const vector = result.of(arguments.out);
  const ListedBlocks nodes = node_blocks(ports.placement, all);
  const ListedBlocks here = blocks_here(levels, all);
  const PortBlocks shares{ports, nodes.blocks()};
  const std::span<std::byte> own = nodes.blocks().of(vector, levels.node());
  Arguments part = arguments;
  part.out = own.data();
  part.out_blocks = here.blocks();
  co_await ports.before.pass();
  co_await levels.before(group, Collective::allgather, own.size(), part);
  const auto of_this_node = [&](int /*node*/) { return own; };
  const auto of_node = [&](int node) { return nodes.blocks().of(vector, node); };
  co_await exchange(group, ports, of_this_node, of_node);
  part.in = shares.blocks().of(vector, levels.index()).data();
  part.element_count = shares.blocks().length(levels.index());
  part.out = vector;
  part.out_blocks = shares.blocks();
  co_await ports.after.pass();
  co_await levels.after(group, Collective::allgather, all.bytes(), part);
  result.unpack(arguments.out);
}

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::allgather, node_bytes(shape));
  cost += exchange_cost(shape, part, node_bytes(shape));
  cost += part.on_node(Collective::allgather, shape.vector_bytes());
  cost.time_s += packing_s(shape, model);
  return cost;
}

Task reduce_scatter(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const Blocks& all = arguments.in_blocks;
  const ListedBlocks nodes = node_blocks(ports.placement, all);
  const ListedBlocks here = blocks_here(levels, all);
  const PortBlocks shares{ports, nodes.blocks()};
  const std::size_t begin = nodes.blocks().first_bytes(ports.first());
  const std::size_t bytes_here = nodes.blocks().length_bytes(levels.node());
  const Scratch sums{group, shares.blocks().length_bytes(levels.index())};
  const NodeByNode by_nodes{group, all};
  Arguments part = arguments;
  part.in = by_nodes.pack(arguments.in);
  part.in_blocks = shares.blocks();
  part.out = sums.data();
  part.element_count = shares.blocks().length(levels.index());
  co_await ports.before.pass();
  co_await levels.before(group, Collective::reduce_scatter, all.bytes(), part);
  const ShareVectors arrived{group, ports, bytes_here};
  const auto sum = [&](int node) {
    return std::span<std::byte>{sums.data() + nodes.blocks().first_bytes(node) - begin,
                                nodes.blocks().length_bytes(node)};
  };
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await exchange(group, ports, sum, vector_of);
  if (bytes_here == 0) co_return;
  part.in =
      combine_share(group, ports, arguments.reducer, arrived.of(ports.first()).data(), bytes_here,
                    [&](int node) -> const std::byte* {
                      return node == levels.node() ? sum(node).data() : arrived.of(node).data();
                    });
  part.in_blocks = here.blocks();
  part.out = arguments.out;
  part.element_count = arguments.element_count;
  co_await ports.after.pass();
  co_await levels.after(group, Collective::reduce_scatter, bytes_here, part);
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::reduce_scatter, shape.vector_bytes());
  cost += combined(shape, part, exchange_cost(shape, part, node_bytes(shape)), node_bytes(shape));
  cost.time_s += packing_s(shape, model);
  return cost += part.on_node(Collective::reduce_scatter, node_bytes(shape));
}

Task gather(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const EqualBlocks equal{ports, arguments.element_count, arguments.element_bytes};
  const int root_node = ports.placement.node_of(arguments.root);
  const bool on_root_node = levels.node() == root_node;
  if (!on_root_node) ports.after.leave();
  Arguments part = arguments;
  part.root = ports.to(root_node);
  const bool has_blocks = levels.index() == part.root;
  const Scratch packed{group, has_blocks && !on_root_node ? equal.node_bytes : 0};
  const ShareVectors arrived{group, ports, on_root_node ? equal.node_bytes : 0};
  const bool is_root = group.rank() == arguments.root;
  const NodeByNode result{group, equal.all, is_root};
  part.out = on_root_node && has_blocks ? arrived.of(root_node).data() : packed.data();
  part.out_blocks = equal.here;
  co_await ports.before.pass();
  co_await levels.before(group, Collective::gather, equal.node_bytes, part);
  if (!on_root_node) {
    if (has_blocks)
      co_await send_to_node(group, ports, root_node, {packed.data(), equal.node_bytes});
    co_return;
  }
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await fan_in(group, ports, vector_of);
  part.root = ports.placement.index_of(arguments.root);
  part.in = arrived.of(ports.first()).data();
  part.element_count = equal.shares.blocks().length(levels.index());
  part.out = result.of(arguments.out);
  part.out_blocks = equal.shares.blocks();
  co_await ports.after.pass();
  co_await levels.after(group, Collective::gather, equal.nodes.bytes(), part, ports.differ());
  if (is_root) result.unpack(arguments.out);
}

Task scatter(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const EqualBlocks equal{ports, arguments.element_count, arguments.element_bytes};
  const int root_node = ports.placement.node_of(arguments.root);
  const bool on_root_node = levels.node() == root_node;
  if (!on_root_node) ports.before.leave();
  const int port = ports.to(root_node);
  const bool is_root = group.rank() == arguments.root;
  const NodeByNode by_nodes{group, equal.all, is_root};
  const ShareVectors taken{group, ports, on_root_node ? equal.node_bytes : 0};
  const Scratch packed{group, levels.index() == port && !on_root_node ? equal.node_bytes : 0};
  Arguments part = arguments;
  part.in = packed.data();
  if (on_root_node) {
    part.in = is_root ? by_nodes.pack(arguments.in) : nullptr;
    part.root = ports.placement.index_of(arguments.root);
    part.in_blocks = equal.shares.blocks();
    part.element_count = equal.shares.blocks().length(levels.index());
    part.out = taken.of(ports.first()).data();
    co_await ports.before.pass();
    co_await levels.before(group, Collective::scatter, equal.nodes.bytes(), part, ports.differ());
    const auto vector_of = [&](int node) { return taken.of(node); };
    co_await fan_out(group, ports, vector_of);
    if (levels.index() == port) part.in = taken.of(root_node).data();
  } else if (levels.index() == port) {
    co_await receive_from_node(group, ports, root_node, {packed.data(), equal.node_bytes});
  }
  part.root = port;
  part.in_blocks = equal.here;
  part.element_count = arguments.element_count;
  part.out = arguments.out;
  co_await ports.after.pass();
  co_await levels.after(group, Collective::scatter, equal.node_bytes, part);
}

Cost of_rooted_blocks(const CallShape& shape, const CostModel& model, Collective collective) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(collective, node_bytes(shape));
  cost += fan_cost(shape, part, node_bytes(shape));
  cost.time_s += packing_s(shape, model);
  return cost += part.on_node(collective, shape.vector_bytes(), shares_differ(shape));
}
Cost gather_cost(const CallShape& shape, const CostModel& model) {
  return of_rooted_blocks(shape, model, Collective::gather);
}
Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  return of_rooted_blocks(shape, model, Collective::scatter);
}

// Blocks for a share go to the rank whose it is, those for a node go there together, and what a
// node got for one of its ranks goes on to that.
Task alltoall(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const EqualBlocks equal{ports, arguments.in_blocks.length(0), arguments.element_bytes};
  const std::size_t block_bytes = arguments.in_blocks.length_bytes(0);
  const auto here = static_cast<std::size_t>(levels.node_ranks());
  const auto share = static_cast<std::size_t>(ports.count());
  const std::size_t share_bytes = share * equal.node_bytes;  // of one rank
  const Scratch taken{group, here * share_bytes};            // by rank here, node, rank there
  const ShareVectors packed{group, ports, here * equal.node_bytes};  // by node, rank, rank there
  const Blocks to_each =
      even_blocks(here * share * equal.node_count, levels.node_ranks(), arguments.element_bytes);
  Arguments part = arguments;
  part.in_blocks = equal.shares.blocks();
  part.element_count = equal.shares.blocks().length(levels.index());
  part.out_blocks = to_each;
  part.out = taken.data();
  const NodeByNode by_nodes{group, arguments.in_blocks};
  part.in = by_nodes.pack(arguments.in);
  co_await ports.before.pass();
  co_await levels.before(group, Collective::alltoall, equal.nodes.bytes(), part, ports.differ());
  for (std::size_t rank = 0; rank < here; ++rank) {
    for (std::size_t i = 0; i < share; ++i) {
      const std::span<std::byte> vector = packed.of(ports.first() + static_cast<int>(i));
      group.copy(vector.data() + rank * equal.node_bytes,
                 taken.data() + rank * share_bytes + i * equal.node_bytes, equal.node_bytes);
    }
  }
  const ShareVectors arrived{group, ports, here * equal.node_bytes};  // by node, rank there, rank
  const auto of_node = [&](int node) { return packed.of(node); };
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await exchange(group, ports, of_node, vector_of);
  std::byte* to = taken.data();  // by rank here, node, rank there
  for (std::size_t rank = 0; rank < here; ++rank) {
    for (int node = ports.first(); node < ports.end(); ++node) {
      const std::byte* from =
          (node == levels.node() ? packed : arrived).of(node).data() + rank * block_bytes;
      for (std::size_t i = 0; i < here; ++i, from += equal.node_bytes, to += block_bytes)
        group.copy(to, from, block_bytes);
    }
  }
  part.in = taken.data();
  part.in_blocks = to_each;
  const NodeByNode result{group, arguments.out_blocks};
  part.out = result.of(arguments.out);
  part.out_blocks = equal.shares.blocks();
  co_await ports.after.pass();
  co_await levels.after(group, Collective::alltoall, equal.nodes.bytes(), part, ports.differ());
  result.unpack(arguments.out);
}

Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  const Cost on_node =
      part.on_node(Collective::alltoall, shape.vector_bytes(), shares_differ(shape));
  Cost cost = on_node;
  cost += exchange_cost(shape, part, node_bytes(shape) * shape.levels.node_ranks_max);
  cost += on_node;
  cost.time_s += 2 * (model.copy_s(shape.vector_bytes()) + packing_s(shape, model));
  return cost;
}

// ---- scans: each node tells those behind it what it comes to ----

// The ranks of a node tell each other their vectors, and in the end what the nodes of their shares
// come to; each combines those before it. Nothing that a node behind its own has is needed.

// inclusive: a scan, otherwise an exscan.
Task prefix(Group group, const Arguments& arguments, bool inclusive) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const Reducer& reducer = arguments.reducer;
  const int own = levels.node();
  const int ranks = levels.node_ranks();
  const std::size_t bytes = arguments.bytes();
  if (levels.is_first_node()) ports.after.leave();
  // A vector of each rank here, one behind another.
  const Blocks vectors = even_blocks(static_cast<std::size_t>(ranks) * arguments.element_count,
                                     ranks, arguments.element_bytes);
  const Scratch here{group, vectors.bytes()};
  // The nodes of a share, or shares and ranks.
  OperandList operands{std::max(ports.count(), 2 * ranks)};
  Arguments part = arguments;
  part.out = here.data();
  part.out_blocks = vectors;
  co_await ports.before.pass();
  co_await levels.before(group, Collective::allgather, vectors.bytes(), part);

  const bool tells = std::max(ports.first(), own + 1) < ports.end();
  const Scratch sum{group, tells ? bytes : 0};
  const std::byte* told = nullptr;
  if (tells) {
    for (int rank = 0; rank < ranks; ++rank) operands.add(vectors.of(here.data(), rank).data());
    told = operands.combine(group, reducer, sum.data(), bytes);
  }
  const ShareVectors arrived{group, ports, bytes};
  const auto sum_here = [&](int /*node*/) { return std::span<const std::byte>{told, bytes}; };
  const auto vector_of = [&](int node) { return arrived.of(node); };
  co_await exchange(group, ports, sum_here, vector_of, To::those_behind);

  // What the nodes before this one come to, by share.
  const Scratch before{group, levels.is_first_node() ? 0 : vectors.bytes()};
  if (!levels.is_first_node()) {
    for (int node = ports.first(); node < std::min(own, ports.end()); ++node)
      operands.add(arrived.of(node).data());
    // A rank with none of them gives its own vector, which nobody looks at.
    if (!operands.empty())
      part.in = operands.combine(group, reducer, arrived.of(ports.first()).data(), bytes);
    part.out = before.data();
    co_await ports.after.pass();
    co_await levels.after(group, Collective::allgather, vectors.bytes(), part);
    for (int share = 0; share <= ports.to(own - 1); ++share)
      operands.add(vectors.of(before.data(), share).data());
  }
  const int ranks_before = levels.index() + (inclusive ? 1 : 0);
  for (int rank = 0; rank < ranks_before; ++rank)
    operands.add(vectors.of(here.data(), rank).data());
  if (operands.empty()) co_return;  // the first rank of an exscan
  const std::byte* const result = operands.combine(group, reducer, arguments.out, bytes);
  if (result != arguments.out) group.copy(arguments.out, result, bytes);
}

Task scan(Group group, const Arguments& arguments) { return prefix(group, arguments, true); }
Task exscan(Group group, const Arguments& arguments) { return prefix(group, arguments, false); }

// Combined one after another: a node, its part of a share elsewhere, and of the last rank all that
// come before it and, of a scan, its own vector.
Cost prefix_cost(const CallShape& shape, const CostModel& model, int own_vectors) {
  const PartCost part{shape, model};
  const double bytes = shape.vector_bytes();
  const int nodes = shape.levels.nodes;
  const int ranks = shape.levels.node_ranks_max;
  const int lanes = shape.levels.node_ranks_min;
  const int share_nodes_max = (nodes + lanes - 1) / lanes;
  const bool last_node_is_a_share = nodes / lanes == 1;
  const int shares_before = std::min(nodes - 1, last_node_is_a_share ? lanes - 1 : lanes);
  const Cost on_node = part.on_node(Collective::allgather, ranks * bytes);
  Cost cost = on_node;
  cost += exchange_cost(shape, part, bytes);
  cost += on_node;
  const int combined =
      (ranks - 1) + (share_nodes_max - 1) + (shares_before + ranks - 1 + own_vectors - 1);
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

extern constexpr Algorithm barrier_multiport{Collective::barrier, "multiport", has_levels,
                                             barrier_cost, barrier};
extern constexpr Algorithm broadcast_multiport{Collective::broadcast, "multiport", has_levels,
                                               broadcast_cost, broadcast};
extern constexpr Algorithm reduce_multiport{Collective::reduce, "multiport", reduces_by_shares,
                                            reduce_cost, reduce};
extern constexpr Algorithm allreduce_multiport{Collective::allreduce, "multiport",
                                               reduces_by_shares, allreduce_cost, allreduce};
extern constexpr Algorithm allgather_multiport{Collective::allgather, "multiport",
                                               has_shares_for_all, allgather_cost, allgather};
extern constexpr Algorithm reduce_scatter_multiport{Collective::reduce_scatter, "multiport",
                                                    reduces_blocks_by_shares, reduce_scatter_cost,
                                                    reduce_scatter};
extern constexpr Algorithm gather_multiport{Collective::gather, "multiport",
                                            has_known_blocks_and_equal_nodes, gather_cost, gather};
extern constexpr Algorithm scatter_multiport{
    Collective::scatter, "multiport", has_known_blocks_and_equal_nodes, scatter_cost, scatter};
extern constexpr Algorithm alltoall_multiport{Collective::alltoall, "multiport",
                                              has_known_blocks_and_shares, alltoall_cost, alltoall};
extern constexpr Algorithm scan_multiport{Collective::scan, "multiport", has_levels_in_order,
                                          scan_cost, scan};
extern constexpr Algorithm exscan_multiport{Collective::exscan, "multiport", has_levels_in_order,
                                            exscan_cost, exscan};

}  // namespace qpmesh::collectives

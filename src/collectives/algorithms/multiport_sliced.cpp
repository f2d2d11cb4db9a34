// SPDX-License-Identifier: MIT
// Multiport, in slices: a vector is cut, and a slice goes to each node, or is combined there,
// before all nodes, or the root's, get it: two rounds of few messages from each rank, and each byte
// crosses a link twice. Wins for vectors of middle length on many nodes of many ranks. Costs: those
// of the parts on the node, and two rounds. Nodes need equally many ranks, and there are as many
// nodes. The order of operands and sources: those of multiport.cpp.
#include "collectives/algorithms/ports.hpp"

namespace qpmesh::collectives {
namespace {

// What the slices lie in at a rank: those of its share, and what share each rank of the node has.
struct SlicedByNode {
  SlicedByNode(const Ports& ports, const Arguments& arguments)
      : slices{even_blocks(arguments.element_count, ports.nodes(), arguments.element_bytes)},
        shares{ports, slices},
        begin_bytes{slices.first_bytes(ports.first())},
        share_length{shares.blocks().length(ports.levels.index())},
        here_bytes{slices.length_bytes(ports.levels.node())},
        shares_differ{ports.differ() ||
                      arguments.element_count % static_cast<std::size_t>(ports.nodes()) != 0} {}

  Blocks slices;             // by node
  PortBlocks shares;         // by port
  std::size_t begin_bytes;   // of this rank's share
  std::size_t share_length;  // elements
  std::size_t here_bytes;    // of this node's slice
  bool shares_differ;        // which a call of blocks by port has
};

// The ranks of this node tell each other the slices of their shares.
Task put_together(Group group, const Arguments& arguments, Ports& ports,
                  const SlicedByNode& sliced) {
  Arguments part = arguments;
  part.in = arguments.out + sliced.begin_bytes;
  part.element_count = sliced.share_length;
  part.out_blocks = sliced.shares.blocks();
  co_await ports.levels.after(group, Collective::allgather, arguments.bytes(), part);
  ports.after.leave();
}

// A slice goes to each node, and all nodes tell each other theirs.
Task broadcast(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const SlicedByNode sliced{ports, arguments};
  const auto slice_of = [&](int node) { return sliced.slices.of(arguments.out, node); };
  const int root_node = ports.placement.node_of(arguments.root);
  Arguments part = arguments;
  part.root = ports.to(root_node);
  if (levels.node() == root_node) {
    part.root = ports.placement.index_of(arguments.root);
    part.in = arguments.out;
    part.in_blocks = sliced.shares.blocks();
    part.element_count = sliced.share_length;
    part.out = arguments.out + sliced.begin_bytes;
    co_await ports.before.pass();
    co_await levels.before(group, Collective::scatter, arguments.bytes(), part,
                           sliced.shares_differ);
    co_await fan_out(group, ports, slice_of);
  } else {
    ports.before.leave();
    if (levels.index() == part.root)
      co_await receive_from_node(group, ports, root_node, slice_of(levels.node()));
  }
  co_await ports.after.come();
  if (sliced.here_bytes > 0) {
    part.element_count = sliced.slices.length(levels.node());
    part.out = slice_of(levels.node()).data();
    co_await levels.after(group, Collective::broadcast, sliced.here_bytes, part);
  }
  const auto here = [&](int /*node*/) { return slice_of(levels.node()); };
  co_await exchange(group, ports, here, slice_of);
  co_await put_together(group, arguments, ports, sliced);
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = part.on_node(Collective::scatter, shape.vector_bytes(), slices_differ(shape));
  cost += fan_cost(shape, part, node_bytes(shape));
  cost += part.on_node(Collective::broadcast, node_bytes(shape));
  cost += exchange_cost(shape, part, node_bytes(shape));
  return cost += part.on_node(Collective::allgather, shape.vector_bytes());
}

// What the nodes of this rank's share come to for the slice of its node: where those of the first
// one arrive. The ranks of the node have all of it together.
Task reduce_slice(Group group, const Arguments& arguments, Ports& ports, const SlicedByNode& sliced,
                  const ShareVectors& arrived) {
  const Scratch sums{group, sliced.share_length * arguments.element_bytes};
  const auto sum_of = [&](int node) {
    return std::span<std::byte>{
        sums.data() + (sliced.slices.first_bytes(node) - sliced.begin_bytes),
        sliced.slices.length_bytes(node)};
  };
  const auto vector_of = [&](int node) { return arrived.of(node); };
  Arguments part = arguments;
  part.in_blocks = sliced.shares.blocks();
  part.out = sums.data();
  part.element_count = sliced.share_length;
  co_await ports.before.pass();
  co_await ports.levels.before(group, Collective::reduce_scatter, arguments.bytes(), part);
  co_await exchange(group, ports, sum_of, vector_of);
  if (sliced.here_bytes == 0) co_return;
  const int own = ports.levels.node();
  if (ports.has_own_node())
    group.copy(arrived.of(own).data(), sum_of(own).data(), sliced.here_bytes);
  combine_share(group, ports, arguments.reducer, arrived.of(ports.first()).data(),
                sliced.here_bytes,
                [&](int node) -> const std::byte* { return arrived.of(node).data(); });
}

// Each node combines its slice, and the root's node collects all of them.
Task reduce(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const SlicedByNode sliced{ports, arguments};
  const int root_node = ports.placement.node_of(arguments.root);
  const bool on_root_node = levels.node() == root_node;
  const bool is_root = group.rank() == arguments.root;
  const std::size_t share_bytes = sliced.share_length * arguments.element_bytes;
  const Scratch collected{group, on_root_node && !is_root ? share_bytes : 0};
  std::byte* const share = is_root ? arguments.out + sliced.begin_bytes : collected.data();
  const auto slice_of = [&](int node) {
    return std::span<std::byte>{share + (sliced.slices.first_bytes(node) - sliced.begin_bytes),
                                sliced.slices.length_bytes(node)};
  };
  const ShareVectors arrived{group, ports, sliced.here_bytes};
  co_await reduce_slice(group, arguments, ports, sliced, arrived);
  const std::span<std::byte> slice = arrived.of(ports.first());
  Arguments part = arguments;
  part.root = ports.to(root_node);
  const bool has_sum = levels.index() == part.root;
  part.in = slice.data();
  part.out = on_root_node && has_sum ? slice_of(root_node).data() : slice.data();
  part.element_count = sliced.slices.length(levels.node());
  co_await ports.after.come();
  if (!slice.empty()) co_await levels.after(group, Collective::reduce, slice.size(), part);
  if (!on_root_node) {
    ports.after.leave();
    if (has_sum) co_await send_to_node(group, ports, root_node, slice);
    co_return;
  }
  co_await fan_in(group, ports, slice_of);
  part.root = ports.placement.index_of(arguments.root);
  part.in = share;
  part.element_count = sliced.share_length;
  part.out = arguments.out;
  part.out_blocks = sliced.shares.blocks();
  co_await levels.after(group, Collective::gather, arguments.bytes(), part, sliced.shares_differ);
  ports.after.leave();
}

Cost reduced_slice_cost(const CallShape& shape, const PartCost& part) {
  Cost cost = part.on_node(Collective::reduce_scatter, shape.vector_bytes());
  return cost +=
         combined(shape, part, exchange_cost(shape, part, node_bytes(shape)), node_bytes(shape));
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = reduced_slice_cost(shape, part);
  cost += part.on_node(Collective::reduce, node_bytes(shape));
  cost += fan_cost(shape, part, node_bytes(shape));
  return cost += part.on_node(Collective::gather, shape.vector_bytes(), slices_differ(shape));
}

// Each node combines its slice, and all nodes tell each other theirs.
Task allreduce(Group group, const Arguments& arguments) {
  Ports ports{group};
  Hierarchy& levels = ports.levels;
  const SlicedByNode sliced{ports, arguments};
  const ShareVectors arrived{group, ports, sliced.here_bytes};
  co_await reduce_slice(group, arguments, ports, sliced, arrived);
  const std::span<std::byte> slice = arrived.of(ports.first());
  Arguments part = arguments;
  part.in = part.out = slice.data();
  part.element_count = sliced.slices.length(levels.node());
  co_await ports.after.come();
  if (!slice.empty()) co_await levels.after(group, Collective::allreduce, slice.size(), part);
  const auto result = [&](int /*node*/) { return std::span<const std::byte>{slice}; };
  const auto result_of = [&](int node) { return sliced.slices.of(arguments.out, node); };
  co_await exchange(group, ports, result, result_of);
  if (ports.has_own_node()) group.copy(result_of(levels.node()).data(), slice.data(), slice.size());
  co_await put_together(group, arguments, ports, sliced);
}

Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  Cost cost = reduced_slice_cost(shape, part);
  cost += part.on_node(Collective::allreduce, node_bytes(shape));
  cost += exchange_cost(shape, part, node_bytes(shape));
  return cost += part.on_node(Collective::allgather, shape.vector_bytes());
}

}  // namespace

extern constexpr Algorithm broadcast_multiport_sliced{
    Collective::broadcast, "multiport_sliced", has_shares_for_all, broadcast_cost, broadcast};
extern constexpr Algorithm reduce_multiport_sliced{Collective::reduce, "multiport_sliced",
                                                   reduces_by_shares, reduce_cost, reduce};
extern constexpr Algorithm allreduce_multiport_sliced{Collective::allreduce, "multiport_sliced",
                                                      reduces_by_shares, allreduce_cost, allreduce};

}  // namespace qpmesh::collectives

#include "collectives/hierarchy.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/registry.hpp"

namespace qpmesh::collectives {
namespace {

// The same ranks of a node, or of all nodes.
template <class RankOf>
std::vector<int> context_ranks(const Group::Members& whole, int count, RankOf&& rank_of) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(whole.context_ranks[rank_of(i)]);
  return ranks;
}

Group::Members part_of(const Group::Members& whole, const std::vector<int>& ranks, int rank,
                       NodeMemory* node = nullptr) noexcept {
  return {.machine = whole.machine,
          .node = node,
          .context_ranks = ranks.data(),
          .size = static_cast<int>(ranks.size()),
          .rank = rank,
          .communicator = whole.communicator,
          .whole = &whole};
}

Cost cost_of(const TopologyParams& topology, const CallShape& shape,
             Collective collective) noexcept {
  return cheapest(topology, shape, collective).cost(shape, topology.model(shape));
}

}  // namespace

// ---- who is where ----

Placement::Placement(std::span<const int> nodes) {
  std::map<int, int> numbers;
  std::vector<std::size_t> counts;
  for (const int node : nodes) {
    const auto [found, is_new] = numbers.try_emplace(node, static_cast<int>(numbers.size()));
    if (is_new) counts.push_back(0);
    nodes_.push_back(found->second);
    indices_.push_back(static_cast<int>(counts[at(found->second)]++));
  }
  first_.push_back(0);
  for (const std::size_t count : counts) first_.push_back(first_.back() + count);
  ranks_.resize(nodes.size());
  for (std::size_t rank = 0; rank < nodes.size(); ++rank)
    ranks_[first_[at(nodes_[rank])] + at(indices_[rank])] = static_cast<int>(rank);
}

Levels Placement::levels() const noexcept {
  Levels levels{.nodes = nodes(),
                .node_ranks_min = static_cast<int>(nodes_.size()),
                .node_ranks_max = 0,
                .in_order = std::ranges::is_sorted(ranks_)};
  for (int node = 0; node < levels.nodes; ++node) {
    const int count = static_cast<int>(ranks_of(node).size());
    levels.node_ranks_min = std::min(levels.node_ranks_min, count);
    levels.node_ranks_max = std::max(levels.node_ranks_max, count);
  }
  return levels.nodes > 1 && levels.node_ranks_max > 1 ? levels : Levels{};
}

// ---- one level ----

const Algorithm& Level::row(Collective collective, int size, std::size_t bytes,
                            const Arguments& arguments, bool uneven) noexcept {
  CallShape shape{
      .size = size, .bytes = bytes, .uneven = uneven, .one_node = one_node_, .cma = cma_};
  if (is_reduction(collective)) {
    shape.ordered = !arguments.reducer.commutative;
    shape.element_bytes = arguments.element_bytes;
  }
  Last& last = last_[static_cast<std::size_t>(collective)];
  if (last.row == nullptr || last.shape != shape)
    last = {.shape = shape, .row = &cheapest(topology_, shape, collective)};
  return *last.row;
}

// ---- both ----

Hierarchy::Hierarchy(const Group::Members& whole, const Setup& setup)
    : placement_{setup.placement},
      node_{placement_.node_of(whole.rank)},
      index_{placement_.index_of(whole.rank)},
      lanes_{placement_.levels().node_ranks_min},
      near_{inside(setup.topology), setup.before != nullptr, setup.cma},
      far_{between(setup.topology), false, false},
      lanes_together_{between(setup.topology, lanes_), false, false},
      engine_{*setup.engine} {
  const std::span here = placement_.ranks_of(node_);
  const int nodes = placement_.nodes();
  const auto on_each = [&](int index) {
    return
        [&, index](int node) { return placement_.ranks_of(node)[static_cast<std::size_t>(index)]; };
  };
  node_context_ranks_ = context_ranks(whole, static_cast<int>(here.size()),
                                      [&](int i) { return here[static_cast<std::size_t>(i)]; });
  leader_context_ranks_ = context_ranks(whole, nodes, on_each(0));
  if (has_lane()) lane_context_ranks_ = context_ranks(whole, nodes, on_each(index_));
  before_ = part_of(whole, node_context_ranks_, index_, setup.before);
  after_ = part_of(whole, node_context_ranks_, index_, setup.after);
  lane_ = part_of(whole, lane_context_ranks_, node_);
  leaders_ = part_of(whole, leader_context_ranks_, node_);
}

// Only leaders need a list, and only where the root is none without it.
Leaders::Leaders(const Group& whole, int root)
    : levels_{whole.hierarchy()},
      root_node_{levels_.placement().node_of(root)},
      leader_{on_root_node() ? levels_.placement().index_of(root) : 0},
      context_ranks_{leads() && levels_.placement().index_of(root) != 0
                         ? levels_.leader_context_ranks_.size()
                         : 0},
      members_{levels_.leaders_} {
  if (context_ranks_.data() == nullptr) return;
  std::ranges::copy(levels_.leader_context_ranks_, context_ranks_.data());
  context_ranks_.data()[root_node_] = whole.context_rank_of(root);
  members_.context_ranks = context_ranks_.data();
}

// ---- predictions ----

Cost PartCost::on_node(Collective collective, double bytes, bool uneven) const noexcept {
  return cost_of(inside(*model.topology),
                 {.size = whole.levels.node_ranks_max,
                  .bytes = static_cast<std::size_t>(bytes),
                  .ordered = whole.ordered,
                  .uneven = uneven,
                  .one_node = whole.levels.load_memory,
                  .cma = whole.levels.cma,
                  .element_bytes = whole.element_bytes},
                 collective);
}

Cost PartCost::between_nodes(Collective collective, double bytes, int lanes,
                             bool uneven) const noexcept {
  return cost_of(between(*model.topology, lanes),
                 {.size = whole.levels.nodes,
                  .bytes = static_cast<std::size_t>(bytes),
                  .ordered = whole.ordered,
                  .uneven = uneven,
                  .element_bytes = whole.element_bytes},
                 collective);
}

}  // namespace qpmesh::collectives

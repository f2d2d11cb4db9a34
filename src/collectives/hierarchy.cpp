// SPDX-License-Identifier: MIT
#include "collectives/hierarchy.hpp"

#include <algorithm>
#include <map>

namespace qpmesh::collectives {
namespace {

// The same ranks of a node, or of all nodes.
template <class RankOf>
std::vector<int> context_ranks(const Group::Members& whole, int count, RankOf&& rank_of) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
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
  levels_ = count_levels();
}

Levels Placement::count_levels() const noexcept {
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
  return predictions_.cheapest(shape, collective);
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
      topology_{setup.topology},
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
  last_context_ranks_ =
      context_ranks(whole, nodes, [&](int node) { return placement_.ranks_of(node).back(); });
  if (has_lane()) lane_context_ranks_ = context_ranks(whole, nodes, on_each(index_));
  Parts parts{.whole = whole,
              .before = part_of(whole, node_context_ranks_, index_, setup.before),
              .after = part_of(whole, node_context_ranks_, index_, setup.after),
              .lane = part_of(whole, lane_context_ranks_, node_),
              .leaders = part_of(whole, leader_context_ranks_, node_),
              .last_ranks = part_of(whole, last_context_ranks_, node_)};
  parts.whole.hierarchy = this;
  parts.lane.lane = static_cast<std::uint32_t>(index_);
  for (std::uint32_t piece = 0; piece < parts_.size(); ++piece) {
    for (Group::Members* const members : {&parts.whole, &parts.before, &parts.after, &parts.lane,
                                          &parts.leaders, &parts.last_ranks})
      members->piece = piece;
    parts_[piece] = parts;
  }
}

// ---- pieces ----

namespace {

// Of what a piece takes between the nodes: fewer would cost more than it hides.
constexpr double piece_latencies_min = 4;
constexpr std::size_t piece_bytes_min = std::size_t{64} << 10;

}  // namespace

int piece_count(std::size_t bytes, const TopologyParams& topology) noexcept {
  if (topology.ranks_per_core > 1) return 1;
  const NetworkTimes& times = topology.constants.network;
  const auto length = static_cast<double>(bytes);
  const double latencies = length * times.byte_s / times.latency_s;
  const double by_time = latencies / piece_latencies_min;
  const double by_bytes = length / piece_bytes_min;
  return static_cast<int>(std::clamp(std::min(by_time, by_bytes), 1.0, double{pieces_max}));
}

Task Hierarchy::in_pieces(Group whole, const Arguments& arguments, RunPiece run_piece) {
  const int count =
      arguments.reducer.function != nullptr ? 1 : piece_count(arguments.bytes(), topology_);
  return count == 1 ? run_piece(whole, arguments, 1)
                    : run_pieces(whole, arguments, count, run_piece);
}

// The call keeps its places in both lines until its pieces have ended, which stand in lines of
// their own: so they begin in one order on all ranks, however many tasks are ready at a time.
Task Hierarchy::run_pieces(Group whole, const Arguments& arguments, int count, RunPiece run_piece) {
  struct Piece {
    Arguments arguments;
    progress::TaskOperation task;
  };
  std::array<Piece, pieces_max> pieces;
  const std::span started = std::span{pieces}.first(static_cast<std::size_t>(count));
  const Blocks cut = even_blocks(arguments.element_count, count, arguments.element_bytes);
  Ticket before = ticket_before(whole);
  Ticket after = ticket_after(whole);
  co_await before.come();
  Ticket gate{pieces_.after, engine_};  // before all pieces
  progress::Join join{.outstanding = count};
  for (int i = 0; i < count; ++i) {
    Piece& piece = started[static_cast<std::size_t>(i)];
    piece.arguments = arguments;
    if (arguments.in != nullptr) piece.arguments.in += cut.first_bytes(i);
    if (arguments.out != nullptr) piece.arguments.out += cut.first_bytes(i);
    piece.arguments.element_count = cut.length(i);
    piece.task.join = &join;
    const Group group{parts_[static_cast<std::size_t>(i) + 1].whole, whole.operation(),
                      whole.signature()};
    engine_.start(piece.task, [&] { return run_piece(group, piece.arguments, started.size()); });
  }
  co_await after.come();
  gate.leave();
  co_await progress::all_ended(join);
  for (const Piece& piece : started) {
    if (piece.task.error) std::rethrow_exception(piece.task.error);
  }
}

// Only leaders need a list, and only where the root is none without it.
Leaders::Leaders(const Group& whole, int root)
    : levels_{whole.hierarchy()},
      root_node_{levels_.placement().node_of(root)},
      leader_{on_root_node() ? levels_.placement().index_of(root) : 0},
      context_ranks_{leads() && levels_.placement().index_of(root) != 0
                         ? levels_.leader_context_ranks_.size()
                         : 0},
      members_{levels_.parts_of(whole).leaders} {
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

Cost PartCost::between_nodes(Collective collective, double bytes, int lanes, int pieces,
                             bool uneven) const noexcept {
  const TopologyParams topology = between(*model.topology, lanes);
  const CallShape piece{.size = whole.levels.nodes,
                        .bytes = static_cast<std::size_t>(bytes),
                        .ordered = whole.ordered,
                        .uneven = uneven,
                        .element_bytes = whole.element_bytes};
  CallShape all = piece;
  all.bytes = static_cast<std::size_t>(bytes * pieces);
  return cheapest(topology, all, collective).cost(piece, topology.model(piece));
}

Cost PartCost::round(int messages, int lanes, int link_messages, double bytes_each) const noexcept {
  const TopologyParams topology = between(*model.topology, lanes);
  const CostModel far = topology.model({.size = whole.levels.nodes});
  const double transfer_s = bytes_each * far.byte_s / lanes;
  const double port_s = (messages - 1) * std::max(far.overhead_s, transfer_s) + transfer_s;
  return {.time_s = far.latency_s + std::max(port_s, link_messages * transfer_s),
          .messages = static_cast<double>(messages),
          .bytes = messages * bytes_each};
}

}  // namespace qpmesh::collectives

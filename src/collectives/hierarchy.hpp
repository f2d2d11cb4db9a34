// SPDX-License-Identifier: MIT
// The two levels of a communicator whose ranks are on several nodes, several of them on some: ranks
// of a node load each other's memory, and the nodes are joined by messages. An algorithm of such a
// communicator awaits one of the node, one between nodes, and one of the node again; each is a row
// of the registry that runs on a smaller group.
//
// Calls under way at the same time come back from the network in another order on every rank, but
// the operations of a node are numbered as they begin, alike on all its members. So a node has two
// memories, one for what is done before the network and one for what is done after it, and in each
// of them calls follow one another, in the order in which they were made.
//
// All parts use the communicator's id and the number of the call. Their messages do not mix: those
// of a node and those between nodes have other peers. Only the long blocks of `multiport_v` go both
// ways: behind all parts, on every rank.
//
// A long vector is cut into pieces, each of which goes its way by itself: while one is between the
// nodes, others are on them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/registry.hpp"
#include "collectives/ticket.hpp"

namespace qpmesh::collectives {

// Which ranks of a communicator are on which node. Nodes are numbered in the order of their first
// ranks; a rank's index on its node counts in the order of the ranks.
class Placement {
 public:
  // By rank: some number of its node.
  explicit Placement(std::span<const int> nodes);

  int nodes() const noexcept { return static_cast<int>(first_.size()) - 1; }
  int node_of(int rank) const noexcept { return nodes_[at(rank)]; }
  int index_of(int rank) const noexcept { return indices_[at(rank)]; }
  std::span<const int> ranks_of(int node) const noexcept {
    return std::span{ranks_}.subspan(first_[at(node)], first_[at(node) + 1] - first_[at(node)]);
  }
  // All ranks, one node's behind another's.
  std::span<const int> ranks() const noexcept { return ranks_; }
  // Of all nodes before it.
  int ranks_before(int node) const noexcept { return static_cast<int>(first_[at(node)]); }
  // Without nodes where there is one level only: one node, or no node with several ranks.
  const Levels& levels() const noexcept { return levels_; }

 private:
  static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }
  Levels count_levels() const noexcept;

  std::vector<int> nodes_;
  std::vector<int> indices_;
  std::vector<int> ranks_;
  std::vector<std::size_t> first_;  // of each node in ranks_, and the end
  Levels levels_;
};

// One level: by what its ranks are joined, and which row runs what there. One thread at a time.
class Level {
 public:
  Level(const TopologyParams& topology, bool one_node, bool cma) noexcept
      : predictions_{topology}, one_node_{one_node}, cma_{cma} {}

  // bytes: of the whole vector of this part, all blocks together. uneven: only the ranks concerned
  // know the lengths of blocks.
  const Algorithm& row(Collective collective, int size, std::size_t bytes,
                       const Arguments& arguments, bool uneven) noexcept;

 private:
  Predictions predictions_;
  bool one_node_;
  bool cma_;
};

inline constexpr int pieces_max = 8;
// Pieces of a vector of so many bytes: each is so long that what it takes between the nodes is
// worth some latencies there. One where ranks share cores, which do both steps one after another.
// Alike on all ranks.
int piece_count(std::size_t bytes, const TopologyParams& topology) noexcept;

class Hierarchy {
 public:
  struct Setup {
    const Placement& placement;  // outlives the hierarchy
    // Of this rank's node, in the order of its ranks; nullptr: it has one rank, or its ranks send
    // messages (bench/scale).
    NodeMemory* before = nullptr;
    NodeMemory* after = nullptr;
    bool cma = false;         // the members of this node read each other's private memory
    TopologyParams topology;  // of the whole
    progress::Engine* engine;
  };
  // whole: of the communicator; outlives this.
  Hierarchy(const Group::Members& whole, const Setup& setup);
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;

  const Placement& placement() const noexcept { return placement_; }
  int node() const noexcept { return node_; }    // this rank's
  int index() const noexcept { return index_; }  // this rank's on it
  int node_ranks() const noexcept { return parts_[0].before.size; }
  // Ranks of equal index on all nodes are a lane, as many as the node with the fewest ranks has.
  int lanes() const noexcept { return lanes_; }
  bool has_lane() const noexcept { return index_ < lanes_; }
  bool is_first_node() const noexcept { return node_ == 0; }
  int last_index() const noexcept { return node_ranks() - 1; }

  // Places in the two lines. Taken where the call begins, left where its last operation of that
  // side does; by a piece of a call where that ends, so that the first one is there soon.
  Ticket ticket_before(const Group& whole) noexcept { return {lines_of(whole).before, engine_}; }
  Ticket ticket_after(const Group& whole) noexcept { return {lines_of(whole).after, engine_}; }

  // A call on vectors, in pieces of them where they are long: run_piece(piece, its arguments)
  // for each. Several of them are between the nodes at the same time: the row that is best for all
  // together runs each there. A function that may throw would leave the other pieces to wait: it
  // gets the whole. A rank that has no vector has no piece of it, either: null.
  using RunPiece = Task (*)(Group piece, const Arguments& arguments, std::size_t pieces);
  Task in_pieces(Group whole, const Arguments& arguments, RunPiece run_piece);

  // Parts of the call of `whole`, by ranks there: indices on this node, and numbers of nodes.
  Task before(const Group& whole, Collective collective, std::size_t bytes,
              const Arguments& arguments, bool uneven = false) {
    return run(near_, parts_of(whole).before, whole, collective, bytes, arguments, uneven);
  }
  Task after(const Group& whole, Collective collective, std::size_t bytes,
             const Arguments& arguments, bool uneven = false) {
    return run(near_, parts_of(whole).after, whole, collective, bytes, arguments, uneven);
  }
  Task lane(const Group& whole, Collective collective, std::size_t bytes,
            const Arguments& arguments) {
    return run(lanes_together_, parts_of(whole).lane, whole, collective, bytes, arguments, false);
  }
  // By ranks of index 0.
  Task leaders(const Group& whole, Collective collective, std::size_t bytes,
               const Arguments& arguments) {
    return run(far_, parts_of(whole).leaders, whole, collective, bytes, arguments, false);
  }
  // By the last rank of each node.
  Task last_ranks(const Group& whole, Collective collective, std::size_t bytes,
                  const Arguments& arguments) {
    return run(far_, parts_of(whole).last_ranks, whole, collective, bytes, arguments, false);
  }

 private:
  Task run_pieces(Group whole, const Arguments& arguments, int count, RunPiece run_piece);
  friend class Leaders;
  // Of a call, or of a piece of one: these differ in their number alone.
  struct Parts {
    Group::Members whole;
    Group::Members before;
    Group::Members after;
    Group::Members lane;
    Group::Members leaders;
    Group::Members last_ranks;
  };
  struct Lines {
    TicketQueue before;
    TicketQueue after;
  };
  const Parts& parts_of(const Group& whole) const noexcept { return parts_[whole.piece()]; }
  // The pieces of a call, which stands in the line of calls, have a line of their own.
  Lines& lines_of(const Group& whole) noexcept { return whole.piece() == 0 ? calls_ : pieces_; }
  static Task run(Level& level, const Group::Members& part, const Group& whole,
                  Collective collective, std::size_t bytes, const Arguments& arguments,
                  bool uneven) {
    return level.row(collective, part.size, bytes, arguments, uneven)
        .run(Group{part, whole.operation(), whole.signature()}, arguments);
  }

  const Placement& placement_;
  int node_;
  int index_;
  int lanes_;
  std::vector<int> node_context_ranks_;
  std::vector<int> lane_context_ranks_;
  std::vector<int> leader_context_ranks_;
  std::vector<int> last_context_ranks_;
  std::array<Parts, 1 + pieces_max> parts_;  // of a whole call first
  Level near_;
  Level far_;                // of one rank of each node
  Level lanes_together_;     // of as many as there are lanes
  TopologyParams topology_;  // of the whole
  Lines calls_;
  Lines pieces_;
  progress::Engine& engine_;
};

// One rank of each node: the first one, and on the root's node the root. A local variable of the
// algorithm.
class Leaders {
 public:
  // root: a rank of the whole.
  Leaders(const Group& whole, int root);

  bool leads() const noexcept { return levels_.index() == leader_; }
  int leader() const noexcept { return leader_; }        // of this rank's node: its index there
  int root_node() const noexcept { return root_node_; }  // the root's rank among the leaders
  bool on_root_node() const noexcept { return levels_.node() == root_node_; }
  // A part of the call, of leaders alone.
  Task run(const Group& whole, Collective collective, std::size_t bytes, const Arguments& arguments,
           bool uneven = false) const {
    return Hierarchy::run(levels_.far_, members_, whole, collective, bytes, arguments, uneven);
  }

 private:
  Hierarchy& levels_;
  int root_node_;
  int leader_;
  Numbers<int> context_ranks_;
  Group::Members members_;
};

// ---- what the rows of two levels are made of ----

// Predictions of parts, by the rows that would run them.

struct PartCost {
  const CallShape& whole;
  const CostModel& model;

  // On the node with most ranks.
  Cost on_node(Collective collective, double bytes, bool uneven = false) const noexcept;
  // Between nodes, of so many ranks of each at the same time. Of one of so many pieces, which the
  // row runs that is best for all of them.
  Cost between_nodes(Collective collective, double bytes, int lanes = 1, int pieces = 1,
                     bool uneven = false) const noexcept;
  // One round between nodes: so many messages of each of so many ranks of a node, of which so many
  // pass its link.
  Cost round(int messages, int lanes, int link_messages, double bytes_each) const noexcept;
  // Of a call in pieces. parts(bytes, pieces): of one of so many pieces, of so many bytes, on the
  // nodes and between them. The first piece takes both, all others the longer one of what all
  // together would take.
  struct Both {
    Cost on_node;
    Cost between_nodes;
  };
  template <class Parts>
  Cost in_pieces(Parts&& parts) const noexcept {
    const double bytes = whole.vector_bytes();
    const Both all = parts(bytes, 1);
    Cost cost = all.on_node;
    cost += all.between_nodes;
    const int count = piece_count(whole.bytes, *model.topology);
    if (count == 1) return cost;
    const Both piece = parts(bytes / count, count);
    const double more_s = std::max(all.on_node.time_s - piece.on_node.time_s,
                                   all.between_nodes.time_s - piece.between_nodes.time_s);
    cost.time_s = piece.on_node.time_s + piece.between_nodes.time_s + std::max(0.0, more_s);
    cost.messages = count * (piece.on_node.messages + piece.between_nodes.messages);
    return cost;
  }
};

// A part's turn in a line: the next call's begins when it has begun, the next piece's when it has
// ended, and leaves.
inline Ticket::Awaiter turn(const Group& group, Ticket& ticket) {
  return group.is_piece() ? ticket.come() : ticket.pass();
}

// What rows apply to. A reduction combines the operands of a node first.
inline bool has_levels(const CallShape& shape) { return shape.levels.nodes > 0; }
inline bool has_levels_in_order(const CallShape& shape) {
  return has_levels(shape) && shape.levels.in_order;
}
inline bool reduces_by_nodes(const CallShape& shape) {
  return has_levels(shape) && (!shape.ordered || shape.levels.in_order);
}
// Every rank knows where all blocks lie, one behind another. Of blocks with a layout only the two
// ends of a message know the length; a reduce_scatter's may lie apart.
inline bool has_known_blocks(const CallShape& shape) { return has_levels(shape) && !shape.uneven; }
inline bool has_known_blocks_and_equal_nodes(const CallShape& shape) {
  return has_known_blocks(shape) && shape.levels.node_ranks_min == shape.levels.node_ranks_max;
}

// Only the two ends of a block know its length.
inline bool has_blocks_of_unknown_lengths(const CallShape& shape) {
  return has_levels(shape) && shape.uneven;
}

// Blocks of any lengths, with the lists that say so: a local variable.
class ListedBlocks {
 public:
  // length_of(i): of block i, in elements.
  template <class LengthOf>
  ListedBlocks(int count, std::size_t element_bytes, LengthOf&& length_of)
      : ListedBlocks{count, element_bytes} {
    std::size_t end = 0;
    for (int i = 0; i < count; ++i) {
      const std::size_t length = length_of(i);
      put(i, end, length);
      end += length * element_bytes;
    }
  }
  // The same, and offset_of(i): where it begins, in bytes.
  template <class LengthOf, class OffsetOf>
  ListedBlocks(int count, std::size_t element_bytes, LengthOf&& length_of, OffsetOf&& offset_of)
      : ListedBlocks{count, element_bytes} {
    blocks_.gapless = false;
    for (int i = 0; i < count; ++i) put(i, offset_of(i), length_of(i));
  }

  const Blocks& blocks() const noexcept { return blocks_; }

 private:
  ListedBlocks(int count, std::size_t element_bytes)
      : lists_{2 * static_cast<std::size_t>(count)},
        blocks_{.element_count = 0,
                .element_bytes = element_bytes,
                .block_count = count,
                .gapless = true,
                .counts = lists_.data(),
                .offsets_bytes = lists_.data() + count} {}
  void put(int i, std::size_t offset_bytes, std::size_t length) noexcept {
    lists_.data()[i] = length;
    lists_.data()[i + blocks_.block_count] = offset_bytes;
    blocks_.element_count += length;
  }

  Numbers<std::size_t> lists_;
  Blocks blocks_;
};

// By node: the blocks of its ranks together, of blocks whose lengths all ranks know.
inline ListedBlocks node_blocks(const Placement& placement, const Blocks& all) {
  return {placement.nodes(), all.element_bytes, [&](int node) {
            const std::span ranks = placement.ranks_of(node);
            if (all.counts == nullptr) return ranks.size() * all.length(0);  // of equal ones
            std::size_t length = 0;
            for (const int rank : ranks) length += all.length(rank);
            return length;
          }};
}
// On this node: by index.
inline ListedBlocks blocks_here(const Hierarchy& levels, const Blocks& all) {
  const std::span ranks = levels.placement().ranks_of(levels.node());
  return {levels.node_ranks(), all.element_bytes,
          [&](int index) { return all.length(ranks[static_cast<std::size_t>(index)]); }};
}

// A vector of all ranks' blocks, node by node: where it is, if they lie there so, or else in memory
// of the call's own, from and to which they are copied. A local variable of the algorithm.
class NodeByNode {
 public:
  // has_vector: this rank has one.
  NodeByNode(const Group& group, const Blocks& all, bool has_vector = true)
      : group_{group},
        all_{all},
        lies_there_{all.gapless && placement().levels().in_order},
        packed_{group, has_vector && !lies_there_ ? all.bytes() : 0} {}

  std::byte* of(std::byte* vector) const noexcept { return lies_there_ ? vector : packed_.data(); }
  const std::byte* pack(const std::byte* vector) const {
    if (lies_there_) return vector;
    for_each([&](std::byte* packed, std::size_t first_bytes, std::size_t bytes) {
      group_.copy(packed, vector + first_bytes, bytes);
    });
    return packed_.data();
  }
  void unpack(std::byte* vector) const {
    if (lies_there_) return;
    for_each([&](const std::byte* packed, std::size_t first_bytes, std::size_t bytes) {
      group_.copy(vector + first_bytes, packed, bytes);
    });
  }

 private:
  const Placement& placement() const noexcept { return group_.hierarchy().placement(); }
  template <class Move>
  void for_each(const Move& move) const {
    std::byte* packed = packed_.data();
    for (const int rank : placement().ranks()) {
      const std::size_t bytes = all_.length_bytes(rank);
      move(packed, all_.first_bytes(rank), bytes);
      packed += bytes;
    }
  }

  Group group_;
  Blocks all_;
  bool lies_there_;
  Scratch packed_;
};
// What it costs to pack or to unpack one, for the ranks that have it; gaps between blocks are not
// in the shape of a call.
inline double packing_s(const CallShape& shape, const CostModel& model) noexcept {
  return shape.levels.in_order ? 0 : model.copy_s(shape.vector_bytes());
}

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
// What multiport is made of: who talks to whom between the nodes, the round in which all do, and
// what lies together for the nodes of a share.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "collectives/hierarchy.hpp"

namespace qpmesh::collectives {

// What a call begins with, a local variable of its task: its places in both lines of its node, and
// who talks to whom: rank `to(m)` of node n, and rank `to(n)` of node m.
struct Ports {
  explicit Ports(const Group& group) noexcept
      : levels{group.hierarchy()},
        before(levels.ticket_before(group)),
        after(levels.ticket_after(group)),
        placement{levels.placement()},
        shares{even_blocks(static_cast<std::size_t>(placement.nodes()), levels.lanes())} {}

  int nodes() const noexcept { return placement.nodes(); }
  int first(int port) const noexcept { return static_cast<int>(shares.first(port)); }
  // Of this rank, which may have none.
  int first() const noexcept { return levels.has_lane() ? first(levels.index()) : nodes(); }
  int end() const noexcept { return levels.has_lane() ? first(levels.index() + 1) : nodes(); }
  int count() const noexcept { return end() - first(); }
  bool has_own_node() const noexcept { return levels.node() >= first() && levels.node() < end(); }
  // The port to a node.
  int to(int node) const noexcept {
    const int each = nodes() / levels.lanes();
    const int of_longer_shares = nodes() % levels.lanes() * (each + 1);
    return node < of_longer_shares ? node / (each + 1)
                                   : nodes() % levels.lanes() + (node - of_longer_shares) / each;
  }
  // Of this rank's share, the one who talks to this node.
  int peer(int node) const noexcept { return rank(node, to(levels.node())); }
  int rank(int node, int index) const noexcept {
    return placement.ranks_of(node)[static_cast<std::size_t>(index)];
  }
  // Which a call of blocks by port has.
  bool differ() const noexcept { return nodes() % levels.node_ranks() != 0; }

  Hierarchy& levels;
  Ticket before;
  Ticket after;
  const Placement& placement;
  Blocks shares;  // of nodes, by port
};

// ---- the round between the nodes ----

enum class To : std::uint8_t { all, those_behind, those_with_something };

// sent(node) goes to each node of this rank's share, or to those behind its own, and what each of
// these, or of those before its own, sends comes to received(node). those_with_something: an empty
// message is not sent; both ends know its length.
// Where a share is longer than a round, both ends of a message may come to it at different times,
// but never in a circle: a round has the same places of a share on all nodes, earlier ones first.
template <class Sent, class Received>
Task exchange(Group group, const Ports& ports, const Sent& sent, const Received& received,
              To to = To::all) {
  Round<messages_in_flight_max> round{group};
  const int own = ports.levels.node();
  for (int begin = ports.first(); begin < ports.end(); begin += messages_in_flight_max) {
    const int count = std::min(messages_in_flight_max, ports.end() - begin);
    for (int i = 0; i < count; ++i) {
      const int node = begin + (i + own) % count;  // all begin with another one
      if (node == own) continue;
      if (to == To::those_with_something) {
        if (!sent(node).empty()) round.send(ports.peer(node), sent(node));
        if (!received(node).empty()) round.receive(ports.peer(node), received(node));
        continue;
      }
      if (to == To::all || node > own) round.send(ports.peer(node), sent(node));
      if (to == To::all || node < own) round.receive(ports.peer(node), received(node));
    }
    co_await round;
  }
}

// The ranks of one node send to all others; or what all others send comes to them.
template <class Sent>
Task fan_out(Group group, const Ports& ports, const Sent& sent) {
  Round<messages_in_flight_max> round{group};
  for (int node = ports.first(); node < ports.end(); ++node) {
    if (node == ports.levels.node()) continue;
    round.send(ports.peer(node), sent(node));
    if (round.full()) co_await round;
  }
  co_await round;
}
template <class Received>
Task fan_in(Group group, const Ports& ports, const Received& received) {
  Round<messages_in_flight_max> round{group};
  for (int node = ports.first(); node < ports.end(); ++node) {
    if (node == ports.levels.node()) continue;
    round.receive(ports.peer(node), received(node));
    if (round.full()) co_await round;
  }
  co_await round;
}

// The other end: one rank of each other node.
inline Task send_to_node(Group group, const Ports& ports, int node,
                         std::span<const std::byte> data) {
  Round<1> round{group};
  round.send(ports.peer(node), data);
  co_await round;
}
inline Task receive_from_node(Group group, const Ports& ports, int node,
                              std::span<std::byte> data) {
  Round<1> round{group};
  round.receive(ports.peer(node), data);
  co_await round;
}

// Operands of a reduction, in the order of the ranks. A local variable of the algorithm.
class OperandList {
 public:
  explicit OperandList(int capacity)
      : capacity_{static_cast<std::size_t>(capacity)}, operands_{capacity_} {}

  bool empty() const noexcept { return count_ == 0; }
  void add(const std::byte* operand) noexcept {
    assert(count_ < capacity_);
    operands_.data()[count_++] = operand;
  }
  // Where the result is: at target, or, of one operand, where that is. The list is empty then.
  const std::byte* combine(const Group& group, const Reducer& reducer, std::byte* target,
                           std::size_t bytes) {
    const std::size_t count = std::exchange(count_, 0);
    if (count == 1) return operands_.data()[0];
    group.reduce(reducer, target, {operands_.data(), count}, bytes);
    return target;
  }

 private:
  std::size_t capacity_;
  std::size_t count_ = 0;
  Numbers<const std::byte*> operands_;
};

// What the nodes of this rank's share sent, in their order; of(node): where that is.
template <class Of>
const std::byte* combine_share(const Group& group, const Ports& ports, const Reducer& reducer,
                               std::byte* target, std::size_t bytes, const Of& of) {
  OperandList operands{ports.count()};
  for (int node = ports.first(); node < ports.end(); ++node) operands.add(of(node));
  return operands.combine(group, reducer, target, bytes);
}

// A vector for each node of the share.
class ShareVectors {
 public:
  ShareVectors(const Group& group, const Ports& ports, std::size_t bytes)
      : first_{ports.first()},
        bytes_{bytes},
        memory_{group, static_cast<std::size_t>(ports.count()) * bytes} {}
  std::span<std::byte> of(int node) const noexcept {
    return {memory_.data() + static_cast<std::size_t>(node - first_) * bytes_, bytes_};
  }

 private:
  int first_;
  std::size_t bytes_;
  Scratch memory_;
};

// ---- blocks: what lies together ----

// By port: the parts of the nodes of its share, which follow one another in `nodes`.
class PortBlocks {
 public:
  PortBlocks(const Ports& ports, const Blocks& nodes)
      : listed_{ports.levels.node_ranks(), nodes.element_bytes, [&](int port) {
                  std::size_t length = 0;
                  if (port >= ports.levels.lanes()) return length;
                  for (int node = ports.first(port); node < ports.first(port + 1); ++node)
                    length += nodes.length(node);
                  return length;
                }} {}
  const Blocks& blocks() const noexcept { return listed_.blocks(); }

 private:
  ListedBlocks listed_;
};

// Of equal blocks, on equal nodes.
struct EqualBlocks {
  EqualBlocks(const Ports& ports, std::size_t block_count, std::size_t element_bytes)
      : node_count{block_count * static_cast<std::size_t>(ports.levels.node_ranks())},
        node_bytes{node_count * element_bytes},
        here{even_blocks(node_count, ports.levels.node_ranks(), element_bytes)},
        nodes{even_blocks(node_count * static_cast<std::size_t>(ports.nodes()), ports.nodes(),
                          element_bytes)},
        all{even_blocks(nodes.element_count, ports.nodes() * ports.levels.node_ranks(),
                        element_bytes)},
        shares{ports, nodes} {}

  std::size_t node_count;  // elements
  std::size_t node_bytes;
  Blocks here;        // by index on a node
  Blocks nodes;       // by node
  Blocks all;         // by rank
  PortBlocks shares;  // by port
};

// ---- predictions ----

// Through the link of one node pass messages for all others.
inline Cost fan_cost(const CallShape& shape, const PartCost& part, double bytes_each) {
  const int nodes = shape.levels.nodes;
  const int ports = std::min(nodes, shape.levels.node_ranks_min);
  return part.round((nodes + ports - 1) / ports, ports, nodes - 1, bytes_each);
}
// The same ranks of all nodes send to the same share at the same time: the last one begins to get
// its messages when those for all others have left.
inline Cost exchange_cost(const CallShape& shape, const PartCost& part, double bytes_each) {
  const int nodes = shape.levels.nodes;
  const int ports = std::min(nodes, shape.levels.node_ranks_min);
  const int others_first = nodes > ports ? ports - 1 : ports - 2;
  return part.round((nodes + ports - 1) / ports, ports, nodes - 1 + others_first, bytes_each);
}
inline double share_nodes(const CallShape& shape) {
  return static_cast<double>(shape.levels.nodes) / shape.levels.node_ranks_min;
}
inline double node_bytes(const CallShape& shape) {
  return shape.vector_bytes() / shape.levels.nodes;
}
inline bool shares_differ(const CallShape& shape) {
  return shape.levels.nodes % shape.levels.node_ranks_min != 0;
}

// A round, behind which a rank combines what its share sent.
inline Cost combined(const CallShape& shape, const PartCost& part, Cost round, double bytes) {
  round.time_s += (share_nodes(shape) - 1) * bytes * part.model.reduced_byte_s;
  return round;
}

// The same of a vector with a slice for each node.
inline bool slices_differ(const CallShape& shape) {
  const std::size_t slices = static_cast<std::size_t>(shape.levels.nodes) * shape.element_bytes;
  return shares_differ(shape) || shape.bytes % slices != 0;
}

// Nodes with equally many ranks, and a share for each of these.
inline bool has_shares_for_all(const CallShape& shape) {
  return has_levels(shape) && shape.levels.node_ranks_min == shape.levels.node_ranks_max &&
         shape.levels.nodes >= shape.levels.node_ranks_max;
}
inline bool reduces_by_shares(const CallShape& shape) {
  return reduces_by_nodes(shape) && has_shares_for_all(shape);
}
inline bool reduces_blocks_by_shares(const CallShape& shape) {
  return reduces_by_shares(shape) && has_known_blocks(shape);
}
inline bool has_known_blocks_and_shares(const CallShape& shape) {
  return has_known_blocks(shape) && has_shares_for_all(shape);
}

}  // namespace qpmesh::collectives

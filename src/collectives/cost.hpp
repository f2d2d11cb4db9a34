// SPDX-License-Identifier: MIT
// What an algorithm's time is predicted from.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/constants.hpp"

namespace qpmesh::collectives {

// Of a communicator on several nodes that has several ranks on some of them (hierarchy.hpp).
struct Levels {
  int nodes = 0;  // 0: no such communicator
  int node_ranks_min = 0;
  int node_ranks_max = 0;
  bool in_order = false;    // the ranks of each node follow one another
  bool load_memory = true;  // on their node; otherwise they send messages there, too
  bool cma = false;         // and copy out of each other's private memory there

  bool operator==(const Levels&) const = default;
};

// A call as every rank knows it alike: what may decide which algorithm runs.
struct CallShape {
  int size = 1;           // ranks
  std::size_t bytes = 0;  // of the whole vector, all blocks together; 0 where only the root knows
  bool ordered = false;   // operands must be combined in rank order
  // A v-form whose block lengths only the ranks concerned know, or a reduce_scatter whose blocks
  // do not follow one another.
  bool uneven = false;
  bool one_node = false;  // all ranks can load each other's memory
  bool cma = false;       // and copy out of each other's private memory
  std::size_t element_bytes = 1;
  Levels levels{};

  bool operator==(const CallShape&) const = default;
  double ranks() const noexcept { return size; }
  std::size_t ranks_count() const noexcept { return static_cast<std::size_t>(size); }
  double vector_bytes() const noexcept { return static_cast<double>(bytes); }
  double block_bytes() const noexcept { return vector_bytes() / ranks(); }
  double others_bytes() const noexcept { return vector_bytes() - block_bytes(); }
};

// Ranks that share memory: what algorithms that read it there are made of (node/work.hpp). Not part
// of LogGP, and not simulated.
struct NodeCostModel {
  // Until a member's step is seen: a cache line, or a turn of everybody on a shared core.
  double step_s = 0;
  double look_s = 0;           // at each further member
  double copied_byte_s = 0;    // inside a core's cache
  double crossed_byte_s = 0;   // out of, or into, what another core has in its cache
  double streamed_byte_s = 0;  // more for a byte of a vector that is too long for the caches
  double past_byte_s = 0;      // past the caches on its way to another core, there or back
  double reduced_byte_s = 0;   // of an operand that is combined with another
  double system_copy_s = 0;    // calling the system to copy out of another process
  double system_byte_s = 0;    // of what it copies
  double ranks_per_core = 1;
};

// LogGP (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, 1995) of one link and one rank, in
// seconds, with the cost of reducing and copying beside it. The closed forms beside the algorithms
// and the simulator (bench/scale) state this one model:
//
// - A rank has a CPU, an outgoing and an incoming port. Each does one thing after another, in the
//   order in which it comes.
// - A message takes a port for port_s, and is through it after bytes * byte_s. Its first byte is at
//   the other rank latency_s after it entered the outgoing port, and enters the incoming one as
//   soon as a receive asks for it. Posting costs the CPU nothing: overhead_s is the ports' (the gap
//   of LogGP).
// - A send ends when the message has left, a receive when the message is in.
// - The CPU copies; it combines k operands in (k - 1) * bytes * reduced_byte_s. A receive that
//   combines does so as segments come in: not before the first one is there, and with the last one
//   when all are.
struct CostModel {
  double latency_s;       // from the post of a small message to its receiver's next step
  double overhead_s;      // of each further message through a port
  double byte_s;          // of a message
  double reduced_byte_s;  // of an operand that is combined with another
  double copied_byte_s;
  std::size_t segment_bytes;  // of a message that is combined as it comes
  NodeCostModel node{};       // of ranks that share memory
  // Of byte_s, where the sender of a long message copies too, if it has nothing to receive.
  double helped_share = 1;
  // Of byte_s: what a rank of a whole with levels takes that has the link of its node for itself.
  double link_share = 1;
  const struct TopologyParams* topology = nullptr;  // that it was made of

  // For messages whose senders only wait for them.
  CostModel one_way() const noexcept {
    CostModel model = *this;
    model.byte_s *= helped_share;
    return model;
  }
  // For messages that one rank of a node sends, or gets, at a time.
  CostModel alone() const noexcept {
    CostModel model = *this;
    model.byte_s *= link_share;
    return model;
  }
  double port_s(double bytes) const noexcept { return std::max(overhead_s, bytes * byte_s); }
  // After the last byte of a message, until its port takes the next one.
  double gap_s(double bytes) const noexcept { return std::max(0.0, overhead_s - bytes * byte_s); }
  // One rank's k messages of so many bytes each, to k ranks, while as many come in: until the last
  // has come.
  double round_s(int messages, double bytes_each) const noexcept {
    return latency_s + (messages - 1) * port_s(bytes_each) + bytes_each * byte_s;
  }
  double copy_s(double bytes) const noexcept { return bytes * copied_byte_s; }
  // More for a copy that is made while a message is on its way.
  double overlapped_copy_s(double bytes) const noexcept {
    return std::max(0.0, copy_s(bytes) - latency_s);
  }
  // From the first byte of a message until it is combined.
  double combined_s(double bytes) const noexcept {
    const double segment = std::min(bytes, static_cast<double>(segment_bytes));
    return segment * (byte_s + reduced_byte_s) +
           (bytes - segment) * std::max(byte_s, reduced_byte_s);
  }
};

// How the ranks of a communicator reach each other: the same on all of them. With the constants of
// the machine it says what a call's time is predicted with, by how many ranks share a core and
// whether its vectors fit the cache.
struct TopologyParams {
  Constants constants{};
  bool shares_memory = false;  // otherwise a network
  int ranks_per_core = 1;
  int ranks_per_link = 1;  // of one node to the others

  CostModel model(const CallShape& shape) const noexcept;
};

// Of the ranks of each node, and of so many ranks of each node that send at the same time.
constexpr TopologyParams inside(TopologyParams topology) noexcept {
  topology.shares_memory = true;
  return topology;
}
constexpr TopologyParams between(TopologyParams topology, int ranks_per_link = 1) noexcept {
  topology.shares_memory = false;
  topology.ranks_per_link = ranks_per_link;
  topology.ranks_per_core = std::min(topology.ranks_per_core, ranks_per_link);
  return topology;
}

// Of one call: the time until the last rank has its result, and what the rank that sends most
// sends.
struct Cost {
  double time_s = 0;
  double messages = 0;
  double bytes = 0;

  // One round of so many messages each, the same on every rank.
  Cost& add_round(const CostModel& model, int count, double bytes_each) noexcept {
    if (count == 0) return *this;
    time_s += model.round_s(count, bytes_each);
    messages += count;
    bytes += count * bytes_each;
    return *this;
  }
  Cost& operator+=(const Cost& other) noexcept {
    time_s += other.time_s;
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
};

// Of an algorithm in which a rank sends to all others, or all others to it.
inline constexpr int messages_in_flight_max = 16;

// Every rank sends so many bytes to each other one, messages_in_flight_max of them at a time.
inline Cost all_pairs_cost(int size, double bytes_each, const CostModel& model) noexcept {
  Cost cost;
  int left = size - 1;
  for (; left > messages_in_flight_max; left -= messages_in_flight_max)
    cost.add_round(model, messages_in_flight_max, bytes_each);
  return cost.add_round(model, left, bytes_each);
}

}  // namespace qpmesh::collectives

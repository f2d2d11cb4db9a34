// SPDX-License-Identifier: MIT
// What a simulated network promises and how badly it behaves within its promises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/transport.hpp"

namespace qpmesh::simulator {

using transport::Capabilities;
using transport::Notification;
using transport::Post;
using transport::RemoteAddress;
using transport::Write;

enum class WriteOrder : std::uint8_t {
  strict,   // a connection's writes are placed one after another, each completely before the next
  relaxed,  // bytes of different writes in flight are placed in any order; only an immediate (or
            // ordered flag) waits for all before it
};

struct NetworkConfig {
  std::uint64_t seed = 1;  // decides everything that is left open below
  int rank_count = 2;

  // Promises: they become the transports' Capabilities.
  bool ordered_flag = false;
  bool bytes_in_order = false;
  Notification small = Notification::poll;
  Notification medium = Notification::poll;
  bool loads_peer_memory = false;
  bool copies_private_memory = false;
  bool registers_user_memory = true;
  bool rendezvous_reads = false;  // what a job over it chooses: QPMESH_RENDEZVOUS
  bool registered_sources = false;
  bool one_node = false;     // ranks load each other's arenas, and see at once what is stored there
  std::vector<int> nodes{};  // by rank: the same, of those with equal numbers here
  std::size_t inline_bytes_max = 220;
  std::size_t write_bytes_max = std::size_t{1} << 30;
  WriteOrder write_order = WriteOrder::strict;
  int rails = 1;  // or 2: that join each pair of a job

  // Behaviour. Times are virtual.

  // From post to the first byte, and from the last byte to the completion.
  std::int64_t delay_min_ns = 500;
  std::int64_t delay_max_ns = 3'000;
  std::int64_t gap_max_ns = 200;  // between two pieces of a write
  // A write is placed in 1…pieces_max pieces of any lengths, in any order unless bytes_in_order.
  int pieces_max = 8;
  // That the target is stepped between two pieces; less makes many ranks cheaper.
  double peek_probability = 1.0;
  int depth = 16;  // writes in flight of one connection; beyond them post answers busy
  double busy_probability = 0.02;  // that post answers busy anyway
  // Immediates of a connection that wait to be taken, at most: one more finds no receive request,
  // and breaks the link. 0: no limit.
  std::uint32_t receives = 0;
  // That a write's bytes are read from the source again and placed a second time. Only while its
  // completion is outstanding, nothing after it has begun to be placed, and no immediate or ordered
  // flag has told the receiver that they are final.
  double retransmission_probability = 0.02;

  std::int64_t control_delay_min_ns = 10'000;
  std::int64_t control_delay_max_ns = 200'000;
  // From a rank's end to a peer's notice, by the control channel and by the link.
  std::int64_t death_delay_min_ns = 100'000;
  std::int64_t death_delay_max_ns = 30'000'000;

  // Every rank is stepped this often even when nothing happens to it, so that deadlines pass.
  // While the whole network is silent the interval grows up to the maximum, so that waiting for
  // a deadline ten minutes away stays cheap.
  std::int64_t tick_ns = 1'000'000;
  std::int64_t tick_max_ns = 100'000'000;
};

// Shared memory: the flag comes last, peers' memory can be loaded, user memory
// is closed, sources are copied by post.
inline NetworkConfig shared_memory_network(int rank_count, std::uint64_t seed) {
  return {.seed = seed,
          .rank_count = rank_count,
          .ordered_flag = true,
          .loads_peer_memory = true,
          .registers_user_memory = false,
          .inline_bytes_max = std::size_t{1} << 20,
          .write_bytes_max = std::size_t{1} << 20,
          .retransmission_probability = 0};
}

// The same, for algorithms that load without messages: nothing tells the network that a flag was
// stored, so every rank looks often.
inline NetworkConfig one_node_network(int rank_count, std::uint64_t seed) {
  NetworkConfig config = shared_memory_network(rank_count, seed);
  config.one_node = true;
  config.copies_private_memory = true;
  config.tick_ns = config.tick_max_ns = 1'000;
  return config;
}

// Several nodes: what is inside them is as above, and the network between them as given.
inline NetworkConfig network_of_nodes(NetworkConfig between, std::vector<int> nodes) {
  between.nodes = std::move(nodes);
  between.tick_ns = between.tick_max_ns = 1'000;
  return between;
}

// An RDMA device that keeps write after write, and nothing inside a write.
inline NetworkConfig polled_network(int rank_count, std::uint64_t seed) {
  return {.seed = seed, .rank_count = rank_count};
}

// An RDMA device that keeps nothing but its immediates.
inline NetworkConfig immediate_network(int rank_count, std::uint64_t seed) {
  return {.seed = seed,
          .rank_count = rank_count,
          .small = Notification::immediate,
          .medium = Notification::immediate,
          .write_order = WriteOrder::relaxed};
}

}  // namespace qpmesh::simulator

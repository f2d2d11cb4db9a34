// SPDX-License-Identifier: MIT
// Ranks on a simulated network, each with registered memory and a connection to every
// other: for tests that stand below messaging.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "simulator/network.hpp"

namespace qpmesh::test {

struct MeshRank {
  std::vector<std::byte> memory;
  std::unique_ptr<simulator::Transport> transport;
  std::unique_ptr<base::ControlChannel> control;
  std::uint32_t region = 0;
  std::map<int, std::unique_ptr<transport::Connection>> connections;
};

class Mesh {
 public:
  explicit Mesh(const simulator::NetworkConfig& config, std::size_t memory_bytes = 64 * 1024)
      : network{config}, ranks(static_cast<std::size_t>(config.rank_count)) {
    for (int rank = 0; rank < config.rank_count; ++rank) {
      MeshRank& mine = (*this)[rank];
      mine.memory.resize(memory_bytes);
      mine.transport = network.make_transport(rank);
      mine.control = network.make_control_channel(rank);
      mine.region =
          mine.transport->register_memory(mine.memory, transport::RegionKind::lasting).region;
    }
    // All addresses before the first connection, as a bootstrap gathers them.
    std::map<std::pair<int, int>, Blob> addresses;
    for (int rank = 0; rank < config.rank_count; ++rank) {
      for (int peer = 0; peer < config.rank_count; ++peer) {
        if (peer != rank)
          addresses.emplace(std::pair{rank, peer}, (*this)[rank].transport->address_for(peer));
      }
    }
    for (const auto& [ranks_of, address] : addresses) {
      const auto [from, to] = ranks_of;
      (*this)[to].connections.emplace(from, (*this)[to].transport->connect(from, address));
    }
  }

  MeshRank& operator[](int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  transport::Connection& connection(int from, int to) { return *(*this)[from].connections.at(to); }
  transport::RemoteAddress address(int rank, std::uint64_t offset) {
    return {(*this)[rank].region, offset};
  }

  simulator::Network network;
  std::vector<MeshRank> ranks;
};

// Nothing refused, nothing sent twice: for tests that count.
inline simulator::NetworkConfig calm(simulator::NetworkConfig config) {
  config.busy_probability = 0;
  config.retransmission_probability = 0;
  return config;
}

inline std::vector<std::byte> filled(std::size_t bytes, int value) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

inline transport::Post post(Mesh& mesh, int from, int to, const transport::Write& write) {
  return mesh.connection(from, to).post({&write, 1});
}

inline std::size_t count(const std::vector<std::byte>& memory, int value) {
  return static_cast<std::size_t>(
      std::count(memory.begin(), memory.end(), static_cast<std::byte>(value)));
}

}  // namespace qpmesh::test

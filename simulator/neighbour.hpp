// SPDX-License-Identifier: MIT
// What ranks of a simulated node know of each other's memory: all of it lies in this process. A
// dead rank has no memory any more.
#pragma once

#include <cerrno>
#include <cstring>

#include "simulator/network.hpp"
#include "transport/neighbour.hpp"

namespace qpmesh::simulator {

class Neighbour final : public transport::Neighbour {
 public:
  Neighbour(const Network& network, int rank, const transport::Arena& arena) noexcept
      : transport::Neighbour{arena}, network_{network}, rank_{rank} {}

  bool copies_private() const noexcept override { return true; }
  int copy_private(std::byte* target, std::uint64_t address,
                   std::size_t bytes) const noexcept override {
    if (has_ended()) return ESRCH;
    if (bytes > 0) std::memcpy(target, reinterpret_cast<const std::byte*>(address), bytes);
    return 0;
  }
  bool fill(transport::FillGuard& guard, const transport::FillTarget& target,
            std::span<const std::byte> source) const noexcept override {
    if (has_ended() || !guard.begin(target.number)) return false;
    std::memcpy(reinterpret_cast<std::byte*>(target.address), source.data(), source.size());
    guard.end(target.number);
    return true;
  }
  bool has_ended() const noexcept override { return !network_.alive(rank_); }

 private:
  const Network& network_;
  int rank_;
};

}  // namespace qpmesh::simulator

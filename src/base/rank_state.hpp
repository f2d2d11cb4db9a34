// SPDX-License-Identifier: MIT
// What a rank does, in one word that who has started it reads (qpmesh-run --states). A word for
// each rank lies in a file that the launcher makes and the rank maps. It stands for itself: its
// stores and loads are relaxed, and order nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/owned.hpp"

namespace qpmesh::base {

struct RankState {
  // "allreduce"; "another call" of a name that is not in the table; empty: in none.
  std::string_view call{};
  int peer = -1;               // of a message; -1: none, or any
  std::uint64_t since_ms = 0;  // CLOCK_MONOTONIC; 0: it has not joined yet
};

std::uint64_t encode(const RankState& state) noexcept;
RankState decode(std::uint64_t word) noexcept;

// This rank's word in the file that QPMESH_STATES=FILE:INDEX names.
class OwnRankState {
 public:
  OwnRankState() noexcept = default;  // nobody reads it
  // "FILE:INDEX". Nothing where that is empty or cannot be mapped: the launcher shows less then.
  explicit OwnRankState(std::string_view place) noexcept;

  explicit operator bool() const noexcept { return word_ != nullptr; }
  void tell(const RankState& state) const noexcept {
    if (word_ != nullptr) word_->store(encode(state), std::memory_order_relaxed);
  }

 private:
  Mapping page_{};
  std::atomic<std::uint64_t>* word_ = nullptr;
};

}  // namespace qpmesh::base

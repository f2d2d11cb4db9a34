// SPDX-License-Identifier: MIT
// The one source of chance in a simulation: the same seed gives the same numbers on every machine,
// which <random>'s distributions do not promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/bytes.hpp"

namespace qpmesh::simulator {

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_{seed} {}

  std::uint64_t next() noexcept { return base::mix64(state_ += 0x9e3779b97f4a7c15U); }
  // 0…bound-1; bound > 0. The bias of the remainder is no concern here.
  std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  std::int64_t between(std::int64_t first, std::int64_t last) noexcept {  // both included
    return first + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(last - first) + 1));
  }
  bool chance(double probability) noexcept {
    return probability > 0 && static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }
  template <class T>
  void shuffle(std::span<T> items) noexcept {
    for (std::size_t left = items.size(); left > 1; --left)
      std::swap(items[left - 1], items[below(left)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace qpmesh::simulator

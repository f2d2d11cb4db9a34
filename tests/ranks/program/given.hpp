// SPDX-License-Identifier: MIT
// One call of a collective with arguments that a test spoils, in both of its forms.
#pragma once

#include <optional>

#include "program/scenario.hpp"

namespace qpmesh::ranks {

struct Given {
  Collective collective;
  std::span<int> in{};
  std::span<int> out{};
  std::optional<BlockLayout> in_layout{};
  std::optional<BlockLayout> out_layout{};
  Reduction reduction = sum;
  int root = 0;
  CallOptions call{};
};

// Both forms throw Error{bad_argument} where they are called.
void refused(Communicator& world, const Given& given, const std::string& cause,
             const std::string& hint, int peer = no_peer, Place place = Place::current());

// Blocks of two elements, and one element too many of everything.
struct Memory {
  explicit Memory(int size)
      : ranks{static_cast<std::size_t>(size)}, all(2 * ranks + 1), others(2 * ranks + 1) {}

  std::span<int> block(std::size_t count = 2) { return std::span{one}.first(count); }
  std::span<int> whole() { return std::span{all}.first(2 * ranks); }
  std::span<int> other_whole() { return std::span{others}.first(2 * ranks); }

  std::size_t ranks;
  std::vector<int> one = std::vector<int>(4);
  std::vector<int> all;
  std::vector<int> others;
};

}  // namespace qpmesh::ranks

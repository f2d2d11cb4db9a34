// SPDX-License-Identifier: MIT
// How much memory the ranks of a node may still touch before the kernel kills one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace qpmesh::topology {

inline constexpr std::uint64_t memory_unlimited = std::numeric_limits<std::uint64_t>::max();

// What one rank sees. What cannot be read is not a limit.
struct MemoryLeft {
  std::uint64_t machine_bytes = memory_unlimited;  // all ranks of the node share it
  std::uint64_t group_bytes = memory_unlimited;  // of the tightest control group above this process
  std::uint64_t group = 0;  // which one: ranks with equal numbers share what it leaves
};

// The text of a file; empty where there is none.
using ReadFile = std::function<std::string(const std::string& path)>;

// The machine: available memory and free swap; where the kernel commits no more than it has, what
// is not committed. Control groups, version 1 and 2: limit less use, and page cache counts as free.
MemoryLeft memory_left(const ReadFile& read);
MemoryLeft memory_left();

// What a rank is going to touch.
struct MemoryClaim {
  int node = 0;
  std::uint64_t bytes = 0;
  MemoryLeft left;
};

struct MemoryShortage {
  enum class Of : std::uint8_t { machine, control_group };
  Of of = Of::machine;
  std::size_t first = 0;  // the lowest claim that counts
  int claims = 0;
  std::uint64_t need_bytes = 0;  // of them together
  std::uint64_t left_bytes = 0;
};

// The same for everybody who has the same claims.
std::optional<MemoryShortage> find_shortage(std::span<const MemoryClaim> claims);

}  // namespace qpmesh::topology

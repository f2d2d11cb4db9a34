// SPDX-License-Identifier: MIT
// A write or a read on its way: where its bytes come from, the pieces they are cut into, how far it
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/config.hpp"
#include "simulator/random.hpp"

namespace qpmesh::simulator {

struct Piece {
  std::size_t offset = 0;  // in the write
  std::size_t bytes = 0;
};

struct Flight {
  std::uint64_t sequence = 0;  // of the endpoint's writes
  std::span<const std::byte> head;
  std::span<const std::byte> body;
  std::vector<std::byte> copied;            // what was inline: head and body in one
  std::span<std::byte> into;                // of a read, which has neither head nor body
  std::optional<std::uint32_t> own_region;  // that our end of it must lie in as long as it flies
  RemoteAddress target;                     // of a read: where its bytes come from
  // Of a flag that is stored last; no_flag where it is placed like any bytes.
  std::uint32_t flag_offset = Write::no_flag;
  std::uint32_t flag_bytes = 4;
  std::optional<std::uint32_t> immediate;
  bool tell = false;

  std::int64_t ready_ns = 0;  // not placed before
  std::vector<Piece> pieces;  // in the order of their placement
  std::size_t placed = 0;     // of them
  bool began = false;         // its pieces have been given their times
  bool retired = false;       // all of it is visible, and all before it

  bool is_read() const noexcept { return into.data() != nullptr; }
  std::size_t bytes() const noexcept { return is_read() ? into.size() : head.size() + body.size(); }
  bool all_placed() const noexcept { return placed == pieces.size(); }
  // The receiver has been told that the bytes are final and may hand the memory to somebody else.
  bool settled() const noexcept {
    return retired && (immediate.has_value() || flag_offset != Write::no_flag);
  }

  // Takes the source's bytes [offset, offset + out.size()) as they are now.
  void read(std::size_t offset, std::span<std::byte> out) const noexcept;
  // Cuts everything but an ordered flag into at most pieces_max pieces (one more with an ordered
  // flag), in random places and, unless in_order, random order.
  void cut(int pieces_max, bool in_order, Random& random);
};

}  // namespace qpmesh::simulator

// SPDX-License-Identifier: MIT
// What goes over the socket of a pair: frames in the order posted, each a header and, of a write,
// the bytes for one place in the receiver's memory. Numbers are little-endian, as everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/transport.hpp"

namespace qpmesh::transport::tcp {

enum class FrameKind : std::uint32_t {
  write = 1,  // bytes follow, for the address
  read,       // so many bytes of the address are wanted
  answer,     // bytes follow: of the oldest read that has no answer
  refusal,    // nothing there is open: of the oldest read that has no answer
};

inline constexpr std::size_t write_bytes_max = std::size_t{1} << 20;
// Asking takes two more calls of the system at each end and a way through both kernels: measured,
// messages of 64 to 256 KiB take 0.65 to 0.85 of the time where nobody asks.
inline constexpr std::size_t eager_bytes_max = std::size_t{256} << 10;
// Of a step of a collective, for which the other ranks wait: an allreduce of 1 MiB with two ranks
// takes 0.6 of the time where the cores are far apart, and as long where they are near. Of a
// message that nobody waits for, and of longer steps of four ranks, the copy costs more than the
// answer.
inline constexpr std::size_t eager_step_bytes_max = std::size_t{512} << 10;
// A frame up to this length is placed at once when all of it is here, so that whoever finds a flag
// in its target finds the rest, too. A longer one goes into its target piece by piece.
inline constexpr std::size_t whole_bytes_max = 2048;
// Reads of one connection that may be without an answer: the peer keeps each of them.
inline constexpr std::size_t reads_max = 16;

struct FrameHeader {
  std::uint32_t kind_and_bytes = 0;  // kind in the upper eight bits
  std::uint32_t region = 0;
  std::uint64_t offset = 0;

  static FrameHeader of(FrameKind kind, std::size_t bytes, RemoteAddress address = {}) noexcept {
    return {.kind_and_bytes =
                static_cast<std::uint32_t>(kind) << 24 | static_cast<std::uint32_t>(bytes),
            .region = address.region,
            .offset = address.offset};
  }
  FrameKind kind() const noexcept { return static_cast<FrameKind>(kind_and_bytes >> 24); }
  std::size_t bytes() const noexcept { return kind_and_bytes & 0xff'ffffU; }
  RemoteAddress address() const noexcept { return {region, offset}; }
  bool is_followed_by_bytes() const noexcept {
    return kind() == FrameKind::write || kind() == FrameKind::answer;
  }
};
static_assert(sizeof(FrameHeader) == 16 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(write_bytes_max < (std::size_t{1} << 24));

}  // namespace qpmesh::transport::tcp

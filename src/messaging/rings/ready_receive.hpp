// SPDX-License-Identifier: MIT
// What a receiver of the node waits for in a receive that blocks, told to who sends it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "messaging/mutant.hpp"

namespace qpmesh::messaging {

// A message of some KiB that is copied into the ring and out of it again is copied once where the
// receiver stands ready: then its sender offers it, and the receiver copies it out of the sender's
// memory. One that does not stand ready would keep the sender waiting, so the rest goes by the
// ring.
//
// Lies in the receiver's slot for the sender. A hint: whatever is read in it, the message arrives.
// It names a receive, how long it is, and how much of the sender's the receiver has taken: so it is
// for the very next message and for no later one, and for none that the receive would refuse.
template <class Atomics>
struct ReadyReceive {
  std::uint64_t word;  // 0: none

  // Of a message or a receive. Where two share a name the message waits for its receive, as longer
  // ones do.
  static constexpr std::uint32_t name_of(std::uint64_t communicator, std::uint64_t key,
                                         std::uint32_t signature) noexcept {
    const std::uint64_t mixed =
        (communicator ^ signature) * 0x9e3779b97f4a7c15U ^ (key + 1) * 0xd6e8feb86659fd93U;
    return static_cast<std::uint32_t>(mixed >> 32) | 1U;
  }

  // The receiver's. Of less than 64 KiB.
  void begin(std::uint32_t name, std::size_t bytes, std::uint64_t lines_taken) noexcept {
    Atomics::store_relaxed(&word, std::uint64_t{name} << 32 | bytes << 16 | low(lines_taken));
  }
  void end() noexcept { Atomics::store_relaxed(&word, std::uint64_t{0}); }

  // The sender's: is it for a message behind all that were sent?
  bool is_for(std::uint32_t name, std::size_t bytes, std::uint64_t lines_sent) const noexcept {
    const std::uint64_t now = Atomics::load_relaxed(&word);
    const bool is_next = low(now) == low(lines_sent) || mutant == Mutant::ready_lines;
    return now >> 32 == name && is_next && low(now >> 16) >= bytes;
  }

 private:
  static constexpr std::uint64_t low(std::uint64_t value) noexcept { return value & 0xffffU; }
};

}  // namespace qpmesh::messaging

// SPDX-License-Identifier: MIT
// The word by which one end of a pair over two rails tells the other that it has severed a rail
// (rails.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/atomics.hpp"

namespace qpmesh::transport {

enum class Rail : std::uint8_t { first, second };

struct RailNotice {
  static constexpr std::uint32_t taken_mask = 0x7fff'ffff;

  Rail severed = Rail::first;
  std::uint32_t taken = 0;  // of the first rail: messages that this end took, in their low 31 bits
};

// Lies in registered memory, zeroes at first: an end has one where it writes what it tells, whence
// its device takes it to the other's. It is written once.
//
// The device may write it in any order: the second half is the first one's complement, and a notice
// that is there in part is none. Who has read it posts again into the peer's memory what the peer
// has not taken. Before the peer told, it severed the rail, and cleared what was there in part:
// hence the acquire behind the halves, and the barrier of the provider, a release, by which a
// device is told to write.
template <class Atomics>
struct RailNoticeWord {
  std::uint32_t content;
  std::uint32_t complement;

  void write(const RailNotice& notice) noexcept {
    const std::uint32_t word =
        (notice.severed == Rail::first ? first_bit : 0) | (notice.taken & RailNotice::taken_mask);
    Atomics::store_plain(&content, word);
    Atomics::store_plain(&complement, ~word);
  }

  std::optional<RailNotice> read() const noexcept {
    const std::uint32_t word = Atomics::load_relaxed(&content);
    if (Atomics::load_relaxed(&complement) != ~word) return std::nullopt;
    Atomics::order_loads();
    return RailNotice{.severed = (word & first_bit) != 0 ? Rail::first : Rail::second,
                      .taken = word & RailNotice::taken_mask};
  }

 private:
  static constexpr std::uint32_t first_bit = 0x8000'0000;
};

// What either end keeps for the other in memory that it has registered: three words of zeroes. The
// peer writes the first one, the second is what we write there, reads fill the third. Aligned.
inline constexpr std::size_t rail_notice_bytes = 3 * sizeof(RailNoticeWord<base::ProcessAtomics>);

}  // namespace qpmesh::transport

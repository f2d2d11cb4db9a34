// SPDX-License-Identifier: MIT
// Who copies how much of what one process reads out of another's memory, when both wait for it: the
// reader begins, and the other one may fill the rest into the reader's private memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/atomics.hpp"

namespace qpmesh::base {

// From where on two cores are worth the word between them; beyond, one call of the system does not
// take all.
inline constexpr std::size_t filled_bytes_min = std::size_t{64} << 10;
inline constexpr std::size_t filled_bytes_max = std::size_t{1} << 30;

// Lets another process fill a part of this one's memory, once. Lies in memory that both map. The
// owner opens it and takes it back; the other one begins, and its last store is the word `done`,
// behind the data.
//
// What the other one has not begun when the owner takes the memory back it never begins: both
// change the word from `open`, and one of them succeeds. What it has begun nobody can stop: until
// the word says closed or done, or that process has ended, the memory is not its owner's.
template <class Atomics>
struct FillGuard {
  enum Phase : std::uint64_t { closed, open, begun, done };
  static constexpr std::uint64_t word(std::uint64_t number, Phase phase) noexcept {
    return number << 2 | phase;
  }

  std::uint64_t state;  // the number of what may be filled, and its phase

  // The owner's. number: another one each time.
  void open_for(std::uint64_t number) noexcept {
    Atomics::store_release(&state, word(number, open));
  }
  // The owner's. closed: the memory is its own, and not filled. done: its own, and filled. begun:
  // the other one writes; ask again.
  Phase take_back(std::uint64_t number) noexcept {
    return change(number, open, closed) ? closed : phase_of(number);
  }

  // The other's. True: it may fill now.
  bool begin(std::uint64_t number) noexcept { return change(number, open, begun); }
  // The other's, behind the data. The system does the same where it copies.
  void end(std::uint64_t number) noexcept { Atomics::store_release(&state, word(number, done)); }
  // The other's, or the owner's when the other one is gone: it writes no more, and has not written
  // all.
  void give_up(std::uint64_t number) noexcept {
    Atomics::store_release(&state, word(number, closed));
  }

  // Acquires what was filled where it says done.
  Phase phase_of(std::uint64_t number) const noexcept {
    const std::uint64_t now = Atomics::load_acquire(&state);
    return now >> 2 == number ? static_cast<Phase>(now & 3) : closed;
  }

 private:
  bool change(std::uint64_t number, Phase from, Phase to) noexcept {
    std::uint64_t expected = word(number, from);
    return Atomics::compare_exchange_acq_rel(&state, expected, word(number, to));
  }
};

// Where the other one fills: addresses in the owner's process.
struct FillTarget {
  std::uint64_t address = 0;
  std::uint64_t guard_address = 0;
  std::uint64_t number = 0;
};

// How much the other one is asked to fill, so that both end together. Which of them is faster
// depends on where their cores are, and on whose cache has what is written; it is learnt by who had
// to wait.
class FillShare {
 public:
  // readers: that the other one fills for in turn.
  explicit constexpr FillShare(int readers = 1) noexcept
      : sixteenths_{static_cast<std::uint8_t>(std::max(16 / (readers + 1) - 1, 1))} {}
  // Of one that has something else to copy meanwhile.
  static constexpr FillShare most() noexcept {
    FillShare share;
    share.sixteenths_ = sixteenths_max;
    return share;
  }

  // The first bytes are the asking one's; in whole pages.
  std::size_t first_bytes(std::size_t bytes) const noexcept {
    return bytes - bytes / 16 * sixteenths_ / 4096 * 4096;
  }
  void it_was_faster() noexcept {
    sixteenths_ = std::min<std::uint8_t>(sixteenths_ + 1, sixteenths_max);
  }
  void it_was_awaited() noexcept { sixteenths_ = std::max<std::uint8_t>(sixteenths_ - 1, 1); }

 private:
  static constexpr std::uint8_t sixteenths_max = 12;
  std::uint8_t sixteenths_;
};

}  // namespace qpmesh::base

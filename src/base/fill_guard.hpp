// Who copies how much of what one process reads out of another's memory, when both wait for it: the reader begins, and the owner may fill
// the rest into the reader's private memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/cpu.hpp"

namespace qpmesh::base {

// From where on two cores are worth the word between them; beyond, one call of the system does not take all.
inline constexpr std::size_t filled_bytes_min = std::size_t{64} << 10;
inline constexpr std::size_t filled_bytes_max = std::size_t{1} << 30;

// What each of so many readers copies itself of a vector whose owner fills an equal part for every one of them. Whole pages, and a page more:
// the reader begins while its word is on its way.
constexpr std::size_t first_part_bytes(std::size_t bytes, std::size_t readers) noexcept {
  return std::min(bytes, round_up(bytes - bytes / (readers + 1), 4096) + 4096);
}

// Lets another process fill a part of this one's private memory, once. Lies in memory that both map, and is opened and settled by
// the owner, who gets its memory back for certain: what the other one has not begun by then it never begins, and what it has begun is one
// call of the system, whose last store is the word `done`. A process that is stopped stops before such a call or behind it.
struct FillGuard {
  enum Phase : std::uint64_t { closed, open, begun, done };
  static constexpr std::uint64_t word(std::uint64_t number, Phase phase) noexcept {
    return number << 2 | phase;
  }

  std::atomic<std::uint64_t> state;  // the number of what may be filled, and its phase

  // The owner's. number: another one each time.
  void open_for(std::uint64_t number) noexcept { state.store(word(number, open), std::memory_order_release); }
  // The owner's: nobody writes its memory after it. True: it is filled. is_there(): does the other process live? It is asked now and then
  // while that process fills.
  template <class IsThere>
  bool settle(std::uint64_t number, IsThere&& is_there) noexcept {
    if (change(number, open, closed)) return false;
    for (std::uint32_t looks = 1; phase_of(number) == begun; ++looks) {
      cpu_pause();
      if (looks % looks_per_question != 0) continue;
      if (!is_there()) return false;
      if (looks == looks_max) end_process();
    }
    return phase_of(number) == done;
  }
  // The other's. True: it may fill now.
  bool begin(std::uint64_t number) noexcept { return change(number, open, begun); }
  Phase phase_of(std::uint64_t number) const noexcept {
    const std::uint64_t now = state.load(std::memory_order_acquire);
    return now >> 2 == number ? static_cast<Phase>(now & 3) : closed;
  }

 private:
  static constexpr std::uint32_t looks_per_question = 1U << 14;
  static constexpr std::uint32_t looks_max = 1U << 30;  // half a minute

  // The other one was stopped between `begun` and its call, two instructions later. When it goes on it writes where this process may
  // have put anything else by then.
  [[noreturn]] static void end_process() noexcept;

  bool change(std::uint64_t number, Phase from, Phase to) noexcept {
    std::uint64_t expected = word(number, from);
    return state.compare_exchange_strong(expected, word(number, to), std::memory_order_acq_rel);
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace qpmesh::base

// Who copies how much of what one process reads out of another's memory, when both wait for it: the reader begins, and the owner may fill
// the rest into the reader's private memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/cpu.hpp"

namespace qpmesh::base {

// From where on two cores are worth the word between them; beyond, one call of the system does not take all.
inline constexpr std::size_t filled_bytes_min = std::size_t{64} << 10;
inline constexpr std::size_t filled_bytes_max = std::size_t{1} << 30;

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
  // The owner's: nobody writes its memory after it. ends_soon(): waits for a millisecond whether the other process ends, with all its threads.
  // It is asked when that process takes long to fill.
  enum class Settled : std::uint8_t { not_filled, done_before, awaited };
  template <class EndsSoon>
  Settled settle(std::uint64_t number, EndsSoon&& ends_soon) noexcept {
    if (change(number, open, closed)) return Settled::not_filled;
    if (phase_of(number) == done) return Settled::done_before;
    for (std::uint32_t looks = 1; phase_of(number) == begun; ++looks) {
      cpu_pause();
      if (looks % looks_per_question != 0) continue;
      if (ends_soon()) return Settled::not_filled;
      if (looks / looks_per_question == questions_max) end_process();
    }
    return phase_of(number) == done ? Settled::awaited : Settled::not_filled;
  }
  // The other's. True: it may fill now.
  bool begin(std::uint64_t number) noexcept { return change(number, open, begun); }
  Phase phase_of(std::uint64_t number) const noexcept {
    const std::uint64_t now = state.load(std::memory_order_acquire);
    return now >> 2 == number ? static_cast<Phase>(now & 3) : closed;
  }

 private:
  static constexpr std::uint32_t looks_per_question = 1U << 14;
  static constexpr std::uint32_t questions_max = 60'000;  // a minute

  // The other one was stopped between `begun` and its call, two instructions later. When it goes on it writes where this process may
  // have put anything else by then.
  [[noreturn]] static void end_process() noexcept {
    std::fputs(
        "qpmesh: a process was stopped when it began to write into this one, which cannot wait for ever\n",
        stderr);
    std::abort();
  }

  bool change(std::uint64_t number, Phase from, Phase to) noexcept {
    std::uint64_t expected = word(number, from);
    return state.compare_exchange_strong(expected, word(number, to), std::memory_order_acq_rel);
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// How much the other one is asked to fill, so that both end together. Which of them is faster depends on where their cores are, and on whose
// cache has what is written; it is learnt by who had to wait.
class FillShare {
 public:
  // readers: that the other one fills for in turn.
  explicit constexpr FillShare(int readers = 1) noexcept
      : sixteenths_{static_cast<std::uint8_t>(std::max(16 / (readers + 1) - 1, 1))} {}

  // The first bytes are the asking one's; in whole pages.
  std::size_t first_bytes(std::size_t bytes) const noexcept {
    return bytes - bytes / 16 * sixteenths_ / 4096 * 4096;
  }
  void learn(FillGuard::Settled settled) noexcept {
    if (settled == FillGuard::Settled::awaited && sixteenths_ > 1) --sixteenths_;
    if (settled == FillGuard::Settled::done_before && sixteenths_ < sixteenths_max) ++sixteenths_;
  }

 private:
  static constexpr std::uint8_t sixteenths_max = 12;
  std::uint8_t sixteenths_;
};

}  // namespace qpmesh::base

// SPDX-License-Identifier: MIT
// Whose turn it is in a context that several threads use: one is inside at a time, and the others
// come to it in the order in which they ask.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/atomics.hpp"

namespace qpmesh::progress {

// A ticket lock (Mellor-Crummey and Scott, "Algorithms for Scalable Synchronization on
// Shared-Memory Multiprocessors", 1991): in order, so that a thread that polls inside and asks
// again at once does not starve one that has asked before.
template <class Atomics>
struct Tickets {
  std::uint32_t next = 0;     // to be drawn; written by whoever asks
  std::uint32_t serving = 0;  // written by who is inside: its release carries what was done there

  std::uint32_t draw() noexcept {
    std::uint32_t ticket = Atomics::load_relaxed(&next);
    while (!Atomics::compare_exchange_acq_rel(&next, ticket, ticket + 1)) {}
    return ticket;
  }
  bool is_served(std::uint32_t ticket) const noexcept {
    return Atomics::load_acquire(&serving) == ticket;
  }
  // By who is inside. Sequentially consistent: what follows asks whether anybody sleeps for it.
  void serve_next() noexcept {
    Atomics::store_seq_cst(&serving, Atomics::load_relaxed(&serving) + 1);
  }
  // By who is inside: does another one ask?
  bool is_wanted() const noexcept {
    return Atomics::load_relaxed(&next) - Atomics::load_relaxed(&serving) > 1;
  }
};

class Turn {
 public:
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void take() noexcept;  // waits; it is not the caller's yet
  void give_up() noexcept;
  bool is_mine() const noexcept {
    return holder_.load(std::memory_order_relaxed) == ::pthread_self();
  }
  bool is_wanted() const noexcept { return tickets_.is_wanted(); }

 private:
  Tickets<base::ProcessAtomics> tickets_;
  // A thread asks for itself alone, and sees what it has stored itself: relaxed.
  std::atomic<pthread_t> holder_{};
};

// The turn as long as this object lives, unless the thread has it already, or nobody else is there.
class HeldTurn {
 public:
  explicit HeldTurn(Turn* turn) noexcept
      : turn_{turn == nullptr || turn->is_mine() ? nullptr : turn} {
    if (turn_ != nullptr) turn_->take();
  }
  ~HeldTurn() {
    if (turn_ != nullptr) turn_->give_up();
  }
  HeldTurn(const HeldTurn&) = delete;
  HeldTurn& operator=(const HeldTurn&) = delete;

 private:
  Turn* turn_;
};

}  // namespace qpmesh::progress

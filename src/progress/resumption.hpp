// SPDX-License-Identifier: MIT
// Coroutines of the program's that wait for the end of an operation. They go on between calls,
// where they may call themselves: never inside the call that finds the end.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/atomics.hpp"
#include "base/log.hpp"

namespace qpmesh::progress {

// The address of a coroutine that waits, or nothing. Who exchanges it for nothing has the
// coroutine: to resume it, or to be rid of it. Release and acquire carry what its own thread wrote
// before it stopped.
template <class Atomics>
struct WaitingCoroutine {
  std::uint64_t address = 0;

  void wait(void* coroutine) noexcept {
    Atomics::store_release(&address, std::bit_cast<std::uintptr_t>(coroutine));
  }
  bool waits() const noexcept { return Atomics::load_relaxed(&address) != 0; }
  void* take() noexcept {
    std::uint64_t taken = Atomics::load_relaxed(&address);
    while (taken != 0 && !Atomics::compare_exchange_acq_rel(&address, taken, std::uint64_t{0})) {}
    return std::bit_cast<void*>(static_cast<std::uintptr_t>(taken));
  }
};

// One that waits. What it finds when it goes on was written before in the turns of calls.
struct Resumption : WaitingCoroutine<base::ProcessAtomics> {
  std::shared_ptr<Resumption> next{};  // in a line
};

// Those whose operations have ended, the first one first. Nothing is allocated.
class ResumptionLine {
 public:
  ResumptionLine() noexcept = default;
  ResumptionLine(ResumptionLine&& other) noexcept
      : first_{std::move(other.first_)}, last_{std::exchange(other.last_, nullptr)} {}
  ResumptionLine& operator=(ResumptionLine&&) = delete;
  ~ResumptionLine() {
    while (!empty()) pop();  // not one inside the other
  }

  bool empty() const noexcept { return last_ == nullptr; }
  void push(std::shared_ptr<Resumption> one) noexcept;
  void append(ResumptionLine&& others) noexcept;
  std::shared_ptr<Resumption> pop() noexcept;

 private:
  std::shared_ptr<Resumption> first_;
  Resumption* last_ = nullptr;
};

// Outside of every turn. Of a thread that does this already, further up, that one goes on with
// them: coroutines that go on do not pile up on its stack. What one throws is logged.
void resume(ResumptionLine line, const base::Log& log) noexcept;

// As long as it lives none goes on in this thread: it leaves several contexts, one after the other.
class HeldResumptions {
 public:
  explicit HeldResumptions(const base::Log& log) noexcept;
  ~HeldResumptions();
  HeldResumptions(const HeldResumptions&) = delete;
  HeldResumptions& operator=(const HeldResumptions&) = delete;

 private:
  ResumptionLine line_;
  base::Log log_;
  bool outermost_;
};

}  // namespace qpmesh::progress

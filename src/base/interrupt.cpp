// SPDX-License-Identifier: MIT
#include "base/interrupt.hpp"

#include <algorithm>
#include <atomic>

#include "base/errors.hpp"
#include "qpmesh/interrupt.hpp"

namespace qpmesh {
namespace {

// Who sets the function has written what it reads, and who calls it sees that.
std::atomic<InterruptCheck> check_of_process{nullptr};

InterruptCheck current_check() noexcept { return check_of_process.load(std::memory_order_acquire); }

}  // namespace

void set_interrupt_check(InterruptCheck check) noexcept {
  check_of_process.store(check, std::memory_order_release);
}

bool base::may_be_interrupted() noexcept { return current_check() != nullptr; }

bool base::is_interrupted() noexcept {
  const InterruptCheck check = current_check();
  return check != nullptr && check();
}

void base::ask_in_start(Deadline now, const StartCheck& check) {
  thread_local Deadline ask_at{};
  if (now < ask_at) return;
  ask_at = now + ask_interval;
  if (is_interrupted())
    throw_error({.code = ErrorCode::aborted}, "init", "",
                "it was interrupted on that rank while it waited");
  if (check) check();
}

int base::poll_in_start(const System& system, std::span<pollfd> entries, Deadline deadline,
                        const StartCheck& check) {
  ask_in_start(system.now(), check);
  int left_ms = remaining_ms(system, deadline);
  if (may_be_interrupted() || check)
    left_ms = std::min(left_ms, static_cast<int>(ask_interval.count()));
  return system.call("poll", [&] { return ::poll(entries.data(), entries.size(), left_ms); });
}

}  // namespace qpmesh

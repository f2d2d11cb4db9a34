// SPDX-License-Identifier: MIT
#include "progress/waiting_threads.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/errors.hpp"

namespace qpmesh::progress {

WaitingThreads::WaitingThreads(const base::System& system) {
  bell_.reset(system.call("eventfd", [] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  if (!bell_) {
    const int error = errno;
    base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                      base::hint_for_descriptors(error), "eventfd failed");
  }
}

void WaitingThreads::ring() noexcept {
  if (rung_) return;
  rung_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof one);
}

void WaitingThreads::end_sleep() noexcept {
  sleeper_ = nullptr;
  if (!rung_) return;
  rung_ = false;
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto drained = ::read(bell_.get(), &rings, sizeof rings);
}

void WaitingThreads::park(WaitingThread& thread, Deadline until) {
  parked_.push_back(&thread);
  end_looking();
  {
    std::unique_lock lock{parking_};
    turn_.give_up();
    // With a deadline even where there is none: std::condition_variable::wait is a symbol that
    // libstdc++ 11 (RHEL 9) does not have.
    thread.bell.wait_until(lock, until, [&] { return thread.woken; });
  }
  turn_.take();
  if (!std::exchange(thread.woken, false)) {
    std::erase(parked_, &thread);
    begin_looking();
  }
}

void WaitingThreads::wake(std::size_t index) noexcept {
  WaitingThread& thread = *parked_[index];
  parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(index));
  begin_looking();
  const std::lock_guard lock{parking_};
  thread.woken = true;
  thread.bell.notify_one();
}

void WaitingThreads::wake_done() noexcept {
  for (std::size_t i = parked_.size(); i-- > 0;) {
    if (parked_[i]->done()) wake(i);
  }
  if (sleeper_ != nullptr && sleeper_->done()) ring();
}

void WaitingThreads::wake_one() noexcept {
  for (std::size_t i = 0; i < parked_.size(); ++i) {
    if (!parked_[i]->naps) return wake(i);
  }
}

}  // namespace qpmesh::progress

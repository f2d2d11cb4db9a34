// SPDX-License-Identifier: MIT
// Everything the library asks of the world that a test wants to decide: the
// time, randomness, and whether a call fails.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "qpmesh/deadline.hpp"

namespace qpmesh::base {

// Numbers the calls that can fail and fails a chosen one: the loop "fail the
// n-th call, for every n" of the fault tests.
class FailPoints {
 public:
  void fail_call(std::uint64_t index, int error) noexcept {  // index counts from 0
    fail_index_ = index;
    error_ = error;
  }
  std::uint64_t calls() const noexcept { return calls_; }
  bool fired() const noexcept { return fired_; }

  // The errno that the call at this site must fail with, or 0.
  int next(std::string_view site) noexcept {
    if (calls_++ != fail_index_) return 0;
    fired_ = true;
    fired_site_ = site;
    return error_;
  }
  std::string_view fired_site() const noexcept { return fired_site_; }

 private:
  std::uint64_t calls_ = 0;
  std::uint64_t fail_index_ = ~std::uint64_t{0};
  int error_ = 0;
  bool fired_ = false;
  std::string_view fired_site_;
};

// One per context. The base class is the real world; the simulator overrides time and randomness.
class System {
 public:
  explicit System(FailPoints* fail_points = nullptr) noexcept : fail_points_{fail_points} {}
  virtual ~System() = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;

  virtual Deadline now() const noexcept;  // monotonic
  // Cryptographic strength in the real world.
  virtual void random(std::span<std::byte> out) const noexcept;
  std::uint64_t random_u64() const noexcept;

  // Makes a system call that the fail points may fail first:
  //   call("mmap", [&] { return ::mmap(…); })
  // Like the call itself it returns -1 (or MAP_FAILED) and leaves the reason in errno. site is the
  // call's name and must be a literal.
  template <class F>
  auto call(std::string_view site, F&& function) const {
    using Result = std::invoke_result_t<F>;
    if (fail_points_ != nullptr) {
      if (const int error = fail_points_->next(site); error != 0) {
        errno = error;
        if constexpr (std::is_pointer_v<Result>) {
          return reinterpret_cast<Result>(std::intptr_t{-1});
        } else {
          return static_cast<Result>(-1);
        }
      }
    }
    return function();
  }

 private:
  FailPoints* fail_points_;
};

inline Deadline after_ms(const System& system, std::int64_t timeout_ms) noexcept {
  return timeout_ms == 0 ? no_deadline : system.now() + std::chrono::milliseconds{timeout_ms};
}

// Milliseconds left, never negative, rounded up so that waiting for them
// reaches the deadline; capped for poll(2).
int remaining_ms(const System& system, Deadline deadline, int cap_ms = 60'000) noexcept;

// The text of an errno. Unlike strerror's it is shared with no other thread.
std::string describe_errno(int error);

}  // namespace qpmesh::base

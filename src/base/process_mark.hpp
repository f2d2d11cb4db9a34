// SPDX-License-Identifier: MIT
// Which process made something. A child that is forked off has copies of all handles, and none of
// what they stand for is its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace qpmesh::base {

class ProcessMark {
 public:
  ProcessMark();  // of the process that makes it

  // Is this process a child that was forked off later? One comparison, without a system call.
  bool is_inherited() const noexcept {
    return forks_before_ != forks_.load(std::memory_order_relaxed);
  }
  pid_t pid() const noexcept { return pid_; }

 private:
  // Forks between the first process that had a mark and this one. Written in a child before its
  // fork() returns, when it has one thread; read by all calls.
  static std::atomic<std::uint32_t> forks_;

  std::uint32_t forks_before_;
  pid_t pid_;
};

}  // namespace qpmesh::base

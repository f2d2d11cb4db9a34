// SPDX-License-Identifier: MIT
// How long a thread was ready to run and had to wait for a core: while it did, no clock says
// anything of what it was doing.
#pragma once

#include <chrono>

#include "base/owned.hpp"

namespace qpmesh::base {

// Of the thread that makes it. A look is one system call, half a microsecond.
class RunDelay {
 public:
  RunDelay() noexcept;

  // In the thread's whole life. Stays 0 where the kernel does not tell (no /proc, no accounting).
  std::chrono::nanoseconds total() const noexcept;

 private:
  UniqueFd statistics_;
};

}  // namespace qpmesh::base

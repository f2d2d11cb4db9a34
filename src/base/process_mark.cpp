// SPDX-License-Identifier: MIT
#include "base/process_mark.hpp"

#include <pthread.h>
#include <unistd.h>

#include "base/errors.hpp"

namespace qpmesh::base {

std::atomic<std::uint32_t> ProcessMark::forks_{0};

ProcessMark::ProcessMark() : pid_{::getpid()} {
  static const int error =
      ::pthread_atfork(nullptr, nullptr, [] { forks_.fetch_add(1, std::memory_order_relaxed); });
  if (error != 0) {
    throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init", "",
                "pthread_atfork failed");
  }
  forks_before_ = forks_.load(std::memory_order_relaxed);
}

}  // namespace qpmesh::base

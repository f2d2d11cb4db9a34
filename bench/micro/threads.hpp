// SPDX-License-Identifier: MIT
// Two pinned threads that start a measured section together.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "bench/micro/probe.hpp"

namespace qpmesh::bench {

inline void pin_to(int core) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<unsigned>(core), &mask);
  if (const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof mask, &mask);
      error != 0) {
    throw std::system_error(error, std::generic_category(), "pthread_setaffinity_np");
  }
}

template <class F>
double elapsed_ns(F&& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// Runs both functions at once, each pinned to its core, and returns how long the first
// took. The caller's thread keeps the first core.
template <class First, class Second>
double run_pair_ns(CorePair cores, First&& first, Second&& second) {
  std::atomic<bool> ready{false};
  pin_to(cores.first);
  std::thread other{[&] {
    pin_to(cores.second);
    ready.store(true, std::memory_order_release);
    second();
  }};
  while (!ready.load(std::memory_order_acquire)) ::sched_yield();
  const double ns = elapsed_ns(first);
  other.join();
  return ns;
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
#include "progress/turn.hpp"

#include "base/cpu.hpp"

namespace qpmesh::progress {
namespace {

// Most are inside for less: a few looks at rings.
constexpr int spins_max = 200;

}  // namespace

void Turn::take() noexcept {
  const std::uint32_t ticket = tickets_.draw();
  for (int spins = 0; !tickets_.is_served(ticket); ++spins) {
    if (spins < spins_max) {
      base::cpu_pause();
      continue;
    }
    std::atomic_ref serving{tickets_.serving};
    const std::uint32_t seen = serving.load(std::memory_order_acquire);
    if (seen != ticket) serving.wait(seen, std::memory_order_acquire);
  }
  holder_.store(::pthread_self(), std::memory_order_relaxed);
}

void Turn::give_up() noexcept {
  holder_.store(pthread_t{}, std::memory_order_relaxed);
  tickets_.serve_next();
  std::atomic_ref{tickets_.serving}.notify_all();
}

}  // namespace qpmesh::progress

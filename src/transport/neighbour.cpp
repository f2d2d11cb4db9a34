// SPDX-License-Identifier: MIT
#include "transport/neighbour.hpp"

#include <unistd.h>

#include <utility>

namespace qpmesh::transport {

Neighbour::Neighbour(const base::System& system, int arena_fd, std::size_t arena_bytes,
                     base::UniqueFd doorbell, base::ProcessMemory private_memory)
    : mapping_{map_arena(system, arena_fd, arena_bytes)},
      own_doorbell_{std::move(doorbell)},
      arena_{mapping_.data()},
      arena_bytes_{mapping_.bytes()},
      asleep_{&reinterpret_cast<ArenaHeader*>(arena_)->asleep},
      doorbell_{own_doorbell_.get()},
      private_memory_{private_memory} {}

void Neighbour::ring(int doorbell) noexcept {
  const std::uint64_t one = 1;
  // A full counter is no failure: the sleeper is awake soon anyway.
  [[maybe_unused]] const auto written = ::write(doorbell, &one, sizeof one);
}

// The proof comes before the guard: between the two calls the id would have to be given again, and
// nothing else may pass between `begun` and the call that ends with `done`. A process that is
// stopped between the two keeps its neighbour's buffer until it goes on or ends (docs/errors.md).
bool Neighbour::fill(FillGuard& guard, const FillTarget& target,
                     std::span<const std::byte> source) const noexcept {
  if (!fills_private() || private_memory_.copy(nullptr, 0, 0) != 0) return false;
  if (!guard.begin(target.number)) return false;
  const std::uint64_t done = FillGuard::word(target.number, FillGuard::done);
  if (private_memory_.write(target.address, source.data(), source.size(), target.guard_address,
                            done))
    return true;
  guard.give_up(target.number);
  return false;
}

}  // namespace qpmesh::transport

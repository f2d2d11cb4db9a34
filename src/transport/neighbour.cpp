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

}  // namespace qpmesh::transport

// Which part of a rank's staging an operation has. Pure integers; every rank counts its own, and
// readers learn from its slot where its data lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace qpmesh::collectives {

inline constexpr std::size_t node_staging_bytes = std::size_t{1} << 20;  // in every slab
inline constexpr std::size_t node_granule_bytes = std::size_t{8} << 10;  // of which parts are made

class StagingRing {
 public:
  struct Part {
    std::size_t begin = 0;
    // So many operations every member must have finished before it is written
    // (OwnNodeWords::done).
    std::uint64_t done_before = 0;
  };

  // For operation `number`; taken in the order of the numbers, so that who waits for a part waits
  // for earlier operations only. At most node_staging_bytes.
  Part take(std::uint64_t number, std::size_t bytes) noexcept {
    const std::size_t count = granules(bytes);
    const std::size_t first = first_of(count);
    next_ = first + count;
    Part part{.begin = first * node_granule_bytes};
    for (std::uint64_t& user : std::span{users_}.subspan(first, count))
      part.done_before = std::max(part.done_before, std::exchange(user, number + 1));
    return part;
  }
  // All parts of so many bytes lie in the first of so many.
  static constexpr std::size_t round_bytes(std::size_t bytes) noexcept {
    return round_of(std::min(granule_count, granules(bytes))) * node_granule_bytes;
  }
  // Where the next one of so many bytes will begin.
  std::size_t next_begin(std::size_t bytes) const noexcept {
    return first_of(granules(bytes)) * node_granule_bytes;
  }

 private:
  static constexpr std::size_t granule_count = node_staging_bytes / node_granule_bytes;
  // A round of parts of one length: as many as run ahead, and no more of the caches than that.
  static constexpr std::size_t small_parts = 16;  // of one granule
  static constexpr std::size_t parts = 4;

  static constexpr std::size_t granules(std::size_t bytes) noexcept {
    return bytes / node_granule_bytes + (bytes % node_granule_bytes == 0 ? 0 : 1);
  }
  static constexpr std::size_t round_of(std::size_t count) noexcept {
    return std::min(granule_count, count * (count <= 1 ? small_parts : parts));
  }
  std::size_t first_of(std::size_t count) const noexcept {
    return next_ + count <= round_of(count) ? next_ : 0;
  }

  std::size_t next_ = 0;
  std::array<std::uint64_t, granule_count> users_{};  // the last operation of each, plus one
};

}  // namespace qpmesh::collectives

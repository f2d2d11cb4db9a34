// SPDX-License-Identifier: MIT
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

inline constexpr std::size_t node_staging_bytes = std::size_t{2} << 20;  // in every slab
inline constexpr std::size_t node_granule_bytes = std::size_t{8} << 10;  // of which parts are made

// Parts follow one another in the first ones of all granules: in few at first, because pages that
// nobody has used yet must be taken, and in twice as many after every few rounds. A line that the
// readers' caches have let go is written, and read again, in half the time of one that they still
// have (measured, from 4 KiB on, with caches of 1 MiB; 4 MiB of staging were not faster). Members
// that share a core share a cache: they lose a fifth by it.
class StagingRing {
 public:
  struct Part {
    std::size_t begin = 0;
    // So many operations every member must have finished before it is written
    // (OwnNodeWords::done).
    std::uint64_t done_before = 0;
  };

  // reach_bytes_max: of parts shorter than a quarter of it.
  explicit StagingRing(std::size_t reach_bytes_max = node_staging_bytes) noexcept
      : reach_max_{reach_bytes_max / node_granule_bytes} {}

  // For operation `number`; taken in the order of the numbers, so that who waits for a part waits
  // for earlier operations only. At most node_staging_bytes.
  Part take(std::uint64_t number, std::size_t bytes) noexcept {
    const std::size_t count = granules(bytes);
    const std::size_t first = first_of(count);
    if (first == 0) end_round(count);
    next_ = first + count;
    Part part{.begin = first * node_granule_bytes};
    for (std::uint64_t& user : std::span{users_}.subspan(first, count))
      part.done_before = std::max(part.done_before, std::exchange(user, number + 1));
    return part;
  }
  // Parts lie in all of reach_bytes_max from now on.
  void use_all() noexcept { reach_ = std::max(reach_, reach_max_); }
  // Parts lie in so many bytes from now on; more, where one needs more.
  std::size_t reach_bytes() const noexcept { return reach_ * node_granule_bytes; }
  // So many parts of so many bytes are all that there will be, one after another; at least one.
  std::size_t parts_of(std::size_t bytes) const noexcept {
    const std::size_t count = std::clamp<std::size_t>(granules(bytes), 1, granule_count);
    return std::max(reach_max_, round_of(count)) / count;
  }
  // At first, all parts of so many bytes lie in the first of so many.
  static constexpr std::size_t round_bytes(std::size_t bytes) noexcept {
    return round_of(std::min(granule_count, granules(bytes))) * node_granule_bytes;
  }
  // Where the next one of so many bytes will begin.
  std::size_t next_begin(std::size_t bytes) const noexcept {
    return first_of(granules(bytes)) * node_granule_bytes;
  }

 private:
  static constexpr std::size_t granule_count = node_staging_bytes / node_granule_bytes;
  // A round of parts of one length, at first: as many as run ahead.
  static constexpr std::size_t small_parts = 16;  // of one granule
  static constexpr std::size_t parts = 4;
  static constexpr int rounds_before_growth = 3;

  static constexpr std::size_t granules(std::size_t bytes) noexcept {
    return bytes / node_granule_bytes + (bytes % node_granule_bytes == 0 ? 0 : 1);
  }
  static constexpr std::size_t round_of(std::size_t count) noexcept {
    return std::min(granule_count, count * (count <= 1 ? small_parts : parts));
  }
  std::size_t first_of(std::size_t count) const noexcept {
    return next_ + count <= std::max(reach_, round_of(count)) ? next_ : 0;
  }
  void end_round(std::size_t count) noexcept {
    if (++rounds_ < rounds_before_growth) return;
    rounds_ = 0;
    reach_ = std::max(reach_, std::min(reach_max_, 2 * std::max(reach_, round_of(count))));
  }

  std::size_t reach_max_;
  std::size_t reach_ = 0;
  int rounds_ = 0;
  std::size_t next_ = 0;
  std::array<std::uint64_t, granule_count> users_{};  // the last operation of each, plus one
};

}  // namespace qpmesh::collectives

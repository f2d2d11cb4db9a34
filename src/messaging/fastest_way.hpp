// SPDX-License-Identifier: MIT
// Which of a few ways to do the same is fastest, here and now: found by doing it in each of them.
// Where the system has put the cores this minute no table knows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace qpmesh::messaging {

class FastestWay {
 public:
  static constexpr std::size_t ways_max = 3;
  struct Use {
    std::size_t way = 0;
    bool timed = false;  // then took() is told, unless something went wrong
  };

  // The way of the next one, below `ways`. Way 0 is what is predicted: the first few go by it
  // alone. Then each is tried, and the fastest goes on: timed now and then, because times drift,
  // while the others are tried again so rarely that this costs about a hundredth. Who tries a way
  // stays with it for a few: what another way has left in the caches is not its time.
  Use next(std::size_t ways) noexcept {
    if (leg_left_ > 0) return {.way = leg_way_, .timed = --leg_left_ == 0};
    ++count_;
    if (count_ <= predicted_max) return {.way = 0, .timed = count_ == predicted_max};
    for (std::size_t way = 0; way < ways; ++way) {
      if (legs_[way] < first_samples) return try_way(way);
    }
    const std::size_t best = fastest(ways);
    if (count_ < next_trial_) return {.way = best, .timed = count_ % calls_per_sample == 0};
    std::size_t tried = (leg_way_ + 1) % ways;
    if (tried == best) tried = (tried + 1) % ways;
    next_trial_ = count_ + calls_until_trial(tried, best);
    return try_way(tried);
  }

  // So long it took. What other things made of one measurement does not count for much.
  void took(std::size_t way, std::uint64_t time_ns) noexcept {
    std::uint64_t& mean = mean_ns_[way];
    if (samples_[way] < first_samples) {
      mean = samples_[way] == 0 ? time_ns : std::min(mean, time_ns);
      ++samples_[way];
    } else {
      mean = (3 * mean + std::min(time_ns, 2 * mean)) / 4;
    }
  }

  // Of those that were timed.
  std::size_t fastest(std::size_t ways) const noexcept {
    std::size_t best = 0;
    for (std::size_t way = 1; way < ways; ++way) {
      if (samples_[way] > 0 && (samples_[best] == 0 || mean_ns_[way] < mean_ns_[best])) best = way;
    }
    return best;
  }

 private:
  static constexpr std::uint32_t predicted_max = 4;
  static constexpr std::uint32_t first_samples = 2;
  static constexpr std::uint32_t calls_per_sample = 8;
  static constexpr std::uint32_t calls_per_leg = 4;
  static constexpr std::uint64_t calls_until_trial_min = 256;

  Use try_way(std::size_t way) noexcept {
    if (legs_[way] < first_samples) ++legs_[way];
    leg_way_ = way;
    leg_left_ = calls_per_leg - 1;
    return {.way = way, .timed = false};
  }
  // A hundred for each call's length that the trial takes longer.
  std::uint64_t calls_until_trial(std::size_t tried, std::size_t best) const noexcept {
    const std::uint64_t best_ns = std::max<std::uint64_t>(mean_ns_[best], 1);
    const std::uint64_t longer_ns = std::max(mean_ns_[tried], best_ns) - best_ns;
    return calls_until_trial_min + 100 * calls_per_leg * longer_ns / best_ns;
  }

  std::array<std::uint64_t, ways_max> mean_ns_{};
  std::array<std::uint8_t, ways_max> samples_{};
  std::array<std::uint8_t, ways_max> legs_{};  // both count the first ones only
  std::size_t leg_way_ = 0;
  std::uint32_t leg_left_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t next_trial_ = 0;
};

// One for each length, in powers of two from `bytes_min` on; the last has all that are longer.
template <std::size_t bytes_min, std::size_t class_count>
class FastestWays {
 public:
  FastestWay& of(std::size_t bytes) noexcept {
    const std::size_t index = static_cast<std::size_t>(std::bit_width(bytes / bytes_min));
    return classes_[std::min(index, class_count - 1)];
  }

 private:
  std::array<FastestWay, class_count> classes_{};
};

}  // namespace qpmesh::messaging

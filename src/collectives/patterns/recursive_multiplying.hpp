// SPDX-License-Identifier: MIT
// Who sends to whom in recursive multiplying with radix k: in each round groups of k ranks, at
// equal distances, send each other all that they have. Pure integers.
//
// Up to k ranks it is one round of all. Beyond, 2^q ranks take part, in rounds of radix k or less;
// the others, the odd ones of the first 2 (N - 2^q) ranks, are folded: they hand their vector to
// the rank before them, which takes part for both, and get the result from it. A rank so always
// speaks for a range of consecutive ranks, and each round joins neighbouring ranges: operands stay
// in rank order. Source of the folding: R. Rabenseifner, "Optimization of collective
// reduction operations", 2004.
#pragma once

#include <algorithm>
#include <bit>

#include "collectives/cost.hpp"

namespace qpmesh::collectives {

class RecursiveMultiplying {
 public:
  static constexpr int radix_max = 16;

  // radix: a power of two.
  constexpr RecursiveMultiplying(int size, int radix) noexcept
      : participants_{size <= radix
                          ? size
                          : static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))},
        folded_{size - participants_},
        radix_{std::min(size, radix)} {}

  int participants() const noexcept { return participants_; }
  int folded() const noexcept { return folded_; }  // so many ranks
  bool is_folded(int rank) const noexcept { return rank < 2 * folded_ && rank % 2 == 1; }
  bool has_folded(int rank) const noexcept { return rank < 2 * folded_ && rank % 2 == 0; }
  int position_of(int rank) const noexcept {
    return rank < 2 * folded_ ? rank / 2 : rank - folded_;
  }

  // Ranks of a round's groups, whose members are `distance` positions apart; the next round's
  // distance is distance * radix.
  int round_radix(int distance) const noexcept {
    return std::min(radix_, participants_ / distance);
  }
  // A rank's number in its group.
  int digit_of(int rank, int distance, int radix) const noexcept {
    return position_of(rank) / distance % radix;
  }
  // f(to, from) for every message of a rank to another one of its group, and the one that comes
  // meanwhile.
  struct Peer {
    int rank;
    int digit;
  };
  template <class F>
  void for_each_exchange(int rank, int distance, int radix, F&& f) const {
    const int digit = digit_of(rank, distance, radix);
    const auto peer = [&](int its_digit) {
      return Peer{rank_at(position_of(rank) + (its_digit - digit) * distance), its_digit};
    };
    for (int step = 1; step < radix; ++step)
      f(peer((digit + step) % radix), peer((digit + radix - step) % radix));
  }

 private:
  int rank_at(int position) const noexcept {
    return position < folded_ ? 2 * position : position + folded_;
  }

  int participants_;
  int folded_;
  int radix_;
};

// early_s: by how much groups that did not wait for folded ranks are ahead of the first ones that
// did.
inline void add_folding_cost(Cost& cost, const RecursiveMultiplying& pattern, double bytes,
                             double early_s, const CostModel& model) {
  if (pattern.folded() == 0) return;
  cost.time_s +=
      model.latency_s + model.combined_s(bytes) + std::max(0.0, model.round_s(1, bytes) - early_s);
  ++cost.messages;
  cost.bytes += bytes;
}

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
// When which row of a class of calls is tried where its members share no memory, and what follows
// from the times: numbers alone.
//
// As on a node (trials.hpp) all members count the calls of a class alike. In a trial the rows run
// in laps, some calls each. Who only gives waits for all others before a try: so a try takes what
// its calls take until the last member has them, also where they run ahead of those that take. Then
// the best prove themselves, one after another, for longer: a short try tells too little where
// whoever gives finds all rings empty, and too much where somebody else had a core. Between two
// trials there are looks at the row that runs, before which nobody waits: does it take what it
// promised? When a lap, a proof or a look is over, the members tell each other the times of their
// calls: of each try the longest one counts. All judge these alike, by whole numbers, which every
// machine computes alike. That is a round of messages, so trials and looks are rare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/trials.hpp"

namespace qpmesh::collectives {

// Of the tries of a lap, in ns, all calls of one together.
using TryTimes = std::array<std::uint64_t, tried_max>;

class NetworkTrials {
 public:
  // candidates: rows that give the same bits, by prediction, the cheapest first; at least two. Only
  // the first tried_max are ever tried. cheapest_us: what is predicted of the first one.
  NetworkTrials(std::span<const RowIndex> candidates, double cheapest_us) noexcept;

  // Of calls in which nothing is tried.
  RowIndex row() const noexcept { return row_; }
  // Calls that come next, all alike. position: calls since the last judgement. No calls: the
  // members have to judge first. stamp: the number of the try.
  Leg leg_at(std::uint32_t position) const noexcept;

  // What a call of a try took here.
  void add(int number, std::uint64_t ns) noexcept;
  // What the tries of this lap took here; never: not all calls have ended.
  TryTimes times() const noexcept;
  // slowest: of each try the longest of all members' times.
  void judge(const TryTimes& slowest) noexcept;

  // Of a call, in the last trial. 0 samples: never tried.
  Figure figure(RowIndex row) const noexcept;

  static constexpr std::uint64_t never = ~std::uint64_t{0};
  static constexpr std::uint32_t laps_max = 3;   // of a trial
  static constexpr std::size_t proof_tries = 3;  // in a row, of which the median counts

 private:
  void judge_lap(const TryTimes& slowest) noexcept;
  void judge_proof(const TryTimes& slowest) noexcept;
  void judge_look(const TryTimes& slowest) noexcept;
  std::uint64_t call_ns_of_tries(TryTimes slowest) const noexcept;
  // The next proof, or the end of the trial.
  void prove() noexcept;
  void end_trial(RowIndex best) noexcept;
  void plan_trial(RowIndex best) noexcept;  // the next one
  void idle() noexcept;                     // until the next look, or the next trial
  void try_often(RowIndex row, std::uint32_t calls) noexcept;

  TriedRows candidates_;
  TriedRows tried_;  // in this lap, in this order; in a proof one row, several times
  RowIndex row_;
  std::uint32_t idle_calls_;          // before the next lap, or look
  std::uint32_t calls_to_trial_ = 0;  // behind those; 0: it comes next, or is under way
  std::uint32_t calls_to_look_ = 0;   // from one to the next
  bool looks_ = false;                // between two trials, at the row that runs
  bool doubts_ = false;               // in the last look that one took more than it promised
  std::uint32_t try_calls_;
  std::uint32_t laps_left_;   // of this trial, with this lap
  bool proves_ = false;       // behind the last lap
  std::uint32_t proofs_ = 0;  // of this trial
  bool is_quick_ = true;      // this trial: the first one
  std::uint32_t patience_ = 1;
  std::uint64_t spent_ns_ = 0;     // in the tries of this trial
  std::uint64_t spent_calls_ = 0;  // on that
  TryTimes here_{};                // of this rank, in this lap
  std::array<std::uint32_t, tried_max> ended_{};
  // Of a row in this trial, or the last one: a call by lap, and how many laps it had. Noise makes
  // them longer, and luck shorter, where ranks share a core: the least says what is worth a proof,
  // the median which comes first, and the proof counts.
  struct Known {
    std::array<std::uint64_t, laps_max> call_ns{};  // sorted
    std::uint32_t laps = 0;
    std::uint32_t samples = 0;
    std::uint64_t proven_ns = never;

    void add(std::uint64_t ns) noexcept;
    std::uint64_t least_ns() const noexcept { return laps == 0 ? never : call_ns[0]; }
    std::uint64_t median_ns() const noexcept { return laps == 0 ? never : call_ns[laps / 2]; }
    bool is_proven() const noexcept { return proven_ns != never; }
    std::uint64_t best_known_ns() const noexcept { return is_proven() ? proven_ns : median_ns(); }
  };
  std::array<Known, rows_max> known_{};
};

}  // namespace qpmesh::collectives

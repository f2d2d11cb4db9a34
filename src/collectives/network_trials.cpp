// SPDX-License-Identifier: MIT
#include "collectives/network_trials.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace qpmesh::collectives {
namespace {

// A row that was slower by this in so many laps takes no further one: in one somebody else may have
// had the core.
constexpr std::uint64_t left_out_factor = 3;
constexpr std::uint32_t left_out_laps = 2;
// A try lasts about so long, if it is what is predicted: some calls in a row, because a rank that
// only gives goes on while they are under way. All of them count: where that one shares its core
// with one that takes, the last ones are no more than taken. In the first trial fewer: many
// programs call seldom.
constexpr std::uint64_t network_try_ns = 2'000'000;
constexpr std::uint64_t network_try_calls_max = 256;
constexpr std::uint64_t quick_try_ns = 250'000;
constexpr std::uint64_t quick_try_calls_max = 24;
constexpr std::uint64_t network_try_calls_min = 2;
// Each try of a proof, but of a quick one. By then a rank that only gives has come to the end of
// its rings, where messages are not tiny.
constexpr std::uint64_t proof_try_ns = 6'000'000;
constexpr std::uint64_t proof_try_calls_max = 1024;
constexpr std::uint32_t proofs_max = 4;
// Another row must be better by a twentieth, or the one that runs stays.
constexpr std::uint64_t better_parts = 20;
// What all members do together before a try, and to judge.
constexpr std::uint64_t meeting_ns = 100'000;
// A trial costs a fiftieth of the time that follows, at most, and none follows before that time is
// worth talking of; of the first one, which is quick, a tenth.
constexpr std::uint64_t lost_parts = 50;
constexpr std::uint64_t idle_least_ns = 500'000'000;
constexpr std::uint64_t lost_parts_of_quick = 10;
constexpr std::uint64_t idle_least_of_quick_ns = 10'000'000;
constexpr std::uint32_t network_patience_max = 64;
constexpr std::uint64_t idle_calls_min = 64;
constexpr std::uint64_t idle_calls_max = std::uint64_t{1} << 30;

// The row that runs is looked at so soon behind a trial, and each time twice as long after the last
// one: rows have two speeds where ranks share a core. If it takes so much more than it promised, it
// is looked at again as soon as behind a trial, for a look is short, and somebody else may have had
// a core. If that takes so much, too, others prove themselves.
constexpr std::uint64_t first_look_ns = 20'000'000;
constexpr std::uint64_t look_try_ns = 1'000'000;
constexpr std::uint64_t broken_promise_percent = 150;

std::size_t index(int number) noexcept { return static_cast<std::size_t>(number); }

std::uint32_t calls_in(std::uint64_t ns, std::uint64_t call_ns, std::uint64_t most) noexcept {
  return static_cast<std::uint32_t>(
      std::clamp(ns / std::max<std::uint64_t>(call_ns, 1), network_try_calls_min, most));
}

std::uint32_t idle_calls_in(std::uint64_t ns, std::uint64_t call_ns) noexcept {
  return static_cast<std::uint32_t>(
      std::clamp(ns / std::max<std::uint64_t>(call_ns, 1), idle_calls_min, idle_calls_max));
}

}  // namespace

NetworkTrials::NetworkTrials(std::span<const RowIndex> candidates, double cheapest_us) noexcept
    : row_{candidates.front()},
      idle_calls_{opening_calls},
      try_calls_{calls_in(quick_try_ns, static_cast<std::uint64_t>(cheapest_us * 1e3),
                          quick_try_calls_max)},
      laps_left_{laps_max} {
  for (const RowIndex row : candidates.first(std::min(candidates.size(), tried_max)))
    candidates_.add(row);
  tried_ = candidates_;
}

Leg NetworkTrials::leg_at(std::uint32_t position) const noexcept {
  if (position < idle_calls_) return {.row = row_, .calls = idle_calls_ - position};
  const std::uint32_t call = position - idle_calls_;
  const std::uint32_t number = call / try_calls_;
  if (number == tried_.count) return {.row = row_, .calls = 0};
  return {.row = tried_.rows[number],
          .calls = 1,
          .stamp = static_cast<int>(number),
          .begins = true,
          .ends = true,
          .is_first = !looks_ && (proves_ ? call == 0 : call % try_calls_ == 0)};
}

void NetworkTrials::add(int number, std::uint64_t ns) noexcept {
  here_[index(number)] += ns;
  ++ended_[index(number)];
}

TryTimes NetworkTrials::times() const noexcept {
  TryTimes times = here_;
  for (std::size_t number = 0; number < tried_.count; ++number) {
    if (ended_[number] < try_calls_) times[number] = never;
  }
  return times;
}

void NetworkTrials::Known::add(std::uint64_t ns) noexcept {
  std::uint32_t at = laps++;
  for (; at > 0 && call_ns[at - 1] > ns; --at) call_ns[at] = call_ns[at - 1];
  call_ns[at] = ns;
}

void NetworkTrials::judge(const TryTimes& slowest) noexcept {
  here_ = {};
  ended_ = {};
  if (looks_) return judge_look(slowest);
  if (laps_left_ == laps_max) known_ = {};
  spent_ns_ += meeting_ns * (proves_ ? 1 : tried_.count);  // before the tries
  for (std::size_t number = 0; number < tried_.count; ++number) {
    if (slowest[number] == never) continue;
    known_[tried_.rows[number]].samples += try_calls_;
    spent_ns_ += slowest[number];
    spent_calls_ += try_calls_;
  }
  if (proves_) judge_proof(slowest);
  else judge_lap(slowest);
}

void NetworkTrials::judge_lap(const TryTimes& slowest) noexcept {
  for (std::size_t number = 0; number < tried_.count; ++number) {
    if (slowest[number] != never) known_[tried_.rows[number]].add(slowest[number] / try_calls_);
  }
  std::uint64_t least_ns = never;
  for (const RowIndex row : tried_) least_ns = std::min(least_ns, known_[row].median_ns());
  // A row without a figure may have been the last one, whose calls were still under way.
  tried_.drop_if([&](RowIndex row) {
    const Known& known = known_[row];
    return known.laps >= left_out_laps && least_ns != never &&
           known.least_ns() / left_out_factor > least_ns;
  });
  if (--laps_left_ == 0 || tried_.count == 1) return prove();
  std::reverse(tried_.begin(), tried_.end());  // each follows each
  idle_calls_ = 0;
}

// Of a call of the row that was tried several times; never: all of them were only started.
std::uint64_t NetworkTrials::call_ns_of_tries(TryTimes slowest) const noexcept {
  std::sort(slowest.begin(), slowest.begin() + proof_tries);
  const std::uint64_t median_ns = slowest[proof_tries / 2];
  return median_ns == never ? never : median_ns / try_calls_;
}

void NetworkTrials::judge_proof(const TryTimes& slowest) noexcept {
  Known& known = known_[tried_.rows[0]];
  const std::uint64_t call_ns = call_ns_of_tries(slowest);
  known.proven_ns = call_ns == never ? known.median_ns() : call_ns;
  prove();
}

void NetworkTrials::judge_look(const TryTimes& slowest) noexcept {
  looks_ = false;
  const std::uint64_t promised_ns = known_[row_].best_known_ns();
  assert(promised_ns != never);
  const std::uint64_t call_ns = call_ns_of_tries(slowest);
  const bool is_broken = call_ns != never && 100 * call_ns > broken_promise_percent * promised_ns;
  if (!is_broken || !doubts_) {
    doubts_ = is_broken;
    if (doubts_) calls_to_look_ = idle_calls_in(first_look_ns, promised_ns);
    return idle();
  }
  // What others proved is as old as the promise. This look is the proof of the row: in one for
  // which all wait it may be fast again.
  for (Known& known : known_) known.proven_ns = never;
  known_[row_].proven_ns = call_ns;
  prove();
}

// The best of the laps proves itself first, then each that was better in some lap than the best
// proof.
void NetworkTrials::prove() noexcept {
  std::uint64_t proven_ns = never;
  RowIndex best = row_;
  for (const RowIndex row : candidates_) {
    if (known_[row].is_proven() && known_[row].proven_ns < proven_ns) {
      best = row;
      proven_ns = known_[row].proven_ns;
    }
  }
  std::uint64_t challenging_ns = never;
  RowIndex challenger = row_;
  for (const RowIndex row : candidates_) {
    const Known& known = known_[row];
    if (known.is_proven() || known.least_ns() >= proven_ns) continue;
    if (known.median_ns() < challenging_ns) {
      challenger = row;
      challenging_ns = known.median_ns();
    }
  }
  if (challenging_ns == never || proofs_ == proofs_max) return end_trial(best);
  ++proofs_;
  proves_ = true;
  try_often(challenger, is_quick_ ? calls_in(quick_try_ns, challenging_ns, quick_try_calls_max)
                                  : calls_in(proof_try_ns, challenging_ns, proof_try_calls_max));
  idle_calls_ = 0;
}

void NetworkTrials::try_often(RowIndex row, std::uint32_t calls) noexcept {
  tried_ = {};
  for (std::size_t i = 0; i < proof_tries; ++i) tried_.add(row);
  try_calls_ = calls;
}

void NetworkTrials::end_trial(RowIndex best) noexcept {
  const std::uint64_t of_row_ns = known_[row_].best_known_ns();
  if (known_[best].best_known_ns() >= of_row_ns - of_row_ns / better_parts) best = row_;
  // Where looks change nothing, the next trial comes when it would have come.
  if (best != row_ || calls_to_trial_ == 0) plan_trial(best);
  is_quick_ = false;
  doubts_ = false;
  proves_ = false;
  proofs_ = 0;
  spent_ns_ = spent_calls_ = 0;
  idle();
}

void NetworkTrials::plan_trial(RowIndex best) noexcept {
  if (!is_quick_) patience_ = best == row_ ? std::min(2 * patience_, network_patience_max) : 1;
  row_ = best;
  const std::uint64_t call_ns = known_[best].best_known_ns();
  calls_to_trial_ = calls_to_look_ = static_cast<std::uint32_t>(idle_calls_min);
  if (call_ns != never) {
    const std::uint64_t lost_ns = spent_ns_ - std::min(spent_ns_, spent_calls_ * call_ns);
    calls_to_trial_ =
        idle_calls_in(is_quick_ ? std::max(lost_parts_of_quick * lost_ns, idle_least_of_quick_ns)
                                : std::max(lost_parts * lost_ns, patience_ * idle_least_ns),
                      call_ns);
    calls_to_look_ = idle_calls_in(first_look_ns, call_ns);
  }
}

void NetworkTrials::idle() noexcept {
  const std::uint64_t call_ns = known_[row_].best_known_ns();
  const std::uint32_t try_calls = calls_in(look_try_ns, call_ns, network_try_calls_max);
  const std::uint32_t calls_with_look =
      calls_to_look_ + static_cast<std::uint32_t>(proof_tries) * try_calls;
  if (calls_with_look < calls_to_trial_) {
    looks_ = true;
    idle_calls_ = calls_to_look_;
    calls_to_trial_ -= calls_with_look;
    calls_to_look_ = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(2 * std::uint64_t{calls_to_look_}, idle_calls_max));
    return try_often(row_, try_calls);
  }
  idle_calls_ = std::exchange(calls_to_trial_, 0);
  if (call_ns != never) try_calls_ = calls_in(network_try_ns, call_ns, network_try_calls_max);
  laps_left_ = laps_max;
  tried_ = candidates_;
}

Figure NetworkTrials::figure(RowIndex row) const noexcept {
  const Known& known = known_[row];
  if (known.laps == 0) return {};
  return {.us = static_cast<float>(known.best_known_ns()) * 1e-3F, .samples = known.samples};
}

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
#include "collectives/trials.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace qpmesh::collectives {
namespace {

// A row that was slower than this is left out of most later trials.
constexpr float worse_factor = 2;
constexpr std::uint32_t trials_of_all = 8;  // one in so many tries it, too
// Another row must be better by this, or the one that runs stays.
constexpr float better_factor = 0.97F;
// A round lasts about so long: what is learnt in it is worth the words that it costs.
constexpr double round_length_us = 10'000;
constexpr std::uint32_t round_calls_min = 512;
constexpr std::uint32_t quick_round_calls_min = 64;  // until rows have settled
constexpr std::uint32_t round_calls_max = 1U << 16;
// A trial may lose a fiftieth of the time that its class has had, and does not come before that
// time is worth talking of.
constexpr double lost_share_max = 0.02;
constexpr double earned_least_us = 200'000;
constexpr double earned_least_of_drift_us = 20'000;  // of a class whose time drifts
constexpr double earned_least_of_quick_us = 10'000;  // of one that has had the quick trial alone
constexpr double lost_share_max_of_quick = 0.1;      // once
constexpr double patience_max = 64;
constexpr double disturbed_patience_max = 1024;
// A class that is called a hundred times has its row from a quick trial, in which rows do not
// settle, and at most two short proofs. In all others they do, for so long at most: the first of
// these comes soon.
constexpr double quick_proof_opening_us = 50;
constexpr std::uint32_t quick_proof_opening_calls_max = 32;
constexpr std::uint32_t quick_sample_calls_max = 2;
constexpr int quick_proofs_max = 2;
// There a row that need not settle counts as so much slower: those that do are up to twice as fast
// when they have.
constexpr float need_not_settle_weight = 1.4F;
constexpr double settling_us_max = 500;
constexpr std::uint32_t settling_calls_max = 512;
// What a row takes again and again is known when rings are full, whoever runs ahead has come to the
// end of its slots, and calls have gone once through all staging: what another row has left there
// makes them up to five times as slow, or as fast. So rows prove themselves, timed after calls of
// so long, the best of the trial first: at most so many rows.
constexpr double proof_opening_us = 200;
constexpr std::uint32_t proof_opening_calls_max = 128;
constexpr std::uint8_t proof_samples = 8;
constexpr double proof_sample_us_of_bursts = 64;  // longer than most bursts
constexpr int proofs_max = 3;
// Somebody else may have had a core while a row was slower by this than in its tries: once more.
constexpr float disturbed_factor = 3;
// All rows that are tried are predicted to be closer than this.
constexpr float unlikely_factor = 16;
// A row whose tries were slower by this may be the faster one.
constexpr float doubt_factor = 1.25F;
constexpr std::uint32_t looks = 16;    // in a round in which nothing is tried
constexpr double timed_call_us = 0.3;  // more than one that is not timed
// A sample lasts about so long.
constexpr double sample_us = 8;
constexpr std::uint32_t try_sample_calls_max = 4;
constexpr std::uint32_t look_sample_calls_max = 8;
constexpr std::uint8_t try_samples_min = 3;  // two of them may be disturbed
constexpr std::uint8_t try_samples_max = 7;  // where few rows are tried, and calls are not long
constexpr double long_call_us = 50;
constexpr double lead_us = 10;
constexpr float apart_us_min = 0.5F;  // less is the clock, and a rank that comes a little later
constexpr float drift_factor = 1.5F;
constexpr std::uint32_t drifted_rounds = 2;

static_assert(tried_max * (1 + try_samples_min) <= stamps_max);
static_assert(looks * 2 <= stamps_max);
// Of long calls, whose samples are single ones; short ones are many more.
static_assert(quick_round_calls_min >= looks * 2 + lead_calls_max);
static_assert(round_length_us / sample_us >= looks * 2 + lead_calls_max);

// Of calls that take so long each: as many as last so long together.
std::uint32_t calls_in(double wanted_us, double us, std::uint32_t least,
                       std::uint32_t most) noexcept {
  return static_cast<std::uint32_t>(
      std::clamp<double>(us > 0 ? wanted_us / us : least, least, most));
}
// A power of two, so that every rank is the root equally often where roots change.
std::uint8_t calls_of_sample(double wanted_us, double us, std::uint32_t most) noexcept {
  return static_cast<std::uint8_t>(std::bit_floor(calls_in(wanted_us, us, 1, most)));
}

std::uint8_t try_samples(const TriedRows& rows, double us) noexcept {
  const std::size_t most = us < long_call_us ? try_samples_max : try_samples_min;
  return static_cast<std::uint8_t>(
      std::clamp<std::size_t>(stamps_max / rows.count - 1, try_samples_min, most));
}

std::uint8_t lead_calls(double us) noexcept {
  return static_cast<std::uint8_t>(calls_in(lead_us, us, lead_calls_min, lead_calls_max));
}

// Stamps in a row: those of a try, or of a look.
std::uint32_t group_count(const Plan& plan) noexcept {
  return plan.tried.empty() ? plan.looks : plan.tried.count;
}
RowIndex row_of_group(const Plan& plan, std::uint32_t group) noexcept {
  return plan.tried.empty() ? plan.row : plan.tried.rows[group];
}

// Calls of a group that are timed, from `call` on.
Leg timed_leg(const Plan& plan, std::uint32_t group, std::uint32_t call) noexcept {
  Leg leg{.row = row_of_group(plan, group), .calls = 1};
  leg.stamp = static_cast<int>(group * plan.stamps());
  if (call == 0) {
    leg.begins = leg.ends = true;
    return leg;
  }
  const std::uint32_t of_sample = (call - 1) % plan.sample_calls;
  leg.stamp += 1 + static_cast<int>((call - 1) / plan.sample_calls);
  leg.begins = of_sample == 0;
  leg.ends = of_sample + 1 == plan.sample_calls;
  if (!leg.begins && !leg.ends) leg.calls = plan.sample_calls - 1 - of_sample;
  return leg;
}

// Noise only adds, but the least of many is luck. In bursts most calls are short, and all say
// what they take.
Figure figure_of(std::span<float> times_us, bool in_bursts) noexcept {
  if (times_us.empty()) return {};
  const auto count = static_cast<std::uint32_t>(times_us.size());
  if (in_bursts) {
    const float all_us = std::accumulate(times_us.begin(), times_us.end(), 0.0F);
    return {.us = all_us / static_cast<float>(count), .samples = count};
  }
  const auto at = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 4);
  std::ranges::nth_element(times_us, at);
  return {.us = *at, .samples = count};
}

// Calls f(begin_ns, end_ns, previous_end_ns) for every sample of a group, by the stamps.
template <class F>
void for_each_sample(const Plan& plan, std::uint32_t group,
                     std::span<const Span, stamps_max> stamps, F&& f) noexcept {
  for (std::uint32_t sample = 1; sample < plan.stamps(); ++sample) {
    const std::size_t at = group * plan.stamps() + sample;
    f(stamps[at].begin_ns, stamps[at].end_ns, stamps[at - 1].end_ns);
  }
}

// Of the samples of a row in a round. Where calls overlap, as those that were started together, one
// has taken the time since the one before it ended.
Figure measured(const Plan& plan, RowIndex row, std::span<const Span, stamps_max> stamps,
                bool in_bursts) noexcept {
  std::array<float, stamps_max> times_us;
  std::size_t count = 0;
  for (std::uint32_t group = 0; group < group_count(plan); ++group) {
    if (row_of_group(plan, group) != row) continue;
    for_each_sample(plan, group, stamps,
                    [&](std::uint64_t began_ns, std::uint64_t end_ns, std::uint64_t free_ns) {
                      const std::uint64_t begin_ns = std::max(began_ns, free_ns);
                      if (end_ns <= begin_ns) return;
                      times_us[count++] =
                          static_cast<float>(end_ns - begin_ns) * 1e-3F / plan.sample_calls;
                    });
  }
  return figure_of(std::span{times_us}.first(count), in_bursts);
}

// Does the program do something else between two calls, that lasts at least half as long as they
// do? Samples of several calls would count it.
bool are_apart(const Plan& plan, std::span<const Span, stamps_max> stamps) noexcept {
  bool any = false;
  for (std::uint32_t group = 0; group < group_count(plan); ++group) {
    bool close = false;
    for_each_sample(plan, group, stamps,
                    [&](std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t free_ns) {
                      if (end_ns == 0 || free_ns == 0) return;
                      any = true;
                      const float between_us =
                          begin_ns > free_ns ? static_cast<float>(begin_ns - free_ns) * 1e-3F : 0;
                      const float call_us =
                          end_ns > begin_ns
                              ? static_cast<float>(end_ns - begin_ns) * 1e-3F / plan.sample_calls
                              : 0;
                      close = close || between_us < std::max(apart_us_min, call_us / 2);
                    });
    if (close) return false;
  }
  return any;
}

bool is_far(float us, float from_us) noexcept {
  return us > drift_factor * from_us || from_us > drift_factor * us;
}

}  // namespace

Leg leg_at(const Plan& plan, std::uint32_t position) noexcept {
  const auto until = [&](std::uint32_t end) {
    return Leg{.row = plan.row, .calls = end - position};
  };
  const std::uint32_t judged_at = plan.judged_at();
  if (position < plan.opening) return until(plan.opening);
  if (position >= judged_at) return until(plan.calls);
  const std::uint32_t call = position - plan.opening;
  if (!plan.tried.empty()) {
    const std::uint32_t group = call / plan.try_calls();
    if (call == plan.tried.count * plan.try_calls())
      return {.row = plan.row, .calls = 1, .is_first = true};
    if (group >= plan.tried.count) return until(judged_at);
    const std::uint32_t of_try = call % plan.try_calls();
    if (of_try >= plan.warming) return timed_leg(plan, group, of_try - plan.warming);
    return {.row = row_of_group(plan, group),
            .calls = of_try == 0 ? 1 : plan.warming - of_try,
            .is_first = of_try == 0};
  }
  if (plan.proves()) {
    if (call < plan.timed_calls()) return timed_leg(plan, 0, call);
    Leg leg = until(judged_at);
    leg.is_first = true;
    return leg;
  }
  const std::uint32_t spacing = (judged_at - plan.opening) / plan.looks;
  const std::uint32_t look = call / spacing;
  if (look >= plan.looks) return until(judged_at);
  const std::uint32_t timed_from = plan.opening + (look + 1) * spacing - plan.timed_calls();
  if (position < timed_from) return until(timed_from);
  return timed_leg(plan, look, position - timed_from);
}

Decision first_decision(std::span<const RowIndex> candidates, double cheapest_us) noexcept {
  Plan plan{.opening = opening_calls,
            .row = candidates.front(),
            .warming = warming_calls_min,
            .samples = try_samples_min};
  for (const RowIndex row : candidates.first(std::min(candidates.size(), tried_max)))
    plan.tried.add(row);
  plan.sample_calls = calls_of_sample(sample_us, cheapest_us, quick_sample_calls_max);
  plan.lead = lead_calls(cheapest_us);
  plan.calls = plan.opening + plan.tried.count * plan.try_calls() + 2U * plan.lead;
  return {.plan = plan};
}

// As many as it takes, but not too long.
std::uint32_t Judge::settling_calls(double us) const noexcept {
  return std::clamp(settling_calls_, warming_calls_min,
                    calls_in(settling_us_max, us, warming_calls_min, settling_calls_max));
}

float Judge::weight(RowIndex row) const noexcept {
  return !settled_ && (need_not_settle_ & 1U << row) != 0 ? need_not_settle_weight : 1;
}

std::uint8_t Judge::sample_calls(double us, double wanted_us, std::uint32_t most) const noexcept {
  return apart_ ? 1 : calls_of_sample(wanted_us, us, most);
}

Plan Judge::trial(RowIndex row, float us, const TriedRows& rows) const noexcept {
  Plan plan{.row = row,
            .warming = settling_calls(us),
            .samples = try_samples(rows, us),
            .sample_calls = sample_calls(us, sample_us, try_sample_calls_max),
            .tried = rows};
  plan.lead = lead_calls(us);
  plan.calls = plan.tried.count * plan.try_calls() + 2U * plan.lead;
  return plan;
}

Plan Judge::steady(RowIndex row, float us) const noexcept {
  const std::uint32_t least = settled_ ? round_calls_min : quick_round_calls_min;
  const double calls = us > 0 ? round_length_us / static_cast<double>(us) : least;
  return {.calls = static_cast<std::uint32_t>(std::clamp<double>(calls, least, round_calls_max)),
          .row = row,
          .looks = looks,
          .sample_calls = sample_calls(us, sample_us, look_sample_calls_max)};
}

// Somebody else had the cores while rows were tried, of which they are not to blame: the one that
// runs takes far less than it did there, or others took what nobody predicts.
bool Judge::was_disturbed(float us, std::span<const Figure> figures) const noexcept {
  return judged_us_ > disturbed_factor * us || std::ranges::any_of(candidates_, [&](RowIndex row) {
           return figures[row].us > unlikely_factor * us;
         });
}

void Judge::start_anew(RowIndex row, float us) noexcept {
  patience_ = row == row_ ? std::min(2 * patience_, patience_max) : 1;
  row_ = row;
  judged_us_ = us;
  earned_us_ = 0;
  baseline_us_ = 0;
  drifted_ = 0;
}

Plan Judge::after_trial(const Plan& plan, std::span<const Figure> figures) noexcept {
  TriedRows rows = plan.tried;
  rows.drop_if([&](RowIndex row) { return figures[row].samples == 0; });
  if (rows.empty()) return steady(plan.row, 0);
  if (apart_ && plan.sample_calls > 1) {
    Plan singly = plan;
    singly.opening = 0;
    singly.sample_calls = 1;
    singly.calls = singly.tried.count * singly.try_calls() + 2U * singly.lead;
    return singly;
  }
  const auto weighed_us = [&](RowIndex row) { return weight(row) * figures[row].us; };
  const RowIndex best = *std::ranges::min_element(rows, {}, weighed_us);
  const bool stays =
      figures[plan.row].samples > 0 && weighed_us(best) > better_factor * weighed_us(plan.row);
  const RowIndex row = stays ? plan.row : best;
  proven_ = 0;
  proves_ = true;
  return prove(row, figures[row].us);
}

Plan Judge::prove(RowIndex row, float us) noexcept {
  expected_us_ = us;
  repeats_ = false;
  return proof(row, us);
}

Plan Judge::proof(RowIndex row, float us) const noexcept {
  Plan plan{.row = row, .looks = 1, .samples = proof_samples, .lead = lead_calls(us)};
  if (settled_) {
    plan.opening = std::max(settling_calls(us), calls_in(proof_opening_us, us, warming_calls_min,
                                                         proof_opening_calls_max));
    plan.sample_calls =
        in_bursts_ ? sample_calls(us, proof_sample_us_of_bursts, sample_calls_max_of_bursts)
                   : sample_calls(us, sample_us, sample_calls_max);
  } else {
    plan.opening =
        calls_in(quick_proof_opening_us, us, warming_calls_min, quick_proof_opening_calls_max);
    plan.sample_calls = sample_calls(us, sample_us, quick_sample_calls_max);
  }
  plan.calls = plan.opening + plan.looks * plan.timed_calls() + 1U + plan.lead;
  return plan;
}

Plan Judge::after_proof(RowIndex row, std::span<const Figure> figures) noexcept {
  if (settled_ && !repeats_ && figures[row].us > disturbed_factor * expected_us_) {
    repeats_ = true;
    return proof(row, expected_us_);
  }
  proven_ |= 1U << row;
  const auto is_proven = [&](RowIndex each) { return (proven_ & 1U << each) != 0; };
  const auto is_faster = [&](RowIndex each, RowIndex than) {
    return figures[each].samples > 0 &&
           weight(each) * figures[each].us < weight(than) * figures[than].us;
  };
  RowIndex best = row;
  for (const RowIndex each : candidates_) {
    if (is_proven(each) && is_faster(each, best)) best = each;
  }
  const float doubt = settled_ ? doubt_factor : 1;
  std::optional<RowIndex> challenger;
  for (const RowIndex each : candidates_) {
    const bool is_close = figures[each].samples > 0 &&
                          weight(each) * figures[each].us < doubt * weight(best) * figures[best].us;
    if (!is_proven(each) && is_close && (!challenger || is_faster(each, *challenger)))
      challenger = each;
  }
  if (challenger && std::popcount(proven_) < (settled_ ? proofs_max : quick_proofs_max))
    return prove(*challenger, figures[*challenger].us);
  proves_ = false;
  start_anew(best, figures[best].us);
  return steady(best, figures[best].us);
}

Plan Judge::after_steady(const Plan& plan, const Figure& figure,
                         std::span<const Figure> figures) noexcept {
  if (proves_) return after_proof(plan.row, figures);
  if (figure.samples == 0) return steady(plan.row, figures[plan.row].us);
  earned_us_ += static_cast<double>(figure.us) * plan.calls;
  if (baseline_us_ == 0) baseline_us_ = figure.us;
  drifted_ = is_far(figure.us, baseline_us_) ? drifted_ + 1 : 0;
  const bool drifts = drifted_ >= drifted_rounds;
  const bool disturbed = was_disturbed(figure.us, figures);
  const Plan next = steady(plan.row, figure.us);
  const double least_us = !settled_   ? earned_least_of_quick_us
                          : disturbed ? earned_least_of_drift_us * disturbed_patience_
                          : drifts    ? earned_least_of_drift_us
                                      : earned_least_us * patience_;
  if (earned_us_ < least_us) return next;
  const bool all = drifts || disturbed || !settled_ || (trials_ + 1) % trials_of_all == 0;
  TriedRows rows = candidates_;
  rows.drop_if([&](RowIndex row) {
    return !all && row != plan.row && figures[row].us > worse_factor * figure.us;
  });
  const Plan tried = trial(plan.row, figure.us, rows);
  double lost_us = 0;  // as far as is known
  for (const RowIndex row : rows) {
    const float more_us = disturbed ? 0 : std::max(0.0F, figures[row].us - figure.us);
    lost_us += tried.try_calls() * static_cast<double>(more_us) + tried.stamps() * timed_call_us;
    if (figures[row].us < doubt_factor * figure.us)
      lost_us += proof(row, figure.us).calls * static_cast<double>(more_us);
  }
  if (lost_us > earned_us_ * (settled_ ? lost_share_max : lost_share_max_of_quick)) return next;
  if (settled_)
    disturbed_patience_ = disturbed ? std::min(4 * disturbed_patience_, disturbed_patience_max) : 1;
  settled_ = true;
  ++trials_;
  if (rows.count > 1) return tried;
  start_anew(plan.row, figure.us);
  return next;
}

Decision Judge::judge(const Decision& now, std::span<const Span, stamps_max> stamps) noexcept {
  Decision next = now;
  apart_ = are_apart(now.plan, stamps);
  for (RowIndex row = 0; row < rows_max; ++row) {
    const Figure figure = measured(now.plan, row, stamps, in_bursts_);
    if (figure.samples > 0) next.figures[row] = figure;
  }
  next.plan = now.plan.tried.empty()
                  ? after_steady(now.plan, measured(now.plan, now.plan.row, stamps, in_bursts_),
                                 next.figures)
                  : after_trial(now.plan, next.figures);
  return next;
}

}  // namespace qpmesh::collectives

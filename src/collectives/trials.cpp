#include "collectives/trials.hpp"

#include <algorithm>
#include <optional>

namespace qpmesh::collectives {
namespace {

// Rows that are tried once more, closer, when they were not slower than this beside the best.
constexpr float close_factor = 1.5F;
constexpr std::size_t close_rows_max = 4;
// A row that was slower than this is left out of most later trials.
constexpr float worse_factor = 2;
constexpr std::uint32_t trials_of_all = 8;  // one in so many tries it, too
// Another row must be better by this, or the one that runs stays.
constexpr float better_factor = 0.97F;
// A round lasts about so long: what is learnt in it is worth the words that it costs.
constexpr double round_length_us = 50'000;
constexpr std::uint32_t round_calls_min = 512;
constexpr std::uint32_t round_calls_max = 1U << 16;
// A trial may lose a fiftieth of the time that its class has had, and does not come before that
// time is worth talking of.
constexpr double lost_share_max = 0.02;
constexpr double earned_least_us = 200'000;
constexpr double patience_max = 64;
// What a row takes again and again is known when rings are full and whoever runs ahead has come to
// the end of its slots: more than the calls of a try. So the best of a trial proves itself in so
// many calls, timed in their second half, and then others that were not much slower in their tries.
constexpr std::uint32_t proving_calls = 96;
// A row whose tries were slower by this may be the faster one: its caches were cold.
constexpr float doubt_factor = 1.2F;
constexpr double timed_call_us = 0.3;  // more than one that is not timed
constexpr float drift_factor = 1.5F;
constexpr std::uint32_t drifted_rounds = 2;

static_assert(tried_max * timed_calls <= samples_max);
static_assert(looks * look_calls <= samples_max);
static_assert(2 * close_rows_max <= tried_max);

// Timed calls in a row, of which the first one is only an end: those of a try, or of a look.
std::uint32_t group_calls(const Plan& plan) noexcept {
  return plan.tried.empty() ? look_calls : timed_calls;
}
std::uint32_t group_count(const Plan& plan) noexcept {
  return plan.tried.empty() ? looks : plan.tries();
}
RowIndex row_of_group(const Plan& plan, std::uint32_t group) noexcept {
  return plan.tried.empty() ? plan.row : plan.tried.rows[group % plan.tried.count];
}

// Noise only adds, but the least of many is luck.
Figure figure_of(std::span<float> times_us) noexcept {
  if (times_us.empty()) return {};
  const auto at = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 4);
  std::ranges::nth_element(times_us, at);
  return {.us = *at, .samples = static_cast<std::uint32_t>(times_us.size())};
}

// Of the samples of a row in a round. Where calls overlap, as those that were started together, one
// has taken the time since the one before it ended.
Figure measured(const Plan& plan, RowIndex row,
                std::span<const Span, samples_max> samples) noexcept {
  std::array<float, samples_max> times_us;
  std::size_t count = 0;
  for (std::uint32_t group = 0; group < group_count(plan); ++group) {
    if (row_of_group(plan, group) != row) continue;
    for (std::uint32_t call = 1; call < group_calls(plan); ++call) {
      const std::size_t at = group * group_calls(plan) + call;
      const std::uint64_t begin_ns = std::max(samples[at].begin_ns, samples[at - 1].end_ns);
      if (samples[at].end_ns <= begin_ns) continue;
      const std::uint64_t taken_ns = std::max(samples[at].end_ns - begin_ns, samples[at].giving_ns);
      times_us[count++] = static_cast<float>(taken_ns) * 1e-3F;
    }
  }
  return figure_of(std::span{times_us}.first(count));
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
  if (!plan.tried.empty()) {
    const std::uint32_t call = position - plan.opening;
    if (call >= plan.tries() * try_calls) return until(judged_at);
    const std::uint32_t of_try = call % try_calls;
    const std::uint32_t group = call / try_calls;
    const RowIndex row = row_of_group(plan, group);
    if (of_try < warming_calls) return {.row = row, .calls = warming_calls - of_try};
    return {.row = row,
            .calls = 1,
            .sample = static_cast<int>(group * timed_calls + of_try - warming_calls)};
  }
  const std::uint32_t spacing = (judged_at - plan.opening) / looks;
  const std::uint32_t look = (position - plan.opening) / spacing;
  if (look >= looks) return until(judged_at);
  const std::uint32_t timed_from = plan.opening + (look + 1) * spacing - look_calls;
  if (position < timed_from) return until(timed_from);
  return {.row = plan.row,
          .calls = 1,
          .sample = static_cast<int>(look * look_calls + position - timed_from)};
}

Decision first_decision(std::span<const RowIndex> candidates) noexcept {
  Plan plan{.opening = opening_calls, .row = candidates.front(), .passes = 1};
  for (const RowIndex row : candidates.first(std::min(candidates.size(), tried_max)))
    plan.tried.add(row);
  plan.calls = plan.opening + plan.tries() * try_calls + 2 * lead_calls;
  return {.plan = plan};
}

Plan Judge::trial(RowIndex row, const TriedRows& rows) const noexcept {
  Plan plan{.row = row, .tried = rows};
  plan.passes = rows.count <= close_rows_max ? 2 : 1;
  plan.calls = plan.tries() * try_calls + 2 * lead_calls;
  return plan;
}

Plan Judge::steady(RowIndex row, float us) const noexcept {
  const double calls = us > 0 ? round_length_us / static_cast<double>(us) : round_calls_max;
  return {.calls = static_cast<std::uint32_t>(
              std::clamp<double>(calls, round_calls_min, round_calls_max)),
          .row = row};
}

void Judge::start_anew(RowIndex row) noexcept {
  patience_ = row == row_ ? std::min(2 * patience_, patience_max) : 1;
  row_ = row;
  earned_us_ = 0;
  baseline_us_ = 0;
  drifted_ = 0;
}

Plan Judge::after_trial(const Plan& plan, std::span<const Figure> figures) noexcept {
  TriedRows rows = plan.tried;
  rows.drop_if([&](RowIndex row) { return figures[row].samples == 0; });
  if (rows.empty()) return steady(plan.row, 0);
  std::ranges::sort(rows, {}, [&](RowIndex row) { return figures[row].us; });
  const float best_us = figures[rows.rows[0]].us;
  const Figure& now = figures[plan.row];
  const bool stays = now.samples > 0 && best_us > better_factor * now.us;
  const RowIndex row = stays ? plan.row : rows.rows[0];
  rows.drop_if([&](RowIndex each) { return figures[each].us > close_factor * best_us; });
  if (plan.passes == 1 && rows.count > 1) {
    rows.keep_first(close_rows_max);
    return trial(row, rows);
  }
  proven_ = 0;
  proves_ = true;
  return proof(row);
}

Plan Judge::proof(RowIndex row) const noexcept {
  return {.opening = proving_calls / 2, .calls = proving_calls + lead_calls, .row = row};
}

Plan Judge::after_proof(RowIndex row, std::span<const Figure> figures) noexcept {
  proven_ |= 1U << row;
  const auto is_proven = [&](RowIndex each) { return (proven_ & 1U << each) != 0; };
  const auto is_faster = [&](RowIndex each, RowIndex than) {
    return figures[each].samples > 0 && figures[each].us < figures[than].us;
  };
  RowIndex best = row;
  for (const RowIndex each : candidates_) {
    if (is_proven(each) && is_faster(each, best)) best = each;
  }
  std::optional<RowIndex> challenger;
  for (const RowIndex each : candidates_) {
    const bool is_close =
        figures[each].samples > 0 && figures[each].us < doubt_factor * figures[best].us;
    if (!is_proven(each) && is_close && (!challenger || is_faster(each, *challenger)))
      challenger = each;
  }
  if (challenger) return proof(*challenger);
  proves_ = false;
  start_anew(best);
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
  const Plan next = steady(plan.row, figure.us);
  if (earned_us_ < earned_least_us * (drifts ? 1 : patience_)) return next;
  const bool all = drifts || (trials_ + 1) % trials_of_all == 0;
  TriedRows rows = candidates_;
  rows.drop_if([&](RowIndex row) {
    return !all && row != plan.row && figures[row].us > worse_factor * figure.us;
  });
  const Plan tried = trial(plan.row, rows);
  double lost_us = 0;  // as far as is known
  for (const RowIndex row : rows) {
    const float more_us = std::max(0.0F, figures[row].us - figure.us);
    lost_us += tried.passes * try_calls * (static_cast<double>(more_us) + timed_call_us);
  }
  if (lost_us > earned_us_ * lost_share_max) return next;
  ++trials_;
  if (rows.count > 1) return tried;
  start_anew(plan.row);
  return next;
}

Decision Judge::judge(const Decision& now, std::span<const Span, samples_max> samples) noexcept {
  Decision next = now;
  for (RowIndex row = 0; row < rows_max; ++row) {
    const Figure figure = measured(now.plan, row, samples);
    if (figure.samples > 0) next.figures[row] = figure;
  }
  next.plan = now.plan.tried.empty()
                  ? after_steady(now.plan, measured(now.plan, now.plan.row, samples), next.figures)
                  : after_trial(now.plan, next.figures);
  return next;
}

}  // namespace qpmesh::collectives

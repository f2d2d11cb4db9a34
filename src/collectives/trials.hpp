// SPDX-License-Identifier: MIT
// When which row of a class of calls is tried, and what follows from the times: numbers alone.
//
// A class is the calls of one collective whose vectors have about one length. Its members count its
// calls alike, because all call the same in the same order. So a plan that all have says of every
// call which row runs it, and whether it is timed. A plan lasts for a round of calls. Shortly
// before the end of the round one member judges the times of all, and says the next plan, which
// begins at the call that every member counts as the first one of the next round.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/node/words.hpp"

namespace qpmesh::collectives {

using RowIndex = std::uint8_t;               // in algorithms(collective)
inline constexpr std::size_t rows_max = 16;  // of a collective

inline constexpr std::size_t tried_max = 8;        // rows in one round
inline constexpr std::uint32_t opening_calls = 4;  // of a class, before anything is tried
// At least so many in front of those that are timed: they bring a row's text into the caches.
inline constexpr std::uint32_t warming_calls_min = 2;
inline constexpr std::size_t stamps_max = 32;  // of a round
// A sample is so many calls in a row at most: the clock costs as much as a quarter of a short call.
inline constexpr std::uint32_t sample_calls_max = 16;
inline constexpr std::uint32_t sample_calls_max_of_bursts = 64;

// So many calls at most after the last try the times are judged, and as many later the round ends:
// the plan that one member says then is there when another one looks for it, for members wait for
// each other in almost every call. Where one only gives, and runs ahead for as many short calls as
// a node has slots, it waits for all others behind the last try, and for the plan at the end of the
// round; so does a call where others were only started, or calls by messages alone lay between.
inline constexpr std::uint8_t lead_calls_max = 17;
// Of long calls so many, which may run a row that is many times slower than the one that was found:
// behind two calls everybody has ended the last try, and to wait for the plan costs less than one.
inline constexpr std::uint8_t lead_calls_min = 2;

// Rows that are tried in a round: a short list, in shared memory too.
struct TriedRows {
  std::array<RowIndex, tried_max> rows{};
  std::uint8_t count = 0;

  bool operator==(const TriedRows&) const = default;
  bool empty() const noexcept { return count == 0; }
  RowIndex* begin() noexcept { return rows.data(); }
  RowIndex* end() noexcept { return rows.data() + count; }
  const RowIndex* begin() const noexcept { return rows.data(); }
  const RowIndex* end() const noexcept { return rows.data() + count; }
  void add(RowIndex row) noexcept { rows[count++] = row; }
  template <class Predicate>
  void drop_if(Predicate&& is_dropped) noexcept {
    count = static_cast<std::uint8_t>(std::remove_if(begin(), end(), is_dropped) - begin());
  }
};

struct Plan {
  std::uint32_t opening = 0;           // calls before the first one that is timed, or tried
  std::uint32_t calls = 0;             // of the round
  RowIndex row = 0;                    // of all calls in which nothing is tried
  std::uint32_t warming = 0;           // calls of each try in front of those that are timed
  std::uint8_t looks = 0;              // where nothing is tried: times that `row` is timed
  std::uint8_t samples = 1;            // of each try, or look
  std::uint8_t sample_calls = 1;       // of each
  std::uint8_t lead = lead_calls_max;  // calls until it is judged, and from there to the end
  TriedRows tried{};

  bool operator==(const Plan&) const = default;

  // One call, of which only the end counts, and the samples.
  std::uint32_t timed_calls() const noexcept { return 1U + samples * sample_calls; }
  std::uint32_t stamps() const noexcept { return 1U + samples; }
  std::uint32_t try_calls() const noexcept { return warming + timed_calls(); }
  // `row` runs until it is as fast as it will be, and is timed then.
  bool proves() const noexcept { return tried.empty() && opening > 0; }
  // At this call the times are judged. All tries and proofs have ended at all members then. The
  // last looks of other rounds may not have, at those that take from one who runs ahead: they tell
  // nothing.
  std::uint32_t judged_at() const noexcept { return calls - lead; }
};

// Calls that come next, all alike.
struct Leg {
  RowIndex row = 0;
  std::uint32_t calls = 0;
  int stamp = -1;       // these calls belong to: its number in the round
  bool begins = false;  // with the one call of this leg, and so on
  bool ends = false;
  // Of a try, or behind the last one or a proof: who runs ahead waits for all others.
  bool is_first = false;
};
// position: calls of the round so far, less than all. A leg does not reach beyond judged_at().
Leg leg_at(const Plan& plan, std::uint32_t position) noexcept;

// What was measured of a row: 0 samples, nothing.
struct Figure {
  float us = 0;
  std::uint32_t samples = 0;

  bool operator==(const Figure&) const = default;
};

struct Decision {
  Plan plan;
  std::array<Figure, rows_max> figures{};  // by row

  bool operator==(const Decision&) const = default;
};

// When a stamp's first call began at the last member, and its last one ended there, in ns; 0, 0: of
// no use.
struct Span {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;

  void add(const Span& other) noexcept {
    begin_ns = std::max(begin_ns, other.begin_ns);
    end_ns = std::max(end_ns, other.end_ns);
  }
};

// candidates: rows that give the same bits, by prediction, the cheapest first; at least two. Only
// the first tried_max are ever tried. cheapest_us: what is predicted of the first one.
Decision first_decision(std::span<const RowIndex> candidates, double cheapest_us) noexcept;

// What the deciding member knows of a class.
class Judge {
 public:
  // first: first_decision of the class. settling_calls: until a row is as fast as it will be.
  // in_bursts: a rank that only gives shares its core with one that takes: so many calls as it runs
  // ahead are over in a fraction of the time that they take.
  // need_not_settle: by bit, those that are as fast before they settle.
  Judge(const Decision& first, std::uint32_t settling_calls, bool in_bursts,
        std::uint32_t need_not_settle = 0) noexcept
      : candidates_{first.plan.tried},
        settling_calls_{settling_calls},
        in_bursts_{in_bursts},
        need_not_settle_{need_not_settle},
        settled_{settling_calls <= first.plan.warming} {}

  // now: of the round that ends; stamps: by their numbers.
  Decision judge(const Decision& now, std::span<const Span, stamps_max> stamps) noexcept;

 private:
  Plan after_trial(const Plan& plan, std::span<const Figure> figures) noexcept;
  Plan after_steady(const Plan& plan, const Figure& figure,
                    std::span<const Figure> figures) noexcept;
  Plan after_proof(RowIndex row, std::span<const Figure> figures) noexcept;
  Plan prove(RowIndex row, float us) noexcept;
  Plan proof(RowIndex row, float us) const noexcept;
  Plan steady(RowIndex row, float us) const noexcept;
  bool was_disturbed(float us, std::span<const Figure> figures) const noexcept;
  Plan trial(RowIndex row, float us, const TriedRows& rows) const noexcept;
  std::uint32_t settling_calls(double us) const noexcept;
  float weight(RowIndex row) const noexcept;
  std::uint8_t sample_calls(double us, double wanted_us, std::uint32_t most) const noexcept;
  // A trial and its proofs have ended, with this row, which took so long in them.
  void start_anew(RowIndex row, float us) noexcept;

  TriedRows candidates_;
  std::uint32_t settling_calls_;
  bool in_bursts_;
  std::uint32_t need_not_settle_;
  bool settled_;               // rows have in the last trial
  RowIndex row_ = rows_max;    // that the last trial found best
  float judged_us_ = 0;        // what it took there
  double earned_us_ = 0;       // the time of all calls since then
  float baseline_us_ = 0;      // of the first round since then; 0: not known yet
  std::uint32_t drifted_ = 0;  // rounds in a row whose time was far from it
  bool proves_ = false;        // after a trial: rows run for a while, to be known
  std::uint32_t proven_ = 0;   // those that have, by bit
  float expected_us_ = 0;      // of the one that does now
  bool repeats_ = false;       // it does so once more
  std::uint32_t trials_ = 0;
  bool apart_ = false;   // the program does something else between the calls: they are timed singly
  double patience_ = 1;  // grows while trials change nothing
  double disturbed_patience_ = 1;  // and this one while they are disturbed
};

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
#include "collectives/choice.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/errors.hpp"
#include "collectives/node/operation.hpp"

namespace qpmesh::collectives {

namespace {

// Rows whose prediction is further from the cheapest are not tried.
constexpr double tried_factor = 5;

// What keeps the next leg from beginning: at rank 0, which judges, that the others have not read
// what it said last; elsewhere that it has not judged yet.
NodeAwaiter decision_of(NodeMemory& node, const SizeClass& of) noexcept {
  if (node.rank() == 0)
    return {node, NodeWait::For::readers, of.index, of.round, 0, {1, node.size()}};
  return {node, NodeWait::For::decision, of.index, of.round + 1, 0, {0, 1}};
}

// Is there a rank that only gives, and so runs ahead of those that take?
bool has_only_givers(Collective collective) noexcept {
  switch (collective) {
    case Collective::broadcast:
    case Collective::scatter:
    case Collective::reduce:
    case Collective::reduce_scatter:  // where its block is empty
    case Collective::gather:
    case Collective::scan:
    case Collective::exscan: return true;
    default: return false;
  }
}

// Two operands have one order: of two ranks every row that is right for an ordered reduction
// combines them in rank order.
bool may_run_instead(const Algorithm& row, const CallShape& shape) noexcept {
  CallShape ordered = shape;
  ordered.ordered = true;
  return gives_common_bits(row) || (shape.size == 2 && row.applies(ordered));
}

// Such rows are tried last: what they leave in staging, in memory, makes those that store into the
// caches slow until it has been gone through.
bool passes_caches_by(const Algorithm& row) noexcept { return row.stages == Stores::streaming; }

const Algorithm& row_at(const SizeClass& of, RowIndex row) noexcept {
  return *algorithms(of.collective)[row];
}

// Until every member has gone once through its staging: what another row has left there makes the
// next one up to five times as slow, or as fast.
std::uint32_t settling_calls(const NodeMemory& node, const CallShape& shape,
                             Collective collective) noexcept {
  const auto size = static_cast<std::size_t>(shape.size);
  const auto calls = [&](std::size_t bytes, std::size_t calls_each) {
    return static_cast<std::uint32_t>(node.operations_through_staging(bytes) * calls_each);
  };
  switch (collective) {
    case Collective::barrier: return 0;
    // With a root that moves, each stages in one call of several.
    case Collective::broadcast: return calls(shape.bytes, size);
    case Collective::gather:
    case Collective::scatter: return calls(shape.bytes / size, size);
    case Collective::allgather: return calls(shape.bytes / size, 1);
    default: return calls(shape.bytes, 1);
  }
}

// Ranks that share cores go round little staging, which stays in their caches.
std::unique_ptr<Judge> make_judge(const NodeMemory& node, Collective collective,
                                  const Decision& first, std::uint32_t settling_calls) {
  std::uint32_t need_not_settle = 0;
  for (const RowIndex row : first.plan.tried) {
    const bool settles = algorithms(collective)[row]->stages == Stores::cached;
    if (!settles && !node.shares_cores()) need_not_settle |= 1U << row;
  }
  return std::make_unique<Judge>(
      first, settling_calls, has_only_givers(collective) && node.shares_cores(), need_not_settle);
}

ChoiceWords<base::ProcessAtomics>& words(const NodeMemory& node, int rank,
                                         const SizeClass& of) noexcept {
  return node.slab(rank).choices[of.index];
}

}  // namespace

// ---- a call ----

const Algorithm* Selector::forced(const CallShape& shape, Collective collective,
                                  std::string_view wanted, std::string_view operation) const {
  const Algorithm* row = nullptr;
  if (!wanted.empty()) {
    row = find_algorithm(collective, wanted);
    if (row == nullptr) {
      base::bad_argument(operation, known_algorithms(collective), "{}",
                         unknown_algorithm(collective, wanted));
    }
  } else if (forced_ != nullptr) {
    row = forced_->find(collective, shape.bytes);
  }
  if (row != nullptr && !row->applies(shape)) {
    base::bad_argument(operation, applicable_algorithms(collective, shape), "{}",
                       why_not(shape, *row));
  }
  return row;
}

Choice Selector::decide(const CallShape& shape, Collective collective, std::string_view wanted,
                        std::string_view operation) {
  const Algorithm* row = forced(shape, collective, wanted, operation);
  if (row == nullptr && is_unusual(shape)) row = &predictions_.cheapest(shape, collective);
  if (row != nullptr) return {.row = row, .named = row};
  SizeClass* of = found(shape, collective);
  if (of == nullptr) of = &make_class(shape, collective);
  if (of->is_measured() && !queue_.free()) return {.measured = of};
  return take_call(*of, shape);
}

const Algorithm& Selector::expected(const CallShape& shape, Collective collective,
                                    std::string_view operation) const {
  if (const Algorithm* const row = forced(shape, collective, {}, operation)) return *row;
  const SizeClass* const of = found(shape, collective);
  if (is_unusual(shape) || of == nullptr || !of->is_measured()) return cheapest(shape, collective);
  const Algorithm& row = row_at(*of, of->network ? of->network->row() : of->decision.plan.row);
  return row.applies(shape) ? row : cheapest(shape, collective);
}

Figure Selector::figure(const CallShape& shape, const Algorithm& row) const noexcept {
  const SizeClass* const of = found(shape, row.collective);
  if (of == nullptr || !of->is_measured()) return {};
  const auto rows = algorithms(row.collective);
  const auto index = static_cast<RowIndex>(std::ranges::find(rows, &row) - rows.begin());
  return of->network ? of->network->figure(index) : of->decision.figures[index];
}

// ---- the first call of a class ----

// By prediction.
std::vector<RowIndex> Selector::candidates(const CallShape& shape, Collective collective) const {
  if (measuring_.node == nullptr) {
    if (!measuring_.by_messages || shape.size == 1 || is_reduction(collective)) return {};
  }
  if (shape.uneven) return {};
  struct Predicted {
    double s;
    RowIndex row;
  };
  const auto rows = algorithms(collective);
  std::vector<Predicted> known;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool is_meant = measuring_.node == nullptr || is_meant_for(*rows[i], shape);
    if (is_meant && may_run_instead(*rows[i], shape) && rows[i]->applies(shape))
      known.push_back({.s = predicted_s(shape, *rows[i]), .row = static_cast<RowIndex>(i)});
  }
  std::ranges::stable_sort(known, {}, &Predicted::s);
  // Formulas of rows without levels do not know which of their messages stay on a node: of either
  // kind the cheapest is tried, and what is near to it.
  const auto by_levels = [&](const Predicted& each) {
    CallShape flat = shape;
    flat.levels = {};
    return !rows[each.row]->applies(flat);
  };
  const auto other_kind = std::ranges::find_if(
      known, [&](const Predicted& each) { return by_levels(each) != by_levels(known.front()); });
  if (other_kind != known.end()) std::rotate(known.begin() + 1, other_kind, other_kind + 1);
  std::vector<RowIndex> found;
  for (const Predicted& each : known) {
    const bool is_first_kind = by_levels(each) == by_levels(known.front());
    if (each.s <= tried_factor * (is_first_kind ? known.front() : known[1]).s)
      found.push_back(each.row);
  }
  if (!found.empty()) {
    std::stable_partition(found.begin() + 1, found.end(),
                          [&](RowIndex row) { return !passes_caches_by(*rows[row]); });
  }
  return found;
}

SizeClass& Selector::make_class(const CallShape& shape, Collective collective) {
  auto made = std::make_unique<SizeClass>();
  made->collective = collective;
  made->bytes = ~shape.bytes;
  const std::vector<RowIndex> tried = candidates(shape, collective);
  const auto cheapest_us = [&] {
    return 1e6 * predicted_s(shape, *algorithms(collective)[tried.front()]);
  };
  if (tried.size() > 1 && measuring_.node == nullptr)
    made->network = std::make_unique<NetworkTrials>(tried, cheapest_us());
  const bool is_measured =
      tried.size() > 1 && measuring_.node != nullptr && measuring_.node->has_class_left();
  if (is_measured) {
    measuring_.node->populate(shape.bytes);
    const std::uint32_t settling = settling_calls(*measuring_.node, shape, collective);
    made->decision = first_decision(tried, cheapest_us());
    if (measuring_.node->rank() == 0)
      made->judge = make_judge(*measuring_.node, collective, made->decision, settling);
  }
  owned_.push_back(std::move(made));
  SizeClass& of = *owned_.back();
  if (is_measured) of.index = measuring_.node->take_class();
  return *(classes_[static_cast<std::size_t>(collective)][size_class(shape)] = &of);
}

// ---- the calls of a class ----

// The next call of the class: which row runs it. Without a row: the class has to wait first.
Choice Selector::take_call(SizeClass& of, const CallShape& shape) noexcept {
  if (!of.is_measured()) {
    if (of.bytes != shape.bytes) {
      of.row = of.named = &predictions_.cheapest(shape, of.collective);
      of.bytes = shape.bytes;
    }
    of.calls_left = std::numeric_limits<std::uint32_t>::max();
    return {.row = of.row, .named = of.named};
  }
  if (of.calls_left == 0 && !begin_leg(of)) return {.measured = &of};
  --of.calls_left;
  const Algorithm& planned = row_at(of, of.leg.row);
  const bool applies = planned.applies(shape);
  of.row = applies ? &planned : &predictions_.cheapest(shape, of.collective);
  of.bytes = shape.bytes;
  Choice choice{.row = of.row};
  if (of.leg.stamp >= 0) {
    if (of.leg.begins) choice.begins = of.leg.stamp;
    if (of.leg.ends) choice.ends = of.leg.stamp;
    if (of.leg.begins) of.begin_ns = 0;
    // A row that runs instead of another one is not what was to be measured.
    if (!applies) of.begin_ns = std::numeric_limits<std::uint64_t>::max();
  }
  choice.waits = of.leg.is_first && has_only_givers(of.collective);
  if (choice.waits || choice.begins >= 0 || choice.ends >= 0) choice.measured = &of;
  return choice;
}

bool Selector::begin_leg(SizeClass& of) noexcept {
  if (of.network) return begin_network_leg(of);
  const bool judges = of.judge != nullptr && of.rounds_judged == of.round &&
                      of.position == of.decision.plan.judged_at();
  if (judges && !judge(of)) return false;
  if (of.position == of.decision.plan.calls && !begin_round(of)) return false;
  of.leg = leg_at(of.decision.plan, of.position);
  if (of.leg.is_first && of.collective != Collective::barrier) measuring_.node->use_all_staging();
  of.position += of.leg.calls;
  of.calls_left = of.leg.calls;
  return true;
}

bool Selector::begin_network_leg(SizeClass& of) noexcept {
  of.leg = of.network->leg_at(of.position);
  of.position += of.leg.calls;
  of.calls_left = of.leg.calls;
  return of.leg.calls > 0;
}

// A part of the call that comes behind the last try.
Task Selector::judge_together(Group group, SizeClass& of) {
  TryTimes slowest = of.network->times();
  Arguments arguments = no_arguments;
  arguments.in = arguments.out = reinterpret_cast<std::byte*>(slowest.data());
  arguments.element_count = slowest.size();
  arguments.element_bytes = sizeof slowest[0];
  arguments.reducer.kernel = reduce_kernel(ReductionKind::max, ElementType::uint64);
  arguments.reducer.element_bytes = sizeof slowest[0];
  co_await allreduce_recursive_multiplying.run(group, arguments);
  of.network->judge(slowest);
  ++of.round;
  of.position = 0;
}

// Of rank 0. False: somebody has not read its last decision. That one will, without anything that
// this rank has not begun already: the decision is there, and its first call lies before this one.
bool Selector::judge(SizeClass& of) noexcept {
  const NodeMemory& node = *measuring_.node;
  for (int rank = 1; rank < node.size(); ++rank) {
    if (!words(node, rank, of).has_read(of.round)) return false;
  }
  const auto spans = spans_of_all(node.size(), of.round,
                                  [&](int rank) -> const auto& { return words(node, rank, of); });
  words(node, 0, of).decide(++of.rounds_judged, of.judge->judge(of.decision, spans));
  return true;
}

// False: rank 0 has not come to where it decides.
bool Selector::begin_round(SizeClass& of) noexcept {
  const NodeMemory& node = *measuring_.node;
  const auto& decided = words(node, 0, of);
  if (!decided.has_decided(of.round + 1)) return false;
  of.decision = decided.decision_read();
  words(node, node.rank(), of).acknowledge(++of.round);
  of.position = 0;
  of.stamped = 0;
  return true;
}

// ---- calls that are timed, or wait ----

std::uint64_t Selector::now_ns() const noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds{measuring_.system->now().time_since_epoch()}.count());
}

void Selector::note(SizeClass& of, std::uint64_t round, int stamp, Span span) noexcept {
  if (of.round != round) return;  // it lasted too long
  if (of.network != nullptr) {
    if (span.end_ns > span.begin_ns) of.network->add(stamp, span.end_ns - span.begin_ns);
    return;
  }
  const NodeMemory& node = *measuring_.node;
  words(node, node.rank(), of).put_stamp(round, of.stamped, stamp, span);
  of.stamped |= ChoiceWords<base::ProcessAtomics>::bit(stamp);
}

Task Selector::run(Group group, const Arguments& arguments, CallShape shape, Choice choice) {
  if (choice.row == nullptr || choice.waits || !queue_.free()) {
    Ticket ticket{queue_, *measuring_.engine};
    co_await ticket.come();
    while (choice.row == nullptr) {
      SizeClass& of = *choice.measured;
      choice = take_call(of, shape);
      if (choice.row != nullptr) break;
      if (of.network == nullptr) {
        co_await decision_of(*measuring_.node, of);
      } else {
        co_await judge_together(group, of);
      }
    }
    if (choice.waits) {
      const bool loads = measuring_.node != nullptr;
      co_await (loads ? barrier_one_shot : barrier_dissemination).run(group, no_arguments);
    }
  }
  if (choice.begins < 0 && choice.ends < 0) {
    co_await choice.row->run(group, arguments);
    co_return;
  }
  SizeClass& of = *choice.measured;
  const std::uint64_t round = of.round;
  if (choice.begins >= 0 && of.begin_ns == 0) of.begin_ns = now_ns();
  const std::uint64_t begin_ns = of.begin_ns;
  co_await choice.row->run(group, arguments);
  if (choice.ends >= 0) note(of, round, choice.ends, {.begin_ns = begin_ns, .end_ns = now_ns()});
}

}  // namespace qpmesh::collectives

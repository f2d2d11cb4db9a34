// SPDX-License-Identifier: MIT
#include "simulator/scheduler.hpp"

#include <algorithm>
#include <cassert>

namespace qpmesh::simulator {
namespace {

// For a heap whose front is the earliest.
bool later(const Event& a, const Event& b) noexcept {
  return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.tie > b.tie;
}

}  // namespace

Scheduler::Scheduler(const NetworkConfig& config)
    : config_{config}, random_{config.seed}, ranks_(static_cast<std::size_t>(config.rank_count)) {}

void Scheduler::at(std::int64_t time_ns, EventKind kind, std::uint32_t subject,
                   std::uint64_t argument) {
  assert(time_ns >= now_ns_);
  heap_.push_back({time_ns, random_.next(), argument, subject, kind});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

Event Scheduler::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  advance_to(event.time_ns);
  ++events_;
  note(static_cast<std::uint64_t>(event.time_ns), event.argument);
  note(event.subject, static_cast<std::uint64_t>(event.kind));
  return event;
}

void Scheduler::advance_to(std::int64_t time_ns) noexcept { now_ns_ = std::max(now_ns_, time_ns); }

void Scheduler::touch(int rank) {
  Rank& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(rank);
}

int Scheduler::take_touched() noexcept {
  if (touched_.empty()) return -1;
  const int rank = touched_.back();
  touched_.pop_back();
  ranks_[static_cast<std::size_t>(rank)].touched = false;
  return rank;
}

void Scheduler::wake_soon(int rank, std::int64_t delay_ns) {
  Rank& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.wake_pending) return;
  state.wake_pending = true;
  at(now_ns_ + delay_ns, EventKind::wake, static_cast<std::uint32_t>(rank), 1);
}

void Scheduler::woken(const Event& event) {
  if (event.argument == 1) ranks_[event.subject].wake_pending = false;
  touch(static_cast<int>(event.subject));
}

void Scheduler::met_busy(int rank) {
  Rank& state = ranks_[static_cast<std::size_t>(rank)];
  if (state.wake_pending) return;
  state.busy_delay_ns =
      std::clamp(state.busy_delay_ns * 2, config_.delay_min_ns, config_.tick_max_ns);
  wake_soon(rank, random_.between(state.busy_delay_ns / 2, state.busy_delay_ns) + 1);
}

void Scheduler::note(std::uint64_t a, std::uint64_t b) noexcept {
  trace_ = base::mix64(trace_ ^ a);
  trace_ = base::mix64(trace_ + b);
}

}  // namespace qpmesh::simulator

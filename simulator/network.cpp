// SPDX-License-Identifier: MIT
#include "simulator/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace qpmesh::simulator {

Network::Network(const NetworkConfig& config)
    : config_{config},
      scheduler_{config_},
      fabric_{config_, scheduler_},
      control_{config_, scheduler_},
      ranks_(static_cast<std::size_t>(config_.rank_count)),
      order_(static_cast<std::size_t>(config_.rank_count)),
      tick_ns_{config_.tick_ns},
      next_tick_ns_{scheduler_.now_ns() + config_.tick_ns} {
  std::iota(order_.begin(), order_.end(), 0);
  for (int rank = 0; rank < config_.rank_count; ++rank) {
    rank_at(rank).system = std::make_unique<System>(scheduler_, scheduler_.random().next());
  }
}

std::unique_ptr<Transport> Network::make_transport(int rank) {
  return std::make_unique<Transport>(fabric_, system(rank), rank);
}

std::unique_ptr<base::ControlChannel> Network::make_control_channel(int rank) {
  return std::make_unique<ControlChannel>(control_, rank);
}

void Network::set_step(int rank, Step step) { rank_at(rank).step = std::move(step); }

void Network::step(int rank) {
  Rank& state = rank_at(rank);
  int in_a_row = 0;
  while (state.alive && !state.frozen && state.step) {
    ++steps_;
    ++state.steps;
    const bool worked = state.step();
    if (!worked) break;
    if (++in_a_row == steps_in_a_row_max) {
      endless_rank_ = rank;
      return;
    }
  }
  if (in_a_row == 0) return;
  scheduler_.note(static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(in_a_row));
  for (const int watcher : fabric_.watchers(rank)) {
    scheduler_.wake_soon(watcher, scheduler_.random().between(1, config_.delay_max_ns));
  }
}

void Network::step_touched() {
  for (int rank = scheduler_.take_touched(); rank >= 0; rank = scheduler_.take_touched())
    step(rank);
}

void Network::step_all() {
  scheduler_.random().shuffle(std::span{order_});
  for (const int rank : order_) step(rank);
  step_touched();
}

void Network::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::control: control_.handle(event); break;
    case EventKind::wake: scheduler_.woken(event); break;
    case EventKind::action: {
      const auto action = std::move(actions_[event.subject]);
      action();
      break;
    }
    default: fabric_.handle(event);
  }
  step_touched();
}

// The interval stays while things happen, and grows by an eighth while nothing does.
void Network::tick() {
  scheduler_.advance_to(next_tick_ns_);
  const bool silent = scheduler_.events() == events_at_tick_;
  tick_ns_ = silent ? std::min(tick_ns_ + tick_ns_ / 8, config_.tick_max_ns) : config_.tick_ns;
  events_at_tick_ = scheduler_.events();
  next_tick_ns_ += tick_ns_;
  step_all();
}

bool Network::run_until(const std::function<bool()>& predicate, Deadline deadline) {
  // A predicate that never holds must not hang the test that has no deadline: an hour is for ever
  // here.
  if (deadline == no_deadline) deadline = now() + std::chrono::hours{1};
  const std::int64_t end_ns = std::chrono::nanoseconds{deadline.time_since_epoch()}.count();
  endless_rank_ = -1;
  tick_ns_ = config_.tick_ns;
  next_tick_ns_ = std::min(next_tick_ns_, scheduler_.now_ns() + tick_ns_);
  step_all();
  while (!predicate()) {
    if (endless_rank_ >= 0) return false;
    const bool event_first = !scheduler_.empty() && scheduler_.next_ns() <= next_tick_ns_;
    if ((event_first ? scheduler_.next_ns() : next_tick_ns_) > end_ns) {
      scheduler_.advance_to(end_ns);
      step_all();
      return predicate();
    }
    if (event_first) {
      handle(scheduler_.pop());
    } else {
      tick();
    }
  }
  return true;
}

bool Network::run_for(std::int64_t duration_ns) {
  run_until([] { return false; }, now() + std::chrono::nanoseconds{duration_ns});
  return endless_rank_ < 0;
}

void Network::wake_at(int rank, Deadline time) {
  const std::int64_t time_ns = std::chrono::nanoseconds{time.time_since_epoch()}.count();
  scheduler_.at(std::max(time_ns, scheduler_.now_ns()), EventKind::wake,
                static_cast<std::uint32_t>(rank));
}

void Network::at(Deadline time, std::function<void()> action) {
  const std::int64_t time_ns = std::chrono::nanoseconds{time.time_since_epoch()}.count();
  actions_.push_back(std::move(action));
  scheduler_.at(std::max(time_ns, scheduler_.now_ns()), EventKind::action,
                static_cast<std::uint32_t>(actions_.size() - 1));
}

void Network::kill(int rank) {
  Rank& victim = rank_at(rank);
  if (!victim.alive) return;
  victim.alive = false;
  fabric_.kill(rank);
  control_.end(rank, fmt::format("rank {} was killed", rank));
}

void Network::leave(int rank) {
  control_.say_goodbye(rank);
  freeze(rank);
}

void Network::freeze(int rank) { rank_at(rank).frozen = true; }

void Network::thaw(int rank) {
  rank_at(rank).frozen = false;
  wake(rank);
}

std::string Network::describe() const {
  std::string text = fmt::format(
      "simulated network: {} ranks, seed {}, virtual time {} ns, {} events, {} pending, {} steps, "
      "trace "
      "{:#018x}\n",
      config_.rank_count, config_.seed, scheduler_.now_ns(), scheduler_.events(),
      scheduler_.pending(), steps_, scheduler_.trace_hash());
  if (endless_rank_ >= 0) {
    text += fmt::format("  rank {} reported work {} times at one instant: it would never end\n",
                        endless_rank_, steps_in_a_row_max);
  }
  for (int rank = 0; rank < config_.rank_count; ++rank) {
    const Rank& state = ranks_[static_cast<std::size_t>(rank)];
    if (state.alive && !state.frozen && state.step) continue;
    text += fmt::format("  rank {}: {}, {} steps\n", rank,
                        !state.alive   ? "dead"
                        : state.frozen ? "frozen"
                                       : "has no step function",
                        state.steps);
  }
  return text + fabric_.describe(40);
}

}  // namespace qpmesh::simulator

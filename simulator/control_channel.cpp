// SPDX-License-Identifier: MIT
#include "simulator/control_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace qpmesh::simulator {

ControlPlane::ControlPlane(const NetworkConfig& config, Scheduler& scheduler)
    : config_{config}, scheduler_{scheduler}, ranks_(static_cast<std::size_t>(config.rank_count)) {}

void ControlPlane::push(int from, int to, base::ControlEvent event, std::int64_t delay_min_ns,
                        std::int64_t delay_max_ns) {
  const auto receiver = static_cast<std::uint64_t>(to);
  if (ranks_[receiver].gone) return;
  Pair& pair = pairs_[static_cast<std::uint64_t>(from) * ranks_.size() + receiver];
  if (pair.finished) return;
  pair.finished = event.kind != base::ControlEvent::Kind::frame;
  pair.on_the_way.push_back(std::move(event));
  // Frames may arrive together, as a stream coalesces them, but never out of order.
  pair.last_ns = std::max(
      pair.last_ns, scheduler_.now_ns() + scheduler_.random().between(delay_min_ns, delay_max_ns));
  scheduler_.at(pair.last_ns, EventKind::control, static_cast<std::uint32_t>(to),
                static_cast<std::uint64_t>(from));
}

void ControlPlane::send(int from, int to, BlobView frame) {
  assert(from != to && frame.size() <= base::ControlChannel::frame_bytes_max);
  push(from, to,
       {.kind = base::ControlEvent::Kind::frame,
        .peer = from,
        .bytes = Blob(frame.begin(), frame.end()),
        .detail = {}},
       config_.control_delay_min_ns, config_.control_delay_max_ns);
}

void ControlPlane::say_goodbye(int from) {
  for (int to = 0; to < config_.rank_count; ++to) {
    if (to == from) continue;
    push(from, to,
         {.kind = base::ControlEvent::Kind::goodbye, .peer = from, .bytes = {}, .detail = {}},
         config_.control_delay_min_ns, config_.control_delay_max_ns);
  }
}

void ControlPlane::end(int rank, const std::string& detail) {
  Rank& ending = ranks_[static_cast<std::size_t>(rank)];
  if (std::exchange(ending.gone, true)) return;
  ending.inbox.clear();
  for (int to = 0; to < config_.rank_count; ++to) {
    if (to == rank) continue;
    push(rank, to,
         {.kind = base::ControlEvent::Kind::death, .peer = rank, .bytes = {}, .detail = detail},
         config_.death_delay_min_ns, config_.death_delay_max_ns);
  }
}

std::vector<base::ControlEvent> ControlPlane::poll(int rank) noexcept {
  return std::exchange(ranks_[static_cast<std::size_t>(rank)].inbox, {});
}

void ControlPlane::handle(const Event& event) {
  Pair& pair = pairs_.at(event.argument * ranks_.size() + event.subject);
  base::ControlEvent arrived = std::move(pair.on_the_way.front());
  pair.on_the_way.pop_front();
  if (ranks_[event.subject].gone) return;
  scheduler_.note(arrived.bytes.size(), static_cast<std::uint64_t>(arrived.kind));
  ranks_[event.subject].inbox.push_back(std::move(arrived));
  scheduler_.touch(static_cast<int>(event.subject));
}

ControlChannel::~ControlChannel() {
  plane_.end(rank_, fmt::format("rank {} ended without a goodbye", rank_));
}

}  // namespace qpmesh::simulator

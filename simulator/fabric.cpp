// SPDX-License-Identifier: MIT
#include "simulator/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

namespace qpmesh::simulator {

namespace {

bool contains(std::span<const std::byte> region, std::span<const std::byte> memory) noexcept {
  const std::less_equal<const std::byte*>
      not_after;  // total, for pointers of different objects too
  const std::byte* const end = region.data() + region.size();
  return not_after(region.data(), memory.data()) && not_after(memory.data(), end) &&
         memory.size() <= static_cast<std::size_t>(end - memory.data());
}

}  // namespace

Fabric::Fabric(const NetworkConfig& config, Scheduler& scheduler)
    : config_{config},
      scheduler_{scheduler},
      capabilities_{.name = "simulated",
                    .ordered_flag = config.ordered_flag,
                    .bytes_in_order = config.bytes_in_order,
                    .loads_peer_memory = config.loads_peer_memory,
                    .registers_user_memory = config.registers_user_memory,
                    .registered_sources = config.registered_sources,
                    .small = config.small,
                    .medium = config.medium,
                    .inline_bytes_max = config.inline_bytes_max,
                    .write_bytes_max = config.write_bytes_max},
      ranks_(static_cast<std::size_t>(config.rank_count)) {}

std::uint32_t Fabric::open_port(int rank) {
  ports_.push_back({.rank = rank, .open = true, .regions = {}, .changed = {}});
  return static_cast<std::uint32_t>(ports_.size() - 1);
}

void Fabric::close_port(std::uint32_t port) noexcept {
  ports_[port].open = false;
  ports_[port].regions.clear();
}

std::uint32_t Fabric::register_memory(std::uint32_t port, std::span<std::byte> memory,
                                      bool lasting) {
  // Random, so that a key that was made up or belongs to another rank finds nothing.
  auto& regions = ports_[port].regions;
  for (;;) {
    const auto key = static_cast<std::uint32_t>(scheduler_.random().next());
    if (key != 0 && regions.emplace(key, Region{memory, lasting}).second) return key;
  }
}

void Fabric::deregister_memory(std::uint32_t port, std::uint32_t region) noexcept {
  ports_[port].regions.erase(region);
}

std::optional<RemoteAddress> Fabric::address_of(std::uint32_t port,
                                                std::span<const std::byte> memory) const noexcept {
  for (const auto& [key, region] : ports_[port].regions) {
    if (region.lasting && contains(region.memory, memory))
      return RemoteAddress{key, static_cast<std::uint64_t>(memory.data() - region.memory.data())};
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Fabric::region_of(std::uint32_t port,
                                               std::span<const std::byte> memory,
                                               std::optional<std::uint32_t> region) const noexcept {
  if (region) {
    const auto found = ports_[port].regions.find(*region);
    const bool inside =
        found != ports_[port].regions.end() && contains(found->second.memory, memory);
    return inside ? region : std::nullopt;
  }
  const auto address = address_of(port, memory);
  return address ? std::optional{address->region} : std::nullopt;
}

std::uint32_t Fabric::open_endpoint(std::uint32_t port, int peer) {
  const auto id = static_cast<std::uint32_t>(endpoints_.size());
  Endpoint& endpoint = endpoints_.emplace_back();
  endpoint.port = port;
  endpoint.rank = ports_[port].rank;
  endpoint.peer = peer;
  ranks_[static_cast<std::size_t>(endpoint.rank)].endpoints.push_back(id);
  return id;
}

bool Fabric::bind(std::uint32_t endpoint, std::uint32_t peer_endpoint) {
  if (peer_endpoint >= endpoints_.size()) return false;
  Endpoint& mine = endpoints_[endpoint];
  const Endpoint& peers = endpoints_[peer_endpoint];
  if (peers.rank != mine.peer || peers.peer != mine.rank) return false;
  if (peers.peer_endpoint != none && peers.peer_endpoint != endpoint)
    return false;  // it has another peer already
  mine.peer_endpoint = peer_endpoint;
  if (ranks_[static_cast<std::size_t>(mine.peer)].dead) {
    mine.peer_dead = true;
    notice_later(endpoint);
  }
  return true;
}

void Fabric::close_endpoint(std::uint32_t endpoint) noexcept {
  tear_down(endpoint);
  endpoints_[endpoint].arrivals.clear();
}

const std::byte* Fabric::load(std::uint32_t endpoint, RemoteAddress source, std::size_t bytes) {
  Endpoint& mine = endpoints_[endpoint];
  if (!config_.loads_peer_memory || mine.peer_endpoint == none) return nullptr;
  const std::byte* const found = resolve(endpoints_[mine.peer_endpoint], source, bytes);
  if (found != nullptr && !mine.watches) {
    mine.watches = true;
    ranks_[static_cast<std::size_t>(mine.peer)].watchers.push_back(mine.rank);
  }
  return found;
}

void Fabric::progress(std::uint32_t port) noexcept {
  for (const std::uint32_t id : ports_[port].changed) {
    Endpoint& endpoint = endpoints_[id];
    endpoint.changed = false;
    endpoint.completed_seen = endpoint.completed;
    endpoint.arrivals_seen = endpoint.arrivals.size();
  }
  ports_[port].changed.clear();
}

std::optional<std::uint32_t> Fabric::poll_immediate(std::uint32_t endpoint) noexcept {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.arrivals_taken == mine.arrivals_seen) return std::nullopt;
  const std::uint32_t immediate = mine.arrivals[mine.arrivals_taken++];
  if (mine.arrivals_taken == mine.arrivals.size()) {
    mine.arrivals.clear();
    mine.arrivals_taken = mine.arrivals_seen = 0;
  }
  return immediate;
}

bool Fabric::deliver(std::uint32_t endpoint, std::uint32_t immediate) {
  Endpoint& state = endpoints_[endpoint];
  if (config_.receives != 0 && state.arrivals.size() - state.arrivals_taken >= config_.receives)
    return false;
  state.arrivals.push_back(immediate);
  mark_changed(endpoint);
  return true;
}

void Fabric::mark_changed(std::uint32_t endpoint) {
  Endpoint& state = endpoints_[endpoint];
  scheduler_.touch(state.rank);
  if (state.changed) return;
  state.changed = true;
  ports_[state.port].changed.push_back(endpoint);
}

void Fabric::settle(std::uint32_t endpoint) {
  Endpoint& mine = endpoints_[endpoint];
  Random& random = scheduler_.random();
  const bool lands =
      mine.peer_endpoint != none && !mine.peer_dead && !endpoints_[mine.peer_endpoint].closed;
  auto flights = std::exchange(mine.flights, {});
  if (!lands) return;
  std::uint64_t whole = random.below(flights.size() + 1);
  for (Flight& flight : flights) {
    if (flight.retired) continue;
    if (resolve(endpoints_[mine.peer_endpoint], flight.target, flight.bytes()) == nullptr &&
        flight.bytes() != 0)
      return;
    if (!flight.began) flight.cut(config_.pieces_max, config_.bytes_in_order, random);
    const std::size_t end =
        whole > 0 ? flight.pieces.size() : random.below(flight.pieces.size() + 1);
    while (flight.placed < end) place(endpoint, flight, flight.pieces[flight.placed++]);
    if (whole == 0) return;
    --whole;
    store_flag(endpoint, flight);
    if (flight.immediate && !deliver(mine.peer_endpoint, *flight.immediate)) return;
  }
}

void Fabric::set_fault(std::uint32_t endpoint, std::string detail, int system_error) {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.fault) return;
  mine.fault = std::make_unique<ErrorDetail>(ErrorDetail{.code = ErrorCode::link_failed,
                                                         .peer = mine.peer,
                                                         .cause = std::move(detail),
                                                         .system_error = system_error});
  mine.flights.clear();
  scheduler_.touch(mine.rank);
}

void Fabric::break_pair(std::uint32_t endpoint, const std::string& detail, int system_error) {
  const std::uint32_t other = endpoints_[endpoint].peer_endpoint;
  settle(endpoint);
  set_fault(endpoint, detail, system_error);
  // The other end may not have connected yet, or may know another peer by now.
  if (other == none || endpoints_[other].peer_endpoint != endpoint) return;
  settle(other);
  set_fault(other, detail, system_error);
}

void Fabric::notice_later(std::uint32_t endpoint) {
  const std::int64_t after =
      scheduler_.random().between(config_.death_delay_min_ns, config_.death_delay_max_ns);
  scheduler_.at(scheduler_.now_ns() + after, EventKind::link_down, endpoint);
}

void Fabric::link_down(std::uint32_t endpoint) {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.closed || mine.fault) return;
  set_fault(endpoint,
            mine.peer_dead
                ? fmt::format("rank {} does not answer any more", mine.peer)
                : fmt::format("rank {} closed the connection with writes on their way", mine.peer),
            mine.peer_dead ? ETIMEDOUT : ECONNRESET);
}

void Fabric::tear_down(std::uint32_t endpoint) {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.closed) return;
  if (mine.peer_endpoint != none) {
    settle(endpoint);
    const std::uint32_t other = mine.peer_endpoint;
    if (endpoints_[other].peer_endpoint == endpoint && !endpoints_[other].flights.empty()) {
      // Some of it lands now, before this returns; then nothing does.
      settle(other);
      notice_later(other);
    }
  }
  mine.closed = true;
  mine.flights.clear();
  if (!mine.fault)
    mine.fault =
        std::make_unique<ErrorDetail>(ErrorDetail{.code = ErrorCode::link_failed,
                                                  .peer = mine.peer,
                                                  .cause = "this side tore the connection down",
                                                  .system_error = ECANCELED});
}

void Fabric::fail_link(int from, int to) {
  for (const std::uint32_t id : ranks_[static_cast<std::size_t>(from)].endpoints) {
    const Endpoint& endpoint = endpoints_[id];
    if (endpoint.peer != to || endpoint.closed || endpoint.fault) continue;
    break_pair(id, fmt::format("the link between ranks {} and {} failed", from, to), EIO);
  }
}

void Fabric::fail_rail(int from, int to, int rail) {
  for (const std::uint32_t id : ranks_[static_cast<std::size_t>(from)].endpoints) {
    const Endpoint& endpoint = endpoints_[id];
    if (endpoint.peer != to || rail-- != 0) continue;
    if (endpoint.closed || endpoint.fault) return;
    settle(id);
    set_fault(id, fmt::format("a rail between ranks {} and {} failed", from, to), EIO);
    return;
  }
}

void Fabric::kill(int rank) {
  Rank& victim = ranks_[static_cast<std::size_t>(rank)];
  if (victim.dead) return;
  for (const std::uint32_t id : victim.endpoints) {
    Endpoint& dying = endpoints_[id];
    if (!dying.closed && !dying.fault) settle(id);
    set_fault(id, "this rank was killed", ESRCH);
    dying.flights.clear();
    dying.closed = true;
    if (dying.peer_endpoint == none) continue;
    const std::uint32_t other = dying.peer_endpoint;
    Endpoint& survivor = endpoints_[other];
    if (survivor.peer_endpoint != id || survivor.rank == rank || survivor.closed || survivor.fault)
      continue;
    survivor.peer_dead = true;
    notice_later(other);
  }
  victim.dead = true;
}

std::string Fabric::describe(int lines_max) const {
  std::string text;
  for (std::size_t id = 0; id < endpoints_.size(); ++id) {
    const Endpoint& endpoint = endpoints_[id];
    const std::size_t unread = endpoint.arrivals.size() - endpoint.arrivals_taken;
    if ((endpoint.flights.empty() && unread == 0 && !endpoint.fault) || endpoint.closed) continue;
    if (lines_max-- == 0) return text + "  …\n";
    text += fmt::format(
        "  {} -> {}: {} writes posted, {} in flight, {} told complete, {} immediates not taken",
        endpoint.rank, endpoint.peer, endpoint.next_sequence, endpoint.flights.size(),
        endpoint.completed, unread);
    if (!endpoint.flights.empty()) {
      const Flight& first = endpoint.flights.front();
      text += fmt::format(", first {} of {} bytes at {:#x}+{} has {} of {} pieces", first.sequence,
                          first.bytes(), first.target.region, first.target.offset, first.placed,
                          first.pieces.size());
    }
    if (endpoint.fault) text += fmt::format(", fault: {}", endpoint.fault->cause);
    text += '\n';
  }
  return text;
}

}  // namespace qpmesh::simulator

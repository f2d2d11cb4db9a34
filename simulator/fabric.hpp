// SPDX-License-Identifier: MIT
// The data path of the simulated network: what is registered where, which endpoints are connected,
// which writes are on their way. May allocate everywhere: it stands for devices, not for the code
// under test.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "simulator/flight.hpp"
#include "simulator/scheduler.hpp"
#include "transport/transport.hpp"

namespace qpmesh::simulator {

class Fabric {
 public:
  Fabric(const NetworkConfig& config, Scheduler& scheduler);

  const Capabilities& capabilities() const noexcept { return capabilities_; }

  // A port is what a Transport stands on, an endpoint what a Connection does.
  std::uint32_t open_port(int rank);
  void close_port(std::uint32_t port) noexcept;
  std::uint32_t register_memory(std::uint32_t port, std::span<std::byte> memory, bool lasting);
  void deregister_memory(std::uint32_t port, std::uint32_t region) noexcept;
  std::optional<RemoteAddress> address_of(std::uint32_t port,
                                          std::span<const std::byte> memory) const noexcept;
  std::uint32_t open_endpoint(std::uint32_t port, int peer);
  // False when there is no such endpoint, or it is not meant for us.
  bool bind(std::uint32_t endpoint, std::uint32_t peer_endpoint);
  void close_endpoint(std::uint32_t endpoint) noexcept;

  Post post(std::uint32_t endpoint, std::span<const Write> chain);
  Post read(std::uint32_t endpoint, std::span<std::byte> target,
            std::optional<std::uint32_t> target_region, RemoteAddress source);
  const std::byte* load(std::uint32_t endpoint, RemoteAddress source, std::size_t bytes);
  void tear_down(std::uint32_t endpoint);
  // Completions and arrivals become visible to the rank only here, as a device's do.
  void progress(std::uint32_t port) noexcept;
  std::uint64_t completed(std::uint32_t endpoint) const noexcept {
    return endpoints_[endpoint].completed_seen;
  }
  std::optional<std::uint32_t> poll_immediate(std::uint32_t endpoint) noexcept;
  const ErrorDetail* fault(std::uint32_t endpoint) const noexcept {
    return endpoints_[endpoint].fault.get();
  }

  void handle(const Event& event);
  void fail_link(int from, int to);
  void fail_rail(int from, int to, int rail);
  void kill(int rank);
  // Who loads this rank's memory and has to be stepped when it may have changed.
  std::span<const int> watchers(int rank) const noexcept {
    return ranks_[static_cast<std::size_t>(rank)].watchers;
  }

  // Lines about every endpoint that has something outstanding, at most lines_max.
  std::string describe(int lines_max) const;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Region {
    std::span<std::byte> memory;
    bool lasting;
  };
  struct Port {
    int rank = -1;
    bool open = true;
    std::map<std::uint32_t, Region> regions;
    std::vector<std::uint32_t>
        changed;  // endpoints with completions or arrivals that progress has not shown yet
  };
  struct Endpoint {
    std::uint32_t port = 0;
    std::uint32_t peer_endpoint = none;
    int rank = -1;
    int peer = -1;
    bool closed = false;     // torn down, destroyed or dead: nothing lands here any more
    bool peer_dead = false;  // what is posted vanishes, until link_down tells
    bool changed = false;
    bool watches = false;
    std::vector<Flight> flights;  // posted and not completed, in order
    std::uint64_t next_sequence = 0;
    std::int64_t last_completion_ns = 0;
    std::uint64_t completed = 0;
    std::uint64_t completed_seen = 0;
    std::vector<std::uint32_t> arrivals;
    std::size_t arrivals_taken = 0;
    std::size_t arrivals_seen = 0;
    std::unique_ptr<ErrorDetail> fault;
  };
  struct Rank {
    bool dead = false;
    std::vector<std::uint32_t> endpoints;
    std::vector<int> watchers;
  };

  // placement.cpp: a write's way from post to completion.
  std::optional<std::string> unusable(std::uint32_t port, const Write& write) const;
  bool admits(Endpoint& mine, std::size_t count);  // false: busy
  void take_off(std::uint32_t endpoint, Flight flight);
  Flight flight_of(std::uint32_t port, const Write& write) const;
  void begin(std::uint32_t endpoint, Flight& flight);
  void place_piece(std::uint32_t endpoint, std::uint64_t sequence);
  bool place(std::uint32_t endpoint, Flight& flight,
             Piece piece);  // false: the link has failed instead
  void may_retransmit(std::uint32_t endpoint, const Flight& flight);
  void retransmit(std::uint32_t endpoint, std::uint64_t sequence);
  void bytes_placed(std::uint32_t endpoint, Flight& flight);
  bool store_flag(std::uint32_t endpoint, Flight& flight);
  void retire(std::uint32_t endpoint, std::uint64_t sequence);
  void complete(std::uint32_t endpoint, std::uint64_t sequence);
  // The region in which memory of ours lies that the device reaches for a message; nothing: none,
  // or not registered so.
  std::optional<std::uint32_t> region_of(std::uint32_t port, std::span<const std::byte> memory,
                                         std::optional<std::uint32_t> region) const noexcept;
  std::byte* resolve(const Endpoint& target, RemoteAddress address,
                     std::size_t bytes) const noexcept;
  std::string why_unresolved(const Endpoint& target, const Flight& flight) const;

  // fabric.cpp: ends.
  // Of what is on its way a seeded part still arrives, the rest never does.
  void settle(std::uint32_t endpoint);
  void set_fault(std::uint32_t endpoint, std::string detail, int system_error);
  void break_pair(std::uint32_t endpoint, const std::string& detail, int system_error);
  void notice_later(std::uint32_t endpoint);
  void link_down(std::uint32_t endpoint);
  bool deliver(std::uint32_t endpoint, std::uint32_t immediate);  // false: nothing is posted for it
  void mark_changed(std::uint32_t endpoint);
  std::int64_t delay() noexcept {
    return scheduler_.random().between(config_.delay_min_ns, config_.delay_max_ns);
  }
  std::int64_t gap() noexcept { return scheduler_.random().between(1, config_.gap_max_ns); }

  const NetworkConfig& config_;
  Scheduler& scheduler_;
  Capabilities capabilities_;
  std::vector<Port> ports_;
  std::vector<Endpoint> endpoints_;
  std::vector<Rank> ranks_;
};

}  // namespace qpmesh::simulator

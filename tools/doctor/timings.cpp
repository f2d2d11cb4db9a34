// SPDX-License-Identifier: MIT
#include "tools/doctor/timings.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace qpmesh::doctor {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::array<std::size_t, 3> checked_lengths{8, 4096, mib};
constexpr int trips_min = 20;
constexpr int messages_min = 1;
constexpr int trips_max = 1000;
constexpr int messages_max = 200;

double now_us(const base::System& system) {
  return std::chrono::duration<double, std::micro>(system.now().time_since_epoch()).count();
}

void echo(Communicator& world, std::span<std::byte> bytes) {
  world.receive(bytes, 1);
  world.send(bytes, 1);
}
void write_and_read_back(Communicator& world, std::span<const std::byte> sent,
                         std::span<std::byte> back) {
  world.send(sent, 0);
  world.receive(back, 0);
}

// Both ranks take as many as rank 1 has time for.
int agreed_count(Communicator& world, double each_us, double budget_us, int least, int most) {
  const double wanted = std::clamp(budget_us / std::max(each_us, 0.01), 1.0 * least, 1.0 * most);
  std::array<int, 1> count{static_cast<int>(wanted)};
  world.broadcast(count, 1);
  return count[0];
}

// Of 8 bytes: how long it took.
double trip_us(Communicator& world, const base::System& system) {
  std::array<std::byte, 8> small{};
  const double begin = now_us(system);
  if (world.rank() == 1) write_and_read_back(world, small, small);
  else echo(world, small);
  return now_us(system) - begin;
}

}  // namespace

Checked check_bytes(Communicator& world, const base::System& system) {
  Checked checked;
  std::vector<std::byte> here(mib);
  std::vector<std::byte> back(mib);
  system.random(here);
  for (const std::size_t length : checked_lengths) {
    const auto sent = std::span{here}.first(length);
    const auto returned = std::span{back}.first(length);
    if (world.rank() == 0) {
      echo(world, returned);
      continue;
    }
    write_and_read_back(world, sent, returned);
    checked.bytes += static_cast<std::int64_t>(length);
    for (std::size_t i = 0; i < length; ++i) checked.wrong_bytes += sent[i] != returned[i] ? 1 : 0;
  }
  return checked;
}

double latency_us(Communicator& world, const base::System& system, double budget_us) {
  for (int i = 0; i < 20; ++i) trip_us(world, system);  // they take pages and wake sleepers
  const double first_us = std::min(trip_us(world, system), trip_us(world, system));
  std::vector<double> trips(
      static_cast<std::size_t>(agreed_count(world, first_us, budget_us, trips_min, trips_max)));
  for (double& each : trips) each = trip_us(world, system);
  std::ranges::nth_element(trips, trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2));
  return trips[trips.size() / 2] / 2;
}

double bandwidth_mb_s(Communicator& world, const base::System& system, double budget_us,
                      Flow flow) {
  const int peer = 1 - world.rank();
  const bool sends = flow == Flow::both || (flow == Flow::to_low) == (world.rank() == 1);
  const bool receives = flow == Flow::both || !sends;
  std::vector<std::byte> here(mib);
  std::vector<std::byte> back(mib);
  const auto time_us = [&](int messages) {
    const double begin = now_us(system);
    for (int i = 0; i < messages; ++i) {
      if (sends && receives) world.sendrecv(here, peer, back, peer);
      else if (sends) world.send(here, peer);
      else world.receive(back, peer);
    }
    trip_us(world, system);  // the last one is there
    return now_us(system) - begin;
  };
  const int messages = agreed_count(world, time_us(1), budget_us, messages_min, messages_max);
  const int directions = flow == Flow::both ? 2 : 1;
  return static_cast<double>(mib) * messages * directions / time_us(messages);
}

}  // namespace qpmesh::doctor

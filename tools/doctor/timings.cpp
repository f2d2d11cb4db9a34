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
// A record, an eager message, a rendezvous.
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

}  // namespace

Timings measure(Communicator& world, const base::System& system, std::int64_t budget_ms) {
  const double budget_us = 250 * static_cast<double>(budget_ms);  // for each of the four
  const bool measures = world.rank() == 1;
  Timings timings;
  std::vector<std::byte> here(mib);
  std::vector<std::byte> back(mib);

  system.random(here);
  for (const std::size_t length : checked_lengths) {
    const auto sent = std::span{here}.first(length);
    const auto returned = std::span{back}.first(length);
    if (!measures) {
      echo(world, returned);
      continue;
    }
    write_and_read_back(world, sent, returned);
    timings.checked_bytes += static_cast<std::int64_t>(length);
    for (std::size_t i = 0; i < length; ++i) timings.wrong_bytes += sent[i] != returned[i] ? 1 : 0;
  }

  std::array<std::byte, 8> small{};
  const auto trip = [&] {
    const double begin = now_us(system);
    if (measures) write_and_read_back(world, small, small);
    else echo(world, small);
    return now_us(system) - begin;
  };
  for (int i = 0; i < 20; ++i) trip();  // the first ones take pages and wake sleepers
  const double first_us = std::min(trip(), trip());
  std::vector<double> trips(
      static_cast<std::size_t>(agreed_count(world, first_us, budget_us, trips_min, trips_max)));
  for (double& each : trips) each = trip();
  std::ranges::nth_element(trips, trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2));
  timings.latency_us = trips[trips.size() / 2] / 2;

  const int peer = 1 - world.rank();
  // Bytes of one direction in each microsecond.
  const auto stream = [&](bool sends, bool receives) {
    const auto time_us = [&](int messages) {
      const double begin = now_us(system);
      for (int i = 0; i < messages; ++i) {
        if (sends && receives) world.sendrecv(here, peer, back, peer);
        else if (sends) world.send(here, peer);
        else world.receive(back, peer);
      }
      trip();  // the last one is there
      return now_us(system) - begin;
    };
    const int messages = agreed_count(world, time_us(1), budget_us, messages_min, messages_max);
    return static_cast<double>(mib) * messages / time_us(messages);
  };
  timings.bandwidth_mb_s = stream(measures, !measures);
  timings.back_mb_s = stream(!measures, measures);
  timings.both_mb_s = 2 * stream(true, true);
  return timings;
}

}  // namespace qpmesh::doctor

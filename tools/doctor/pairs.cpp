// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/bytes.hpp"
#include "base/owned.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"
#include "tools/doctor/datagrams.hpp"
#include "tools/doctor/line.hpp"
#include "tools/doctor/meeting.hpp"
#include "tools/doctor/trials.hpp"
#include "topology/cores.hpp"

namespace qpmesh::doctor {
namespace {

using base::UniqueFd;

constexpr std::int64_t all_budget_ms = 20'000;    // for the measurements of all rounds
constexpr std::size_t gather_bytes_max = 60'000;  // a bootstrap carries 64 KiB

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// A text of any length from every rank.
std::vector<std::string> gather_texts(Bootstrap& world, const std::string& mine,
                                      Deadline deadline) {
  base::ByteWriter length;
  length.put(std::uint64_t{mine.size()});
  std::uint64_t longest = 0;
  for (const Blob& blob : world.all_gather(length.blob(), deadline))
    longest = std::max(longest, base::ByteReader{blob}.get<std::uint64_t>());
  std::vector<std::string> texts(at(world.size()));
  for (std::size_t begin = 0; begin < longest; begin += gather_bytes_max) {
    const auto part = std::string_view{mine}.substr(std::min(begin, mine.size()), gather_bytes_max);
    const auto parts = world.all_gather(std::as_bytes(std::span{part}), deadline);
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      texts[rank].append(reinterpret_cast<const char*>(parts[rank].data()), parts[rank].size());
  }
  return texts;
}

double wall_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration<double, std::milli>(system_clock::now().time_since_epoch()).count();
}

// The shortest of some round trips, in the middle of which the other one looked at its clock.
void compare_clocks(const Ranks& ranks, Line& line, PairReport& pair) {
  constexpr int trips = 5;
  double shortest = 1e18;
  for (int i = 0; i < trips; ++i) {
    if (ranks.me == pair.low) {
      line.hear(ranks.soon());
      line.say(fmt::format("{}", wall_ms()), ranks.soon());
      continue;
    }
    const double sent = wall_ms();
    line.say("time", ranks.soon());
    const std::string answer = line.hear_text(ranks.soon());
    const double heard = wall_ms();
    if (heard - sent >= shortest) continue;
    shortest = heard - sent;
    pair.clock_offset_ms = std::strtod(answer.c_str(), nullptr) - (sent + heard) / 2;
  }
}

class Examination {
 public:
  Examination(Bootstrap& world, const HostFacts& facts, bool every_gid_pair,
              const base::System& system, const base::Log& log)
      : world_{world},
        every_gid_pair_{every_gid_pair},
        log_{log},
        ranks_{.me = world.rank(), .facts = facts, .system = system} {}

  std::vector<PairReport> run(const std::function<void(std::size_t, std::size_t)>& tell) {
    gather_guests();
    std::vector<PairReport> mine;
    const auto all = schedule(seats());
    budget_ms_ = std::clamp(all_budget_ms / static_cast<std::int64_t>(all.size()), std::int64_t{10},
                            std::int64_t{300});
    std::size_t pairs = 0;
    for (const std::vector<Pair>& round : all) pairs += round.size();
    std::size_t tried = 0;
    for (const std::vector<Pair>& round : all) {
      tell(std::exchange(tried, tried + round.size()), pairs);
      // All begin together: who calls finds the other one listening.
      world_.all_gather({}, for_all());
      const auto found = std::ranges::find_if(
          round, [&](const Pair& each) { return each.low == ranks_.me || each.high == ranks_.me; });
      if (found == round.end()) continue;
      PairReport pair = meet(found->low == ranks_.me ? found->high : found->low);
      if (ranks_.me == pair.high) mine.push_back(std::move(pair));
    }
    tell(tried, pairs);
    return mine;
  }
  // For a gather: as long as the slowest pair may take. It has three jobs at most, each of which
  // begins, works and is agreed on twice, and then those of GIDs.
  Deadline for_all() const { return base::after_ms(ranks_.system, 16 * init_ms_max); }

 private:
  std::vector<Seat> seats() const {
    std::vector<Seat> all;
    for (const Guest& each : ranks_.guests) all.push_back({each.place.boot_id, each.cores});
    return all;
  }

  void gather_guests() {
    // From here on the world knows by what address it met. As long as a start may take.
    world_.all_gather({}, base::after_ms(ranks_.system, ranks_.facts.options.init_timeout_ms));
    Guest mine{.cores = topology::usable_core_count(std::span{&ranks_.facts.info.cores, 1}),
               .place = ranks_.facts.place};
    ranks_.system.random(mine.token);
    listeners_ = listen(mine, world_, ranks_.facts, ranks_.system, log_);
    datagrams_.tell(mine);
    const auto blobs = world_.all_gather(encode(mine), for_all());
    for (int rank = 0; rank < world_.size(); ++rank)
      ranks_.guests.push_back(decode(blobs[at(rank)], rank));
  }

  PairReport meet(int peer) {
    const int low = std::min(ranks_.me, peer);
    const int high = std::max(ranks_.me, peer);
    PairReport pair{.low = low, .high = high};
    try {
      auto socket = ranks_.me == high ? call(ranks_, low, pair) : answer(ranks_, listeners_, high);
      if (!socket) return pair;
      pair.line = describe_line(socket.get());
      Line line{std::move(socket), ranks_.system};
      compare_clocks(ranks_, line, pair);
      if (bootstrap::local_address(line.socket()).family() != AF_UNIX)
        datagrams_.try_both_ways(ranks_, line, pair);
      compare_packets(ranks_, line, pair);
      try_ways(ranks_, line, pair, budget_ms_);
      try_gids(ranks_, line, pair, every_gid_pair_);
    } catch (const Error& error) {
      pair.failure = error.what();
    }
    return pair;
  }

  static std::string describe_line(int socket) {
    const auto there = bootstrap::remote_address(socket);
    return there.family() == AF_UNIX ? "a Unix socket" : host_port(there).host;
  }

  Bootstrap& world_;
  bool every_gid_pair_;
  const base::Log& log_;
  Ranks ranks_;
  std::vector<UniqueFd> listeners_;
  DatagramPorts datagrams_;
  std::int64_t budget_ms_ = 0;  // for the measurements of a pair
};

}  // namespace

Report examine_pairs(Bootstrap& world, const HostFacts& facts, const RankReport& mine,
                     bool every_gid_pair, const base::System& system, const base::Log& log,
                     const std::function<void(std::size_t, std::size_t)>& tell) {
  Examination examination{world, facts, every_gid_pair, system, log};
  const auto my_pairs = examination.run(tell);
  Report report;
  const auto ranks = gather_texts(world, pack(mine), examination.for_all());
  const auto pairs = gather_texts(world, pack(my_pairs), examination.for_all());
  for (int rank = 0; rank < world.size(); ++rank) {
    report.ranks.push_back(unpack_rank(ranks[at(rank)], rank));
    for (PairReport& pair : unpack_pairs(pairs[at(rank)], rank))
      report.pairs.push_back(std::move(pair));
  }
  std::ranges::sort(report.pairs, {}, [](const PairReport& each) {
    return std::pair{each.low, each.high};
  });
  report.findings = examine(pair_checks(), report);
  return report;
}

}  // namespace qpmesh::doctor

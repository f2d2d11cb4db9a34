// SPDX-License-Identifier: MIT
// Every pair of ranks of a job is tried: which addresses answer, what datagrams arrive, which way
// joins the two, whether bytes come back as they were written, and how fast.
//
// Pairs take turns in rounds. The higher rank calls and the lower one listens, as in a job. Where
// nothing joins two ranks the others go on: that is a finding, not an error.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "tools/doctor/report.hpp"

namespace qpmesh::doctor {

// Collective over the job. mine: of this rank. every_gid_pair: also where verbs joins two ranks by
// the GIDs that it chose. Every rank gets the whole report. Throws Error where
// the ranks cannot meet, or one of them ended.
// tell: is told before each round, and at the end, how many of all pairs were tried.
Report examine_pairs(
    Bootstrap& world, const HostFacts& facts, const RankReport& mine, bool every_gid_pair,
    const base::System& system, const base::Log& log,
    const std::function<void(std::size_t tried, std::size_t all)>& tell = [](std::size_t,
                                                                             std::size_t) {});

// Of one rank.
struct Seat {
  std::string host{};  // equal where processors are shared
  int cores = 1;
};
struct Pair {
  int low = 0;
  int high = 0;
  bool operator==(const Pair&) const = default;
};
// Each pair once, in rounds: a rank has one partner in a round, and a host no more ranks at work
// than cores, so that pairs are not slowed by each other; but for the first pair.
std::vector<std::vector<Pair>> schedule(std::span<const Seat> seats);

}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
// What a message between nodes costs here: init measures it with the links that it has made.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/constants.hpp"
#include "context/context.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::startup {

// Who measures: the first rank of a node with that of the next one, and so on; where all ranks are
// on one node, and do not share memory, the first two. The others wait, so that a link that two
// hosts have is measured by one pair.
// nodes: of each rank, in rank order.
std::vector<std::pair<int, int>> measuring_pairs(std::span<const int> nodes);

// To the nearest half power of two, so that two starts on one network mostly find the same, and
// choose the same algorithms.
double rounded(double seconds) noexcept;

// What the exchanges of one question took. What else runs on the hosts makes some longer, so the
// shortest counts, of those during which neither rank waited for a core: where the kernel has put
// both on one, or beside a neighbour, all of them may take milliseconds.
class ExchangeTimes {
 public:
  explicit ExchangeTimes(int exchanges_enough) noexcept : exchanges_enough_{exchanges_enough} {}

  // The next exchange is worth its time, for which all ranks wait.
  bool wants_more() const noexcept;
  void add(double taken_s) noexcept;
  // Of the one that was added last: so long its ranks waited for cores meanwhile.
  void judge(double delayed_s) noexcept;

  double least_s() const noexcept { return least_s_; }  // of all; infinite before the first
  // Of those that count. Nothing: none does.
  std::optional<double> undelayed_s() const noexcept { return undelayed_s_; }

 private:
  int exchanges_enough_;
  int exchanges_ = 0;
  double all_s_ = 0;
  double last_s_ = 0;
  double least_s_ = std::numeric_limits<double>::infinity();
  std::optional<double> undelayed_s_{};
};

// Takes some milliseconds, or some round trips where they are long. All ranks get the same: a
// collective waits for its slowest link, so the longest times count. Nothing: those who measured
// waited for their cores all the time. shares_cores: that is what messages take here, with other
// ranks or with the network's own protocol on the cores, and counts. Collective, where some ranks
// are joined by a network. communicator: an id that no other one has. Throws what ends a message.
std::optional<collectives::NetworkTimes> measure_network(
    Bootstrap& bootstrap, const std::shared_ptr<context::Context>& context,
    std::uint64_t communicator, bool shares_cores, Deadline deadline);

}  // namespace qpmesh::startup

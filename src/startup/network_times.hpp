// What a message between nodes costs here: init measures it with the links that it has made.
#pragma once

#include <cstdint>
#include <memory>
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

// Takes some milliseconds, or some round trips where they are long. All ranks get the same: a
// collective waits for its slowest link, so the longest times count. Collective, where some ranks
// are joined by a network. communicator: an id that no other one has. Throws what ends a message.
collectives::NetworkTimes measure_network(Bootstrap& bootstrap,
                                          const std::shared_ptr<context::Context>& context,
                                          std::uint64_t communicator, Deadline deadline);

}  // namespace qpmesh::startup

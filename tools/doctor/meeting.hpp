// SPDX-License-Identifier: MIT
// How the two ranks of a pair meet: the higher one calls all addresses of the lower one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "tools/doctor/guests.hpp"
#include "tools/doctor/report.hpp"

namespace qpmesh::doctor {

// At all addresses that a job would use, in its order, and at a name for ranks of this network:
// mine says where. After the world's first gather.
std::vector<base::UniqueFd> listen(Guest& mine, const Bootstrap& world, const HostFacts& facts,
                                   const base::System& system, const base::Log& log);

// The line to the other rank; nothing where there is none. The pair gets the calls and their
// errors.
base::UniqueFd call(const Ranks& ranks, int low, PairReport& pair);
base::UniqueFd answer(const Ranks& ranks, std::span<const base::UniqueFd> listeners, int high);

}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
// What joins the two ranks of a pair that have met: each way, and each pair of their GIDs, is tried
// as a job of the two.
#pragma once

#include <cstdint>

#include "tools/doctor/guests.hpp"
#include "tools/doctor/line.hpp"
#include "tools/doctor/report.hpp"

namespace qpmesh::doctor {

inline constexpr std::int64_t init_ms_max = 15'000;  // of a trial

// Of a pair. Both ranks call each, which adds to the pair's report. They throw Error as Line does.
//
// Compares what the packets of each end would carry over verbs. Call it before try_ways, because
// agreed options that differ keep two ranks from any job.
void compare_packets(const Ranks& ranks, Line& line, PairReport& pair);
// In the order in which init would take them, until one serves, which is measured for budget_ms; of
// verbs reads, too, and beside it tcp, each for a quarter of that.
void try_ways(const Ranks& ranks, Line& line, PairReport& pair, std::int64_t budget_ms);
// Where verbs was refused, or every is set.
void try_gids(const Ranks& ranks, Line& line, PairReport& pair, bool every);

}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
// What a receiver on this device really sees of writes: a few records to ourselves, watched while
// they land. It may take away what the device is believed to keep, never add to it. And how soon a
// receiver knows of a record, by looking at memory and by an immediate.
#pragma once

#include <cstdint>
#include <string>

#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::transport::verbs {

struct Placement {
  std::uint32_t records = 0;       // watched
  std::uint32_t partial = 0;       // whose first word was seen before the rest: the checksum's work
  std::uint32_t out_of_order = 0;  // whose last word was seen before an earlier one
  std::uint32_t overtaken = 0;     // that were whole before the payload written ahead of them
  bool vouched_in_order = false;   // ibv_query_qp_data_in_order
  // From posting a record until its receiver knows of it, medians; 0: not timed.
  std::uint32_t polled_ns = 0;
  std::uint32_t immediate_ns = 0;
  std::string failure;  // why it could not be tried; empty: it could
};

// Takes a few milliseconds; never longer than a fraction of a second, whatever the device does.
// Never throws for the device's doings: a test that cannot run is a finding too.
Placement test_placement(const base::System& system, const selection::Endpoint& endpoint);

// For ranks that share the device: one tests it for all.
Blob encode(const Placement& seen);
// Throws Error{corrupt} naming the rank.
Placement decode_placement(BlobView bytes, int rank);

// What is left to rely on.
selection::Notifications judge_placement(selection::Notifications believed,
                                         const Placement& seen) noexcept;
// Of two ways that are both right the one that was clearly sooner: immediates are always right.
selection::Notifications prefer_sooner(selection::Notifications allowed,
                                       const Placement& seen) noexcept;

}  // namespace qpmesh::transport::verbs

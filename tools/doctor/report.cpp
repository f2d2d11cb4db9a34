// SPDX-License-Identifier: MIT
#include "tools/doctor/report.hpp"

#include <algorithm>

namespace qpmesh::doctor {

RankReport report_of(const HostFacts& facts, int rank) {
  return {.rank = rank,
          .host = facts.info.host,
          .place = facts.place,
          .kernel = facts.kernel,
          .container = facts.container,
          .cores = topology::usable_core_count(std::span{&facts.info.cores, 1}),
          .interfaces = facts.interfaces,
          .rdma_devices = facts.kernel_devices,
          .findings = examine(facts)};
}

bool any_problem(const Report& report) noexcept {
  return any_problem(report.findings) ||
         std::ranges::any_of(report.ranks,
                             [](const RankReport& each) { return any_problem(each.findings); });
}

}  // namespace qpmesh::doctor

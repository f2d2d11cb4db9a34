// SPDX-License-Identifier: MIT
// What is wrong, what it costs, and the command that mends it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/host.hpp"

namespace qpmesh::doctor {

enum class Severity : std::uint8_t {
  problem,  // a job fails or is slow because of it
  note,     // so only under a condition, which the text names
};

struct Finding {
  std::string id{};  // of its row
  Severity severity = Severity::problem;
  std::string what{};  // with the values that were seen
  std::string cost{};  // of the row: what it means for a job
  std::string mend{};  // a command, or several
  bool operator==(const Finding&) const = default;
};

// What a check has seen. Its text begins in lower case and ends without a full stop.
struct Seen {
  std::string what{};
  std::string mend{};
  Severity severity = Severity::problem;
};

// One row of a table of checks: of a host, or of all ranks together.
template <class Facts>
struct Check {
  std::string_view id{};
  std::string_view cost{};
  std::vector<Seen> (*look)(const Facts& facts) = nullptr;
};

template <class Facts>
std::vector<Finding> examine(std::span<const Check<Facts>> checks, const Facts& facts) {
  std::vector<Finding> findings;
  for (const Check<Facts>& check : checks) {
    for (Seen& seen : check.look(facts)) {
      findings.push_back({std::string{check.id}, seen.severity, std::move(seen.what),
                          std::string{check.cost}, std::move(seen.mend)});
    }
  }
  return findings;
}

std::span<const Check<HostFacts>> host_checks() noexcept;
inline std::vector<Finding> examine(const HostFacts& facts) {
  return examine(host_checks(), facts);
}

bool any_problem(std::span<const Finding> findings) noexcept;

}  // namespace qpmesh::doctor

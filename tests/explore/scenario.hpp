// SPDX-License-Identifier: MIT
// How a scenario is tested: explored whole, then once with each order that its code asks for taken
// away.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "explore/explored_atomics.hpp"

namespace qpmesh::explore {

// A mutant that a scenario need not find, and why. function: of the code explored. nth: of those
// that this damage can be done to in that function, by line, from 1 on; 0: each.
struct Harmless {
  Damage damage;
  std::string_view function;
  std::size_t nth;
  std::string_view why;
};

inline bool is_listed(const Mutant& mutant, std::span<const Mutant> mutants,
                      std::initializer_list<Harmless> harmless) {
  const auto nth = 1 + std::ranges::count_if(mutants, [&](const Mutant& other) {
                     return other.damage == mutant.damage &&
                            other.function() == mutant.function() &&
                            std::pair{other.at.line(), other.at.column()} <
                                std::pair{mutant.at.line(), mutant.at.column()};
                   });
  return std::ranges::any_of(harmless, [&](const Harmless& each) {
    return each.damage == mutant.damage && mutant.function() == each.function &&
           (each.nth == 0 || each.nth == static_cast<std::size_t>(nth));
  });
}

// Print how many executions and states there are.
template <class Scenario>
Explored expect_right() {
  Explored whole = explore<Scenario>();
  EXPECT_EQ(whole.finding, "");
  fmt::print("explored: {} executions, {} dead ends, {} states\n", whole.executions,
             whole.dead_ends, whole.states);
  return whole;
}

template <class Scenario>
void expect_right_and_every_mutant_found(std::initializer_list<Harmless> harmless = {}) {
  const Explored whole = expect_right<Scenario>();
  std::size_t found = 0;
  std::size_t left = 0;
  std::uint64_t states = 0;
  for (const Mutant& mutant : whole.mutants) {
    const Explored broken = explore<Scenario>(mutant);
    states += broken.states;
    if (!broken.finding.empty()) {
      ++found;
    } else if (broken.damaged) {  // else it is late, and nothing comes behind it
      EXPECT_TRUE(is_listed(mutant, whole.mutants, harmless)) << "survives: " << mutant.name();
      ++left;
    }
  }
  EXPECT_GT(found, 0U);
  fmt::print("mutants: {} found, {} harmless here, in {} states\n", found, left, states);
}

}  // namespace qpmesh::explore

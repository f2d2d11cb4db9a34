// SPDX-License-Identifier: MIT
// The second tree of binary_tree, in which every other lane and piece of a call goes. All rows are
// tried in the first one (collectives_sim_test).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/registry.hpp"
#include "context/communicator_state.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using collectives::Algorithm;
using collectives::Arguments;
using collectives::Reducer;

// Maps x -> slope x + offset: composing them is associative and depends on the order.
struct Map {
  std::uint32_t slope;
  std::uint32_t offset;

  bool operator==(const Map&) const = default;
};
Map then(const Map& first, const Map& second) {
  return {first.slope * second.slope, second.slope * first.offset + second.offset};
}
Map map_of(int rank, std::size_t i) {
  const std::uint64_t word = base::mix64(static_cast<std::uint64_t>(rank) << 40 ^ i);
  return {static_cast<std::uint32_t>(word | 1), static_cast<std::uint32_t>(word >> 32)};
}
constexpr Map untouched{0, 7};

// Parts of a message are combined as they come, or all of it behind it.
Reducer composes_as_it_comes() {
  return {.kernel =
              [](std::byte* target, const std::byte* const* sources, int source_count,
                 std::size_t bytes) {
                for (std::size_t i = 0; i < bytes / sizeof(Map); ++i) {
                  const auto of = [&](int source) {
                    return reinterpret_cast<const Map*>(sources[source])[i];
                  };
                  Map all = of(0);
                  for (int source = 1; source < source_count; ++source) all = then(all, of(source));
                  reinterpret_cast<Map*>(target)[i] = all;
                }
              },
          .element_bytes = sizeof(Map),
          .commutative = false};
}
Reducer composes_at_the_end() {
  return {.function =
              [](const void* /*context*/, const void* left, void* inout, std::size_t count) {
                for (std::size_t i = 0; i < count; ++i) {
                  Map& right = static_cast<Map*>(inout)[i];
                  right = then(static_cast<const Map*>(left)[i], right);
                }
              },
          .element_bytes = sizeof(Map),
          .commutative = false};
}

struct Call {
  const Algorithm* row;
  std::size_t count;  // of elements
  bool in_place;
  Reducer reducer;

  bool inclusive() const noexcept { return row->collective == Collective::scan; }
  std::string describe() const {
    return fmt::format("{} of {}{}", name_of(row->collective), count, in_place ? ", in place" : "");
  }
};

std::vector<Call> calls() {
  std::vector<Call> all;
  for (const Collective collective : {Collective::scan, Collective::exscan}) {
    // One segment, some short ones, and more than a segment is long.
    for (const std::size_t count : {1U, 3U, 333U, 9'001U}) {
      for (const bool in_place : {false, true}) {
        for (const Reducer& reducer : {composes_as_it_comes(), composes_at_the_end()})
          all.push_back(
              {collectives::find_algorithm(collective, "binary_tree"), count, in_place, reducer});
      }
    }
  }
  return all;
}

constexpr int size_max = 20;

// Of the ranks before each: what they come to.
std::vector<std::vector<Map>> sums_before() {
  std::vector<std::vector<Map>> all{std::vector<Map>(9'001, Map{1, 0})};
  for (int rank = 0; rank < size_max; ++rank) {
    std::vector<Map> sum = all.back();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = then(sum[i], map_of(rank, i));
    all.push_back(std::move(sum));
  }
  return all;
}

void check(const Call& call, int rank, std::span<const Map> result) {
  static const std::vector<std::vector<Map>> before = sums_before();
  const std::vector<Map>& sum =
      before[static_cast<std::size_t>(call.inclusive() ? rank + 1 : rank)];
  const bool gets_nothing = !call.inclusive() && rank == 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Map left_alone = call.in_place ? map_of(0, i) : untouched;
    if (result[i] != (gets_nothing ? left_alone : sum[i]))
      throw std::runtime_error(
          fmt::format("{}: element {} of rank {} is wrong", call.describe(), i, rank));
  }
}

// One behind another. Of the row itself, in the second lane of a hierarchy that there is not.
Script prefixes(SimulatedJob* job, int rank, const std::vector<Call>* all) {
  context::CommunicatorState& world = *Access::state(job->world(rank));
  for (const Call& call : *all) {
    std::vector<Map> in(call.count);
    for (std::size_t i = 0; i < call.count; ++i) in[i] = map_of(rank, i);
    const std::vector<Map> given = in;
    std::vector<Map> out(call.count, untouched);
    std::vector<Map>& result = call.in_place ? in : out;
    const collectives::Group whole = world.begin(
        context::CollectiveCall{.operation = context::CollectiveName{call.row->collective}});
    const collectives::Group::Members members{.machine = &whole.machine(),
                                              .context_ranks = world.context_ranks().data(),
                                              .size = world.size(),
                                              .rank = rank,
                                              .communicator = world.id(),
                                              .lane = 1};
    const collectives::Group group{members, whole.operation(), whole.signature()};
    Arguments arguments{};
    arguments.in = reinterpret_cast<const std::byte*>(in.data());
    arguments.out = reinterpret_cast<std::byte*>(result.data());
    arguments.element_count = call.count;
    arguments.element_bytes = sizeof(Map);
    arguments.reducer = call.reducer;
    progress::TaskOperation task;
    job->context(rank).engine().start(task, [&] { return call.row->run(group, arguments); });
    co_await until(task.done);
    if (task.error) std::rethrow_exception(task.error);
    check(call, rank, result);
    if (!call.in_place && in != given)
      throw std::runtime_error(call.describe() + ": the input has changed");
  }
}

TEST(the_second_tree, of_scans_is_right_for_every_number_of_ranks) {
  const std::vector<Call> all = calls();
  for (int size = 1; size <= size_max; ++size) {
    const Flavour& flavour = flavours()[static_cast<std::size_t>(size) % flavours().size()];
    SimulatedJob job{flavour.config(size, static_cast<std::uint64_t>(size))};
    for (int rank = 0; rank < size; ++rank) job.start(rank, prefixes(&job, rank, &all));
    job.run();
    ASSERT_EQ(job.close(), "") << size << " ranks, " << flavour.name;
  }
}

}  // namespace
}  // namespace qpmesh::test

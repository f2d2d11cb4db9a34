// SPDX-License-Identifier: MIT
// What the scenarios of the rank program share: checks that say where, data
// that can be recognised, errors as expected.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "qpmesh/qpmesh.hpp"
#include "tests/support/expected_error.hpp"
#include "tests/support/place.hpp"

namespace qpmesh::ranks {

using namespace std::chrono_literals;

using Bytes = std::vector<std::uint8_t>;
using Arguments = std::span<const std::string>;
using test::Place;

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& what, Place place);

inline void check(bool right, std::string_view what, Place place = Place::current()) {
  if (!right) fail(std::string{what}, place);
}

template <class T>
std::string shown(const T& value) {
  if constexpr (std::convertible_to<T, std::string_view>)
    return std::string{std::string_view{value}};
  else return std::to_string(value);
}

template <class A, class B>
void check_equal(const A& observed, const B& expected, Place place = Place::current()) {
  if (!(observed == expected))
    fail("is " + shown(observed) + ", expected " + shown(expected), place);
}

inline void check_status(const Status& status, int source, int tag, std::size_t bytes,
                         Place place = Place::current()) {
  check_equal(status.source, source, place);
  check_equal(status.tag, tag, place);
  check_equal(status.bytes, bytes, place);
}

// Bytes that name their seed and their place.
Bytes pattern(std::size_t bytes, int seed);
void check_pattern(std::span<const std::uint8_t> data, int seed, Place place = Place::current());

// sum over ranks of a vector whose element i is rank + 1 + i: a world of `size`.
std::vector<std::int64_t> addends(int rank, std::size_t element_count);

// Do all ranks load each other's memory?
bool shares_memory(const Communicator& group);
void check_sum(std::span<const std::int64_t> data, int size, Place place = Place::current());

using Expected = test::ExpectedError;
// The last operations of the rank, and which limit passed.
inline const std::string timeout_hint =
    "last operations of rank *: *; the limit is QPMESH_TIMEOUT_MS or CallOptions::timeout";
constexpr int any_peer_at_all = -1000;  // the error may blame any rank

void check_error(const Error& error, const Expected& expected, Place place = Place::current());

template <class F>
void expect_error(F&& call, const Expected& expected, Place place = Place::current()) {
  try {
    call();
  } catch (const Error& error) {
    return check_error(error, expected, place);
  }
  fail("no error, expected " + std::string{to_string(expected.code)}, place);
}

// A line on stdout at once, for the test that watches. say_time adds the
// monotonic clock in ms, which the watcher shares.
void say(std::string_view text);
void say_time(std::string_view text);
// Until the file exists: how ranks wait for each other without using what is tested. Fails after 20
// s.
void await_file(const std::string& path);
void make_file(const std::string& path);

struct Scenario {
  std::string_view name;
  std::function<void(Arguments)> run;
};
// A scenario between init() and finish().
Scenario in_world(std::string_view name, void (*run)(Communicator& world, Arguments arguments));

std::vector<Scenario> message_scenarios();
std::vector<Scenario> async_scenarios();
std::vector<Scenario> group_scenarios();
std::vector<Scenario> grid_scenarios();
std::vector<Scenario> detached_scenarios();
std::vector<Scenario> argument_scenarios();
std::vector<Scenario> collective_scenarios();
std::vector<Scenario> collective_argument_scenarios();
std::vector<Scenario> reduction_failure_scenarios();
std::vector<Scenario> node_scenarios();
std::vector<Scenario> large_scenarios();
std::vector<Scenario> differing_call_scenarios();
std::vector<Scenario> differing_pair_scenarios();
std::vector<Scenario> request_scenarios();
std::vector<Scenario> fork_scenarios();
std::vector<Scenario> type_scenarios();
std::vector<Scenario> value_scenarios();
std::vector<Scenario> vector_scenarios();
std::vector<Scenario> block_scenarios();
std::vector<Scenario> matched_scenarios();
std::vector<Scenario> own_memory_scenarios();
std::vector<Scenario> prepared_scenarios();
std::vector<Scenario> error_scenarios();
std::vector<Scenario> ending_scenarios();
std::vector<Scenario> death_scenarios();
std::vector<Scenario> random_scenarios();
std::vector<Scenario> economy_scenarios();
std::vector<Scenario> link_scenarios();
std::vector<Scenario> held_scenarios();
std::vector<Scenario> thread_scenarios();
std::vector<Scenario> coroutine_scenarios();

}  // namespace qpmesh::ranks

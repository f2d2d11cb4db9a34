// SPDX-License-Identifier: MIT
// One rank of the tests: rank_program SCENARIO [argument…]. Ends with 0 when everything it saw was
// right, with 1 and one line on stderr otherwise.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {

void fail(const std::string& what, Place place) {
  throw Failed{std::string{place.file_name()} + ":" + std::to_string(place.line()) + ": " + what};
}

Bytes pattern(std::size_t bytes, int seed) {
  constexpr std::size_t period = 65536;  // after which the numbers below come again, modulo 256
  Bytes data(bytes);
  for (std::size_t i = 0; i < std::min(bytes, period); ++i) {
    data[i] =
        static_cast<std::uint8_t>((i >> 8) * 31 + i * 7 + static_cast<std::size_t>(seed) * 13 + 1);
  }
  // Copies, because a step per byte of 16 MiB takes seconds under ThreadSanitizer.
  for (std::size_t at = period; at < bytes; at += period)
    std::memcpy(data.data() + at, data.data(), std::min(period, bytes - at));
  return data;
}

void check_pattern(std::span<const std::uint8_t> data, int seed, Place place) {
  const Bytes expected = pattern(data.size(), seed);
  if (data.empty() || std::memcmp(data.data(), expected.data(), data.size()) == 0) return;
  const auto wrong = std::mismatch(data.begin(), data.end(), expected.begin()).first;
  fail("byte " + std::to_string(wrong - data.begin()) + " of " + std::to_string(data.size()) +
           " is wrong",
       place);
}

std::vector<std::int64_t> addends(int rank, std::size_t element_count) {
  std::vector<std::int64_t> data(element_count);
  for (std::size_t i = 0; i < element_count; ++i) data[i] = rank + 1 + static_cast<std::int64_t>(i);
  return data;
}

bool shares_memory(const Communicator& group) {
  return std::ranges::any_of(group.explain(Collective::barrier, 0), [](const Candidate& row) {
    return row.algorithm == "one_shot" && row.applies;
  });
}

void check_sum(std::span<const std::int64_t> data, int size, Place place) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::int64_t expected =
        std::int64_t{size} * (size + 1) / 2 + size * static_cast<std::int64_t>(i);
    if (data[i] != expected)
      fail("element " + std::to_string(i) + " of " + std::to_string(data.size()) + " is wrong",
           place);
  }
}

void check_error(const Error& error, const Expected& expected, Place place) {
  Expected exactly = expected;
  if (expected.peer == any_peer_at_all) {
    check(error.peer() >= 0, std::string{"it blames nobody: "} + error.what(), place);
    exactly.peer = error.peer();
  }
  if (const std::string wrong = test::difference(error, exactly); !wrong.empty())
    fail(wrong, place);
}

void say(std::string_view text) {
  const std::string line = std::string{text} + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw Failed{"stdout is closed"};
}

void say_time(std::string_view text) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  say(std::string{text} + " " +
      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
}

void await_file(const std::string& path) {
  for (int i = 0; i < 20'000; ++i) {
    if (::access(path.c_str(), F_OK) == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  throw Failed{"nobody made " + path};
}

void make_file(const std::string& path) { std::ofstream{path} << "here\n"; }

Scenario in_world(std::string_view name, void (*run)(Communicator& world, Arguments arguments)) {
  return {name, [run](Arguments arguments) {
            Communicator world = init();
            run(world, arguments);
            world.finish();
          }};
}

}  // namespace qpmesh::ranks

int main(int count, char** values) {
  using namespace qpmesh::ranks;
  const std::vector<std::string> arguments{values + 1, values + count};
  for (const auto& scenarios : {message_scenarios(),
                                async_scenarios(),
                                group_scenarios(),
                                grid_scenarios(),
                                detached_scenarios(),
                                argument_scenarios(),
                                collective_scenarios(),
                                collective_argument_scenarios(),
                                reduction_failure_scenarios(),
                                node_scenarios(),
                                large_scenarios(),
                                differing_call_scenarios(),
                                differing_pair_scenarios(),
                                request_scenarios(),
                                thread_scenarios(),
                                coroutine_scenarios(),
                                fork_scenarios(),
                                type_scenarios(),
                                value_scenarios(),
                                vector_scenarios(),
                                block_scenarios(),
                                matched_scenarios(),
                                own_memory_scenarios(),
                                prepared_scenarios(),
                                error_scenarios(),
                                ending_scenarios(),
                                death_scenarios(),
                                random_scenarios(),
                                economy_scenarios(),
                                link_scenarios(),
                                held_scenarios()}) {
    for (const Scenario& scenario : scenarios) {
      if (arguments.empty() || scenario.name != arguments[0]) continue;
      try {
        scenario.run(Arguments{arguments}.subspan(1));
        return EXIT_SUCCESS;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", arguments[0].c_str(), error.what());
        return EXIT_FAILURE;
      }
    }
  }
  std::fprintf(stderr, "usage: rank_program SCENARIO [argument...]\n");
  return 2;
}

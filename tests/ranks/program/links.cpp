// SPDX-License-Identifier: MIT
// What ranks see of a network that fails under them, or only stops for a while. The test's guests
// do that to it.
#include <algorithm>
#include <array>
#include <chrono>
#include <span>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr int steps_before_disturbance = 20;

using Clock = std::chrono::steady_clock;

std::int64_t ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

// Small vectors and long ones, which take several packets.
void exchange_once(Communicator& world, int step) {
  std::vector<std::int64_t> data = addends(world.rank(), step % 4 == 0 ? 50'000 : 10);
  world.allreduce(data, sum);
  check_sum(data, world.size());
}

// arguments: a file that says from when on the network may be disturbed; how many ms after the last
// success the error must be there. The network goes down meanwhile.
void traffic_until_the_network_fails(Arguments arguments) {
  Communicator world = init();
  auto last_success = Clock::now();
  try {
    for (int step = 0;; ++step) {
      exchange_once(world, step);
      last_success = Clock::now();
      if (step == steps_before_disturbance) make_file(arguments[0]);
    }
  } catch (const Error& error) {
    const auto told_ms = ms_since(last_success);
    say("note: told after " + std::to_string(told_ms) + " ms: " + error.what());
    check(error.code() == ErrorCode::link_failed || error.code() == ErrorCode::peer_dead,
          error.what());
    check_equal(error.peer(), 1 - world.rank());
    check(told_ms <= std::stoll(arguments[1]), "told after " + std::to_string(told_ms) + " ms");
  }
}

// arguments: the file; for so many seconds from then on; and how many ms its longest operation
// takes at least, or nothing was disturbed.
void traffic_for_seconds(Communicator& world, Arguments arguments) {
  for (int step = 0; step < steps_before_disturbance; ++step) exchange_once(world, step);
  make_file(arguments[0]);
  const auto begin = Clock::now();
  std::int64_t longest_ms = 0;
  std::vector<std::int64_t> go_on{1};
  for (int step = 0; go_on[0] != 0; ++step) {
    const auto start = Clock::now();
    exchange_once(world, step);
    longest_ms = std::max(longest_ms, ms_since(start));
    go_on[0] = ms_since(begin) < std::stoll(arguments[1]) * 1'000 ? 1 : 0;
    world.broadcast(go_on, 0);
  }
  say("note: the longest operation took " + std::to_string(longest_ms) + " ms");
  check(longest_ms >= std::stoll(arguments[2]), "nothing was disturbed");
}

constexpr std::size_t long_words = std::size_t{128} << 10;  // 1 MiB: registered, and several pieces
constexpr int long_steps_before_disturbance = 5;

// A message each way: every word says which one it is.
struct Both {
  Both(Communicator& world, int its_number, std::size_t words)
      : number{its_number}, rank{world.rank()}, out(words), in(words, -1) {
    for (std::size_t i = 0; i < words; ++i) out[i] = word(rank, i);
  }
  std::int64_t word(int source, std::size_t i) const {
    return static_cast<std::int64_t>(i * 31 +
                                     static_cast<std::size_t>(number * 2 + source) * 1'000'003);
  }
  std::size_t wrong() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < in.size(); ++i) count += in[i] == word(1 - rank, i) ? 0U : 1U;
    return count;
  }
  int number;
  int rank;
  std::vector<std::int64_t> out;
  std::vector<std::int64_t> in;
};

// As many at once, in order. The receives of some come late.
void exchange_words_once(Communicator& world, int step, std::span<const std::size_t> lengths) {
  const int peer = 1 - world.rank();
  const bool late = step % 3 == 0;
  std::vector<Both> messages;
  std::vector<Request> requests;
  for (const std::size_t words : lengths)
    messages.emplace_back(world, step * 100 + static_cast<int>(messages.size()), words);
  const auto receive = [&] {
    for (Both& each : messages) requests.push_back(world.receive_async(each.in, peer, step));
  };
  if (!late) receive();
  for (const Both& each : messages) requests.push_back(world.send_async(each.out, peer, step));
  if (late) receive();
  for (Request& request : requests) request.wait();
  std::size_t wrong = 0;
  for (const Both& each : messages) wrong += each.wrong();
  check_equal(wrong, std::size_t{0});
}

// Two ranks. arguments: as of traffic_for_seconds, without the last one.
void exchange_for_seconds(Communicator& world, Arguments arguments,
                          std::span<const std::size_t> lengths) {
  for (int step = 0; step < long_steps_before_disturbance; ++step)
    exchange_words_once(world, step, lengths);
  make_file(arguments[0]);
  const auto begin = Clock::now();
  std::vector<std::int64_t> go_on{1};
  int step = long_steps_before_disturbance;
  for (; go_on[0] != 0; ++step) {
    exchange_words_once(world, step, lengths);
    go_on[0] = ms_since(begin) < std::stoll(arguments[1]) * 1'000 ? 1 : 0;
    world.broadcast(go_on, 0);
  }
  say("note: " + std::to_string(step) + " times " + std::to_string(lengths.size()) +
      " messages each way, wrong = 0");
}

void long_messages_for_seconds(Communicator& world, Arguments arguments) {
  exchange_for_seconds(world, arguments, std::array{long_words});
}

// In records, through the rings, and by rendezvous.
void messages_for_seconds(Communicator& world, Arguments arguments) {
  constexpr std::array<std::size_t, 8> of_all_kinds{1, 20, 24, 100, 500, 2'000, 4'500, 30'000};
  std::vector<std::size_t> lengths;
  for (int i = 0; i < 4; ++i)
    lengths.insert(lengths.end(), of_all_kinds.begin(), of_all_kinds.end());
  exchange_for_seconds(world, arguments, lengths);
}

}  // namespace

std::vector<Scenario> link_scenarios() {
  return {{"traffic_until_the_network_fails", traffic_until_the_network_fails},
          in_world("traffic_for_seconds", traffic_for_seconds),
          in_world("long_messages_for_seconds", long_messages_for_seconds),
          in_world("messages_for_seconds", messages_for_seconds)};
}

}  // namespace qpmesh::ranks

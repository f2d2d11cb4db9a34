// What ranks see of a network that fails under them, or only stops for a while. The test's guests
// do that to it.
#include <algorithm>
#include <chrono>

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

// Both ways at once, every word checked.
void exchange_long_once(Communicator& world, int step) {
  const int peer = 1 - world.rank();
  const auto word = [&](int rank, std::size_t i) {
    return static_cast<std::int64_t>(i * 31 +
                                     static_cast<std::size_t>(step * 2 + rank) * 1'000'003);
  };
  std::vector<std::int64_t> out(long_words);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = word(world.rank(), i);
  std::vector<std::int64_t> in(long_words, -1);
  Request receive = world.receive_async(in, peer, step);
  Request send = world.send_async(out, peer, step);
  receive.wait();
  send.wait();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) wrong += in[i] == word(peer, i) ? 0U : 1U;
  check_equal(wrong, std::size_t{0});
}

// Two ranks. arguments: as of traffic_for_seconds, without the last one.
void long_messages_for_seconds(Communicator& world, Arguments arguments) {
  for (int step = 0; step < long_steps_before_disturbance; ++step) exchange_long_once(world, step);
  make_file(arguments[0]);
  const auto begin = Clock::now();
  std::vector<std::int64_t> go_on{1};
  int step = long_steps_before_disturbance;
  for (; go_on[0] != 0; ++step) {
    exchange_long_once(world, step);
    go_on[0] = ms_since(begin) < std::stoll(arguments[1]) * 1'000 ? 1 : 0;
    world.broadcast(go_on, 0);
  }
  say("note: " + std::to_string(step) + " messages of 1 MiB each way, wrong = 0");
}

}  // namespace

std::vector<Scenario> link_scenarios() {
  return {{"traffic_until_the_network_fails", traffic_until_the_network_fails},
          in_world("traffic_for_seconds", traffic_for_seconds),
          in_world("long_messages_for_seconds", long_messages_for_seconds)};
}

}  // namespace qpmesh::ranks

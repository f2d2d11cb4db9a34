// SPDX-License-Identifier: MIT
// How ranks end, or stop, while others wait for them. The watching test kills;
// the ranks tell what they saw, and when.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// What is said behind the name of a rank that was killed, and of one that closed everything without
// finish().
const std::string died =
    ": process * on host *";  // ended, or hung up: whichever the kernel tells first
const std::string died_hint =
    "look at what that rank said before it ended, and how its launcher saw it end";
const std::string left = " has left: it closed its communicators or ended normally*";
const std::string left_hint =
    "call finish() on every rank before the first one leaves; where all have called it, look at "
    "what that rank said before it ended";

// Waits for the last rank, in the way that is asked for.
void wait_for_last(Communicator& world, std::string_view how) {
  const int last = world.size() - 1;
  std::vector<float> floats(200'000);
  if (how == "barrier") return world.barrier();
  if (how == "allreduce") return world.allreduce(floats, sum);
  if (how == "send") return world.send(Bytes(16 << 20), last);
  if (how == "receive") world.receive(floats, last);
  if (how == "receive_any") world.receive(floats);
  if (how == "probe") world.probe(last);
}

// What every survivor goes through: the error, again the error, and a group
// without the lost rank that lives on.
void survive(Communicator& world, Communicator& survivors, const std::string& how,
             const std::string& cause, const std::string& hint) {
  const int last = world.size() - 1;
  say("waiting");
  const std::string who = "rank " + std::to_string(last) + " (pid * on *)";
  expect_error([&] { wait_for_last(world, how); },
               {ErrorCode::peer_dead, last, how.substr(0, how.find('_')), who + cause, hint});
  say_time("told");
  expect_error([&] { world.barrier(); },
               {ErrorCode::peer_dead, last, "barrier", who + cause, hint});
  std::vector<std::int64_t> sums = addends(survivors.rank(), 1000);
  survivors.allreduce(sums, sum);
  check_sum(sums, survivors.size());
}

// arguments[0]: which descriptors, as /proc/self/fd calls them. Rank 0 closes its own and waits for
// others, who wait for it.
void rank_0_closes_its_descriptors(Arguments arguments) {
  std::set<int> before;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    before.insert(std::stoi(entry.path().filename()));
  Communicator world = init();
  if (world.rank() != 0) {
    try {  // rank 0 may be gone before the first one has ended here
      world.barrier();
      world.barrier();
    } catch (const Error& error) {
      check_equal(error.peer(), 0);
      return;
    }
    check(false, "a rank without descriptors takes part in a barrier");
  }
  world.barrier();
  std::vector<int> own;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(entry.path(), gone);
    const int number = std::stoi(entry.path().filename());
    const bool meant = arguments[0] == "all" || what.find(arguments[0]) != std::string::npos;
    if (!gone && meant && !before.contains(number)) own.push_back(number);
  }
  check(!own.empty(), "there is a descriptor to close");
  for (const int number : own) ::close(number);
  say_time("closed");
  float value = 0;
  expect_error(
      [&] {
        world.receive(std::span{&value, 1}, 1);
      },
      {ErrorCode::no_resource, 0, "receive",
       "a descriptor of qpmesh was closed by the application in rank 0 (pid * on *)",
       "close only what the program itself has opened: no closefrom, no close of a number twice",
       EBADF});
  say_time("told");
}

// arguments[0]: how to wait. The last rank waits to be killed.
void the_last_rank_is_killed(Arguments arguments) {
  Communicator world = init();
  const bool victim = world.rank() == world.size() - 1;
  Communicator survivors = *world.split(victim ? 1 : 0);
  world.barrier();
  if (victim) {
    say("waiting");
    while (true) ::pause();
  }
  survive(world, survivors, arguments[0], died, died_hint);
}

// A probe that timed out broke nothing, and its program went on: who waits for the rank when it has
// left is told of that rank.
void a_deadline_that_was_outlived_blames_nobody(Arguments) {
  Communicator world = init();
  if (world.rank() == 2)
    expect_error([&] { world.probe(0, 9, {.timeout = 20ms}); },
                 {ErrorCode::timeout, 0, "probe", "*", "*"});
  world.barrier();
  if (world.rank() == 2) return;
  int never = 0;
  expect_error([&] { world.receive(never, world.rank() == 0 ? 1 : 2); },
               {ErrorCode::peer_dead, 2, "receive", "rank 2 * has left: *", "*"});
}

void the_last_rank_leaves(Arguments arguments) {
  Communicator world = init();
  const bool leaver = world.rank() == world.size() - 1;
  Communicator survivors = *world.split(leaver ? 1 : 0);
  world.barrier();
  if (leaver) return;
  // Nobody is still in the world's barrier when the first one is told: that would end it for the
  // others.
  survivors.barrier();
  survive(world, survivors, arguments[0], left, left_hint);
}

// Rank 0's second thread gives up for everybody. arguments[0]: the reason.
void a_second_thread_aborts(Arguments arguments) {
  Communicator world = init();
  Communicator child = world.duplicate();
  world.barrier();
  const Expected expected{ErrorCode::aborted, 0, "abort", arguments[0]};
  std::thread thread;
  if (world.rank() == 0) {
    thread = std::thread{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      say_time("aborts");
      world.abort(arguments[0]);
    }};
  }
  std::vector<int> data(1);
  // Rank 0 never comes to the barrier.
  expect_error(
      [&] { world.rank() == 0 ? static_cast<void>(world.receive(data, 1)) : world.barrier(); },
      expected);
  say_time("told");
  expect_error([&] { child.barrier(); }, expected);
  expect_error([&] { world.send(data, world.rank()); }, expected);
  if (thread.joinable()) thread.join();
}

// The last rank enters the barrier when arguments[0] exists; the watching test stops and continues
// it before.
void the_last_rank_is_late(Communicator& world, Arguments arguments) {
  say("waiting");
  if (world.rank() == world.size() - 1) await_file(arguments[0]);
  world.barrier();
}

// arguments[0]: receive or probe. What the others had sent before is there.
void all_others_leave(Arguments arguments) {
  Communicator world = init();
  world.barrier();
  std::vector<int> data(1);
  if (world.rank() != 0) return world.send(data, 0, 1);
  const bool probes = arguments[0] == "probe";
  for (int others = 1; others < world.size(); ++others) {
    if (probes) world.probe(any_source, 1);
    world.receive(data, any_source, 1);
  }
  const CallOptions within{.timeout = 10'000ms};
  const int peer = world.size() == 2 ? 1 : any_peer_at_all;
  expect_error(
      [&] {
        if (probes) world.probe(any_source, any_tag, within);
        else world.receive(data, any_source, any_tag, within);
      },
      {ErrorCode::peer_dead, peer, arguments[0], "rank * (pid * on *)" + left, left_hint});
}

// arguments[0]: whose request comes first, the world's or the other context's. The survivor sleeps.
void a_member_of_two_contexts_dies(Arguments arguments) {
  Communicator world = init();
  Communicator other = world.independent();
  world.barrier();
  if (world.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    std::_Exit(0);
  }
  std::array<int, 2> data{};
  const bool world_first = arguments[0] == "world";
  Communicator& first = world_first ? world : other;
  Communicator& second = world_first ? other : world;
  const CallOptions limit{.timeout = 10'000ms};
  std::array requests{first.receive_async(std::span{data}.subspan(0, 1), 1, 0, limit),
                      second.receive_async(std::span{data}.subspan(1, 1), 1, 0, limit)};
  const Expected told{ErrorCode::peer_dead, 1, "receive_async", "rank 1 (pid * on *)" + died,
                      died_hint};
  const std::size_t index = wait_any(requests);
  say_time("told");
  expect_error([&] { requests[index].wait(); }, told);
  expect_error([&] { wait_all(requests); }, told);
  say_time("over");
}

void wait_any_gives_up(Arguments /*arguments*/) {
  Communicator world = init();
  std::vector<int> data(1);
  if (world.rank() == 0) {
    std::array requests{world.receive_async(data, 1, 0, {.timeout = 100ms})};
    expect_error([&] { wait_any(requests); },
                 {ErrorCode::timeout, 1, "wait_any", "rank 1 (pid * on *) did not *", "*"});
    check(requests[0].cancel(), "a receive that nothing matched cannot be cancelled");
    return;
  }
  expect_error(
      [&] { world.receive(data, 0, 0, {.timeout = 10'000ms}); },
      {ErrorCode::peer_dead, 0, "receive",
       "rank 0 (pid * on *)" + left + ", after timeout: rank 1 (pid * on *) did not *", left_hint});
}

// Rank 1 receives when arguments[0] exists: the sender has given up then, and its memory says
// something else. arguments[1]: the file by which rank 1 lets it go. arguments[2]: buffer or
// private.
void a_sender_takes_its_buffer_back(Arguments arguments) {
  const Expected expected{ErrorCode::timeout, 1, "send",
                          "rank 1 (pid * on *) did not do its part within 100 ms; it is alive as "
                          "far as the kernel knows",
                          timeout_hint};
  Communicator world = init();
  Buffer<std::uint8_t> buffer = world.allocate<std::uint8_t>(1 << 20);
  Bytes memory(buffer.size());
  const std::span<std::uint8_t> data =
      arguments[2] == "private" ? std::span{memory} : std::span{buffer};
  if (world.rank() == 0) {
    const Bytes message = pattern(data.size(), 1);
    std::copy(message.begin(), message.end(), data.begin());
    expect_error([&] { world.send(data, 1, 0, {.timeout = 100ms}); }, expected);
    std::fill(data.begin(), data.end(), std::uint8_t{0xEE});
    make_file(arguments[0]);
    await_file(arguments[1]);  // the memory stays, overwritten, until the receiver has come to it
    return;
  }
  await_file(arguments[0]);
  Bytes in(data.size());
  // The sender's own words, which name whom it had waited for.
  expect_error([&] { world.receive(in, 0, 0, {.timeout = 10'000ms}); },
               {ErrorCode::timeout, 1, "receive",
                expected.cause + ", seen by rank 0 (pid * on *) in send", timeout_hint});
  make_file(arguments[1]);
}

// The last rank gives out of its private memory until it is killed, in the middle of something.
// What the others got before is right.
void a_giver_is_killed(Arguments) {
  Communicator world = init();
  const int giver = world.size() - 1;
  Communicator survivors = *world.split(world.rank() == giver ? 0 : 1);
  constexpr std::size_t count = 3 << 20;
  Bytes data(count);
  const auto round = [&](int i) {
    if (world.rank() == giver) data = pattern(count, i % 7);
    if (i % 2 == 0) return world.broadcast(data, giver);
    if (world.rank() == giver) {
      for (int to = 0; to < giver; ++to) world.send(data, to);
    } else {
      world.receive(data, giver);
    }
  };
  for (int i = 0;; ++i) {
    try {
      round(i);
    } catch (const Error& error) {
      check_equal(to_string(error.code()), to_string(ErrorCode::peer_dead));
      check_equal(error.peer(), giver);
      break;
    }
    check_pattern(data, i % 7);
    if (i == 3) say("waiting");
  }
  std::vector<std::int64_t> sums = addends(survivors.rank(), 1000);
  survivors.allreduce(sums, sum);
  check_sum(sums, survivors.size());
}

// Long messages and broadcasts to and fro, which both ranks copy, until arguments[0] exists: rank 0
// says so to the other.
void long_messages_until(Communicator& world, Arguments arguments) {
  constexpr std::size_t count = 1 << 20;
  const int other = 1 - world.rank();
  Bytes data(count);
  bool enough = false;
  for (int i = 0; !enough; ++i) {
    if (world.rank() == 0) {
      world.send(pattern(count, i % 7), other);
      world.receive(data, other);
    } else {
      world.receive(data, other);
      check_pattern(data, i % 7);
      world.send(data, other);
    }
    check_pattern(data, i % 7);
    const int root = i % 2;
    data = world.rank() == root ? pattern(count, i % 5) : Bytes(count);
    world.broadcast(data, root);
    check_pattern(data, i % 5);
    if (i == 3) say("waiting");
    std::uint8_t word = std::filesystem::exists(arguments[0]) ? 1 : 0;
    world.broadcast(std::span{&word, 1}, 0);
    enough = word != 0;
  }
}

// Rank 0 fills rank 1's ring when arguments[0] says that rank 1 is out of the library, and sleeps
// for a credit. Rank 1 gives it when arguments[1] exists, and nothing else that could wake rank 0
// before arguments[2] does.
void a_sender_sleeps_for_a_credit(Communicator& world, Arguments arguments) {
  constexpr int sends_max = 10'000;
  const std::vector<int> value{1};
  std::vector<int> in(1);
  std::vector<int> count(1);
  world.barrier();
  if (world.rank() == 0) {
    await_file(arguments[0]);
    Request last;
    while (count[0] < sends_max) {
      ++count[0];
      last = world.send_async(value, 1, 1);
      if (!last.test()) break;
    }
    check(count[0] < sends_max, "the ring ends");
    say("waiting");
    last.wait();
    say_time("sent");
    make_file(arguments[2]);
    world.send(count, 1, 2);
    return;
  }
  make_file(arguments[0]);
  await_file(arguments[1]);
  say_time("progresses");
  for (int step = 0; step < 8; ++step)
    world.progress();  // all that came: where it is told of, 16 messages a step
  await_file(arguments[2]);
  world.receive(count, 0, 2);
  for (int i = 0; i < count[0]; ++i) world.receive(in, 0, 1);
}

// The watching test stops rank 0 inside split; rank 1 splits when arguments[0] exists, and dies.
// Rank 0 learns of both when it goes on.
void a_member_dies_right_after_split(Arguments arguments) {
  Communicator world = init();
  world.barrier();
  if (world.rank() == 1) {
    await_file(arguments[0]);
    const auto child = world.split(0);
    std::_Exit(0);
  }
  say("waiting");
  auto child = world.split(0);
  say_time("split");
  expect_error([&] { child->barrier({.timeout = 10'000ms}); },
               {ErrorCode::peer_dead, 1, "barrier", "rank 1 (pid * on *)" + died, died_hint});
  say_time("told");
  expect_error([&] { world.barrier(); },
               {ErrorCode::peer_dead, 1, "barrier", "rank 1 (pid * on *)" + died, died_hint});
}

}  // namespace

std::vector<Scenario> ending_scenarios() {
  return {
      {"the_last_rank_is_killed", the_last_rank_is_killed},
      {"rank_0_closes_its_descriptors", rank_0_closes_its_descriptors},
      {"the_last_rank_leaves", the_last_rank_leaves},
      {"a_deadline_that_was_outlived_blames_nobody", a_deadline_that_was_outlived_blames_nobody},
      {"a_second_thread_aborts", a_second_thread_aborts},
      {"all_others_leave", all_others_leave},
      {"wait_any_gives_up", wait_any_gives_up},
      {"a_member_of_two_contexts_dies", a_member_of_two_contexts_dies},
      {"a_sender_takes_its_buffer_back", a_sender_takes_its_buffer_back},
      {"a_giver_is_killed", a_giver_is_killed},
      in_world("long_messages_until", long_messages_until),
      in_world("a_sender_sleeps_for_a_credit", a_sender_sleeps_for_a_credit),
      {"a_member_dies_right_after_split", a_member_dies_right_after_split},
      in_world("the_last_rank_is_late", the_last_rank_is_late)};
}

}  // namespace qpmesh::ranks

// SPDX-License-Identifier: MIT
// Ranks whose programs end on their first error, as most do: what each of them says it was told.
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// One of the operations in which ranks wait for each other. Every rank draws the same.
void operate(Communicator& world, std::mt19937_64& draws) {
  const auto size = static_cast<std::size_t>(world.size());
  const std::size_t count = (std::size_t{1} << draws() % 16) + draws() % 7;
  const int root = static_cast<int>(draws() % size);
  std::vector<std::int64_t> in(count * size, 1);
  std::vector<std::int64_t> out(count * size);
  const auto mine = std::span{in}.first(count);
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  switch (draws() % 12) {
    case 0: return world.barrier();
    case 1: return world.allreduce(in, out, sum);
    case 2: return world.broadcast(in, root);
    case 3: return world.reduce(in, out, max, root);
    case 4: return world.allgather(mine, out);
    case 5: return world.gather(mine, out, root);
    case 6: return world.alltoall(in, out);
    case 7: return world.scan(in, out, sum);
    case 8: {
      Request sent = world.send_async(in, next);
      world.receive(out, previous);
      sent.wait();
      return;
    }
    case 9: {
      Request received = world.receive_async(out, previous);
      world.send(in, next);
      received.wait();
      return;
    }
    case 10: {
      std::vector<Request> requests;
      requests.push_back(world.allreduce_async(in, out, sum));
      requests.push_back(world.barrier_async());
      return wait_all(requests);
    }
    default: {  // all from one: most ranks wait for the root and for nobody else
      if (world.rank() != root) return static_cast<void>(world.receive(out, root));
      for (int to = 0; to < world.size(); ++to) {
        if (to != root) world.send(in, to);
      }
    }
  }
}

// arguments[0]: a seed. arguments[1]: when rank 0 aborts, in µs after the first operations; -1:
// never.
void operations_until_an_error(Arguments arguments) {
  std::thread aborter;
  try {
    Communicator world = init();
    std::mt19937_64 draws{std::stoull(arguments[0])};
    const int abort_after_us = std::stoi(arguments[1]);
    for (int i = 0; i < 4; ++i) operate(world, draws);
    say("operating");
    if (abort_after_us >= 0 && world.rank() == 0) {
      aborter = std::thread{[&world, abort_after_us] {
        std::this_thread::sleep_for(std::chrono::microseconds{abort_after_us});
        world.abort("enough");
      }};
    }
    struct Join {  // abort() needs the communicator
      std::thread& thread;
      ~Join() {
        if (thread.joinable()) thread.join();
      }
    } join{aborter};
    while (true) operate(world, draws);
  } catch (const Error& error) {
    say("told " + std::string{to_string(error.code())} + " " + std::to_string(error.peer()) + ": " +
        error.what());
  }
}

// The last rank unwinds through its communicator; the others wait for it.
void the_last_rank_unwinds(Arguments) {
  const std::string cause =
      "rank * (pid * on *) has left: an exception unwound through its communicators*";
  try {
    Communicator world = init();
    const int last = world.size() - 1;
    // Who is still in the first barrier when another one tells of the death fails there.
    const auto barriers = [&] {
      world.barrier();
      if (world.rank() == last) throw std::runtime_error{"the model is empty"};
      world.barrier();
    };
    if (world.rank() == last) barriers();
    expect_error(barriers,
                 {ErrorCode::peer_dead, last, "barrier", cause,
                  "look at what that rank said before it ended, and how its launcher saw it end"});
  } catch (const std::runtime_error& error) {
    if (std::string_view{error.what()} != "the model is empty") throw;
  }
}

// finish() is the goodbye: the last rank ends at once after it, with handles that nothing destroys.
void the_last_rank_ends_after_finish(Arguments) {
  Communicator world = init();
  Communicator child = world.duplicate();
  world.finish();
  if (world.rank() == world.size() - 1) ::_exit(0);
  std::vector<int> data(1);
  expect_error(
      [&] { child.receive(data, child.size() - 1, 0, {.timeout = 10'000ms}); },
      {ErrorCode::peer_dead, child.size() - 1, "receive",
       "rank * (pid * on *) has left: it has called finish() and ended*",
       "call finish() on every rank before the first one leaves; where all have called it, look at "
       "what that rank said before it ended"});
}

// A duplicate's finish() is no goodbye of the world's: the last rank dies behind it, and who waits
// for anybody is told.
void the_last_rank_dies_after_a_duplicate_finished(Arguments) {
  Communicator world = init();
  Communicator child = world.duplicate();
  child.finish();
  world.barrier();
  const int last = world.size() - 1;
  if (world.rank() == last) ::_exit(0);
  std::vector<int> data(1);
  try {
    world.receive(data, any_source, 0, {.timeout = 10'000ms});
    throw std::runtime_error{"a message came from nobody"};
  } catch (const Error& error) {
    check(error.code() == ErrorCode::peer_dead && error.peer() == last, error.what());
  }
}

// Rank 0 only calls progress(), and seldom. A look at the system every 1024 calls would be late.
void a_death_is_found_by_few_calls_of_progress(Arguments) {
  Communicator world = init();
  if (world.rank() == 1) {
    world.receive<int>(0);
    ::_exit(0);
  }
  std::vector<int> data(1);
  Request request = world.receive_async(data, 1);
  world.send(1, 1);
  bool has_ended = false;
  request.on_end([&] { has_ended = true; });
  int calls = 0;
  for (; !has_ended && calls < 1'000; ++calls) {
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    world.progress();
  }
  check(has_ended, "not found by " + std::to_string(calls) + " calls");
  expect_error([&] { request.wait(); }, {ErrorCode::peer_dead, 1, "receive_async", "*", "*"});
}

// Each rank but the last receives from the next one, in the world or in turn in a copy of it, and
// the last one is not in the library until arguments[0] exists.
void each_waits_for_the_next(Communicator& world, Arguments arguments) {
  const int last = world.size() - 1;
  Communicator copy = world.duplicate();
  Communicator& where = arguments[1] == "in_turn" && world.rank() % 2 == 1 ? copy : world;
  world.barrier();
  if (world.rank() == last) return await_file(arguments[0]);
  std::vector<int> data(1);
  std::string cause =
      "rank " + std::to_string(last) +
      " (pid * on *) did not do its part within 1000 ms; it is alive as far as the kernel knows";
  if (world.rank() < last - 1)
    cause += ", and rank " + std::to_string(world.rank() + 1) +
             " (pid * on *), which is awaited here, waits for it*";
  expect_error([&] { where.receive(data, world.rank() + 1, 0, {.timeout = 1'000ms}); },
               {ErrorCode::timeout, last, "receive", cause, timeout_hint});
  say("told");
}

// After a failure no call makes it look like a new one.
void a_failure_stays_the_same(Arguments arguments) {
  Communicator world = init();
  world.barrier();
  const std::string late =
      "rank 1 (pid * on *) did not do its part within 200 ms; it is alive as far as the kernel "
      "knows";
  if (world.rank() == 1) {
    await_file(arguments[0]);
    expect_error([&] { world.finish(); },
                 {ErrorCode::timeout, 1, "finish", late + ", seen by rank 0 (pid * on *) in send",
                  timeout_hint});
    return;
  }
  const Bytes large(4 << 20);
  expect_error([&] { world.send(large, 1, 0, {.timeout = 200ms}); },
               {ErrorCode::timeout, 1, "send", late, timeout_hint});
  expect_error([&] { world.finish(); }, {ErrorCode::timeout, 1, "finish",
                                         "the communicator failed in send: " + late, timeout_hint});
  make_file(arguments[0]);
  await_file(arguments[0]);
}

}  // namespace

std::vector<Scenario> death_scenarios() {
  return {{"operations_until_an_error", operations_until_an_error},
          {"the_last_rank_unwinds", the_last_rank_unwinds},
          {"the_last_rank_ends_after_finish", the_last_rank_ends_after_finish},
          {"a_death_is_found_by_few_calls_of_progress", a_death_is_found_by_few_calls_of_progress},
          {"the_last_rank_dies_after_a_duplicate_finished",
           the_last_rank_dies_after_a_duplicate_finished},
          in_world("each_waits_for_the_next", each_waits_for_the_next),
          {"a_failure_stays_the_same", a_failure_stays_the_same}};
}

}  // namespace qpmesh::ranks

// How ranks end, or stop, while others wait for them. The watching test kills;
// the ranks tell what they saw, and when.
#include <unistd.h>

#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

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
void survive(Communicator& world, Communicator& survivors, const std::string& how, std::string_view cause,
             std::string_view hint) {
  const int last = world.size() - 1;
  say("waiting");
  const std::string who = "rank " + std::to_string(last) + " (pid ";
  expect_error([&] { wait_for_last(world, how); },
               {ErrorCode::peer_dead, last, how.substr(0, how.find('_')), {who, cause}, hint});
  say_time("told");
  expect_error([&] { world.barrier(); }, {ErrorCode::peer_dead, last, "barrier", {who, cause}, hint});
  std::vector<std::int64_t> sums = addends(survivors.rank(), 1000);
  survivors.allreduce(sums, sum);
  check_sum(sums, survivors.size());
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
  survive(world, survivors, arguments[0], "", "");
}

void the_last_rank_leaves(Arguments arguments) {
  Communicator world = init();
  const bool leaver = world.rank() == world.size() - 1;
  Communicator survivors = *world.split(leaver ? 1 : 0);
  world.barrier();
  if (leaver) return;
  // Nobody is still in the world's barrier when the first one is told: that would end it for the others.
  survivors.barrier();
  survive(world, survivors, arguments[0], "has left", "finish()");
}

// Rank 0's second thread gives up for everybody. arguments[0]: the reason.
void a_second_thread_aborts(Arguments arguments) {
  Communicator world = init();
  Communicator child = world.duplicate();
  world.barrier();
  const Expected expected{ErrorCode::aborted, 0, "abort", {arguments[0]}};
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
  expect_error([&] { world.rank() == 0 ? static_cast<void>(world.receive(data, 1)) : world.barrier(); },
               expected);
  say_time("told");
  expect_error([&] { child.barrier(); }, expected);
  expect_error([&] { world.send(data, world.rank()); }, expected);
  if (thread.joinable()) thread.join();
}

// The last rank enters the barrier when arguments[0] exists; the watching test stops and continues it before.
void the_last_rank_is_late(Communicator& world, Arguments arguments) {
  say("waiting");
  if (world.rank() == world.size() - 1) await_file(arguments[0]);
  world.barrier();
}

}  // namespace

std::vector<Scenario> ending_scenarios() {
  return {{"the_last_rank_is_killed", the_last_rank_is_killed},
          {"the_last_rank_leaves", the_last_rank_leaves},
          {"a_second_thread_aborts", a_second_thread_aborts},
          in_world("the_last_rank_is_late", the_last_rank_is_late)};
}

}  // namespace qpmesh::ranks

// Random operations in flight together, from a seed: every rank draws the same plan, and knows what must arrive.
#include <deque>
#include <random>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr std::size_t in_flight_max = 16;

struct Draws {
  std::mt19937_64 engine;

  std::size_t below(std::size_t limit) { return engine() % limit; }
  // As many small ones as large ones in each power of two, up to 64 KiB; one of 256 up to 1 MiB.
  std::size_t bytes() { return below((std::size_t{1} << below(below(256) == 0 ? 21 : 17)) + 1); }
};

// One operation that this rank has begun. Its buffers live here, and what they must hold at the end is known from the step.
struct Begun {
  int step = 0;
  bool receives = false;
  Bytes message{};
  std::vector<std::int64_t> sums{};
  Request request{};  // goes first
};

void end(Communicator& world, Begun& begun) {
  const Status status = begun.request.wait();
  check_sum(begun.sums, world.size());
  if (!begun.receives) return;
  check_equal(status.bytes, begun.message.size());
  check_pattern(begun.message, begun.step);
}

void random_operations(Communicator& world, Arguments arguments) {
  const int count = std::stoi(arguments[0]);
  const auto seed = std::stoull(arguments[1]);
  Draws draws{std::mt19937_64{seed}};
  const auto ranks = static_cast<std::size_t>(world.size());
  std::deque<Begun> in_flight;
  const auto end_oldest = [&] {
    end(world, in_flight.front());
    in_flight.pop_front();
  };
  for (int step = 0; step < count; ++step) {
    const std::size_t kind = draws.below(100);
    const std::size_t bytes = draws.bytes();
    const auto from = static_cast<int>(draws.below(ranks));
    const auto to = static_cast<int>(draws.below(ranks));
    const std::size_t window = draws.below(in_flight_max);  // how many may stay in flight behind this step
    const auto begin = [&]() -> Begun& { return in_flight.emplace_back(Begun{.step = step}); };
    const int tag = step % 1000;
    if (kind < 5) {
      begin().request = world.barrier_async();
    } else if (kind < 20) {
      Begun& begun = begin();
      begun.sums = addends(world.rank(), bytes / sizeof(std::int64_t));
      begun.request = world.allreduce_async(begun.sums, sum);
    } else {
      if (world.rank() == from) {
        Begun& begun = begin();
        begun.message = pattern(bytes, step);
        begun.request = world.send_async(begun.message, to, tag);
      }
      if (world.rank() == to) {
        Begun& begun = begin();
        begun.message.resize(bytes);
        begun.receives = true;
        begun.request = world.receive_async(begun.message, from, tag);
      }
    }
    while (in_flight.size() > window) end_oldest();
  }
  while (!in_flight.empty()) end_oldest();
  if (world.rank() == 0) say("note: " + arguments[0] + " operations, seed " + arguments[1]);
}

}  // namespace

std::vector<Scenario> random_scenarios() { return {in_world("random_operations", random_operations)}; }

}  // namespace qpmesh::ranks

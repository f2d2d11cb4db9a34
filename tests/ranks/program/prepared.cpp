// SPDX-License-Identifier: MIT
// Calls that are prepared, and started again and again.
#include <numeric>
#include <optional>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

void prepared_calls_are_made_again_and_again(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  const auto ranks = static_cast<std::size_t>(size);
  const int last = size - 1;
  for (const std::size_t count : {std::size_t{3}, std::size_t{30'000}}) {
    std::vector<std::int64_t> one(count);
    std::vector<std::int64_t> out(count);
    std::vector<std::int64_t> all(count * ranks);
    std::vector<std::int64_t> turned(count * ranks);
    std::vector<std::int64_t> shared(count);
    std::vector<std::int64_t> prefix(count);
    // Lists and functions are the caller's until here alone.
    auto counts = std::make_optional<std::vector<std::size_t>>(ranks, count);
    auto adds = std::make_optional(ordered(
        [weight = std::int64_t{1}](std::int64_t a, std::int64_t b) { return a + weight * b; }));
    std::string name = "*";
    const auto candidates = world.explain(Collective::allreduce, count * sizeof(std::int64_t));
    for (const Candidate& row : candidates)
      if (row.applies) name = row.algorithm;
    std::vector<Prepared> steps;
    steps.push_back(world.prepare_allreduce(one, out, sum, {.algorithm = name}));
    steps.push_back(world.prepare_allgather(one, blocks(all, *counts)));
    steps.push_back(world.prepare_alltoall(all, turned));
    steps.push_back(world.prepare_broadcast(shared, last));
    steps.push_back(world.prepare_scan(one, prefix, *adds));
    steps.push_back(world.prepare_barrier());
    counts.reset();
    adds.reset();
    name.assign(name.size(), '!');
    std::vector<std::int64_t> from_previous(count);
    steps.push_back(
        world.prepare_sendrecv(one, (me + 1) % size, from_previous, (me + last) % size, 5));
    for (std::int64_t turn = 0; turn < 50; ++turn) {
      std::ranges::fill(one, me + turn);
      std::ranges::fill(all, turn);
      if (me == last) std::ranges::fill(shared, -turn);
      // One after the other, or all at once where they do not write what others read.
      if (turn % 2 == 0) {
        for (Prepared& step : steps) {
          step.start();
          step.wait();
          check(step.test(), "an ended step is done");
        }
      } else {
        steps[1].start();
        steps[1].wait();
        std::ranges::fill(all, turn);
        std::vector<Prepared> others;
        for (std::size_t i = 0; i < steps.size(); ++i)
          if (i != 1) others.push_back(std::move(steps[i]));
        start_all(others);
        wait_all(others);
        for (std::size_t i = 0, from = 0; i < steps.size(); ++i)
          if (i != 1) steps[i] = std::move(others[from++]);
      }
      const std::int64_t sum_of_ranks = size * (size - 1) / 2;
      check_equal(out[count - 1], sum_of_ranks + size * turn);
      check_equal(shared[count - 1], -turn);
      check_equal(from_previous[count - 1], (me + last) % size + turn);
      check_equal(prefix[count - 1], me * (me + 1) / 2 + (me + 1) * turn);
      if (turn % 2 == 0) check_equal(turned[0], me + turn);  // what the allgather left
    }
  }
}

void what_is_prepared_wrongly_is_told_when_it_starts(Communicator& world, Arguments) {
  std::vector<int> data(4);
  std::vector<int> three(3);
  Prepared step = world.prepare_allreduce(data, three, sum);
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { step.start(); },
                 {ErrorCode::bad_argument, no_peer, "allreduce_async",
                  "in has 4 elements, out has 3", "give in and out equal counts"});
    check(step.test(), "what did not start is done");
  }
  Prepared receive = world.prepare_receive(data, world.rank(), 9);
  receive.start();
  expect_error([&] { receive.start(); },
               {ErrorCode::bad_argument, no_peer, "start",
                "it has been started, and neither wait() nor test() has told its end",
                "wait() for it first"});
  check(receive.cancel(), "a receive that nobody answers is taken back");
  check(!receive.cancel(), "once");
  receive.start();
  world.send(std::vector<int>{1, 2, 3, 4}, world.rank(), 9);
  check_status(receive.wait(), world.rank(), 9, 16);
  check_equal(data[3], 4);
  // The handle goes first, the world later.
  std::optional<Communicator> child = world.duplicate();
  Prepared sums = child->prepare_allreduce(data, sum);
  child.reset();
  sums.start();
  sums.wait();
  check_equal(data[3], 4 * world.size());
  world.barrier();
}

}  // namespace

std::vector<Scenario> prepared_scenarios() {
  return {
      in_world("prepared_calls_are_made_again_and_again", prepared_calls_are_made_again_and_again),
      in_world("what_is_prepared_wrongly_is_told_when_it_starts",
               what_is_prepared_wrongly_is_told_when_it_starts)};
}

}  // namespace qpmesh::ranks

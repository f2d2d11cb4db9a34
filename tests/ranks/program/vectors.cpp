// SPDX-License-Identifier: MIT
// Several vectors that are reduced by one call.
#include <algorithm>
#include <array>
#include <optional>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr ErrorCode bad = ErrorCode::bad_argument;
// Short and long, empty ones, and both sides of 16 and of 32 KiB.
constexpr std::array<std::size_t, 9> lengths{3, 0, 20'000, 1, 2'047, 2'048, 4'095, 4'096, 500};
using Lists = std::vector<std::vector<std::int64_t>>;

// Their memory stays where it is.
void fill(Lists& vectors, int rank) {
  for (auto& vector : vectors) std::ranges::copy(addends(rank, vector.size()), vector.begin());
}
Lists lists_of(int rank) {
  Lists vectors;
  for (const std::size_t count : lengths) vectors.push_back(addends(rank, count));
  return vectors;
}
void check_sums(const Lists& vectors, int size, Place place = Place::current()) {
  for (const auto& vector : vectors) check_sum(vector, size, place);
}

void several_vectors_are_reduced_in_one_call(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  Lists vectors = lists_of(me);
  world.allreduce_each(vectors, sum);
  check_sums(vectors, size);
  fill(vectors, me);
  Request request = world.allreduce_each_async(vectors, sum);
  request.wait();
  check(request.test(), "an ended one is done");
  check_sums(vectors, size);
  Prepared step = world.prepare_allreduce_each(vectors, sum);
  for (int turn = 0; turn < 20; ++turn) {
    fill(vectors, me);
    step.start();
    if (turn % 2 == 0) step.wait();
    else
      while (!step.test()) {}
    check_sums(vectors, size);
  }

  std::array<double, 2> two{1, 2};
  std::vector<double> three{3, 4, 5};
  const std::vector<std::span<double>> views{two, three};
  world.allreduce_each(views, [](double a, double b) { return std::max(a, b); });
  world.allreduce_each_async(std::vector{views}, average).wait();
  world.allreduce_each(std::vector<std::span<double>>{}, sum);
  world.allreduce_each_async(std::vector<std::span<double>>{}, sum).wait();
  check(two == std::array<double, 2>{1, 2} && three == std::vector<double>{3, 4, 5}, "maxima");
  // The average of each is divided by itself.
  std::vector<std::vector<double>> long_ones{std::vector<double>(9'000, size),
                                             std::vector<double>(1, 2.0 * size),
                                             std::vector<double>(10'000, 3.0 * size)};
  world.allreduce_each(long_ones, average);
  for (std::size_t i = 0; i < long_ones.size(); ++i)
    for (const double each : long_ones[i]) check_equal(each, static_cast<double>(i + 1) * size);
  // By a name, and in order.
  for (const std::string_view name : {"ring", "recursive_multiplying"}) {
    fill(vectors, me);
    world.allreduce_each_async(vectors, sum, {.algorithm = name}).wait();
    check_sums(vectors, size);
  }
  Lists one{addends(me, 20'000)};
  for (const Candidate& row : world.explain(Collective::allreduce, 160'000)) {
    if (!row.applies) continue;
    fill(one, me);
    world.allreduce_each_async(one, sum, {.algorithm = row.algorithm}).wait();
    check_sums(one, size);
  }
  fill(vectors, me);
  world.allreduce_each_async(vectors, ordered([](std::int64_t a, std::int64_t b) { return a + b; }))
      .wait();
  check_sums(vectors, size);
}

// What is begun in one order on all ranks ends in whatever order it is waited for.
void several_vectors_are_in_flight_beside_others(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  const int next = (me + 1) % size;
  const int previous = (me + size - 1) % size;
  Communicator other = world.duplicate();
  for (int turn = 0; turn < 10; ++turn) {
    std::array<Lists, 3> lists;
    lists.fill(lists_of(me));
    std::vector<std::int64_t> one = addends(me, 30'000);
    std::vector<int> from_previous(50'000);
    const std::vector<int> mine(50'000, me);
    std::vector<Request> requests;
    requests.push_back(world.receive_async(from_previous, previous, 4));
    requests.push_back(world.allreduce_each_async(lists[0], sum));
    requests.push_back(world.allreduce_async(one, sum));
    {
      // The list goes at once, and so may the function.
      const std::vector<std::span<std::int64_t>> views{lists[1].begin(), lists[1].end()};
      const auto weight = std::make_optional(std::int64_t{1});
      requests.push_back(world.allreduce_each_async(
          views, ordered([weight](std::int64_t a, std::int64_t b) { return a + *weight * b; })));
    }
    requests.push_back(other.allreduce_each_async(lists[2], sum));
    requests.push_back(world.barrier_async());
    requests.push_back(world.send_async(mine, next, 4));
    if (turn % 3 == 0) {
      while (!requests.empty()) {
        requests.back().wait();
        requests.pop_back();
      }
    } else if (turn % 3 == 1) {
      for (std::size_t i = wait_any(requests); i < requests.size(); i = wait_any(requests))
        requests[i].wait();
    } else {
      while (!test_all(requests)) {}
      wait_all(requests);
    }
    for (const Lists& list : lists) check_sums(list, size);
    check_sum(one, size);
    check_equal(from_previous.back(), previous);
  }

  // The Buffers go before the operation does, and nobody waits for another one.
  Lists detached = lists_of(me);
  int told = 0;
  {
    Buffer<std::int64_t> here = other.allocate<std::int64_t>(40'000);
    Buffer<std::int64_t> few = other.allocate<std::int64_t>(4);
    Request request = other.allreduce_each_async(std::array{std::span{here}, std::span{few}}, sum);
    request.on_end([&told] { ++told; });
    request.detach();
    other.allreduce_each_async(detached, sum).detach();
  }
  Lists kept = lists_of(me);
  Request request = world.allreduce_each_async(kept, sum);
  check(!request.cancel(), "a collective is not taken back");
  request.wait();
  check_sums(kept, size);
  other.finish();
  check_equal(told, 1);
  check_sums(detached, size);
}

// Nothing of it has begun: what others call meanwhile goes on.
void lists_that_make_no_sense_are_refused(Communicator& world, Arguments) {
  std::array<double, 2> two{1, 2};
  std::vector<double> three{3, 4, 5};
  std::vector<double> many(10'000, 1);
  const std::vector<std::span<double>> views{two, three};
  const auto refused = [&](const auto& list, const auto& reduction, const std::string& cause,
                           const std::string& hint, const CallOptions& options = {}) {
    expect_error([&] { world.allreduce_each(list, reduction, options); },
                 {bad, no_peer, "allreduce_each", cause, hint});
    const Expected told{bad, no_peer, "allreduce_each_async", cause, hint};
    expect_error([&] { world.allreduce_each_async(list, reduction, options).wait(); }, told);
    Prepared step = world.prepare_allreduce_each(list, reduction, options);
    for (int i = 0; i < 2; ++i) expect_error([&] { step.start(); }, told);
    check(step.test(), "what did not start is done");
  };
  refused(views, bit_and, "a bitwise reduction of a floating type has no meaning",
          "bit_and, bit_or and bit_xor take integers");
  refused(std::vector{views[1], std::span{three}.last(1), views[0]}, sum, "vectors 0 and 1 overlap",
          "give vectors that have no element in common");
  refused(std::vector{views[0], std::span{many}, std::span{many}.last(1)}, sum,
          "vectors 1 and 2 overlap", "give vectors that have no element in common");
  refused(std::vector<AnyElements>{{two.data(), 2, ElementType::float64},
                                   {three.data(), 2, ElementType::float32}},
          sum, "the elements of vector 1 have another type than those of vector 0",
          "give those of each type to a call of its own");
  refused(std::vector{AnyElements{nullptr, 2, ElementType::float64}}, sum, "null with a count of 2",
          "a range without memory has a count of 0");
  refused(std::vector{AnyElements{two.data(), std::size_t{0} - 1, ElementType::float64}}, sum,
          "18446744073709551615 elements of 8 bytes are more than memory can hold",
          "a negative count, turned unsigned, looks like this");
  refused(views, sum, "*nothing_of_this_name*", "*", {.algorithm = "nothing_of_this_name"});
  // One for the long vectors, which no other row can be right for: the short ones are looked at
  // before they begin.
  for (const Candidate& row : world.explain(Collective::allreduce, many.size() * sizeof(double))) {
    const auto for_short = world.explain(Collective::allreduce, 5 * sizeof(double));
    const auto same = std::ranges::find(for_short, row.algorithm, &Candidate::algorithm);
    if (row.applies && same->applies) continue;
    refused(std::vector{std::span{many}, views[0], views[1]}, sum, "*", "*",
            {.algorithm = row.algorithm});
  }
  check(two == std::array<double, 2>{1, 2} && three == std::vector<double>{3, 4, 5}, "untouched");
  check(many == std::vector<double>(10'000, 1), "untouched");
  // Of one rank alone, while others are inside.
  if (world.rank() == 0)
    expect_error([&] { world.allreduce_each(views, bit_or); },
                 {bad, no_peer, "allreduce_each", "*", "*"});
  Lists vectors = lists_of(world.rank());
  world.allreduce_each(vectors, sum);
  check_sums(vectors, world.size());

  Prepared step = world.prepare_allreduce_each(vectors, sum);
  step.start();
  expect_error(
      [&] { step.start(); },
      {bad, no_peer, "start", "it has been started, and neither wait() nor test() has told its end",
       "wait() for it first"});
  step.wait();
  world.barrier();
}

// A rank that does not come: it is named, and the vectors are the caller's again.
void a_list_that_one_rank_does_not_give_ends_at_its_deadline(Communicator& world, Arguments) {
  Communicator late = world.duplicate();
  const int missing = world.size() - 1;
  if (world.rank() == missing) {
    world.barrier();
    return;
  }
  Lists vectors = lists_of(world.rank());
  expect_error([&] { late.allreduce_each_async(vectors, sum, {.timeout = 300ms}).wait(); },
               {ErrorCode::timeout, any_peer_at_all, "allreduce_each_async", "*", "*"});
  vectors.clear();
  expect_error([&] { late.barrier(); }, {ErrorCode::timeout, any_peer_at_all, "barrier", "*", "*"});
  world.barrier();
}

}  // namespace

std::vector<Scenario> vector_scenarios() {
  return {
      in_world("several_vectors_are_reduced_in_one_call", several_vectors_are_reduced_in_one_call),
      in_world("several_vectors_are_in_flight_beside_others",
               several_vectors_are_in_flight_beside_others),
      in_world("lists_that_make_no_sense_are_refused", lists_that_make_no_sense_are_refused),
      in_world("a_list_that_one_rank_does_not_give_ends_at_its_deadline",
               a_list_that_one_rank_does_not_give_ends_at_its_deadline)};
}

}  // namespace qpmesh::ranks

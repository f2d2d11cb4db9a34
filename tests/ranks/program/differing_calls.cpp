// SPDX-License-Identifier: MIT
// Collectives that ranks call differently: what every rank is told.
#include <algorithm>
#include <optional>
#include <string>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

using Clock = std::chrono::steady_clock;

// Even ranks call one thing, odd ones another. Every rank is told both, within
// a second, and told the same again. A call that ends when its own part is done is told later,
// in whatever waits then.
enum class Told : std::uint8_t { at_once, later_perhaps };
template <class A, class B>
void differ(Communicator& group, A&& even, B&& odd, const std::string& even_call,
            const std::string& odd_call, const std::string& even_name, const std::string& odd_name,
            Told told = Told::at_once) {
  Communicator disputed = group.duplicate();
  group.barrier();
  const auto begin = Clock::now();
  const bool is_even = group.rank() % 2 == 0;
  // The teller's call comes first: our own, or that of one who tells us of a third. The last one is
  // the peer's.
  const std::string teller = group.size() == 2 ? std::to_string(group.rank()) : "*";
  const auto expect_told = [&](auto&& call, const std::string& operation) {
    try {
      call();
    } catch (const Error& error) {
      check(error.peer() >= 0 && error.peer() < group.size() && error.peer() != group.rank(),
            error.what());
      const std::string begin_even =
          "operation 0 of the communicator is " + even_call + " on rank " + teller;
      const std::string begin_odd =
          "operation 0 of the communicator is " + odd_call + " on rank " + teller;
      const std::string peer =
          " on rank " + std::to_string(error.peer()) + "*";  // and perhaps who saw it
      const bool teller_is_even = test::matches(error.cause(), begin_even + " and *");
      return check_error(
          error,
          {ErrorCode::mismatch, error.peer(), operation,
           teller_is_even ? begin_even + " and " + odd_call + peer
                          : begin_odd + " and " + even_call + peer,
           "every rank must call the same collectives with the same arguments in the same order"});
    }
    fail("no error", Place::current());
  };
  std::string name = is_even ? even_name : odd_name;
  const auto dispute = [&] {
    is_even ? even(disputed) : odd(disputed);
    if (told == Told::at_once) return;
    name = "receive";
    std::vector<int> nothing;
    disputed.receive(nothing, any_source, any_tag, {.timeout = 5'000ms});
  };
  expect_told(dispute, name);
  check(Clock::now() - begin < std::chrono::milliseconds{1000}, "told within a second");
  expect_told([&] { disputed.barrier(); }, "barrier");
  std::vector<std::int64_t> sums = addends(group.rank(), 5);
  group.allreduce(sums, sum);  // another communicator has nothing to do with it
  check_sum(sums, group.size());
}

// Each takes itself for the root, and only receives.
void roots_that_differ_where_both_ranks_wait(Communicator& world, Arguments) {
  std::vector<int> mine(4);
  std::vector<int> out(8);
  const auto reduce = [&](int root) {
    return [&, root](Communicator& group) {
      group.reduce(mine, std::span{out}.first(4), sum, root, {.algorithm = "knomial"});
    };
  };
  differ(world, reduce(0), reduce(1), "reduce(4 int32, sum, root 0, by knomial)",
         "reduce(4 int32, sum, root 1, by knomial)", "reduce", "reduce");
  const auto gather = [&](int root) {
    return
        [&, root](Communicator& group) { group.gather(mine, out, root, {.algorithm = "linear"}); };
  };
  differ(world, gather(0), gather(1), "gather(4 int32, root 0, by linear)",
         "gather(4 int32, root 1, by linear)", "gather", "gather");
}

void calls_that_differ_are_named_on_every_rank(Communicator& world, Arguments) {
  std::vector<float> floats(100'000);
  std::vector<double> doubles(100'000);
  const auto reduce = [](auto& data, std::size_t count, Reduction reduction) {
    return [&data, count, reduction](Communicator& group) {
      group.allreduce(std::span{data}.first(count), reduction);
    };
  };
  const auto barrier = [](Communicator& group) { group.barrier(); };
  differ(world, reduce(floats, 4, sum), reduce(floats, 5, sum), "allreduce(4 float32, sum)",
         "allreduce(5 float32, sum)", "allreduce", "allreduce");
  differ(world, reduce(floats, 100'000, sum), reduce(floats, 0, sum),
         "allreduce(100000 float32, sum)", "allreduce(0 float32, sum)", "allreduce", "allreduce",
         Told::later_perhaps);
  differ(world, reduce(floats, 4, sum), reduce(floats, 4, max), "allreduce(4 float32, sum)",
         "allreduce(4 float32, max)", "allreduce", "allreduce");
  differ(world, reduce(floats, 4, sum), reduce(doubles, 4, sum), "allreduce(4 float32, sum)",
         "allreduce(4 float64, sum)", "allreduce", "allreduce");
  differ(world, barrier, reduce(floats, 4, sum), "barrier()", "allreduce(4 float32, sum)",
         "barrier", "allreduce");
  differ(
      world, reduce(floats, 50'000, sum), [](Communicator& group) { group.split(0); },
      "allreduce(50000 float32, sum)", "split()", "allreduce", "split");
  differ(
      world, [](Communicator& group) { group.split(0); },
      [](Communicator& group) { group.split_node(); }, "split()", "split_node()", "split",
      "split_node");
  differ(
      world, [](Communicator& group) { group.allocate<double>(3); },
      [](Communicator& group) { group.allocate<double>(4); }, "allocate(3 elements of 8 bytes)",
      "allocate(4 elements of 8 bytes)", "allocate", "allocate");
  differ(
      world, [](Communicator& group) { group.finish(); }, barrier, "finish()", "barrier()",
      "finish", "barrier");
}

// What an operation's count and type do not say.
void collectives_that_differ_are_named_on_every_rank(Communicator& world, Arguments) {
  constexpr std::size_t count = 4;
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto me = static_cast<std::size_t>(world.rank());
  std::vector<float> mine(count);
  std::vector<float> out(count + 1);
  std::vector<float> all(count * ranks + 1);
  const std::span<float> block = std::span{out}.first(count);
  const std::span<float> whole = std::span{all}.first(count * ranks);
  // Roots that only receive would wait for each other, and nothing would be there to be seen.
  const auto broadcast = [&](int root) {
    return [&, root](Communicator& group) { group.broadcast(mine, root); };
  };
  differ(world, broadcast(0), broadcast(1), "broadcast(4 float32, root 0)",
         "broadcast(4 float32, root 1)", "broadcast", "broadcast", Told::later_perhaps);
  const auto scatter = [&](int root) {
    return [&, root](Communicator& group) { group.scatter(whole, mine, root); };
  };
  differ(world, scatter(0), scatter(1), "scatter(4 float32, root 0)", "scatter(4 float32, root 1)",
         "scatter", "scatter", Told::later_perhaps);

  const auto scan = [&](Reduction reduction) {
    return [&, reduction](Communicator& group) { group.scan(mine, block, reduction); };
  };
  differ(world, scan(sum), scan(max), "scan(4 float32, sum)", "scan(4 float32, max)", "scan",
         "scan", Told::later_perhaps);
  const auto function = [](const float*, float*, std::size_t) {};
  differ(
      world, [&](Communicator& group) { group.allreduce(mine, ordered(function)); },
      [&](Communicator& group) { group.allreduce(mine, commutative(function)); },
      "allreduce(4 float32, an ordered function)", "allreduce(4 float32, a commutative function)",
      "allreduce", "allreduce");
  const auto by = [&](std::string_view algorithm) {
    return [&, algorithm](Communicator& group) {
      group.allreduce(mine, sum, {.algorithm = algorithm});
    };
  };
  differ(world, by("ring"), by("recursive_multiplying"), "allreduce(4 float32, sum, by ring)",
         "allreduce(4 float32, sum, by recursive_multiplying)", "allreduce", "allreduce");

  // The last block has an element more, say the odd ranks.
  const std::vector<std::size_t> equal(ranks, count);
  std::vector<std::size_t> longer = equal;
  ++longer.back();
  const auto gathers = [&](const std::vector<std::size_t>& counts) {
    return [&](Communicator& group) {
      group.allgather(std::span{out}.first(counts[me]), blocks(all, counts));
    };
  };
  differ(world, gathers(equal), gathers(longer), "allgather(blocks of float32, layout *)",
         "allgather(blocks of float32, layout *)", "allgather", "allgather");
  const auto reduces = [&](const std::vector<std::size_t>& counts) {
    return [&](Communicator& group) {
      group.reduce_scatter(blocks(all, counts), std::span{out}.first(counts[me]), sum);
    };
  };
  differ(world, reduces(equal), reduces(longer), "reduce_scatter(blocks of float32, sum, layout *)",
         "reduce_scatter(blocks of float32, sum, layout *)", "reduce_scatter", "reduce_scatter");
  // The same lengths, in one vector and in ranges of their own: no algorithm is right for both.
  const auto reduces_ranges = [&](Communicator& group) {
    std::vector<std::vector<float>> ranges(ranks, std::vector<float>(count));
    group.reduce_scatter(blocks(ranges), block, sum);
  };
  differ(world, reduces(equal), reduces_ranges, "reduce_scatter(blocks of float32, sum, layout *)",
         "reduce_scatter(blocks of float32 that lie apart, sum, layout *)", "reduce_scatter",
         "reduce_scatter");
  differ(
      world, gathers(equal), [&](Communicator& group) { group.allgather(mine, whole); },
      "allgather(blocks of float32, layout *)", "allgather(4 float32)", "allgather", "allgather");
}

// What counts say of each vector, and not of all together.
void lists_that_differ_are_named_on_every_rank(Communicator& world, Arguments) {
  std::vector<float> floats(50'000);
  const auto reduce = [&](const std::vector<std::size_t>& counts, Reduction reduction = sum) {
    return [&floats, counts, reduction](Communicator& group) {
      std::vector<std::span<float>> vectors;
      std::size_t begin = 0;
      for (const std::size_t count : counts) {
        vectors.push_back(std::span{floats}.subspan(begin, count));
        begin += count;
      }
      group.allreduce_each(vectors, reduction);
    };
  };
  const std::string name = "allreduce_each";
  const std::string eight = "allreduce_each(8 float32, sum, layout *)";
  differ(world, reduce({3, 5}), reduce({4, 4}), eight, eight, name, name);
  differ(world, reduce({3, 5}), reduce({8}), eight, eight, name, name);
  differ(world, reduce({20'000, 8}), reduce({20'000}),
         "allreduce_each(20008 float32, sum, layout *)",
         "allreduce_each(20000 float32, sum, layout *)", name, name);
  differ(world, reduce({4, 4}), reduce({4, 4}, max), eight,
         "allreduce_each(8 float32, max, layout *)", name, name);
  differ(
      world, reduce({4}), [&](Communicator& group) { group.allreduce(std::span{floats}, sum); },
      "allreduce_each(4 float32, sum, layout *)", "allreduce(50000 float32, sum)", name,
      "allreduce");
  differ(world, reduce({8}), reduce({}), "allreduce_each(8 float32, sum, layout *)",
         "allreduce_each(, layout *)", name, name, Told::later_perhaps);
}

// A gather that has ended without what it did not wait for leaves the error to the barrier.
template <class Calls>
void expect_of_gather_or_barrier(Expected told, Calls&& calls) {
  try {
    calls();
    fail("no error", Place::current());
  } catch (const Error& error) {
    told.operation = error.operation();
    check(error.operation() == "gather" || error.operation() == "barrier", error.what());
    check_error(error, told);
  }
}

// What only the two ends of a block know: the last rank sends one element more, or less, than the
// others are told that it does, or nothing.
void blocks_whose_ends_disagree(Communicator& world, Arguments) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const int last = world.size() - 1;
  const bool is_last = world.rank() == last;
  for (const std::size_t count :
       {std::size_t{2}, std::size_t{100'000}}) {  // eager, and by rendezvous
    for (const std::size_t sent : {std::size_t{0}, count - 1, count + 1}) {
      const std::vector<std::int64_t> mine(is_last ? sent : count);
      std::vector<std::int64_t> all(count * ranks);
      const std::vector<std::size_t> counts(ranks, count);
      const std::string due = std::to_string(8 * count);
      const Expected told{ErrorCode::mismatch, last, "*",
                          sent == 0 ? "nothing came where " + due + " bytes were due*"
                                    : "a step of " + std::to_string(8 * sent) +
                                          " bytes arrived where " + due + " were due*",
                          "the two ends of a block must give it the same length"};
      Communicator disputed = world.duplicate();
      const auto gathers = [&] {
        disputed.gather(mine, blocks(all, world.rank() == 0 ? BlockLayout{counts} : BlockLayout{}),
                        0);
        disputed.barrier();
      };
      expect_of_gather_or_barrier(told, gathers);
      world.barrier();
    }
  }
}

// The last rank gives a block that rank 0 takes for empty, and receives where messages carry it. On
// one node nobody waits for it: a long one waits to be taken, and rank 0 finds that a short one was
// there when the next one comes.
void blocks_that_nobody_awaits(Communicator& world, Arguments) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const int last = world.size() - 1;
  const bool is_root = world.rank() == 0;
  for (const std::size_t count : {std::size_t{2}, std::size_t{100'000}}) {
    const std::vector<std::int64_t> mine(count);
    std::vector<std::int64_t> all(count * ranks);
    const std::vector<std::size_t> counts(ranks, count);
    std::vector<std::size_t> fewer = counts;
    fewer.back() = 0;
    const bool receives = !shares_memory(world);
    const bool root_finds = receives || count == 2 || world.size() > 2;
    const Expected told{ErrorCode::mismatch, root_finds ? last : 0, "*",
                        root_finds && !receives ? "a step came before this one where none was due*"
                                                : "a step of " + std::to_string(8 * count) +
                                                      " bytes arrived where 0 were due*",
                        "the two ends of a block must give it the same length"};
    Communicator disputed = world.duplicate();
    const auto gather = [&](const std::vector<std::size_t>& as) {
      disputed.gather(mine, blocks(all, is_root ? BlockLayout{as} : BlockLayout{}), 0);
    };
    gather(counts);
    expect_of_gather_or_barrier(told, [&] {
      gather(fewer);
      gather(counts);
      disputed.barrier();
    });
    world.barrier();
  }
}

// Each rank awaits a block of every other one, and none gives any.
void blocks_that_nobody_gives(Communicator& world, Arguments) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::vector<std::size_t> nothing(ranks, 0);
  std::vector<std::size_t> mine(ranks, 1);
  mine[static_cast<std::size_t>(world.rank())] = 0;
  const std::vector<std::int64_t> in;
  std::vector<std::int64_t> out(ranks - 1);
  Communicator disputed = world.duplicate();
  try {
    disputed.alltoall(blocks(in, nothing), blocks(out, mine));
    disputed.barrier();
    fail("no error", Place::current());
  } catch (const Error& error) {
    check(error.code() == ErrorCode::mismatch, error.what());
  }
  world.barrier();
}

// The same with one rank that comes late: the others' calls are parked at it until it begins.
void a_late_call_that_differs_is_named_too(Communicator& world, Arguments) {
  std::vector<float> floats(4);
  differ(
      world, [&](Communicator& group) { group.allreduce(floats, sum); },
      [](Communicator& group) {
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
        group.barrier();
      },
      "allreduce(4 float32, sum)", "barrier()", "allreduce", "barrier");
}

// Both roots run ahead and look at nobody. Who waits for anybody looks around, also where all calls
// agreed a moment before; after 200 ms it would be told by what ranks say to each other.
void what_differs_after_calls_that_agreed_is_seen(Communicator& world, Arguments) {
  Clock::duration least = Clock::duration::max();
  for (int i = 0; i < 10; ++i) {
    Communicator disputed = world.duplicate();
    disputed.barrier();
    std::vector<int> data(1);
    expect_error([&] { disputed.receive(data, any_source, any_tag, {.timeout = 20ms}); },
                 {ErrorCode::timeout, no_peer, "receive", "*", "*"});
    world.barrier();
    const auto begin = Clock::now();
    disputed.broadcast(data, world.rank());
    expect_error(
        [&] { disputed.receive(data, any_source, any_tag, {.timeout = 5'000ms}); },
        {ErrorCode::mismatch, 1 - world.rank(), "receive",
         "operation 1 of the communicator is broadcast(1 int32, root *) on rank * and "
         "broadcast(1 int32, root *) on rank *",
         "every rank must call the same collectives with the same arguments in the same order"});
    least = std::min(least, Clock::now() - begin);
    world.barrier();
  }
  check(least < 150ms, "seen, not told");
}

// Rank 0 has let its communicator go when another rank waits for what it has not called.
void calls_that_one_who_let_go_has_not_made_are_named(Communicator& world, Arguments) {
  for (const bool has_called : {true, false}) {
    std::optional<Communicator> disputed = world.duplicate();
    if (world.rank() == 0) {
      std::vector<int> data(1);
      if (has_called) disputed->broadcast(data, 0);
      disputed.reset();
    } else {
      const std::string call =
          has_called ? "broadcast(1 int32, root 0)" : "none, for it was let go,";
      expect_error(
          [&] { disputed->barrier({.timeout = 10'000ms}); },
          {ErrorCode::mismatch, 0, "barrier",
           "operation 0 of the communicator is barrier() on rank * and " + call + " on rank 0*",
           "every rank must call the same collectives with the same arguments in the same order"});
    }
    world.barrier();
  }
}

// Rank 0 gives rank 1 one byte more than that awaits. Rank 1 finds it, and waits for a message that
// rank 2 sends when its own call has ended: the others are told before rank 1 waits for its call.
void an_error_is_told_before_its_request_is_waited_for(Communicator& world, Arguments) {
  Communicator disputed = world.duplicate();
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<std::size_t> given(size, 300'000);
  const std::vector<std::size_t> awaited = given;
  if (world.rank() == 0) ++given[1];
  const Bytes in(given[0] * size + 1);
  Bytes out(awaited[0] * size);
  const auto sent = std::span{in}.first(given[0] * (size - 1) + given[1]);
  Request request = disputed.alltoall_async(blocks(sent, given), blocks(out, awaited));
  if (world.rank() == 1) world.receive<int>(2, 5);
  try {
    request.wait();
    throw std::runtime_error{"blocks of different lengths were exchanged"};
  } catch (const Error& error) {
    check(error.code() == ErrorCode::mismatch, error.what());
  }
  if (world.rank() == 2) world.send(1, 1, 5);
  world.barrier();
}

}  // namespace

std::vector<Scenario> differing_call_scenarios() {
  return {
      in_world("an_error_is_told_before_its_request_is_waited_for",
               an_error_is_told_before_its_request_is_waited_for),
      in_world("calls_that_differ_are_named_on_every_rank",
               calls_that_differ_are_named_on_every_rank),
      in_world("collectives_that_differ_are_named_on_every_rank",
               collectives_that_differ_are_named_on_every_rank),
      in_world("lists_that_differ_are_named_on_every_rank",
               lists_that_differ_are_named_on_every_rank),
      in_world("roots_that_differ_where_both_ranks_wait", roots_that_differ_where_both_ranks_wait),
      in_world("blocks_whose_ends_disagree", blocks_whose_ends_disagree),
      in_world("blocks_that_nobody_awaits", blocks_that_nobody_awaits),
      in_world("blocks_that_nobody_gives", blocks_that_nobody_gives),
      in_world("a_late_call_that_differs_is_named_too", a_late_call_that_differs_is_named_too),
      in_world("calls_that_one_who_let_go_has_not_made_are_named",
               calls_that_one_who_let_go_has_not_made_are_named),
      in_world("what_differs_after_calls_that_agreed_is_seen",
               what_differs_after_calls_that_agreed_is_seen)};
}

}  // namespace qpmesh::ranks

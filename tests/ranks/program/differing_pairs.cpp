// SPDX-License-Identifier: MIT
// Every ordered pair of calls that must not meet: what all ranks are told, and how soon.
#include <optional>
#include <thread>
#include <tuple>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t few = 4;
constexpr std::size_t many = 100'000;
constexpr std::size_t blocks_few = 2;
constexpr std::size_t blocks_many = 20'000;

// What a call reads and writes. Large enough for each of them.
struct Memory {
  explicit Memory(int size)
      : ranks{static_cast<std::size_t>(size)},
        floats(std::max(many, blocks_many * ranks) + ranks),
        results(floats.size()),
        doubles(few),
        ints(few),
        equal(ranks, blocks_few),
        longer(ranks, blocks_few) {
    ++longer.back();
  }

  std::span<float> in(std::size_t count) { return std::span{floats}.first(count); }
  std::span<float> out(std::size_t count) { return std::span{results}.first(count); }
  std::size_t own(const std::vector<std::size_t>& counts, const Communicator& group) const {
    return counts[static_cast<std::size_t>(group.rank())];
  }

  std::size_t ranks;
  std::vector<float> floats;
  std::vector<float> results;
  std::vector<double> doubles;
  std::vector<int> ints;
  std::vector<std::size_t> equal;
  std::vector<std::size_t> longer;
};

struct CallToMake {
  std::string described;  // as errors describe it; '*' stands for any text
  std::function<void(Communicator& group, Memory& memory)> make;
};

const std::vector<CallToMake>& calls() {
  using Group = Communicator;
  const auto adds = [](const float*, float*, std::size_t) {};
  static const std::vector<CallToMake> all{
      {"barrier()", [](Group& group, Memory&) { group.barrier(); }},
      {"broadcast(4 float32, root 0)",
       [](Group& group, Memory& m) { group.broadcast(m.in(few), 0); }},
      {"broadcast(4 float32, root 1)",
       [](Group& group, Memory& m) { group.broadcast(m.in(few), 1); }},
      {"broadcast(5 float32, root 0)",
       [](Group& group, Memory& m) { group.broadcast(m.in(few + 1), 0); }},
      {"broadcast(4 int32, root 0)", [](Group& group, Memory& m) { group.broadcast(m.ints, 0); }},
      {"broadcast(100000 float32, root 0)",
       [](Group& group, Memory& m) { group.broadcast(m.in(many), 0); }},
      {"reduce(4 float32, sum, root 0)",
       [](Group& group, Memory& m) { group.reduce(m.in(few), m.out(few), sum, 0); }},
      {"reduce(4 float32, sum, root 1)",
       [](Group& group, Memory& m) { group.reduce(m.in(few), m.out(few), sum, 1); }},
      {"reduce(4 float32, max, root 0)",
       [](Group& group, Memory& m) { group.reduce(m.in(few), m.out(few), max, 0); }},
      {"reduce(100000 float32, sum, root 0)",
       [](Group& group, Memory& m) { group.reduce(m.in(many), m.out(many), sum, 0); }},
      {"allreduce(4 float32, sum)",
       [](Group& group, Memory& m) { group.allreduce(m.in(few), m.out(few), sum); }},
      {"allreduce(4 float32, max)",
       [](Group& group, Memory& m) { group.allreduce(m.in(few), m.out(few), max); }},
      {"allreduce(5 float32, sum)",
       [](Group& group, Memory& m) { group.allreduce(m.in(few + 1), m.out(few + 1), sum); }},
      {"allreduce(4 float64, sum)",
       [](Group& group, Memory& m) { group.allreduce(m.doubles, sum); }},
      {"allreduce(100000 float32, sum)",
       [](Group& group, Memory& m) { group.allreduce(m.in(many), m.out(many), sum); }},
      {"allreduce(0 float32, sum)",
       [](Group& group, Memory& m) { group.allreduce(m.in(0), m.out(0), sum); }},
      {"allreduce(4 float32, an ordered function)",
       [adds](Group& group, Memory& m) { group.allreduce(m.in(few), m.out(few), ordered(adds)); }},
      {"allreduce(4 float32, a commutative function)",
       [adds](Group& group, Memory& m) {
         group.allreduce(m.in(few), m.out(few), commutative(adds));
       }},
      {"reduce_scatter(2 float32, sum)",
       [](Group& group, Memory& m) {
         group.reduce_scatter(m.in(blocks_few * m.ranks), m.out(blocks_few), sum);
       }},
      {"reduce_scatter(blocks of float32, sum, layout *)",
       [](Group& group, Memory& m) {
         group.reduce_scatter(blocks(m.in(blocks_few * m.ranks), m.equal), m.out(blocks_few), sum);
       }},
      {"allgather(2 float32)",
       [](Group& group, Memory& m) {
         group.allgather(m.in(blocks_few), m.out(blocks_few * m.ranks));
       }},
      {"allgather(20000 float32)",
       [](Group& group, Memory& m) {
         group.allgather(m.in(blocks_many), m.out(blocks_many * m.ranks));
       }},
      {"allgather(blocks of float32, layout *)",
       [](Group& group, Memory& m) {
         group.allgather(m.in(blocks_few), blocks(m.out(blocks_few * m.ranks), m.equal));
       }},
      {"allgather(blocks of float32, layout *)",
       [](Group& group, Memory& m) {
         group.allgather(m.in(m.own(m.longer, group)),
                         blocks(m.out(blocks_few * m.ranks + 1), m.longer));
       }},
      {"gather(2 float32, root 0)",
       [](Group& group, Memory& m) {
         group.gather(m.in(blocks_few), m.out(blocks_few * m.ranks), 0);
       }},
      {"gather(2 float32, root 1)",
       [](Group& group, Memory& m) {
         group.gather(m.in(blocks_few), m.out(blocks_few * m.ranks), 1);
       }},
      {"gather(blocks of float32, root 0)",
       [](Group& group, Memory& m) {
         group.gather(m.in(blocks_few), blocks(m.out(blocks_few * m.ranks), m.equal), 0);
       }},
      {"scatter(2 float32, root 0)",
       [](Group& group, Memory& m) {
         group.scatter(m.in(blocks_few * m.ranks), m.out(blocks_few), 0);
       }},
      {"scatter(2 float32, root 1)",
       [](Group& group, Memory& m) {
         group.scatter(m.in(blocks_few * m.ranks), m.out(blocks_few), 1);
       }},
      {"alltoall(2 float32)",
       [](Group& group, Memory& m) {
         group.alltoall(m.in(blocks_few * m.ranks), m.out(blocks_few * m.ranks));
       }},
      {"alltoall(20000 float32)",
       [](Group& group, Memory& m) {
         group.alltoall(m.in(blocks_many * m.ranks), m.out(blocks_many * m.ranks));
       }},
      {"scan(4 float32, sum)",
       [](Group& group, Memory& m) { group.scan(m.in(few), m.out(few), sum); }},
      {"scan(4 float32, max)",
       [](Group& group, Memory& m) { group.scan(m.in(few), m.out(few), max); }},
      {"exscan(4 float32, sum)",
       [](Group& group, Memory& m) { group.exscan(m.in(few), m.out(few), sum); }},
      {"split()", [](Group& group, Memory&) { group.split(0); }},
      {"duplicate()", [](Group& group, Memory&) { group.duplicate(); }},
      {"allocate(3 elements of 8 bytes)", [](Group& group, Memory&) { group.allocate<double>(3); }},
      {"finish()", [](Group& group, Memory&) { group.finish(); }},
  };
  return all;
}

constexpr int calls_before_max = 3;  // that all make alike

// Even ranks make one call, odd ranks the other; then all meet in a barrier. Each is told both
// calls within a second: by its own call, or, where nobody had to wait for anybody in that, by the
// barrier.
void differ(Communicator& world, const CallToMake& even, const CallToMake& odd, Memory& memory,
            int calls_before) {
  Communicator disputed = world.duplicate();
  for (int i = 0; i < calls_before; ++i) disputed.allreduce(memory.in(few), memory.out(few), sum);
  world.barrier();
  const Clock::time_point begin = Clock::now();
  std::optional<Error> told;
  try {
    (world.rank() % 2 == 0 ? even : odd).make(disputed, memory);
    disputed.barrier();
  } catch (const Error& error) {
    told = error;
  }
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  const std::string pair = even.described + " against " + odd.described + ": ";
  if (!told) fail(pair + "no error", Place::current());
  check(told->code() == ErrorCode::mismatch, pair + told->what());
  check(took < 1000, pair + "told after " + std::to_string(took) + " ms");
  check(told->peer() >= 0 && told->peer() < world.size() && told->peer() != world.rank(),
        told->what());
  const std::string head = "operation " + std::to_string(calls_before) + " of the communicator is ";
  const auto says = [&](const CallToMake& one, const CallToMake& other) {
    return test::matches(told->cause(),
                         head + one.described + " on rank * and " + other.described + " on rank *");
  };
  check(says(even, odd) || says(odd, even), pair + told->what());
  check(told->hint() ==
            "every rank must call the same collectives with the same arguments in the same order",
        told->what());
}

// arguments: which pair is the first, and how many there are from one to the next.
void pairs_of_calls_are_told_within_a_second(Communicator& world, Arguments arguments) {
  const std::size_t first = std::stoul(arguments[0]);
  const std::size_t step = std::stoul(arguments[1]);
  Memory memory{world.size()};
  std::size_t count = 0;
  for (std::size_t pair = first; pair < calls().size() * calls().size(); pair += step) {
    const std::size_t even = pair / calls().size();
    const std::size_t odd = pair % calls().size();
    if (even == odd) continue;
    differ(world, calls()[even], calls()[odd], memory,
           static_cast<int>(pair % (calls_before_max + 1)));
    ++count;
  }
  if (world.rank() == 0) say("told " + std::to_string(count) + " pairs");
}

// What may differ: where the data lies, which function reduces, how long a rank would wait, the
// lengths that one rank alone knows.
void calls_that_may_differ(Communicator& world, Arguments) {
  const bool is_even = world.rank() % 2 == 0;
  const auto ranks = static_cast<std::size_t>(world.size());
  Communicator group = world.duplicate();
  Memory memory{world.size()};
  Buffer<float> buffer = group.allocate<float>(many);
  const auto adds = [](const float* left, float* right, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) right[i] += left[i];
  };
  const auto adds_too = [](const float* left, float* right, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) right[i] = left[i] + right[i];
  };
  for (const std::size_t count : {few, many}) {
    is_even ? group.allreduce(memory.in(count), sum)
            : group.allreduce(memory.in(count), memory.out(count), sum);
    is_even ? group.broadcast(std::span{buffer}.first(count), 0)
            : group.broadcast(memory.in(count), 0);
    const CallOptions limit{.timeout = is_even ? 5s : 20s};
    is_even ? group.allreduce(memory.in(count), commutative(adds), limit)
            : group.allreduce(memory.in(count), commutative(adds_too), limit);
    is_even ? group.reduce(memory.in(count), sum, 0)
            : group.reduce(memory.in(count), memory.out(0), sum, 0);
  }
  // The root alone knows all lengths; the others give their own.
  std::vector<std::size_t> counts(ranks);
  for (std::size_t i = 0; i < ranks; ++i) counts[i] = i;
  const auto mine = static_cast<std::size_t>(world.rank());
  const BlockLayout all = world.rank() == 0 ? BlockLayout{counts} : BlockLayout{};
  const std::size_t total = ranks * (ranks - 1) / 2;
  group.gather(memory.in(mine), blocks(memory.out(world.rank() == 0 ? total : 0), all), 0);
  group.scatter(blocks(memory.in(world.rank() == 0 ? total : 0), all), memory.out(mine), 0);
  group.split(is_even ? 0 : no_color, world.rank());
  if (is_even) group.barrier_async().wait();
  else group.barrier();
  for (int i = 0; i < 100; ++i) group.barrier();
  group.finish();
}

}  // namespace

std::vector<Scenario> differing_pair_scenarios() {
  return {
      in_world("pairs_of_calls_are_told_within_a_second", pairs_of_calls_are_told_within_a_second),
      in_world("calls_that_may_differ", calls_that_may_differ)};
}

}  // namespace qpmesh::ranks

// SPDX-License-Identifier: MIT
// Every collective by every algorithm that it has, through the public face alone.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

using Vector = std::vector<std::int64_t>;
constexpr std::int64_t untouched = -77;

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// The vector that a rank brings.
std::int64_t element(int rank, std::size_t i) {
  return (rank + 1) * 1'000'003 + static_cast<std::int64_t>(i) * 7;
}
Vector brought(int rank, std::size_t count, std::size_t first = 0) {
  Vector data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = element(rank, first + i);
  return data;
}
// Over the ranks 0 … rank_count-1.
Vector sums(int rank_count, std::size_t count, std::size_t first = 0) {
  Vector data(count, 0);
  for (int rank = 0; rank < rank_count; ++rank) {
    for (std::size_t i = 0; i < count; ++i) data[i] += element(rank, first + i);
  }
  return data;
}
void check_same(const Vector& observed, const Vector& expected, std::string_view algorithm,
                Place place = Place::current()) {
  if (observed == expected) return;
  const auto wrong = std::ranges::mismatch(observed, expected).in1 - observed.begin();
  fail(std::string{algorithm} + ": element " + std::to_string(wrong) + " of " +
           std::to_string(observed.size()) + " is wrong",
       place);
}

struct Try {
  Communicator& world;
  CallOptions call;
  std::size_t count;  // of a vector, or of a block
  int root;

  int size() const { return world.size(); }
  int rank() const { return world.rank(); }
  bool is_root() const { return rank() == root; }
  std::size_t all() const { return count * index(size()); }
  std::string_view name() const { return call.algorithm; }
};

void try_broadcast(const Try& one) {
  Vector data = one.is_root() ? brought(one.root, one.count) : Vector(one.count, untouched);
  one.world.broadcast(data, one.root, one.call);
  check_same(data, brought(one.root, one.count), one.name());
}

void try_reduce(const Try& one) {
  const Vector in = brought(one.rank(), one.count);
  Vector out(one.is_root() ? one.count : 0, untouched);
  one.world.reduce(in, out, sum, one.root, one.call);
  if (one.is_root()) check_same(out, sums(one.size(), one.count), one.name());
  Vector in_place = in;
  one.world.reduce_async(in_place, sum, one.root, one.call).wait();
  check_same(in_place, one.is_root() ? sums(one.size(), one.count) : in, one.name());
}

void try_allreduce(const Try& one) {
  const Vector in = brought(one.rank(), one.count);
  Vector out(one.count, untouched);
  one.world.allreduce(in, out, sum, one.call);
  check_same(out, sums(one.size(), one.count), one.name());
  Vector in_place = in;
  one.world.allreduce_async(in_place, sum, one.call).wait();
  check_same(in_place, out, one.name());
}

void try_reduce_scatter(const Try& one) {
  const Vector in = brought(one.rank(), one.all());
  Vector out(one.count, untouched);
  one.world.reduce_scatter(in, out, sum, one.call);
  check_same(out, sums(one.size(), one.count, one.count * index(one.rank())), one.name());
}

void try_scan(const Try& one) {
  const Vector in = brought(one.rank(), one.count);
  Vector out(one.count, untouched);
  one.world.scan(in, out, sum, one.call);
  check_same(out, sums(one.rank() + 1, one.count), one.name());
}

void try_exscan(const Try& one) {
  const Vector in = brought(one.rank(), one.count);
  Vector out(one.count, untouched);
  one.world.exscan(in, out, sum, one.call);
  check_same(out, one.rank() == 0 ? Vector(one.count, untouched) : sums(one.rank(), one.count),
             one.name());
}

Vector everyones(const Try& one) {
  Vector all;
  for (int rank = 0; rank < one.size(); ++rank) {
    const Vector block = brought(rank, one.count);
    all.insert(all.end(), block.begin(), block.end());
  }
  return all;
}

void try_allgather(const Try& one) {
  Vector all(one.all(), untouched);
  one.world.allgather(brought(one.rank(), one.count), all, one.call);
  check_same(all, everyones(one), one.name());
}

void try_gather(const Try& one) {
  Vector all(one.is_root() ? one.all() : 0, untouched);
  one.world.gather(brought(one.rank(), one.count), all, one.root, one.call);
  if (one.is_root()) check_same(all, everyones(one), one.name());
}

void try_scatter(const Try& one) {
  Vector mine(one.count, untouched);
  one.world.scatter(one.is_root() ? everyones(one) : Vector{}, mine, one.root, one.call);
  check_same(mine, brought(one.rank(), one.count), one.name());
}

void try_alltoall(const Try& one) {
  Vector out(one.all(), untouched);
  one.world.alltoall(brought(one.rank(), one.all()), out, one.call);
  Vector expected;
  for (int from = 0; from < one.size(); ++from) {
    const Vector block = brought(from, one.count, one.count * index(one.rank()));
    expected.insert(expected.end(), block.begin(), block.end());
  }
  check_same(out, expected, one.name());
}

struct OfCollective {
  Collective collective;
  void (*run)(const Try& one);
};
constexpr std::array<OfCollective, collective_count> tries{
    {{Collective::barrier, [](const Try& one) { one.world.barrier(one.call); }},
     {Collective::broadcast, try_broadcast},
     {Collective::reduce, try_reduce},
     {Collective::allgather, try_allgather},
     {Collective::reduce_scatter, try_reduce_scatter},
     {Collective::allreduce, try_allreduce},
     {Collective::gather, try_gather},
     {Collective::scatter, try_scatter},
     {Collective::alltoall, try_alltoall},
     {Collective::scan, try_scan},
     {Collective::exscan, try_exscan}}};

bool has_blocks(Collective collective) {
  return collective == Collective::allgather || collective == Collective::reduce_scatter ||
         collective == Collective::gather || collective == Collective::scatter ||
         collective == Collective::alltoall;
}

void every_algorithm_of_every_collective(Communicator& world, Arguments) {
  for (const OfCollective& each : tries) {
    int algorithm_count = 0;
    for (const auto& [count, root] :
         {std::pair{std::size_t{5}, 0}, std::pair{std::size_t{5'011}, world.size() - 1}}) {
      const std::size_t blocks = has_blocks(each.collective) ? index(world.size()) : 1;
      for (const Candidate& candidate :
           world.explain(each.collective, count * blocks * sizeof(Vector::value_type))) {
        if (!candidate.applies) continue;
        each.run({world, {.algorithm = candidate.algorithm}, count, root});
        ++algorithm_count;
      }
    }
    each.run({world, {}, 100, world.size() / 2});  // the one that is chosen
    check(algorithm_count >= 2, "every collective has an algorithm");
  }
}

// Long enough for several trials. Now and then a rank comes late, rank 0, which decides, too; roots
// move, or stay, as others run ahead of them.
void what_is_measured_changes_no_result(Communicator& world, Arguments) {
  std::mt19937 draws{7};  // the same at every rank
  for (int round = 0; round < 80; ++round) {
    const std::uint32_t late = draws() % 16;
    if (late == static_cast<std::uint32_t>(world.rank()))
      std::this_thread::sleep_for(std::chrono::microseconds{200});
    const int root = round % 2 == 0 ? 1 % world.size() : round % world.size();
    for (const std::size_t count : {std::size_t{3}, std::size_t{600}, std::size_t{9'000}}) {
      for (const OfCollective& each : tries) each.run({world, {}, count, root});
    }
  }
  // The bits of a sum tell in which order it was made.
  for (const std::size_t count : {std::size_t{7}, std::size_t{1'000}, std::size_t{40'000}}) {
    std::vector<float> in(count);
    for (std::size_t i = 0; i < count; ++i)
      in[i] = std::ldexp(1.F / static_cast<float>(3 + i % 97), (world.rank() * 13 + 5) % 24);
    std::vector<float> expected(count);
    world.allreduce(in, expected, sum, {.algorithm = "direct"});
    std::vector<float> out(count);
    for (int call = 0; call < 400; ++call) {
      world.allreduce(in, out, sum);
      check(out == expected, "the bits of the forced row");
    }
  }
  const auto rows = world.explain(Collective::allreduce, 4'000);
  const auto measured =
      std::ranges::count_if(rows, [](const Candidate& row) { return row.samples > 0; });
  check(world.size() == 1 || measured > 1, "several rows were measured");
}

// Far more calls than a node has slots are started before one is waited for, and the rank that
// decides is the last one that calls, or the first.
void bursts_of_measured_calls(Communicator& world, Arguments) {
  constexpr int calls = 1'000;
  for (int round = 0; round < 6; ++round) {
    const bool late = (world.rank() == 0) == (round % 2 == 0);
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds{5});
    std::vector<Vector> data(calls);
    std::vector<Request> requests;
    for (int call = 0; call < calls; ++call) {
      Vector& each = data[static_cast<std::size_t>(call)];
      const std::size_t count = call % 5 == 4 ? 600 : 2;
      each = brought(world.rank(), count);
      if (call % 3 == 2) requests.push_back(world.broadcast_async(each, call % world.size()));
      else requests.push_back(world.allreduce_async(each, sum));
    }
    if (round % 3 == 2) world.barrier();  // behind all of them
    if (round % 3 == 1) {
      for (std::size_t left = requests.size(); left > 0; --left) requests[left - 1].wait();
    } else {
      wait_all(requests);
    }
    for (int call = 0; call < calls; ++call) {
      const Vector& each = data[static_cast<std::size_t>(call)];
      check_same(each,
                 call % 3 == 2 ? brought(call % world.size(), each.size())
                               : sums(world.size(), each.size()),
                 "call " + std::to_string(call));
    }
    const auto child = world.duplicate();
    check_equal(child.size(), world.size());
  }
}

// Rank r's block has r + 2 elements, but every third one none; with displacements the blocks lie
// backwards, with gaps.
struct Layout {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> displacements;
  std::size_t element_count = 0;

  Layout(int size, bool has_gaps) {
    for (std::size_t rank = 0; rank < index(size); ++rank)
      counts.push_back(rank % 3 == 1 ? 0 : rank + 2);
    element_count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    if (!has_gaps) return;
    element_count = 0;
    displacements.resize(counts.size());
    for (std::size_t rank = counts.size(); rank-- > 0;) {
      displacements[rank] = ++element_count;
      element_count += counts[rank];
    }
  }
  std::size_t first(int rank) const {
    return displacements.empty()
               ? std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0})
               : displacements[index(rank)];
  }
  BlockLayout view() const { return {counts, displacements}; }
  // block(r) at its place.
  template <class F>
  Vector filled(F&& block) const {
    Vector all(element_count, untouched);
    for (int rank = 0; rank < static_cast<int>(counts.size()); ++rank)
      std::ranges::copy(block(rank), all.begin() + static_cast<std::ptrdiff_t>(first(rank)));
    return all;
  }
};

void blocks_of_unequal_lengths(Communicator& world, Arguments) {
  const int rank = world.rank();
  const int root = world.size() - 1;
  for (const bool has_gaps : {false, true}) {
    const Layout layout{world.size(), has_gaps};
    const auto block = [&](int of) { return brought(of, layout.counts[index(of)]); };
    const Vector mine = block(rank);
    const Vector expected = layout.filled(block);

    Vector all(layout.element_count, untouched);
    world.allgather(mine, blocks(all, layout.view()));
    check_same(all, expected, "allgather");

    // The lists are read during the call only.
    std::fill(all.begin(), all.end(), untouched);
    std::optional<Layout> read_during_the_call{layout};
    Request request = world.allgather_async(mine, blocks(all, read_during_the_call->view()));
    std::ranges::fill(read_during_the_call->counts, std::size_t{1} << 40);
    read_during_the_call.reset();
    request.wait();
    check_same(all, expected, "allgather_async");

    Vector gathered(rank == root ? layout.element_count : 0, untouched);
    world.gather(mine, blocks(gathered, rank == root ? layout.view() : BlockLayout{}), root);
    if (rank == root) check_same(gathered, expected, "gather");

    Vector scattered(mine.size(), untouched);
    world.scatter(blocks(gathered, rank == root ? layout.view() : BlockLayout{}), scattered, root);
    check_same(scattered, mine, "scatter");

    // Everybody sends rank r a block of r's length.
    const Vector sent =
        layout.filled([&](int to) { return brought(rank * 10 + to, layout.counts[index(to)]); });
    std::vector<std::size_t> counts(index(world.size()), mine.size());
    Vector received(mine.size() * index(world.size()), untouched);
    world.alltoall(blocks(sent, layout.view()), blocks(received, counts));
    Vector expected_blocks;
    for (int from = 0; from < world.size(); ++from) {
      const Vector its = brought(from * 10 + rank, mine.size());
      expected_blocks.insert(expected_blocks.end(), its.begin(), its.end());
    }
    check_same(received, expected_blocks, "alltoall");
    if (has_gaps) continue;  // a reduce_scatter has none

    Vector block_of_sums(mine.size(), untouched);
    const Vector whole = brought(rank, layout.element_count);
    world.reduce_scatter(blocks(whole, layout.view()), block_of_sums, sum);
    check_same(block_of_sums, sums(world.size(), mine.size(), layout.first(rank)),
               "reduce_scatter");
  }
}

// Calls that differ in their layouts alone, and from lists that stand where those before stood:
// what is remembered of a call must not be taken for the next one.
void layouts_that_change_from_call_to_call(Communicator& world, Arguments) {
  const int rank = world.rank();
  const std::size_t ranks = index(world.size());
  std::vector<std::size_t> counts(ranks);
  std::vector<std::size_t> places(ranks);
  const std::size_t room = 2 * ranks;
  Vector all(room);
  Vector back(room);
  Vector mine(2);
  for (std::size_t turn = 0; turn < 64; ++turn) {
    const bool has_gaps = (turn & 1) != 0;
    for (std::size_t of = 0; of < ranks; ++of) {
      counts[of] = (turn >> 1 ^ of) % 3;
      places[of] = 2 * (turn & 2 ? of : ranks - 1 - of);
    }
    const std::size_t own = counts[index(rank)];
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::span<Vector::value_type> used = std::span{all}.first(has_gaps ? room : total);
    const BlockLayout layout{
        counts, has_gaps ? std::span<const std::size_t>{places} : std::span<const std::size_t>{}};
    const auto check_all = [&](const char* what) {
      Vector expected(room, untouched);
      std::size_t place = 0;
      for (std::size_t of = 0; of < ranks; ++of) {
        const std::size_t first = has_gaps ? places[of] : place;
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(first), counts[of],
                    static_cast<Vector::value_type>(of + turn));
        place += counts[of];
      }
      check_same(all, expected, what);
    };
    const auto start = [&] {
      std::ranges::fill(all, untouched);
      std::ranges::fill(mine, static_cast<Vector::value_type>(index(rank) + turn));
    };
    const int root = static_cast<int>((turn >> 2) % ranks);
    start();
    world.allgather(std::span{mine}.first(own), blocks(used, layout));
    check_all("allgather");
    start();
    world.gather(std::span{mine}.first(own), blocks(used, layout), root);
    if (rank == root) check_all("gather");
    world.scatter(blocks(used, layout), std::span{back}.first(own), root);
    for (std::size_t i = 0; i < own; ++i) check_equal(back[i], mine[i]);
  }
}

// Long enough that several algorithms are tried: what one of them has made of the lists must not be
// what the next call finds.
void one_layout_again_and_again_while_it_is_measured(Communicator& world, Arguments) {
  const std::size_t ranks = index(world.size());
  std::vector<std::size_t> counts(ranks);
  for (std::size_t of = 0; of < ranks; ++of) counts[of] = 1000 + 300 * of;
  const std::size_t own = counts[index(world.rank())];
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const BlockLayout layout{counts, {}};
  Vector all(total);
  Vector mine(own);
  for (std::size_t turn = 0; turn < 300; ++turn) {
    const auto value_of = [&](std::size_t of) {
      return static_cast<Vector::value_type>(of + turn);
    };
    std::ranges::fill(mine, value_of(index(world.rank())));
    world.allgather(mine, blocks(all, layout));
    Vector expected;
    for (std::size_t of = 0; of < ranks; ++of)
      expected.insert(expected.end(), counts[of], value_of(of));
    check_same(all, expected, "allgather");
    std::ranges::fill(all, value_of(0));
    world.reduce_scatter(blocks(all, layout), mine, sum);
    check_same(mine, Vector(own, static_cast<Vector::value_type>(ranks * turn)), "reduce_scatter");
  }
}

// Strings of the ranks' letters: joining them is associative and in no way commutative.
struct Letters {
  std::array<char, 11> text{};
  std::uint8_t count = 0;
};
void functions_of_the_caller(Communicator& world, Arguments) {
  constexpr auto join = [](const Letters* left, Letters* inout, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      Letters joined = left[i];
      for (std::uint8_t j = 0; j < inout[i].count; ++j)
        joined.text.at(joined.count++) = inout[i].text.at(j);
      inout[i] = joined;
    }
  };
  constexpr std::size_t count = 700;  // longer than an eager message
  const char letter = static_cast<char>('a' + world.rank());
  const std::vector<Letters> mine(count, Letters{{letter}, 1});
  const auto check_letters = [&](const std::vector<Letters>& result, int last) {
    std::string expected;
    for (int rank = 0; rank <= last; ++rank) expected += static_cast<char>('a' + rank);
    for (const Letters& letters : result)
      check_equal(std::string(letters.text.data(), letters.count), expected);
  };
  std::vector<Letters> result(count);
  world.allreduce(mine, result, ordered(join));
  check_letters(result, world.size() - 1);
  for (int root = 0; root < world.size(); ++root) {
    world.reduce(mine, result, ordered(join), root);
    if (world.rank() == root) check_letters(result, world.size() - 1);
  }
  world.scan(mine, result, ordered(join));
  check_letters(result, world.rank());
  // A copy of the function lives as long as the operation.
  Vector values = brought(world.rank(), count);
  Request request;
  {
    const std::vector<std::int64_t> captured{1};
    request = world.allreduce_async(
        values,
        commutative([captured](const std::int64_t* left, std::int64_t* inout, std::size_t n) {
          for (std::size_t i = 0; i < n; ++i) inout[i] += captured.front() * left[i];
        }));
  }
  request.wait();
  check_same(values, sums(world.size(), count), "a commutative function");
}

// Between nodes a time that is measured decides: had two ranks another one, they would run other
// algorithms. Says the time of a barrier, for who looks from outside.
void all_ranks_predict_the_same(Communicator& world, Arguments) {
  std::vector<double> mine;
  for (std::size_t bytes = 8; bytes <= (16U << 20); bytes *= 8) {
    for (const Candidate& row : world.explain(Collective::allreduce, bytes))
      mine.push_back(row.predicted_us);
  }
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.allgather(mine, all);
  for (std::size_t i = 0; i < all.size(); ++i) check_equal(all[i], mine[i % mine.size()]);
  const auto rows = world.explain(Collective::barrier, 0);
  const auto row =
      std::ranges::find(rows, std::string_view{"dissemination"}, &Candidate::algorithm);
  say("a barrier takes " + std::to_string(row->predicted_us));
}

// For who looks from outside. How late, in ms; otherwise 20.
void one_rank_is_late(Communicator& world, Arguments arguments) {
  const std::chrono::milliseconds late{arguments.empty() ? 20 : std::stoi(arguments[0])};
  for (int i = 0; i < 3; ++i) {
    if (world.rank() == 1) std::this_thread::sleep_for(late);
    world.barrier();
    int value = i;
    world.broadcast(value, 0);
  }
}

}  // namespace

std::vector<Scenario> collective_scenarios() {
  return {in_world("one_rank_is_late", one_rank_is_late),
          in_world("every_algorithm_of_every_collective", every_algorithm_of_every_collective),
          in_world("what_is_measured_changes_no_result", what_is_measured_changes_no_result),
          in_world("bursts_of_measured_calls", bursts_of_measured_calls),
          in_world("blocks_of_unequal_lengths", blocks_of_unequal_lengths),
          in_world("layouts_that_change_from_call_to_call", layouts_that_change_from_call_to_call),
          in_world("one_layout_again_and_again_while_it_is_measured",
                   one_layout_again_and_again_while_it_is_measured),
          in_world("all_ranks_predict_the_same", all_ranks_predict_the_same),
          in_world("functions_of_the_caller", functions_of_the_caller)};
}

}  // namespace qpmesh::ranks

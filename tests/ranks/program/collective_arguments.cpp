// SPDX-License-Identifier: MIT
// Arguments of collectives that cannot mean anything: what the caller is told, and that nothing
// came of it.
#include <algorithm>
#include <limits>

#include "program/given.hpp"

namespace qpmesh::ranks {
namespace {

constexpr int least = std::numeric_limits<int>::min();
constexpr int most = std::numeric_limits<int>::max();
using Counts = std::vector<std::size_t>;

// Nothing of what was refused was counted or sent: the next calls match on every rank, on this
// communicator.
void check_nothing_happened(Communicator& world) {
  check(!world.try_probe().has_value(), "nothing was sent");
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  world.allreduce(sums, sum);
  check_sum(sums, world.size());
}

void roots_out_of_range(Communicator& world, Arguments) {
  Memory memory{world.size()};
  const std::string hint = "ranks here are 0 to " + std::to_string(world.size() - 1);
  for (const int root : {world.size(), most, -1, least}) {
    const std::string cause =
        "root " + std::to_string(root) + " is not a rank of this communicator";
    for (const Collective collective :
         {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter})
      refused(world,
              {.collective = collective, .in = memory.block(), .out = memory.block(), .root = root},
              cause, hint, root);
  }
  check_nothing_happened(world);
}

void blocks_that_do_not_fit(Communicator& world, Arguments) {
  Memory memory{world.size()};
  const std::size_t ranks = memory.ranks;
  const std::string n = std::to_string(ranks);
  const auto need = [&](const std::string& all, std::size_t has, const std::string& one) {
    return all + " has " + std::to_string(has) + " elements, but " + n +
           " ranks with 2 elements each (" + one + ") need " + std::to_string(2 * ranks);
  };
  const std::string hint = "for blocks of unequal lengths give blocks(range, counts)";
  const int me = world.rank();  // at the root all is looked at
  for (const std::size_t has : {2 * ranks + 1, 2 * ranks - 1, std::size_t{0}}) {
    const std::span<int> all = std::span{memory.all}.first(has);
    refused(world, {.collective = Collective::allgather, .in = memory.block(), .out = all},
            need("out", has, "in"), hint);
    refused(world, {.collective = Collective::gather, .in = memory.block(), .out = all, .root = me},
            need("out", has, "in"), hint);
    refused(world,
            {.collective = Collective::scatter, .in = all, .out = memory.block(), .root = me},
            need("in", has, "out"), hint);
    refused(world, {.collective = Collective::reduce_scatter, .in = all, .out = memory.block()},
            need("in", has, "out"), hint);
    if (has % ranks == 0) continue;
    refused(world, {.collective = Collective::alltoall, .in = all, .out = memory.other_whole()},
            "in has " + std::to_string(has) + " elements and out " + std::to_string(2 * ranks) +
                ": not the same number of whole blocks for " + n + " ranks",
            "for blocks of unequal lengths give blocks(in, counts) and blocks(out, counts)");
  }
  refused(world,
          {.collective = Collective::alltoall,
           .in = memory.whole(),
           .out = std::span{memory.others}.first(ranks)},
          "in has " + std::to_string(2 * ranks) + " elements and out " + n +
              ": not the same number of whole blocks for " + n + " ranks",
          "for blocks of unequal lengths give blocks(in, counts) and blocks(out, counts)");
  // All blocks together are more than there can be, or than a count can say.
  constexpr std::size_t huge = std::size_t{1} << 62;
  Bytes bytes(2 * ranks);
  const std::string needed =
      ranks < 4 ? std::to_string(huge * ranks) : std::string{"more than memory can hold"};
  expect_error(
      [&] {
        world.allgather(std::span{bytes.data(), huge}, bytes);
      },
      {ErrorCode::bad_argument, no_peer, "allgather",
       "out has " + std::to_string(2 * ranks) + " elements, but " + n + " ranks with " +
           std::to_string(huge) + " elements each (in) need " + needed,
       hint});
  check_nothing_happened(world);
}

void layouts_that_make_no_sense(Communicator& world, Arguments) {
  Memory memory{world.size()};
  const std::size_t ranks = memory.ranks;
  const std::string n = std::to_string(ranks);
  const std::string total = std::to_string(2 * ranks);
  const int me = world.rank();
  const Counts counts(ranks, 2);
  Counts displacements;
  for (std::size_t rank = 0; rank < ranks; ++rank) displacements.push_back(2 * rank);

  // Every v-form, with one layout spoiled.
  const auto each = [&](BlockLayout bad, auto&& told, const std::string& hint,
                        bool targets_only = false) {
    refused(world,
            {.collective = Collective::allgather,
             .in = memory.block(),
             .out = memory.whole(),
             .out_layout = bad},
            told("out"), hint);
    refused(world,
            {.collective = Collective::gather,
             .in = memory.block(),
             .out = memory.whole(),
             .out_layout = bad,
             .root = me},
            told("out"), hint);
    refused(world,
            {.collective = Collective::alltoall,
             .in = memory.other_whole(),
             .out = memory.whole(),
             .in_layout = BlockLayout{counts},
             .out_layout = bad},
            told("out"), hint);
    if (targets_only) return;
    refused(world,
            {.collective = Collective::scatter,
             .in = memory.whole(),
             .out = memory.block(),
             .in_layout = bad,
             .root = me},
            told("in"), hint);
    refused(world,
            {.collective = Collective::alltoall,
             .in = memory.whole(),
             .out = memory.other_whole(),
             .in_layout = bad,
             .out_layout = BlockLayout{counts}},
            told("in"), hint);
    if (bad.displacements.empty())
      refused(world,
              {.collective = Collective::reduce_scatter,
               .in = memory.whole(),
               .out = memory.block(),
               .in_layout = bad},
              told("in"), hint);
  };

  const Counts longer(ranks + 1, 1);
  const Counts shorter(ranks - 1, 2);
  for (const BlockLayout& bad :
       {BlockLayout{longer}, {shorter}, {counts, longer}, {counts, shorter}}) {
    if (bad.counts.size() == ranks && bad.displacements.empty())
      continue;  // one rank: no displacements
    const std::string cause = " has " + std::to_string(bad.counts.size()) + " counts and " +
                              std::to_string(bad.displacements.size()) + " displacements for " + n +
                              " ranks";
    each(
        bad, [&](std::string name) { return "the layout of " + name.append(cause); },
        "one count for each rank, and one displacement or none");
  }

  // Outside of the range, by a count or a place, by little or so much that sums overflow.
  const std::size_t last = ranks - 1;
  const std::string block = "block " + std::to_string(last) + " of ";
  for (const std::size_t count : {std::size_t{3}, std::numeric_limits<std::size_t>::max()}) {
    Counts bad = counts;
    bad[last] = count;
    const std::string cause = ", " + std::to_string(count) + " elements from " +
                              std::to_string(2 * last) + " on, does not lie in its " + total +
                              " elements";
    each(
        {bad, {}}, [&](std::string name) { return block + name.append(cause); },
        "counts and displacements are in elements");
  }
  for (const std::size_t first : {2 * ranks - 1, std::numeric_limits<std::size_t>::max() - 1}) {
    Counts bad = displacements;
    bad[last] = first;
    const std::string cause = ", 2 elements from " + std::to_string(first) +
                              " on, does not lie in its " + total + " elements";
    each(
        {counts, bad}, [&](std::string name) { return block + name.append(cause); },
        "counts and displacements are in elements");
  }

  if (ranks > 1) {
    Counts bad = displacements;
    bad[1] = 1;
    each(
        {counts, bad},
        [&](const std::string&) {
          return "blocks 0 (2 elements from 0 on) and 1 (from 1 on) overlap";
        },
        "blocks that are received into have no element in common", true);
  }

  // This rank's own block is another than its range.
  const std::string told = " has 3 elements, this rank's block of the layout 2";
  const std::span<int> three = memory.block(3);
  refused(world,
          {.collective = Collective::allgather,
           .in = three,
           .out = memory.whole(),
           .out_layout = BlockLayout{counts}},
          "in" + told, "they must be equal");
  refused(world,
          {.collective = Collective::gather,
           .in = three,
           .out = memory.whole(),
           .out_layout = BlockLayout{counts},
           .root = me},
          "in" + told, "they must be equal");
  refused(world,
          {.collective = Collective::scatter,
           .in = memory.whole(),
           .out = three,
           .in_layout = BlockLayout{counts},
           .root = me},
          "out" + told, "they must be equal");
  refused(world,
          {.collective = Collective::reduce_scatter,
           .in = memory.whole(),
           .out = three,
           .in_layout = BlockLayout{counts}},
          "out" + told, "they must be equal");
  Counts less = counts;
  less[static_cast<std::size_t>(me)] = 1;
  refused(world,
          {.collective = Collective::alltoall,
           .in = memory.whole(),
           .out = memory.other_whole(),
           .in_layout = BlockLayout{less},
           .out_layout = BlockLayout{counts}},
          "in's block for this rank has 1 elements, out's block from it 2", "they must be equal");
  check_nothing_happened(world);
}

void ranges_of_collectives_that_overlap(Communicator& world, Arguments) {
  Memory memory{world.size()};
  const std::size_t ranks = memory.ranks;
  const int me = world.rank();
  const std::span<int> all = memory.whole();
  const std::string bytes = std::to_string(8 * ranks);

  refused(world, {.collective = Collective::alltoall, .in = all, .out = all},
          "the " + bytes + " bytes to send and the " + bytes + " bytes to receive into overlap",
          "send from one range and receive into another");

  const std::size_t own = 2 * static_cast<std::size_t>(me);
  const std::span<int> beside =
      std::span{memory.all}.subspan(own + 1, 2);  // an element behind its place
  const std::string told =
      "the 8 bytes of this rank and the " + bytes + " bytes of all overlap, but not at its block";
  const std::string hint =
      "in place, a rank's range is its own block; otherwise the two do not touch";
  refused(world, {.collective = Collective::allgather, .in = beside, .out = all}, told, hint);
  refused(world, {.collective = Collective::gather, .in = beside, .out = all, .root = me}, told,
          hint);
  refused(world, {.collective = Collective::scatter, .in = all, .out = beside, .root = me}, told,
          hint);
  refused(world, {.collective = Collective::reduce_scatter, .in = all, .out = beside}, told, hint);

  const std::span<int> two = memory.block();
  const std::span<int> shifted = std::span{memory.one}.subspan(1, 2);
  for (const Collective collective :
       {Collective::reduce, Collective::allreduce, Collective::scan, Collective::exscan}) {
    refused(world, {.collective = collective, .in = two, .out = shifted, .root = me},
            "in and out overlap without being the same 8 bytes",
            "use one range in place, or two that do not touch");
    refused(world, {.collective = collective, .in = two, .out = all.first(1), .root = me},
            "in has 2 elements, out has 1", "give in and out equal counts");
  }
  check_nothing_happened(world);
}

void collectives_without_memory(Communicator& world, Arguments) {
  Memory memory{world.size()};
  const int me = world.rank();
  const std::span<int> none{static_cast<int*>(nullptr), 2};
  const std::span<int> no_all{static_cast<int*>(nullptr), 2 * memory.ranks};
  const auto told = [](std::span<int> range) {
    return "null with a count of " + std::to_string(range.size());
  };
  const std::string hint = "a range without memory has a count of 0";
  const auto both = [&](Collective collective, std::span<int> in, std::span<int> out,
                        std::span<int> bad_in, std::span<int> bad_out) {
    refused(world, {.collective = collective, .in = bad_in, .out = out, .root = me}, told(bad_in),
            hint);
    refused(world, {.collective = collective, .in = in, .out = bad_out, .root = me}, told(bad_out),
            hint);
  };
  const std::span<int> block = memory.block();
  const std::span<int> other = std::span{memory.one}.subspan(2, 2);
  refused(world, {.collective = Collective::broadcast, .out = none, .root = me}, told(none), hint);
  for (const Collective collective :
       {Collective::reduce, Collective::allreduce, Collective::scan, Collective::exscan})
    both(collective, block, other, none, none);
  for (const Collective collective : {Collective::allgather, Collective::gather})
    both(collective, block, memory.whole(), none, no_all);
  for (const Collective collective : {Collective::scatter, Collective::reduce_scatter})
    both(collective, memory.whole(), block, no_all, none);
  both(Collective::alltoall, memory.whole(), memory.other_whole(), no_all, no_all);
  check_nothing_happened(world);
}

// Of allreduce, as an error lists them: all that apply, but those that combine in any order.
std::string applying_to_ordered(const Communicator& world) {
  std::string names;
  for (const Candidate& row : world.explain(Collective::allreduce, 8)) {
    if (row.applies && row.algorithm != "circulant" && row.algorithm != "ring")
      names += (names.empty() ? "" : ", ") + std::string{row.algorithm};
  }
  return names;
}

void reductions_and_algorithms_that_do_not_apply(Communicator& world, Arguments) {
  Memory memory{world.size()};
  const std::span<int> two = memory.block();
  for (const Collective collective : {Collective::scan, Collective::exscan}) {
    refused(world, {.collective = collective, .in = two, .out = two, .reduction = average},
            "the average of a prefix has no meaning",
            "take qpmesh::sum, and divide by the number of ranks that it covers");
  }
  for (const Collective collective :
       {Collective::reduce, Collective::reduce_scatter, Collective::scan, Collective::exscan}) {
    refused(world,
            {.collective = collective,
             .in = collective == Collective::reduce_scatter ? memory.whole() : two,
             .out = two,
             .reduction = {static_cast<ReductionKind>(200)}},
            "reduction 200 does not exist", "take qpmesh::sum or one of its like");
  }

  std::string known;
  for (const Candidate& candidate : world.explain(Collective::allreduce, 8))
    known += (known.empty() ? "" : ", ") + std::string{candidate.algorithm};
  refused(
      world,
      {.collective = Collective::allreduce, .in = two, .out = two, .call = {.algorithm = "quick"}},
      "'quick' is no algorithm of allreduce", "known: " + known);
  refused(world, {.collective = Collective::barrier, .call = {.algorithm = "ring"}},
          "'ring' is no algorithm of barrier",
          "known: dissemination, one_shot, leaders, multiport");

  const auto last_wins =
      ordered([](const int* /*left*/, int* /*inout*/, std::size_t /*element_count*/) {});
  const CallOptions ring{.algorithm = "ring"};
  Expected told{ErrorCode::bad_argument, no_peer, "allreduce",
                "ring does not apply to an ordered reduction",
                "these do: " + applying_to_ordered(world)};
  expect_error([&] { world.allreduce(two, last_wins, ring); }, told);
  told.operation = "allreduce_async";
  expect_error([&] { const Request request = world.allreduce_async(two, last_wins, ring); }, told);

  const Counts counts(memory.ranks, 2);
  const std::string unequal = " does not apply to blocks of unequal lengths";
  refused(world,
          {.collective = Collective::gather,
           .in = two,
           .out = memory.whole(),
           .out_layout = BlockLayout{counts},
           .root = world.rank(),
           .call = {.algorithm = "binomial"}},
          "binomial" + unequal, "these do: linear*");
  refused(world,
          {.collective = Collective::scatter,
           .in = memory.whole(),
           .out = two,
           .in_layout = BlockLayout{counts},
           .root = world.rank(),
           .call = {.algorithm = "binomial"}},
          "binomial" + unequal, "these do: linear*");
  refused(world,
          {.collective = Collective::alltoall,
           .in = memory.whole(),
           .out = memory.other_whole(),
           .in_layout = BlockLayout{counts},
           .out_layout = BlockLayout{counts},
           .call = {.algorithm = "bruck"}},
          "bruck" + unequal, "these do: all_pairs*");
  check_nothing_happened(world);
}

}  // namespace

std::vector<Scenario> collective_argument_scenarios() {
  return {in_world("roots_out_of_range", roots_out_of_range),
          in_world("blocks_that_do_not_fit", blocks_that_do_not_fit),
          in_world("layouts_that_make_no_sense", layouts_that_make_no_sense),
          in_world("ranges_of_collectives_that_overlap", ranges_of_collectives_that_overlap),
          in_world("collectives_without_memory", collectives_without_memory),
          in_world("reductions_and_algorithms_that_do_not_apply",
                   reductions_and_algorithms_that_do_not_apply)};
}

}  // namespace qpmesh::ranks

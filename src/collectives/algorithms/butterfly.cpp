// SPDX-License-Identifier: MIT
// Butterfly: rounds of groups as in recursive multiplying, but in the first ones each rank of a
// group takes a part of the vector and reduces only that; what is too short to be cut is sent
// whole; the first rounds then run backwards, to gather. Long parts meet in groups of two, which
// reduce while segments arrive; short ones in groups of eight, for a third of the latencies.
// Operands are in rank order, each part is reduced alike wherever it is: the same bits on every
// rank, ordered reductions included.
// Wins for vectors of some KiB on very many ranks, and longer ones where circulant's latencies
// show.
// Cost about 2 (N-1)/N S beta + (N-1)/N S gamma and a latency for each round, from log8 N to
// 2 log2 N of them; where N is no power of two, two messages of the whole vector more.
// Source: R. Rabenseifner, "Optimization of collective reduction operations", 2004, with radix k.
#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"
#include "collectives/patterns/recursive_multiplying.hpp"

namespace qpmesh::collectives {
namespace {

constexpr int radix_max = 8;
constexpr int rounds_max = 31;

struct Step {
  int radix;
  bool is_cut;
};

// Of ranks that are in groups of so many still, about parts of so many bytes. From what every rank
// knows alike.
Step step_of(int ranks, std::size_t part_bytes) {
  constexpr std::size_t long_bytes_min = std::size_t{32} << 10;
  constexpr std::size_t cut_bytes_min = std::size_t{2} << 10;
  if (part_bytes >= long_bytes_min) return {2, true};
  return {std::min(ranks, radix_max), part_bytes >= cut_bytes_min};
}

// Elements of the vector.
struct Part {
  std::size_t first;
  std::size_t count;
};
Part cut(const Part& part, int into, int index) {
  const Blocks blocks = even_blocks(part.count, into);
  return {part.first + blocks.first(index), blocks.length(index)};
}

// A round that cut, to be run backwards.
struct Cut {
  Part whole;
  int radix;
  int distance;
};

Task take_part(Group group, const Arguments& arguments, RecursiveMultiplying pattern,
               const std::byte* sums) {
  const int rank = group.rank();
  Round<radix_max - 1> round{group};
  const auto bytes_of = [&](const Part& part) { return part.count * arguments.element_bytes; };
  const auto offset_of = [&](const Part& part) { return part.first * arguments.element_bytes; };
  const auto target = [&](const Part& part) {
    return std::span{arguments.out + offset_of(part), bytes_of(part)};
  };

  Part mine{0, arguments.element_count};
  std::array<Cut, rounds_max> cuts;
  std::size_t cut_count = 0;
  std::size_t part_bytes = arguments.bytes();  // the same on all ranks
  for (int distance = 1; distance < pattern.participants();) {
    // Named again: clang before 16 lets no lambda take parts of a structured binding.
    const auto step = step_of(pattern.participants() / distance, part_bytes);
    const int radix = step.radix;
    const bool is_cut = step.is_cut;
    const int digit = pattern.digit_of(rank, distance, radix);
    const Part whole = mine;
    if (is_cut) {
      cuts[cut_count++] = {whole, radix, distance};
      mine = cut(whole, radix, digit);
      part_bytes /= static_cast<std::size_t>(radix);
    }
    const bool streams = is_cut && radix == 2;  // what is sent is not what is written
    Scratch arrived{group, streams ? 0 : bytes_of(mine) * static_cast<std::size_t>(radix - 1)};
    std::byte* unused = arrived.data();
    std::array<const std::byte*, radix_max> operands;
    operands[static_cast<std::size_t>(digit)] = sums + offset_of(mine);
    pattern.for_each_exchange(rank, distance, radix, [&](auto to, auto from) {
      const Part sent = is_cut ? cut(whole, radix, to.digit) : whole;
      round.send(to.rank, {sums + offset_of(sent), bytes_of(sent)});
      if (streams) {
        round.receive_reduce(from.rank, target(mine), sums + offset_of(mine), arguments.reducer,
                             from.digit > digit ? Arriving::right : Arriving::left);
        return;
      }
      round.receive(from.rank, {unused, bytes_of(mine)});
      operands[static_cast<std::size_t>(from.digit)] = unused;
      unused += bytes_of(mine);
    });
    co_await round;
    if (!streams) {
      group.reduce(arguments.reducer, target(mine).data(),
                   {operands.data(), static_cast<std::size_t>(radix)}, bytes_of(mine));
    }
    sums = arguments.out;
    distance *= radix;
  }

  while (cut_count > 0) {
    const Cut& last = cuts[--cut_count];
    pattern.for_each_exchange(rank, last.distance, last.radix, [&](auto to, auto from) {
      round.send(to.rank, target(mine));
      round.receive(from.rank, target(cut(last.whole, last.radix, from.digit)));
    });
    co_await round;
    mine = last.whole;
  }
}

Task run(Group group, const Arguments& arguments) {
  return allreduce_folded(group, arguments, {group.size(), radix_max}, take_part);
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const RecursiveMultiplying pattern{shape.size, radix_max};
  Cost cost;
  std::size_t part_bytes = shape.bytes;
  double bytes = shape.vector_bytes();  // of a part, to the fraction
  double early_s = 0;
  for (int distance = 1; distance < pattern.participants();) {
    const auto [radix, is_cut] = step_of(pattern.participants() / distance, part_bytes);
    if (is_cut) {
      part_bytes /= static_cast<std::size_t>(radix);
      bytes /= radix;
      cost.add_round(model, radix - 1, bytes);  // backwards
    }
    cost.add_round(model, radix - 1, bytes);
    cost.time_s += is_cut && radix == 2 ? model.combined_s(bytes) - bytes * model.byte_s
                                        : (radix - 1) * bytes * model.reduced_byte_s;
    if (!is_cut && distance >= pattern.folded()) early_s += model.latency_s;
    distance *= radix;
  }
  add_folding_cost(cost, pattern, shape.vector_bytes(), early_s, model);
  return cost;
}

// Up to so many ranks recursive multiplying and circulant leave nothing to win.
bool many_ranks(const CallShape& shape) { return shape.size > RecursiveMultiplying::radix_max; }

}  // namespace

extern constexpr Algorithm allreduce_butterfly{Collective::allreduce, "butterfly", many_ranks, cost,
                                               run};

}  // namespace qpmesh::collectives

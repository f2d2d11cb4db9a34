// SPDX-License-Identifier: MIT
// Circulant (patterns/circulant.hpp): ceil(log2 N) rounds for every N. Runs of blocks travel
// together, so nothing is packed unless the caller's blocks have gaps.
// Allgather: each round doubles what a rank has. Wins for all but the smallest and the longest
// vectors. Cost ceil(log2 N) alpha + (N-1)/N S beta, and an overhead where a run wraps at block N.
// Reduce_scatter: each round halves what a rank has to reduce, as segments arrive. Wins for all but
// the smallest vectors. Each block is reduced at one rank: the same bits wherever it goes. Operands
// are not in rank order: commutative reductions only. Cost as the allgather's, and (N-1)/N S gamma.
// Allreduce: one, then the other. Wins for long vectors and any number of ranks: no power-of-two
// case.
#include "collectives/patterns/circulant.hpp"

#include "collectives/algorithm.hpp"
#include "collectives/algorithms/phases.hpp"

namespace qpmesh::collectives {

Task circulant_allgather(Group group, std::byte* vector, Blocks blocks) {
  const int size = group.size();
  const auto run_bytes = [&](BlockRun run) {
    return std::span{vector + blocks.first_bytes(run.first),
                     blocks.run_bytes(run.first, run.count)};
  };
  Round<2> round{group};  // a rotated range is at most two runs
  for (int n = ceil_log2(size) - 1; n >= 0; --n) {
    const CirculantRound step = circulant_round(size, n);
    for_each_run(group.rank(), size, 0, step.block_count(), [&](BlockRun run, int) {
      round.send(group.minus(step.next_skip), run_bytes(run));
    });
    for_each_run(group.rank(), size, step.next_skip, step.block_count(), [&](BlockRun run, int) {
      round.receive(group.plus(step.next_skip), run_bytes(run));
    });
    co_await round;
  }
}

Cost circulant_allgather_cost(const CallShape& shape, const CostModel& model, bool wraps) {
  const double block = shape.block_bytes();
  Cost cost;
  for (int n = 0; n < ceil_log2(shape.size); ++n) {
    const CirculantRound step = circulant_round(shape.size, n);
    const int count = step.block_count();
    if (wraps && count > 1) {  // on that way all but one block are before the wrap
      cost.time_s += model.port_s((count - 1) * block) + model.round_s(1, block);
      cost.messages += 2;
    } else {
      cost.time_s += model.round_s(1, count * block);
      ++cost.messages;
    }
    cost.bytes += count * block;
  }
  return cost;
}

Task circulant_reduce_scatter(Group group, const std::byte* in, std::byte* sums, Blocks blocks,
                              Reducer reducer) {
  const int size = group.size();
  const int rank = group.rank();
  const auto offset = [&](BlockRun run) { return blocks.first_bytes(run.first); };
  const auto bytes = [&](BlockRun run) { return blocks.run_bytes(run.first, run.count); };
  if (size == 1) group.copy(sums, in, blocks.bytes());
  Round<4> round{group};  // a rotated range is at most two runs, and one more cut at `reduced`

  // R[0 … reduced) have partial sums; the others are still only in `in`. The same number on every
  // rank.
  int reduced = 0;
  // Sender and receiver cut a range at the same places: where it wraps for either of them, and
  // where it leaves R[0 … reduced). One block per message would do as well; runs are fewer
  // messages.
  for (int n = 0; n < ceil_log2(size); ++n) {
    const CirculantRound step = circulant_round(size, n);
    const int next_skip = step.next_skip;
    const int count = step.block_count();
    // Sent blocks R[next_skip + i] of this rank are R[i] of the receiver.
    const int cut = reduced > next_skip && reduced < step.skip ? reduced - next_skip : count;
    const auto send_and_reduce = [&](int begin, int end) {
      for_each_run(rank, size, next_skip + begin, end - begin, [&](BlockRun run, int rotated) {
        const std::byte* const source = rotated < reduced ? sums : in;
        round.send(group.plus(next_skip), {source + offset(run), bytes(run)});
      });
      for_each_run(rank, size, begin, end - begin, [&](BlockRun run, int) {
        const std::byte* const operand = (n == 0 ? in : sums) + offset(run);
        round.receive_reduce(group.minus(next_skip), {sums + offset(run), bytes(run)}, operand,
                             reducer);
      });
    };
    send_and_reduce(0, cut);
    send_and_reduce(cut, count);
    co_await round;
    if (n == 0) reduced = count;
  }
}

Cost circulant_reduce_scatter_cost(const CallShape& shape, const CostModel& model, bool wraps) {
  const double block = shape.block_bytes();
  const int reduced = shape.size / 2;  // after the first round
  Cost cost;
  for (int n = 0; n < ceil_log2(shape.size); ++n) {
    const CirculantRound step = circulant_round(shape.size, n);
    const int count = step.block_count();
    const bool is_cut = step.skip < shape.size && reduced > step.next_skip && reduced < step.skip;
    // On the way of the ranks that wrap all but one block are before the wrap.
    const double overheads_s = ((wraps && count > 1 ? 1 : 0) + (is_cut ? 1 : 0)) * model.overhead_s;
    cost.time_s += model.latency_s +
                   std::max(overheads_s + model.combined_s(block), model.combined_s(count * block));
    cost.messages += is_cut ? 2 : 1;
    cost.bytes += count * block;
  }
  if (shape.size > 3) ++cost.messages;  // some rank's runs wrap, once
  return cost;
}

namespace {

// The same blocks one behind the other; offsets_bytes is room for the list that the result points
// to.
Blocks packed(const Blocks& blocks, std::size_t* offsets_bytes) {
  std::size_t end = 0;
  for (int block = 0; block < blocks.block_count; ++block) {
    offsets_bytes[block] = end;
    end += blocks.length_bytes(block);
  }
  Blocks result = blocks;
  result.offsets_bytes = offsets_bytes;
  result.gapless = true;
  return result;
}

Task allgather(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.out_blocks;
  if (blocks.gapless) {
    group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
    co_await circulant_allgather(group, arguments.out, blocks);
    co_return;
  }
  const Numbers<std::size_t> list{static_cast<std::size_t>(blocks.block_count)};
  const Blocks in_a_row = packed(blocks, list.data());
  Scratch vector{group, in_a_row.bytes()};
  group.copy(vector.data() + in_a_row.first_bytes(group.rank()), arguments.in, arguments.bytes());
  co_await circulant_allgather(group, vector.data(), in_a_row);
  for (int block = 0; block < blocks.block_count; ++block) {
    group.copy(arguments.out + blocks.first_bytes(block),
               vector.data() + in_a_row.first_bytes(block), blocks.length_bytes(block));
  }
}

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_allgather_cost(shape, model, true);
  cost.time_s += model.copy_s(shape.block_bytes());
  return cost;
}

Task reduce_scatter(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t offset = blocks.first_bytes(group.rank());
  if (group.size() == 1) {
    group.copy(arguments.out, arguments.in, arguments.bytes());
    co_return;
  }
  Scratch sums{group, blocks.bytes()};
  co_await circulant_reduce_scatter(group, arguments.in, sums.data(), blocks, arguments.reducer);
  group.copy(arguments.out, sums.data() + offset, arguments.bytes());
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_reduce_scatter_cost(shape, model, true);
  cost.time_s += model.copy_s(shape.block_bytes());
  return cost;
}

Task allreduce(Group group, const Arguments& arguments) {
  const Blocks blocks = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  co_await circulant_reduce_scatter(group, arguments.in, arguments.out, blocks, arguments.reducer);
  co_await circulant_allgather(group, arguments.out, blocks);
}

Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_reduce_scatter_cost(shape, model, true);
  // The rank whose runs wrap most in the second half has none in the first.
  if (shape.size > 3) --cost.messages;
  return cost += circulant_allgather_cost(shape, model, true);
}

bool blocks_make_runs(const CallShape& shape) { return any_order(shape) && !shape.uneven; }

}  // namespace

extern constexpr Algorithm allgather_circulant{Collective::allgather, "circulant", always,
                                               allgather_cost, allgather};
extern constexpr Algorithm reduce_scatter_circulant{
    Collective::reduce_scatter, "circulant", blocks_make_runs, reduce_scatter_cost, reduce_scatter};
extern constexpr Algorithm allreduce_circulant{Collective::allreduce, "circulant", any_order,
                                               allreduce_cost, allreduce};

}  // namespace qpmesh::collectives

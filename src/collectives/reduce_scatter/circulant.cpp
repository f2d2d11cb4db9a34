// Circulant reduce-scatter: ceil(log2 N) rounds for every N, each halving what a rank has to
// reduce. Wins for all but the smallest vectors. Each block is reduced at one rank: the same bits
// wherever it goes. The order of the operands is not the rank order: commutative reductions only.
// The reduction happens as segments arrive. Cost ceil(log2 N) alpha + (N-1)/N S (beta + gamma), and
// an overhead where a run wraps at block N. Source: see patterns/circulant.hpp.
#include "collectives/reduce_scatter/circulant.hpp"

#include "collectives/algorithm.hpp"
#include "collectives/patterns/circulant.hpp"

namespace qpmesh::collectives {

Task circulant_reduce_scatter(Group group, const std::byte* in, std::byte* sums, Blocks blocks,
                              Reducer reducer) {
  const int size = group.size();
  const int rank = group.rank();
  const auto offset = [&](BlockRun run) { return blocks.first_bytes(run.first); };
  const auto bytes = [&](BlockRun run) { return blocks.run_bytes(run.first, run.count); };
  Round<4> round{group};  // a rotated range is at most two runs, and one more cut at `reduced`

  // R[0 … reduced) have partial sums; the others are still only in `in`. The same number on every
  // rank.
  int reduced = 0;
  // Sender and receiver cut a range at the same places: where it wraps for either of them, and
  // where it leaves R[0 … reduced). One block per message would do as well; runs are fewer
  // messages.
  for (int n = 0; n < circulant_round_count(size); ++n) {
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
  for_each_circulant_round(shape.size, [&](CirculantRound step) {
    const int count = step.block_count();
    const bool is_cut = step.skip < shape.size && reduced > step.next_skip && reduced < step.skip;
    // On the way of the ranks that wrap all but one block are before the wrap.
    const double overheads_s = ((wraps && count > 1 ? 1 : 0) + (is_cut ? 1 : 0)) * model.overhead_s;
    cost.time_s += model.latency_s +
                   std::max(overheads_s + model.combined_s(block), model.combined_s(count * block));
    cost.messages += is_cut ? 2 : 1;
    cost.bytes += count * block;
  });
  if (shape.size > 3) ++cost.messages;  // some rank's runs wrap, once
  return cost;
}

namespace {

Task run(Group group, const Arguments& arguments) {
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

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_reduce_scatter_cost(shape, model, true);
  cost.time_s += model.copy_s(shape.block_bytes());
  return cost;
}

}  // namespace

extern constexpr Algorithm reduce_scatter_circulant{Collective::reduce_scatter, "circulant",
                                                    any_order, cost, run};

}  // namespace qpmesh::collectives

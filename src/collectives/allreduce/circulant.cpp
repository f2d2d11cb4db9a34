// Circulant reduce-scatter, then circulant allgather. Wins for long vectors and any number of ranks: no
// power-of-two case. The reduction happens as segments arrive, straight from the ring into out; the
// first reduction of a block takes its operand from in, so that in is never copied. Each block is
// reduced at one rank and then only copied: the same bits everywhere. The order of the operands is not
// the rank order: commutative reductions only.
// Cost 2 ceil(log2 N) alpha + 2 (N-1)/N S beta + (N-1)/N S gamma.
// Source: see patterns/circulant.hpp.
#include <cstring>

#include "collectives/allreduce/allreduce.hpp"
#include "collectives/patterns/blocks.hpp"
#include "collectives/patterns/circulant.hpp"

namespace qpmesh::collectives {

Task allreduce_circulant(Group group, AllreduceArguments arguments) {
  const std::byte* const in = arguments.in;
  std::byte* const out = arguments.out;
  const std::size_t element_bytes = arguments.element_bytes;
  const int size = group.size();
  const int rank = group.rank();
  if (size == 1) {
    if (in != out) std::memcpy(out, in, arguments.element_count * element_bytes);
    co_return;
  }
  const EvenBlocks blocks{arguments.element_count, size};
  const auto offset = [&](int block) { return blocks.first(block) * element_bytes; };
  const auto run_bytes = [&](BlockRun run) { return offset(run.first + run.count) - offset(run.first); };
  const CombineContext combine{arguments.kernel, element_bytes};
  const int rounds = circulant_round_count(size);
  Round<4> round{group};  // a rotated range is at most two runs, and one more cut at `reduced`

  // R[0 … reduced) have partial sums in out; the others are still only in `in`.
  // The same number on every rank.
  int reduced = 0;
  // Sender and receiver cut a range at the same places: where it wraps for either of them, and where it
  // leaves R[0 … reduced). One block per message would do as well; runs are fewer messages.
  for (int n = 0; n < rounds; ++n) {
    const CirculantRound step = circulant_round(size, n);
    const int next_skip = step.next_skip;
    const int count = step.block_count();
    // Sent blocks R[next_skip + i] of this rank are R[i] of the receiver.
    const int cut = reduced > next_skip && reduced < step.skip ? reduced - next_skip : count;
    const auto exchange = [&](int begin, int end) {
      for_each_run(rank, size, next_skip + begin, end - begin, [&](BlockRun run, int rotated) {
        const std::byte* const source = rotated < reduced ? out : in;
        round.send(group.plus(next_skip), {source + offset(run.first), run_bytes(run)});
      });
      for_each_run(rank, size, begin, end - begin, [&](BlockRun run, int) {
        const std::byte* const operand = (n == 0 ? in : out) + offset(run.first);
        round.receive_combine(group.minus(next_skip), {out + offset(run.first), run_bytes(run)}, operand,
                              combine_right, &combine);
      });
    };
    exchange(0, cut);
    exchange(cut, count);
    co_await round;
    if (n == 0) reduced = count;
  }
  for (int n = rounds - 1; n >= 0; --n) {
    const CirculantRound step = circulant_round(size, n);
    const int next_skip = step.next_skip;
    const int count = step.block_count();
    for_each_run(rank, size, 0, count, [&](BlockRun run, int) {
      round.send(group.minus(next_skip), {out + offset(run.first), run_bytes(run)});
    });
    for_each_run(rank, size, next_skip, count, [&](BlockRun run, int) {
      round.receive(group.plus(next_skip), {out + offset(run.first), run_bytes(run)});
    });
    co_await round;
  }
}

}  // namespace qpmesh::collectives

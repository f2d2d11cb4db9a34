// Circulant allgather: ceil(log2 N) rounds for every N, each doubling what a rank has. Wins for all
// but the smallest and the longest vectors. Runs of blocks travel together, so nothing is packed
// unless the caller's blocks have gaps. Cost ceil(log2 N) alpha + (N-1)/N S beta, and an overhead
// where a run wraps at block N. Source: see patterns/circulant.hpp.
#include "collectives/allgather/circulant.hpp"

#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/patterns/circulant.hpp"

namespace qpmesh::collectives {
namespace {

// The same blocks one behind the other; displacements keeps the list that the result points to.
Blocks packed(const Blocks& blocks, std::vector<std::size_t>& displacements) {
  std::size_t end = 0;
  for (int block = 0; block < blocks.block_count; ++block) {
    displacements.push_back(end);
    end += blocks.length(block);
  }
  Blocks result = blocks;
  result.displacements = displacements.data();
  result.gapless = true;
  return result;
}

}  // namespace

Task circulant_allgather(Group group, std::byte* vector, Blocks blocks) {
  const int size = group.size();
  const auto run_bytes = [&](BlockRun run) {
    return std::span{vector + blocks.first_bytes(run.first),
                     blocks.run_bytes(run.first, run.count)};
  };
  Round<2> round{group};  // a rotated range is at most two runs
  for (int n = circulant_round_count(size) - 1; n >= 0; --n) {
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
  for_each_circulant_round(shape.size, [&](CirculantRound step) {
    const int count = step.block_count();
    if (wraps && count > 1) {  // on that way all but one block are before the wrap
      cost.time_s += model.port_s((count - 1) * block) + model.round_s(1, block);
      cost.messages += 2;
    } else {
      cost.time_s += model.round_s(1, count * block);
      ++cost.messages;
    }
    cost.bytes += count * block;
  });
  return cost;
}

namespace {

Task run(Group group, const Arguments& arguments) {
  const Blocks& blocks = arguments.out_blocks;
  if (blocks.gapless) {
    group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
    co_await circulant_allgather(group, arguments.out, blocks);
    co_return;
  }
  std::vector<std::size_t> displacements;
  const Blocks in_a_row = packed(blocks, displacements);
  Scratch vector{group, in_a_row.bytes()};
  group.copy(vector.data() + in_a_row.first_bytes(group.rank()), arguments.in, arguments.bytes());
  co_await circulant_allgather(group, vector.data(), in_a_row);
  for (int block = 0; block < blocks.block_count; ++block) {
    group.copy(arguments.out + blocks.first_bytes(block),
               vector.data() + in_a_row.first_bytes(block), blocks.length_bytes(block));
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost = circulant_allgather_cost(shape, model, true);
  cost.time_s += model.copy_s(shape.block_bytes());
  return cost;
}

}  // namespace

extern constexpr Algorithm allgather_circulant{Collective::allgather, "circulant", always, cost,
                                               run};

}  // namespace qpmesh::collectives

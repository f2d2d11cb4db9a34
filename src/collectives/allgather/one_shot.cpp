// One shot: every rank publishes its block, and takes the others' where they lie.
// See node/one_shot.hpp.
#include "collectives/node/one_shot.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.out_blocks;
  co_await node.own_slot();
  node.publish({arguments.in, arguments.bytes()});
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, arguments.bytes());
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    const std::size_t bytes = blocks.length_bytes(from);
    group.copy(arguments.out + blocks.first_bytes(from), node.slot_data(from), bytes);
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return CoreWork{shape, model}
      .steps(1)
      .keep(block)
      .give(block)
      .take(shape.vector_bytes() - block)
      .cost();
}

}  // namespace

extern constexpr Algorithm allgather_one_shot{Collective::allgather, "one_shot", fits_one_shot,
                                              cost, run};

}  // namespace qpmesh::collectives

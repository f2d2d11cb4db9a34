// One shot: every rank publishes all its blocks, and takes its own of the others' where they lie.
// See node/one_shot.hpp.
#include "collectives/node/one_shot.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t bytes = blocks.length_bytes(0);
  co_await node.own_slot();
  node.publish({arguments.in, blocks.bytes()});
  const std::size_t place = blocks.first_bytes(group.rank());
  group.copy(arguments.out + place, arguments.in + place, bytes);
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    co_await node.member(from, 1);
    group.copy(arguments.out + blocks.first_bytes(from), node.slot_data(from) + place, bytes);
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}
      .steps(1)
      .keep(2 * block)
      .give_parts(others)
      .take_parts(others)
      .cost();
}

}  // namespace

extern constexpr Algorithm alltoall_one_shot{Collective::alltoall, "one_shot", fits_one_shot, cost,
                                             run};

}  // namespace qpmesh::collectives

// One shot: every rank publishes its vector, and reduces its block of all of them where they lie.
// See node/one_shot.hpp.
#include "collectives/node/one_shot.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  co_await node.own_slot();
  node.publish({arguments.in, blocks.bytes()});
  co_await node.all(1);
  reduce_parts(group, node, arguments, blocks.first_bytes(group.rank()));
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double others = shape.vector_bytes() - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(1)
      .keep(shape.block_bytes())
      .give_parts(others)
      .take_parts(others)
      .reduce(others)
      .cost();
}

}  // namespace

extern constexpr Algorithm reduce_scatter_one_shot{Collective::reduce_scatter, "one_shot",
                                                   fits_one_shot, cost, run};

}  // namespace qpmesh::collectives

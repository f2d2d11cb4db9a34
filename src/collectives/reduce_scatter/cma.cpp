// Cross memory attach: every rank reduces its block of all vectors, copied straight out of where
// they lie. See node/cma_reduction.hpp.
#include "collectives/algorithm.hpp"
#include "collectives/node/cma_reduction.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t own = blocks.first_bytes(group.rank());
  const Parts parts{group, arguments.bytes(), arguments.element_bytes};
  co_await node.own_slot();
  node.publish_in_place(arguments.in, blocks.bytes());
  co_await node.all(1);
  const auto unread =
      reduce_in_place(group, node, arguments, parts, arguments.out, own, arguments.bytes());
  if (unread) co_await node.failure_of(*unread);
  co_await node.none_withdrawn();  // of Buffers, which were reduced where they lie
  node.advance(2);
  co_await node.all(2);  // others still read ours
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  const double others = shape.vector_bytes() - block;
  return CoreWork{shape, model}
      .steps(2)
      .system_copies(copies(shape), others)
      .reduce(others)
      .stream(shape.vector_bytes() + block)
      .cost();
}

}  // namespace

extern constexpr Algorithm reduce_scatter_cma{Collective::reduce_scatter, "cma", fits_cma, cost,
                                              run};

}  // namespace qpmesh::collectives

// Cross memory attach: every rank reduces its slice of all vectors, copied straight out of where
// they lie, and then copies the others' slices of the result from there. Cost per rank: (N-1)/N S
// copied and reduced, and (N-1)/N S copied once more; a call of the system for each copy; three
// steps. See node/cma_reduction.hpp.
#include "collectives/algorithm.hpp"
#include "collectives/node/cma_reduction.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  NodeOperation node{group};
  const Blocks slices = even_blocks(arguments.element_count, group.size(), arguments.element_bytes);
  const std::size_t own = slices.first_bytes(group.rank());
  const std::size_t own_bytes = slices.length_bytes(group.rank());
  const Parts parts{group, own_bytes, arguments.element_bytes};
  co_await node.own_slot();
  node.publish_in_place(arguments.in, arguments.bytes(), arguments.out);
  co_await node.all(1);
  const auto unread =
      reduce_in_place(group, node, arguments, parts, arguments.out + own, own, own_bytes);
  if (unread) co_await node.failure_of(*unread);
  node.advance(2);
  // Whoever has come to step 2 reads no more of our vector, which may be where the result goes.
  for (int distance = 1; distance < group.size(); ++distance) {
    const int from = group.plus(distance);
    const std::size_t first = slices.first_bytes(from);
    co_await node.member(from, 2);
    if (!node.copy_result_in_place(from, arguments.out + first, first, slices.length_bytes(from)))
      co_await node.failure_of(from);
  }
  node.advance(3);
  co_await node.all(3);  // others still read ours
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = bytes - shape.block_bytes();
  return CoreWork{shape, model}
      .steps(3)
      .system_copies(copies(shape) + shape.ranks() - 1, 2 * others)
      .reduce(others)
      .stream(2 * bytes + others)  // the others' results have left the caches by then
      .cost();
}

}  // namespace

extern constexpr Algorithm allreduce_cma{Collective::allreduce, "cma", fits_cma, cost, run};

}  // namespace qpmesh::collectives

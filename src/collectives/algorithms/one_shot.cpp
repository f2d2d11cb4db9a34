// One shot: every rank that has something to give publishes it beside its flag, and every rank that
// wants it reads it there. Reductions are in rank order, the same everywhere: the same bits on
// every rank, ordered ones included.
// Wins for small vectors on one node: one cache line from core to core, and one turn on the core
// for each rank when ranks share cores. Cost one line, and N S read.
// Sources: NCCL's AGxLL_R kernels; MSCCL++'s all-pairs packets.
#include "collectives/algorithm.hpp"
#include "collectives/node/operation.hpp"
#include "collectives/node/work.hpp"

namespace qpmesh::collectives {
namespace {

// What is published in one go.
constexpr std::size_t one_shot_bytes_max = std::size_t{8} << 10;

// The ranks share memory, and the vector is short.
bool fits(const CallShape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes <= one_shot_bytes_max;
}

// The operation of a rank that publishes so many bytes.
std::size_t staging_for(std::size_t bytes) { return NodeOperation::staging_for(bytes); }

// A flag alone.
Task barrier(Group group, const Arguments& /*arguments*/) {
  NodeOperation node{group};
  co_await node.own_slot();
  node.publish({});
  co_await node.all(1);
}

Cost barrier_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {});
}

Task broadcast(Group group, const Arguments& arguments) {
  const std::size_t bytes = arguments.bytes();
  const bool is_root = group.rank() == arguments.root;
  NodeOperation node{group, is_root ? staging_for(bytes) : 0};
  if (is_root) {
    co_await node.own_slot();
    node.publish({arguments.out, bytes});
    co_return;
  }
  co_await node.member(arguments.root, 1);
  group.copy(arguments.out, node.published(arguments.root, bytes), bytes);
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  return core_cost(shape, model, 1, {.take = bytes}, {.give = bytes});
}

// The reductions: who wants a result, or its block of it, reduces all vectors where they were
// published.
template <Collective collective>
Task reduction(Group group, const Arguments& arguments) {
  constexpr bool is_scattered = collective == Collective::reduce_scatter;
  const Blocks& blocks = arguments.in_blocks;
  const std::size_t in_bytes = is_scattered ? blocks.bytes() : arguments.bytes();
  // Nobody reads a root's.
  const bool gives = collective != Collective::reduce || group.rank() != arguments.root;
  NodeOperation node{group, gives ? staging_for(in_bytes) : 0};
  if (gives) {
    co_await node.own_slot();
    node.publish({arguments.in, in_bytes});
    if (collective == Collective::reduce) co_return;
  }
  co_await node.all(1);
  const std::size_t begin = is_scattered ? blocks.first_bytes(group.rank()) : 0;
  reduce_in_rank_order(group, arguments.reducer, arguments.out, arguments.in + begin,
                       arguments.bytes(),
                       [&](int rank) { return node.published(rank, in_bytes) + begin; });
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return core_cost(shape, model, 1, {.give = bytes}, {.take = others, .reduce = others});
}

Cost allreduce_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return core_cost(shape, model, 1, {.give = bytes, .take = others, .reduce = others});
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  const double others = shape.others_bytes();
  return core_cost(shape, model, 1,
                   {.keep = shape.block_bytes(), .parts = 2 * others, .reduce = others});
}

Task gather(Group group, const Arguments& arguments) {
  const std::size_t bytes = arguments.bytes();
  const bool is_root = group.rank() == arguments.root;
  NodeOperation node{group, is_root ? 0 : staging_for(bytes)};
  if (!is_root) {
    co_await node.own_slot();
    node.publish({arguments.in, bytes});
    co_return;
  }
  const Blocks& blocks = arguments.out_blocks;
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in, bytes);
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    co_await node.member(from, 1);
    group.copy(arguments.out + blocks.first_bytes(from), node.published(from, bytes), bytes);
  }
}

Cost gather_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {.give = shape.block_bytes()}, {.take = shape.others_bytes()});
}

// The root publishes all blocks: to leave out its own is worth no second copy.
Task scatter(Group group, const Arguments& arguments) {
  const std::size_t bytes = arguments.bytes();
  const std::size_t all_bytes = bytes * static_cast<std::size_t>(group.size());
  const std::size_t own = bytes * static_cast<std::size_t>(group.rank());
  const bool is_root = group.rank() == arguments.root;
  NodeOperation node{group, is_root ? staging_for(all_bytes) : 0};
  if (is_root) {
    co_await node.own_slot();
    node.publish({arguments.in, all_bytes});
    group.copy(arguments.out, arguments.in + own, bytes);
    co_return;
  }
  co_await node.member(arguments.root, 1);
  group.copy(arguments.out, node.published(arguments.root, all_bytes) + own, bytes);
}

Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {.parts = shape.block_bytes()}, {.give = shape.vector_bytes()});
}

// Allgather and alltoall: every rank publishes all that it has, and takes of the others' what is
// for it: all, or its block.
template <Collective collective>
Task take_blocks(Group group, const Arguments& arguments) {
  constexpr bool is_alltoall = collective == Collective::alltoall;
  const Blocks& blocks = arguments.out_blocks;
  const std::size_t in_bytes = is_alltoall ? arguments.in_blocks.bytes() : arguments.bytes();
  const std::size_t begin = is_alltoall ? arguments.in_blocks.first_bytes(group.rank()) : 0;
  NodeOperation node{group, staging_for(in_bytes)};
  co_await node.own_slot();
  node.publish({arguments.in, in_bytes});
  group.copy(arguments.out + blocks.first_bytes(group.rank()), arguments.in + begin,
             blocks.length_bytes(group.rank()));
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    co_await node.member(from, 1);
    const std::size_t bytes = blocks.length_bytes(from);
    const std::byte* const published = node.published(from, is_alltoall ? in_bytes : bytes);
    group.copy(arguments.out + blocks.first_bytes(from), published + begin, bytes);
  }
}

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return core_cost(shape, model, 1, {.keep = block, .give = block, .take = shape.others_bytes()});
}

Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1,
                   {.keep = 2 * shape.block_bytes(), .parts = 2 * shape.others_bytes()});
}

}  // namespace

extern constexpr Algorithm barrier_one_shot{Collective::barrier, "one_shot", fits, barrier_cost,
                                            barrier};
extern constexpr Algorithm broadcast_one_shot{Collective::broadcast, "one_shot", fits,
                                              broadcast_cost, broadcast};
extern constexpr Algorithm reduce_one_shot{
    Collective::reduce, "one_shot", fits, reduce_cost, reduction<Collective::reduce>,
    Bits::of_rank_order};
extern constexpr Algorithm reduce_scatter_one_shot{Collective::reduce_scatter,
                                                   "one_shot",
                                                   fits,
                                                   reduce_scatter_cost,
                                                   reduction<Collective::reduce_scatter>,
                                                   Bits::of_rank_order};
extern constexpr Algorithm allreduce_one_shot{
    Collective::allreduce, "one_shot", fits, allreduce_cost, reduction<Collective::allreduce>,
    Bits::of_rank_order};
extern constexpr Algorithm allgather_one_shot{Collective::allgather, "one_shot", fits,
                                              allgather_cost, take_blocks<Collective::allgather>};
extern constexpr Algorithm gather_one_shot{Collective::gather, "one_shot", fits, gather_cost,
                                           gather};
extern constexpr Algorithm scatter_one_shot{Collective::scatter, "one_shot", fits, scatter_cost,
                                            scatter};
extern constexpr Algorithm alltoall_one_shot{Collective::alltoall, "one_shot", fits, alltoall_cost,
                                             take_blocks<Collective::alltoall>};

}  // namespace qpmesh::collectives

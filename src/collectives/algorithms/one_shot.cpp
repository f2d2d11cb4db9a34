// SPDX-License-Identifier: MIT
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

// The ranks share memory, and the vector is short.
bool fits(const CallShape& shape) {
  return shape.one_node && !shape.uneven && shape.size > 1 && shape.size <= node_ranks_max &&
         shape.bytes <= one_shot_bytes_max;
}

// One rank's part: what it publishes, if it gives, and the members whose parts it takes.
struct Part {
  bool gives = false;
  std::span<const std::byte> given{};
  RankRange takes_from{};
};
Part gives_all(const Group& group, std::span<const std::byte> given) {
  return {.gives = true, .given = given, .takes_from = {0, group.size()}};
}
// A broadcast's or scatter's, and the other way round.
Part from_root(const Group& group, const Arguments& arguments, std::span<const std::byte> given) {
  if (group.rank() == arguments.root) return {.gives = true, .given = given};
  return {.takes_from = {arguments.root, arguments.root + 1}};
}
Part to_root(const Group& group, const Arguments& arguments, std::span<const std::byte> given) {
  if (group.rank() != arguments.root) return {.gives = true, .given = given};
  return {.takes_from = {0, group.size()}};
}

// A collective: its part(), what a rank does by itself while others come, and how it takes what
// they gave.
struct Shot {
  static constexpr SlotBank bank = SlotBank::ahead;
  static void keep(const Group& /*group*/, const Arguments& /*arguments*/) {}
  static void take(const NodeOperation& /*node*/, const Group& /*group*/,
                   const Arguments& /*arguments*/) {}
};

template <class Shot>
void give(NodeOperation& node, const Part& part, const Group& group, const Arguments& arguments) {
  if (part.gives) node.publish(part.given);
  else node.prefetch_next(arguments.bytes());
  Shot::keep(group, arguments);
}

// What is left where it has to wait for long.
template <class Shot>
Task go_on(Group group, const Arguments& arguments, Part part, bool has_given, NodeOperation node) {
  if (!has_given) {
    co_await node.own_slot();
    give<Shot>(node, part, group, arguments);
  }
  co_await node.members(part.takes_from, 1);
  Shot::take(node, group, arguments);
}

// All of it at once, if it can: a task costs as much as a quarter of an exchange of flags.
template <class Shot>
Task run(Group group, const Arguments& arguments) {
  const Part part = Shot::part(group, arguments);
  NodeOperation node{group, NodeOperation::staging_for(part.given.size()), Shot::bank};
  node.fetch_next(part.takes_from, arguments.bytes());
  if (part.gives && !node.has_own_slot() && !node.own_slot().is_soon_over())
    return go_on<Shot>(group, arguments, part, false, std::move(node));
  give<Shot>(node, part, group, arguments);
  if (!node.members(part.takes_from, 1).is_soon_over())
    return go_on<Shot>(group, arguments, part, true, std::move(node));
  Shot::take(node, group, arguments);
  return Task::ended();
}

// One in which every member gives and takes.
struct Exchange : Shot {
  static constexpr SlotBank bank = SlotBank::together;
};

// A flag alone.
struct Barrier : Exchange {
  static Part part(const Group& group, const Arguments& /*arguments*/) {
    return gives_all(group, {});
  }
};

Cost barrier_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {});
}

struct Broadcast : Shot {
  static Part part(const Group& group, const Arguments& arguments) {
    return from_root(group, arguments, {arguments.out, arguments.bytes()});
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    if (group.rank() == arguments.root) return;
    const std::size_t bytes = arguments.bytes();
    group.copy(arguments.out, node.published(arguments.root, bytes), bytes);
  }
};

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  return core_cost(shape, model, 1, {.take = bytes}, {.give = bytes});
}

// The reductions: who wants a result, or its block of it, reduces all vectors where they were
// published.
template <Collective collective>
struct Reduction : Shot {
  static constexpr SlotBank bank =
      collective == Collective::reduce ? SlotBank::ahead : SlotBank::together;
  static std::size_t in_bytes(const Arguments& arguments) {
    return collective == Collective::reduce_scatter ? arguments.in_blocks.bytes()
                                                    : arguments.bytes();
  }
  // Of a rank whose block is empty.
  static bool wants_nothing(const Arguments& arguments) {
    return collective == Collective::reduce_scatter && arguments.bytes() == 0;
  }
  static Part part(const Group& group, const Arguments& arguments) {
    const std::span given{arguments.in, in_bytes(arguments)};
    if (collective == Collective::reduce) return to_root(group, arguments, given);
    if (wants_nothing(arguments)) return {.gives = true, .given = given};
    return gives_all(group, given);
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    if (wants_nothing(arguments)) return;
    if (collective == Collective::reduce && group.rank() != arguments.root) return;
    const std::size_t begin = collective == Collective::reduce_scatter
                                  ? arguments.in_blocks.first_bytes(group.rank())
                                  : 0;
    const std::size_t bytes = in_bytes(arguments);
    reduce_in_rank_order(group, arguments.reducer, arguments.out, arguments.in + begin,
                         arguments.bytes(),
                         [&](int rank) { return node.published(rank, bytes) + begin; });
  }
};

// A rank wants the vectors before it, and its own: the first one waits for nobody.
template <Collective collective>
struct Scan : Shot {
  static constexpr bool is_exclusive = collective == Collective::exscan;
  static Part part(const Group& group, const Arguments& arguments) {
    Part part{.takes_from = {0, group.rank()}};
    if (group.rank() + 1 < group.size()) {
      part.gives = true;
      part.given = {arguments.in, arguments.bytes()};
    }
    return part;
  }
  static void keep(const Group& group, const Arguments& arguments) {
    if (group.rank() == 0 && !is_exclusive)
      group.copy(arguments.out, arguments.in, arguments.bytes());
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    if (group.rank() == 0) return;
    const std::size_t bytes = arguments.bytes();
    reduce_before(group, arguments.reducer, arguments.out, is_exclusive ? nullptr : arguments.in,
                  bytes, [&](int rank) { return node.published(rank, bytes); });
  }
};

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

// Of the last rank, which all wait for that call again.
Cost scan_cost(const CallShape& shape, const CostModel& model) {
  const double bytes = shape.vector_bytes();
  const double others = (shape.ranks() - 1) * bytes;
  return core_cost(shape, model, 1, {.give = bytes}, {.take = others, .reduce = others});
}

Cost reduce_scatter_cost(const CallShape& shape, const CostModel& model) {
  const double others = shape.others_bytes();
  return core_cost(shape, model, 1,
                   {.keep = shape.block_bytes(), .parts = 2 * others, .reduce = others});
}

// Each other member's block, from the next rank on: not all from the same one at once.
template <class Published>
void take_blocks(const Group& group, const Arguments& arguments, Published&& published) {
  const Blocks& blocks = arguments.out_blocks;
  for (int from = group.next(); from != group.rank(); from = group.after(from)) {
    const std::size_t bytes = blocks.length_bytes(from);
    group.copy(arguments.out + blocks.first_bytes(from), published(from, bytes), bytes);
  }
}

struct Gather : Shot {
  static Part part(const Group& group, const Arguments& arguments) {
    return to_root(group, arguments, {arguments.in, arguments.bytes()});
  }
  static void keep(const Group& group, const Arguments& arguments) {
    if (group.rank() != arguments.root) return;
    group.copy(arguments.out + arguments.out_blocks.first_bytes(group.rank()), arguments.in,
               arguments.bytes());
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    if (group.rank() != arguments.root) return;
    take_blocks(group, arguments,
                [&](int from, std::size_t bytes) { return node.published(from, bytes); });
  }
};

Cost gather_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {.give = shape.block_bytes()}, {.take = shape.others_bytes()});
}

// The root publishes all blocks: to leave out its own is worth no second copy.
struct Scatter : Shot {
  static std::span<const std::byte> all(const Group& group, const Arguments& arguments) {
    return {arguments.in, arguments.bytes() * static_cast<std::size_t>(group.size())};
  }
  static std::size_t own(const Group& group, const Arguments& arguments) {
    return arguments.bytes() * static_cast<std::size_t>(group.rank());
  }
  static Part part(const Group& group, const Arguments& arguments) {
    return from_root(group, arguments, all(group, arguments));
  }
  static void keep(const Group& group, const Arguments& arguments) {
    if (group.rank() != arguments.root) return;
    group.copy(arguments.out, arguments.in + own(group, arguments), arguments.bytes());
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    if (group.rank() == arguments.root) return;
    const std::size_t all_bytes = all(group, arguments).size();
    group.copy(arguments.out, node.published(arguments.root, all_bytes) + own(group, arguments),
               arguments.bytes());
  }
};

Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1, {.parts = shape.block_bytes()}, {.give = shape.vector_bytes()});
}

struct Allgather : Exchange {
  static Part part(const Group& group, const Arguments& arguments) {
    return gives_all(group, {arguments.in, arguments.bytes()});
  }
  static void keep(const Group& group, const Arguments& arguments) {
    group.copy(arguments.out + arguments.out_blocks.first_bytes(group.rank()), arguments.in,
               arguments.bytes());
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    take_blocks(group, arguments,
                [&](int from, std::size_t bytes) { return node.published(from, bytes); });
  }
};

// Every rank publishes all its blocks.
struct Alltoall : Exchange {
  static Part part(const Group& group, const Arguments& arguments) {
    return gives_all(group, {arguments.in, arguments.in_blocks.bytes()});
  }
  static void keep(const Group& group, const Arguments& arguments) {
    group.copy(arguments.out + arguments.out_blocks.first_bytes(group.rank()),
               arguments.in + arguments.in_blocks.first_bytes(group.rank()),
               arguments.out_blocks.length_bytes(group.rank()));
  }
  static void take(const NodeOperation& node, const Group& group, const Arguments& arguments) {
    const std::size_t all_bytes = arguments.in_blocks.bytes();
    const std::size_t begin = arguments.in_blocks.first_bytes(group.rank());
    take_blocks(group, arguments, [&](int from, std::size_t /*bytes*/) {
      return node.published(from, all_bytes) + begin;
    });
  }
};

Cost allgather_cost(const CallShape& shape, const CostModel& model) {
  const double block = shape.block_bytes();
  return core_cost(shape, model, 1, {.keep = block, .give = block, .take = shape.others_bytes()});
}

Cost alltoall_cost(const CallShape& shape, const CostModel& model) {
  return core_cost(shape, model, 1,
                   {.keep = 2 * shape.block_bytes(), .parts = 2 * shape.others_bytes()});
}

}  // namespace

extern constexpr Algorithm barrier_one_shot{
    Collective::barrier, "one_shot",    fits, barrier_cost,
    run<Barrier>,        Bits::its_own, 0,    Stores::cached};
extern constexpr Algorithm broadcast_one_shot{
    Collective::broadcast, "one_shot",    fits, broadcast_cost,
    run<Broadcast>,        Bits::its_own, 0,    Stores::cached};
extern constexpr Algorithm reduce_one_shot{
    Collective::reduce,  "one_shot", fits,          reduce_cost, run<Reduction<Collective::reduce>>,
    Bits::of_rank_order, 0,          Stores::cached};
extern constexpr Algorithm reduce_scatter_one_shot{Collective::reduce_scatter,
                                                   "one_shot",
                                                   fits,
                                                   reduce_scatter_cost,
                                                   run<Reduction<Collective::reduce_scatter>>,
                                                   Bits::of_rank_order,
                                                   0,
                                                   Stores::cached};
extern constexpr Algorithm allreduce_one_shot{Collective::allreduce,
                                              "one_shot",
                                              fits,
                                              allreduce_cost,
                                              run<Reduction<Collective::allreduce>>,
                                              Bits::of_rank_order,
                                              0,
                                              Stores::cached};
extern constexpr Algorithm allgather_one_shot{
    Collective::allgather, "one_shot",    fits, allgather_cost,
    run<Allgather>,        Bits::its_own, 0,    Stores::cached};
extern constexpr Algorithm gather_one_shot{Collective::gather, "one_shot",    fits, gather_cost,
                                           run<Gather>,        Bits::its_own, 0,    Stores::cached};
extern constexpr Algorithm scatter_one_shot{
    Collective::scatter, "one_shot",    fits, scatter_cost,
    run<Scatter>,        Bits::its_own, 0,    Stores::cached};
extern constexpr Algorithm alltoall_one_shot{
    Collective::alltoall, "one_shot",    fits, alltoall_cost,
    run<Alltoall>,        Bits::its_own, 0,    Stores::cached};
extern constexpr Algorithm scan_one_shot{
    Collective::scan,    "one_shot", fits,          scan_cost, run<Scan<Collective::scan>>,
    Bits::of_rank_order, 0,          Stores::cached};
extern constexpr Algorithm exscan_one_shot{
    Collective::exscan,  "one_shot", fits,          scan_cost, run<Scan<Collective::exscan>>,
    Bits::of_rank_order, 0,          Stores::cached};

}  // namespace qpmesh::collectives

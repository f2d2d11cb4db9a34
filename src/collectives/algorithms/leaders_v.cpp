// SPDX-License-Identifier: MIT
// Leaders of a v-form: of a gather or scatter whose lengths only the ranks concerned know. The
// ranks of a node tell each other how long their blocks are; the root has the same numbers. Blocks
// that are short on average go between the root and the node's leader all together, longer ones
// between the root and each rank. Either way a list of the node's lengths goes first, between the
// root and the leader: ends that were given different ones are told so, and whose block it is,
// where they would otherwise wait for what nobody sends.
// Wins for short blocks of many ranks: two messages for each node where `linear` has one for each.
// Cost: that of `leaders`, of an allgather of one word on the node, and of the lists.
// Sources: those of leaders and linear.
#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/hierarchy.hpp"
#include "messaging/elements.hpp"

namespace qpmesh::collectives {
namespace {

// On average over a node: two more copies of a longer block take more than a message.
constexpr std::size_t together_bytes_max = 4'096;

// Lengths of the blocks of a node, in elements, by index there. A node of one rank has no list to
// tell: the length of its message says it all.
using Lengths = std::span<std::size_t>;

bool are_told(Lengths lengths) noexcept { return lengths.size() > 1; }
std::size_t bytes_of(Lengths lengths, std::size_t element_bytes) noexcept {
  return std::reduce(lengths.begin(), lengths.end()) * element_bytes;
}
bool go_together(Lengths lengths, std::size_t element_bytes) noexcept {
  return are_told(lengths) &&
         bytes_of(lengths, element_bytes) <= together_bytes_max * lengths.size();
}
std::span<std::byte> as_message(Lengths lengths) noexcept {
  return std::as_writable_bytes(lengths);
}

// What the other end told beside what this one was given. ranks: of the node. Throws
// Error{mismatch}.
void check(Lengths told, Lengths given, std::span<const int> ranks, std::size_t element_bytes) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (told[i] == given[i]) continue;
    throw Error{
        messaging::wrong_step_length(ranks[i], told[i] * element_bytes, given[i] * element_bytes)};
  }
}

// ---- the root's node: the root has the lengths there ----

Task on_root_node(Group group, const Arguments& arguments, Collective collective, Ticket& after) {
  Hierarchy& levels = group.hierarchy();
  const std::span ranks = levels.placement().ranks_of(levels.node());
  const Blocks& all = collective == Collective::gather ? arguments.out_blocks : arguments.in_blocks;
  const auto rank_of = [&](int index) { return ranks[static_cast<std::size_t>(index)]; };
  const ListedBlocks here{group.rank() == arguments.root ? levels.node_ranks() : 0,
                          arguments.element_bytes,
                          [&](int index) { return all.length(rank_of(index)); },
                          [&](int index) { return all.first_bytes(rank_of(index)); }};
  Arguments part = arguments;
  part.root = levels.placement().index_of(arguments.root);
  part.in_blocks = part.out_blocks = here.blocks();
  co_await after.pass();
  co_await levels.after(group, collective, 0, part, true);
}

// ---- the others: a node's ranks tell each other the lengths ----

// Until this rank knows how long the block of each rank of its node is.
Task tell(Group group, const Arguments& arguments, Lengths lengths, Ticket& before) {
  Hierarchy& levels = group.hierarchy();
  Arguments part = no_arguments;
  part.in = reinterpret_cast<const std::byte*>(&arguments.element_count);
  part.out = as_message(lengths).data();
  part.element_count = 1;
  part.element_bytes = sizeof arguments.element_count;
  part.out_blocks = even_blocks(lengths.size(), levels.node_ranks(), part.element_bytes);
  co_await before.pass();
  co_await levels.before(group, Collective::allgather, part.out_blocks.bytes(), part);
}

ListedBlocks listed(Lengths lengths, std::size_t element_bytes) {
  return {static_cast<int>(lengths.size()), element_bytes,
          [&](int index) { return lengths[static_cast<std::size_t>(index)]; }};
}

// ---- the root, and the other nodes ----

// What the root was given, node by node, and a walk along all nodes but its own.
class GivenLengths {
 public:
  GivenLengths(const Group& group, int root, const Blocks& all)
      : placement_{group.hierarchy().placement()},
        root_node_{placement_.node_of(root)},
        element_bytes_{all.element_bytes},
        lengths_{placement_.ranks().size()} {
    std::ranges::transform(placement_.ranks(), lengths_.data(),
                           [&](int rank) { return all.length(rank); });
  }

  int first() const noexcept { return after(root_node_); }
  int after(int node) const noexcept { return (node + 1) % placement_.nodes(); }
  int end() const noexcept { return root_node_; }

  std::span<const int> ranks(int node) const noexcept { return placement_.ranks_of(node); }
  int leader(int node) const noexcept { return ranks(node)[0]; }
  Lengths of(int node) const noexcept { return part_of(lengths_, node); }
  // The same of another list that is laid out alike.
  Lengths part_of(const Numbers<std::size_t>& lengths, int node) const noexcept {
    return {lengths.data() + placement_.ranks_before(node), ranks(node).size()};
  }
  bool go_together(int node) const noexcept {
    return collectives::go_together(of(node), element_bytes_);
  }
  std::size_t bytes(int node) const noexcept { return bytes_of(of(node), element_bytes_); }
  std::size_t bytes_together() const noexcept {
    std::size_t all = 0;
    for (int node = first(); node != end(); node = after(node)) {
      if (go_together(node)) all += bytes(node);
    }
    return all;
  }

 private:
  const Placement& placement_;
  int root_node_;
  std::size_t element_bytes_;
  Numbers<std::size_t> lengths_;
};

Task gather_from_nodes(Group group, const Arguments& arguments) {
  const Blocks& all = arguments.out_blocks;
  const GivenLengths given{group, arguments.root, all};
  const Numbers<std::size_t> told{static_cast<std::size_t>(group.size())};
  const Scratch together{group, given.bytes_together()};
  Round<messages_in_flight_max> round{group};
  for (int node = given.first(); node != given.end(); node = given.after(node)) {
    if (!are_told(given.of(node))) continue;
    round.receive(given.leader(node), as_message(given.part_of(told, node)));
    if (round.full()) co_await round;
  }
  co_await round;
  std::byte* next = together.data();
  for (int node = given.first(); node != given.end(); node = given.after(node)) {
    if (are_told(given.of(node)))
      check(given.part_of(told, node), given.of(node), given.ranks(node), all.element_bytes);
    if (given.go_together(node)) {
      std::byte* const vector = std::exchange(next, next + given.bytes(node));
      round.receive(given.leader(node), {vector, next});
      if (round.full()) co_await round;
      continue;
    }
    for (const int rank : given.ranks(node)) {
      round.receive(rank, all.of(arguments.out, rank));
      if (round.full()) co_await round;
    }
  }
  co_await round;
  const std::byte* from = together.data();
  for (int node = given.first(); node != given.end(); node = given.after(node)) {
    if (!given.go_together(node)) continue;
    for (const int rank : given.ranks(node)) {
      const std::span<std::byte> block = all.of(arguments.out, rank);
      group.copy(block.data(), from, block.size());
      from += block.size();
    }
  }
}

Task scatter_to_nodes(Group group, const Arguments& arguments) {
  const Blocks& all = arguments.in_blocks;
  const GivenLengths given{group, arguments.root, all};
  const Scratch together{group, given.bytes_together()};
  Round<messages_in_flight_max> round{group};
  // All lists first: a leader takes its block when it has read its list, and would hold up the
  // messages that are in flight with both.
  for (int node = given.first(); node != given.end(); node = given.after(node)) {
    if (!are_told(given.of(node))) continue;
    round.send(given.leader(node), as_message(given.of(node)));
    if (round.full()) co_await round;
  }
  std::byte* next = together.data();
  for (int node = given.first(); node != given.end(); node = given.after(node)) {
    const bool are_packed = given.go_together(node);
    std::byte* const vector = next;
    for (const int rank : given.ranks(node)) {
      const std::span block = all.of(arguments.in, rank);
      if (are_packed) {
        group.copy(next, block.data(), block.size());
        next += block.size();
        continue;
      }
      round.send(rank, block);
      if (round.full()) co_await round;
    }
    if (!are_packed) continue;
    round.send(given.leader(node), {vector, next});
    if (round.full()) co_await round;
  }
  co_await round;
}

// ---- gather ----

Task gather_from_this_node(Group group, const Arguments& arguments, Ticket& before, Ticket& after) {
  Hierarchy& levels = group.hierarchy();
  const Numbers<std::size_t> list{static_cast<std::size_t>(levels.node_ranks())};
  const Lengths lengths{list.data(), static_cast<std::size_t>(levels.node_ranks())};
  co_await tell(group, arguments, lengths, before);
  const ListedBlocks here = listed(lengths, arguments.element_bytes);
  const bool together = go_together(lengths, arguments.element_bytes);
  const bool leads = levels.index() == 0;
  const Scratch vector{group, together && leads ? here.blocks().bytes() : 0};
  if (together) {
    Arguments part = arguments;
    part.root = 0;
    part.out = vector.data();
    part.out_blocks = here.blocks();
    co_await after.pass();
    co_await levels.after(group, Collective::gather, 0, part, true);
  } else {
    after.leave();
  }
  Round<2> round{group};
  if (leads && are_told(lengths)) round.send(arguments.root, as_message(lengths));
  if (!together) round.send(arguments.root, {arguments.in, arguments.bytes()});
  else if (leads) round.send(arguments.root, {vector.data(), here.blocks().bytes()});
  co_await round;
}

Task gather(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  if (levels.node() != levels.placement().node_of(arguments.root)) {
    co_await gather_from_this_node(group, arguments, before, after);
    co_return;
  }
  before.leave();
  co_await on_root_node(group, arguments, Collective::gather, after);
  if (group.rank() == arguments.root) co_await gather_from_nodes(group, arguments);
}

// ---- scatter ----

Task scatter_on_this_node(Group group, const Arguments& arguments, Ticket& before, Ticket& after) {
  Hierarchy& levels = group.hierarchy();
  const Numbers<std::size_t> list{static_cast<std::size_t>(levels.node_ranks())};
  const Lengths lengths{list.data(), static_cast<std::size_t>(levels.node_ranks())};
  co_await tell(group, arguments, lengths, before);
  const ListedBlocks here = listed(lengths, arguments.element_bytes);
  const bool together = go_together(lengths, arguments.element_bytes);
  const bool leads = levels.index() == 0;
  if (!together) after.leave();
  Round<1> round{group};
  if (leads && are_told(lengths)) {
    const Numbers<std::size_t> told{lengths.size()};
    round.receive(arguments.root, as_message({told.data(), lengths.size()}));
    co_await round;
    check({told.data(), lengths.size()}, lengths, levels.placement().ranks_of(levels.node()),
          arguments.element_bytes);
  }
  const Scratch vector{group, together && leads ? here.blocks().bytes() : 0};
  if (!together) round.receive(arguments.root, {arguments.out, arguments.bytes()});
  else if (leads) round.receive(arguments.root, {vector.data(), here.blocks().bytes()});
  co_await round;
  if (!together) co_return;
  Arguments part = arguments;
  part.root = 0;
  part.in = vector.data();
  part.in_blocks = here.blocks();
  co_await after.pass();
  co_await levels.after(group, Collective::scatter, 0, part, true);
}

Task scatter(Group group, const Arguments& arguments) {
  Hierarchy& levels = group.hierarchy();
  Ticket before = levels.ticket_before(group);
  Ticket after = levels.ticket_after(group);
  if (levels.node() != levels.placement().node_of(arguments.root)) {
    co_await scatter_on_this_node(group, arguments, before, after);
    co_return;
  }
  before.leave();
  co_await on_root_node(group, arguments, Collective::scatter, after);
  if (group.rank() == arguments.root) co_await scatter_to_nodes(group, arguments);
}

// ---- predictions ----

// Of the lengths nothing is told here, and nothing measures such calls, so the prediction errs on
// the side of `linear`, where nobody waits but the root, or for it. This row has to be twice as
// fast by number of messages; where k ranks share a core, and those of a node wait for each other's
// turns, 2 k times.
Cost cost(const CallShape& shape, const CostModel& model, Collective collective) {
  const PartCost part{shape, model};
  const double node_bytes = shape.vector_bytes() / shape.levels.nodes;
  constexpr double length_bytes = sizeof(std::size_t);
  Cost cost = part.on_node(Collective::allgather, shape.levels.node_ranks_max * length_bytes);
  cost += part.between_nodes(collective, shape.ranks() * length_bytes, 1, 1, true);
  cost += part.on_node(collective, node_bytes, true);
  cost += part.between_nodes(collective, shape.vector_bytes(), 1, 1, true);
  cost.time_s *= 2.0 * model.topology->ranks_per_core;
  return cost;
}
Cost gather_cost(const CallShape& shape, const CostModel& model) {
  return cost(shape, model, Collective::gather);
}
Cost scatter_cost(const CallShape& shape, const CostModel& model) {
  return cost(shape, model, Collective::scatter);
}

}  // namespace

extern constexpr Algorithm gather_leaders_v{Collective::gather, "leaders_v",
                                            has_blocks_of_unknown_lengths, gather_cost, gather};
extern constexpr Algorithm scatter_leaders_v{Collective::scatter, "leaders_v",
                                             has_blocks_of_unknown_lengths, scatter_cost, scatter};

}  // namespace qpmesh::collectives

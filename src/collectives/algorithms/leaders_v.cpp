// Leaders of a v-form: of a gather or scatter whose lengths only the ranks concerned know. The
// ranks of a node tell each other how long their blocks are; the root has the same numbers. Blocks
// that are short on average go between the root and the node's leader all together, longer ones
// between the root and each rank. Either way a list of the node's lengths goes first, between the
// root and the leader: ends that were given different ones are told so, and whose block it is,
// where they would otherwise wait for what nobody sends.
// Wins for short blocks of many ranks: two messages for each node where `linear` has one for each.
// Cost: that of `leaders`, of an allgather of one word on the node, and of the lists.
// Sources: those of leaders and linear.
#include "collectives/hierarchy.hpp"
#include "messaging/elements.hpp"

namespace qpmesh::collectives {
namespace {

// On average over a node: two more copies of a longer block take more than a message.
constexpr std::size_t together_bytes_max = 4'096;

// Blocks by index on a node. Those of a node of one rank go by themselves, without a list: the
// length of the message says it all.
bool has_list(const Blocks& blocks) noexcept { return blocks.block_count > 1; }
bool go_together(const Blocks& blocks) noexcept {
  return has_list(blocks) &&
         blocks.bytes() <= together_bytes_max * static_cast<std::size_t>(blocks.block_count);
}

// What the other end told, in elements, beside what this one was given. ranks: of the node. Throws
// Error{mismatch}.
void check_list(const std::size_t* lengths, const Blocks& blocks, std::span<const int> ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto block = static_cast<int>(i);
    if (lengths[i] == blocks.length(block)) continue;
    throw Error{messaging::wrong_step_length(ranks[i], lengths[i] * blocks.element_bytes,
                                             blocks.length_bytes(block))};
  }
}

std::span<std::byte> as_message(std::size_t* lengths, std::size_t count) noexcept {
  return {reinterpret_cast<std::byte*>(lengths), count * sizeof *lengths};
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

// What the ranks of this node tell each other: how many elements the block of each has, by index.
class LengthsHere {
 public:
  explicit LengthsHere(const Hierarchy& levels)
      : ranks_{static_cast<std::size_t>(levels.node_ranks())}, lengths_{ranks_} {}

  std::span<std::byte> as_message() const noexcept {
    return collectives::as_message(lengths_.data(), ranks_);
  }
  ListedBlocks blocks(std::size_t element_bytes) const {
    return {static_cast<int>(ranks_), element_bytes,
            [&](int index) { return lengths_.data()[index]; }};
  }

 private:
  std::size_t ranks_;
  Numbers<std::size_t> lengths_;
};
Task tell(Group group, const Arguments& arguments, const LengthsHere& lengths, Ticket& before) {
  Hierarchy& levels = group.hierarchy();
  Arguments part = no_arguments;
  part.in = reinterpret_cast<const std::byte*>(&arguments.element_count);
  part.out = lengths.as_message().data();
  part.element_count = 1;
  part.element_bytes = sizeof arguments.element_count;
  part.out_blocks = even_blocks(static_cast<std::size_t>(levels.node_ranks()), levels.node_ranks(),
                                part.element_bytes);
  co_await before.pass();
  co_await levels.before(group, Collective::allgather, part.out_blocks.bytes(), part);
}

// ---- what goes between the nodes ----

// Of the root: the blocks that go together, of all nodes but its own.
std::size_t bytes_together(const Placement& placement, int root_node, const Blocks& all) {
  std::size_t bytes = 0;
  for (int node = 0; node < placement.nodes(); ++node) {
    if (node == root_node) continue;
    const ListedBlocks blocks = blocks_of_node(placement, node, all);
    if (go_together(blocks.blocks())) bytes += blocks.blocks().bytes();
  }
  return bytes;
}

Task gather_from_nodes(Group group, const Arguments& arguments) {
  const Placement& placement = group.hierarchy().placement();
  const int root_node = placement.node_of(arguments.root);
  const Blocks& all = arguments.out_blocks;
  const Numbers<std::size_t> lengths{static_cast<std::size_t>(group.size())};  // node by node
  const Scratch together{group, bytes_together(placement, root_node, all)};
  Round<messages_in_flight_max> round{group};
  for (int node = 0; node < placement.nodes(); ++node) {
    const std::span ranks = placement.ranks_of(node);
    if (node == root_node || ranks.size() == 1) continue;
    round.receive(ranks[0],
                  as_message(lengths.data() + placement.ranks_before(node), ranks.size()));
    if (round.full()) co_await round;
  }
  co_await round;
  std::byte* next = together.data();
  for (int node = 0; node < placement.nodes(); ++node) {
    if (node == root_node) continue;
    const std::span ranks = placement.ranks_of(node);
    const ListedBlocks blocks = blocks_of_node(placement, node, all);
    if (has_list(blocks.blocks()))
      check_list(lengths.data() + placement.ranks_before(node), blocks.blocks(), ranks);
    if (go_together(blocks.blocks())) {
      round.receive(ranks[0], {next, blocks.blocks().bytes()});
      if (round.full()) co_await round;
      next += blocks.blocks().bytes();
      continue;
    }
    for (const int rank : ranks) {
      round.receive(rank, all.of(arguments.out, rank));
      if (round.full()) co_await round;
    }
  }
  co_await round;
  const std::byte* from = together.data();
  for (int node = 0; node < placement.nodes(); ++node) {
    if (node == root_node) continue;
    const ListedBlocks blocks = blocks_of_node(placement, node, all);
    if (!go_together(blocks.blocks())) continue;
    for (const int rank : placement.ranks_of(node)) {
      const std::span<std::byte> block = all.of(arguments.out, rank);
      group.copy(block.data(), from, block.size());
      from += block.size();
    }
  }
}

Task scatter_to_nodes(Group group, const Arguments& arguments) {
  const Placement& placement = group.hierarchy().placement();
  const int root_node = placement.node_of(arguments.root);
  const Blocks& all = arguments.in_blocks;
  const Numbers<std::size_t> lengths{static_cast<std::size_t>(group.size())};  // node by node
  const Scratch together{group, bytes_together(placement, root_node, all)};
  Round<messages_in_flight_max> round{group};
  // All lists first: a leader takes its block when it has read its list, and would hold up the
  // messages that are in flight with both.
  for (int node = 0; node < placement.nodes(); ++node) {
    const std::span ranks = placement.ranks_of(node);
    if (node == root_node || ranks.size() == 1) continue;
    std::size_t* const list = lengths.data() + placement.ranks_before(node);
    for (std::size_t i = 0; i < ranks.size(); ++i) list[i] = all.length(ranks[i]);
    round.send(ranks[0], as_message(list, ranks.size()));
    if (round.full()) co_await round;
  }
  std::byte* next = together.data();
  for (int node = 0; node < placement.nodes(); ++node) {
    if (node == root_node) continue;
    const std::span ranks = placement.ranks_of(node);
    const ListedBlocks blocks = blocks_of_node(placement, node, all);
    if (go_together(blocks.blocks())) {
      const std::span vector{next, blocks.blocks().bytes()};
      for (const int rank : ranks) {
        const std::span block = all.of(arguments.in, rank);
        group.copy(next, block.data(), block.size());
        next += block.size();
      }
      round.send(ranks[0], vector);
      if (round.full()) co_await round;
      continue;
    }
    for (const int rank : ranks) {
      round.send(rank, all.of(arguments.in, rank));
      if (round.full()) co_await round;
    }
  }
  co_await round;
}

// ---- gather ----

Task gather_from_this_node(Group group, const Arguments& arguments, Ticket& before, Ticket& after) {
  Hierarchy& levels = group.hierarchy();
  const LengthsHere lengths{levels};
  co_await tell(group, arguments, lengths, before);
  const ListedBlocks here = lengths.blocks(arguments.element_bytes);
  const bool together = go_together(here.blocks());
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
  if (leads && has_list(here.blocks())) round.send(arguments.root, lengths.as_message());
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
  const LengthsHere lengths{levels};
  co_await tell(group, arguments, lengths, before);
  const ListedBlocks here = lengths.blocks(arguments.element_bytes);
  const bool together = go_together(here.blocks());
  const bool leads = levels.index() == 0;
  if (!together) after.leave();
  Round<1> round{group};
  if (leads && has_list(here.blocks())) {
    const std::span ranks = levels.placement().ranks_of(levels.node());
    const Numbers<std::size_t> told{ranks.size()};
    round.receive(arguments.root, as_message(told.data(), ranks.size()));
    co_await round;
    check_list(told.data(), here.blocks(), ranks);
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

bool has_blocks_of_unknown_lengths(const CallShape& shape) {
  return has_levels(shape) && shape.uneven;
}

}  // namespace

extern constexpr Algorithm gather_leaders_v{Collective::gather, "leaders_v",
                                            has_blocks_of_unknown_lengths, gather_cost, gather};
extern constexpr Algorithm scatter_leaders_v{Collective::scatter, "leaders_v",
                                             has_blocks_of_unknown_lengths, scatter_cost, scatter};

}  // namespace qpmesh::collectives

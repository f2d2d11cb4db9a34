// SPDX-License-Identifier: MIT
// Multiport of a v-form: of an alltoall whose lengths only the two ends of each block know. The
// ranks of a node tell each port the lengths of the blocks between them and the nodes of its share,
// those that they give and those that they await. Short blocks go with all others of their node, by
// way of the ports of both nodes; a long one goes straight, for both of its ends know that it is
// long. The ports of two nodes exchange the lengths before the blocks: ends that were given
// different ones are told so, and whose block it is, where they would otherwise wait for what
// nobody sends.
// Wins for short blocks of many ranks: a rank has two messages for each node of its share where
// `all_pairs` has one for each rank. Costs: those of three alltoalls on the node, one of them of
// two words for each rank, and of two rounds between nodes.
// Sources: those of multiport and all_pairs.
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "collectives/algorithms/ports.hpp"
#include "messaging/elements.hpp"

namespace qpmesh::collectives {
namespace {

// The copies of a longer block take more than a message.
constexpr std::size_t short_block_bytes_max = 2'048;

// Of the blocks between two ranks, as one of them was given them.
struct Lengths {
  std::size_t given;
  std::size_t awaited;
};

// Elements that go by way of ports, of a block of so many.
std::size_t by_ports(std::size_t length, std::size_t element_bytes) noexcept {
  return length * element_bytes <= short_block_bytes_max ? length : 0;
}

// By a node's port: the ranks of its share, node by node.
std::span<const int> ranks_of_share(const Ports& ports, int port) noexcept {
  if (port >= ports.levels.lanes()) return {};
  const int begin = ports.placement.ranks_before(ports.first(port));
  const int end = ports.placement.ranks_before(ports.first(port + 1));
  return ports.placement.ranks().subspan(static_cast<std::size_t>(begin),
                                         static_cast<std::size_t>(end - begin));
}
// What a rank has for each port, or from it. length_of(rank).
template <class LengthOf>
ListedBlocks by_port(const Ports& ports, std::size_t element_bytes, const LengthOf& length_of) {
  return {ports.levels.node_ranks(), element_bytes, [&](int port) {
            std::size_t length = 0;
            for (const int rank : ranks_of_share(ports, port)) length += length_of(rank);
            return length;
          }};
}

// What the ranks of this node told this port: a row of each, with a place for each rank of the
// share. A local variable of the algorithm.
class LengthTable {
 public:
  LengthTable(const Ports& ports, std::size_t bytes_of_element)
      : element_bytes{bytes_of_element},
        rows{ports.levels.node_ranks()},
        ranks{ranks_of_share(ports, ports.levels.index())},
        ports_{ports},
        table_{pairs()} {}

  const std::size_t element_bytes;
  const int rows;
  const std::span<const int> ranks;  // by place

  std::size_t pairs() const noexcept { return static_cast<std::size_t>(rows) * ranks.size(); }
  Lengths* table() const noexcept { return table_.data(); }
  const Lengths& lengths(int row, std::size_t place) const noexcept {
    return table_.data()[static_cast<std::size_t>(row) * ranks.size() + place];
  }
  std::size_t given_by_ports(int row, std::size_t place) const noexcept {
    return by_ports(lengths(row, place).given, element_bytes);
  }
  std::size_t awaited_by_ports(int row, std::size_t place) const noexcept {
    return by_ports(lengths(row, place).awaited, element_bytes);
  }

  // What goes to a node lies there by rank here, and then by rank there; what comes from it the
  // other way round. visit(row, place).
  template <class Visit>
  void visit_given(int node, const Visit& visit) const {
    for (int row = 0; row < rows; ++row) {
      for (std::size_t place = begin(node); place < begin(node + 1); ++place) visit(row, place);
    }
  }
  template <class Visit>
  void visit_awaited(int node, const Visit& visit) const {
    for (std::size_t place = begin(node); place < begin(node + 1); ++place) {
      for (int row = 0; row < rows; ++row) visit(row, place);
    }
  }

  // By node of the share: what has length_of(*this, row, place) for each pair, and lies node by
  // node.
  template <class LengthOf>
  ListedBlocks by_node(std::size_t bytes_each, const LengthOf& length_of) const {
    return {ports_.count(), bytes_each, [&](int i) {
              std::size_t length = 0;
              visit_given(ports_.first() + i, [&](int row, std::size_t place) {
                length += std::invoke(length_of, *this, row, place);
              });
              return length;
            }};
  }
  // By rank of this node.
  template <class LengthOf>
  ListedBlocks by_row(const LengthOf& length_of) const {
    return {rows, element_bytes, [&](int row) {
              std::size_t length = 0;
              for (std::size_t place = 0; place < ranks.size(); ++place)
                length += std::invoke(length_of, *this, row, place);
              return length;
            }};
  }

 private:
  std::size_t begin(int node) const noexcept {
    return static_cast<std::size_t>(ports_.placement.ranks_before(node) -
                                    ports_.placement.ranks_before(ports_.first()));
  }

  const Ports& ports_;
  Numbers<Lengths> table_;
};

// Where each rank of this node is in what lies by rank here.
class Cursors {
 public:
  Cursors(const ListedBlocks& by_row, std::byte* vector) : next_{count(by_row)} {
    for (int row = 0; row < by_row.blocks().block_count; ++row)
      next_.data()[row] = vector + by_row.blocks().first_bytes(row);
  }
  std::byte* advance(int row, std::size_t bytes) const noexcept {
    return std::exchange(next_.data()[row], next_.data()[row] + bytes);
  }

 private:
  static std::size_t count(const ListedBlocks& by_row) noexcept {
    return static_cast<std::size_t>(by_row.blocks().block_count);
  }
  Numbers<std::byte*> next_;
};

// ---- on the node, before ----

// Until this port knows the lengths of its share.
Task tell(Group group, const Arguments& arguments, Ports& ports, const LengthTable& told) {
  const std::span ranks = ports.placement.ranks();
  const Numbers<Lengths> own{ranks.size()};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    own.data()[i] = {.given = arguments.in_blocks.length(ranks[i]),
                     .awaited = arguments.out_blocks.length(ranks[i])};
  }
  const ListedBlocks to_ports =
      by_port(ports, sizeof(Lengths), [](int /*rank*/) { return std::size_t{1}; });
  Arguments part = no_arguments;
  part.in = reinterpret_cast<const std::byte*>(own.data());
  part.in_blocks = to_ports.blocks();
  part.out = reinterpret_cast<std::byte*>(told.table());
  part.out_blocks = even_blocks(told.pairs(), told.rows, sizeof(Lengths));
  part.element_count = told.pairs();
  part.element_bytes = sizeof(Lengths);
  co_await ports.before.come();
  co_await ports.levels.before(group, Collective::alltoall, 0, part, true);
}

// Each rank's short blocks for this share, by rank here, come to `taken`.
Task give_to_ports(Group group, const Arguments& arguments, Ports& ports, const Blocks& by_row,
                   std::byte* taken) {
  const Blocks& all = arguments.in_blocks;
  const auto length_for = [&](int rank) { return by_ports(all.length(rank), all.element_bytes); };
  const ListedBlocks to_ports = by_port(ports, all.element_bytes, length_for);
  const Scratch given{group, to_ports.blocks().bytes()};
  std::byte* to = given.data();
  for (const int rank : ports.placement.ranks()) {
    const std::size_t bytes = length_for(rank) * all.element_bytes;
    if (bytes == 0) continue;
    group.copy(to, all.of(arguments.in, rank).data(), bytes);
    to += bytes;
  }
  Arguments part = arguments;
  part.in = given.data();
  part.in_blocks = to_ports.blocks();
  part.out = taken;
  part.out_blocks = by_row;
  ports.before.leave();
  co_await ports.levels.before(group, Collective::alltoall, 0, part, true);
}

// ---- between the nodes ----

// Throws Error{mismatch} where a node gives a rank of this one a block of another length than that
// awaits.
Task compare_lengths(Group group, const Ports& ports, const LengthTable& told) {
  const Numbers<std::size_t> given{told.pairs()};
  const Numbers<std::size_t> arrived{told.pairs()};
  const ListedBlocks by_node = told.by_node(
      sizeof(std::size_t),
      [](const LengthTable&, int /*row*/, std::size_t /*place*/) { return std::size_t{1}; });
  const auto part_of = [&](const Numbers<std::size_t>& list, int node) {
    return by_node.blocks().of(reinterpret_cast<std::byte*>(list.data()), node - ports.first());
  };
  std::size_t* next = given.data();
  for (int node = ports.first(); node < ports.end(); ++node) {
    told.visit_given(node,
                     [&](int row, std::size_t place) { *next++ = told.lengths(row, place).given; });
  }
  const auto sent = [&](int node) { return part_of(given, node); };
  const auto received = [&](int node) { return part_of(arrived, node); };
  co_await exchange(group, ports, sent, received);
  for (int node = ports.first(); node < ports.end(); ++node) {
    const std::span list = part_of(node == ports.levels.node() ? given : arrived, node);
    const auto* told_there = reinterpret_cast<const std::size_t*>(list.data());
    told.visit_awaited(node, [&](int row, std::size_t place) {
      const std::size_t given_there = *told_there++;
      const std::size_t awaited = told.lengths(row, place).awaited;
      if (given_there == awaited) return;
      throw Error{messaging::wrong_step_length(told.ranks[place], given_there * told.element_bytes,
                                               awaited * told.element_bytes)};
    });
  }
}

// taken: what the ranks of this node give to those of the share, to_give: what these give to them;
// both by rank of this node.
Task exchange_blocks(Group group, const Ports& ports, const LengthTable& told, const Cursors& taken,
                     const Cursors& to_give) {
  const ListedBlocks to_nodes = told.by_node(told.element_bytes, &LengthTable::given_by_ports);
  const ListedBlocks from_nodes = told.by_node(told.element_bytes, &LengthTable::awaited_by_ports);
  const Scratch given{group, to_nodes.blocks().bytes()};
  const Scratch arrived{group, from_nodes.blocks().bytes()};
  std::byte* to = given.data();
  for (int node = ports.first(); node < ports.end(); ++node) {
    told.visit_given(node, [&](int row, std::size_t place) {
      const std::size_t bytes = told.given_by_ports(row, place) * told.element_bytes;
      if (bytes == 0) return;
      group.copy(to, taken.advance(row, bytes), bytes);
      to += bytes;
    });
  }
  const auto sent = [&](int node) {
    return to_nodes.blocks().of(given.data(), node - ports.first());
  };
  const auto received = [&](int node) {
    return from_nodes.blocks().of(arrived.data(), node - ports.first());
  };
  co_await exchange(group, ports, sent, received, To::those_with_something);
  for (int node = ports.first(); node < ports.end(); ++node) {
    const std::byte* from = (node == ports.levels.node() ? sent(node) : received(node)).data();
    told.visit_awaited(node, [&](int row, std::size_t place) {
      const std::size_t bytes = told.awaited_by_ports(row, place) * told.element_bytes;
      if (bytes == 0) return;
      group.copy(to_give.advance(row, bytes), from, bytes);
      from += bytes;
    });
  }
}

// ---- on the node, after ----

// What ports have for this rank comes where it belongs.
Task take_from_ports(Group group, const Arguments& arguments, Ports& ports, const Blocks& by_row,
                     const std::byte* to_give) {
  const Blocks& all = arguments.out_blocks;
  const auto length_from = [&](int rank) { return by_ports(all.length(rank), all.element_bytes); };
  const ListedBlocks from_ports = by_port(ports, all.element_bytes, length_from);
  const Scratch taken{group, from_ports.blocks().bytes()};
  Arguments part = arguments;
  part.in = to_give;
  part.in_blocks = by_row;
  part.out = taken.data();
  part.out_blocks = from_ports.blocks();
  co_await ports.after.pass();
  co_await ports.levels.after(group, Collective::alltoall, 0, part, true);
  const std::byte* from = taken.data();
  for (const int rank : ports.placement.ranks()) {
    const std::size_t bytes = length_from(rank) * all.element_bytes;
    if (bytes == 0) continue;
    group.copy(all.of(arguments.out, rank).data(), from, bytes);
    from += bytes;
  }
}

// ---- long blocks ----

Task send_long_blocks(Group group, const Arguments& arguments) {
  const auto is_long = [](std::span<const std::byte> block) {
    return by_ports(block.size(), 1) < block.size();
  };
  const auto block_for = [&](int rank) { return arguments.in_blocks.of(arguments.in, rank); };
  const auto block_from = [&](int rank) { return arguments.out_blocks.of(arguments.out, rank); };
  if (const auto own = block_for(group.rank()); is_long(own))
    group.copy(block_from(group.rank()).data(), own.data(), own.size());
  Round<messages_in_flight_max> round{group};
  for (int distance = 1; distance < group.size(); ++distance) {
    const int to = group.plus(distance);
    const int from = group.minus(distance);
    if (is_long(block_for(to))) round.send(to, block_for(to));
    if (is_long(block_from(from))) round.receive(from, block_from(from));
    if (round.full()) co_await round;
  }
  co_await round;
}

Task alltoall(Group group, const Arguments& arguments) {
  Ports ports{group};
  const LengthTable told{ports, arguments.element_bytes};
  co_await tell(group, arguments, ports, told);
  const ListedBlocks taken_by_row = told.by_row(&LengthTable::given_by_ports);
  const ListedBlocks given_by_row = told.by_row(&LengthTable::awaited_by_ports);
  const Scratch taken{group, taken_by_row.blocks().bytes()};
  const Scratch to_give{group, given_by_row.blocks().bytes()};
  co_await give_to_ports(group, arguments, ports, taken_by_row.blocks(), taken.data());
  co_await compare_lengths(group, ports, told);
  const Cursors taken_cursors{taken_by_row, taken.data()};
  const Cursors given_cursors{given_by_row, to_give.data()};
  co_await exchange_blocks(group, ports, told, taken_cursors, given_cursors);
  co_await take_from_ports(group, arguments, ports, given_by_row.blocks(), to_give.data());
  co_await send_long_blocks(group, arguments);
}

// Of the lengths nothing is told here, and nothing measures such calls. For long blocks the rounds
// before them are in vain, so this row has to be twice as fast as `all_pairs` by number of
// messages.
Cost cost(const CallShape& shape, const CostModel& model) {
  const PartCost part{shape, model};
  const double node_ranks = shape.levels.node_ranks_max;
  const Cost on_node = part.on_node(Collective::alltoall, shape.vector_bytes(), true);
  Cost cost = part.on_node(Collective::alltoall, shape.ranks() * sizeof(Lengths), true);
  cost += on_node;
  cost += exchange_cost(shape, part, node_ranks * node_ranks * sizeof(std::size_t));
  cost += exchange_cost(shape, part, node_ranks * node_bytes(shape));
  cost += on_node;
  cost.time_s *= 2;
  return cost;
}

}  // namespace

extern constexpr Algorithm alltoall_multiport_v{Collective::alltoall, "multiport_v",
                                                has_blocks_of_unknown_lengths, cost, alltoall};

}  // namespace qpmesh::collectives

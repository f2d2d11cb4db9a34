// SPDX-License-Identifier: MIT
// Pipelined chain: the vector goes from rank to rank in segments, each passed on while the next one
// comes. Wins for long vectors of not too many ranks: every link carries the vector once.
// Segments are as many as ranks, so that the last rank waits about as long for the first one as for
// all others behind it, unless they were shorter or longer than is good.
// broadcast: from the root on. Cost (N-1) (alpha + s beta) + (S-s) beta for segments of s bytes.
// reduce: towards the root, each rank combines a segment with its own before it passes it on. From
// the root on, not in rank order. Cost (N-1) (alpha + s (beta + gamma)) + (S-s) beta.
// scan: the same from rank 0 on, in rank order: ordered reductions included. An exclusive one keeps
// what comes, and passes on the sum, which is made between two receives: (S-s) gamma more.
// Source: the pipeline algorithms of Open MPI's tuned collectives.
#include <array>

#include "collectives/algorithm.hpp"
#include "collectives/patterns/binomial.hpp"

namespace qpmesh::collectives {
namespace {

constexpr std::size_t segment_bytes_max = std::size_t{64} << 10;
// Shorter ones would take a port as long as this.
constexpr std::size_t segment_bytes_min = std::size_t{8} << 10;

// At least one, so that a vector of no bytes is told of too.
int segment_count(std::size_t bytes, int size) {
  const std::size_t least = bytes == 0 ? 1 : (bytes - 1) / segment_bytes_max + 1;
  const std::size_t most = std::max<std::size_t>(1, bytes / segment_bytes_min);
  return static_cast<int>(std::clamp(static_cast<std::size_t>(size), least, most));
}
Blocks segments_of(const Group& group, const Arguments& arguments) {
  return even_blocks(arguments.element_count, segment_count(arguments.bytes(), group.size()),
                     arguments.element_bytes);
}

// What the first rank does: it has all it passes on.
Task send_all(Group group, int to, const std::byte* vector, Blocks segments) {
  Round<1> round{group};
  for (int i = 0; i < segments.block_count; ++i) {
    round.send(to, segments.of(vector, i));
    co_await round;
  }
}

Task broadcast(Group group, const Arguments& arguments) {
  const Blocks segments = segments_of(group, arguments);
  const int me = relative_rank(group.rank(), arguments.root, group.size());
  const bool sends = me + 1 < group.size();
  if (me == 0) {
    if (sends) co_await send_all(group, group.next(), arguments.out, segments);
    co_return;
  }
  Round<1> round{group};
  for (int i = 0; i < segments.block_count; ++i) {
    if (sends && i > 0) round.send(group.next(), segments.of(arguments.out, i - 1));
    round.receive(group.previous(), segments.of(arguments.out, i));
    co_await round;
  }
  if (!sends) co_return;
  round.send(group.next(), segments.of(arguments.out, segments.block_count - 1));
  co_await round;
}

Task reduce(Group group, const Arguments& arguments) {
  const Blocks segments = segments_of(group, arguments);
  const int me = relative_rank(group.rank(), arguments.root, group.size());
  if (group.size() == 1) {
    group.copy(arguments.out, arguments.in, arguments.bytes());
    co_return;
  }
  if (me + 1 == group.size()) {
    co_await send_all(group, group.previous(), arguments.in, segments);
    co_return;
  }
  const bool sends = me > 0;
  // One is on its way while the next one is made.
  const std::size_t segment_bytes = segments.length_bytes(0);
  const Scratch sums{group, sends ? 2 * segment_bytes : 0};
  const auto sum = [&](int i) -> std::span<std::byte> {
    if (!sends) return segments.of(arguments.out, i);
    return {sums.data() + (i % 2 == 0 ? 0 : segment_bytes), segments.length_bytes(i)};
  };
  Round<1> round{group};
  for (int i = 0; i < segments.block_count; ++i) {
    if (sends && i > 0) round.send(group.previous(), sum(i - 1));
    round.receive_reduce(group.next(), sum(i), segments.of(arguments.in, i).data(),
                         arguments.reducer);
    co_await round;
  }
  if (!sends) co_return;
  round.send(group.previous(), sum(segments.block_count - 1));
  co_await round;
}

Task scan(Group group, const Arguments& arguments) {
  const Blocks segments = segments_of(group, arguments);
  const bool sends = group.rank() + 1 < group.size();
  if (group.rank() == 0) {
    if (sends) co_await send_all(group, group.next(), arguments.in, segments);
    group.copy(arguments.out, arguments.in, arguments.bytes());
    co_return;
  }
  Round<1> round{group};
  for (int i = 0; i < segments.block_count; ++i) {
    if (sends && i > 0) round.send(group.next(), segments.of(arguments.out, i - 1));
    round.receive_reduce(group.previous(), segments.of(arguments.out, i),
                         segments.of(arguments.in, i).data(), arguments.reducer, Arriving::left);
    co_await round;
  }
  if (!sends) co_return;
  round.send(group.next(), segments.of(arguments.out, segments.block_count - 1));
  co_await round;
}

Task exscan(Group group, const Arguments& arguments) {
  const Blocks segments = segments_of(group, arguments);
  const bool sends = group.rank() + 1 < group.size();
  if (group.rank() == 0) {
    if (sends) co_await send_all(group, group.next(), arguments.in, segments);
    co_return;
  }
  // What comes may not overwrite what it has yet to be combined with.
  const bool in_place = sends && arguments.in == arguments.out;
  const std::size_t segment_bytes = segments.length_bytes(0);
  const Scratch sum{group, sends ? segment_bytes : 0};
  const Scratch arrived{group, in_place ? segment_bytes : 0};
  Round<1> round{group};
  for (int i = 0; i < segments.block_count; ++i) {
    const std::span<std::byte> own = segments.of(arguments.out, i);
    std::byte* const before = in_place ? arrived.data() : own.data();
    if (sends && i > 0) round.send(group.next(), {sum.data(), segments.length_bytes(i - 1)});
    round.receive(group.previous(), {before, own.size()});
    co_await round;
    if (sends) {
      const std::array<const std::byte*, 2> operands{before, segments.of(arguments.in, i).data()};
      group.reduce(arguments.reducer, sum.data(), operands, own.size());
    }
    if (in_place) group.copy(own.data(), before, own.size());
  }
  if (!sends) co_return;
  round.send(group.next(), {sum.data(), segments.length_bytes(segments.block_count - 1)});
  co_await round;
}

// ---- predictions ----

double segment_bytes(const CallShape& shape) {
  return shape.vector_bytes() / segment_count(shape.bytes, shape.size);
}

// What a segment passes on its way. Where the ranks of each node follow one another, one alone gets
// from another node.
struct Way {
  Way(const CallShape& shape, const CostModel& model)
      : near{model}, far{model}, near_hops{shape.ranks() - 1} {
    if (!shape.levels.in_order) return;
    near =
        inside(*model.topology).model({.size = shape.levels.node_ranks_max, .bytes = shape.bytes});
    far = between(*model.topology).model({.size = shape.levels.nodes});
    far_hops = shape.levels.nodes - 1;
    near_hops -= far_hops;
  }

  CostModel near;  // without levels: of all
  CostModel far;
  double near_hops;
  double far_hops = 0;
};

// hop_s(link): of one segment, until it can be passed on. The slower kind of link sets the pace.
template <class HopS>
Cost in_segments(const CallShape& shape, const Way& way, const HopS& hop_s) {
  const double segments = segment_count(shape.bytes, shape.size);
  Cost cost{.messages = segments, .bytes = shape.vector_bytes()};
  double pace_s = 0;
  const auto pass = [&](const CostModel& link, double hops) {
    if (hops == 0) return;
    cost.time_s += hops * (link.latency_s + hop_s(link));
    pace_s = std::max({pace_s, hop_s(link), link.overhead_s});
  };
  pass(way.near, way.near_hops);
  pass(way.far, way.far_hops);
  cost.time_s += (segments - 1) * pace_s;
  return cost;
}

Cost broadcast_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {};
  const double bytes = segment_bytes(shape);
  return in_segments(shape, Way{shape, model},
                     [&](const CostModel& link) { return bytes * link.byte_s; });
}

Cost reduce_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {.time_s = model.copy_s(shape.vector_bytes())};
  const double bytes = segment_bytes(shape);
  return in_segments(shape, Way{shape, model},
                     [&](const CostModel& link) { return link.combined_s(bytes); });
}

Cost scan_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {.time_s = model.copy_s(shape.vector_bytes())};
  Cost cost = reduce_cost(shape, model);
  const CostModel near = Way{shape, model}.near;
  const double first_rank_s =
      cost.messages * near.port_s(segment_bytes(shape)) + near.copy_s(shape.vector_bytes());
  cost.time_s = std::max(cost.time_s, first_rank_s);
  return cost;
}

Cost exscan_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {};
  const double bytes = segment_bytes(shape);
  const double reduced_s = shape.size > 2 ? bytes * model.reduced_byte_s : 0;
  Cost cost = in_segments(shape, Way{shape, model},
                          [&](const CostModel& link) { return bytes * link.byte_s + reduced_s; });
  cost.time_s -= reduced_s;  // the last one passes nothing on
  return cost;
}

}  // namespace

extern constexpr Algorithm broadcast_chain{Collective::broadcast, "chain", always, broadcast_cost,
                                           broadcast};
extern constexpr Algorithm reduce_chain{Collective::reduce, "chain", any_order, reduce_cost,
                                        reduce};
extern constexpr Algorithm scan_chain{Collective::scan, "chain", always, scan_cost, scan};
extern constexpr Algorithm exscan_chain{Collective::exscan, "chain", always, exscan_cost, exscan};

}  // namespace qpmesh::collectives

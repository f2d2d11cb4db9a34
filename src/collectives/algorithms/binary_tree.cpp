// SPDX-License-Identifier: MIT
// Pipelined binary tree in rank order: left of a rank are ranks before it, right of it ranks behind
// it. Sums of subtrees go up in segments; then what all ranks before a subtree come to goes down to
// it. Wins for vectors of middle length of many ranks: twice the way through the tree, where
// doubling moves the whole vector log2 N times, and a chain passes N - 1 ranks. Ordered reductions
// included. Lanes, and pieces of a call, take turns in two trees: who is a leaf in one has children
// in the other, so a link that they share carries each byte twice, and not three times.
// Cost 2 log2 N (alpha + 2 s beta + s gamma) + 2 (S-s) (2 beta + gamma) for segments of s bytes;
// exclusive: (S-s) gamma more on both ways.
// Sources: P. Sanders, J. L. Träff, "Parallel prefix (scan) algorithms for MPI", 2006; the two
// trees: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", 2009.
#include <array>
#include <bit>

#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

constexpr std::size_t segment_bytes_max = std::size_t{64} << 10;
// Where many lanes share a link even so short ones take longer there than a message costs; shorter
// vectors are doubling's.
constexpr std::size_t segment_bytes_min = 512;

// The tree of the numbers first … last, where first is 1 or 2: odd ones are leaves, and the subtree
// of one whose lowest set bit is b are those less than b apart from it. Numbers that would be in it
// are passed over where they are no rank's.
struct Tree {
  int first;
  int last;

  static constexpr int reach(int v) noexcept { return v & -v; }
  int parent(int v) const noexcept {
    do v = (v ^ reach(v)) | (2 * reach(v));
    while (v > last);
    return v;
  }
  bool has_left(int v) const noexcept { return v % 2 == 0 && v > first; }
  int left(int v) const noexcept { return v - reach(v) / 2; }
  bool has_right(int v) const noexcept { return v % 2 == 0 && v < last; }
  int right(int v) const noexcept {
    int child = v + reach(v) / 2;
    while (child > last) child -= reach(child) / 2;
    return child;
  }
  // Are there numbers before, and behind, its subtree? Otherwise nothing comes down to it, or
  // nobody needs its sum.
  bool has_before(int v) const noexcept { return v - reach(v) + 1 > first; }
  bool has_behind(int v) const noexcept { return v + reach(v) - 1 < last; }
};

// As many as levels of the tree on the way up and down, so that the last rank waits about as long
// for the first one as for all others behind it. Each has an element, if there is one.
int segment_count(std::size_t bytes, std::size_t element_bytes, int size) {
  const std::size_t least = bytes == 0 ? 1 : (bytes - 1) / segment_bytes_max + 1;
  const std::size_t most = std::max<std::size_t>(1, bytes / segment_bytes_min);
  const auto levels = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(size)));
  const std::size_t count = std::clamp(2 * levels, least, std::max(least, most));
  const std::size_t elements = bytes / std::max<std::size_t>(1, element_bytes);
  return static_cast<int>(std::min(count, std::max<std::size_t>(1, elements)));
}
int segment_count(const CallShape& shape) {
  return segment_count(shape.bytes, shape.element_bytes, shape.size);
}

// Up, and down. inclusive: a scan, otherwise an exscan.
Task prefix(Group group, const Arguments& arguments, bool inclusive) {
  const std::size_t bytes = arguments.bytes();
  std::byte* const out = arguments.out;
  const int first = 1 + static_cast<int>((group.lane() + group.piece()) % 2);
  const Tree tree{first, first + group.size() - 1};
  const int me = first + group.rank();
  const bool has_left = tree.has_left(me);
  const bool has_right = tree.has_right(me);
  const bool has_before = tree.has_before(me);
  const bool has_behind = tree.has_behind(me);
  const int left = has_left ? tree.left(me) - first : -1;
  const int right = has_right ? tree.right(me) - first : -1;
  const int parent = has_before || has_behind ? tree.parent(me) - first : -1;
  const Blocks segments = even_blocks(arguments.element_count,
                                      segment_count(bytes, arguments.element_bytes, group.size()),
                                      arguments.element_bytes);
  const int count = segments.block_count;
  const std::size_t segment_bytes = segments.length_bytes(0);
  const auto in_turn = [&](std::byte* two_segments, int i) -> std::span<std::byte> {
    return {two_segments + (i % 2 == 0 ? 0 : segment_bytes), segments.length_bytes(i)};
  };

  // Of an exscan the result of a rank that has somebody left of it is made of what came from there.
  const Scratch kept{group, has_left && !inclusive && (has_right || has_behind) ? bytes : 0};
  const bool in_place = arguments.in == out;
  const Scratch arrived{group, kept.data() != nullptr && in_place ? segment_bytes : 0};
  std::byte* const made = inclusive ? out : kept.data();
  // Of the subtree, until this rank.
  const auto until_me = [&](int i) -> std::span<const std::byte> {
    return segments.of(has_left ? made : arguments.in, i);
  };
  const Scratch two_sums{group, has_right && has_behind ? 2 * segment_bytes : 0};
  const auto sum = [&](int i) -> std::span<const std::byte> {
    return has_right ? in_turn(two_sums.data(), i) : until_me(i);
  };
  Round<2> round{group};
  for (int i = 0; i < count; ++i) {
    const std::span<std::byte> own = segments.of(out, i);
    const std::byte* const operand = segments.of(arguments.in, i).data();
    std::byte* const from_left = arrived.data() != nullptr ? arrived.data() : own.data();
    if (has_behind && i > 0) round.send(parent, sum(i - 1));
    if (has_left && inclusive)
      round.receive_reduce(left, own, operand, arguments.reducer, Arriving::left);
    if (has_left && !inclusive) round.receive(left, {from_left, own.size()});
    if (has_right && has_behind) round.receive(right, in_turn(two_sums.data(), i));
    co_await round;
    if (kept.data() != nullptr) {
      const std::array<const std::byte*, 2> operands{from_left, operand};
      group.reduce(arguments.reducer, segments.of(made, i).data(), operands, own.size());
      group.copy(own.data(), from_left, own.size());
    }
    if (has_right && has_behind)
      group.reduce_behind(until_me(i).data(), arguments.reducer, in_turn(two_sums.data(), i).data(),
                          own.size());
  }
  if (has_behind) round.send(parent, sum(count - 1));
  co_await round;

  const bool is_leaf = !has_left && !has_right;
  const Scratch two_before{group, has_before && !is_leaf ? 2 * segment_bytes : 0};
  const Scratch two_until{group, has_before && has_right && !inclusive ? 2 * segment_bytes : 0};
  const auto send_down = [&](int i) {
    if (has_left && has_before) round.send(left, in_turn(two_before.data(), i));
    if (!has_right) return;
    if (!has_before) round.send(right, until_me(i));
    else round.send(right, inclusive ? segments.of(out, i) : in_turn(two_until.data(), i));
  };
  for (int i = 0; i < count; ++i) {
    const std::span<std::byte> own = segments.of(out, i);
    if (i > 0) send_down(i - 1);
    if (has_before && !is_leaf) round.receive(parent, in_turn(two_before.data(), i));
    else if (has_before && inclusive)
      round.receive_reduce(parent, own, until_me(i).data(), arguments.reducer, Arriving::left);
    else if (has_before) round.receive(parent, own);
    co_await round;
    if (!has_before || is_leaf) continue;
    const std::byte* const before = in_turn(two_before.data(), i).data();
    if (inclusive || has_right) {
      const std::array<const std::byte*, 2> operands{before, until_me(i).data()};
      std::byte* const sum_here = inclusive ? own.data() : in_turn(two_until.data(), i).data();
      group.reduce(arguments.reducer, sum_here, operands, own.size());
    }
    if (!inclusive) group.reduce_behind(before, arguments.reducer, own.data(), own.size());
  }
  send_down(count - 1);
  co_await round;
  if (inclusive && !has_before && !has_left) group.copy(out, arguments.in, bytes);
}

Task scan(Group group, const Arguments& arguments) { return prefix(group, arguments, true); }
Task exscan(Group group, const Arguments& arguments) { return prefix(group, arguments, false); }

// ---- predictions ----

// Of the longest way, in the first tree: the first segment, and then one each pace. Left subtrees
// are full, so both children of a rank that sends up are alike.
class Times {
 public:
  Times(const CallShape& shape, const CostModel& model, bool inclusive)
      : model_{model},
        tree_{1, shape.size},
        inclusive_{inclusive},
        count_{segment_count(shape)},
        bytes_{shape.vector_bytes() / count_},
        reduced_s_{bytes_ * model.reduced_byte_s} {}

  // Who has nobody before it has its results first. Its first send down is the right one.
  double all_s() const {
    double last_s = 0;
    Flow up{};
    for (int v = 1; v <= tree_.last; v *= 2) {
      up = flow_up(v, up);
      const double up_s = up.end_s(count_) + (tree_.has_behind(v) ? port_s() : 0);
      const double copied_s = v == 1 && inclusive_ ? model_.copy_s(count_ * bytes_) : 0;
      last_s = std::max(last_s, up_s + copied_s);
      if (tree_.has_right(v))
        last_s = std::max(last_s, down_s(tree_.right(v), {up_s + model_.latency_s, port_s()}));
    }
    return last_s;
  }

 private:
  struct Flow {
    double first_s;
    double pace_s;
    double end_s(int count) const noexcept { return first_s + (count - 1) * pace_s; }
  };

  double port_s() const noexcept { return model_.port_s(bytes_); }
  double transfer_s() const noexcept { return bytes_ * model_.byte_s; }
  // From the post of a receive from the left until it is part of a sum.
  double left_s() const noexcept { return inclusive_ ? model_.combined_s(bytes_) : transfer_s(); }

  // A rank's sums, as they leave it, from those of its left child, or of both.
  Flow flow_up(int v, const Flow& child) const {
    if (!tree_.has_left(v)) return {0, port_s()};
    const double more_s =
        !inclusive_ && (tree_.has_right(v) || tree_.has_behind(v)) ? reduced_s_ : 0;
    if (!tree_.has_right(v) || !tree_.has_behind(v)) {
      const double pace_s = std::max(port_s(), left_s() + more_s);
      return {child.first_s + model_.latency_s + left_s() + more_s, std::max(child.pace_s, pace_s)};
    }
    const double cpu_s = more_s + reduced_s_;
    const double both_s = std::max(left_s(), port_s() + transfer_s()) + cpu_s;
    return {child.first_s + model_.latency_s + both_s,
            std::max({child.pace_s, 2 * port_s(), both_s})};
  }

  // Until the last rank of the subtree has its result.
  double down_s(int v, const Flow& before) const {
    if (v % 2 == 1) {
      const double pace_s = std::max({before.pace_s, port_s(), left_s()});
      return Flow{before.first_s, pace_s}.end_s(count_) + left_s();
    }
    const bool has_right = tree_.has_right(v);
    const double cpu_s = (!inclusive_ && has_right ? 2 : 1) * reduced_s_;
    const double sends_s = has_right ? port_s() + transfer_s() : transfer_s();
    const double pace_s =
        std::max({before.pace_s, (has_right ? 2 : 1) * port_s(), sends_s + cpu_s});
    const double at_s = before.first_s + transfer_s() + cpu_s + model_.latency_s;
    const double right_s = has_right ? down_s(tree_.right(v), {at_s + port_s(), pace_s}) : 0;
    if (has_right && !is_cut(v)) return right_s;
    return std::max(right_s, down_s(tree_.left(v), {at_s, pace_s}));
  }
  bool is_cut(int v) const noexcept { return v + Tree::reach(v) - 1 > tree_.last; }

  const CostModel& model_;
  Tree tree_;
  bool inclusive_;
  int count_;
  double bytes_;
  double reduced_s_;
};

// The busiest rank sends to its parent and to both of its children.
Cost prefix_cost(const CallShape& shape, const CostModel& model, bool inclusive) {
  const double vectors = std::min(3, static_cast<int>(std::bit_width(shape.ranks_count())) - 1);
  return {.time_s = Times{shape, model, inclusive}.all_s(),
          .messages = vectors * segment_count(shape),
          .bytes = vectors * shape.vector_bytes()};
}

Cost scan_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {.time_s = model.copy_s(shape.vector_bytes())};
  return prefix_cost(shape, model, true);
}

Cost exscan_cost(const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return {};
  return prefix_cost(shape, model, false);
}

}  // namespace

extern constexpr Algorithm scan_binary_tree{Collective::scan, "binary_tree", always, scan_cost,
                                            scan};
extern constexpr Algorithm exscan_binary_tree{Collective::exscan, "binary_tree", always,
                                              exscan_cost, exscan};

}  // namespace qpmesh::collectives

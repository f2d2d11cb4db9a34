// SPDX-License-Identifier: MIT
#include "simulation/collective_memory.hpp"

#include <algorithm>
#include <numeric>

#include "base/bytes.hpp"

namespace qpmesh::test {
namespace {

constexpr std::byte poison{0xa5};
constexpr std::size_t apart_bytes = 64;  // between ranges that are not in place

using Lengths = std::vector<std::size_t>;

// A vector of blocks: where each lies, in elements.
struct Cut {
  Lengths counts;
  Lengths displacements;
  std::size_t element_count = 0;  // with gaps
};

class Memories {
 public:
  Memories(const CollectiveCase& one, int size)
      : one_{one},
        element_bytes_{one.element->bytes},
        size_{size},
        ranks_(static_cast<std::size_t>(size)) {}

  std::vector<RankMemory> make() {
    switch (one_.row->collective) {
      case Collective::barrier: break;
      case Collective::broadcast: broadcast(); break;
      case Collective::reduce:
      case Collective::allreduce: reduce(); break;
      case Collective::scan:
      case Collective::exscan: scan(); break;
      case Collective::reduce_scatter: reduce_scatter(); break;
      case Collective::allgather:
      case Collective::gather: gather(); break;
      case Collective::scatter: scatter(); break;
      case Collective::alltoall: alltoall(); break;
    }
    return std::move(ranks_);
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  bool is_root(int rank) const { return rank == one_.root || !has_root(one_.row->collective); }

  // ---- vectors ----

  std::vector<std::byte> input(int rank, std::size_t first, std::size_t count) const {
    std::vector<std::byte> data(count * element_bytes_);
    one_.element->fill(one_, size_, rank, first, data);
    return data;
  }
  void add(std::vector<std::byte>& sum, int rank) const {
    one_.element->combine(one_, sum, input(rank, 0, sum.size() / element_bytes_).data());
  }
  // Over all ranks, in their order.
  std::vector<std::byte> reduction(std::size_t count) const {
    std::vector<std::byte> sum = input(0, 0, count);
    for (int rank = 1; rank < size_; ++rank) add(sum, rank);
    const bool averages =
        one_.reduction.function == Function::none && one_.reduction.kind == ReductionKind::average;
    if (averages) one_.element->divide(sum, size_);
    return sum;
  }

  // ---- blocks ----

  // Between two ranks, or of one. Some are empty, and there are as many elements as without a
  // layout, about.
  std::size_t length(int from, int to) const {
    if (one_.layout == Layout::none) return one_.element_count;
    const std::uint64_t word = base::mix64(one_.seed ^ base::mix64(index(from) << 20 ^ index(to)));
    return word % 3 == 0 ? 0 : (word >> 8) % (2 * one_.element_count + 1);
  }
  Cut cut(Lengths counts) const {
    Cut result{.counts = std::move(counts), .displacements = Lengths(ranks_.size())};
    const bool gaps = one_.layout == Layout::gaps;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::size_t block = gaps ? ranks_.size() - 1 - i : i;
      if (gaps) result.element_count += 1 + block % 3;
      result.displacements[block] = result.element_count;
      result.element_count += result.counts[block];
    }
    return result;
  }
  Cut cut_of_ranks() const {
    Lengths counts;
    for (int rank = 0; rank < size_; ++rank) counts.push_back(length(0, rank));
    return cut(std::move(counts));
  }
  void tell(const Cut& cut, Lengths& counts, Lengths& displacements) const {
    if (one_.layout == Layout::none) return;
    counts = cut.counts;
    if (one_.layout == Layout::gaps) displacements = cut.displacements;
  }

  // ---- memory ----

  void place_apart(RankMemory& rank, std::size_t in_count, std::size_t out_count) const {
    rank.in_bytes = in_count * element_bytes_;
    rank.out_begin = base::round_up(rank.in_bytes + apart_bytes, apart_bytes);
    rank.out_bytes = out_count * element_bytes_;
    rank.memory.assign(rank.out_begin + rank.out_bytes + apart_bytes, poison);
  }
  void place_in_out(RankMemory& rank, std::size_t first, std::size_t in_count,
                    std::size_t out_count) const {
    place_apart(rank, 0, out_count);
    rank.in_begin = rank.out_begin + first * element_bytes_;
    rank.in_bytes = in_count * element_bytes_;
  }
  void place_out_in(RankMemory& rank, std::size_t first, std::size_t in_count,
                    std::size_t out_count) const {
    place_apart(rank, in_count, 0);
    rank.out_begin = rank.in_begin + first * element_bytes_;
    rank.out_bytes = out_count * element_bytes_;
  }
  void write(std::vector<std::byte>& memory, std::size_t begin, std::size_t first,
             const std::vector<std::byte>& data) const {
    std::ranges::copy(data,
                      memory.begin() + static_cast<std::ptrdiff_t>(begin + first * element_bytes_));
  }
  // Inputs come first, all of them, then results.
  void give(RankMemory& rank, std::size_t first, const std::vector<std::byte>& data) const {
    write(rank.memory, rank.in_begin, first, data);
    rank.expected = rank.memory;
  }
  void expect(RankMemory& rank, std::size_t first, const std::vector<std::byte>& data) const {
    if (rank.expected.empty()) rank.expected = rank.memory;
    write(rank.expected, rank.out_begin, first, data);
  }

  // ---- collectives ----

  void broadcast() {
    const std::vector<std::byte> data = input(one_.root, 0, one_.element_count);
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      place_in_out(mine, 0, one_.element_count, one_.element_count);
      if (is_root(rank)) give(mine, 0, data);
      expect(mine, 0, data);
    }
  }

  void reduce() {
    const std::size_t count = one_.element_count;
    const std::vector<std::byte> result = reduction(count);
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      if (one_.in_place) place_in_out(mine, 0, count, count);
      else place_apart(mine, count, is_root(rank) ? count : 0);
      give(mine, 0, input(rank, 0, count));
      if (is_root(rank)) expect(mine, 0, result);
    }
  }

  void scan() {
    const std::size_t count = one_.element_count;
    const bool exclusive = one_.row->collective == Collective::exscan;
    std::vector<std::byte> sum = input(0, 0, count);
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      if (one_.in_place) place_in_out(mine, 0, count, count);
      else place_apart(mine, count, count);
      give(mine, 0, input(rank, 0, count));
      if (exclusive && rank > 0) expect(mine, 0, sum);
      if (rank > 0) add(sum, rank);
      if (!exclusive) expect(mine, 0, sum);
    }
  }

  void reduce_scatter() {
    const Cut blocks = cut_of_ranks();
    const std::vector<std::byte> result = reduction(blocks.element_count);
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      const std::size_t first = blocks.displacements[index(rank)];
      const std::size_t count = blocks.counts[index(rank)];
      if (one_.in_place) place_out_in(mine, first, blocks.element_count, count);
      else place_apart(mine, blocks.element_count, count);
      tell(blocks, mine.in_counts, mine.in_displacements);
      give(mine, 0, input(rank, 0, blocks.element_count));
      const auto begin = result.begin() + static_cast<std::ptrdiff_t>(first * element_bytes_);
      expect(mine, 0, {begin, begin + static_cast<std::ptrdiff_t>(count * element_bytes_)});
    }
  }

  void gather() {
    const Cut blocks = cut_of_ranks();
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      const std::size_t count = blocks.counts[index(rank)];
      if (one_.in_place && is_root(rank))
        place_in_out(mine, blocks.displacements[index(rank)], count, blocks.element_count);
      else place_apart(mine, count, is_root(rank) ? blocks.element_count : 0);
      give(mine, 0, input(rank, 0, count));
      if (!is_root(rank)) continue;
      tell(blocks, mine.out_counts, mine.out_displacements);
      for (int from = 0; from < size_; ++from)
        expect(mine, blocks.displacements[index(from)], input(from, 0, blocks.counts[index(from)]));
    }
  }

  void scatter() {
    const Cut blocks = cut_of_ranks();
    const auto block = [&](int rank) {
      return input(one_.root, index(rank) << 20, blocks.counts[index(rank)]);
    };
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      const std::size_t count = blocks.counts[index(rank)];
      if (one_.in_place && is_root(rank))
        place_out_in(mine, blocks.displacements[index(rank)], blocks.element_count, count);
      else place_apart(mine, is_root(rank) ? blocks.element_count : 0, count);
      if (is_root(rank)) {
        tell(blocks, mine.in_counts, mine.in_displacements);
        for (int to = 0; to < size_; ++to) give(mine, blocks.displacements[index(to)], block(to));
      }
      expect(mine, 0, block(rank));
    }
  }

  void alltoall() {
    for (int rank = 0; rank < size_; ++rank) {
      RankMemory& mine = ranks_[index(rank)];
      Lengths sent;
      Lengths received;
      for (int other = 0; other < size_; ++other) {
        sent.push_back(length(rank, other));
        received.push_back(length(other, rank));
      }
      const Cut in = cut(std::move(sent));
      const Cut out = cut(std::move(received));
      place_apart(mine, in.element_count, out.element_count);
      tell(in, mine.in_counts, mine.in_displacements);
      tell(out, mine.out_counts, mine.out_displacements);
      for (int to = 0; to < size_; ++to)
        give(mine, in.displacements[index(to)], input(rank, index(to) << 20, in.counts[index(to)]));
      for (int from = 0; from < size_; ++from)
        expect(mine, out.displacements[index(from)],
               input(from, index(rank) << 20, out.counts[index(from)]));
    }
  }

  const CollectiveCase& one_;
  std::size_t element_bytes_;
  int size_;
  std::vector<RankMemory> ranks_;
};

}  // namespace

std::vector<RankMemory> memories(const CollectiveCase& one, int size) {
  return Memories{one, size}.make();
}

}  // namespace qpmesh::test

// SPDX-License-Identifier: MIT
// A range for each block: wherever they lie, in collectives of every algorithm, and what is told of
// those that make no sense.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <numeric>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// No power of two: ranges lie apart by no whole number of them.
struct Cell {
  std::int32_t rank = -1;
  std::int32_t block = -1;
  std::int32_t at = -1;
  bool operator==(const Cell&) const = default;
};

std::vector<Cell> cells(int rank, int block, std::size_t count) {
  std::vector<Cell> row(count);
  for (std::size_t i = 0; i < count; ++i) row[i] = {rank, block, static_cast<std::int32_t>(i)};
  return row;
}

// Ranges of their own, and not in the order of memory.
class Rows {
 public:
  explicit Rows(const std::vector<std::size_t>& counts) : rows_(counts.size()) {
    for (std::size_t i = counts.size(); i-- > 0;) {
      gaps_.emplace_back(7 + 5 * i);
      rows_[i].resize(counts[i]);
    }
  }
  std::vector<std::vector<Cell>>& list() noexcept { return rows_; }
  std::vector<Cell>& operator[](int i) { return rows_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::vector<Cell>> rows_;
  std::deque<std::vector<char>> gaps_;
};

std::vector<std::string> rows_of(const Communicator& world, Collective collective) {
  std::vector<std::string> names{""};
  for (const Candidate& row : world.explain(collective, 1 << 20))
    if (row.applies) names.emplace_back(row.algorithm);
  return names;
}

// Calls with every algorithm that takes blocks of unequal lengths; the first is the one chosen.
template <class Call>
void with_every_row(const Communicator& world, Collective collective, Call&& call) {
  for (const std::string& name : rows_of(world, collective)) {
    try {
      call(CallOptions{.algorithm = name});
    } catch (const Error& error) {
      if (name.empty() || error.code() != ErrorCode::bad_argument ||
          error.cause().find("does not apply") == std::string::npos)
        throw;
    }
  }
}

// What a rank gives to a reduce_scatter of these blocks, each in a vector of its own.
struct Addends {
  Addends(int me, const std::vector<std::size_t>& counts) {
    for (std::size_t to = 0; to < counts.size(); ++to) {
      rows.emplace_back(counts[to]);
      for (std::size_t i = 0; i < counts[to]; ++i) rows[to][i] = value(me, to, i);
    }
  }
  static std::int64_t value(int from, std::size_t to, std::size_t i) {
    return (from + 1) * static_cast<std::int64_t>(1'000'000 * to + i);
  }
  // Of the block for this rank.
  std::vector<std::int64_t> sums(int size, int me) const {
    const auto to = static_cast<std::size_t>(me);
    std::vector<std::int64_t> expected(rows[to].size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = size * (size + 1) / 2 * value(0, to, i);
    return expected;
  }
  std::vector<std::vector<std::int64_t>> rows;
};

// Rank r has r + 1 times so many, and the last one none.
std::vector<std::size_t> growing_counts(std::size_t ranks, std::size_t unit) {
  std::vector<std::size_t> counts(ranks);
  std::iota(counts.begin(), counts.end(), std::size_t{1});
  for (std::size_t& count : counts) count *= unit;
  if (ranks > 1) counts.back() = 0;
  return counts;
}

void ranges_that_lie_apart_are_blocks(Communicator& world, Arguments) {
  const int me = world.rank();
  const auto ranks = static_cast<std::size_t>(world.size());
  const int root = world.size() - 1;
  for (const std::size_t unit : {0U, 1U, 40U, 3'000U, 60'001U}) {
    const std::vector<std::size_t> counts = growing_counts(ranks, unit);
    const std::vector<Cell> mine = cells(me, 0, counts[static_cast<std::size_t>(me)]);
    const auto check_all = [&](Rows& rows, const std::string& what) {
      for (int from = 0; from < world.size(); ++from) {
        check(rows[from] == cells(from, 0, counts[static_cast<std::size_t>(from)]), what);
        std::ranges::fill(rows[from], Cell{});
      }
    };

    with_every_row(world, Collective::allgather, [&](const CallOptions& options) {
      const std::string name{options.algorithm};
      Rows all{counts};
      world.allgather(mine, blocks(all.list()), options);
      check_all(all, "allgather " + name);
      Request request = world.allgather_async(mine, blocks(all.list()), options);
      request.wait();
      check_all(all, "allgather_async " + name);
      // In place, and of a list of spans.
      std::vector<std::span<Cell>> spans;
      for (auto& row : all.list()) spans.emplace_back(row);
      all[me] = mine;
      spans[static_cast<std::size_t>(me)] = all[me];
      world.allgather(all[me], blocks(spans), options);
      check_all(all, "allgather in place " + name);
    });

    with_every_row(world, Collective::gather, [&](const CallOptions& options) {
      Rows all{me == root ? counts : std::vector<std::size_t>{}};
      world.gather(mine, blocks(all.list()), root, options);
      if (me == root) check_all(all, "gather " + std::string{options.algorithm});
    });

    with_every_row(world, Collective::scatter, [&](const CallOptions& options) {
      Rows all{me == root ? counts : std::vector<std::size_t>{}};
      if (me == root) {
        for (int to = 0; to < world.size(); ++to)
          all[to] = cells(root, to, counts[static_cast<std::size_t>(to)]);
      }
      std::vector<Cell> block(mine.size());
      const auto& source = all.list();  // const: it is sent
      world.scatter(blocks(source), block, root, options);
      check(block == cells(root, me, block.size()), "scatter " + std::string{options.algorithm});
    });

    // To rank r so many as it has; and from ranges into one vector.
    with_every_row(world, Collective::alltoall, [&](const CallOptions& options) {
      const std::string name{options.algorithm};
      Rows sent{counts};
      for (int to = 0; to < world.size(); ++to)
        sent[to] = cells(me, to, counts[static_cast<std::size_t>(to)]);
      const std::vector<std::size_t> equal(ranks, mine.size());
      Rows received{equal};
      world.alltoall(blocks(sent.list()), blocks(received.list()), options);
      for (int from = 0; from < world.size(); ++from)
        check(received[from] == cells(from, me, mine.size()), "alltoall " + name);
      std::vector<Cell> packed(ranks * mine.size());
      world.alltoall_async(blocks(sent.list()), blocks(packed, equal), options).wait();
      for (std::size_t from = 0; from < ranks; ++from)
        check(std::ranges::equal(std::span{packed}.subspan(from * mine.size(), mine.size()),
                                 cells(static_cast<int>(from), me, mine.size())),
              "alltoall into one vector " + name);
    });
  }
}

// By functions in the order of ranks, and by sums in any.
void ranges_that_lie_apart_are_reduced(Communicator& world, Arguments) {
  const int me = world.rank();
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto own = static_cast<std::size_t>(me);
  const auto add = [](std::int64_t a, std::int64_t b) { return a + b; };
  for (const std::size_t unit : {0U, 1U, 40U, 20'001U}) {
    const Addends given{me, growing_counts(ranks, unit)};
    const std::vector<std::int64_t> expected = given.sums(world.size(), me);
    for (const bool ordered : {false, true}) {
      with_every_row(world, Collective::reduce_scatter, [&](const CallOptions& options) {
        const std::string name = "reduce_scatter " + std::string{options.algorithm};
        const auto reduce = [&](const auto& in, std::span<std::int64_t> out) {
          if (ordered) world.reduce_scatter(blocks(in), out, add, options);
          else world.reduce_scatter(blocks(in), out, sum, options);
        };
        std::vector<std::int64_t> sums(expected.size());
        reduce(given.rows, sums);
        check(sums == expected, name);
        world.reduce_scatter_async(blocks(given.rows), sums, sum, options).wait();
        check(sums == expected, name + ", asynchronously");
        auto rows = given.rows;
        reduce(rows, rows[own]);  // in place
        check(rows[own] == expected, name + " in place");
        rows[own] = given.rows[own];
        check(rows == given.rows, name + " writes its own block alone");
      });
    }
  }
}

// As programs of MPI have them.
void lists_may_be_of_int(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  std::vector<int> counts;
  std::vector<std::int64_t> displacements;
  for (int rank = 0; rank < size; ++rank) {
    counts.push_back(rank + 1);
    displacements.push_back(std::int64_t{2} * rank * size);
  }
  const std::vector<int> mine(static_cast<std::size_t>(me) + 1, me);
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<int> packed(ranks * (ranks + 1) / 2);
  world.allgather(mine, blocks(packed, counts));
  std::vector<int> apart(2 * ranks * ranks, -1);
  world.allgather_async(mine, blocks(apart, counts, displacements)).wait();
  std::size_t next = 0;
  for (int rank = 0; rank < size; ++rank) {
    const std::size_t first = 2 * ranks * static_cast<std::size_t>(rank);
    for (int i = 0; i <= rank; ++i) {
      check_equal(packed[next++], rank);
      check_equal(apart[first + static_cast<std::size_t>(i)], rank);
    }
    check_equal(apart[first + static_cast<std::size_t>(rank) + 1], -1);
  }
  counts[0] = -1;
  expect_error([&] { world.allgather(mine, blocks(packed, counts)); },
               {ErrorCode::bad_argument, no_peer, "allgather",
                "block 0 of out, 18446744073709551615 elements from 0 on, does not lie in its *",
                "counts and displacements are in elements"});
  world.barrier();
}

void ranges_in_buffers_are_blocks(Communicator& world, Arguments) {
  const int me = world.rank();
  constexpr std::size_t count = 20'000;
  std::vector<Buffer<int>> buffers;
  buffers.reserve(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) buffers.push_back(world.allocate<int>(count));
  const std::vector<int> mine(count, me);
  world.allgather(mine, blocks(buffers));
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto& row = buffers[static_cast<std::size_t>(rank)];
    check(std::ranges::all_of(row, [&](int value) { return value == rank; }), "a row of a Buffer");
  }
}

void lists_of_blocks_that_make_no_sense(Communicator& world, Arguments) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::string n = std::to_string(ranks);
  const std::vector<int> one{1, 2};
  std::vector<std::vector<int>> rows(ranks + 1, std::vector<int>(2));
  const auto refused = [&](auto&& call, std::string_view operation, const std::string& cause,
                           const std::string& hint) {
    expect_error(call, {ErrorCode::bad_argument, no_peer, std::string{operation}, cause, hint});
  };
  refused([&] { world.allgather(one, blocks(rows)); }, "allgather",
          "out has " + std::to_string(ranks + 1) + " blocks for " + n + " ranks",
          "one range for each rank");
  rows.pop_back();

  std::vector<int> memory(2 * ranks + 1);
  std::vector<std::span<int>> spans;
  for (std::size_t i = 0; i < ranks; ++i) spans.push_back(std::span{memory}.subspan(2 * i, 2));
  if (ranks > 1) {
    spans[1] = std::span{memory}.subspan(1, 2);
    refused([&] { world.allgather(one, blocks(spans)); }, "allgather", "blocks 0 and 1 overlap",
            "blocks that are received into have no element in common");
    spans[1] = std::span{memory}.subspan(2, 2);
  }
  refused([&] { world.alltoall(blocks(spans), blocks(spans)); }, "alltoall",
          "block 0 to send and block 0 to receive into overlap",
          "send from one range and receive into another");
  const std::vector<int> plain(2 * ranks);
  refused([&] { world.alltoall(plain, blocks(spans)); }, "alltoall",
          "out is cut into blocks, in is not", "give blocks(in, counts) and blocks(out, counts)");
  const auto beside = std::span{memory}.subspan(2 * static_cast<std::size_t>(world.rank()) + 1, 2);
  refused([&] { world.allgather(beside, blocks(spans)); }, "allgather",
          "the 8 bytes of this rank and block * overlap",
          "in place, a rank's range is its own block; otherwise the two do not touch");
  if (ranks > 1) {
    const std::size_t mine = static_cast<std::size_t>(world.rank());
    const std::size_t other = mine == 0 ? 1 : 0;
    const std::span<int> kept = spans[other];
    spans[other] = std::span{memory}.subspan(2 * mine + 1, 2);
    std::vector<int> sums(2);
    refused([&] { world.reduce_scatter(blocks(spans), spans[mine], sum); }, "reduce_scatter",
            "blocks * overlap", "blocks that are received into have no element in common");
    spans[other] = kept;
    refused([&] { world.reduce_scatter(blocks(spans), spans[other], sum); }, "reduce_scatter",
            "the 8 bytes of this rank and block * overlap",
            "in place, a rank's range is its own block; otherwise the two do not touch");
    expect_error(
        [&] { world.reduce_scatter(blocks(spans), sums, sum, {.algorithm = "circulant"}); },
        {ErrorCode::bad_argument, no_peer, "reduce_scatter",
         "circulant does not apply to blocks that lie apart", "these do: all_pairs, pairwise"});
  }
  const std::vector<int> three(3);
  refused([&] { world.allgather(three, blocks(spans)); }, "allgather",
          "in has 3 elements, this rank's block of the layout 2", "they must be equal");
  world.barrier();
}

// Columns 2 to 6 of a matrix with a row for each rank: what lies between is nobody's.
void blocks_lie_at_a_stride(Communicator& world, Arguments) {
  constexpr std::size_t columns = 9;
  const auto ranks = static_cast<std::size_t>(world.size());
  const BlockStride middle{.block_count = ranks, .block_elements = 5, .stride_elements = columns};
  const int me = world.rank();
  std::vector<int> matrix(columns * ranks, -1);
  world.allgather(std::vector<int>(5, me), blocks(std::span{matrix}.subspan(2), middle));
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const std::size_t column = i % columns;
    check_equal(matrix[i], column < 2 || column > 6 ? -1 : static_cast<int>(i / columns));
  }
  std::vector<int> all(columns * ranks, me);
  std::vector<int> sums(5);
  world.reduce_scatter(blocks(std::span{all}.subspan(2), middle), sums, sum);
  check(sums == std::vector<int>(5, static_cast<int>(ranks * (ranks - 1) / 2)), "sums of a row");
  std::vector<int> mine(5);
  world.scatter(blocks(std::span{std::as_const(matrix)}.subspan(2), middle), mine, 0);
  check(mine == std::vector<int>(5, me), "a row of the middle");
  expect_error(
      [&] { world.allgather(mine, blocks(std::span{matrix}.first(columns * ranks - 5), middle)); },
      {ErrorCode::bad_argument, no_peer, "allgather", "*", "*"});
}

}  // namespace

std::vector<Scenario> block_scenarios() {
  return {in_world("ranges_that_lie_apart_are_blocks", ranges_that_lie_apart_are_blocks),
          in_world("ranges_that_lie_apart_are_reduced", ranges_that_lie_apart_are_reduced),
          in_world("ranges_in_buffers_are_blocks", ranges_in_buffers_are_blocks),
          in_world("blocks_lie_at_a_stride", blocks_lie_at_a_stride),
          in_world("lists_may_be_of_int", lists_may_be_of_int),
          in_world("lists_of_blocks_that_make_no_sense", lists_of_blocks_that_make_no_sense)};
}

}  // namespace qpmesh::ranks

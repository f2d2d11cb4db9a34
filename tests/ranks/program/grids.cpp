// SPDX-License-Identifier: MIT
// Ranks as points of a grid.
#include <algorithm>
#include <limits>
#include <utility>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// Every grid of these ranks with up to three dimensions, open and periodic.
void every_grid_agrees_with_its_coordinates(Communicator& world, Arguments) {
  const int size = world.size();
  for (int a = 1; a <= size; ++a) {
    for (int b = 1; b <= size; ++b) {
      for (int c = 1; c <= size; ++c) {
        if (a * b * c != size) continue;
        for (int mask = 0; mask < 8; ++mask) {
          const std::vector<int> lengths{a, b, c};
          const std::vector<bool> periodic{(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
          const Grid grid{world, lengths, periodic};
          for (int rank = 0; rank < size; ++rank) {
            const std::vector<int> here = grid.coordinates(rank);
            check_equal(here[0] * b * c + here[1] * c + here[2], rank);
            check_equal(grid.rank_at(here), rank);
          }
          const std::vector<int> here = grid.coordinates();
          for (int d = 0; d < 3; ++d) {
            const auto at = static_cast<std::size_t>(d);
            for (int steps = -3; steps <= 3; ++steps) {
              const auto rank_behind = [&](int moved) {
                std::vector<int> there = here;
                there[at] += moved;
                return grid.rank_at(there);
              };
              const Neighbours neighbours = grid.shift(d, steps);
              check_equal(neighbours.to, rank_behind(steps));
              check_equal(neighbours.from, rank_behind(-steps));
              const bool inside = here[at] + steps >= 0 && here[at] + steps < lengths[at];
              check_equal(neighbours.to == no_rank, !periodic[at] && !inside);
            }
            check_equal(grid.shift(d, std::numeric_limits<int>::max()).to == no_rank,
                        !periodic[at]);
          }
        }
      }
    }
  }
  check_equal(Grid{world, {0}}.lengths()[0], size);
  check_equal(Grid{world, {1, 0}}.lengths()[1], size);
  for (int ranks = 1; ranks <= 300; ++ranks) {
    for (int dimensions = 1; dimensions <= 4; ++dimensions) {
      int product = 1;
      int before = ranks;
      for (const int length : grid_lengths(ranks, dimensions)) {
        check(length <= before, "the longest comes first");
        product *= before = length;
      }
      check_equal(product, ranks);
    }
  }
  check(grid_lengths(12, 2) == std::vector<int>{4, 3}, "12 = 4 x 3");
  check(grid_lengths(64, 3) == std::vector<int>{4, 4, 4}, "64 = 4 x 4 x 4");
}

// What comes names who sent it and by which of its sides; in each form, and of elements whose type
// is known when the program runs.
void neighbours_of_a_grid_exchange_blocks(Communicator& world, Arguments) {
  constexpr std::size_t count = 700;
  Communicator other = world.duplicate();
  for (const bool periodic : {false, true}) {
    const Grid grid{world, grid_lengths(world.size(), 2), {periodic, periodic}};
    std::vector<int> in(4 * count);
    std::vector<int> out(in.size());
    std::vector<Prepared> prepared = grid.prepare_exchange(other, in, out);
    check_equal(prepared.size(), std::size_t{4});
    for (int round = 0; round < 12; ++round) {
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = world.rank() * 1000 + static_cast<int>(i / count) * 100 + round;
      std::ranges::fill(out, -1);
      if (round % 4 == 0) {
        grid.exchange(world, in, out);
      } else if (round % 4 == 1) {
        std::vector<Request> requests = grid.exchange_async(world, in, out);
        check_equal(requests.size(), std::size_t{4});
        wait_all(requests);
      } else if (round % 4 == 2) {
        start_all(prepared);
        wait_all(prepared);
      } else {
        grid.exchange(other, AnyConstElements{in.data(), in.size(), ElementType::int32},
                      AnyElements{out.data(), out.size(), ElementType::int32});
      }
      for (int d = 0; d < 2; ++d) {
        const auto [before, behind] = grid.shift(d);
        const auto first = static_cast<std::size_t>(2 * d) * count;
        // The one before sent it behind itself, and the one behind before itself.
        const int of_before = before == no_rank ? -1 : before * 1000 + (2 * d + 1) * 100 + round;
        const int of_behind = behind == no_rank ? -1 : behind * 1000 + 2 * d * 100 + round;
        for (std::size_t i = 0; i < count; ++i) {
          check_equal(out[first + i], of_before);
          check_equal(out[first + count + i], of_behind);
        }
      }
    }
  }
}

// Nothing of it has begun: the exchange behind it is as if it had not been.
void exchanges_that_cannot_be_are_refused(Communicator& world, Arguments) {
  constexpr ErrorCode bad = ErrorCode::bad_argument;
  const Grid grid{world, {0}, {true}};
  std::vector<int> in{world.rank(), world.rank()};
  std::vector<int> out(2);
  std::vector<int> three(3);
  const auto refused = [&](Communicator& over, auto&& sent, auto&& received,
                           const std::string& cause, const std::string& hint) {
    expect_error([&] { grid.exchange(over, sent, received); },
                 {bad, no_peer, "exchange", cause, hint});
    expect_error([&] { (void)grid.exchange_async(over, sent, received); },
                 {bad, no_peer, "exchange_async", cause, hint});
    expect_error([&] { (void)grid.prepare_exchange(over, sent, received); },
                 {bad, no_peer, "prepare_exchange", cause, hint});
  };
  const std::string two_each = "a block for each of two neighbours of each dimension";
  refused(world, three, three, "*", "*");
  refused(world, in, three, "2 elements to 2 neighbours, and 3 from them", two_each);
  refused(world, std::span{three}.first(1), out, "1 elements to 2 neighbours, and 2 from them",
          two_each);
  refused(world, std::span{three}.first(2), std::span{three}.last(2),
          "the 8 bytes to send and the 8 bytes to receive into overlap",
          "send from one range and receive into another");
  refused(world, std::span<int>{static_cast<int*>(nullptr), 2}, out, "null with a count of 2",
          "a range without memory has a count of 0");
  refused(world, AnyConstElements{in.data(), 2, ElementType::int32},
          AnyElements{out.data(), 2, ElementType::float32},
          "in has elements of 4 bytes, out has others, of 4 bytes",
          "give in and out elements of one type");
  Communicator alone = world.self();
  if (world.size() > 1) {
    refused(alone, in, out,
            "rank 0 of 1 is rank " + std::to_string(world.rank()) + " of " +
                std::to_string(world.size()) + " in the grid",
            "exchange over the communicator of the grid, or another of its ranks");
  }
  const Communicator kept = std::move(alone);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tried
  refused(alone, in, out, "the object was moved from, and is empty", "use what it was moved to");
  expect_error([&] { grid.exchange(world, in, out, {.timeout = 0ms}); },
               {bad, no_peer, "sendrecv_async", "*", "*"});
  grid.exchange(world, in, out);
  const auto [before, behind] = grid.shift(0);
  check(out == std::vector<int>{before, behind}, "who is beside this rank");
}

void grids_that_cannot_be_are_refused(Communicator& world, Arguments) {
  const int size = world.size();
  constexpr ErrorCode bad = ErrorCode::bad_argument;
  const std::string hint =
      "lengths are 1 or more, and their product is the number of ranks; one may be 0: what the "
      "others leave";
  for (const std::vector<int>& lengths :
       {std::vector<int>{},
        {size + 1},
        {-1},
        {0, 0},
        {size, -1, -1},
        {size + 1, 0},
        {std::numeric_limits<int>::max(), std::numeric_limits<int>::max(), 0}}) {
    expect_error([&] { const Grid grid(world, lengths); }, {bad, no_peer, "grid", "*", hint});
  }
  expect_error(
      [&] {
        const Grid grid(world, {size}, {true, false});
      },
      {bad, no_peer, "grid", "1 dimensions, 2 of which are said to be periodic or not",
       "say of each dimension whether it is periodic, or of none"});
  const Grid grid{world, {size}};
  expect_error([&] { grid.shift(1); }, {bad, no_peer, "shift", "dimension 1 of 1", "*"});
  expect_error([&] { grid.shift(-1); }, {bad, no_peer, "shift", "dimension -1 of 1", "*"});
  expect_error([&] { (void)grid.is_periodic(1); }, {bad, no_peer, "is_periodic", "*", "*"});
  expect_error([&] { (void)grid.coordinates(size); },
               {bad, any_peer_at_all, "coordinates", "*", "*"});
  expect_error(
      [&] {
        (void)grid.rank_at({0, 0});
      },
      {bad, no_peer, "rank_at", "2 coordinates of 1 dimensions", "*"});
  expect_error([&] { (void)grid_lengths(0, 1); }, {bad, no_peer, "grid_lengths", "*", "*"});
  world.barrier();
}

}  // namespace

std::vector<Scenario> grid_scenarios() {
  return {
      in_world("every_grid_agrees_with_its_coordinates", every_grid_agrees_with_its_coordinates),
      in_world("neighbours_of_a_grid_exchange_blocks", neighbours_of_a_grid_exchange_blocks),
      in_world("exchanges_that_cannot_be_are_refused", exchanges_that_cannot_be_are_refused),
      in_world("grids_that_cannot_be_are_refused", grids_that_cannot_be_are_refused)};
}

}  // namespace qpmesh::ranks

// Ranks as points of a grid.
#include <limits>
#include <map>

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

// What comes names who sent it and by which of its sides.
void neighbours_of_a_grid_exchange_blocks(Communicator& world, Arguments) {
  constexpr std::size_t count = 700;
  for (const bool periodic : {false, true}) {
    const Grid grid{world, grid_lengths(world.size(), 2), {periodic, periodic}};
    for (int round = 0; round < 10; ++round) {
      std::vector<int> in(4 * count);
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = world.rank() * 1000 + static_cast<int>(i / count) * 100 + round;
      std::vector<int> out(in.size(), -1);
      grid.exchange(world, in, out);
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
  std::vector<int> three(3);
  std::vector<int> two(2);
  expect_error([&] { grid.exchange(world, three, three); }, {bad, no_peer, "exchange", "*", "*"});
  expect_error([&] { grid.exchange(world, two, three); }, {bad, no_peer, "exchange", "*", "*"});
  world.barrier();
}

}  // namespace

std::vector<Scenario> grid_scenarios() {
  return {
      in_world("every_grid_agrees_with_its_coordinates", every_grid_agrees_with_its_coordinates),
      in_world("neighbours_of_a_grid_exchange_blocks", neighbours_of_a_grid_exchange_blocks),
      in_world("grids_that_cannot_be_are_refused", grids_that_cannot_be_are_refused)};
}

}  // namespace qpmesh::ranks

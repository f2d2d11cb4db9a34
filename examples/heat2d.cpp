// SPDX-License-Identifier: MIT
// Heat in a square plate whose upper edge is hot: every point becomes the mean of its four
// neighbours, again and again (Jacobi). The ranks share the plate as a grid of tiles; before each
// step they exchange the tiles' edges, and now and then ask whether anything still moves. At the
// end every rank computes the whole plate alone and compares: the same sums in the same order give
// the same bits.
#include <qpmesh/qpmesh.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

constexpr int side = 120;  // points of the plate in each direction
constexpr int steps = 400;

// Rows and columns of a part of the plate, with a border of neighbours' points around it.
struct Tile {
  int rows, columns;
  int first_row, first_column;  // of the plate
  std::vector<double> points =
      std::vector<double>(static_cast<std::size_t>((rows + 2) * (columns + 2)));

  double& at(int row, int column) {
    const int index = (row + 1) * (columns + 2) + column + 1;
    return points[static_cast<std::size_t>(index)];
  }
};

Tile make_tile(int tile_row, int tile_rows, int tile_column, int tile_columns) {
  const int row = side * tile_row / tile_rows;
  const int column = side * tile_column / tile_columns;
  Tile tile{side * (tile_row + 1) / tile_rows - row,
            side * (tile_column + 1) / tile_columns - column, row, column};
  if (row == 0)
    for (int i = -1; i <= tile.columns; ++i)
      tile.at(-1, i) = 1.0;  // the hot edge; the others stay at 0
  return tile;
}

// One step; returns the largest change.
double relax(Tile& tile, Tile& next) {
  double change = 0;
  for (int row = 0; row < tile.rows; ++row) {
    for (int column = 0; column < tile.columns; ++column) {
      const double vertical = tile.at(row - 1, column) + tile.at(row + 1, column);
      const double mean = (vertical + tile.at(row, column - 1) + tile.at(row, column + 1)) / 4;
      change = std::max(change, std::abs(mean - tile.at(row, column)));
      next.at(row, column) = mean;
    }
  }
  std::swap(tile.points, next.points);
  return change;
}

// Points of a tile in a row, across or down.
struct Line {
  int row, column;
  bool down;

  double& point(Tile& tile, int i) const {
    return tile.at(row + (down ? i : 0), column + (down ? 0 : i));
  }
};

// Sends the edge to one neighbour and receives the opposite one's into the border. At the plate's
// edge there is none: no_rank.
void exchange_lines(qpmesh::Communicator& world, Tile& tile, Line edge, int to, Line border,
                    int from) {
  std::vector<double> out(static_cast<std::size_t>(edge.down ? tile.rows : tile.columns));
  std::vector<double> in(out.size());
  for (int i = 0; double& value : out) value = edge.point(tile, i++);
  world.sendrecv(out, to, in, from);
  if (from == qpmesh::no_rank) return;
  for (int i = 0; const double value : in) border.point(tile, i++) = value;
}

}  // namespace

int main() {
  try {
    auto world = qpmesh::init();
    int tile_rows = static_cast<int>(std::sqrt(world.size()));
    while (world.size() % tile_rows != 0) --tile_rows;
    const int tile_columns = world.size() / tile_rows;
    const int my_row = world.rank() / tile_columns;
    const int my_column = world.rank() % tile_columns;
    const auto rank_at = [&](int row, int column) {
      return row < 0 || row == tile_rows || column < 0 || column == tile_columns
                 ? qpmesh::no_rank
                 : row * tile_columns + column;
    };
    const int up = rank_at(my_row - 1, my_column);
    const int down = rank_at(my_row + 1, my_column);
    const int left = rank_at(my_row, my_column - 1);
    const int right = rank_at(my_row, my_column + 1);

    Tile tile = make_tile(my_row, tile_rows, my_column, tile_columns);
    Tile next = tile;
    Tile plate = make_tile(0, 1, 0, 1);
    Tile next_plate = plate;
    double residual = 0;
    double residual_alone = 0;
    for (int step = 1; step <= steps; ++step) {
      exchange_lines(world, tile, {0, 0, false}, up, {tile.rows, 0, false}, down);
      exchange_lines(world, tile, {tile.rows - 1, 0, false}, down, {-1, 0, false}, up);
      exchange_lines(world, tile, {0, 0, true}, left, {0, tile.columns, true}, right);
      exchange_lines(world, tile, {0, tile.columns - 1, true}, right, {0, -1, true}, left);
      residual = relax(tile, next);
      residual_alone = relax(plate, next_plate);
      if (step % 100 == 0) residual = world.allreduce(residual, qpmesh::max);
    }

    int different = residual == residual_alone ? 0 : 1;
    for (int row = 0; row < tile.rows; ++row)
      for (int column = 0; column < tile.columns; ++column)
        different +=
            tile.at(row, column) != plate.at(tile.first_row + row, tile.first_column + column);
    different = world.allreduce(different, qpmesh::sum);
    if (world.rank() == 0) {
      std::printf("%d x %d tiles, %d steps: residual %.3e, %d points differ from one rank's\n",
                  tile_rows, tile_columns, steps, residual, different);
    }
    world.finish();
    return different == 0 ? 0 : 1;
  } catch (const qpmesh::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

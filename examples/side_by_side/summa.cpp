// SPDX-License-Identifier: MIT
// C = A B, all three cut into a block for each rank of a grid (SUMMA): for each k, column k of A
// goes along the rows of the grid, row k of B down its columns, and each rank adds their product.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int n = 48;
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size(), rows = size % 2 == 0 ? 2 : 1;
  const int height = n / rows, width = n / (size / rows);  // of a block
  const int top = rank / (size / rows) * height, left = rank % (size / rows) * width;
  auto row = world.split(top).value(), column = world.split(left).value();
  std::vector<double> c(height * width), a_column(height), b_row(width);
  for (int k = 0; k < n; ++k) {
    if (k / width == left / width)
      for (int i = 0; i < height; ++i) a_column[i] = top + i + k;  // A: i + k
    if (k / height == top / height)
      for (int j = 0; j < width; ++j) b_row[j] = k - left - j;  // B: k - j
    row.broadcast(a_column, k / width);
    column.broadcast(b_row, k / height);
    for (int i = 0; i < height; ++i)
      for (int j = 0; j < width; ++j) c[i * width + j] += a_column[i] * b_row[j];
  }
  bool right = true;
  for (int i = top; i < top + height; ++i)
    for (int j = left; j < left + width; ++j)
      right &= c[(i - top) * width + j - left] ==
               (i - j) * n * (n - 1) / 2 - n * i * j + (n - 1) * n * (2 * n - 1) / 6;
  right = world.allreduce(right, qpmesh::logical_and);
  if (rank == 0) std::printf("SUMMA: %s\n", right ? "right" : "wrong");
  world.finish();
  return right ? 0 : 1;
}

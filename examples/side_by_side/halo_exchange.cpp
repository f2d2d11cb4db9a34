// SPDX-License-Identifier: MIT
// Each rank has a part of a line of points, and needs one point more at either end: its
// neighbours'.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int count = 100;  // of each rank
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size(), first = rank * count - 1;
  const int left = rank > 0 ? rank - 1 : qpmesh::no_rank;
  const int right = rank < size - 1 ? rank + 1 : qpmesh::no_rank;
  std::vector<double> points(count + 2);
  for (int i = left < 0 ? 0 : 1; i <= count + (right < 0 ? 1 : 0); ++i)
    points[i] = 1.0 * (first + i) * (first + i);
  world.sendrecv(points[1], left, points[count + 1], right);
  world.sendrecv(points[count], right, points[0], left);
  bool good = true;  // the second difference of squares is 2
  for (int i = 1; i <= count; ++i) good &= points[i - 1] - 2 * points[i] + points[i + 1] == 2;
  good = world.allreduce(good, qpmesh::logical_and);
  if (rank == 0) std::printf("halo exchange: %s\n", good ? "right" : "wrong");
  world.finish();
  return good ? 0 : 1;
}

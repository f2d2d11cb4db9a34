// SPDX-License-Identifier: MIT
// The inner product of two vectors that lie in parts on the ranks.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>

int main() {
  constexpr int count = 1000;  // of each rank
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size();
  double mine = 0;
  for (int i = rank * count; i < (rank + 1) * count; ++i) mine += 2.0 * i;
  const double product = world.allreduce(mine, qpmesh::sum);
  const double n = 1.0 * size * count;
  const bool right = product == n * (n - 1);
  if (rank == 0) std::printf("dot product: %s\n", right ? "right" : "wrong");
  world.finish();
  return right ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// Mean and variance of samples that lie on the ranks, in one pass: parts are merged by a function.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>

struct Moments {
  double count, mean, squares;  // squares: of the distances from the mean
};

static Moments merge(Moments a, Moments b) {
  const double count = a.count + b.count, distance = b.mean - a.mean;
  return {count, a.mean + distance * b.count / count,
          a.squares + b.squares + distance * distance * a.count * b.count / count};
}

int main() {
  constexpr int samples = 1000;  // of each rank: 0, 1, 2, … over all ranks
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size();
  Moments mine{1, 1.0 * rank * samples, 0};
  for (int i = 1; i < samples; ++i) mine = merge(mine, {1, 1.0 * rank * samples + i, 0});
  const Moments all = world.allreduce(mine, qpmesh::commutative(merge));
  const double n = 1.0 * size * samples, error = all.squares / n / ((n * n - 1) / 12) - 1;
  const bool right = all.count == n && error < 1e-9 && error > -1e-9;
  if (rank == 0) std::printf("user reduction: %s\n", right ? "right" : "wrong");
  world.finish();
  return right ? 0 : 1;
}

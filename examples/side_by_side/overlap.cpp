// SPDX-License-Identifier: MIT
// A sum over the ranks is under way while each rank computes something else.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int count = 1 << 16;
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size();
  std::vector<double> values(count, rank + 1.0);
  auto summing = world.allreduce_async(values, qpmesh::sum);
  long computed = 0;
  for (int i = 0; i < count; ++i) {
    computed += i;
    if (i % (1 << 12) == 0) summing.test();  // goes on
  }
  summing.wait();
  bool right = computed == 1L * count * (count - 1) / 2;
  for (int i = 0; i < count; ++i) right &= values[i] == size * (size + 1) / 2;
  if (rank == 0) std::printf("overlap: %s\n", right ? "right" : "wrong");
  world.finish();
  return right ? 0 : 1;
}

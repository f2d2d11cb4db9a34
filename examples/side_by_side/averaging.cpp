// SPDX-License-Identifier: MIT
// The average of what the ranks have in a vector, such as gradients.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>
#include <vector>

int main() {
  constexpr int count = 1000;
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size();
  std::vector<float> gradient(count);
  for (int i = 0; i < count; ++i) gradient[i] = static_cast<float>(2 * rank + i);
  world.allreduce(gradient, qpmesh::average);
  bool right = true;
  for (int i = 0; i < count; ++i) right &= gradient[i] == static_cast<float>(size - 1 + i);
  if (rank == 0) std::printf("averaging: %s\n", right ? "right" : "wrong");
  world.finish();
  return right ? 0 : 1;
}

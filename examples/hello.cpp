// SPDX-License-Identifier: MIT
// The smallest whole program: join the job, reduce a vector over all ranks, leave together.
//   qpmesh-run -np 4 example_hello      mpirun --oversubscribe -np 4 example_hello example_hello
#include <qpmesh/qpmesh.hpp>

#include <cstdio>
#include <vector>

int main() {
  auto world = qpmesh::init();
  std::vector<float> values(1000, 1.0f);
  world.allreduce(values, qpmesh::sum);
  if (world.rank() == 0) std::printf("%d ranks, each element %g\n", world.size(), values[0]);
  world.finish();
}

// SPDX-License-Identifier: MIT
// Rank 0 gives tasks to whoever is free: a result, at first an empty one, asks for the next task.
#include <qpmesh/qpmesh.hpp>

#include <cstdio>

int main() {
  constexpr int tasks = 100, no_task = -1;
  auto world = qpmesh::init();
  const int rank = world.rank();
  int total = 0, result = 0, task = 0;
  for (int next = 0, working = world.size() - 1; rank == 0 && working > 0;) {
    const int worker = world.receive(result).source;
    total += result;
    task = next < tasks ? next++ : no_task;
    if (task == no_task) --working;
    world.send(task, worker);
  }
  while (rank > 0 && task != no_task) {
    world.send(result, 0);
    world.receive(task, 0);
    result = task * task;
  }
  const bool right = rank != 0 || total == (tasks - 1) * tasks * (2 * tasks - 1) / 6;
  if (rank == 0) std::printf("work queue: %s\n", right ? "right" : "wrong");
  world.finish();
  return right ? 0 : 1;
}

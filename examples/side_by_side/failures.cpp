// SPDX-License-Identifier: MIT
// Rank 0 gives tasks to workers, one of which is killed: its task is done by another one.
#include <qpmesh/qpmesh.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <vector>

constexpr int tasks = 100, no_task = -1;

static int work(int task) { return task * task; }

int main() {
  auto world = qpmesh::init();
  const int rank = world.rank(), size = world.size();
  std::vector<qpmesh::Communicator> pairs;  // each breaks alone
  for (int worker = 1; worker < size; ++worker)
    if (rank == 0 || rank == worker) pairs.push_back(world.subgroup(std::array{0, worker}));
  for (int task = 0; rank > 0;) {
    pairs[0].receive(task, 0);
    if (task == no_task) return 0;
    if (rank == 1) std::raise(SIGKILL);
    pairs[0].send(work(task), 0);
  }
  std::vector<int> queue, given(pairs.size()), result(pairs.size());
  for (int task = 0; task < tasks; ++task) queue.push_back(tasks - 1 - task);
  std::vector<qpmesh::Request> requests(pairs.size());
  const auto give = [&](std::size_t i) {
    given[i] = queue.empty() ? no_task : queue.back();
    pairs[i].send(given[i], 1);
    if (given[i] == no_task) return;
    queue.pop_back();
    requests[i] = pairs[i].receive_async(result[i], 1);
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) give(i);
  int total = 0, dead = 0;
  for (std::size_t i; (i = qpmesh::wait_any(requests)) < pairs.size();) {
    try {
      requests[i].wait();
    } catch (const qpmesh::Error&) {
      queue.push_back(given[i]);
      ++dead;
      continue;
    }
    total += result[i];
    give(i);
  }
  for (const int task : queue) total += work(task);
  const bool right = dead == 1 && total == (tasks - 1) * tasks * (2 * tasks - 1) / 6;
  std::printf("failures: %s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}

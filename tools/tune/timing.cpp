#include "tools/tune/timing.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace qpmesh::tune {
namespace {

constexpr double try_s_min = 50e-6;
constexpr int calls_max = 1 << 16;

double sample_s(Communicator& world, const std::function<void()>& call, int count) {
  world.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// From times that all ranks share, so that they agree. The first calls touch memory for the first
// time.
int agreed_count(Communicator& world, const std::function<void()>& call) {
  sample_s(world, call, 1);
  for (int count = 1;; count *= 2) {
    std::array<double, 5> samples{};
    for (double& sample : samples) sample = sample_s(world, call, count);
    world.allreduce(samples, max);
    if (std::ranges::min(samples) >= try_s_min || count >= calls_max) return count;
  }
}

}  // namespace

std::vector<double> times_s(Communicator& world, const Calls& calls, int tries) {
  std::vector<int> counts;
  counts.reserve(calls.size());
  for (const auto& call : calls) counts.push_back(agreed_count(world, call));
  const auto try_count = static_cast<std::size_t>(tries);
  std::vector<std::vector<double>> samples(calls.size(), std::vector<double>(try_count));
  for (std::size_t i = 0; i < try_count; ++i) {
    for (std::size_t which = 0; which < calls.size(); ++which)
      samples[which][i] = sample_s(world, calls[which], counts[which]) / counts[which];
  }
  std::vector<double> usual;
  for (auto& of_call : samples) {
    world.allreduce(of_call, max);
    std::ranges::sort(of_call);
    usual.push_back(of_call[try_count / 5]);
  }
  return usual;
}

double time_s(Communicator& world, const std::function<void()>& call, int tries) {
  return times_s(world, {call}, tries).front();
}

}  // namespace qpmesh::tune

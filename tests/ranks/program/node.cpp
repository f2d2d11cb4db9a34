// Ranks of one node that load each other's memory: what slow members, failures and the caller's elements must not do.
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// The widest alignment that the caller's elements may have, on both sides of the function.
struct alignas(16) Wide {
  std::int64_t values[2];  // NOLINT(*-avoid-c-arrays)
};

void wide_elements_are_aligned(Communicator& world, Arguments) {
  std::size_t misplaced = 0;
  const auto add = [&](const Wide* left, Wide* inout, std::size_t count) {
    for (const void* const place : {static_cast<const void*>(left), static_cast<const void*>(inout)})
      misplaced += reinterpret_cast<std::uintptr_t>(place) % alignof(Wide) == 0 ? 0U : 1U;
    for (std::size_t i = 0; i < count; ++i) inout[i].values[0] += left[i].values[0];
  };
  for (const std::size_t count : {1U, 33U, 100'000U}) {
    const std::vector<Wide> mine(count, Wide{{world.rank() + 1, 0}});
    std::vector<Wide> result(count);
    world.allreduce(mine, result, ordered(add));
    check_equal(result.back().values[0], world.size() * (world.size() + 1) / 2);
    world.reduce(mine, result, ordered(add), 0);
    world.scan(mine, result, ordered(add));
    const std::vector<Wide> all(count * static_cast<std::size_t>(world.size()), mine.front());
    world.reduce_scatter(all, result, ordered(add));
  }
  check_equal(misplaced, std::size_t{0});
}

// The root comes to the end of its slots, and sleeps; nothing is published when a reader has done with one.
void a_root_sleeps_no_longer_than_its_readers(Communicator& world, Arguments) {
  using namespace std::chrono_literals;
  std::vector<int> data(4);
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  if (world.rank() != 0) std::this_thread::sleep_for(300ms);
  for (int i = 0; i < 12; ++i) world.broadcast(data, 0, {.algorithm = "one_shot"});
  check(std::chrono::steady_clock::now() - begin < 800ms, "slots that are free are seen at once");
}

}  // namespace

std::vector<Scenario> node_scenarios() {
  return {in_world("wide_elements_are_aligned", wide_elements_are_aligned),
          in_world("a_root_sleeps_no_longer_than_its_readers", a_root_sleeps_no_longer_than_its_readers)};
}

}  // namespace qpmesh::ranks

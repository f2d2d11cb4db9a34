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

// arguments[0]: a file. The first rank gives a Buffer to calls that end at their deadline, because nobody comes, and then writes
// it. Who comes after that must not take what lies there now for what was given.
void a_late_member_does_not_take_what_was_taken_back(Communicator& world, Arguments arguments) {
  constexpr std::size_t count = 1 << 20;
  Buffer<std::uint8_t> given = world.allocate<std::uint8_t>(count);
  std::vector<std::uint8_t> all(count * static_cast<std::size_t>(world.size()));
  std::vector<std::uint8_t> taken(count);
  const auto late = [&](const std::string& name, auto&& call) {
    Communicator group = world.duplicate();
    const std::string file = arguments[0] + name;
    std::ranges::fill(given, std::uint8_t{1});
    world.barrier();
    if (world.rank() == 0) {
      expect_error([&] { call(group, given, Call{.timeout_ms = 50, .algorithm = "staged"}); },
                   {ErrorCode::timeout, any_peer_at_all, name, "*", timeout_hint});
      std::ranges::fill(given, std::uint8_t{2});
      make_file(file);
    } else {
      await_file(file);
      expect_error([&] { call(group, std::span{taken}, Call{.timeout_ms = 5'000, .algorithm = "staged"}); },
                   {ErrorCode::timeout, any_peer_at_all, name, "*", timeout_hint});
    }
    world.barrier();
  };
  late("broadcast",
       [](Communicator& group, std::span<std::uint8_t> data, Call call) { group.broadcast(data, 0, call); });
  late("allgather", [&](Communicator& group, std::span<std::uint8_t> data, Call call) {
    group.allgather(data, all, call);
  });
}

// arguments[0]: a file. Nobody comes to what the first rank has in flight.
void a_failure_ends_more_than_are_counted(Communicator& world, Arguments arguments) {
  Communicator group = world.duplicate();
  if (world.rank() != 0) {
    await_file(arguments[0]);
  } else {
    std::vector<Request> requests;
    std::vector<int> data(100);
    requests.reserve(data.size());
    for (int& value : data)
      requests.push_back(group.allreduce_async(std::span{&value, 1}, sum, {.timeout_ms = 50}));
    for (Request& request : requests)
      expect_error([&] { request.wait(); }, {ErrorCode::timeout, 1, "allreduce_async", "*", timeout_hint});
    make_file(arguments[0]);
  }
  world.barrier();
}

}  // namespace

std::vector<Scenario> node_scenarios() {
  return {in_world("wide_elements_are_aligned", wide_elements_are_aligned),
          in_world("a_root_sleeps_no_longer_than_its_readers", a_root_sleeps_no_longer_than_its_readers),
          in_world("a_late_member_does_not_take_what_was_taken_back",
                   a_late_member_does_not_take_what_was_taken_back),
          in_world("a_failure_ends_more_than_are_counted", a_failure_ends_more_than_are_counted)};
}

}  // namespace qpmesh::ranks

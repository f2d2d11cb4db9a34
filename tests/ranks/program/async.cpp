// SPDX-License-Identifier: MIT
// Operations in flight: many at once, none waited for in order, none waiting for a peer to return.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr std::size_t in_flight = 16;

struct InFlight {
  std::vector<std::vector<std::int64_t>> data;
  std::vector<Request> requests;
};

// Allreduces on both sides of every limit; after them, a ring of messages if asked for.
InFlight start_sixteen(Communicator& world, bool with_messages, std::vector<Bytes>& messages) {
  InFlight all;
  const std::size_t reductions = with_messages ? in_flight / 2 : in_flight;
  for (std::size_t i = 0; i < reductions; ++i)
    all.data.push_back(addends(world.rank(), std::size_t{1} << i));
  for (auto& data : all.data) all.requests.push_back(world.allreduce_async(data, sum));
  messages.resize(in_flight);
  for (std::size_t i = reductions; i < in_flight; i += 2) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    messages[i] = pattern(i * 10'000, world.rank());
    messages[i + 1].resize(i * 10'000);
    all.requests.push_back(world.send_async(messages[i], next, 1));
    all.requests.push_back(world.receive_async(messages[i + 1], previous, 1));
  }
  return all;
}

void check_sixteen(const Communicator& world, const InFlight& all,
                   const std::vector<Bytes>& messages) {
  for (const auto& data : all.data) check_sum(data, world.size());
  for (std::size_t i = all.data.size(); i < in_flight; i += 2) {
    check_pattern(messages[i + 1], (world.rank() + world.size() - 1) % world.size());
  }
}

void sixteen_end_under_test_alone(Communicator& world, Arguments) {
  for (const bool with_messages : {false, true}) {
    std::vector<Bytes> messages;
    InFlight all = start_sixteen(world, with_messages, messages);
    check_equal(all.requests.size(), in_flight);
    std::size_t done = 0;
    while (done < in_flight) {
      done = 0;
      for (Request& request : all.requests) done += request.test() ? 1U : 0U;
    }
    check_sixteen(world, all, messages);
    for (Request& request : all.requests) {
      check(request.test(), "done stays done");
      request.wait();
    }
  }
}

void sixteen_end_waited_in_reverse(Communicator& world, Arguments) {
  for (const bool with_messages : {false, true}) {
    std::vector<Bytes> messages;
    InFlight all = start_sixteen(world, with_messages, messages);
    for (auto request = all.requests.rbegin(); request != all.requests.rend(); ++request)
      request->wait();
    check_sixteen(world, all, messages);
  }
}

void sixteen_end_under_wait_any(Communicator& world, Arguments) {
  std::vector<Bytes> messages;
  InFlight all = start_sixteen(world, true, messages);
  while (!all.requests.empty()) {
    const std::size_t index = wait_any(all.requests);
    check(index < all.requests.size(), "an index of the span");
    all.requests[index].wait();
    all.requests.erase(all.requests.begin() + static_cast<std::ptrdiff_t>(index));
  }
  check_sixteen(world, all, messages);
  expect_error([&] { wait_any({}); }, {.code = ErrorCode::bad_argument,
                                       .operation = "wait_any",
                                       .cause = "there are no requests",
                                       .hint = "wait for at least one"});
}

// arguments[0]: the file by which rank 0 says that its calls have returned. Nobody else enters
// before.
void calls_return_before_others_enter(Communicator& world, Arguments arguments) {
  const std::string& file = arguments[0];
  const std::size_t element_count = 1 << 18;
  std::vector<std::int64_t> data = addends(world.rank(), element_count);
  std::vector<std::int64_t> small = addends(world.rank(), 1);
  const Bytes out = pattern(1 << 20, world.rank());
  Bytes in(1 << 20);
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  if (world.rank() != 0) await_file(file);
  std::vector<Request> requests;
  requests.push_back(world.barrier_async());
  requests.push_back(world.allreduce_async(data, sum));
  requests.push_back(world.sendrecv_async(out, next, in, previous, 2));
  requests.push_back(world.allreduce_async(small, sum));
  if (world.rank() == 0) {
    check(!requests[0].test(), "a barrier cannot end before all have entered");
    check(!requests[2].test(), "a sendrecv cannot end before the other side began");
    make_file(file);
  }
  wait_all(requests);
  check_sum(data, world.size());
  check_sum(small, world.size());
  check_pattern(in, previous);
}

// A large send in flight on one communicator while both ranks wait in another.
void waiting_in_one_group_serves_the_other(Communicator& world, Arguments) {
  Communicator row = *world.split(0);
  const std::size_t bytes = 16 << 20;
  if (world.rank() == 0) {
    const Bytes big = pattern(bytes, 3);
    Request send = world.send_async(big, 1);
    row.barrier();
    send.wait();
  } else {
    Bytes big(bytes);
    if (world.rank() == 1) {
      world.receive(big, 0);
      check_pattern(big, 3);
    }
    row.barrier();
  }
}

void requests_move_and_wait_in_their_destructor(Communicator& world, Arguments) {
  std::vector<std::int64_t> data = addends(world.rank(), 1000);
  {
    Request first = world.allreduce_async(data, sum);
    Request second = std::move(first);
    // NOLINTNEXTLINE(bugprone-use-after-move): what a moved-from request says is what is tested
    check(first.test(), "a moved-from request has nothing to wait for");
    first.wait();
  }
  check_sum(data, world.size());
  std::vector<std::int64_t> other = addends(world.rank(), 10);
  Request request = world.barrier_async();
  request = world.allreduce_async(other, sum);  // waits for the barrier
  request.wait();
  check_sum(other, world.size());
}

void the_status_is_told_after_test_too(Communicator& world, Arguments) {
  for (const std::size_t bytes : {std::size_t{30}, std::size_t{9'000}, std::size_t{300'000}}) {
    const int next = (world.rank() + 1) % world.size();
    const int previous = (world.rank() + world.size() - 1) % world.size();
    const Bytes out = pattern(bytes, world.rank());
    Bytes in(bytes + 1);
    Request receive = world.receive_async(in, any_source, any_tag);
    Request send = world.send_async(out, next, 5);
    while (!receive.test()) {}
    for (int i = 0; i < 2; ++i) check_status(receive.wait(), previous, 5, bytes);
    check_pattern(std::span{in}.first(bytes), previous);
    send.wait();
    world.barrier();
  }
}

// The request keeps the context: the communicator may go first.
void a_request_outlives_its_communicator(Arguments) {
  std::vector<std::int64_t> data;
  std::optional<Request> request;
  int size = 0;
  {
    Communicator world = init();
    data = addends(world.rank(), 50'000);
    size = world.size();
    request.emplace(world.allreduce_async(data, sum));
  }
  request->wait();
  check_sum(data, size);
}

// One collective after another without a pause, of every size and kind; also what a launcher test
// runs.
void allreduce_of_every_size(Communicator& world, Arguments) {
  for (std::size_t element_count = 0; element_count <= 300'000;
       element_count = element_count * 3 + 1) {
    std::vector<std::int64_t> in = addends(world.rank(), element_count);
    std::vector<std::int64_t> out(element_count, -1);
    world.allreduce(in, out, sum);
    check_sum(out, world.size());
    world.allreduce(in, sum);
    check_sum(in, world.size());
  }
  std::vector<double> largest{static_cast<double>(world.rank()), -1.0};
  world.allreduce(largest, max);
  check_equal(largest[0], static_cast<double>(world.size() - 1));
  std::vector<int> least{world.rank() + 5};
  world.allreduce(least, min);
  check_equal(least[0], 5);
  std::vector<float> mean{static_cast<float>(2 * world.rank())};
  world.allreduce(mean, average);
  check_equal(mean[0], static_cast<float>(world.size() - 1));
  for (int i = 0; i < 200; ++i) world.barrier();
  if (world.rank() == 0) say("right in a world of " + std::to_string(world.size()));
}

void again_after_finish(Arguments) {
  for (int i = 0; i < 4; ++i) {
    Communicator world = init();
    allreduce_of_every_size(world, {});
    if (i == 2)
      continue;  // left without finish: the barrier in it was the last thing anybody needed
    world.finish();
  }
}

// One rank is set up wrongly, and the others wait for it in vain. Then it is mended.
void again_after_an_init_that_failed(Arguments) {
  // NOLINTBEGIN(concurrency-mt-unsafe): one thread
  const bool is_wrong = std::string_view{std::getenv("QPMESH_RANK")} == "1";
  const std::string size = std::getenv("QPMESH_SIZE");
  if (is_wrong) ::setenv("QPMESH_SIZE", "many", 1);
  Options options = Options::from_environment();
  options.init_timeout_ms = is_wrong ? 30'000 : 500;
  expect_error(
      [&] { init(options); },
      is_wrong ? Expected{ErrorCode::bad_config, no_peer, "init",
                          "QPMESH_SIZE is \"many\"; allowed is a number from 1 to 65536",
                          "docs/options.md lists every variable"}
               : Expected{ErrorCode::timeout, 1, "init", "rank 1 of " + size + " missing after *",
                          "QPMESH_SIZE says " + size + " ranks: was every one started? *"});
  ::setenv("QPMESH_SIZE", size.c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
  Communicator world = init();
  allreduce_of_every_size(world, {});
}

}  // namespace

std::vector<Scenario> async_scenarios() {
  return {in_world("sixteen_end_under_test_alone", sixteen_end_under_test_alone),
          in_world("sixteen_end_waited_in_reverse", sixteen_end_waited_in_reverse),
          in_world("sixteen_end_under_wait_any", sixteen_end_under_wait_any),
          in_world("calls_return_before_others_enter", calls_return_before_others_enter),
          in_world("waiting_in_one_group_serves_the_other", waiting_in_one_group_serves_the_other),
          in_world("requests_move_and_wait_in_their_destructor",
                   requests_move_and_wait_in_their_destructor),
          in_world("the_status_is_told_after_test_too", the_status_is_told_after_test_too),
          {"a_request_outlives_its_communicator", a_request_outlives_its_communicator},
          in_world("allreduce_of_every_size", allreduce_of_every_size),
          {"again_after_finish", again_after_finish},
          {"again_after_an_init_that_failed", again_after_an_init_that_failed}};
}

}  // namespace qpmesh::ranks

// SPDX-License-Identifier: MIT
// What becomes of a request that is not simply waited for: two contexts, cancelled, told before,
// left by an exception or by finish().
#include <algorithm>
#include <array>
#include <optional>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::int64_t ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count();
}

// A message in the second context wakes a wait that began with a request of the first one.
void wait_any_hears_every_context(Communicator& world, Arguments) {
  Communicator other = world.independent();
  std::int64_t shortest_ms = 500;  // a sleeper whom nobody wakes looks again by itself
  for (int i = 0; i < 4; ++i) {
    int first = 0;
    int second = 0;
    world.barrier();
    if (world.rank() == 1) {
      std::this_thread::sleep_for(milliseconds{50});
      other.send(std::span{&i, 1}, 0);
      world.barrier();
      world.send(std::span{&i, 1}, 0);
      continue;
    }
    std::vector<Request> requests;
    requests.push_back(world.receive_async(std::span{&first, 1}, 1));
    requests.push_back(other.receive_async(std::span{&second, 1}, 1));
    const auto begin = Clock::now();
    check_equal(wait_any(requests), std::size_t{1});
    shortest_ms = std::min(shortest_ms, ms_since(begin));
    requests[1].wait();
    check_equal(second, i);
    world.barrier();
    check_equal(wait_any(requests), std::size_t{0});
    requests[0].wait();
    check_equal(first, i);
  }
  // Of four: one may take long for what else the machine does.
  if (world.rank() == 0) check(shortest_ms < 500, "no wait was woken");
  world.barrier();
  other.finish();
}

// Each rank begins with the message that the other one serves last.
void wait_all_in_opposite_orders(Communicator& world, Arguments) {
  Communicator other = world.independent();
  const CallOptions limit{.timeout = 10'000ms};
  const Bytes out = pattern(8 << 20, world.rank());
  Bytes in(out.size());
  const int peer = 1 - world.rank();
  Communicator& receives = world.rank() == 0 ? world : other;
  Communicator& sends = world.rank() == 0 ? other : world;
  std::vector<Request> requests;
  requests.push_back(receives.receive_async(in, peer, 0, limit));
  requests.push_back(sends.send_async(out, peer, 0, limit));
  wait_all(requests);
  check_pattern(in, peer);
  world.barrier();
  other.finish();
}

void finish_names_what_is_in_flight(Communicator& world, Arguments) {
  Communicator group = world.duplicate();
  const int me = group.rank();
  int value = -1;
  {
    Request request = group.receive_async(std::span{&value, 1}, me, 7);
    const auto begin = Clock::now();
    expect_error([&] { group.finish(); },
                 {ErrorCode::bad_argument, me, "finish",
                  "receive_async with rank " + std::to_string(me) + ", tag 7, is still in flight",
                  "wait for every request, or cancel it, before finish()"});
    check(ms_since(begin) < 500, "told at once");
    group.send(std::vector<int>{me}, me, 7);
    request.wait();
    check_equal(value, me);
  }
  if (group.size() > 1) {
    Request request = me == 0 ? group.barrier_async() : Request{};
    world.barrier();
    if (me == 0) {
      expect_error([&] { group.finish(); },
                   {ErrorCode::bad_argument, no_peer, "finish", "barrier_async is still in flight",
                    "wait for every request, or cancel it, before finish()"});
    }
    world.barrier();
    if (me != 0) group.barrier();
    request.wait();
  }
  group.barrier();
  group.finish();
}

void an_error_stays_told(Communicator& world, Arguments) {
  const int me = world.rank();
  const Bytes out(20);
  Bytes in(10);
  const Expected told{ErrorCode::truncated, me, "receive_async",
                      "the message has 20 bytes, the buffer 10",
                      "the message stays in line for the next receive; probe() tells its size"};
  world.send(out, me, 3);
  std::vector<Request> requests;
  requests.push_back(world.receive_async(in, me, 3));
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { requests[0].test(); }, told);
    expect_error([&] { requests[0].wait(); }, told);
    expect_error([&] { wait_all(requests); }, told);
  }
  check_equal(wait_any(requests), requests.size());  // it was told: there is nothing to wait for
  Bytes whole(20);
  world.receive(whole, me, 3);
}

void wait_any_tells_each_request_once(Communicator& world, Arguments) {
  const int me = world.rank();
  constexpr std::size_t count = 8;
  std::vector<int> values(count, -1);
  std::vector<Request> requests(count + 1);  // the last one is none
  for (std::size_t i = 0; i < count; ++i) {
    requests[i] = world.receive_async(std::span{values}.subspan(i, 1), me, static_cast<int>(i));
  }
  for (std::size_t i = 0; i < count; ++i) {
    world.send(std::vector<int>{static_cast<int>(i)}, me, static_cast<int>(count - 1 - i));
    const std::size_t found = wait_any(requests);
    check_equal(found, count - 1 - i);
    requests[found].wait();
    check_equal(values[found], static_cast<int>(i));
  }
  check_equal(wait_any(requests), requests.size());
}

// One that is done and whose end nobody asks for does not hide the others.
void wait_any_goes_round(Communicator& world, Arguments) {
  const int me = world.rank();
  constexpr std::size_t count = 3;
  std::vector<int> values(count, -1);
  std::vector<Request> requests(count);
  for (std::size_t i = 0; i < count; ++i)
    requests[i] = world.receive_async(std::span{values}.subspan(i, 1), me, static_cast<int>(i));
  for (const int tag : {0, 2}) world.send(std::vector<int>{tag}, me, tag);
  const std::size_t first = wait_any(requests);
  const std::size_t second = wait_any(requests);
  check(first != second && first != 1 && second != 1, "each that is done, in turn");
  check_equal(wait_any(requests), first);
  requests[first].wait();
  requests[second].wait();
  world.send(std::vector<int>{1}, me, 1);
  check_equal(wait_any(requests), std::size_t{1});
  requests[1].wait();
  check_equal(wait_any(requests), count);
}

void several_requests_are_tested_and_waited_for(Communicator& world, Arguments) {
  using namespace std::chrono_literals;
  const int me = world.rank();
  std::vector<int> values(3, -1);
  std::vector<Request> requests;
  requests.reserve(values.size());
  for (int tag = 0; int& value : values) requests.push_back(world.receive_async(value, me, tag++));
  check(!test_any(requests), "nothing is done");
  check(!test_all(requests), "not all is done");
  check(!requests[0].wait_for(0ms) && !requests[0].wait_for(20ms), "nothing has come");

  world.send(12, me, 2);
  check_equal(wait_any(requests), std::size_t{2});
  check_equal(test_any(requests).value(), std::size_t{2});
  check(wait_some(requests) == std::vector<std::size_t>{2}, "one is done");
  check(!test_all(requests), "the others are not done");
  requests[2].wait();
  check(!test_any(requests), "its end was told");

  world.send(10, me, 0);
  world.send(11, me, 1);
  check(requests[0].wait_for(10'000ms), "the first one is done");
  check(wait_some(requests) == std::vector<std::size_t>{1}, "the second one is done");
  check(test_all(requests), "all are done");
  requests[1].wait();
  check(values == std::vector<int>{10, 11, 12}, "each got its own");
  check(wait_some(requests).empty() && !test_any(requests), "all ends were told");
  check(test_all({}), "nothing is done at once");

  // An error is told by whoever asks, each time.
  std::int16_t small = 0;
  Request refused = world.receive_async(std::span{&small, 1}, me, 5);
  world.send(std::vector<std::int16_t>{1, 2}, me, 5);
  const Expected told{ErrorCode::truncated, me, "receive_async", "*", "*"};
  for (int i = 0; i < 2; ++i) expect_error([&] { refused.wait_for(10'000ms); }, told);
  expect_error([&] { refused.wait(); }, told);
  check_equal(world.receive<std::int16_t>(me, 5).size(), std::size_t{2});
}

// A send that was over when it was made is a request like others.
void wait_any_tells_sends_that_are_over(Communicator& world, Arguments) {
  const int me = world.rank();
  const std::vector<int> values{0, 1, 2};
  const std::size_t count = values.size();
  std::vector<Request> requests;
  for (std::size_t i = 0; i < count; ++i)
    requests.push_back(world.send_async(std::span{values}.subspan(i, 1), me, 1));
  std::vector<bool> seen(count);
  for (std::size_t i = 0; i < count; ++i) seen[wait_any(requests)] = true;
  check(std::ranges::find(seen, false) == seen.end(), "each that is done, in turn");
  check(!requests[0].cancel(), "it has gone");
  check(requests[0].test(), "it is done");
  check_equal(requests[1].wait().source, no_rank);
  check_equal(wait_any(requests), std::size_t{2});
  wait_all(requests);
  check_equal(wait_any(requests), count);
  for (std::size_t i = 0; i < count; ++i) {
    int value = -1;
    world.receive(std::span{&value, 1}, me, 1);
    check_equal(value, values[i]);
  }
}

void a_cancelled_receive_takes_nothing(Communicator& world, Arguments) {
  const int me = world.rank();
  int early = -1;
  int late = -1;
  Request cancelled = world.receive_async(std::span{&early, 1}, me, 1);
  Request kept = world.receive_async(std::span{&late, 1}, me, 1);
  check(cancelled.cancel(), "nothing has come for it");
  check(cancelled.test(), "a cancelled request is done");
  check_status(cancelled.wait(), no_rank, any_tag, 0);
  check(!cancelled.cancel(), "it cannot be cancelled twice");
  world.send(std::vector<int>{5}, me, 1);
  check_status(kept.wait(), me, 1, sizeof(int));
  check_equal(early, -1);
  check_equal(late, 5);
  check(!kept.cancel(), "a request that is done is not cancelled");
  check(!Request{}.cancel(), "no request");

  // What has come already, and what others take part in, is not taken back.
  world.send(std::vector<int>{6}, me, 2);
  Request done = world.receive_async(std::span{&early, 1}, me, 2);
  check(!done.cancel(), "its message is here");
  done.wait();
  check_equal(early, 6);
  Request barrier = world.barrier_async();
  if (world.size() > 1) check(!barrier.cancel(), "a collective is everybody's");
  barrier.wait();
}

struct Own : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller's own exception is seen at once, and the communicator lives on.
void an_exception_cancels_what_is_unmatched(Communicator& world, Arguments) {
  const auto begin = Clock::now();
  Bytes in(100, std::uint8_t{7});
  try {
    std::vector<Request> requests(8);
    for (int tag = 0; tag < 8; ++tag)
      requests[static_cast<std::size_t>(tag)] = world.receive_async(in, any_source, tag);
    throw Own{"ours"};
  } catch (const Own&) {
    check(ms_since(begin) < 500, "it took " + std::to_string(ms_since(begin)) + " ms");
  }
  world.barrier();
  const int next = (world.rank() + 1) % world.size();
  const Bytes out(100, std::uint8_t{8});
  for (int tag = 0; tag < 8; ++tag) world.send(out, next, tag);
  Bytes other(100);
  for (int tag = 0; tag < 8; ++tag) world.receive(other, any_source, tag);
  check(in == Bytes(100, std::uint8_t{7}), "given back: nothing is written there");
  check(other == out, "the messages came to later receives");
}

// Rank 0 leaves a collective that nobody else comes to: its exception is seen soon, and the others
// learn why.
void an_exception_ends_what_waits_for_others(Communicator& world, Arguments) {
  Communicator group = world.duplicate();
  world.barrier();
  const Expected told{ErrorCode::aborted, 0, "*",
                      "an exception ended * on that rank while it was in flight", "*"};
  const auto expect_told = [&](auto&& call) {
    try {
      call();
      fail("no error", Place::current());
    } catch (const Error& error) {
      Expected exactly = told;
      exactly.operation = error.operation();
      check_error(error, exactly);
    }
  };
  std::vector<double> data(1'000'000, 1.0);
  if (world.rank() == 0) {
    const auto begin = Clock::now();
    try {
      Request request = group.allreduce_async(data, sum);
      throw Own{"ours"};
    } catch (const Own&) {
      check(ms_since(begin) < 1'000, "it took " + std::to_string(ms_since(begin)) + " ms");
    }
  } else {
    std::this_thread::sleep_for(milliseconds{600});
    expect_told([&] { group.allreduce(data, sum); });
  }
  expect_told([&] { group.barrier(); });
  world.barrier();
}

// The sender stands still in the middle of a message. arguments[0]: the file that lets it go on.
void an_exception_gives_no_buffer_back_that_is_written(Communicator& world, Arguments arguments) {
  Communicator group = world.duplicate();
  const Bytes out(32 << 20, std::uint8_t{9});
  Bytes in(out.size(), std::uint8_t{1});
  world.barrier();
  if (world.rank() == 1) {
    try {
      Request request = group.send_async(out, 0);
      world.send(1, 0);
      await_file(arguments[0]);
      request.wait();
    } catch (const Error& error) {
      check(error.code() == ErrorCode::aborted, error.what());
    }
    return world.barrier();
  }
  Clock::time_point begin;
  try {
    Request request = group.receive_async(in, 1);
    world.receive<int>(1);  // behind the head of the other message, which has its receive now
    begin = Clock::now();
    throw Own{"ours"};
  } catch (const Own&) {
    check(ms_since(begin) < 2'000, "it took " + std::to_string(ms_since(begin)) + " ms");
  }
  const Bytes given_back = in;
  make_file(arguments[0]);
  world.barrier();
  std::this_thread::sleep_for(milliseconds{50});
  check(in == given_back, "nothing is written into it any more");
}

// The receiver stands still while bytes that it has asked for wait at the sender. arguments[0]: the
// file that lets it go on.
void an_exception_gives_no_source_back_that_is_read(Arguments arguments) {
  constexpr std::uint8_t sent = 9;
  constexpr std::uint8_t reused = 0xff;
  Communicator world = init();
  Communicator group = world.duplicate();
  Bytes data(64 << 20, world.rank() == 0 ? sent : std::uint8_t{1});
  world.barrier();
  const auto begin = Clock::now();
  if (world.rank() == 1) {
    Request request = group.receive_async(data, 0);
    while (data[0] != sent && ms_since(begin) < 1'000 && !request.test()) {}
    await_file(arguments[0]);
    try {
      request.wait();
    } catch (const Error& error) {
      check(error.code() == ErrorCode::aborted || error.code() == ErrorCode::link_failed,
            error.what());
    }
    return check(std::ranges::count(data, reused) == 0, "what its owner wrote later came");
  }
  try {
    Request request = group.send_async(data, 1);
    while (ms_since(begin) < 100 && !request.test()) {}
    throw Own{"ours"};
  } catch (const Own&) {
    check(ms_since(begin) < 2'000, "it took " + std::to_string(ms_since(begin)) + " ms");
  }
  std::ranges::fill(data, reused);
  make_file(arguments[0]);
  try {
    world.receive(data, 1, 0, {.timeout = milliseconds{1'000}});
  } catch (const Error&) {}
}

// By the call that ends it: what the function uses may go when that has returned.
void a_function_is_called_by_the_call_that_takes_its_receive_back(Communicator& world, Arguments) {
  int never = 0;
  for (const std::string how : {"cancel", "deadline", "exception"}) {
    int told = 0;
    try {
      Request request = world.receive_async(never, world.rank(), 1, {.timeout = 20ms});
      request.on_end([&] { ++told; });
      if (how == "cancel") check(request.cancel(), "taken back");
      if (how == "deadline")
        expect_error([&] { request.wait(); },
                     {ErrorCode::timeout, any_peer_at_all, "receive_async", "*", "*"});
      if (how == "exception") throw std::runtime_error{"of the program"};
      check_equal(told, 1);
    } catch (const std::runtime_error& error) {
      if (how != "exception") throw;
    }
    check_equal(told, 1);
  }
  Request{}.on_end([] { throw std::runtime_error{"is logged"}; });
  world.barrier();
}

void wait_any_ends_at_the_first_deadline(Communicator& world, Arguments) {
  for (const bool first : {true, false}) {
    std::array<int, 2> never{};
    std::vector<Request> requests;
    for (const bool limited : {first, !first}) {
      requests.push_back(world.receive_async(never[limited ? 1 : 0], world.rank(), 1,
                                             {.timeout = limited ? TimeLimit{50ms} : no_limit}));
    }
    expect_error([&] { wait_any(requests); },
                 {ErrorCode::timeout, any_peer_at_all, "wait_any", "*", "*"});
    for (Request& request : requests) check(request.cancel(), "nothing came");
  }
  world.barrier();
}

void test_any_goes_round(Communicator& world, Arguments) {
  std::array<int, 2> values{};
  std::vector<Request> requests(2);
  std::array<int, 2> found{};
  for (int i = 0; i < 10; ++i) {
    for (std::size_t slot = 0; slot < 2; ++slot) {
      if (requests[slot].is_in_flight()) continue;
      world.send(i, world.rank(), static_cast<int>(slot));
      requests[slot] = world.receive_async(values[slot], world.rank(), static_cast<int>(slot));
    }
    const auto index = test_any(requests);
    check(index.has_value(), "both are done");
    requests[*index].wait();
    ++found[*index];
  }
  check_equal(found[0], 5);
  check_equal(found[1], 5);
  wait_all(requests);
  world.barrier();
}

void the_longest_wait_is_one(Communicator& world, Arguments) {
  const int peer = world.rank() ^ 1;
  int value = 0;
  Request request = world.receive_async(value, peer, 1);
  std::this_thread::sleep_for(20ms);
  const int seven = 7;
  Request sent = world.send_async(seven, peer, 1);
  check(request.wait_for(milliseconds::max()), "it has come");
  check_equal(value, 7);
  sent.wait();
  world.barrier();
}

}  // namespace

std::vector<Scenario> request_scenarios() {
  return {
      in_world("a_function_is_called_by_the_call_that_takes_its_receive_back",
               a_function_is_called_by_the_call_that_takes_its_receive_back),
      in_world("wait_any_ends_at_the_first_deadline", wait_any_ends_at_the_first_deadline),
      in_world("test_any_goes_round", test_any_goes_round),
      in_world("the_longest_wait_is_one", the_longest_wait_is_one),
      in_world("wait_any_hears_every_context", wait_any_hears_every_context),
      in_world("wait_all_in_opposite_orders", wait_all_in_opposite_orders),
      in_world("finish_names_what_is_in_flight", finish_names_what_is_in_flight),
      in_world("an_error_stays_told", an_error_stays_told),
      in_world("wait_any_tells_each_request_once", wait_any_tells_each_request_once),
      in_world("wait_any_goes_round", wait_any_goes_round),
      in_world("several_requests_are_tested_and_waited_for",
               several_requests_are_tested_and_waited_for),
      in_world("wait_any_tells_sends_that_are_over", wait_any_tells_sends_that_are_over),
      in_world("a_cancelled_receive_takes_nothing", a_cancelled_receive_takes_nothing),
      in_world("an_exception_cancels_what_is_unmatched", an_exception_cancels_what_is_unmatched),
      in_world("an_exception_ends_what_waits_for_others", an_exception_ends_what_waits_for_others),
      in_world("an_exception_gives_no_buffer_back_that_is_written",
               an_exception_gives_no_buffer_back_that_is_written),
      {"an_exception_gives_no_source_back_that_is_read",
       an_exception_gives_no_source_back_that_is_read}};
}

}  // namespace qpmesh::ranks

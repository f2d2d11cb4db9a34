// What a caller can do wrong, and what it is told.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr ErrorCode bad = ErrorCode::bad_argument;

void impossible_arguments(Communicator& world, Arguments) {
  const int size = world.size();
  const std::string ranks = "0 to " + std::to_string(size - 1);
  std::vector<int> data(8);
  const std::vector<int> four(4);
  const auto wrong_rank = [&](auto&& call, int peer, std::string_view operation, std::string_view what) {
    expect_error(call, {bad, peer, operation, {what, std::to_string(peer), "not a rank"}, ranks});
  };
  for (const int peer : {size, -2, std::numeric_limits<int>::max()}) {
    wrong_rank([&] { world.send(data, peer); }, peer, "send", "destination");
    wrong_rank([&] { auto request = world.send_async(data, peer); }, peer, "send_async", "destination");
    wrong_rank([&] { world.receive(data, peer); }, peer, "receive", "source");
    wrong_rank([&] { auto request = world.receive_async(data, peer); }, peer, "receive_async", "source");
    wrong_rank([&] { world.exchange(four, peer, data, 0); }, peer, "exchange", "destination");
    wrong_rank([&] { world.exchange(four, 0, data, peer); }, peer, "exchange", "source");
    wrong_rank([&] { world.probe(peer); }, peer, "probe", "source");
    wrong_rank([&] { world.try_probe(peer); }, peer, "try_probe", "source");
  }
  wrong_rank([&] { world.send(data, any_source); }, any_source, "send", "destination");

  const auto wrong_tag = [&](auto&& call, int tag, std::string_view operation) {
    expect_error(call, {bad, no_peer, operation, {"tag " + std::to_string(tag)}, "0 to 2147483647"});
  };
  wrong_tag([&] { world.send(data, 0, -1); }, -1, "send");
  wrong_tag([&] { world.receive(data, 0, -2); }, -2, "receive");
  wrong_tag([&] { world.exchange(four, 0, data, 0, -1); }, -1, "exchange");
  wrong_tag([&] { world.probe(0, -7); }, -7, "probe");

  const std::size_t huge_count =
      static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(int) + 1;
  const auto negative_count = static_cast<std::size_t>(-1);
  for (const std::size_t count : {huge_count, negative_count}) {
    const std::span<int> range{data.data(), count};
    const std::string cause = std::to_string(count) + " elements of 4 bytes";
    const auto wrong_count = [&](auto&& call, std::string_view operation) {
      expect_error(call, {bad, no_peer, operation, {cause}, "negative count"});
    };
    wrong_count([&] { world.send(range, 0); }, "send");
    wrong_count([&] { world.receive(range, 0); }, "receive");
    wrong_count([&] { world.allreduce(range, sum); }, "allreduce");
    wrong_count([&] { auto request = world.allreduce_async(range, range, sum); }, "allreduce_async");
    wrong_count([&] { world.exchange(range, 0, data, 0); }, "exchange");
  }

  const std::span<int> nothing{static_cast<int*>(nullptr), 3};
  const auto null_data = [&](auto&& call, std::string_view operation) {
    expect_error(call, {bad, no_peer, operation, {"null with a count of 3"}});
  };
  null_data([&] { world.send(nothing, 0); }, "send");
  null_data([&] { world.receive(nothing, 0); }, "receive");
  null_data([&] { world.allreduce(nothing, sum); }, "allreduce");

  const std::span<int> front = std::span{data}.first(4);
  const std::span<int> shifted = std::span{data}.subspan(1, 4);
  expect_error([&] { world.allreduce(front, shifted, sum); },
               {bad, no_peer, "allreduce", {"overlap", "16 bytes"}, "in place"});
  expect_error([&] { world.allreduce(shifted, front, sum); },
               {bad, no_peer, "allreduce", {"overlap", "16 bytes"}, "in place"});
  expect_error([&] { world.exchange(front, 0, shifted, 0); }, {bad, no_peer, "exchange", {"overlap"}});
  expect_error([&] { world.allreduce(four, data, sum); },
               {bad, no_peer, "allreduce", {"in has 4 elements", "out has 8"}});
  std::vector<float> floats(2);
  std::vector<double> doubles(2);
  for (const Reduction reduction : {bit_and, bit_or, bit_xor}) {
    expect_error([&] { world.allreduce(floats, reduction); },
                 {bad, no_peer, "allreduce", {"bitwise", "floating"}});
    expect_error([&] { world.allreduce(doubles, reduction); },
                 {bad, no_peer, "allreduce", {"bitwise", "floating"}});
  }
  expect_error([&] { world.split(-7); }, {bad, no_peer, "split", {"color -7"}, "no_color"});

  // Nothing of all that was consumed or sent: the next calls match on every rank.
  check(!world.try_probe().has_value(), "nothing was sent");
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  world.allreduce(sums, sum);
  check_sum(sums, size);
}

// One rank's arguments make no sense, the others' do: it may call again, and they never knew.
void a_refused_call_can_be_made_again(Communicator& world, Arguments) {
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  std::vector<std::int64_t> out(5);
  if (world.rank() == 1) {
    expect_error([&] { world.allreduce(std::span{sums}.first(4), out, sum); },
                 {bad, no_peer, "allreduce", {"in has 4 elements", "out has 5"}});
  }
  world.allreduce(sums, out, sum);
  check_sum(out, world.size());
}

using Clock = std::chrono::steady_clock;

// Even ranks call one thing, odd ones another. Every rank is told both, within
// a second, and told the same again.
template <class A, class B>
void differ(Communicator& group, A&& even, B&& odd, std::string_view even_call, std::string_view odd_call,
            std::string_view even_name, std::string_view odd_name) {
  Communicator disputed = group.duplicate();
  group.barrier();
  const auto begin = Clock::now();
  const bool is_even = group.rank() % 2 == 0;
  const Expected expected{ErrorCode::mismatch,
                          group.size() == 2 ? 1 - group.rank() : any_peer_at_all,
                          is_even ? even_name : odd_name,
                          {even_call, odd_call, "rank 0", "rank 1"},
                          "same collectives"};
  Expected told = expected;
  if (group.size() > 2) told.in_cause = {even_call, odd_call};
  expect_error([&] { is_even ? even(disputed) : odd(disputed); }, told);
  check(Clock::now() - begin < std::chrono::milliseconds{1000}, "told within a second");
  told.operation = "barrier";
  expect_error([&] { disputed.barrier(); }, told);
  std::vector<std::int64_t> sums = addends(group.rank(), 5);
  group.allreduce(sums, sum);  // another communicator has nothing to do with it
  check_sum(sums, group.size());
}

void calls_that_differ_are_named_on_every_rank(Communicator& world, Arguments) {
  std::vector<float> floats(100'000);
  std::vector<double> doubles(100'000);
  const auto reduce = [](auto& data, std::size_t count, Reduction reduction) {
    return [&data, count, reduction](Communicator& group) {
      group.allreduce(std::span{data}.first(count), reduction);
    };
  };
  const auto barrier = [](Communicator& group) { group.barrier(); };
  differ(world, reduce(floats, 4, sum), reduce(floats, 5, sum), "allreduce(4 float32, sum)",
         "allreduce(5 float32, sum)", "allreduce", "allreduce");
  differ(world, reduce(floats, 100'000, sum), reduce(floats, 0, sum), "allreduce(100000 float32, sum)",
         "allreduce(0 float32, sum)", "allreduce", "allreduce");
  differ(world, reduce(floats, 4, sum), reduce(floats, 4, max), "allreduce(4 float32, sum)",
         "allreduce(4 float32, max)", "allreduce", "allreduce");
  differ(world, reduce(floats, 4, sum), reduce(doubles, 4, sum), "allreduce(4 float32, sum)",
         "allreduce(4 float64, sum)", "allreduce", "allreduce");
  differ(world, barrier, reduce(floats, 4, sum), "barrier()", "allreduce(4 float32, sum)", "barrier",
         "allreduce");
  differ(
      world, reduce(floats, 50'000, sum), [](Communicator& group) { group.split(0); },
      "allreduce(50000 float32, sum)", "split()", "allreduce", "split");
  differ(
      world, [](Communicator& group) { group.finish(); }, barrier, "finish()", "barrier()", "finish",
      "barrier");
}

// The same with one rank that comes late: the others' calls are parked at it until it begins.
void a_late_call_that_differs_is_named_too(Communicator& world, Arguments) {
  std::vector<float> floats(4);
  differ(
      world, [&](Communicator& group) { group.allreduce(floats, sum); },
      [](Communicator& group) {
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
        group.barrier();
      },
      "allreduce(4 float32, sum)", "barrier()", "allreduce", "barrier");
}

// arguments: the rank that is set otherwise, the variable, its value there, the others' value.
void options_that_differ(Arguments arguments) {
  const int odd = std::stoi(arguments[0]);
  const int me = std::stoi(std::getenv("QPMESH_RANK"));
  const std::string mine = "'" + arguments[me == odd ? 2 : 3] + "' on this rank";
  const std::string theirs =
      "'" + arguments[me == odd ? 3 : 2] + "' on rank " + std::to_string(me == odd ? 0 : odd);
  expect_error(
      [] { init(); },
      {ErrorCode::mismatch, me == odd ? 0 : odd, "init", {arguments[1], mine, theirs}, "same value"});
}

// arguments: the operation, what the cause names, what the hint names.
void init_is_refused(Arguments arguments) {
  expect_error([] { init(); }, {ErrorCode::bad_config, no_peer, arguments[0], {arguments[1]}, arguments[2]});
}

// arguments: what the cause names. The other ranks never come.
void init_times_out(Arguments arguments) {
  expect_error([] { init(); }, {ErrorCode::timeout, std::stoi(arguments[0]), "init", {arguments[1]}});
}

void nothing_works_after_finish(Arguments) {
  Communicator world = init();
  Communicator child = world.duplicate();
  const int me = world.rank();
  const int size = world.size();
  world.finish();
  std::vector<std::int64_t> data = addends(me, 4);
  const auto refused = [&](auto&& call, std::string_view operation) {
    expect_error(call, {bad, no_peer, operation, {"has finished"}, "last call"});
  };
  refused([&] { world.send(data, 0); }, "send");
  refused([&] { world.receive(data); }, "receive");
  refused([&] { world.barrier(); }, "barrier");
  refused([&] { world.allreduce(data, sum); }, "allreduce");
  refused([&] { auto request = world.allreduce_async(data, sum); }, "allreduce_async");
  refused([&] { world.try_probe(); }, "try_probe");
  refused([&] { world.split(0); }, "split");
  refused([&] { world.duplicate(); }, "duplicate");
  refused([&] { world.allocate<int>(4); }, "allocate");
  refused([&] { world.finish(); }, "finish");
  child.allreduce(data, sum);  // a group of its own
  check_sum(data, size);
  child.finish();
}

// The other thread is inside a call for sure once it sleeps there: nothing else on its way can sleep.
void two_threads_in_one_context(Communicator& world, Arguments arguments) {
  if (world.rank() != 0) {
    await_file(arguments[0]);
    world.barrier();
    return;
  }
  std::atomic<pid_t> other{0};
  std::exception_ptr failure;
  std::thread thread{[&] {
    other = ::gettid();
    try {
      world.barrier();
    } catch (...) {
      failure = std::current_exception();
    }
  }};
  while (other == 0) std::this_thread::yield();
  const std::string path = "/proc/self/task/" + std::to_string(other) + "/syscall";
  for (int i = 0; i < 20'000; ++i) {
    std::ifstream file{path};
    int number = -1;
    if (file >> number && number == 232) break;  // epoll_wait
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  std::vector<int> data(1);
  const auto refused = [&](auto&& call, std::string_view operation) {
    expect_error(call, {bad, no_peer, operation, {"another call of this context"}, "independent()"});
  };
  refused([&] { world.send(data, 0); }, "send");
  refused([&] { world.barrier(); }, "barrier");
  refused([&] { world.progress(); }, "progress");
  refused([&] { world.try_probe(); }, "try_probe");
  refused([&] { world.allocate<int>(1); }, "allocate");
  make_file(arguments[0]);
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<Scenario> error_scenarios() {
  return {in_world("impossible_arguments", impossible_arguments),
          in_world("a_refused_call_can_be_made_again", a_refused_call_can_be_made_again),
          in_world("calls_that_differ_are_named_on_every_rank", calls_that_differ_are_named_on_every_rank),
          in_world("a_late_call_that_differs_is_named_too", a_late_call_that_differs_is_named_too),
          {"options_that_differ", options_that_differ},
          {"init_is_refused", init_is_refused},
          {"init_times_out", init_times_out},
          {"nothing_works_after_finish", nothing_works_after_finish},
          in_world("two_threads_in_one_context", two_threads_in_one_context)};
}

}  // namespace qpmesh::ranks

// SPDX-License-Identifier: MIT
// Several threads in one context, and one of the library's that makes progress.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

using std::chrono::milliseconds;

// Runs work(0) to work(count - 1), each in a thread of its own, and throws what the first one
// threw.
void in_threads(int count, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock{mutex};
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

// Eager, and by rendezvous.
constexpr std::array<std::size_t, 4> lengths_bytes{8, 3000, 70'000, 300'000};

void threads_send_and_receive_at_once(Communicator& world, Arguments) {
  constexpr int threads = 3;
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  in_threads(threads, [&](int thread) {
    for (int round = 0; round < 60; ++round) {
      const std::size_t bytes = lengths_bytes[static_cast<std::size_t>(round + thread) % 4];
      const Bytes out = pattern(bytes, world.rank() * 100 + round);
      Bytes in(bytes);
      if (round % 3 == 0) {
        Request request = world.receive_async(in, left, thread);
        world.send(out, right, thread);
        request.wait();
      } else {
        world.sendrecv(out, right, in, left, thread);
      }
      check_pattern(in, left * 100 + round);
    }
  });
  world.barrier();
}

// What one thread waits for comes because of what the other one sends.
void a_thread_sends_while_another_one_waits(Communicator& world, Arguments) {
  for (int round = 0; round < 50; ++round) {
    if (world.rank() == 1) {
      int value = 0;
      world.receive(value, 0, 2);
      world.send(value + 1, 0, 1);
      continue;
    }
    int value = 0;
    std::atomic<bool> begun{false};
    in_threads(2, [&](int thread) {
      if (thread == 0) {
        begun = true;
        world.receive(value, 1, 1);
        return;
      }
      while (!begun) std::this_thread::yield();
      if (round % 5 == 0) std::this_thread::sleep_for(milliseconds{3});  // the other one sleeps
      world.send(round, 1, 2);
    });
    check_equal(value, round + 1);
  }
  world.barrier();
}

void threads_wait_for_any_of_their_own(Communicator& world, Arguments) {
  constexpr int threads = 3;
  constexpr std::size_t requests_each = 8;
  in_threads(threads, [&](int thread) {
    for (int round = 0; round < 20; ++round) {
      std::array<int, requests_each> received{};
      std::vector<Request> requests;
      requests.reserve(received.size());
      const int from = (world.rank() + world.size() - 1) % world.size();
      for (int& value : received) requests.push_back(world.receive_async(value, from, thread));
      for (int i = 0; i < static_cast<int>(requests_each); ++i)
        world.send(round * 100 + i, (world.rank() + 1) % world.size(), thread);
      std::size_t told = 0;
      for (std::size_t next = wait_any(requests); next != requests.size(); ++told) {
        requests[next].wait();
        next = wait_any(requests);
      }
      check_equal(told, requests_each);
      for (int i = 0; i < static_cast<int>(requests_each); ++i)
        check_equal(received[static_cast<std::size_t>(i)], round * 100 + i);
    }
  });
  world.barrier();
}

void threads_have_groups_of_their_own(Communicator& world, Arguments) {
  constexpr int threads = 3;
  std::vector<Communicator> groups;
  groups.reserve(threads);
  for (int thread = 0; thread < threads; ++thread) groups.push_back(world.duplicate());
  in_threads(threads, [&](int thread) {
    Communicator& group = groups[static_cast<std::size_t>(thread)];
    for (int round = 0; round < 60; ++round) {
      const std::size_t count = round % 10 == 9 ? 40'000 : 1 + static_cast<std::size_t>(round);
      std::vector<std::int64_t> data = addends(group.rank(), count);
      if (round % 2 == 0) group.allreduce(data, data, sum);
      else group.allreduce_async(data, data, sum).wait();
      check_sum(data, group.size());
      if (round % 7 == 0) group.barrier();
    }
    Communicator child = group.duplicate();
    child.barrier();
    const Buffer<int> memory = child.allocate<int>(1000);
    check_equal(std::ranges::count(memory, 0), 1000);
  });
  world.barrier();
}

// Each message once, whoever takes it.
void threads_receive_from_one_line(Communicator& world, Arguments) {
  constexpr int messages = 200;
  constexpr int threads = 4;
  if (world.rank() == 0) {
    std::atomic<int> taken{0};
    std::array<std::atomic<int>, messages> seen{};
    in_threads(threads, [&](int) {
      while (taken.fetch_add(1) < messages) {
        const auto values = world.receive<int>(1, 5);
        ++seen[values.size()];
        for (const int value : values) check_equal(value, static_cast<int>(values.size()));
      }
    });
    for (const auto& count : seen) check_equal(count.load(), 1);
  } else if (world.rank() == 1) {
    for (int i = 0; i < messages; ++i)
      world.send(std::vector<int>(static_cast<std::size_t>(i), i), 0, 5);
  }
  world.barrier();
}

void another_thread_waits_for_a_request(Communicator& world, Arguments) {
  const int peer = world.rank() ^ 1;
  for (int round = 0; round < 40; ++round) {
    const std::size_t bytes = lengths_bytes[static_cast<std::size_t>(round) % 4];
    const Bytes out = pattern(bytes, world.rank() + round);
    Bytes in(bytes);
    Request received = world.receive_async(in, peer);
    Request sent = world.send_async(out, peer);
    in_threads(2, [&](int thread) {
      if (thread == 0) {
        received.wait();
      } else {
        const Request gone{std::move(sent)};  // its destructor waits
      }
    });
    check_pattern(in, peer + round);
  }
  world.barrier();
}

void a_deadline_of_one_thread_leaves_the_others(Communicator& world, Arguments) {
  const int peer = world.rank() ^ 1;
  in_threads(2, [&](int thread) {
    if (thread == 0) {
      for (int round = 0; round < 3; ++round) {
        int never = 0;
        expect_error([&] { world.receive(never, peer, 99, {.timeout = 60ms}); },
                     {ErrorCode::timeout, peer, "receive",
                      "rank * (pid * on *) did not do its part within 60 ms; it is alive as far as "
                      "the kernel knows",
                      timeout_hint});
        expect_error([&] { world.probe(peer, 98, {.timeout = 60ms}); },
                     {ErrorCode::timeout, any_peer_at_all, "probe", "*", timeout_hint});
      }
      return;
    }
    for (int round = 0; round < 300; ++round) {
      int value = round;
      world.sendrecv(world.rank() + round, peer, value, peer, 7);
      check_equal(value, peer + round);
    }
    std::this_thread::sleep_for(milliseconds{20});
    int value = 0;
    world.sendrecv(1, peer, value, peer, 8);
  });
  world.barrier();
}

void a_call_inside_a_reduction_is_refused(Communicator& world, Arguments) {
  std::vector<int> data{1, 2, 3};
  std::atomic<int> refused{0};
  const auto calls_back = [&](int a, int b) {
    try {
      world.progress();
    } catch (const Error& error) {
      check_error(error, {ErrorCode::bad_argument, no_peer, "progress",
                          "a function that a call of this context runs has called it",
                          "call it when that call has returned"});
      ++refused;
    }
    return a + b;
  };
  std::vector<int> out(data.size());
  world.reduce(data, out, calls_back, 0);
  const int all = world.allreduce(refused.load(), sum);
  check(all > 0, "no function ran");
  world.barrier();
}

// Tells the test that each of its threads waits, then expects the error of the test.
void expect_in_threads(Communicator& world, const std::function<void()>& last, ErrorCode code) {
  constexpr int threads = 3;
  std::atomic<int> waiting{0};
  in_threads(threads + 1, [&](int thread) {
    if (thread == threads) {
      while (waiting < threads) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds{20});
      return last();
    }
    ++waiting;
    int value = 0;
    const int from = (world.rank() + 1) % world.size();
    try {
      if (thread == 0) {
        world.probe(from, 50);
      } else {
        world.receive(value, from, 50 + thread);
      }
    } catch (const Error& error) {
      return check_equal(to_string(error.code()), to_string(code));
    }
    fail("no error", Place::current());
  });
}

void all_threads_hear_an_abort(Communicator& world, Arguments) {
  expect_in_threads(
      world,
      [&] {
        if (world.rank() == 0) world.abort("enough");
      },
      ErrorCode::aborted);
}

void all_threads_hear_a_death(Communicator& world, Arguments) {
  if (world.rank() == 0) {
    std::thread killer{[] {
      std::this_thread::sleep_for(milliseconds{100});
      std::_Exit(0);
    }};
    int value = 0;
    world.receive(value, 1, 49);
  }
  expect_in_threads(
      world, [] {}, ErrorCode::peer_dead);
}

// ---- a thread of the library's ----

// Nobody calls here meanwhile.
void await_ends(const std::atomic<int>& ends, int count) {
  for (int i = 0; i < 20'000 && ends < count; ++i) std::this_thread::sleep_for(milliseconds{1});
  check_equal(ends.load(), count);
}

// Nobody calls but the peer: its send ends only if this rank's part is done. What it sent last may
// still be under way then.
void a_long_message_comes_while_nobody_calls(Communicator& world, Arguments arguments) {
  const std::size_t bytes = 3 << 20;
  for (int round = 0; round < 3; ++round) {
    const std::string ended = arguments[0] + std::to_string(round);
    if (world.rank() == 0) {
      Bytes in(bytes);
      std::atomic<int> ends{0};
      Request request = world.receive_async(in, 1);
      request.on_end([&] { ++ends; });
      await_file(ended);
      await_ends(ends, 1);
      check(request.test(), "the receive has not ended");
      check_pattern(in, round);
    } else if (world.rank() == 1) {
      world.send(pattern(bytes, round), 0);
      make_file(ended);
    }
  }
  world.barrier();
}

// Each step of an allreduce of the others takes a part of rank 0's.
void collectives_go_on_while_nobody_calls(Communicator& world, Arguments arguments) {
  for (int round = 0; round < 3; ++round) {
    const std::string ended = arguments[0] + std::to_string(round);
    std::vector<std::int64_t> first = addends(world.rank(), 100'000);
    std::vector<std::int64_t> second = addends(world.rank(), 10);
    std::atomic<int> ends{0};
    std::vector<Request> requests;
    requests.push_back(world.allreduce_async(first, first, sum));
    requests.push_back(world.allreduce_async(second, second, sum));
    if (world.rank() == 0) {
      for (Request& request : requests) request.on_end([&] { ++ends; });
      for (int rank = 1; rank < world.size(); ++rank)
        await_file(ended + "." + std::to_string(rank));
      await_ends(ends, 2);
      check(test_all(requests), "the collectives have not ended");
    }
    wait_all(requests);
    if (world.rank() != 0) make_file(ended + "." + std::to_string(world.rank()));
    check_sum(first, world.size());
    check_sum(second, world.size());
  }
  world.barrier();
}

void calls_and_the_progress_thread_alternate(Communicator& world, Arguments) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  for (int round = 0; round < 600; ++round) {
    check_equal(world.allreduce(std::int64_t{1}, sum), std::int64_t{world.size()});
    int value = 0;
    world.sendrecv(round, right, value, left);
    check_equal(value, round);
    if (round % 100 == 0) std::this_thread::sleep_for(milliseconds{2});
  }
  world.barrier();
}

void a_context_goes_with_its_progress_thread(Communicator& world, Arguments) {
  for (int round = 0; round < 5; ++round) {
    Communicator other = world.independent();
    int value = 0;
    Request request = other.receive_async(value, any_source, 3);
    other.send(round, (other.rank() + 1) % other.size(), 3);
    if (round % 2 == 0) {
      request.wait();
      other.finish();
    }
  }
  world.barrier();
}

// ---- functions that are called at the end ----

void functions_are_called_at_the_end(Communicator& world, Arguments) {
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> called{0};
    const auto count = [&] { ++called; };
    const std::size_t bytes = lengths_bytes[static_cast<std::size_t>(round) % 4];
    const Bytes out = pattern(bytes, round);
    Bytes in(bytes);
    std::vector<std::int64_t> all = addends(world.rank(), 3000);
    std::vector<Request> requests;
    requests.push_back(world.sendrecv_async(out, right, in, left));
    requests.push_back(world.allreduce_async(all, all, sum));
    requests.push_back(world.receive_async(in, left, 77));
    for (Request& request : requests) request.on_end(count);
    check(requests.back().cancel(), "cancelled");
    wait_all(requests);
    while (called < 3) world.progress();
    world.barrier();
    check_equal(called.load(), 3);
    requests.front().on_end(count);  // it has ended
    check_equal(called.load(), 4);
    Request{}.on_end(count);
    check_equal(called.load(), 5);
  }
}

// The others come to finish() when rank 0's other thread was refused.
void calls_are_refused_while_finish_waits(Communicator& world, Arguments) {
  Communicator group = world.duplicate();
  if (world.rank() != 0) {
    world.receive<int>(0, 4);
    return group.finish();
  }
  std::thread other{[&] {
    try {
      for (;;) static_cast<void>(group.try_probe(0, 3));
    } catch (const Error& error) {
      check_error(error,
                  {ErrorCode::bad_argument, no_peer, "try_probe", "the communicator has finished",
                   "finish() is the last call on a communicator"});
    }
    for (int rank = 1; rank < world.size(); ++rank) world.send(1, rank, 4);
  }};
  group.finish();
  other.join();
}

thread_local bool is_asked_for = false;
thread_local bool is_interrupted = false;
std::atomic<int> asked_of_others{0};

// One thread is interrupted in each wait, the other one in none, and the library's own is not
// asked.
void an_interruption_is_of_one_thread(Communicator& world, Arguments) {
  is_asked_for = true;
  set_interrupt_check([]() noexcept {
    if (!is_asked_for) ++asked_of_others;
    return is_interrupted;
  });
  Communicator mine = world.duplicate();
  Communicator others = world.duplicate();
  const auto code_of = [](Communicator& group, const CallOptions& options) {
    try {
      group.receive<int>(group.rank(), 1, options);
    } catch (const Error& error) {
      return error.code();
    }
    throw std::runtime_error{"a message came from nobody"};
  };
  std::thread interrupted{[&] {
    is_asked_for = is_interrupted = true;
    for (int i = 0; i < 6; ++i) {
      check(code_of(others, {}) == ErrorCode::aborted, "the wait of the interrupted thread");
      std::vector<int> nothing(1);
      Request request = others.receive_async(nothing, others.rank(), 2);
      try {
        request.wait_for(10s);
        throw std::runtime_error{"wait_for was not interrupted"};
      } catch (const Error& error) {
        check(error.code() == ErrorCode::aborted, error.what());
      }
      check(request.cancel(), "it is in flight as before");
    }
  }};
  for (int i = 0; i < 20; ++i) {
    check(code_of(mine, {.timeout = 30ms}) == ErrorCode::timeout, "the wait of the other thread");
  }
  interrupted.join();
  set_interrupt_check(nullptr);
  check_equal(asked_of_others.load(), 0);
  world.barrier();
}

// A call that still waits is in flight as a request is.
void finish_is_refused_while_another_thread_receives(Communicator& world, Arguments) {
  for (const bool probes : {false, true}) {
    int refused = 0;
    while (refused == 0) {
      Communicator group = world.self();
      std::atomic<bool> comes{false};
      std::thread other{[&] {
        comes = true;
        try {
          if (probes) group.probe(0, 3);
          group.receive<int>(0, 3);
        } catch (const Error& error) {  // finish() came first: another round
          check(error.code() == ErrorCode::bad_argument, error.what());
        }
      }};
      while (!comes) {}
      std::this_thread::yield();
      try {
        group.finish();
      } catch (const Error& error) {
        ++refused;
        check_error(error, {ErrorCode::bad_argument, no_peer, "finish",
                            "another thread is in a call of the communicator that still waits",
                            "let every call return before finish()"});
        group.send(1, 0, 3);
      }
      other.join();
    }
  }
  world.barrier();
}

void a_function_at_the_end_is_refused_what_it_may_not_do(Communicator& world, Arguments) {
  const int peer = world.rank() ^ 1;
  int value = 0;
  std::atomic<int> refused{0};
  Request request = world.receive_async(value, peer);
  expect_error([&] { request.on_end({}); }, {ErrorCode::bad_argument, no_peer, "on_end",
                                             "the function is empty", "give a function"});
  request.on_end([&] {
    try {
      world.barrier();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::bad_argument) ++refused;
    }
    throw std::runtime_error{"from the function"};
  });
  expect_error([&] { request.on_end([] {}); },
               {ErrorCode::bad_argument, no_peer, "on_end", "the request has a function",
                "call both from one function"});
  world.barrier();  // the message must not come before
  world.send(1, peer);
  request.wait();
  while (refused == 0) world.progress();
  world.barrier();
}

// Left behind with its communicator: it is called before the context is gone.
void a_function_at_the_end_outlives_its_request(Communicator& world, Arguments) {
  std::atomic<int> called{0};
  {
    Communicator other = world.independent();
    int value = 0;
    Request request = other.receive_async(value, any_source, 9, {.timeout = 50ms});
    request.on_end([&] { ++called; });
  }
  check_equal(called.load(), 1);
  world.barrier();
}

// ---- an event loop of the program's ----

// Sleeps in its own epoll only. Peers that answer late must find it asleep, not polling.
void an_event_loop_serves_requests(Communicator& world, Arguments) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest{.events = EPOLLIN, .data = {.fd = 0}};
  check(::epoll_ctl(epoll, EPOLL_CTL_ADD, world.wait_fd(), &interest) == 0, "epoll_ctl");
  const int right = (world.rank() + 1) % world.size();
  const int left = (world.rank() + world.size() - 1) % world.size();
  int rounds_of_loop = 0;
  for (int round = 0; round < 40; ++round) {
    const std::size_t bytes = lengths_bytes[static_cast<std::size_t>(round) % 4];
    const Bytes out = pattern(bytes, world.rank() + round);
    Bytes in(bytes);
    std::vector<std::int64_t> all = addends(world.rank(), 5000);
    if (round % 10 == world.rank()) std::this_thread::sleep_for(milliseconds{10});
    std::vector<Request> requests;
    requests.push_back(world.receive_async(in, left));
    requests.push_back(world.send_async(out, right));
    requests.push_back(world.allreduce_async(all, all, sum));
    while (!test_all(requests)) {
      epoll_event event{};
      check(::epoll_wait(epoll, &event, 1, static_cast<int>(world.arm_wait().count())) >= 0,
            "epoll_wait");
      world.progress();
      ++rounds_of_loop;
    }
    wait_all(requests);
    check_pattern(in, left + round);
    check_sum(all, world.size());
  }
  ::close(epoll);
  check(rounds_of_loop < 40 * 100, "the loop polled");
  world.barrier();
}

void an_event_loop_needs_a_context_of_one_thread(Communicator& world, Arguments) {
  for (const bool arm : {false, true}) {
    expect_error([&] { arm ? void(world.arm_wait()) : void(world.wait_fd()); },
                 {ErrorCode::bad_argument, no_peer, arm ? "arm_wait" : "wait_fd",
                  "several threads use the context, and one of them may sleep for all", "*"});
  }
}

}  // namespace

std::vector<Scenario> thread_scenarios() {
  return {
      in_world("threads_send_and_receive_at_once", threads_send_and_receive_at_once),
      in_world("a_thread_sends_while_another_one_waits", a_thread_sends_while_another_one_waits),
      in_world("threads_wait_for_any_of_their_own", threads_wait_for_any_of_their_own),
      in_world("threads_have_groups_of_their_own", threads_have_groups_of_their_own),
      in_world("threads_receive_from_one_line", threads_receive_from_one_line),
      in_world("another_thread_waits_for_a_request", another_thread_waits_for_a_request),
      in_world("a_deadline_of_one_thread_leaves_the_others",
               a_deadline_of_one_thread_leaves_the_others),
      in_world("calls_are_refused_while_finish_waits", calls_are_refused_while_finish_waits),
      in_world("an_interruption_is_of_one_thread", an_interruption_is_of_one_thread),
      in_world("a_call_inside_a_reduction_is_refused", a_call_inside_a_reduction_is_refused),
      {"all_threads_hear_an_abort",
       [](Arguments arguments) {
         Communicator world = init();
         all_threads_hear_an_abort(world, arguments);
       }},
      {"all_threads_hear_a_death",
       [](Arguments arguments) {
         Communicator world = init();
         all_threads_hear_a_death(world, arguments);
       }},
      in_world("functions_are_called_at_the_end", functions_are_called_at_the_end),
      in_world("finish_is_refused_while_another_thread_receives",
               finish_is_refused_while_another_thread_receives),
      in_world("a_function_at_the_end_is_refused_what_it_may_not_do",
               a_function_at_the_end_is_refused_what_it_may_not_do),
      in_world("a_function_at_the_end_outlives_its_request",
               a_function_at_the_end_outlives_its_request),
      in_world("an_event_loop_serves_requests", an_event_loop_serves_requests),
      in_world("an_event_loop_needs_a_context_of_one_thread",
               an_event_loop_needs_a_context_of_one_thread),
      in_world("a_long_message_comes_while_nobody_calls", a_long_message_comes_while_nobody_calls),
      in_world("collectives_go_on_while_nobody_calls", collectives_go_on_while_nobody_calls),
      in_world("calls_and_the_progress_thread_alternate", calls_and_the_progress_thread_alternate),
      in_world("a_context_goes_with_its_progress_thread", a_context_goes_with_its_progress_thread)};
}

}  // namespace qpmesh::ranks

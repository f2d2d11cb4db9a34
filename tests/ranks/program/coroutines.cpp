// SPDX-License-Identifier: MIT
// Coroutines of the program's own, of types of its own, that wait for requests.
#include <array>
#include <atomic>
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

using std::chrono::milliseconds;

// As many programs have it: begins at once, keeps what it returns or throws, and may be gone
// before it has ended.
template <class T>
class Work {
 public:
  struct promise_type {
    std::optional<T> value{};
    std::exception_ptr error{};
    std::atomic<bool> ended{false};

    Work get_return_object() {
      return Work{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    struct Ended {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<promise_type> self) const noexcept {
        self.promise().ended = true;  // another thread may look
      }
      void await_resume() const noexcept {}
    };
    Ended final_suspend() const noexcept { return {}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Work(Work&& other) noexcept : handle_{std::exchange(other.handle_, {})} {}
  Work& operator=(Work&&) = delete;
  ~Work() {
    if (handle_) handle_.destroy();
  }

  bool ended() const { return handle_.promise().ended; }
  T result() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return handle_.promise().value.value();
  }

 private:
  explicit Work(std::coroutine_handle<promise_type> handle) : handle_{handle} {}

  std::coroutine_handle<promise_type> handle_;
};

template <class T>
T driven(Communicator& world, const Work<T>& work) {
  while (!work.ended()) world.progress();
  return work.result();
}

int next_of(const Communicator& world) { return (world.rank() + 1) % world.size(); }
int previous_of(const Communicator& world) {
  return (world.rank() + world.size() - 1) % world.size();
}

// Eager, and by rendezvous.
constexpr std::array<std::size_t, 4> lengths_bytes{8, 3000, 70'000, 300'000};

// Each step begins with what the one before has received.
Work<int> pass_round(Communicator& world, int tag, int rounds) {
  int value = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t bytes = lengths_bytes[static_cast<std::size_t>(round + tag) % 4];
    const Bytes out = pattern(bytes, value);
    Bytes in(bytes);
    Request sent = world.send_async(out, next_of(world), tag);
    const Status status = co_await world.receive_async(in, previous_of(world), tag);
    check_status(status, previous_of(world), tag, bytes);
    check_pattern(in, value);
    co_await sent;
    ++value;
  }
  co_return value;
}

void coroutines_wait_for_messages(Communicator& world, Arguments) {
  std::vector<Work<int>> all;
  all.reserve(8);
  for (int tag = 0; tag < 8; ++tag) all.push_back(pass_round(world, tag, 12));
  for (const Work<int>& work : all) check_equal(driven(world, work), 12);
  world.barrier();
}

Work<std::int64_t> reduce_again_and_again(Communicator& group) {
  std::int64_t sum_of_sums = 0;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::int64_t> data = addends(group.rank(), round % 2 == 0 ? 3 : 60'000);
    Request reducing = group.allreduce_async(data, sum);
    co_await std::move(reducing);
    check_sum(data, group.size());
    co_await group.barrier_async();
    sum_of_sums += data[0];
  }
  co_return sum_of_sums;
}

void coroutines_wait_for_collectives(Communicator& world, Arguments) {
  Communicator other = world.duplicate();
  const Work<std::int64_t> first = reduce_again_and_again(world);
  const Work<std::int64_t> second = reduce_again_and_again(other);
  const std::int64_t expected = 10 * std::int64_t{world.size()} * (world.size() + 1) / 2;
  check_equal(driven(world, first), expected);
  check_equal(driven(world, second), expected);
  world.barrier();
}

// What has ended when it is awaited does not stop the coroutine.
Work<int> never_stops(Communicator& world) {
  const int me = world.rank();
  co_await Request{};
  int value = -1;
  Request ended = world.receive_async(value, me, 1);
  const int out = 41;
  Request sent = world.send_async(out, me, 1);
  for (int again = 0; again < 2; ++again) {
    check_status(co_await ended, me, 1, sizeof(int));
    check_equal((co_await sent).source, no_rank);
  }
  const Request moved = std::move(ended);
  // NOLINTNEXTLINE(bugprone-use-after-move): what was moved from is done, for wait() as well
  check_equal((co_await std::move(ended)).source, no_rank);
  co_return value + 1;
}

void what_has_ended_is_not_waited_for(Communicator& world, Arguments) {
  const Work<int> work = never_stops(world);
  check(work.ended(), "it has stopped");
  check_equal(work.result(), 42);
  world.barrier();
}

Work<int> waits_for_a_message_that_is_too_long(Communicator& world) {
  const int me = world.rank();
  const Expected told{ErrorCode::truncated, me, "receive_async",
                      "the message has 20 bytes, the buffer 10",
                      "the message stays in line for the next receive; probe() tells its size"};
  Bytes in(10);
  Request receiving = world.receive_async(in, me, 3);
  int errors = 0;
  for (int again = 0; again < 2; ++again) {
    try {
      co_await receiving;
    } catch (const Error& error) {
      check_error(error, told);
      ++errors;
    }
  }
  Bytes whole(20);
  co_await world.receive_async(whole, me, 3);
  if (errors != 2) co_return errors;
  co_await world.receive_async(in, me, 3);  // what it throws ends the coroutine
  co_return -1;
}

void an_error_is_thrown_where_it_is_awaited(Communicator& world, Arguments) {
  const Work<int> work = waits_for_a_message_that_is_too_long(world);
  const Bytes out(20);
  world.send(out, world.rank(), 3);  // for `whole`
  world.send(out, world.rank(), 3);  // for the last receive
  expect_error([&] { driven(world, work); },
               {ErrorCode::truncated, world.rank(), "receive_async", "*", "*"});
  Bytes whole(20);
  world.receive(whole, world.rank(), 3);
  world.barrier();
}

Work<bool> waits_for(Request& request) {
  co_await request;
  co_return true;
}

void only_one_waits_for_a_request(Communicator& world, Arguments) {
  const int me = world.rank();
  int value = -1;
  Request request = world.receive_async(value, me, 1);
  const Work<bool> first = waits_for(request);
  const Work<bool> second = waits_for(request);
  check(!first.ended() && second.ended(), "the second one is refused at once");
  expect_error([&] { second.result(); }, {ErrorCode::bad_argument, no_peer, "co_await",
                                          "another coroutine waits for the request",
                                          "let one of them wait, and tell the other"});
  const Expected one_function{ErrorCode::bad_argument, no_peer, "on_end",
                              "the request has a function", "call both from one function"};
  expect_error([&] { request.on_end([] {}); }, one_function);
  world.send(5, me, 1);
  check(driven(world, first), "the first one goes on");
  check_equal(value, 5);

  int told = 0;
  Request with_function = world.receive_async(value, me, 2);
  with_function.on_end([&] { ++told; });
  const Work<bool> third = waits_for(with_function);
  expect_error([&] { third.result(); },
               {ErrorCode::bad_argument, no_peer, "co_await", "the request has a function",
                "wait for it in that function"});
  world.send(6, me, 2);
  with_function.wait();
  while (told == 0) world.progress();
  world.barrier();
}

Work<bool> receives(Communicator& world, int& value, int tag) {
  co_await world.receive_async(value, any_source, tag);
  co_return true;
}

// It is not resumed, nor is its frame touched; a request that it does not own goes on.
void a_coroutine_may_go_while_it_waits(Communicator& world, Arguments) {
  const int me = world.rank();
  int value = -1;
  Request request = world.receive_async(value, me, 1);
  for (int gone = 0; gone < 3; ++gone) {
    const Work<bool> work = waits_for(request);
    check(!work.ended(), "nothing has come");
  }
  const Work<bool> last = waits_for(request);
  {
    const Work<bool> refused = waits_for(request);
    check(refused.ended(), "another one waits");
  }
  world.send(7, me, 1);
  check(driven(world, last), "the last one goes on");
  check_equal(value, 7);

  // The frame's own request waits for its end, as it does at the end of every scope.
  std::optional<Work<bool>> owner{receives(world, value, 2)};
  world.send(8, me, 2);
  check(!owner->ended() || value == 8, "it goes on when a call returns");
  owner.reset();
  check_equal(value, 8);
  // Nobody is left to be resumed.
  for (int i = 0; i < 10; ++i) world.progress();
  world.barrier();
}

Work<bool> expects_nothing(Request& request) {
  check_status(co_await request, no_rank, any_tag, 0);
  co_return true;
}

void a_cancelled_request_lets_its_coroutine_go_on(Communicator& world, Arguments) {
  int value = -1;
  Request request = world.receive_async(value, world.rank(), 1);
  const Work<bool> work = expects_nothing(request);
  check(request.cancel(), "nothing has come for it");
  check(driven(world, work), "it goes on");
  world.barrier();
}

Work<bool> hears_an_abort(Communicator& world) {
  int never = 0;
  try {
    co_await world.receive_async(never, any_source, 99);
  } catch (const Error& error) {
    check_error(error, {ErrorCode::aborted, any_peer_at_all, "abort", "enough", "*"});
    co_return true;
  }
  co_return false;
}

void coroutines_hear_an_abort(Communicator& world, Arguments) {
  const Work<bool> work = hears_an_abort(world);
  const auto unless_aborted = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      check_equal(to_string(error.code()), to_string(ErrorCode::aborted));
    }
  };
  unless_aborted([&] { world.barrier(); });  // rank 0 may be out of it before the others
  if (world.rank() == 0) world.abort("enough");
  while (!work.ended()) unless_aborted([&] { world.progress(); });
  check(work.result(), "it heard nothing");
}

// Coroutines that go on in a thread do not go on inside each other, however many operations end at
// once.
thread_local int running = 0;
std::atomic<bool> inside_another{false};

Work<int> counts_who_runs(Communicator& world, int tag) {
  int rounds = 0;
  for (int value = 0; rounds < 5; ++rounds) {
    co_await world.receive_async(value, previous_of(world), tag);
    if (++running > 1) inside_another = true;
    world.send(rounds, next_of(world), tag);
    world.progress();
    --running;
  }
  co_return rounds;
}

void coroutines_go_on_one_after_the_other(Communicator& world, Arguments) {
  constexpr int count = 40;
  std::vector<Work<int>> all;
  all.reserve(count);
  for (int tag = 0; tag < count; ++tag) all.push_back(counts_who_runs(world, tag));
  world.barrier();  // all of them wait
  for (int tag = 0; tag < count; ++tag) world.send(0, next_of(world), tag);
  for (const Work<int>& work : all) check_equal(driven(world, work), 5);
  check(!inside_another, "one went on inside another one");
  int rest = 0;  // each has sent one more than it has received
  for (int tag = 0; tag < count; ++tag) world.receive(rest, previous_of(world), tag);
  world.barrier();
}

// What goes on behind a call that throws would take what it lets go of for unwound.
Work<int> tells_exceptions(Communicator& world) {
  int value = 0;
  co_await world.receive_async(value, previous_of(world), 1);
  co_return std::uncaught_exceptions();
}

void coroutines_do_not_go_on_while_an_exception_unwinds(Communicator& world, Arguments) {
  const Work<int> work = tells_exceptions(world);
  const std::array<int, 2> two{1, 2};
  const Request first = world.send_async(two[0], next_of(world), 1);
  const Request second = world.send_async(two, next_of(world), 2);
  int value = 0;
  expect_error([&] { world.receive(value, previous_of(world), 2); },  // finds the end of both
               {ErrorCode::truncated, previous_of(world), "receive", "*", "*"});
  check_equal(driven(world, work), 0);
  world.barrier();
}

// A wait for requests of two contexts leaves both before anything goes on.
Work<bool> calls_both(Communicator& world, Communicator& other, Request& request) {
  co_await request;
  int value = 0;
  world.sendrecv(1, world.rank(), value, world.rank(), 11);
  other.sendrecv(1, other.rank(), value, other.rank(), 11);
  co_return value == 1;
}

void a_wait_for_several_contexts_leaves_all_of_them(Communicator& world, Arguments) {
  Communicator other = world.independent();
  const int me = world.rank();
  for (Communicator* const awaited : {&world, &other}) {
    int values[] = {0, 0, 0};
    Request request = awaited->receive_async(values[0], me, 1);
    const Work<bool> work = calls_both(world, other, request);
    std::vector<Request> requests;
    requests.push_back(world.receive_async(values[1], me, 2));
    requests.push_back(other.receive_async(values[2], me, 2));
    awaited->send(1, me, 1);
    world.send(1, me, 2);
    other.send(1, me, 2);
    wait_all(requests);
    check(driven(*awaited, work), "both can be called");
  }
  world.barrier();
  other.finish();
}

// Of a type that throws on at whoever resumes it: then it stands at its end, and its frame is there
// until somebody destroys it ([dcl.fct.def.coroutine]).
class Loose {
 public:
  struct promise_type {
    Loose get_return_object() {
      return Loose{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const {}
    void unhandled_exception() { throw; }
  };

  Loose(Loose&& other) noexcept : handle_{std::exchange(other.handle_, {})} {}
  Loose& operator=(Loose&&) = delete;
  ~Loose() {
    if (handle_) handle_.destroy();
  }

 private:
  explicit Loose(std::coroutine_handle<promise_type> handle) : handle_{handle} {}

  std::coroutine_handle<promise_type> handle_;
};

Loose throws_behind(Request& request) {
  co_await request;
  throw std::runtime_error{"nobody catches it"};
}

void what_nobody_catches_does_not_end_a_call(Communicator& world, Arguments) {
  int value = 0;
  {
    Request request = world.receive_async(value, world.rank(), 1);
    const Loose work = throws_behind(request);
    world.send(3, world.rank(), 1);
    request.wait();
  }
  check_equal(value, 3);
  world.barrier();
}

// ---- several threads ----

Work<std::thread::id> calls_where_it_goes_on(Communicator& world) {
  const Bytes out = pattern(70'000, world.rank());
  for (int round = 0; round < 5; ++round) {
    Bytes in(out.size());
    Request sent = world.send_async(out, next_of(world), 1);
    co_await world.receive_async(in, previous_of(world), 1);
    check_pattern(in, previous_of(world));
    co_await sent;
  }
  int told = 0;
  co_await world.receive_async(told, any_source, 2);
  co_return std::this_thread::get_id();
}

// The only calls are those of the coroutine, and the one that makes it.
void coroutines_go_on_while_nobody_calls(Communicator& world, Arguments) {
  world.barrier();
  for (int round = 0; round < 3; ++round) {
    const Work<std::thread::id> work = calls_where_it_goes_on(world);
    std::this_thread::sleep_for(milliseconds{20});
    world.send(1, next_of(world), 2);
    for (int i = 0; i < 20'000 && !work.ended(); ++i) std::this_thread::sleep_for(milliseconds{1});
    check(work.ended(), "it has not gone on");
    work.result();
  }
  world.barrier();
}

// Threads that call resume what each other began.
void coroutines_go_on_in_any_thread(Communicator& world, Arguments) {
  std::vector<Work<int>> all;
  all.reserve(8);
  for (int tag = 0; tag < 8; ++tag) all.push_back(pass_round(world, tag, 12));
  std::atomic<int> wrong{0};
  const auto drives = [&] {
    try {
      for (const Work<int>& work : all)
        while (!work.ended()) world.progress();
    } catch (const std::exception&) {
      ++wrong;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int i = 0; i < 3; ++i) threads.emplace_back(drives);
  for (std::thread& thread : threads) thread.join();
  check_equal(wrong.load(), 0);
  for (const Work<int>& work : all) check_equal(work.result(), 12);
  world.barrier();
}

Work<bool> lets_go_of_the_last_handle(Communicator own) {
  std::optional<Communicator> last{std::move(own)};
  int value = 0;
  {
    Request receiving = last->receive_async(value, any_source, 4);
    co_await receiving;
  }
  last.reset();
  co_return value == 9;
}

// Where nobody else holds the context its progress thread ends it.
void a_coroutine_ends_its_context(Communicator& world, Arguments) {
  Communicator other = world.independent();
  other.send(9, next_of(world), 4);
  world.barrier();
  const Work<bool> work = lets_go_of_the_last_handle(std::move(other));
  for (int i = 0; i < 20'000 && !work.ended(); ++i) std::this_thread::sleep_for(milliseconds{1});
  check(work.ended() && work.result(), "it has not ended");
  world.barrier();
}

}  // namespace

std::vector<Scenario> coroutine_scenarios() {
  return {
      in_world("coroutines_wait_for_messages", coroutines_wait_for_messages),
      in_world("coroutines_wait_for_collectives", coroutines_wait_for_collectives),
      in_world("what_has_ended_is_not_waited_for", what_has_ended_is_not_waited_for),
      in_world("an_error_is_thrown_where_it_is_awaited", an_error_is_thrown_where_it_is_awaited),
      in_world("only_one_waits_for_a_request", only_one_waits_for_a_request),
      in_world("a_coroutine_may_go_while_it_waits", a_coroutine_may_go_while_it_waits),
      in_world("a_cancelled_request_lets_its_coroutine_go_on",
               a_cancelled_request_lets_its_coroutine_go_on),
      {"coroutines_hear_an_abort",
       [](Arguments arguments) {
         Communicator world = init();
         coroutines_hear_an_abort(world, arguments);
       }},
      in_world("coroutines_go_on_one_after_the_other", coroutines_go_on_one_after_the_other),
      in_world("coroutines_do_not_go_on_while_an_exception_unwinds",
               coroutines_do_not_go_on_while_an_exception_unwinds),
      in_world("a_wait_for_several_contexts_leaves_all_of_them",
               a_wait_for_several_contexts_leaves_all_of_them),
      in_world("what_nobody_catches_does_not_end_a_call", what_nobody_catches_does_not_end_a_call),
      in_world("coroutines_go_on_while_nobody_calls", coroutines_go_on_while_nobody_calls),
      in_world("coroutines_go_on_in_any_thread", coroutines_go_on_in_any_thread),
      in_world("a_coroutine_ends_its_context", a_coroutine_ends_its_context)};
}

}  // namespace qpmesh::ranks

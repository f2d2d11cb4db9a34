// SPDX-License-Identifier: MIT
// A process that forks: the child has copies of every handle, and none of them is its own.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>

#include "program/every_call.hpp"
#include "program/scenario.hpp"

#if defined(__SANITIZE_ADDRESS__)
// In a child the sanitizer's search for leaks waits for threads, and for locks of threads, that are
// not there: one that ends does without.
static bool is_child = false;
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off();
int __lsan_is_turned_off() { return is_child ? 1 : 0; }
#endif

namespace qpmesh::ranks {
namespace {

// Runs in a child, which ends as a program does that returns from main, and waits for it.
template <class F>
void in_child(F&& run) {
  const pid_t child = ::fork();
  if (child < 0) fail("fork failed", Place::current());
  if (child == 0) {
#if defined(__SANITIZE_ADDRESS__)
    is_child = true;
#endif
    int code = EXIT_SUCCESS;
    try {
      run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in the child: %s\n", error.what());
      code = EXIT_FAILURE;
    }
    std::exit(code);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {}
  check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS, "the child is content");
}

// Every rank forks. The child's calls are refused, its handles go, and the job does not notice.
void a_forked_child_is_refused(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  std::optional<Communicator> child = world.duplicate();
  std::optional<Buffer<int>> buffer = world.allocate<int>(1000);
  std::fill(buffer->begin(), buffer->end(), me);
  int received = -1;
  std::optional<Request> request = world.receive_async(std::span{&received, 1}, me, 7);
  std::optional<Communicator> own = std::move(world);
  in_child([&] {
    const auto refused = [&](auto&& call, const std::string& operation) {
      expect_error(
          call,
          {ErrorCode::bad_argument, no_peer, operation,
           "process " + std::to_string(::getpid()) + " is a forked child of process " +
               std::to_string(::getppid()) + ", which made this communicator",
           "only the process that called init may use what it made: fork before init, or exec "
           "in the child"});
    };
    Communicator& group = *own;
    for (const AnyCall& call : every_call()) refused([&] { call.make(group); }, call.operation);
    refused([&] { child->barrier(); }, "barrier");
    refused([&] { request->test(); }, "receive_async");
    refused([&] { request->wait(); }, "receive_async");
    refused([&] { request->cancel(); }, "receive_async");
    refused([&] { wait_any(std::span{&*request, 1}); }, "wait_any");
    group.abort("a child gives up for nobody");
    check_equal(group.rank(), me);
    request.reset();
    buffer.reset();
    child.reset();
    own.reset();
  });
  world = std::move(*own);
  world.send(std::vector<int>{me}, me, 7);
  request->wait();
  check_equal(received, me);
  for (const int value : *buffer) check_equal(value, me);
  for (Communicator* const group : {&world, &*child}) {
    for (int i = 0; i < 20; ++i) {
      std::vector<std::int64_t> sums = addends(me, 3000);
      group->allreduce(sums, sum);
      check_sum(sums, size);
    }
  }
  // A child that ends with all handles in its hands, by exit and by return alike.
  in_child([] {});
  world.barrier();
}

// The fork may find the other thread in its turn, which nobody gives up in the child.
void a_child_is_forked_while_another_thread_calls(Communicator& world, Arguments) {
  std::atomic<bool> stop = false;
  std::thread other{[&] {
    while (!stop.load(std::memory_order_relaxed)) world.try_probe();
  }};
  for (int i = 0; i < 20; ++i) {
    in_child([&] {
      check(!world.explain(Collective::allreduce, 8).empty(), "explain answers");
      expect_error([&] { world.barrier(); },
                   {ErrorCode::bad_argument, no_peer, "barrier", "*forked child*", "*"});
    });
  }
  stop.store(true, std::memory_order_relaxed);
  other.join();
  world.barrier();
}

// What a child starts for itself is its own.
void a_forked_child_may_begin_anew(Communicator& world, Arguments) {
  in_child([] {
    // NOLINTBEGIN(concurrency-mt-unsafe): one thread
    ::setenv("QPMESH_JOB", ("child-" + std::to_string(::getpid())).c_str(), 1);
    ::setenv("QPMESH_RANK", "0", 1);
    ::setenv("QPMESH_SIZE", "1", 1);
    // NOLINTEND(concurrency-mt-unsafe)
    Communicator alone = init();
    alone.barrier();
    alone.finish();
  });
  world.barrier();
}

}  // namespace

std::vector<Scenario> fork_scenarios() {
  return {in_world("a_forked_child_is_refused", a_forked_child_is_refused),
          in_world("a_child_is_forked_while_another_thread_calls",
                   a_child_is_forked_while_another_thread_calls),
          in_world("a_forked_child_may_begin_anew", a_forked_child_may_begin_anew)};
}

}  // namespace qpmesh::ranks

// SPDX-License-Identifier: MIT
// Options that disagree, starts that fail, calls at the wrong time: what every rank is told.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "program/every_call.hpp"
#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr ErrorCode bad = ErrorCode::bad_argument;

// arguments: the rank that is set otherwise, the variable, its value there, the others' value.
void options_that_differ(Arguments arguments) {
  const int odd = std::stoi(arguments[0]);
  const char* const rank =
      std::getenv("QPMESH_RANK");  // NOLINT(concurrency-mt-unsafe): no one sets it
  const bool is_odd = std::stoi(rank) == odd;
  const int other = is_odd ? 0 : odd;
  const std::string& mine = arguments[is_odd ? 2 : 3];
  const std::string& theirs = arguments[is_odd ? 3 : 2];
  expect_error([] { init(); }, {ErrorCode::mismatch, other, "init",
                                arguments[1] + " is '" + mine + "' on this rank and '" + theirs +
                                    "' on rank " + std::to_string(other),
                                "give every rank the same value"});
}

// arguments: the error's code, peer, operation, cause, hint and errno.
void init_fails(Arguments arguments) {
  const auto number = [&](std::size_t index) { return std::stoi(arguments[index]); };
  try {
    init();
  } catch (const Error& error) {
    check_equal(to_string(error.code()), arguments[0]);
    return check_error(
        error, {error.code(), number(1), arguments[2], arguments[3], arguments[4], number(5)});
  }
  fail("no error", Place::current());
}

// A bootstrap that says who we are, and has nobody to gather from.
class Claim final : public Bootstrap {
 public:
  Claim(int rank, int size) : rank_{rank}, size_{size} {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<Blob> all_gather(BlobView mine, Deadline) override {
    return {Blob(mine.begin(), mine.end())};
  }

 private:
  int rank_;
  int size_;
};

void a_bootstrap_that_makes_no_sense(Arguments) {
  for (const auto& [rank, size] : {std::pair{0, 0}, {-1, 2}, {2, 2}, {0, -1}, {5, 1}}) {
    Claim claim{rank, size};
    expect_error([&] { init(claim, Options{}); },
                 {ErrorCode::bad_config, no_peer, "init",
                  "the bootstrap says rank " + std::to_string(rank) + " of " + std::to_string(size),
                  "a rank is at least 0 and less than the number of ranks"});
  }
  Claim claim{0, 3};
  expect_error([&] { init(claim, Options{}); }, {ErrorCode::mismatch, no_peer, "init",
                                                 "the bootstrap says 3 ranks and gathered 1 blobs",
                                                 "all_gather must return one blob per rank"});
  Claim alone{0, 1};
  Communicator world = init(alone, Options{});
  world.barrier();
  world.finish();
}

void independent_ends_at_its_own_deadline(Communicator& world, Arguments) {
  Communicator deserted = world.duplicate();  // nobody else uses it
  if (world.rank() == 0) {
    expect_error([&] { deserted.independent({.timeout = 100ms}); },
                 {ErrorCode::timeout, 1, "independent",
                  "rank 1 (pid * on *) did not do its part within * ms; it is alive as far as the "
                  "kernel knows",
                  "last operations of rank *: *; the limit is QPMESH_INIT_TIMEOUT_MS or "
                  "CallOptions::timeout"});
  }
  world.barrier();
}

// One rank alone has no descriptor left for what it would share: all learn it, and the next start
// is as any other.
void independent_fails_on_all_where_one_rank_cannot_prepare(Communicator& world, Arguments) {
  const int last = world.size() - 1;
  rlimit limit{};
  check(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  if (world.rank() == last) check(::setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
  expect_error(
      [&] { world.independent(); },
      {.code = ErrorCode::no_resource,
       .peer = last,
       .operation = "arena",
       .cause = "memfd_create of * bytes failed (reported by rank " + std::to_string(last) + ")",
       .hint = "raise the limit on open files (ulimit -n): this process may have 0",
       .system_error = EMFILE});
  if (world.rank() == last) check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  world.barrier();
  Communicator other = world.independent();
  other.barrier();
  other.finish();
}

// It has room for its own arena of 1 GiB, and not for those of the others. They do not wait for it.
void independent_fails_at_once_where_one_rank_lacks_address_space(Communicator& world, Arguments) {
  const int last = world.size() - 1;
  rlimit limit{};
  check(::getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
  if (world.rank() == last) {
    rlim_t used_pages = 0;
    std::ifstream{"/proc/self/statm"} >> used_pages;
    const rlim_t used = used_pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
    const rlimit some{.rlim_cur = used + (rlim_t{3} << 29), .rlim_max = limit.rlim_max};
    check(::setrlimit(RLIMIT_AS, &some) == 0, "setrlimit");
  }
  expect_error([&] { world.independent({.timeout = 1h}); },
               {ErrorCode::no_resource, last, "init",
                "RLIMIT_AS allows * bytes: this process uses *, and the arenas of * other ranks of "
                "this host need * together (reported by rank *)",
                "raise it to * at least (ulimit -v *), or lower QPMESH_ARENA_BYTES_MAX"});
  if (world.rank() == last) check(::setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  world.barrier();
}

// The same of the descriptor that a rank makes last: one is missing of those that a start needs.
void independent_fails_on_all_where_one_rank_lacks_its_last_descriptor(Communicator& world,
                                                                       Arguments) {
  const int last = world.size() - 1;
  rlimit limit{};
  check(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  bool was_enough = false;
  for (rlim_t more = 60; more > 0; --more) {
    if (world.rank() == last) {
      const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      check(next >= 0 && ::close(next) == 0, "/dev/null");
      const rlimit few{.rlim_cur = static_cast<rlim_t>(next) + more, .rlim_max = limit.rlim_max};
      check(::setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
    }
    std::string failure;
    try {
      world.independent().finish();
      was_enough = true;
    } catch (const Error& error) {
      failure = error.what();
      check(error.code() == ErrorCode::no_resource && error.peer() == last &&
                failure.find("raise the limit on open files") != std::string::npos,
            failure);
    }
    if (world.rank() == last) check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    world.barrier();
    if (!failure.empty()) return check(was_enough, "it began with too few");
  }
  check(false, "any number of descriptors is enough");
}

void nothing_works_after_finish(Arguments) {
  Communicator world = init();
  Communicator child = world.duplicate();
  const int me = world.rank();
  const int size = world.size();
  world.finish();
  for (const AnyCall& call : every_call()) {
    if (call.is_of_context) {
      call.make(world);
      continue;
    }
    expect_error([&] { call.make(world); },
                 {bad, no_peer, call.operation, "the communicator has finished",
                  "finish() is the last call on a communicator"});
  }
  std::vector<std::int64_t> data = addends(me, 4);
  child.allreduce(data, sum);  // a group of its own
  check_sum(data, size);
  child.finish();
}

// The other thread is inside a call for sure once it sleeps there: nothing else on its way can
// sleep.
#if defined(SYS_epoll_wait)
constexpr int epoll_wait_number = SYS_epoll_wait;
#else  // arm64
constexpr int epoll_wait_number = SYS_epoll_pwait;
#endif

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
    if (file >> number && (number == epoll_wait_number || number == SYS_ppoll))
      break;  // ppoll: its naps
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  for (const AnyCall& call : every_call()) {
    expect_error([&] { call.make(world); },
                 {bad, no_peer, call.operation, "another call of this context is still running",
                  "one thread at a time uses a context; set QPMESH_THREADS=several, or give each "
                  "thread a context of its own: world.independent(). A function that a call runs "
                  "may call nothing: do it when that call has returned"});
  }
  make_file(arguments[0]);
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<Scenario> error_scenarios() {
  return {{"options_that_differ", options_that_differ},
          {"init_fails", init_fails},
          {"a_bootstrap_that_makes_no_sense", a_bootstrap_that_makes_no_sense},
          in_world("independent_ends_at_its_own_deadline", independent_ends_at_its_own_deadline),
          in_world("independent_fails_on_all_where_one_rank_cannot_prepare",
                   independent_fails_on_all_where_one_rank_cannot_prepare),
          in_world("independent_fails_on_all_where_one_rank_lacks_its_last_descriptor",
                   independent_fails_on_all_where_one_rank_lacks_its_last_descriptor),
          in_world("independent_fails_at_once_where_one_rank_lacks_address_space",
                   independent_fails_at_once_where_one_rank_lacks_address_space),
          {"nothing_works_after_finish", nothing_works_after_finish},
          in_world("two_threads_in_one_context", two_threads_in_one_context)};
}

}  // namespace qpmesh::ranks

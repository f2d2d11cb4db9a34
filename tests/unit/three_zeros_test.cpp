// SPDX-License-Identifier: MIT
// The small path takes no memory from the heap, no lock and no call of the system. Two ranks of
// shared memory are stepped in turn by one thread of a child process; malloc and pthread_mutex_lock
// are counted where they are called, system calls where they are refused (a seccomp filter cannot
// be taken off again: hence the child). Clock reads go through the vDSO and are no system calls.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "qpmesh/qpmesh.hpp"
#include "support/thread_bootstrap.hpp"

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define QPMESH_CAN_COUNT 1

#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <csignal>
#include <cstddef>

namespace {

// Plain numbers: the measured section has one thread, and counts only while it runs.
struct Counts {
  std::uint64_t heap_calls = 0;
  std::uint64_t locks = 0;
  std::uint64_t system_calls = 0;
  std::int64_t first_system_call = -1;
  bool counting = false;
};
Counts counts;

void count_heap() {
  if (counts.counting) ++counts.heap_calls;
}

}  // namespace

// glibc's own names for what we stand in front of. operator new ends in malloc, operator delete in
// free.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are glibc's
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#define QPMESH_INTERPOSE __attribute__((visibility("default")))
QPMESH_INTERPOSE void* malloc(std::size_t bytes) {
  count_heap();
  return __libc_malloc(bytes);
}
QPMESH_INTERPOSE void* calloc(std::size_t count, std::size_t bytes) {
  count_heap();
  return __libc_calloc(count, bytes);
}
QPMESH_INTERPOSE void* realloc(void* memory, std::size_t bytes) {
  count_heap();
  return __libc_realloc(memory, bytes);
}
QPMESH_INTERPOSE void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_heap();
  return __libc_memalign(alignment, bytes);
}
QPMESH_INTERPOSE int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count_heap();
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}
QPMESH_INTERPOSE void free(void* memory) {
  if (memory != nullptr) count_heap();
  __libc_free(memory);
}

QPMESH_INTERPOSE int pthread_mutex_lock(pthread_mutex_t* mutex) {
  using Lock = int (*)(pthread_mutex_t*);
  static Lock real = nullptr;
  if (real == nullptr) real = reinterpret_cast<Lock>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counts.counting) ++counts.locks;
  return real(mutex);
}
}

namespace {

using namespace qpmesh;

void on_refused_call(int, siginfo_t* info, void* context) {
  ++counts.system_calls;
  if (counts.first_system_call < 0) counts.first_system_call = info->si_syscall;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
}

// From here on every system call of this thread but the return from the handler, the end, and a
// write to one descriptor is refused with SIGSYS. The architecture needs no check: this is a test
// and not a sandbox.
bool refuse_system_calls(int report) {
  struct sigaction action {};
  action.sa_sigaction = on_refused_call;
  action.sa_flags = SA_SIGINFO;
  if (::sigaction(SIGSYS, &action, nullptr) != 0) return false;
  constexpr auto number = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto first_argument = static_cast<std::uint32_t>(offsetof(seccomp_data, args));
  const auto load = [](std::uint32_t offset) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, offset};
  };
  const auto jump_if = [](std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, yes, no, value};
  };
  const auto result = [](std::uint32_t value) { return sock_filter{BPF_RET | BPF_K, 0, 0, value}; };
  std::array program{load(number),
                     jump_if(__NR_rt_sigreturn, 5, 0),
                     jump_if(__NR_exit_group, 4, 0),
                     jump_if(__NR_write, 0, 2),
                     load(first_argument),
                     jump_if(static_cast<std::uint32_t>(report), 1, 0),
                     result(SECCOMP_RET_TRAP),
                     result(SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()),
                          .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Two ranks of this process, both used by the calling thread.
class TwoRanks {
 public:
  TwoRanks() {
    test::ThreadGathering gathering{2};
    const auto errors = test::run_ranks(2, [&](int rank) {
      test::ThreadBootstrap bootstrap{gathering, rank};
      Options options;
      options.arena_bytes_max = std::int64_t{16} << 20;
      ranks_[static_cast<std::size_t>(rank)].emplace(init(bootstrap, options));
    });
    for (const auto& error : errors) {
      if (error) throw Error{*error};
    }
  }
  Communicator& operator[](std::size_t rank) { return *ranks_[rank]; }

  // Until both are done, in turn.
  static void run(Request first, Request second) {
    for (bool first_done = false, second_done = false; !first_done || !second_done;) {
      first_done = first.test();
      second_done = second.test();
    }
  }

 private:
  std::array<std::optional<Communicator>, 2> ranks_;
};

class SmallOperations {
 public:
  std::uint64_t wrong = 0;

  void ping_pong() {
    move(0, 1);
    move(1, 0);
  }
  void allreduce() {
    const std::uint64_t base = next_++;
    std::array<std::uint64_t, 1> first{base};
    std::array<std::uint64_t, 1> second{base + 1};
    TwoRanks::run(ranks_[0].allreduce_async(first, sum), ranks_[1].allreduce_async(second, sum));
    if (first[0] != 2 * base + 1 || second[0] != 2 * base + 1) ++wrong;
  }
  // Blocks of unequal lengths, in places of their own.
  void allgatherv() {
    constexpr std::array<std::size_t, 2> lengths{1, 2};
    constexpr std::array<std::size_t, 2> places{0, 2};
    const std::uint64_t base = next_++;
    const std::array<std::uint64_t, 1> first{base};
    const std::array<std::uint64_t, 2> second{base + 1, base + 2};
    std::array<std::uint64_t, 4> firsts{};
    std::array<std::uint64_t, 4> seconds{};
    TwoRanks::run(ranks_[0].allgather_async(first, qpmesh::blocks(firsts, lengths, places)),
                  ranks_[1].allgather_async(second, qpmesh::blocks(seconds, lengths, places)));
    const std::array<std::uint64_t, 4> expected{base, 0, base + 1, base + 2};
    if (firsts != expected || seconds != expected) ++wrong;
  }
  void barrier() { TwoRanks::run(ranks_[0].barrier_async(), ranks_[1].barrier_async()); }
  // A message that comes before its receive is called.
  void unexpected() {
    std::array<std::uint64_t, 1> sent{next_++};
    std::array<std::uint64_t, 1> received{};
    Request send = ranks_[0].send_async(sent, 1);
    while (!ranks_[1].try_probe(0, 0)) {}
    TwoRanks::run(std::move(send), ranks_[1].receive_async(received, 0, 0));
    if (received != sent) ++wrong;
  }

 private:
  void move(std::size_t from, std::size_t to) {
    std::array<std::uint64_t, 1> sent{next_++};
    std::array<std::uint64_t, 1> received{};
    TwoRanks::run(ranks_[from].send_async(sent, static_cast<int>(to)),
                  ranks_[to].receive_async(received, static_cast<int>(from), 0));
    if (received != sent) ++wrong;
  }

  TwoRanks ranks_;
  std::uint64_t next_ = 1;
};

struct Report {
  bool filtered = false;
  std::uint64_t wrong = 0;
  Counts counts;
};

// Warm-up and then operations in a child with a filter on; what was counted during the latter.
template <class Operations, class Operation>
Report counted(int warm_up, int operations, Operation&& operation) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    Report report;
    try {
      Operations under_test;
      for (int i = 0; i < warm_up; ++i) operation(under_test);
      report.filtered = refuse_system_calls(pipe[1]);
      counts.counting = true;
      for (int i = 0; i < operations; ++i) operation(under_test);
      counts.counting = false;
      report.wrong = under_test.wrong;
      report.counts = counts;
      if (::write(pipe[1], &report, sizeof report) != sizeof report) ::_exit(2);
      ::_exit(0);  // before destructors, which call the system
    } catch (const std::exception&) {
      ::_exit(3);
    }
  }
  ::close(pipe[1]);
  Report report;
  const ssize_t bytes = ::read(pipe[0], &report, sizeof report);
  ::close(pipe[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(bytes, static_cast<ssize_t>(sizeof report));
  EXPECT_TRUE(report.filtered) << "no seccomp filter could be installed";
  EXPECT_EQ(report.wrong, 0U);
  return report;
}

constexpr int warm_up_operations = 1'000;
constexpr int measured_operations = 100'000;

template <class Operation>
void expect_three_zeros(Operation&& operation) {
  const Report report =
      counted<SmallOperations>(warm_up_operations, measured_operations, operation);
  EXPECT_EQ(report.counts.heap_calls, 0U);
  EXPECT_EQ(report.counts.locks, 0U);
  EXPECT_EQ(report.counts.system_calls, 0U)
      << "the first one has number " << report.counts.first_system_call;
}

TEST(a_small_operation, of_ping_pong_allocates_locks_and_calls_nothing) {
  expect_three_zeros([](SmallOperations& ranks) { ranks.ping_pong(); });
}
TEST(a_small_operation, of_allreduce_allocates_locks_and_calls_nothing) {
  expect_three_zeros([](SmallOperations& ranks) { ranks.allreduce(); });
}
TEST(a_small_operation, of_allgatherv_allocates_locks_and_calls_nothing) {
  expect_three_zeros([](SmallOperations& ranks) { ranks.allgatherv(); });
}
TEST(a_small_operation, of_barrier_allocates_locks_and_calls_nothing) {
  expect_three_zeros([](SmallOperations& ranks) { ranks.barrier(); });
}
TEST(a_small_operation, received_after_it_came_allocates_locks_and_calls_nothing) {
  expect_three_zeros([](SmallOperations& ranks) { ranks.unexpected(); });
}

struct Wasteful {
  std::uint64_t wrong = 0;
};

TEST(the_counters, see_each_allocation_each_lock_and_each_system_call) {
  const Report report = counted<Wasteful>(0, 10, [](Wasteful&) {
    auto* volatile number = new int{1};
    delete number;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    ::pthread_mutex_lock(&mutex);
    ::pthread_mutex_unlock(&mutex);
    ::syscall(SYS_getppid);
  });
  EXPECT_EQ(report.counts.heap_calls, 20U);
  EXPECT_EQ(report.counts.locks, 10U);
  EXPECT_EQ(report.counts.system_calls, 10U);
  EXPECT_EQ(report.counts.first_system_call, SYS_getppid);
}

}  // namespace

#else

TEST(a_small_operation, allocates_locks_and_calls_nothing) {
  GTEST_SKIP() << "counting stands in front of glibc's malloc, as the sanitizers do, and reads "
                  "x86-64 registers";
}

#endif

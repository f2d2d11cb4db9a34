// SPDX-License-Identifier: MIT
// What the ranks of a node do with each other's memory: who may write it, and when it is its
// owner's again.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/system.hpp"
#include "tests/support/page.hpp"
#include "tests/support/reads_process_memory.hpp"
#include "transport/memory.hpp"
#include "transport/neighbour.hpp"

namespace qpmesh::transport {
namespace {

const std::size_t page_bytes = test::page_bytes();

FillGuard guard_at(FillGuard::Phase phase, std::uint64_t number) {
  return FillGuard{.state = FillGuard::word(number, phase)};
}

TEST(a_guard, of_another_number_is_closed_to_everybody) {
  for (const auto phase : {FillGuard::closed, FillGuard::open, FillGuard::begun, FillGuard::done}) {
    FillGuard guard = guard_at(phase, 6);
    EXPECT_EQ(guard.phase_of(5), FillGuard::closed);
    EXPECT_FALSE(guard.begin(5));
    EXPECT_EQ(guard.take_back(5), FillGuard::closed);
    EXPECT_EQ(guard.phase_of(6), phase) << "and is left alone";
  }
}

TEST(a_guard, is_begun_once_and_only_while_it_is_open) {
  for (const auto phase : {FillGuard::closed, FillGuard::begun, FillGuard::done}) {
    FillGuard guard = guard_at(phase, 5);
    EXPECT_FALSE(guard.begin(5));
    EXPECT_EQ(guard.take_back(5), phase);
  }
  FillGuard guard = guard_at(FillGuard::open, 5);
  EXPECT_TRUE(guard.begin(5));
  EXPECT_FALSE(guard.begin(5));
  EXPECT_EQ(guard.take_back(5), FillGuard::begun);
}

// The owner opens, takes back, asks until it has its memory, and uses it. The other one begins,
// writes in two steps, and ends or gives up. In every order of their steps.
struct Filling {
  FillGuard guard{};
  int owner_step = 0;
  int other_step = 0;
  bool gives_up = false;
  bool owned = false;   // by its owner alone
  bool filled = false;  // as the owner was told
  int written = 0;      // of two parts
  bool wrong = false;

  bool owner_may_go_on() const { return !owned; }
  void step_owner() {
    if (owner_step == 0) guard.open_for(1);
    if (owner_step >= 1) {
      const auto phase = owner_step == 1 ? guard.take_back(1) : guard.phase_of(1);
      owned = phase != FillGuard::begun;
      filled = phase == FillGuard::done;
      wrong |= phase == FillGuard::open || (filled && written != 2);
    }
    owner_step = std::min(owner_step + 1, 2);
  }
  bool other_may_go_on() const { return other_step < 4; }
  void step_other() {
    switch (other_step++) {
      case 0:
        if (!guard.begin(1)) other_step = 4;
        break;
      case 1:
      case 2:
        wrong |= owned;
        ++written;
        if (gives_up) other_step = 3;
        break;
      default: gives_up ? guard.give_up(1) : guard.end(1);
    }
  }
};

// Returns how many ends there are.
int explore(const Filling& before) {
  EXPECT_FALSE(before.wrong);
  int ends = 0;
  const bool other_can = before.other_may_go_on();
  // An owner that waits for a step of the other one only asks again.
  const bool owner_can = before.owner_may_go_on() &&
                         !(before.owner_step == 2 && before.guard.phase_of(1) == FillGuard::begun);
  if (!owner_can && !other_can) {
    EXPECT_TRUE(before.owned) << "the owner waits for ever";
    return 1;
  }
  if (owner_can) {
    Filling after = before;
    after.step_owner();
    ends += explore(after);
  }
  if (other_can) {
    Filling after = before;
    after.step_other();
    ends += explore(after);
  }
  return ends;
}

TEST(a_guard, keeps_the_other_one_out_of_memory_that_its_owner_has_back_in_every_order) {
  EXPECT_GE(explore({}), 5);
  EXPECT_GE(explore({.gives_up = true}), 5);
}

// ---- across processes ----

// A child whose memory the parent fills: it opens the guard for the number 5, and ends well when it
// finds its page full of nines.
struct FilledChild {
  struct Shared {
    std::atomic<std::uint64_t> proof;
    FillGuard guard;
  };
  std::byte* memory = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Shared* shared =
      ::new (::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Shared{};
  pid_t process = -1;
  base::System system;
  Arena arena = Arena::create_shared(system, page_bytes);

  FilledChild() {
    ::mprotect(memory + page_bytes, page_bytes, PROT_NONE);
    process = ::fork();
    if (process == 0) ::_exit(is_filled() ? 0 : 1);
    while (shared->proof.load() != 42) ::sched_yield();
  }
  ~FilledChild() {
    end();
    ::munmap(memory, 2 * page_bytes);
    ::munmap(shared, page_bytes);
  }
  FilledChild(const FilledChild&) = delete;
  FilledChild& operator=(const FilledChild&) = delete;

  void end() {
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = -1;
  }
  bool is_filled() const {
    std::memset(memory, 7, page_bytes);
    shared->guard.open_for(5);
    shared->proof.store(42);
    while (shared->guard.phase_of(5) != FillGuard::done) ::sched_yield();
    return std::all_of(memory, memory + page_bytes,
                       [](std::byte byte) { return byte == std::byte{9}; });
  }
  Neighbour as_neighbour() {
    return {
        system, arena.descriptor(), arena.bytes(), base::UniqueFd{},
        base::ProcessMemory{
            process, {.address = reinterpret_cast<std::uintptr_t>(&shared->proof), .value = 42}}};
  }
  bool fill(std::uint64_t number, std::size_t bytes) {
    const std::vector<std::byte> nines(bytes, std::byte{9});
    return as_neighbour().fill(shared->guard,
                               {.address = reinterpret_cast<std::uintptr_t>(memory),
                                .guard_address = reinterpret_cast<std::uintptr_t>(&shared->guard),
                                .number = number},
                               nines);
  }
};

TEST(memory_to_fill, is_full_when_its_owner_sees_that_it_is_done) {
  FilledChild child;
  if (!child.as_neighbour().fills_private())
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  ASSERT_TRUE(child.fill(5, page_bytes)) << "not allowed here";
  int status = -1;
  ASSERT_EQ(::waitpid(child.process, &status, 0), child.process);
  child.process = -1;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it found something else";
}

TEST(memory_to_fill, is_left_alone_under_another_number_and_when_it_is_closed) {
  if (!test::reads_process_memory()) GTEST_SKIP() << test::cannot_read_process_memory;
  FilledChild child;
  EXPECT_FALSE(child.fill(4, page_bytes));
  EXPECT_EQ(child.shared->guard.phase_of(5), FillGuard::open);
  EXPECT_EQ(child.shared->guard.take_back(5), FillGuard::closed);
  EXPECT_FALSE(child.fill(5, page_bytes));
  EXPECT_EQ(child.shared->guard.phase_of(5), FillGuard::closed);
  std::vector<std::byte> there(page_bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(child.memory);
  ASSERT_EQ(child.as_neighbour().copy_private(there.data(), address, page_bytes), 0);
  EXPECT_TRUE(std::ranges::all_of(there, [](std::byte byte) { return byte == std::byte{7}; }));
}

TEST(memory_to_fill, that_ends_in_the_middle_goes_back_to_its_owner_undone) {
  FilledChild child;
  EXPECT_FALSE(child.fill(5, 2 * page_bytes));
  EXPECT_EQ(child.shared->guard.take_back(5), FillGuard::closed);
}

TEST(a_neighbour, of_nobody_neither_copies_nor_fills_and_has_ended) {
  const Arena arena = Arena::create_private(base::System{}, page_bytes);
  const Neighbour nobody{arena};
  FillGuard guard = guard_at(FillGuard::open, 5);
  std::byte byte{};
  EXPECT_FALSE(nobody.copies_private());
  EXPECT_EQ(nobody.copy_private(&byte, reinterpret_cast<std::uintptr_t>(&byte), 1), ESRCH);
  EXPECT_FALSE(nobody.fill(guard, {.number = 5}, {}));
  EXPECT_EQ(guard.phase_of(5), FillGuard::open);
  EXPECT_TRUE(nobody.has_ended());
}

TEST(a_neighbour, has_ended_when_its_process_is_gone_or_is_not_the_one_that_we_met) {
  if (!test::reads_process_memory()) GTEST_SKIP() << test::cannot_read_process_memory;
  FilledChild child;
  const Neighbour neighbour = child.as_neighbour();
  EXPECT_FALSE(neighbour.has_ended());
  ::kill(child.process, SIGSTOP);
  EXPECT_FALSE(neighbour.has_ended()) << "who is stopped goes on one day";
  child.shared->proof = 43;
  EXPECT_TRUE(neighbour.has_ended()) << "another program runs in it, or it is another process";
  child.shared->proof = 42;
  child.end();
  EXPECT_TRUE(neighbour.has_ended());
}

TEST(a_neighbour, maps_what_lies_in_its_arena_and_nothing_else) {
  const Arena arena = Arena::create_private(base::System{}, page_bytes);
  const Neighbour neighbour{arena};
  EXPECT_EQ(neighbour.at(0, page_bytes), arena.data());
  EXPECT_EQ(neighbour.at(page_bytes, 0), arena.data() + page_bytes);
  EXPECT_EQ(neighbour.at(1, page_bytes), nullptr);
  EXPECT_EQ(neighbour.at(~std::uint64_t{0}, 2), nullptr);
  EXPECT_EQ(neighbour.at(2, ~std::size_t{0}), nullptr);
  EXPECT_EQ(neighbour.offset_of(arena.data() + 7, page_bytes - 7), 7U);
  EXPECT_FALSE(neighbour.offset_of(arena.data() + 7, page_bytes - 6));
  EXPECT_FALSE(neighbour.offset_of(arena.data() - 1, 1));
}

TEST(a_share, of_what_another_fills_follows_who_had_to_wait_for_whom) {
  constexpr std::size_t bytes = std::size_t{1} << 20;
  base::FillShare share;
  for (int i = 0; i < 100; ++i) share.it_was_faster();
  EXPECT_EQ(bytes - share.first_bytes(bytes), bytes / 16 * 12);
  for (int i = 0; i < 100; ++i) share.it_was_awaited();
  EXPECT_EQ(bytes - share.first_bytes(bytes), bytes / 16)
      << "never nothing, or it would not be asked again";
  EXPECT_EQ(share.first_bytes(base::filled_bytes_min) % 4096, 0U);
  EXPECT_LT(share.first_bytes(base::filled_bytes_min), base::filled_bytes_min);
}

}  // namespace
}  // namespace qpmesh::transport

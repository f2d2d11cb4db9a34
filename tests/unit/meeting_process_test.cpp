// SPDX-License-Identifier: MIT
// Ranks as processes of their own: who dies, and how the others learn of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>

#include "tests/support/met_rank.hpp"
#include "tests/support/process_bootstrap.hpp"
#include "tests/support/refuse_pidfd_open.hpp"
#include "tests/support/tampered_bootstrap.hpp"

namespace {

using namespace qpmesh;
using base::ControlEvent;
using test::MetRank;
using test::ProcessBootstrap;
using test::Tampered;

// The test is rank 0; ranks 1… are forked children that meet it, do their part and then wait to be
// ended. All live in one place, or each in its own, linked over TCP.
enum class Where { one_place, places_of_their_own };

class Processes : public testing::TestWithParam<Where> {
 protected:
  using Part = std::function<void(MetRank& me, int rank)>;

  static bool apart() { return GetParam() == Where::places_of_their_own; }

  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    leash_there_.reset(ends[0]);
    leash_here_.reset(ends[1]);
  }
  void TearDown() override {
    for (const pid_t pid : children_) end(pid);
    leash_here_.reset();  // grandchildren leave
  }

  void meet(int size, const Part& part) {
    std::vector<base::UniqueFd> sockets;
    for (int rank = 1; rank < size; ++rank) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
      const pid_t parent = ::getpid();
      const pid_t pid = ::fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        sockets.clear();
        ::close(ends[0]);
        leash_here_.reset();
        be_rank(rank, size, base::UniqueFd{ends[1]}, part);
      }
      ::close(ends[1]);
      sockets.emplace_back(ends[0]);
      children_.push_back(pid);
    }
    Tampered<ProcessBootstrap> ranks{0, size, std::move(sockets)};
    me_.meet(ranks);
    ASSERT_EQ(me_.meeting->local_peers.size(), apart() ? 0U : static_cast<std::size_t>(size - 1));
    for (int rank = 1; rank < size; ++rank) {
      ASSERT_EQ(me_.meeting->ranks[static_cast<std::size_t>(rank)].pid, pid_of(rank));
      ASSERT_EQ(me_.meeting->ranks[static_cast<std::size_t>(rank)].node, apart() ? rank : 0);
    }
  }

  [[noreturn]] void be_rank(int rank, int size, base::UniqueFd socket, const Part& part) {
    try {
      MetRank me;
      std::vector<base::UniqueFd> sockets;
      sockets.push_back(std::move(socket));
      Tampered<ProcessBootstrap> ranks{rank, size, std::move(sockets)};
      if (apart()) ranks.be_elsewhere(rank);
      me.meet(ranks);
      part(me, rank);
      hold();
    } catch (const std::exception& error) {
      const std::string line = std::string{error.what()} + "\n";
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    }
    ::_exit(1);
  }

  // Until the test ends.
  void hold() const {
    char byte = 0;
    [[maybe_unused]] const auto count = ::read(leash_there_.get(), &byte, 1);
  }

  pid_t pid_of(int rank) const { return children_[static_cast<std::size_t>(rank - 1)]; }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  // Events until there are count of them or the time is over, sleeping on the wake descriptor only.
  std::vector<ControlEvent> events(std::size_t count, int timeout_ms) {
    base::ControlChannel& control = *me_.meeting->control;
    const Deadline deadline = base::after_ms(me_.healthy, timeout_ms);
    std::vector<ControlEvent> all;
    while (all.size() < count) {
      pollfd wake{.fd = control.wake_descriptor(), .events = POLLIN, .revents = 0};
      if (::poll(&wake, 1, base::remaining_ms(me_.healthy, deadline)) == 0) break;
      for (ControlEvent& event : control.poll()) all.push_back(std::move(event));
      if (me_.healthy.now() >= deadline) break;  // whatever keeps waking us
    }
    return all;
  }
  std::string process_of(int rank) const {
    return "process " + std::to_string(pid_of(rank)) + " on host " +
           me_.meeting->ranks[static_cast<std::size_t>(rank)].host;
  }

  MetRank me_;
  std::vector<pid_t> children_;
  base::UniqueFd leash_there_;
  base::UniqueFd leash_here_;
};

std::string where_name(const testing::TestParamInfo<Where>& tested) {
  return tested.param == Where::one_place ? "in_one_place" : "in_places_of_their_own";
}
INSTANTIATE_TEST_SUITE_P(ranks, Processes,
                         testing::Values(Where::one_place, Where::places_of_their_own), where_name);

// What only a pidfd can tell.
class Neighbours : public Processes {};
INSTANTIATE_TEST_SUITE_P(ranks, Neighbours, testing::Values(Where::one_place), where_name);

TEST_P(Processes, that_are_killed_are_dead_within_a_second_after_their_last_frames) {
  meet(4, [](MetRank& me, int) {
    for (int i = 0; i < 5; ++i) me.meeting->control->send(0, Blob(1000, static_cast<std::byte>(i)));
  });
  auto first = events(15, 10'000);
  ASSERT_EQ(first.size(), 15U);
  for (const ControlEvent& event : first) EXPECT_EQ(event.kind, ControlEvent::Kind::frame);

  for (const int rank : {2, 1}) {
    ASSERT_EQ(::kill(pid_of(rank), SIGKILL), 0);
    const auto ended = events(1, 1000);
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended[0].kind, ControlEvent::Kind::death);
    EXPECT_EQ(ended[0].peer, rank);
    EXPECT_NE(ended[0].detail.find(process_of(rank)), std::string::npos) << ended[0].detail;
  }
  EXPECT_TRUE(events(1, 50).empty()) << "rank 3 lives, and the dead do not die twice";
  me_.meeting->control->send(1, Blob(10));  // to a dead process: no SIGPIPE
}

TEST_P(Neighbours, whose_forked_child_lives_on_are_dead_all_the_same) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const base::UniqueFd reports{ends[0]};
  base::UniqueFd report{ends[1]};
  meet(2, [&](MetRank& me, int) {
    me.meeting->control->send(0, Blob(10));
    const pid_t grandchild = ::fork();  // holds every descriptor of its parent
    if (grandchild == 0) {
      me.meeting->control->send(0, Blob(20));  // is not the rank: sends nothing
      me.meeting->control->say_goodbye(no_deadline);
      const pid_t self = ::getpid();
      [[maybe_unused]] const auto written = ::write(report.get(), &self, sizeof self);
      hold();
      ::_exit(0);
    }
  });
  pid_t grandchild = 0;
  ASSERT_EQ(::read(reports.get(), &grandchild, sizeof grandchild),
            static_cast<ssize_t>(sizeof grandchild));
  ASSERT_EQ(::kill(pid_of(1), SIGKILL), 0);
  const auto ended = events(2, 1000);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].bytes.size(), 10U);
  EXPECT_EQ(ended[1].kind, ControlEvent::Kind::death);
  EXPECT_EQ(ended[1].detail, process_of(1) + " ended (pidfd)");
  EXPECT_EQ(::kill(grandchild, 0), 0)
      << "the grandchild must still hold the socket for this test to mean anything";
  EXPECT_TRUE(events(1, 50).empty());
}

TEST_P(Neighbours, that_cannot_be_watched_by_pidfds_are_dead_by_their_hang_up) {
  if (!test::refuse_pidfd_open(ENOSYS))
    GTEST_SKIP() << "filters of system calls are not taken here";
  meet(2, [](MetRank&, int) {});
  ASSERT_EQ(::kill(pid_of(1), SIGKILL), 0);
  const auto ended = events(1, 1000);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].kind, ControlEvent::Kind::death);
  EXPECT_EQ(ended[0].detail, process_of(1) + " hung up without a goodbye");
}

TEST_P(Neighbours, that_a_filter_forbids_to_watch_end_the_start_with_a_hint) {
  if (!test::refuse_pidfd_open(EPERM)) GTEST_SKIP() << "filters of system calls are not taken here";
  try {
    meet(2, [](MetRank&, int) {});
    FAIL() << "nobody was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_EQ(error.system_error(), EPERM);
    EXPECT_EQ(error.cause(), "pidfd_open failed while linking with rank 1 (reported by rank 0)");
    EXPECT_EQ(error.hint(), "does a seccomp filter of a container refuse this call? allow it");
  }
}

TEST_P(Processes, that_are_stopped_are_not_dead) {
  meet(2, [](MetRank&, int) {});
  ASSERT_EQ(::kill(pid_of(1), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid_of(1), &status, WUNTRACED), pid_of(1));
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_TRUE(events(1, 100).empty());
  ASSERT_EQ(::kill(pid_of(1), SIGCONT), 0);
}

TEST_P(Processes, that_said_goodbye_and_ended_did_not_die) {
  meet(2, [](MetRank& me, int) {
    me.meeting->control->send(0, Blob(10));
    me.meeting->control->say_goodbye(base::after_ms(me.healthy, 1000));
    ::_exit(0);
  });
  ASSERT_EQ(::waitpid(pid_of(1), nullptr, 0), pid_of(1));
  children_.clear();
  const auto ended = events(2, 1000);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].bytes.size(), 10U);
  EXPECT_EQ(ended[1].kind, ControlEvent::Kind::goodbye);
  EXPECT_TRUE(events(1, 50).empty());
}

TEST_P(Processes, that_are_killed_with_much_unread_lose_none_of_it) {
  // All are sent before the first is read. Apart, only as many as may be unread.
  const int frames = apart() ? 7 : 12;
  meet(2, [=](MetRank& me, int) {
    for (int i = 0; i < frames; ++i) {
      me.meeting->control->send(
          0, Blob(base::ControlChannel::frame_bytes_max / 2, static_cast<std::byte>(i)));
    }
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_EQ(::waitpid(pid_of(1), nullptr, 0), pid_of(1));
  children_.clear();
  const auto count = static_cast<std::size_t>(frames) + 1;
  const auto all = events(count, 1000);
  ASSERT_EQ(all.size(), count);
  for (int i = 0; i < frames; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].bytes.front(), static_cast<std::byte>(i));
  EXPECT_EQ(all.back().kind, ControlEvent::Kind::death);
}

// The kernel reports a reset: the dead process had not read everything.
TEST_P(Processes, that_are_killed_with_much_left_to_read_are_dead_all_the_same) {
  meet(2, [](MetRank&, int) {});
  for (int i = 0; i < 100; ++i)
    me_.meeting->control->send(1, Blob(base::ControlChannel::frame_bytes_max));
  ASSERT_EQ(::kill(pid_of(1), SIGKILL), 0);
  const auto ended = events(1, 1000);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].kind, ControlEvent::Kind::death);
  EXPECT_TRUE(events(1, 50).empty());
}

}  // namespace

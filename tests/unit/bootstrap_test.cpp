// SPDX-License-Identifier: MIT
// The suite that every star passes, whatever it meets over: late, missing, wrong, silent and
// hostile ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <thread>

#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap_world.hpp"
#include "qpmesh/interrupt.hpp"

namespace qpmesh::bootstrap {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct AnyBootstrap : ::testing::TestWithParam<Kind> {
  Venue venue{GetParam()};
};

void expect_all_here(const Gathered& outcome, int size) {
  ASSERT_FALSE(outcome.error) << outcome.error->what();
  ASSERT_EQ(outcome.blobs.size(), static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(outcome.blobs[static_cast<std::size_t>(rank)], blob_of(rank, 10));
}

// As many as this process may have, as long as this lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = count;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST_P(AnyBootstrap, gathers_blobs_of_any_length_in_rank_order_on_every_rank) {
  const auto bytes = [](int rank, int round) -> std::size_t {
    if (rank == 1 && round == 0) return blob_bytes_max;
    return static_cast<std::size_t>(rank + round) % 3 * 1000;
  };
  for (int size = 2; size <= 8; ++size) {
    const Venue here{GetParam()};
    std::vector<std::future<void>> ranks;
    ranks.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::async(std::launch::async, [&, rank] {
        const auto self = here.rank({.rank = rank, .size = size});
        for (int round = 0; round < 3; ++round) {
          const auto blobs =
              self->star().all_gather(blob_of(rank, bytes(rank, round)), in_ms(enough_ms));
          ASSERT_EQ(blobs.size(), static_cast<std::size_t>(size));
          for (int other = 0; other < size; ++other) {
            EXPECT_EQ(blobs[static_cast<std::size_t>(other)], blob_of(other, bytes(other, round)));
          }
        }
      }));
    }
    for (auto& rank : ranks) rank.get();
  }
}

TEST_P(AnyBootstrap, waits_for_a_late_rank_and_a_late_root) {
  auto first = start(venue, {.rank = 1, .size = 3}, enough_ms);
  EXPECT_EQ(first.wait_for(milliseconds{60}), std::future_status::timeout);
  auto root = start(venue, {.rank = 0, .size = 3}, enough_ms);
  EXPECT_EQ(root.wait_for(milliseconds{60}), std::future_status::timeout);
  auto last = start(venue, {.rank = 2, .size = 3}, enough_ms);
  for (auto* rank : {&root, &first, &last}) expect_all_here(rank->get(), 3);
}

TEST_P(AnyBootstrap, names_the_missing_ranks_on_every_rank_when_the_deadline_passes) {
  auto root = start(venue, {.rank = 0, .size = 4}, 800);
  auto rank = start(venue, {.rank = 1, .size = 4}, 800);
  for (auto* one : {&root, &rank}) {
    // Whoever's deadline passes first tells the other.
    expect_error(one->get(), {.code = ErrorCode::timeout,
                              .peer = 2,
                              .cause = "ranks 2, 3 of 4 missing after * ms*",
                              .hint = venue.missing_hint(4)});
  }
}

TEST_P(AnyBootstrap,
       names_the_missing_rank_to_a_rank_whose_deadline_is_shorter_and_lets_the_root_go_with_it) {
  auto root = start(venue, {.rank = 0, .size = 3}, enough_ms);
  auto rank = start(venue, {.rank = 1, .size = 3}, 800);
  expect_error(rank.get(),
               {.code = ErrorCode::timeout,
                .peer = 2,
                .cause = "rank 2 of 3 missing after * ms (rank 1's deadline passed first)",
                .hint = venue.missing_hint(3)});
  expect_error(root.get(),
               {.code = ErrorCode::timeout,
                .peer = 2,
                .cause = "rank 2 of 3 missing after * ms (rank 1's deadline passed first)",
                .hint = venue.missing_hint(3)});
}

TEST_P(AnyBootstrap, says_who_is_awaited_while_it_waits) {
  ::testing::internal::CaptureStderr();
  start(venue, {.rank = 0, .size = 3, .progress_ms = 50, .log = base::LogLevel::info}, 600).get();
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr(fmt::format("start-up at {}: waiting for ranks 1, 2 of 3 for ",
                                           venue.describe())));
}

TEST_P(AnyBootstrap, refuses_a_rank_of_another_size_with_both_sizes_and_waits_for_the_right_one) {
  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  const Gathered wrong = start(venue, {.rank = 1, .size = 3}, enough_ms).get();
  expect_error(wrong, {.code = ErrorCode::mismatch,
                       .peer = 0,
                       .cause = "rank 1 was started as one of 3, rank 0 as one of 2",
                       .hint = "start every rank with the same size"});
  expect_all_here(start(venue, {.rank = 1, .size = 2}, enough_ms).get(), 2);
  expect_all_here(root.get(), 2);
}

TEST_P(AnyBootstrap, tells_at_the_deadline_who_was_refused) {
  auto root = start(venue, {.rank = 0, .size = 2}, 400);
  start(venue, {.rank = 1, .size = 3}, enough_ms).get();
  expect_error(
      root.get(),
      {.code = ErrorCode::timeout,
       .peer = 1,
       .cause = fmt::format("rank 1 of 2 missing after * ms; pid {} on host * was refused: rank 1 "
                            "was started as one of 3, rank 0 as one of 2",
                            ::getpid()),
       .hint = venue.missing_hint(2)});
}

// Every descriptor is taken while the root waits; only the rank's own socket finds room.
TEST_P(AnyBootstrap, tells_at_once_that_descriptors_ran_out) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "UndefinedBehaviorSanitizer needs descriptors of its own, and takes every object for a "
         "broken one without";
#endif
  const auto self = venue.rank({.rank = 0, .size = 2});
  const FewDescriptors few{64};
  std::vector<base::UniqueFd> taken;
  do taken.emplace_back(::dup(STDERR_FILENO));
  while (taken.back());
  ASSERT_GT(taken.size(), 2U);
  taken.resize(taken.size() - 2);  // the last is none
  const base::UniqueFd knocking = venue.connect();
  ASSERT_TRUE(knocking);
  const Gathered outcome = gather(self->star(), blob_of(0, 10), enough_ms);
  taken.clear();
  expect_error(outcome,
               {.code = ErrorCode::no_resource,
                .peer = 0,
                .cause = "rank 0 has no descriptor left to let another rank in",
                .hint = "raise the limit on open files (ulimit -n): this process may have 64",
                .system_error = EMFILE});
}

TEST_P(AnyBootstrap, does_not_try_again_without_descriptors) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "UndefinedBehaviorSanitizer needs descriptors of its own, and takes every object for a "
         "broken one without";
#endif
  const auto self = venue.rank({.rank = 1, .size = 2});
  const FewDescriptors few{64};
  std::vector<base::UniqueFd> taken;
  do taken.emplace_back(::dup(STDERR_FILENO));
  while (taken.back());
  const Gathered outcome = gather(self->star(), blob_of(1, 10), enough_ms);
  taken.clear();
  expect_error(outcome,
               {.code = ErrorCode::no_resource,
                .peer = 1,
                .cause = "rank 1 has no descriptor left: connect to *",
                .hint = "raise the limit on open files (ulimit -n): this process may have 64",
                .system_error = EMFILE});
}

// What qpmesh-run does: it listens, and tells whoever comes of ranks that have ended.
class Launcher {
 public:
  explicit Launcher(std::vector<EndedRank> ended)
      : ended_{std::move(ended)}, listener_{listen_at(system_, unix_address(socket()))} {
    EXPECT_TRUE(listener_.socket);
  }
  std::string socket() const { return ended_ranks_socket(fmt::format("{}", ::getpid())); }
  void tell(std::size_t ranks) {
    while (told_.size() < ranks) {
      pollfd entry{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(::poll(&entry, 1, enough_ms), 1);
      told_.emplace_back(::accept(listener_.socket.get(), nullptr, nullptr));
      // Who was told first has told the others, perhaps: they may have left.
      for (const EndedRank& ended : ended_) send_bytes(told_.back().get(), &ended, sizeof ended);
    }
  }

 private:
  base::System system_;
  std::vector<EndedRank> ended_;
  Opened listener_;
  std::vector<base::UniqueFd> told_;
};

TEST_P(AnyBootstrap, ends_at_once_when_the_launcher_says_that_an_awaited_rank_has_ended) {
  Launcher launcher{{{.rank = 2, .pid = 77, .code = 0}}};
  const std::string socket = launcher.socket();
  auto root = start(venue, {.rank = 0, .size = 3, .ended_ranks_socket = socket}, enough_ms);
  auto rank = start(venue, {.rank = 1, .size = 3, .ended_ranks_socket = socket}, enough_ms);
  EXPECT_EQ(root.wait_for(milliseconds{100}), std::future_status::timeout);
  launcher.tell(2);
  for (auto* one : {&root, &rank}) {
    expect_error(
        one->get(),
        {.code = ErrorCode::peer_dead,
         .peer = 2,
         .cause = "rank 2 (pid 77) ended with code 0 before it joined the start-up",
         .hint = "every rank must call init: look at what that rank said before it ended"});
  }
}

TEST_P(AnyBootstrap, ends_at_once_when_the_launcher_says_that_rank_0_has_ended) {
  Launcher launcher{{{.rank = 3, .pid = 76, .code = 0}, {.rank = 0, .pid = 77, .code = 3}}};
  auto rank =
      start(venue, {.rank = 1, .size = 3, .ended_ranks_socket = launcher.socket()}, enough_ms);
  launcher.tell(1);
  expect_error(rank.get(),
               {.code = ErrorCode::peer_dead,
                .peer = 0,
                .cause = "rank 0 (pid 77) ended with code 3 before rank 1 joined the start-up",
                .hint = "every rank must call init: look at what that rank said before it ended"});
}

TEST_P(AnyBootstrap, ends_at_once_for_who_comes_after_any_rank_has_ended) {
  Launcher launcher{{{.rank = 2, .pid = 76, .code = 0}, {.rank = 0, .pid = 77, .code = 3}}};
  auto rank =
      start(venue, {.rank = 1, .size = 3, .ended_ranks_socket = launcher.socket()}, enough_ms);
  launcher.tell(1);
  expect_error(rank.get(),
               {.code = ErrorCode::peer_dead,
                .peer = 2,
                .cause = "rank 2 (pid 76) ended with code 0 before rank 1 joined the start-up",
                .hint = "every rank must call init: look at what that rank said before it ended"});
}

TEST_P(AnyBootstrap, lets_ranks_that_are_none_of_its_own_end) {
  Launcher launcher{{{.rank = 2, .pid = 77, .code = 0}}};
  auto root =
      start(venue, {.rank = 0, .size = 2, .ended_ranks_socket = launcher.socket()}, enough_ms);
  launcher.tell(1);
  EXPECT_EQ(root.wait_for(milliseconds{100}), std::future_status::timeout);
  auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
  for (auto* one : {&root, &rank}) expect_all_here(one->get(), 2);
}

// poll takes no more entries than a process may have descriptors.
TEST_P(AnyBootstrap, waits_for_more_ranks_than_it_may_have_descriptors) {
  const FewDescriptors few{64};
  const Gathered outcome = start(venue, {.rank = 0, .size = 100}, 100).get();
  expect_error(outcome, {.code = ErrorCode::timeout,
                         .peer = 1,
                         .cause = "ranks 1, 2, 3, * and 35 more of 100 missing after * ms",
                         .hint = venue.missing_hint(100)});
}

TEST_P(AnyBootstrap, refuses_a_rank_of_another_version_with_both_versions) {
  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  base::UniqueFd fd;
  while (!fd) fd = venue.connect();
  const auto challenge = read_challenge(fd.get());
  ASSERT_TRUE(challenge);
  Hello hello = hello_for(venue, {.rank = 1, .size = 2}, *challenge);
  hello.version = handshake_version + 1;
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::hello, hello));
  const auto frame = read_frame(fd.get());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, FrameKind::refused);
  const ErrorDetail detail = decode_error(frame->payload, 0);
  EXPECT_EQ(test::difference(Error{detail},
                             {.code = ErrorCode::mismatch,
                              .peer = 0,
                              .operation = "init",
                              .cause = "rank 1 speaks bootstrap version 3, rank 0 speaks version 2",
                              .hint = "start every rank with the same qpmesh"}),
            "");
  expect_all_here(start(venue, {.rank = 1, .size = 2}, enough_ms).get(), 2);
  expect_all_here(root.get(), 2);
}

TEST_P(AnyBootstrap, refuses_a_rank_of_another_job_that_shares_its_address_and_secret) {
  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  const Gathered wrong =
      start(venue, {.rank = 1, .size = 2, .job = "another job"}, enough_ms).get();
  expect_error(
      wrong,
      {.code = ErrorCode::mismatch,
       .peer = 0,
       .cause =
           fmt::format("rank 1 is not of job \"the job of this test\", which rank 0 at {} starts",
                       venue.describe()),
       .hint = "give each job a root of its own, and every rank of one job the same QPMESH_JOB"});
  expect_all_here(start(venue, {.rank = 1, .size = 2}, enough_ms).get(), 2);
  expect_all_here(root.get(), 2);
}

TEST_P(AnyBootstrap, sees_that_the_root_speaks_another_version) {
  const auto listener = venue.listen_instead();
  auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
  const base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};
  Challenge challenge;
  challenge.version = 7;
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::challenge, challenge));
  expect_error(rank.get(), {.code = ErrorCode::mismatch,
                            .peer = 0,
                            .cause = "rank 1 speaks bootstrap version 2, rank 0 speaks version 7",
                            .hint = "start every rank with the same qpmesh"});
}

TEST_P(AnyBootstrap, says_how_often_each_called_init_when_a_rank_is_one_start_behind) {
  auto root = start(venue, {.rank = 0, .size = 2, .ordinal = 1}, enough_ms);
  const Gathered behind = start(venue, {.rank = 1, .size = 2, .ordinal = 0}, enough_ms).get();
  expect_error(behind, {.code = ErrorCode::mismatch,
                        .peer = 0,
                        .cause = "rank 1 calls init for the 1. time, rank 0 for the 2.",
                        .hint = "init is collective: every rank calls it equally often"});
  expect_all_here(start(venue, {.rank = 1, .size = 2, .ordinal = 1}, enough_ms).get(), 2);
  expect_all_here(root.get(), 2);
}

TEST_P(AnyBootstrap, refuses_a_rank_that_is_none_of_those_it_waits_for) {
  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  for (const int rank : {2, -1}) {
    expect_error(
        start(venue, {.rank = rank, .size = 2}, enough_ms).get(),
        {.code = ErrorCode::mismatch,
         .peer = 0,
         .cause = fmt::format("rank {} is none of the ranks 1 to 1 that rank 0 waits for", rank),
         .hint = "give every process a rank of its own"});
  }
  expect_all_here(start(venue, {.rank = 1, .size = 2}, enough_ms).get(), 2);
  expect_all_here(root.get(), 2);
}

TEST_P(AnyBootstrap, refuses_a_second_process_of_one_rank_naming_both_and_keeps_the_first) {
  auto root = start(venue, {.rank = 0, .size = 3}, enough_ms);
  std::vector<std::future<Gathered>> twins;
  twins.reserve(2);
  for (int i = 0; i < 2; ++i) twins.push_back(start(venue, {.rank = 1, .size = 3}, enough_ms));
  // One of the two is refused, whichever came second.
  std::size_t refused = 0;
  while (twins[refused].wait_for(milliseconds{5}) != std::future_status::ready)
    refused = 1 - refused;
  expect_error(
      twins[refused].get(),
      {.code = ErrorCode::mismatch,
       .peer = 0,
       .cause = fmt::format(
           "rank 1 is here already: pid {0} on host *; the second one is pid {0} on host *",
           ::getpid()),
       .hint = "give every process a rank of its own, and give each job a QPMESH_JOB of its own"});
  expect_all_here(start(venue, {.rank = 2, .size = 3}, enough_ms).get(), 3);
  expect_all_here(twins[1 - refused].get(), 3);
  expect_all_here(root.get(), 3);
}

TEST_P(AnyBootstrap, sends_a_rank_that_is_one_start_ahead_away_until_later) {
  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  base::UniqueFd fd;
  while (!fd) fd = venue.connect();
  const auto challenge = read_challenge(fd.get());
  ASSERT_TRUE(challenge);
  const Hello hello = hello_for(venue, {.rank = 1, .size = 2, .ordinal = 1}, *challenge);
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::hello, hello));
  const auto frame = read_frame(fd.get());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, FrameKind::later);
  expect_all_here(start(venue, {.rank = 1, .size = 2}, enough_ms).get(), 2);
  expect_all_here(root.get(), 2);
}

TEST_P(AnyBootstrap, says_that_it_calls_again_before_it_leaves_a_root_that_said_nothing) {
  const auto listener = venue.listen_instead();
  auto rank = start(venue, {.rank = 1, .size = 2, .handshake_timeout_ms = 20}, enough_ms);
  for (int call = 0; call < 3; ++call) {
    const base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};
    const auto frame = read_frame(fd.get());
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->kind, FrameKind::calls_again);
    EXPECT_TRUE(closed_by_peer(fd.get()));
  }
  // It goes for good when another service answers, which may be later than its patience once more.
  while (rank.wait_for(milliseconds{0}) != std::future_status::ready) {
    pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 1) == 0) continue;
    const base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};
    send_bytes(fd.get(), "SSH-2.0-", 8);
    closed_by_peer(fd.get());
  }
  EXPECT_EQ(rank.get().error.value().code(), ErrorCode::authentication);
}

TEST_P(AnyBootstrap, takes_ranks_that_waited_too_long_and_call_again_for_no_strangers) {
  ::testing::internal::CaptureStderr();
  const auto root = venue.rank({.rank = 0, .size = 2, .log = base::LogLevel::warning});
  for (int call = 0; call < 3; ++call) {
    const base::UniqueFd fd = venue.connect();
    const FrameHeader again{FrameKind::calls_again, 0};
    EXPECT_TRUE(send_bytes(fd.get(), &again, sizeof again));
  }
  auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
  expect_all_here(gather(root->star(), blob_of(0, 10), enough_ms), 2);
  expect_all_here(rank.get(), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_P(AnyBootstrap,
       drops_silent_unauthenticated_peers_after_the_handshake_time_without_delaying_anyone) {
  auto root = start(venue, {.rank = 0, .size = 3, .handshake_timeout_ms = 150}, enough_ms);
  std::vector<base::UniqueFd> silent(5);
  for (auto& fd : silent) {
    while (!fd) fd = venue.connect();
  }
  // The beginning of a hello, and no more.
  ASSERT_TRUE(send_bytes(silent[0].get(), "hse", 3));
  auto first = start(venue, {.rank = 1, .size = 3}, enough_ms);
  for (const auto& fd : silent) EXPECT_TRUE(closed_by_peer(fd.get()));
  auto last = start(venue, {.rank = 2, .size = 3}, enough_ms);
  const Gathered outcome = last.get();
  expect_all_here(outcome, 3);
  EXPECT_LT(outcome.elapsed_ms, 2'000);
  expect_all_here(first.get(), 3);
  expect_all_here(root.get(), 3);
}

TEST_P(
    AnyBootstrap,
    lets_real_ranks_in_among_hundreds_of_unauthenticated_peers_that_hold_connections_or_send_garbage) {
  const int before = open_descriptors();
  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const Blob noise = blob_of(3, 20'000);
  std::vector<base::UniqueFd> unauthenticated;
  while (unauthenticated.size() < 600) {
    auto fd = venue.connect();
    if (!fd) {
      if (root.wait_for(milliseconds{0}) == std::future_status::ready)
        return expect_all_here(root.get(), 2);  // it has given up
      continue;
    }
    if (unauthenticated.size() % 4 == 0) send_bytes(fd.get(), request.data(), request.size());
    if (unauthenticated.size() % 4 == 1) send_bytes(fd.get(), noise.data(), noise.size());
    unauthenticated.push_back(
        std::move(fd));  // the others say nothing: 300 of them exceed what the root holds
  }
  const Gathered outcome = start(venue, {.rank = 1, .size = 2}, enough_ms).get();
  expect_all_here(outcome, 2);
  EXPECT_LT(outcome.elapsed_ms, 2'000);
  expect_all_here(root.get(), 2);
  unauthenticated.clear();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(AnyBootstrap, ends_the_start_when_a_rank_announces_more_than_a_blob_may_have) {
  auto root = start(venue, {.rank = 0, .size = 3}, enough_ms, 2);
  auto other = start(venue, {.rank = 2, .size = 3}, enough_ms, 2);
  base::UniqueFd fd;
  while (!fd) fd = venue.connect();
  const auto challenge = read_challenge(fd.get());
  ASSERT_TRUE(challenge);
  const Hello hello = hello_for(venue, {.rank = 1, .size = 3}, *challenge);
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::hello, hello));
  const FrameHeader good{FrameKind::blob, 0};
  ASSERT_TRUE(send_bytes(fd.get(), &good, sizeof good));
  auto frame = read_frame(fd.get());
  while (frame && frame->kind != FrameKind::everyones) frame = read_frame(fd.get());
  ASSERT_TRUE(frame) << "the first all_gather did not end";
  const FrameHeader bad{FrameKind::blob, 0xffff'fff0U};
  ASSERT_TRUE(send_bytes(fd.get(), &bad, sizeof bad));
  for (auto* one : {&root, &other}) {
    expect_error(one->get(), {.code = ErrorCode::corrupt,
                              .peer = 1,
                              .cause = fmt::format(
                                  "rank 1 (pid {} on host *) announced 4294967280 bytes; at most "
                                  "65536 are allowed",
                                  ::getpid()),
                              .hint = "start every rank with the same qpmesh"});
  }
}

TEST_P(AnyBootstrap, tells_at_once_that_the_root_died) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // the root: one all_gather, then nothing
    const auto root = venue.rank({.rank = 0, .size = 2});
    const bool good = !gather(root->star(), blob_of(0, 10), enough_ms).error;
    [[maybe_unused]] const auto written = ::write(pipe_ends[1], good ? "y" : "n", 1);
    for (;;) ::pause();
  }
  const auto rank = venue.rank({.rank = 1, .size = 2});
  expect_all_here(gather(rank->star(), blob_of(1, 10), enough_ms), 2);
  char said = 0;
  ASSERT_EQ(::read(pipe_ends[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  auto second = std::async(std::launch::async,
                           [&] { return gather(rank->star(), blob_of(1, 10), enough_ms); });
  EXPECT_EQ(second.wait_for(milliseconds{50}), std::future_status::timeout);
  ::kill(child, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  const Gathered outcome = second.get();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, milliseconds{1'000});
  ::waitpid(child, nullptr, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  expect_error(outcome, {.code = ErrorCode::peer_dead,
                         .peer = 0,
                         .cause = fmt::format("rank 0 closed the connection at {} during start-up",
                                              venue.describe()),
                         .hint = "look at what rank 0 said before it ended",
                         // ECONNRESET, if our blob was there before it died.
                         .system_error = test::any_system_error});
}

TEST_P(AnyBootstrap, tells_every_rank_which_rank_died) {
  auto root = start(venue, {.rank = 0, .size = 3}, enough_ms, 2);
  // Goes after its first all_gather.
  auto mortal = start(venue, {.rank = 1, .size = 3}, enough_ms, 1);
  auto other = start(venue, {.rank = 2, .size = 3}, enough_ms, 2);
  expect_all_here(mortal.get(), 3);
  for (auto* one : {&root, &other}) {
    expect_error(one->get(), {.code = ErrorCode::peer_dead,
                              .peer = 1,
                              .cause = fmt::format(
                                  "rank 1 (pid {} on host *) closed its connection during start-up",
                                  ::getpid()),
                              .hint = "look at what that rank said before it ended"});
  }
}

TEST_P(AnyBootstrap, knows_between_two_gathers_that_a_rank_died) {
  auto root = venue.rank({.rank = 0, .size = 3});
  auto other = venue.rank({.rank = 2, .size = 3});
  auto mortal = start(venue, {.rank = 1, .size = 3}, enough_ms, 1);
  auto its_first = std::async(std::launch::async,
                              [&] { return gather(other->star(), blob_of(2, 10), enough_ms); });
  expect_all_here(gather(root->star(), blob_of(0, 10), enough_ms), 3);
  expect_all_here(its_first.get(), 3);
  expect_all_here(mortal.get(), 3);
  const Deadline deadline = std::chrono::steady_clock::now() + milliseconds{enough_ms};
  for (auto* one : {&root, &other}) {  // rank 2 hears it from the root
    std::optional<Error> heard;
    while (!heard && std::chrono::steady_clock::now() < deadline) {
      try {
        (*one)->star().check_ranks();
      } catch (const Error& error) {
        heard = error;
      }
    }
    const test::ExpectedError expected{
        .code = ErrorCode::peer_dead,
        .peer = 1,
        .cause = fmt::format("rank 1 (pid {} on host *) closed its connection during start-up",
                             ::getpid()),
        .hint = "look at what that rank said before it ended"};
    expect_error({.blobs = {}, .error = heard}, expected);
    expect_error(gather((*one)->star(), blob_of(0, 10), enough_ms), expected);
  }
}

thread_local bool has_had_enough = false;

TEST_P(AnyBootstrap, tells_every_rank_which_rank_was_interrupted) {
  set_interrupt_check([]() noexcept { return has_had_enough; });
  for (const int interrupted : {0, 1}) {
    const auto gather_twice = [&](int rank) {
      const auto one = venue.rank({.rank = rank, .size = 3, .ordinal = interrupted});
      gather(one->star(), blob_of(rank, 10), enough_ms);
      has_had_enough = rank == interrupted;
      return gather(one->star(), blob_of(rank, 10), enough_ms);
    };
    auto root = std::async(std::launch::async, gather_twice, 0);
    auto rank = std::async(std::launch::async, gather_twice, 1);
    // Is late for the second one.
    const auto late = venue.rank({.rank = 2, .size = 3, .ordinal = interrupted});
    gather(late->star(), blob_of(2, 10), enough_ms);
    for (auto* one : {&root, &rank}) {
      expect_error(one->get(), {.code = ErrorCode::aborted,
                                .peer = interrupted,
                                .cause = "it was interrupted on that rank while it waited"});
    }
    expect_error(gather(late->star(), blob_of(2, 10), enough_ms),
                 {.code = ErrorCode::aborted,
                  .peer = interrupted,
                  .cause = "it was interrupted on that rank while it waited"});
  }
  set_interrupt_check(nullptr);
}

TEST_P(AnyBootstrap, throws_the_same_error_again_once_it_is_broken) {
  const auto root = venue.rank({.rank = 0, .size = 2});
  const Gathered first = gather(root->star(), blob_of(0, 1), 30);
  const Gathered second = gather(root->star(), blob_of(0, 1), enough_ms);
  expect_error(first, {.code = ErrorCode::timeout,
                       .peer = 1,
                       .cause = "rank 1 of 2 missing after * ms",
                       .hint = venue.missing_hint(2)});
  ASSERT_TRUE(second.error);
  EXPECT_STREQ(first.error->what(), second.error->what());
  const Gathered too_long = gather(root->star(), blob_of(0, blob_bytes_max + 1), enough_ms);
  ASSERT_TRUE(too_long.error);
  EXPECT_STREQ(first.error->what(), too_long.error->what());
}

TEST_P(AnyBootstrap, refuses_a_blob_beyond_the_limit_and_lives_on) {
  auto other = start(venue, {.rank = 1, .size = 2}, enough_ms);
  const auto root = venue.rank({.rank = 0, .size = 2});
  const Gathered outcome = gather(root->star(), blob_of(0, blob_bytes_max + 1), enough_ms);
  expect_error(outcome, {.code = ErrorCode::bad_argument,
                         .cause = "a blob of 65537 bytes; at most 65536 are allowed",
                         .hint = "all_gather is for addresses and keys, not for data"});
  expect_all_here(gather(root->star(), blob_of(0, 10), enough_ms), 2);
  expect_all_here(other.get(), 2);
}

// The other one of two ranks has nothing to say.
class BesideAQuietRank : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::vector<Blob> all_gather(BlobView mine, Deadline) override {
    EXPECT_LE(mine.size(), blob_bytes_max);
    return {{mine.begin(), mine.end()}, encode(Report{})};
  }
};

TEST(agreement, a_result_that_no_blob_holds_is_the_same_error_on_all_ranks) {
  BesideAQuietRank bootstrap;
  const auto agree_on = [&](std::size_t bytes) {
    return agree(bootstrap, no_deadline, [&] { return blob_of(0, bytes); });
  };
  EXPECT_EQ(agree_on(blob_bytes_max - 100).front().size(), blob_bytes_max - 100);
  try {
    agree_on(blob_bytes_max);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_THAT(std::string{error.cause()},
                testing::MatchesRegex("what this rank tells the others has [0-9]+ bytes; at most "
                                      "65536 are allowed \\(reported by rank 0\\)"));
  }
}

// Any call may fail, at the root and at a rank: the outcome is a good start or an Error, in time,
// and nothing is left open.
TEST_P(AnyBootstrap, survives_the_failure_of_every_single_call) {
  const int before = open_descriptors();
  for (const int victim : {0, 1}) {
    bool fired = true;
    int failures = 0;
    for (std::uint64_t index = 0; fired && index < 80; ++index) {
      const Venue here{GetParam()};
      base::FailPoints fail_points;
      fail_points.fail_call(index, ENOMEM);
      std::array<std::future<Gathered>, 2> ranks;
      for (const int rank : {0, 1}) {
        ranks[static_cast<std::size_t>(rank)] =
            start(here,
                  {.rank = rank,
                   .size = 2,
                   .handshake_timeout_ms = 50,
                   .fail_points = rank == victim ? &fail_points : nullptr},
                  100);
      }
      for (auto& rank : ranks) {
        const Gathered outcome = rank.get();
        EXPECT_LT(outcome.elapsed_ms, 2'000) << fail_points.fired_site();
        if (!outcome.error) expect_all_here(outcome, 2);
        failures += outcome.error ? 1 : 0;
      }
      fired = fail_points.fired();
    }
    EXPECT_FALSE(fired) << "the loop ended before the calls did";
    EXPECT_GT(failures, 0);
  }
  EXPECT_EQ(open_descriptors(), before);
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::one_host ? "one_host" : "tcp";
}
INSTANTIATE_TEST_SUITE_P(bootstrap, AnyBootstrap, ::testing::Values(Kind::one_host, Kind::tcp),
                         kind_name);

TEST(alone, gathers_its_own_blob) {
  const base::System system;
  const base::Log log;
  const auto alone = make_bootstrap(Identity{}, 0, Options{}, system, log);
  EXPECT_EQ(alone->rank(), 0);
  EXPECT_EQ(alone->size(), 1);
  const auto blobs = alone->all_gather(blob_of(0, 10), in_ms(0));
  ASSERT_EQ(blobs.size(), 1U);
  EXPECT_EQ(blobs[0], blob_of(0, 10));
}

}  // namespace
}  // namespace qpmesh::bootstrap

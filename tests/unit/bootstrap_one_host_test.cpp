// SPDX-License-Identifier: MIT
// What only the Unix socket can get wrong: its name, and processes of other users.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "bootstrap/endpoint.hpp"
#include "bootstrap_world.hpp"
#include "tests/support/another_user.hpp"
#include "tests/support/public_copy.hpp"

namespace qpmesh::bootstrap {
namespace {

using ::testing::MatchesRegex;

// tests/unit/other_user.cpp run as another user. Its first line says that it is ready.
class OtherUser {
 public:
  OtherUser(const std::string& action, const std::string& name) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    const std::string path = program_.path();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::execlp("setpriv", "setpriv", "--reuid", "65534", "--clear-groups", path.c_str(),
               action.c_str(), name.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    output_.reset(ends[0]);
  }
  ~OtherUser() {
    if (pid_ > 0) finish();
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

  std::string line() {
    std::string text;
    for (char c = 0; ::read(output_.get(), &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  int finish() {
    output_.reset();
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  test::PublicCopy program_{QPMESH_OTHER_USER};
  pid_t pid_ = 0;
  base::UniqueFd output_;
};

TEST(one_host_bootstrap, says_that_the_name_is_in_use) {
  const Venue venue{Kind::one_host};
  const auto first = venue.rank({.rank = 0, .size = 2});
  try {
    venue.rank({.rank = 0, .size = 2});
    FAIL() << "two roots of one name";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(
            error,
            {.code = ErrorCode::bad_config,
             .peer = 0,
             .operation = "init",
             .cause = fmt::format(
                 "the socket name {} is in use: another living job, or a second rank 0 of this one",
                 venue.describe()),
             .hint = "end the other job, or give each job a QPMESH_JOB of its own",
             .system_error = EADDRINUSE}),
        "");
  }
}

TEST(one_host_bootstrap, gives_its_name_free_when_it_ends) {
  const Venue venue{Kind::one_host};
  for (int i = 0; i < 3; ++i) {
    auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
    EXPECT_FALSE(start(venue, {.rank = 0, .size = 2}, enough_ms).get().error);
    EXPECT_FALSE(rank.get().error);
  }
}

TEST(one_host_bootstrap, times_out_when_no_root_comes) {
  const Venue venue{Kind::one_host};
  expect_error(
      start(venue, {.rank = 1, .size = 2}, 200).get(),
      {.code = ErrorCode::timeout,
       .peer = 0,
       .cause = fmt::format(
           "rank 1 did not reach rank 0 at {0}: * attempt* in * ms, the last: {0} (Connection "
           "refused), @qpmesh-private-* (Connection refused)",
           venue.describe()),
       .hint = fmt::format("is rank 0 running? All ranks must {}", venue.terms()),
       .system_error = ECONNREFUSED});
}

TEST(one_host_bootstrap, names_differ_by_user_job_and_start_and_always_fit) {
  EXPECT_EQ(one_host_name(1000, "2014838785", 3), "qpmesh-1000-2014838785-3");
  const std::string longest = one_host_name(4'294'967'294, std::string(500, 'a'), 2'000'000'000);
  EXPECT_LT(longest.size(), 107U);
  EXPECT_NE(longest, one_host_name(4'294'967'294, std::string(501, 'a'), 2'000'000'000));
  EXPECT_THAT(one_host_name(0, "a b/\n", 0), MatchesRegex("qpmesh-0-hash:[0-9a-f]+-0"));
}

TEST(one_host_bootstrap, drops_a_rank_of_another_user_in_one_line_of_log_and_waits_for_its_own) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  const Venue venue{Kind::one_host};
  ::testing::internal::CaptureStderr();
  const auto self = venue.rank({.rank = 0, .size = 2, .log = base::LogLevel::warning});
  auto root = std::async(std::launch::async,
                         [&] { return gather(self->star(), blob_of(0, 10), enough_ms); });
  OtherUser other{"connect", venue.name()};
  EXPECT_EQ(other.line(), "dropped");
  EXPECT_EQ(other.finish(), 0);
  EXPECT_FALSE(start(venue, {.rank = 1, .size = 2}, enough_ms).get().error);
  EXPECT_FALSE(root.get().error);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      MatchesRegex(fmt::format("qpmesh warning: dropped 1 connection to {}, the last: its user is "
                               "uid 65534, ours is uid 0 \\(pid [0-9]+\\)\n",
                               venue.describe())));
}

TEST(one_host_bootstrap, meets_at_a_private_name_where_another_user_has_taken_its_own) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  for (const std::string action : {"listen", "bind"}) {
    const Venue venue{Kind::one_host};
    OtherUser squatter{action, venue.name()};
    ASSERT_EQ(squatter.line(), "listening");
    auto rank = start(venue, {.rank = 1, .size = 3}, enough_ms);
    auto root = start(venue, {.rank = 0, .size = 3}, enough_ms);
    auto last = start(venue, {.rank = 2, .size = 3}, enough_ms);
    for (auto* one : {&root, &rank, &last}) {
      const Gathered outcome = one->get();
      ASSERT_FALSE(outcome.error) << action << ": " << outcome.error->what();
      EXPECT_EQ(outcome.blobs.size(), 3U);
    }
  }
}

TEST(one_host_bootstrap, private_names_differ_by_secret_and_name_and_fit) {
  const std::string name = private_name("secret", "qpmesh-0-a-0");
  EXPECT_THAT(name, MatchesRegex("qpmesh-private-[0-9a-f]+"));
  EXPECT_EQ(name, private_name("secret", "qpmesh-0-a-0"));
  EXPECT_NE(name, private_name("other secret", "qpmesh-0-a-0"));
  EXPECT_NE(name, private_name("secret", "qpmesh-0-a-1"));
  EXPECT_LT(name.size(), 107U);
}

TEST(one_host_bootstrap, says_that_another_user_has_taken_its_name_where_there_is_no_secret) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  const Venue venue{Kind::one_host};
  OtherUser squatter{"listen", venue.name()};
  ASSERT_EQ(squatter.line(), "listening");
  try {
    venue.rank({.rank = 0, .size = 2, .secret = ""});
    FAIL() << "a root at another user's name";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(
            error,
            {.code = ErrorCode::bad_config,
             .peer = 0,
             .operation = "init",
             .cause = fmt::format("another user has taken the socket name {}", venue.describe()),
             .hint = "set QPMESH_SECRET_FILE on every rank, for a name that others cannot know",
             .system_error = EADDRINUSE}),
        "");
  }
}

TEST(one_host_bootstrap, refuses_a_root_of_another_user_where_there_is_no_secret) {
  if (!test::another_user_can_run()) GTEST_SKIP() << test::another_user_takes;
  const Venue venue{Kind::one_host};
  OtherUser squatter{"listen", venue.name()};
  ASSERT_EQ(squatter.line(), "listening");
  expect_error(
      start(venue, {.rank = 1, .size = 2, .secret = ""}, enough_ms).get(),
      {.code = ErrorCode::authentication,
       .peer = 0,
       .cause = fmt::format(
           "what answers at {} is not of this job: its user is uid 65534, ours is uid 0 (pid *)",
           venue.describe()),
       .hint = "somebody else took the name: give the job a QPMESH_JOB of its own"});
}

}  // namespace
}  // namespace qpmesh::bootstrap

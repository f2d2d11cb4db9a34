// SPDX-License-Identifier: MIT
// What only TCP can get wrong: secrets, addresses, impostors.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "bootstrap/endpoint.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap_world.hpp"
#include "tests/support/dropped.hpp"

namespace qpmesh::bootstrap {
namespace {

const std::string secret_hint =
    "this rank's secret comes from the test; every rank of a job needs the same one";

// An interface that does not exist: no resolver is asked
const std::string nameless = "fe80::1%none";

void expect_listen_error(const HostPort& address, test::ExpectedError expected) {
  const base::System system;
  const Endpoint endpoint = tcp_endpoint(address, "a", "the test", system);
  expected.peer = 0;
  expected.operation = "init";
  try {
    endpoint.listen();
    ADD_FAILURE() << "listening on " << to_string(address) << " should fail";
  } catch (const Error& error) {
    EXPECT_EQ(test::difference(error, expected), "");
  }
}

// What rank 1 throws that never got to the root.
test::ExpectedError unreached(const Venue& venue, const std::string& last, int system_error = 0) {
  return {
      .code = ErrorCode::timeout,
      .peer = 0,
      .cause = fmt::format("rank 1 did not reach rank 0 at {}: * attempt* in * ms, the last: {}",
                           venue.describe(), last),
      .hint = fmt::format("is rank 0 running? All ranks must {}", venue.terms()),
      .system_error = system_error};
}

test::ExpectedError impostor(const Venue& venue) {
  return {.code = ErrorCode::authentication,
          .peer = 0,
          .cause = fmt::format("what answers at {} does not know the secret of this job",
                               venue.describe()),
          .hint = secret_hint};
}

TEST(tcp_bootstrap,
     refuses_ranks_with_another_secret_in_one_line_of_log_and_waits_for_the_right_one) {
  const Venue venue{Kind::tcp};
  const auto begin = std::chrono::steady_clock::now();
  ::testing::internal::CaptureStderr();
  auto root = start(venue, {.rank = 0, .size = 2, .log = base::LogLevel::warning}, enough_ms);
  for (int i = 0; i < 5; ++i) {
    const Gathered wrong =
        start(venue, {.rank = 1, .size = 2, .secret = "a wrong secret, not ours"}, enough_ms).get();
    expect_error(wrong,
                 {.code = ErrorCode::authentication,
                  .peer = 0,
                  .cause = fmt::format("rank 0 at {} did not accept the secret", venue.describe()),
                  .hint = secret_hint},
                 1'000);
  }
  EXPECT_FALSE(start(venue, {.rank = 1, .size = 2}, enough_ms).get().error);
  EXPECT_FALSE(root.get().error);
  const std::string lines = ::testing::internal::GetCapturedStderr();
  const std::string line = fmt::format(
      "qpmesh warning: dropped 1 connection to {}, the last: did not prove that it knows the "
      "secret of this "
      "job\n",
      venue.describe());
  EXPECT_THAT(lines, ::testing::StartsWith(line));
  EXPECT_EQ(test::dropped_in(lines).connections, 5U) << lines;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin)
          .count();
  // The first one's, one a second, the end's.
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 2 + seconds) << lines;
}

TEST(tcp_bootstrap, tells_the_root_at_its_deadline_that_somebody_did_not_know_the_secret) {
  const Venue venue{Kind::tcp};
  auto root = start(venue, {.rank = 0, .size = 2}, 400);
  start(venue, {.rank = 1, .size = 2, .secret = "a wrong secret, not ours"}, enough_ms).get();
  expect_error(
      root.get(),
      {.code = ErrorCode::timeout,
       .peer = 1,
       .cause = "rank 1 of 2 missing after * ms; a connection was refused: it did not prove that "
                "it knows the secret of this job",
       .hint = venue.missing_hint(2)});
}

TEST(tcp_bootstrap, leaves_a_root_that_does_not_know_the_secret) {
  const Venue venue{Kind::tcp};
  // An impostor who lets anybody in, played by hand.
  const auto listener = venue.listen_instead();
  auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
  const base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};
  const Challenge challenge;
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::challenge, challenge));
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::welcome, Proof{}));
  const Gathered outcome = rank.get();
  expect_error(outcome, impostor(venue));
}

TEST(tcp_bootstrap, does_not_take_a_rank_s_own_proof_for_the_root_s) {
  const Venue venue{Kind::tcp};
  const auto listener = venue.listen_instead();
  auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
  const base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};
  const Challenge challenge;
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::challenge, challenge));
  const auto frame = read_frame(fd.get());
  ASSERT_TRUE(frame);
  ASSERT_EQ(frame->payload.size(), sizeof(Hello));
  Hello hello;
  std::memcpy(&hello, frame->payload.data(), sizeof hello);
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::welcome, hello.proof));
  const Gathered outcome = rank.get();
  expect_error(outcome, impostor(venue));
}

TEST(tcp_bootstrap, refuses_the_replay_of_an_old_handshake) {
  const Venue venue{Kind::tcp};
  // A valid handshake with a root that is gone, recorded byte for byte.
  const Challenge old_challenge{.nonce = Nonce{std::byte{42}}};
  const Hello recorded = hello_for(venue, {.rank = 1, .size = 2}, old_challenge);
  ASSERT_TRUE(proves(recorded.proof, venue.key(RankSettings{}.secret), Role::caller, old_challenge,
                     recorded));

  auto root = start(venue, {.rank = 0, .size = 2}, enough_ms);
  base::UniqueFd fd;
  while (!fd) fd = venue.connect();
  const auto challenge = read_challenge(fd.get());
  ASSERT_TRUE(challenge);
  EXPECT_NE(challenge->nonce, old_challenge.nonce);
  ASSERT_TRUE(send_frame(fd.get(), FrameKind::hello, recorded));
  const auto frame = read_frame(fd.get());
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, FrameKind::refused);
  EXPECT_EQ(test::difference(
                Error{decode_error(frame->payload, 0)},
                {.code = ErrorCode::authentication,
                 .peer = 0,
                 .operation = "init",
                 .cause = fmt::format("rank 0 at {} did not accept the secret", venue.describe())}),
            "");
  EXPECT_FALSE(start(venue, {.rank = 1, .size = 2}, enough_ms).get().error);
  EXPECT_FALSE(root.get().error);
}

// A service may say much, or less than a handshake has and then wait for its client. It may even
// begin as we do, with a challenge of no bytes.
TEST(tcp_bootstrap, says_at_once_that_another_service_answers) {
  for (const std::string& banner :
       {std::string{"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3 and some more bytes"},
        std::string{"220 mail"}, std::string{"mesh\0\0\0\0", 8}}) {
    const Venue venue{Kind::tcp};
    const auto listener = venue.listen_instead();
    auto rank = start(venue, {.rank = 1, .size = 2}, enough_ms);
    const base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};
    ASSERT_TRUE(send_bytes(fd.get(), banner.data(), banner.size()));
    std::uint64_t beginning = 0;
    std::memcpy(&beginning, banner.data(), sizeof beginning);
    expect_error(
        rank.get(),
        {.code = ErrorCode::authentication,
         .peer = 0,
         .cause = fmt::format("what answers at {} is no rank 0 of qpmesh: it began with {:#018x}",
                              venue.describe(), beginning),
         .hint = "another service uses this address; choose another one with QPMESH_ROOT"});
  }
}

TEST(tcp_bootstrap, times_out_on_an_unreachable_root_with_address_errno_and_attempts) {
  const Venue venue{Kind::tcp};
  expect_error(start(venue, {.rank = 1, .size = 2}, 250).get(),
               unreached(venue, venue.describe() + " (Connection refused)", ECONNREFUSED));
}

TEST(tcp_bootstrap, times_out_on_a_root_whose_name_gives_no_address) {
  const Venue venue{Kind::tcp, nameless};
  expect_error(start(venue, {.rank = 1, .size = 2}, 250).get(),
               unreached(venue, fmt::format("the name {} gives no address: *", nameless)));
}

// As where a host finds the name of another one at 127.0.1.1 in its /etc/hosts.
TEST(tcp_bootstrap, says_that_a_name_is_loopback_where_nobody_answers) {
  const Venue venue{Kind::tcp, "localhost"};
  const auto error = start(venue, {.rank = 1, .size = 2}, 250).get().error;
  ASSERT_TRUE(error);
  EXPECT_NE(error->hint().find("; ranks of several hosts do not meet at loopback, as localhost is "
                               "on host "),
            std::string::npos)
      << error->what();
}

TEST(tcp_bootstrap, times_out_on_a_root_that_accepts_and_says_nothing_or_too_little) {
  const Venue venue{Kind::tcp};
  const auto listener = venue.listen_instead();
  expect_error(start(venue, {.rank = 1, .size = 2}, 200).get(),
               unreached(venue, venue.describe() + " (connected, but rank 0 said nothing)"));
  auto rank = start(venue, {.rank = 1, .size = 2}, 1000);
  base::UniqueFd fd{::accept(listener.get(), nullptr, nullptr)};  // the one that had given up
  fd.reset(::accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(send_bytes(fd.get(), "220", 3));
  expect_error(rank.get(),
               unreached(venue, venue.describe() + " (connected, but rank 0 said only 3 bytes)"));
}

TEST(tcp_bootstrap, says_at_once_that_the_port_is_in_use) {
  const Venue venue{Kind::tcp};
  const auto listener = venue.listen_instead();
  expect_listen_error(
      {"127.0.0.1", venue.port()},
      {.code = ErrorCode::bad_config,
       .cause = fmt::format("the port of {} is in use", venue.describe()),
       .hint = "another job or service listens there; choose another port with QPMESH_ROOT",
       .system_error = EADDRINUSE});
}

TEST(tcp_bootstrap, says_at_once_that_the_address_is_not_of_this_host) {
  expect_listen_error(
      {"203.0.113.7", 4000},  // a documentation address
      {.code = ErrorCode::bad_config,
       .cause = "rank 0 cannot listen on 203.0.113.7:4000: this is no address of its host",
       .hint = "QPMESH_ROOT must be an address of the host of rank 0",
       .system_error = EADDRNOTAVAIL});
}

TEST(tcp_bootstrap, says_at_once_that_the_name_of_its_own_address_is_unknown) {
  expect_listen_error({nameless, 4000},
                      {.code = ErrorCode::bad_config,
                       .cause = fmt::format("the name {} gives no address: *", nameless),
                       .hint = "check QPMESH_ROOT"});
}

TEST(tcp_bootstrap, listens_on_the_given_address_only) {
  const base::System system;
  const Venue venue{Kind::tcp};
  const auto listener = venue.endpoint("a", system).listen();
  const auto connects = [&](const char* host) {
    const auto opened = connect_to(system, *numeric({host, venue.port()}));
    if (opened.error != 0) return opened.error;
    EXPECT_EQ(await(system, opened.socket.get(), POLLOUT, in_ms(500)), 0);
    return finish_connecting(system, opened.socket.get());
  };
  EXPECT_EQ(connects("127.0.0.1"), 0);
  EXPECT_EQ(connects("127.0.0.2"), ECONNREFUSED);
}

TEST(tcp_bootstrap, starts_over_ipv6_and_over_a_name) {
  const base::UniqueFd probe{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!probe) GTEST_SKIP() << "this host has no IPv6";
  struct Way {
    const char* bound;
    const char* called;
  };
  for (const Way way : {Way{"::1", "::1"}, Way{"127.0.0.1", "localhost"}}) {
    const Venue venue{Kind::tcp, way.bound};
    const base::System system;
    const base::Log log{base::LogLevel::off};
    const auto endpoint = [&] {
      return tcp_endpoint({way.called, venue.port()}, "a", "the test", system);
    };
    const auto root = make_star({.rank = 0, .size = 2}, endpoint(), system, log);
    auto rank = std::async(std::launch::async, [&] {
      const auto star = make_star({.rank = 1, .size = 2}, endpoint(), system, log);
      return gather(*star, blob_of(1, 10), enough_ms);
    });
    EXPECT_FALSE(gather(*root, blob_of(0, 10), enough_ms).error) << way.called;
    EXPECT_FALSE(rank.get().error) << way.called;
  }
}

TEST(tcp_bootstrap, knows_the_address_by_which_the_root_is_reached) {
  for (const std::string root_listens_at : {"127.0.0.1", "0.0.0.0"}) {
    const Venue venue{Kind::tcp, root_listens_at};
    const base::System system;
    const base::Log log{base::LogLevel::off};
    const auto root = make_star({.rank = 0, .size = 2}, venue.endpoint("a", system), system, log);
    const auto rank =
        make_star({.rank = 1, .size = 2},
                  tcp_endpoint({"127.0.0.1", venue.port()}, "a", "the test", system), system, log);
    EXPECT_EQ(rank->local_address(), "") << "it has not called yet";
    auto gathered =
        std::async(std::launch::async, [&] { return gather(*rank, blob_of(1, 10), enough_ms); });
    EXPECT_FALSE(gather(*root, blob_of(0, 10), enough_ms).error);
    EXPECT_FALSE(gathered.get().error);
    EXPECT_EQ(rank->local_address(), "127.0.0.1");
    // A wildcard means nothing to another host.
    EXPECT_EQ(root->local_address(), root_listens_at == "0.0.0.0" ? "" : "127.0.0.1");
  }
}

TEST(tcp_bootstrap, starts_again_on_the_same_port_after_the_first_start_ended) {
  const Venue venue{Kind::tcp};
  for (int ordinal = 0; ordinal < 3; ++ordinal) {
    auto root = start(venue, {.rank = 0, .size = 2, .ordinal = ordinal}, enough_ms);
    auto rank = start(venue, {.rank = 1, .size = 2, .ordinal = ordinal}, enough_ms);
    EXPECT_FALSE(root.get().error);
    EXPECT_FALSE(rank.get().error);
  }
}

TEST(host_and_port, are_read_strictly) {
  EXPECT_EQ(parse_host_port("node1:4000", "QPMESH_ROOT").host, "node1");
  EXPECT_EQ(parse_host_port("node1:4000", "QPMESH_ROOT").port, 4000);
  EXPECT_EQ(parse_host_port("[fe80::1]:1", "QPMESH_ROOT").host, "fe80::1");
  EXPECT_EQ(to_string(HostPort{"fe80::1", 1}), "[fe80::1]:1");
  const std::vector<std::pair<std::string, std::string>> bad{
      {"node1", "it has no port"},
      {":4000", "it has no host"},
      {"node1:", "the port is not a number in range"},
      {"node1:12abc", "the port is not a number in range"},
      {"node1:-1", "the port is not a number in range"},
      {"node1:65536", "the port is not a number in range"},
      {"node1:0", "the port is 0"},
      {"::1:4000", "an IPv6 address needs brackets"},
      {"[::1:4000", "the bracket is not closed"},
      {"a b:4000", "this is no host name"},
      {"", "it has no port"}};
  for (const auto& [text, why] : bad) {
    try {
      parse_host_port(text, "QPMESH_ROOT");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(
          test::difference(error, {.code = ErrorCode::bad_config,
                                   .operation = "init",
                                   .cause = fmt::format(
                                       "QPMESH_ROOT is \"{}\": {}; allowed is host:port or [IPv6 "
                                       "address]:port with a port from 1 to 65535",
                                       text, why),
                                   .hint = "for example node1:4000, an address of rank 0's host"}),
          "");
    }
  }
}

}  // namespace
}  // namespace qpmesh::bootstrap

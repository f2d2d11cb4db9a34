// SPDX-License-Identifier: MIT
// Streams that are made while a job runs: who calls, in whatever order both ends look and ask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/streams.hpp"
#include "tests/support/dropped.hpp"
#include "tests/support/heap.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::bootstrap;
using testing::HasSubstr;

// One of two ranks, in this process.
class End {
 public:
  End(int rank, std::vector<base::UniqueFd> listeners, std::vector<HostPort> peers_addresses,
      ChooseSource source = {}, std::int64_t handshake_timeout_ms = 2'000)
      : streams_{{.rank = rank,
                  .size = 2,
                  .pid = ::getpid(),
                  .host = "here",
                  .key = key,
                  .source = std::move(source),
                  .handshake_timeout_ms = handshake_timeout_ms},
                 std::move(listeners),
                 {{.rank = 1 - rank,
                   .pid = ::getpid(),
                   .host = "here",
                   .kind = StreamKind::tcp,
                   .addresses = std::move(peers_addresses)}},
                 [this](const StreamPeer&, FrameStream& stream, Descriptors&) {
                   taken.push_back(stream.release());
                 },
                 [this](int peer, ErrorDetail detail) {
                   EXPECT_EQ(detail.peer, peer);
                   failures.push_back(std::move(detail));
                 },
                 system_,
                 log_} {}

  void call(int peer) { call(peer, no_deadline); }
  void call(int peer, Deadline until) { streams_.call(peer, until); }
  void serve() { under_way = streams_.serve(); }
  // As a rank that sleeps: until there is something to do.
  void sleep_and_serve() {
    const Deadline wake = std::min(streams_.arm(), base::after_ms(system_, 1'000));
    pollfd entry{.fd = streams_.wake_descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, base::remaining_ms(system_, wake));
    serve();
  }

  std::vector<base::UniqueFd> taken;
  std::vector<ErrorDetail> failures;
  bool under_way = false;

 private:
  static Key key(int rank) {
    Key key{};
    key.front() = static_cast<std::byte>(rank + 1);
    return key;
  }

  base::System system_;
  base::Log log_{base::LogLevel::warning};
  StreamsOnDemand streams_;
};

struct Listening {
  std::vector<base::UniqueFd> sockets;
  HostPort at;
};

Listening listen_here() {
  const base::System system;
  Opened opened = listen_at(system, *numeric({"127.0.0.1", 0}));
  EXPECT_TRUE(opened.socket);
  Listening listening{.sockets = {}, .at = host_port(local_address(opened.socket.get()))};
  listening.sockets.push_back(std::move(opened.socket));
  return listening;
}

base::UniqueFd connect_to(const HostPort& there) {
  const auto address = numeric(there);
  base::UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  EXPECT_EQ(::connect(socket.get(), address->generic(), address->bytes), 0);
  return socket;
}

struct Pair {
  explicit Pair(ChooseSource source = {}) {
    Listening listening = listen_here();
    lower = std::make_unique<End>(0, std::move(listening.sockets), std::vector<HostPort>{});
    higher = std::make_unique<End>(1, std::vector<base::UniqueFd>{}, std::vector{listening.at},
                                   std::move(source));
  }
  bool is_joined() const { return !lower->taken.empty() && !higher->taken.empty(); }

  std::unique_ptr<End> lower;
  std::unique_ptr<End> higher;
};

void expect_one_stream(const Pair& pair) {
  ASSERT_EQ(pair.lower->taken.size(), 1U);
  ASSERT_EQ(pair.higher->taken.size(), 1U);
  EXPECT_TRUE(pair.lower->failures.empty());
  EXPECT_TRUE(pair.higher->failures.empty());
  EXPECT_FALSE(pair.higher->under_way);
  const char word = 'x';
  ASSERT_EQ(::send(pair.higher->taken.front().get(), &word, 1, 0), 1);
  char heard = 0;
  ASSERT_EQ(::recv(pair.lower->taken.front().get(), &heard, 1, 0), 1);
  EXPECT_EQ(heard, word);
}

// The lower rank's wish reaches the higher one as a call: before its own, after it, at any time.
TEST(streams_on_demand, are_one_for_a_pair_in_whatever_order_both_ends_look_and_want_it) {
  constexpr unsigned steps = 7;
  for (unsigned turns = 0; turns < 1U << steps; ++turns) {
    for (unsigned wish = 0; wish <= steps; ++wish) {
      Pair pair;
      pair.higher->call(0);
      for (unsigned step = 0; step < steps; ++step) {
        if (step == wish) pair.higher->call(0);
        ((turns >> step & 1) != 0 ? pair.higher : pair.lower)->serve();
      }
      for (int step = 0; step < 10'000 && !pair.is_joined(); ++step) {
        pair.lower->serve();
        pair.higher->serve();
      }
      pair.higher->call(0);  // of one that is there
      pair.higher->serve();
      expect_one_stream(pair);
      ASSERT_FALSE(HasFailure()) << "turns " << turns << ", wish at " << wish;
    }
  }
}

// Both sleep until they are woken.
void join(Pair& pair) {
  pair.higher->call(0);
  for (int step = 0; step < 100 && !pair.is_joined(); ++step) {
    pair.higher->sleep_and_serve();
    if (pair.lower->taken.empty()) pair.lower->sleep_and_serve();
  }
  expect_one_stream(pair);
}

TEST(streams_on_demand, wake_who_sleeps_on_their_descriptor) {
  Pair pair;
  join(pair);
}

Address from(const char* host) { return numeric({host, 0}).value_or(Address{}); }

TEST(streams_on_demand, come_from_the_address_that_is_asked_for) {
  Pair pair{[](const Address&) { return from("127.0.0.7"); }};
  pair.higher->call(0);
  for (int step = 0; step < 100 && !pair.is_joined(); ++step) {
    pair.higher->sleep_and_serve();
    if (pair.lower->taken.empty()) pair.lower->sleep_and_serve();
  }
  expect_one_stream(pair);
  EXPECT_EQ(host_of(pair.higher->taken.front().get()), "127.0.0.7");
  EXPECT_EQ(host_port(remote_address(pair.lower->taken.front().get())).host, "127.0.0.7");
}

TEST(streams_on_demand, that_have_no_address_to_come_from_say_so_for_each_target) {
  const Listening listening = listen_here();
  // An address of nobody (RFC 5737), and none.
  for (const auto& [source, problem] :
       {std::pair{from("192.0.2.1"), " from 192.0.2.1 (Cannot assign requested address)"},
        {Address{}, " (no address of its kind to call from)"}}) {
    End higher{
        1, {}, std::vector{listening.at}, [source = source](const Address&) { return source; }};
    higher.call(0);
    for (int step = 0; step < 100 && higher.failures.empty(); ++step) higher.sleep_and_serve();
    ASSERT_EQ(higher.failures.size(), 1U);
    EXPECT_EQ(higher.failures.front().code, ErrorCode::link_failed);
    EXPECT_EQ(higher.failures.front().system_error, EADDRNOTAVAIL);
    EXPECT_THAT(higher.failures.front().cause, HasSubstr(to_string(listening.at) + problem));
  }
}

TEST(streams_on_demand, that_are_refused_name_the_peer_the_address_and_why) {
  HostPort nobody;
  { nobody = listen_here().at; }
  End higher{1, {}, {nobody}};
  higher.call(0);
  for (int step = 0; step < 100 && higher.failures.empty(); ++step) higher.sleep_and_serve();
  ASSERT_EQ(higher.failures.size(), 1U);
  EXPECT_EQ(higher.failures.front().code, ErrorCode::link_failed);
  EXPECT_THAT(higher.failures.front().cause, HasSubstr(to_string(nobody)));
  EXPECT_THAT(higher.failures.front().cause, HasSubstr("Connection refused"));
  EXPECT_THAT(higher.failures.front().cause, HasSubstr("rank 0"));
}

TEST(streams_on_demand, that_meet_silence_until_their_deadline_name_the_address) {
  const Listening silent = listen_here();  // the system takes the call, and nobody answers
  const base::System system;
  End higher{1, {}, {silent.at}};
  higher.call(0, base::after_ms(system, 20));
  for (int step = 0; step < 1'000 && higher.failures.empty(); ++step) higher.sleep_and_serve();
  ASSERT_EQ(higher.failures.size(), 1U);
  EXPECT_EQ(higher.failures.front().code, ErrorCode::timeout);
  EXPECT_THAT(higher.failures.front().cause, HasSubstr(to_string(silent.at)));
  EXPECT_FALSE(higher.under_way);
}

// Some say nothing, some talk of something else, some go at once; until all are dropped.
void let_strangers_come(End& lower, const HostPort& at, int count) {
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < count; ++i) {
    base::UniqueFd stranger = connect_to(at);
    if (i % 3 == 1) ::send(stranger.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    if (i % 3 != 2) strangers.push_back(std::move(stranger));
  }
  lower.under_way = false;
  for (int step = 0; step < 1'000 && !lower.under_way; ++step) lower.serve();
  EXPECT_TRUE(lower.under_way);
  for (int step = 0; step < 10'000'000 && lower.under_way; ++step) lower.serve();
  EXPECT_FALSE(lower.under_way);
  lower.serve();  // gives back what those of the last turn had
}

TEST(streams_on_demand, count_every_stranger_and_keep_nothing_of_those_that_are_gone) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  };
  ::testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  {
    Listening listening = listen_here();
    End lower{0, std::move(listening.sockets), {}, {}, 20};
    let_strangers_come(lower, listening.at, 90);
    const auto open_descriptors = descriptors();
    const std::int64_t blocks = test::heap_blocks();
    let_strangers_come(lower, listening.at, 90);
    EXPECT_EQ(test::heap_blocks(), blocks);
    EXPECT_EQ(descriptors(), open_descriptors);
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  const std::string said = ::testing::internal::GetCapturedStderr();
  const test::Dropped dropped = test::dropped_in(said);
  EXPECT_EQ(dropped.connections, 180U) << said;
  // The first one's, one a second, the end's.
  EXPECT_LE(dropped.lines, 2 + static_cast<std::uint64_t>(took / std::chrono::seconds{1})) << said;
}

TEST(streams_on_demand, tell_nothing_of_strangers_where_there_were_none) {
  ::testing::internal::CaptureStderr();
  {
    Pair pair;
    join(pair);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(streams_on_demand, are_not_for_strangers) {
  Listening listening = listen_here();
  End lower{0, std::move(listening.sockets), {}};
  const base::UniqueFd socket = connect_to(listening.at);
  const std::string noise(100, 'n');
  ASSERT_EQ(::send(socket.get(), noise.data(), noise.size(), 0), 100);
  for (int step = 0; step < 20; ++step) lower.serve();
  EXPECT_TRUE(lower.taken.empty());
  EXPECT_TRUE(lower.failures.empty());
}

// Who looks rarely must look again soon: the answer to its challenge is on its way.
TEST(streams_on_demand, are_under_way_as_soon_as_somebody_has_connected) {
  Listening listening = listen_here();
  End lower{0, std::move(listening.sockets), {}};
  lower.serve();
  EXPECT_FALSE(lower.under_way);
  base::UniqueFd caller = connect_to(listening.at);
  for (int step = 0; step < 1'000 && !lower.under_way; ++step) lower.serve();
  EXPECT_TRUE(lower.under_way);
  caller.reset();
  for (int step = 0; step < 1'000'000 && lower.under_way; ++step) lower.serve();
  EXPECT_FALSE(lower.under_way);
}

TEST(streams_on_demand, are_not_for_a_rank_that_is_none_of_the_peers) {
  Pair pair;
  pair.higher->call(7);
  pair.higher->serve();
  EXPECT_FALSE(pair.higher->under_way);
  EXPECT_TRUE(pair.higher->failures.empty());
}

// Until this goes, the process has no descriptor left.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const base::UniqueFd lowest{::dup(STDERR_FILENO)};
    const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest.get()), .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_{};
};

TEST(streams_on_demand, are_made_again_when_descriptors_have_come_free) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "UndefinedBehaviorSanitizer needs descriptors of its own, and takes every object for a "
         "broken one without";
#endif
  Pair pair;
  pair.higher->call(0);
  pair.higher->serve();
  {
    const NoDescriptorLeft none;
    EXPECT_THROW(for (int step = 0; step < 1'000; ++step) pair.lower->serve(), Error);
  }
  for (int step = 0; step < 1'000 && !pair.is_joined(); ++step) {
    pair.lower->sleep_and_serve();
    pair.higher->serve();
  }
  expect_one_stream(pair);
}

}  // namespace

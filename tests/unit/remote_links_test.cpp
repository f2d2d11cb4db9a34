// SPDX-License-Identifier: MIT
// Ranks that are not in the same place, as threads of one process: how they find each other over
// TCP, and who may come between them. Their introductions differ in the pid namespace, so that they
// link over loopback.
#include "bootstrap/links.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "bootstrap/handshake.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap/streams.hpp"
#include "tests/support/met_rank.hpp"
#include "tests/support/open_descriptors.hpp"
#include "tests/support/tampered_bootstrap.hpp"
#include "tests/support/thread_bootstrap.hpp"

namespace {

using namespace qpmesh;
using base::ControlEvent;
using bootstrap::HostPort;
using bootstrap::Introduction;
using std::chrono::milliseconds;
using test::MetRank;
using test::run_ranks;
using test::ThreadBootstrap;
using test::ThreadGathering;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;
using TamperedThreads = test::Tampered<ThreadBootstrap>;
using Addresses = TamperedThreads::Addresses;

const HostPort closed_port{"127.0.0.1", 1};

// What has come from the peers so far.
struct Heard {
  std::map<int, std::vector<Blob>> frames;
  std::map<int, int> goodbyes;
  std::vector<std::string> deaths;

  // Listens until enough is here, sleeping on the wake descriptor only.
  template <class Enough>
  void listen(base::ControlChannel& control, Enough enough) {
    pollfd wake{.fd = control.wake_descriptor(), .events = POLLIN, .revents = 0};
    while (!enough() && deaths.empty() && ::poll(&wake, 1, 10'000) == 1) {
      for (ControlEvent& event : control.poll()) {
        if (event.kind == ControlEvent::Kind::frame)
          frames[event.peer].push_back(std::move(event.bytes));
        if (event.kind == ControlEvent::Kind::goodbye) ++goodbyes[event.peer];
        if (event.kind == ControlEvent::Kind::death) deaths.push_back(std::move(event.detail));
      }
    }
    EXPECT_TRUE(enough());
    EXPECT_THAT(deaths, testing::IsEmpty());
  }
};

// All ranks have come this far, or one of them has failed and the test with it.
void wait_for_all(Bootstrap& ranks) {
  ranks.all_gather({}, base::after_ms(base::System{}, 15'000));
}

void expect_same_errors(const std::vector<std::optional<Error>>& errors, ErrorCode code, int peer) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_STREQ(error->what(), errors.front()->what());
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_EQ(error->peer(), peer) << error->what();
    EXPECT_EQ(error->operation(), "init");
  }
}

// Which place each rank is in.
struct Layout {
  std::string name;
  std::vector<int> places;
};
class RanksIn : public testing::TestWithParam<Layout> {};
std::string layout_name(const testing::TestParamInfo<Layout>& tested) { return tested.param.name; }
INSTANTIATE_TEST_SUITE_P(places, RanksIn,
                         testing::Values(Layout{"two", {0, 1}},
                                         Layout{"three_of_one_each", {0, 1, 2}},
                                         Layout{"two_of_two_by_turns", {0, 1, 0, 1}},
                                         Layout{"two_of_two", {0, 0, 1, 1}},
                                         Layout{"eight_of_one_each", {0, 1, 2, 3, 4, 5, 6, 7}},
                                         Layout{"one_with_one_outside", {0, 0, 0, 1}}),
                         layout_name);

TEST_P(RanksIn, different_places_reach_each_other_and_share_memory_only_inside) {
  const std::vector<int>& places = GetParam().places;
  const int size = static_cast<int>(places.size());
  const std::size_t descriptors_before = test::open_descriptors();
  ThreadGathering gathering{size};
  const auto errors = run_ranks(size, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    const int place = places[static_cast<std::size_t>(rank)];
    ranks.be_elsewhere(place);
    MetRank me;
    me.meet(ranks);
    EXPECT_EQ(ranks.gathers, 3);
    EXPECT_EQ(me.meeting->ranks.back().node, *std::max_element(places.begin(), places.end()));
    for (const auto& peer : me.meeting->local_peers)
      EXPECT_EQ(places[static_cast<std::size_t>(peer.rank)], place);
    EXPECT_EQ(me.meeting->local_peers.size(),
              static_cast<std::size_t>(std::count(places.begin(), places.end(), place) - 1));

    base::ControlChannel& control = *me.meeting->control;
    const auto frame = [](int sender, std::size_t i) {
      return Blob(1 + i * 8000, static_cast<std::byte>(sender));
    };
    constexpr std::size_t frames = 3;
    for (int peer = 0; peer < size; ++peer) {
      for (std::size_t i = 0; i < frames && peer != rank; ++i) control.send(peer, frame(rank, i));
    }
    Heard heard;
    const auto others = static_cast<std::size_t>(size - 1);
    heard.listen(control, [&] {
      return heard.frames.size() == others &&
             std::all_of(heard.frames.begin(), heard.frames.end(),
                         [](const auto& each) { return each.second.size() == frames; });
    });
    for (const auto& [peer, all] : heard.frames) {
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], frame(peer, i));
    }
    control.say_goodbye(base::after_ms(me.healthy, 5000));
    heard.listen(control, [&] { return heard.goodbyes.size() == others; });
    wait_for_all(ranks);  // nobody leaves before all have heard all
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(test::open_descriptors(), descriptors_before);
}

TEST(remote_links, are_not_made_and_no_third_gather_held_where_all_ranks_are_in_one_place) {
  ThreadGathering gathering{3};
  run_ranks(3, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    MetRank me;
    me.meet(ranks);
    EXPECT_EQ(ranks.gathers, 2);
  });
}

TEST(remote_links, end_alike_on_all_ranks_and_leave_nothing_open_when_any_call_of_one_rank_fails) {
  const std::size_t descriptors_before = test::open_descriptors();
  for (const int victim : {0, 1}) {
    bool fired = true;
    int failed_meetings = 0;
    for (std::uint64_t index = 0; fired; ++index) {
      ASSERT_LT(index, 300U);
      base::FailPoints fail_points;
      fail_points.fail_call(index, ENOMEM);
      ThreadGathering gathering{2};
      std::array<int, 2> gathers{};
      const auto errors = run_ranks(2, [&](int rank) {
        TamperedThreads ranks{gathering, rank};
        ranks.be_elsewhere(rank);
        MetRank me{rank == victim ? &fail_points : nullptr};
        me.options.handshake_timeout_ms = 100;
        struct Count {
          TamperedThreads& ranks;
          int& gathers;
          ~Count() { gathers = ranks.gathers; }
        } count{ranks, gathers[static_cast<std::size_t>(rank)]};
        me.meet(ranks, {}, 2000);
      });
      fired = fail_points.fired();
      const std::string site{fail_points.fired_site()};
      EXPECT_EQ(gathers[0], gathers[1]) << site;
      // Not every call matters: a connection that breaks is made again.
      ASSERT_EQ(errors[0].has_value(), errors[1].has_value()) << site;
      if (!errors[0]) continue;
      ++failed_meetings;
      EXPECT_STREQ(errors[0]->what(), errors[1]->what());
      EXPECT_EQ(errors[0]->code(), ErrorCode::no_resource) << site << ": " << errors[0]->what();
      EXPECT_EQ(errors[0]->peer(), victim) << site << ": " << errors[0]->what();
    }
    EXPECT_GT(failed_meetings, 10);
  }
  EXPECT_EQ(test::open_descriptors(), descriptors_before);
}

// ---- addresses ----

TEST(remote_links, try_the_addresses_of_a_rank_in_turn) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(rank);
    ranks.say_addresses = [](Addresses& mine) {
      mine.insert(mine.begin(), {closed_port, {"127.0.0.1", 2}, {"::1", 1}});
    };
    MetRank me;
    me.meet(ranks);
    wait_for_all(ranks);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(remote_links, go_on_to_the_next_address_when_one_connects_and_keeps_silent) {
  const base::System system;
  const auto silent = bootstrap::listen_at(system, *bootstrap::numeric({"127.0.0.1", 0}));
  const HostPort address = bootstrap::host_port(bootstrap::local_address(silent.socket.get()));
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(rank);
    ranks.say_addresses = [&](Addresses& mine) { mine.insert(mine.begin(), address); };
    MetRank me;
    me.options.handshake_timeout_ms = 100;
    me.meet(ranks);
    wait_for_all(ranks);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(remote_links, name_both_ranks_and_hosts_and_every_address_when_none_can_be_reached) {
  ThreadGathering gathering{2};
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.say = [rank](Introduction& mine) {
      mine.place.pid_namespace += static_cast<std::uint64_t>(rank);
      mine.host = rank == 0 ? "east" : "west";
    };
    ranks.say_addresses = [](Addresses& mine) { mine = {closed_port, {"127.0.0.1", 2}}; };
    MetRank me;
    me.meet(ranks, {}, 2000);
  });
  expect_same_errors(errors, ErrorCode::link_failed, 0);
  EXPECT_EQ(errors[0]->system_error(), ECONNREFUSED);
  EXPECT_EQ(
      errors[0]->cause(),
      fmt::format(
          "rank 1 (pid {0} on host west) cannot reach rank 0 (pid {0} on host east); tried "
          "127.0.0.1:1 (Connection refused), 127.0.0.1:2 (Connection refused) (reported by rank 1)",
          ::getpid()));
  EXPECT_THAT(errors[0]->hint(), HasSubstr("firewall"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{4});
}

TEST(remote_links, do_not_call_at_the_loopback_address_of_a_rank_with_another_network) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.say = [rank](Introduction& mine) {
      mine.place.net_namespace += static_cast<std::uint64_t>(rank);
    };
    ranks.say_addresses = [](Addresses& mine) { mine = {closed_port}; };
    MetRank me;
    me.meet(ranks, {}, 1000);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::link_failed);
    EXPECT_THAT(error->cause(), HasSubstr("rank 0 (pid "));
    EXPECT_THAT(error->cause(), HasSubstr(") told no address at which rank 1 (pid "));
  }
}

TEST(remote_links, name_a_rank_that_was_stopped_for_too_long) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(rank);
    if (rank == 1)
      ranks.heard_addresses = [](std::span<const Addresses>) { ::poll(nullptr, 0, 1700); };
    MetRank me;
    me.meet(ranks, {}, 2000);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_STREQ(error->what(), errors.front()->what());
    EXPECT_THAT(error->cause(), StartsWith(fmt::format("rank 1 (pid {} on host ", ::getpid())));
    EXPECT_THAT(error->hint(), HasSubstr("too late"));
  }
}

TEST(remote_links, refuse_an_address_that_is_a_name) {
  const Addresses named{{"localhost", 4000}};
  try {
    bootstrap::read_addresses(bootstrap::encode_addresses(named), 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.peer(), 0);
  }
}

using Hosts = std::vector<std::string>;
const Hosts interfaces{"10.0.0.1", "127.0.0.1", "172.17.0.1", "::1", "fd00::1"};

TEST(addresses, are_first_the_bootstraps_where_all_can_use_it) {
  using bootstrap::addresses_for;
  EXPECT_EQ(addresses_for({.beyond = true}, "172.17.0.1", interfaces),
            (Hosts{"172.17.0.1", "10.0.0.1", "fd00::1"}));
  EXPECT_EQ(addresses_for({.same_network = true, .beyond = true}, "fd00::1", interfaces),
            (Hosts{"fd00::1", "10.0.0.1", "172.17.0.1"}));
  EXPECT_EQ(addresses_for({.same_network = true}, "10.0.0.1", interfaces), Hosts{"10.0.0.1"});
  EXPECT_EQ(addresses_for({.beyond = true}, "10.0.0.1", interfaces, false), Hosts{"10.0.0.1"})
      << "the user has said which network to use";
  EXPECT_EQ(addresses_for({.same_network = true}, "127.0.0.1", interfaces), Hosts{"127.0.0.1"});
}

TEST(addresses, are_those_of_interfaces_where_the_bootstrap_knows_none_or_one_of_no_use) {
  const Hosts beyond{"10.0.0.1", "172.17.0.1", "fd00::1"};
  for (const char* useless : {"", "127.0.0.1", "::1", "fe80::1", "no address"})
    EXPECT_EQ(bootstrap::addresses_for({.beyond = true}, useless, interfaces), beyond) << useless;
}

TEST(addresses, are_loopback_for_ranks_of_the_same_network_and_all_others_only_for_ranks_beyond) {
  using bootstrap::addresses_for;
  EXPECT_EQ(addresses_for({.same_network = true}, "", interfaces), (Hosts{"127.0.0.1", "::1"}));
  EXPECT_EQ(addresses_for({.same_network = true, .beyond = true}, "", interfaces),
            (Hosts{"127.0.0.1", "::1", "10.0.0.1", "172.17.0.1", "fd00::1"}));
  const Hosts no_loopback{"10.0.0.1"};
  EXPECT_EQ(addresses_for({.same_network = true}, "", no_loopback), no_loopback);
}

TEST(addresses, of_this_hosts_interfaces_are_numbers_without_link_local_ones) {
  const base::System system;
  const auto found = bootstrap::interface_addresses(system);
  EXPECT_THAT(found, testing::Contains("127.0.0.1"));
  for (const std::string& host : found) {
    const auto address = bootstrap::numeric({host, 1});
    ASSERT_TRUE(address) << host;
    EXPECT_FALSE(bootstrap::scope_of(*address) == bootstrap::Scope::link_local) << host;
  }
}

// ---- unauthenticated peers ----

// What a peer does at a rank's address, with calls that give up after five seconds.
class UnauthenticatedPeer {
 public:
  explicit UnauthenticatedPeer(const HostPort& address) {
    const auto there = bootstrap::numeric(address);
    socket_.reset(::socket(there->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(socket_.get(), there->generic(), there->bytes), 0);
  }

  bootstrap::Challenge challenge() {
    struct {
      bootstrap::FrameHeader header;
      bootstrap::Challenge challenge;
    } said;
    EXPECT_EQ(::recv(socket_.get(), &said, sizeof said, MSG_WAITALL), ssize_t{sizeof said});
    return said.challenge;
  }
  void say_hello(const bootstrap::Hello& hello) {
    send(bootstrap::FrameHeader{bootstrap::FrameKind::hello, sizeof hello});
    send(hello);
  }
  template <class T>
  void send(const T& value) {
    EXPECT_EQ(::send(socket_.get(), &value, sizeof value, MSG_NOSIGNAL), ssize_t{sizeof value});
  }
  // What comes until the end; nothing where no end comes.
  std::optional<std::string> rest() {
    std::string all;
    std::array<char, 1000> bytes{};
    for (;;) {
      const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (count == 0 || (count < 0 && errno == ECONNRESET)) return all;
      if (count < 0) return std::nullopt;
      all.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  base::UniqueFd socket_;
};

bootstrap::Hello hello_of(const bootstrap::Key& key, const bootstrap::Challenge& challenge,
                          int rank, int size) {
  auto hello = bootstrap::make_hello(base::System{}, rank, size, 0, {});
  hello.proof = prove(key, bootstrap::Role::caller, challenge, hello);
  return hello;
}

// Rank 0 waits for rank 1, which plays the unauthenticated peers first: each must be hung up on,
// and the meeting succeed.
using Play = std::function<void(const HostPort& address, std::span<const Introduction> everybody)>;
void expect_meeting_in_spite_of(const Play& play) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(rank);
    MetRank me;
    me.log = base::Log{base::LogLevel::off};
    me.options.handshake_timeout_ms = 300;
    std::vector<Introduction> everybody;
    if (rank == 1) {
      ranks.heard = [&](std::span<const Introduction> all) {
        everybody.assign(all.begin(), all.end());
      };
      ranks.heard_addresses = [&](std::span<const Addresses> addresses) {
        ASSERT_FALSE(addresses[0].empty());
        play(addresses[0][0], everybody);
      };
    }
    me.meet(ranks);
    me.meeting->control->send(1 - rank, Blob(rank == 0 ? 10U : 20U));
    Heard heard;
    heard.listen(*me.meeting->control, [&] { return !heard.frames.empty(); });
    EXPECT_EQ(heard.frames[1 - rank], std::vector<Blob>(1, Blob(rank == 0 ? 20U : 10U)));
    wait_for_all(ranks);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(remote_links, drop_silent_unauthenticated_peers_and_garbage) {
  expect_meeting_in_spite_of([](const HostPort& address, auto) {
    UnauthenticatedPeer silent{address};
    UnauthenticatedPeer brief{address};
    UnauthenticatedPeer garbage{address};
    brief.send('h');
    garbage.send(std::array<char, 1000>{'G', 'E', 'T'});
    EXPECT_TRUE(garbage.rest());
    EXPECT_TRUE(brief.rest());
    EXPECT_TRUE(silent.rest());
  });
}

TEST(remote_links, are_made_among_hundreds_of_unauthenticated_peers_that_hold_connections) {
  std::vector<UnauthenticatedPeer> held;  // until the meeting is over
  expect_meeting_in_spite_of([&](const HostPort& address, auto) {
    for (int i = 0; i < 400; ++i) held.emplace_back(address);
  });
}

TEST(remote_links, refuse_whoever_does_not_know_the_key_of_this_meeting) {
  expect_meeting_in_spite_of([](const HostPort& address, std::span<const Introduction> everybody) {
    // No key at all, that of the same ranks in another meeting, that of another listener of this
    // one.
    std::vector<Introduction> other_meeting(everybody.begin(), everybody.end());
    other_meeting[1].contribution[0] ^= std::byte{1};
    for (const bootstrap::Key& key :
         {bootstrap::Key{}, bootstrap::key_of_listener(other_meeting, 0),
          bootstrap::key_of_listener(everybody, 1)}) {
      UnauthenticatedPeer peer{address};
      peer.say_hello(hello_of(key, peer.challenge(), 1, 2));
      const auto answer = peer.rest();
      ASSERT_TRUE(answer);
      EXPECT_THAT(*answer, HasSubstr("did not accept the secret"));
    }
  });
}

TEST(remote_links, refuse_the_replay_of_a_handshake) {
  expect_meeting_in_spite_of([](const HostPort& address, std::span<const Introduction> everybody) {
    UnauthenticatedPeer first{address};
    const auto recorded =
        hello_of(bootstrap::key_of_listener(everybody, 0), first.challenge(), 1, 2);
    UnauthenticatedPeer second{address};
    second.challenge();
    second.say_hello(recorded);
    const auto answer = second.rest();
    ASSERT_TRUE(answer);
    EXPECT_THAT(*answer, HasSubstr("did not accept the secret"));
  });
}

TEST(remote_links, refuse_a_member_that_is_not_to_call_here) {
  expect_meeting_in_spite_of([](const HostPort& address, std::span<const Introduction> everybody) {
    const auto key = bootstrap::key_of_listener(everybody, 0);
    struct Wrong {
      int rank;
      int size;
    };
    for (const auto [rank, size] : {Wrong{0, 2}, Wrong{2, 2}, Wrong{-1, 2}, Wrong{1, 3}}) {
      UnauthenticatedPeer peer{address};
      peer.say_hello(hello_of(key, peer.challenge(), rank, size));
      const auto answer = peer.rest();
      ASSERT_TRUE(answer);
      EXPECT_THAT(*answer, HasSubstr("does not call rank 0 of 2 in this meeting"));
    }
  });
}

TEST(remote_links, do_not_count_a_rank_whose_connection_breaks_before_it_acknowledges_its_welcome) {
  expect_meeting_in_spite_of([](const HostPort& address, std::span<const Introduction> everybody) {
    const auto key = bootstrap::key_of_listener(everybody, 0);
    UnauthenticatedPeer deaf{address};
    deaf.say_hello(hello_of(key, deaf.challenge(), 1, 2));
    UnauthenticatedPeer confused{address};
    confused.say_hello(hello_of(key, confused.challenge(), 1, 2));
    confused.send(bootstrap::FrameHeader{bootstrap::FrameKind::blob, 0});
    EXPECT_TRUE(confused.rest());
  });
}

TEST(remote_links, are_made_beside_a_rank_that_never_acknowledges_its_welcome) {
  std::vector<UnauthenticatedPeer> silent;  // until the meeting is over
  expect_meeting_in_spite_of([&](const HostPort& address, std::span<const Introduction> everybody) {
    const auto key = bootstrap::key_of_listener(everybody, 0);
    silent.emplace_back(address);
    silent.back().say_hello(hello_of(key, silent.back().challenge(), 1, 2));
  });
}

// On a busy host. It counts the link from then on, and would not call again.
TEST(remote_links, count_a_rank_that_acknowledges_its_welcome_after_the_handshake_time) {
  const base::System system;
  auto listening = bootstrap::listen_at(system, *bootstrap::numeric({"127.0.0.1", 0}));
  const HostPort address = bootstrap::host_port(bootstrap::local_address(listening.socket.get()));
  constexpr std::int64_t handshake_timeout_ms = 100;
  const bootstrap::StreamSettings settings{.rank = 0,
                                           .size = 2,
                                           .pid = ::getpid(),
                                           .host = "here",
                                           .key = [](int) { return bootstrap::Key{}; },
                                           .handshake_timeout_ms = handshake_timeout_ms,
                                           .deadline = base::after_ms(system, 20'000)};
  const bootstrap::StreamPeer caller{.rank = 1, .pid = ::getpid(), .host = "here"};
  std::thread busy{[&] {
    UnauthenticatedPeer late{address};
    late.say_hello(hello_of(bootstrap::Key{}, late.challenge(), 1, 2));
    std::this_thread::sleep_for(std::chrono::milliseconds{3 * handshake_timeout_ms});
    late.send(bootstrap::FrameHeader{bootstrap::FrameKind::acknowledgement, 0});
    EXPECT_TRUE(late.rest());
  }};
  bootstrap::Report report;
  int taken = no_peer;
  std::vector<base::UniqueFd> listeners;
  listeners.push_back(std::move(listening.socket));
  bootstrap::connect_streams(
      settings, std::move(listeners), std::span{&caller, 1},
      [&](const bootstrap::StreamPeer& peer, bootstrap::FrameStream&, bootstrap::Descriptors&) {
        taken = peer.rank;
      },
      report, system, base::Log{base::LogLevel::off});
  busy.join();
  EXPECT_EQ(taken, 1);
  EXPECT_FALSE(report.failure);
}

// Answers one caller as a listener does, with this proof and nothing behind it.
using MakeProof =
    std::function<bootstrap::Proof(const bootstrap::Challenge&, const bootstrap::Hello&)>;
base::UniqueFd welcome_one_caller(int listener, int flags, const MakeProof& proof) {
  pollfd caller{.fd = listener, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&caller, 1, 10'000), 1);
  base::UniqueFd socket{::accept(listener, nullptr, nullptr)};
  struct {
    bootstrap::FrameHeader header{bootstrap::FrameKind::challenge, sizeof(bootstrap::Challenge)};
    bootstrap::Challenge challenge;
  } challenge;
  EXPECT_EQ(::send(socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL),
            ssize_t{sizeof challenge});
  struct {
    bootstrap::FrameHeader header;
    bootstrap::Hello hello;
  } said;
  EXPECT_EQ(::recv(socket.get(), &said, sizeof said, MSG_WAITALL), ssize_t{sizeof said});
  struct {
    bootstrap::FrameHeader header{bootstrap::FrameKind::welcome, sizeof(bootstrap::Proof)};
    bootstrap::Proof proof;
  } welcome;
  welcome.proof = proof(challenge.challenge, said.hello);
  EXPECT_EQ(::send(socket.get(), &welcome, sizeof welcome, MSG_NOSIGNAL | flags),
            ssize_t{sizeof welcome});
  return socket;
}

TEST(remote_links, are_not_made_with_an_impostor_who_lets_anybody_in) {
  const base::System system;
  const auto listening = bootstrap::listen_at(system, *bootstrap::numeric({"127.0.0.1", 0}));
  const HostPort address = bootstrap::host_port(bootstrap::local_address(listening.socket.get()));
  ThreadGathering gathering{2};
  std::thread impostor{[&] {
    const base::UniqueFd socket = welcome_one_caller(
        listening.socket.get(), 0,
        [](const auto&, const bootstrap::Hello& hello) { return hello.proof; });  // sent back
    std::byte more{};
    EXPECT_LE(::recv(socket.get(), &more, 1, 0), 0);
  }};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(rank);
    ranks.say_addresses = [&](Addresses& mine) { mine.insert(mine.begin(), address); };
    MetRank me;
    me.meet(ranks);
    wait_for_all(ranks);
  });
  impostor.join();
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

// A caller that was stopped too long finds the welcome and, behind it, the end of the connection.
TEST(remote_links, are_not_made_with_a_listener_that_hung_up_behind_its_welcome) {
  const base::System system;
  const auto listening = bootstrap::listen_at(system, *bootstrap::numeric({"127.0.0.1", 0}));
  const HostPort address = bootstrap::host_port(bootstrap::local_address(listening.socket.get()));
  ThreadGathering gathering{2};
  std::promise<bootstrap::Key> key;
  std::thread impatient{[&] {
    welcome_one_caller(
        listening.socket.get(), MSG_MORE, [&](const auto& challenge, const auto& hello) {
          return prove(key.get_future().get(), bootstrap::Role::listener, challenge, hello);
        });
  }};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(rank);
    ranks.say_addresses = [&](Addresses& mine) { mine.insert(mine.begin(), address); };
    if (rank == 0) {
      ranks.heard = [&](std::span<const Introduction> everybody) {
        key.set_value(bootstrap::key_of_listener(everybody, 0));
      };
    }
    MetRank me;
    me.meet(ranks, {}, 4'000);
    wait_for_all(ranks);
  });
  impatient.join();
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

}  // namespace

// SPDX-License-Identifier: MIT
// Ranks as threads of one process that meet over an in-memory Bootstrap.
#include "bootstrap/meeting.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "bootstrap/agreement.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/links.hpp"
#include "bootstrap/meeting.hpp"
#include "bootstrap/socket.hpp"
#include "tests/support/another_user.hpp"
#include "tests/support/expected_error.hpp"
#include "tests/support/met_rank.hpp"
#include "tests/support/open_descriptors.hpp"
#include "tests/support/tampered_bootstrap.hpp"
#include "tests/support/thread_bootstrap.hpp"

namespace {

using namespace qpmesh;
using bootstrap::Introduction;
using test::MetRank;
using test::run_ranks;
using test::ThreadBootstrap;
using test::ThreadGathering;

using TamperedThreads = test::Tampered<ThreadBootstrap>;

// Connects to the socket whose name comes over the line; 0 when it is hung up on within 5 s.
int play_silent_unauthenticated_peer(int line) {
  std::array<char, 100> name{};
  const ssize_t bytes = ::recv(line, name.data(), name.size(), 0);
  if (bytes <= 0) return 1;
  const auto connecting = bootstrap::connect_to(
      base::System{}, bootstrap::unix_address({name.data(), static_cast<std::size_t>(bytes)}));
  pollfd answer{.fd = connecting.socket.get(), .events = POLLIN, .revents = 0};
  if (connecting.error != 0 || ::poll(&answer, 1, 5000) != 1) return 2;
  return ::recv(answer.fd, name.data(), name.size(), 0) <= 0 ? 0 : 4;
}

void expect_same_error(const std::vector<std::optional<Error>>& errors, ErrorCode code, int peer,
                       const std::string& cause, const std::string& hint) {
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(test::difference(
                  *error,
                  {.code = code, .peer = peer, .operation = "init", .cause = cause, .hint = hint}),
              "");
  }
}

const std::string same_version = "start every rank with the same version of qpmesh";
const std::string forgery = "no correct rank does that: start every rank with the same qpmesh";

class MeetingOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, MeetingOf, testing::Values(1, 2, 4, 8));

TEST_P(MeetingOf, threads_gives_everybody_everybodys_memory_doorbell_and_facts) {
  const int size = GetParam();
  ThreadGathering gathering{size};
  std::vector<std::uint64_t> epochs(static_cast<std::size_t>(size));
  const auto errors = run_ranks(size, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    MetRank me;
    const Blob facts(static_cast<std::size_t>(rank) * 100, static_cast<std::byte>(rank));
    me.meet(ranks, facts);
    const bootstrap::Meeting& meeting = *me.meeting;
    epochs[static_cast<std::size_t>(rank)] = meeting.epoch;

    ASSERT_EQ(meeting.ranks.size(), static_cast<std::size_t>(size));
    for (int peer = 0; peer < size; ++peer) {
      const auto& identity = meeting.ranks[static_cast<std::size_t>(peer)];
      EXPECT_EQ(identity.pid, ::getpid());
      EXPECT_EQ(identity.node, 0);
      EXPECT_FALSE(identity.host.empty());
      EXPECT_EQ(identity.facts,
                Blob(static_cast<std::size_t>(peer) * 100, static_cast<std::byte>(peer)));
    }
    ASSERT_EQ(meeting.local_peers.size(), static_cast<std::size_t>(size - 1));
    int expected = 0;
    for (const bootstrap::LocalPeer& peer : meeting.local_peers) {
      if (expected == rank) ++expected;
      EXPECT_EQ(peer.rank, expected++);
      EXPECT_EQ(peer.arena_bytes, me.arena.bytes());
      const auto memory = transport::map_arena(me.healthy, peer.arena.get(), peer.arena_bytes);
      memory.data()[4096 + rank] = static_cast<std::byte>(100 + rank);
      const std::uint64_t one = 1;
      EXPECT_EQ(::write(peer.doorbell.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
      EXPECT_NE(::fcntl(peer.arena.get(), F_GETFD) & FD_CLOEXEC, 0);
      EXPECT_NE(::fcntl(peer.doorbell.get(), F_GETFD) & FD_CLOEXEC, 0);
    }
    ranks.all_gather({}, no_deadline);  // everybody has written
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) {
        EXPECT_EQ(me.arena.data()[4096 + peer], static_cast<std::byte>(100 + peer));
      }
    }
    std::uint64_t rings = 0;
    if (size > 1) {
      EXPECT_EQ(::read(me.doorbell.get(), &rings, sizeof rings),
                static_cast<ssize_t>(sizeof rings));
    }
    EXPECT_EQ(rings, static_cast<std::uint64_t>(size - 1));
    ranks.all_gather({}, no_deadline);  // nobody leaves before all have looked
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  for (const std::uint64_t epoch : epochs) EXPECT_EQ(epoch, epochs.front());
  EXPECT_NE(epochs.front(), 0U);
}

TEST(meeting, gets_a_new_epoch_every_time) {
  std::array<std::uint64_t, 2> epochs{};
  for (std::uint64_t& epoch : epochs) {
    ThreadGathering gathering{1};
    ThreadBootstrap alone{gathering, 0};
    MetRank me;
    me.meet(alone);
    epoch = me.meeting->epoch;
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(meeting,
     gathers_twice_whatever_fails_and_every_rank_throws_the_same_when_any_call_of_one_rank_fails) {
  const std::size_t descriptors_before = test::open_descriptors();
  bool fired = true;
  int failed_meetings = 0;
  for (std::uint64_t index = 0; fired; ++index) {
    ASSERT_LT(index, 200U);
    base::FailPoints fail_points;
    fail_points.fail_call(index, ENOMEM);
    ThreadGathering gathering{2};
    std::array<int, 2> gathers{};
    const auto errors = run_ranks(2, [&](int rank) {
      TamperedThreads ranks{gathering, rank};
      MetRank me{rank == 1 ? &fail_points : nullptr};
      struct Count {
        TamperedThreads& ranks;
        int& gathers;
        ~Count() { gathers = ranks.gathers; }
      } count{ranks, gathers[static_cast<std::size_t>(rank)]};
      me.meet(ranks, {}, 1000);
    });
    fired = fail_points.fired();
    const std::string site{fail_points.fired_site()};
    EXPECT_EQ(gathers[0], 2) << site;
    EXPECT_EQ(gathers[1], 2) << site;
    ASSERT_EQ(errors[0].has_value(), errors[1].has_value()) << site;
    // Not every call matters: a connection that breaks is made again.
    if (!errors[0]) continue;
    ++failed_meetings;
    EXPECT_STREQ(errors[0]->what(), errors[1]->what());
    EXPECT_EQ(errors[0]->code(), ErrorCode::no_resource) << errors[0]->what();
    EXPECT_EQ(errors[0]->peer(), 1) << errors[0]->what();
    EXPECT_EQ(errors[0]->system_error(), ENOMEM);
  }
  EXPECT_GT(failed_meetings, 10);
  EXPECT_EQ(test::open_descriptors(), descriptors_before);
}

TEST(meeting, names_the_rank_whose_facts_are_too_many_on_every_rank) {
  ThreadGathering gathering{3};
  const auto errors = run_ranks(3, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    MetRank me;
    me.meet(ranks, Blob(rank == 2 ? 70'000U : 10U));
  });
  expect_same_error(errors, ErrorCode::bad_argument, 2,
                    "70000 bytes of facts, 61440 are allowed (reported by rank 2)",
                    "facts are what init tells of itself: start fewer ranks, or report it");
}

TEST(meeting, names_both_ranks_and_both_versions_when_protocols_differ) {
  ThreadGathering gathering{3};
  const auto errors = run_ranks(3, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    if (rank == 2) ranks.say = [](Introduction& mine) { mine.protocol = 77; };
    MetRank me;
    me.meet(ranks);
  });
  expect_same_error(errors, ErrorCode::mismatch, 2,
                    "rank 0 speaks protocol 10, rank 2 speaks protocol 77", same_version);
}

TEST(meeting, names_both_ranks_and_both_versions_when_libraries_differ) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.say = [&](Introduction& mine) { mine.library_version = rank == 0 ? "0.1.0" : "0.2.0"; };
    MetRank me;
    me.meet(ranks);
  });
  expect_same_error(errors, ErrorCode::mismatch, 1,
                    "rank 0 runs qpmesh 0.1.0, rank 1 runs qpmesh 0.2.0", same_version);
}

TEST(meeting, refuses_memory_that_does_not_hold_the_announced_nonce) {
  ThreadGathering gathering{3};
  const auto errors = run_ranks(3, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    MetRank me;
    me.arena.header().nonce = me.offer.nonce = 0x10 + static_cast<std::uint64_t>(rank);
    if (rank == 1) me.arena.header().nonce = 0xbad;
    me.meet(ranks);
  });
  expect_same_error(
      errors, ErrorCode::authentication, 1,
      "the arena of rank 1 holds nonce 0000000000000bad, announced was 0000000000000011 "
      "(reported by rank 0)",
      forgery);
}

TEST(meeting, refuses_memory_that_could_still_shrink) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    MetRank me;
    const base::UniqueFd soft{::memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    ASSERT_EQ(::ftruncate(soft.get(), 1 << 20), 0);
    ASSERT_EQ(::pwrite(soft.get(), &me.offer.nonce, sizeof me.offer.nonce, 0), 8);
    ASSERT_EQ(::fcntl(soft.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
    if (rank == 0) me.offer.arena_fd = soft.get();
    me.meet(ranks);
  });
  expect_same_error(
      errors, ErrorCode::authentication, 0,
      "the arena of rank 0 is not sealed against resizing (seals 4, needed 6) (reported by rank 1)",
      forgery);
}

TEST(meeting, refuses_memory_smaller_than_announced) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    MetRank me;
    if (rank == 1) me.offer.arena_bytes = std::size_t{2} << 20;
    me.meet(ranks);
  });
  expect_same_error(
      errors, ErrorCode::authentication, 1,
      "rank 1 announced an arena of 2097152 bytes and sent one of 1048576 (reported by rank 0)",
      forgery);
}

TEST(meeting, refuses_a_socket_that_belongs_to_another_process_than_announced) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    if (rank == 0) ranks.say = [](Introduction& mine) { mine.pid = 1; };
    MetRank me;
    me.meet(ranks, {}, 1000);
  });
  expect_same_error(errors, ErrorCode::authentication, 0,
                    fmt::format("rank 0 said it is pid 1 of uid {0}; its socket belongs to pid {1} "
                                "of uid {0} (reported by rank 1)",
                                ::geteuid(), ::getpid()),
                    forgery);
}

// Its rank 2 ends when all have introduced themselves, and it hears so.
class Bereaved final : public ThreadBootstrap {
 public:
  using ThreadBootstrap::ThreadBootstrap;

  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    if (gathers_++ > 0) fail_bereaved();
    std::vector<Blob> all = ThreadBootstrap::all_gather(mine, deadline);
    if (rank() == 2) bootstrap::fail_init(ErrorCode::internal, no_peer, "it ends");
    return all;
  }
  void check_ranks() override {
    has_told_early = has_told_early || gathers_ == 1;
    fail_bereaved();
  }

  bool has_told_early = false;

 private:
  [[noreturn]] static void fail_bereaved() {
    bootstrap::fail_init(ErrorCode::peer_dead, 2, "it has ended");
  }

  int gathers_ = 0;
};

TEST(meeting, ends_when_the_bootstrap_hears_that_a_rank_ended_while_ranks_connect) {
  ThreadGathering gathering{3};
  const auto errors = run_ranks(3, [&](int rank) {
    Bereaved ranks{gathering, rank};
    MetRank me;
    try {
      me.meet(ranks);
    } catch (const Error&) {
      EXPECT_EQ(ranks.has_told_early, rank != 2);
      throw;
    }
  });
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(errors[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(errors[static_cast<std::size_t>(rank)]->code(), ErrorCode::peer_dead);
  }
}

TEST(meeting, notices_that_the_bootstrap_changed_its_blob) {
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    if (rank == 1) ranks.say = [](Introduction& mine) { mine.token[3] ^= std::byte{1}; };
    MetRank me;
    me.meet(ranks, {}, 1000);
  });
  expect_same_error(
      errors, ErrorCode::corrupt, 1,
      "all_gather returned a blob for rank 1 that this rank did not send (reported by rank 1)",
      "the bootstrap must hand every rank's blob to every rank as it is, in rank order");
}

TEST(meeting, numbers_nodes_by_their_lowest_rank_and_shares_memory_only_inside) {
  ThreadGathering gathering{5};
  const std::array<int, 5> expected{0, 1, 0, 2, 1};
  const auto errors = run_ranks(5, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    ranks.be_elsewhere(expected[static_cast<std::size_t>(rank)]);
    MetRank me;
    me.meet(ranks);
    std::vector<int> locals;
    for (const auto& peer : me.meeting->local_peers) locals.push_back(peer.rank);
    const std::array<std::vector<int>, 5> neighbours{{{2}, {4}, {0}, {}, {1}}};
    EXPECT_EQ(locals, neighbours[static_cast<std::size_t>(rank)]);
    for (std::size_t peer = 0; peer < 5; ++peer)
      EXPECT_EQ(me.meeting->ranks[peer].node, expected[peer]);
    ranks.all_gather({}, no_deadline);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(meeting, asks_for_the_sum_of_all_arenas_where_the_address_space_is_limited) {
  constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;
  bootstrap::require_address_space(7, 7'000 * gibibyte);  // no limit
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  std::uint64_t used_pages = 0;  // sanitizers use terabytes
  std::ifstream{"/proc/self/statm"} >> used_pages;
  limit.rlim_cur =
      used_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) + 100 * gibibyte;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  rlimit held{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &held), 0);
  if (held.rlim_cur != limit.rlim_cur) GTEST_SKIP() << "the system takes no RLIMIT_AS to heart";
  bootstrap::require_address_space(1, 64 * gibibyte);
  try {
    bootstrap::require_address_space(2, 128 * gibibyte);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(
            error, {.code = ErrorCode::no_resource,
                    .operation = "init",
                    .cause = "RLIMIT_AS allows * bytes: this process uses *, and the "
                             "arenas of 2 other ranks of this host need 137438953472 together",
                    .hint = "raise it to * at least (ulimit -v *), or lower "
                            "QPMESH_ARENA_BYTES_MAX"}),
        "");
  }
}

TEST(meeting, drops_unauthenticated_peers_and_goes_on) {
  ThreadGathering gathering{3};
  const auto errors = run_ranks(3, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    MetRank me;
    me.options.handshake_timeout_ms = 100;
    if (rank == 2) {
      // Rank 0 still waits for rank 2, which meanwhile plays the unauthenticated peers: each must
      // be hung up on.
      ranks.heard = [&](std::span<const Introduction> everybody) {
        const auto call = [&] {
          auto connecting =
              bootstrap::connect_to(me.healthy, bootstrap::unix_address(everybody[0].listener));
          EXPECT_EQ(connecting.error, 0);
          EXPECT_EQ(::fcntl(connecting.socket.get(), F_SETFL, 0), 0);  // blocking
          return std::move(connecting.socket);
        };
        const auto waits_for_the_end = [](const base::UniqueFd& socket) {
          std::array<char, 64> answer{};
          while (::recv(socket.get(), answer.data(), answer.size(), 0) > 0) {}
          return true;
        };
        const base::UniqueFd silent = call();
        const base::UniqueFd brief = call();
        const base::UniqueFd garbage = call();
        const base::UniqueFd replaying = call();
        EXPECT_EQ(::send(brief.get(), "hi", 2, MSG_NOSIGNAL), 2);
        const std::string noise(1000, 'x');
        EXPECT_EQ(::send(garbage.get(), noise.data(), noise.size(), MSG_NOSIGNAL), 1000);
        EXPECT_TRUE(waits_for_the_end(garbage));
        struct {
          bootstrap::FrameHeader header{bootstrap::FrameKind::hello, sizeof(bootstrap::Hello)};
          bootstrap::Hello hello;  // of rank 2, which rank 0 still waits for, and without a proof
        } greeting;
        greeting.hello = bootstrap::make_hello(me.healthy, 2, 3, 0, {});
        EXPECT_EQ(::send(replaying.get(), &greeting, sizeof greeting, MSG_NOSIGNAL),
                  ssize_t{sizeof greeting});
        EXPECT_TRUE(waits_for_the_end(replaying));
        EXPECT_TRUE(waits_for_the_end(brief));
        EXPECT_TRUE(waits_for_the_end(silent));
      };
    }
    me.meet(ranks);
    EXPECT_EQ(me.meeting->local_peers.size(), 2U);
    ranks.all_gather({}, no_deadline);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(meeting, drops_another_process_at_once_though_it_keeps_silent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const base::UniqueFd here{ends[0]};
  const base::UniqueFd there{ends[1]};
  const bool is_another_user = test::another_user_can_run();
  const pid_t peer = ::fork();
  if (peer == 0) {
    if (is_another_user)
      ::_exit(::setresuid(65534, 65534, 65534) == 0 ? play_silent_unauthenticated_peer(there.get())
                                                    : 3);
    ::_exit(play_silent_unauthenticated_peer(there.get()));
  }
  ThreadGathering gathering{2};
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    MetRank me;
    me.options.handshake_timeout_ms = 15'000;
    if (rank == 1) {
      ranks.heard = [&](std::span<const Introduction> everybody) {
        const std::string& name = everybody[0].listener;
        EXPECT_EQ(::send(here.get(), name.data(), name.size(), 0),
                  static_cast<ssize_t>(name.size()));
        int status = 0;
        EXPECT_EQ(::waitpid(peer, &status, 0), peer);
        EXPECT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 0);
      };
    }
    me.meet(ranks);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(meeting, is_not_delayed_by_a_silent_unauthenticated_peer) {
  ThreadGathering gathering{2};
  base::UniqueFd silent;
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    MetRank me;
    me.options.handshake_timeout_ms = 15'000;
    if (rank == 1) {
      ranks.heard = [&](std::span<const Introduction> everybody) {
        silent = bootstrap::connect_to(me.healthy, bootstrap::unix_address(everybody[0].listener))
                     .socket;
        EXPECT_TRUE(silent);
      };
    }
    me.meet(ranks);
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{10});
}

TEST(meeting, leaves_no_listener_behind) {
  ThreadGathering gathering{2};
  run_ranks(2, [&](int rank) {
    TamperedThreads ranks{gathering, rank};
    std::array<std::string, 2> names;
    ranks.heard = [&](std::span<const Introduction> everybody) {
      for (std::size_t i = 0; i < names.size(); ++i) names[i] = everybody[i].listener;
    };
    MetRank me;
    me.meet(ranks);
    ranks.all_gather({}, no_deadline);
    for (const std::string& name : names) {
      EXPECT_EQ(bootstrap::connect_to(me.healthy, bootstrap::unix_address(name)).error,
                ECONNREFUSED);
    }
    ranks.all_gather({}, no_deadline);
  });
}

// In a child, whose name for the host is its own.
TEST(introduction, may_come_from_a_host_without_a_name) {
  const auto introduce = []() noexcept {  // what it throws ends the child
    if (::unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0 || ::sethostname("", 0) != 0) ::_exit(2);
    const base::System system;
    bootstrap::Introduction mine = bootstrap::introduce_myself(system, 0, 1);
    bootstrap::look_around(system, mine);
    ::_exit(mine.host.empty() ? 0 : 1);
  };
  const pid_t child = ::fork();
  if (child == 0) introduce();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "namespaces of one's own are forbidden here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(introduction, that_was_cut_or_changed_is_an_error_and_never_more) {
  base::System system;
  Introduction mine = bootstrap::introduce_myself(system, 0, 1);
  bootstrap::look_around(system, mine);
  mine.facts = Blob(20, std::byte{9});
  mine.listener = "name";
  const Blob whole = bootstrap::encode(mine);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Blob cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    try {
      bootstrap::read_introductions(std::span{&cut, 1}, 1);
      FAIL() << "accepted " << length << " of " << whole.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      EXPECT_EQ(error.peer(), 0);
    }
  }
  Blob longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(bootstrap::read_introductions(std::span{&longer, 1}, 1), Error);
  for (std::size_t place = 0; place < whole.size(); ++place) {
    Blob changed = whole;
    changed[place] = ~changed[place];
    try {
      bootstrap::read_introductions(std::span{&changed, 1}, 1);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch)
          << error.what();
    }
  }
}

TEST(report, that_was_cut_or_changed_is_an_error_and_never_more) {
  bootstrap::Report report{.result = Blob(10)};
  report.fail(bootstrap::init_error(ErrorCode::no_resource, 1, "x", "y", 5), true);
  const Blob whole = bootstrap::encode(report);
  std::vector<Blob> blobs(4, bootstrap::encode(bootstrap::Report{}));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    blobs[1] = Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    try {
      bootstrap::read_reports(blobs, 4);
      FAIL() << "accepted " << length << " of " << whole.size() << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      EXPECT_EQ(error.peer(), 1);
    }
  }
  for (std::size_t place = 0; place < whole.size(); ++place) {
    blobs[1] = whole;
    blobs[1][place] = ~blobs[1][place];
    try {
      for (const auto& read : bootstrap::read_reports(blobs, 4))
        EXPECT_LT(read.failure.value_or(bootstrap::Failure{}).detail.peer, 4);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.what();
    }
  }
}

TEST(neighbours, that_were_cut_or_changed_are_an_error_and_never_more) {
  const Blob whole = bootstrap::encode(bootstrap::Neighbours{.proved = {0, 2, 3}});
  std::vector<Blob> blobs(4, bootstrap::encode(bootstrap::Neighbours{}));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    blobs[1] = Blob(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(bootstrap::read_neighbours(blobs), Error) << length;
  }
  for (std::size_t place = 0; place < whole.size(); ++place) {
    blobs[1] = whole;
    blobs[1][place] = ~blobs[1][place];
    try {
      const auto read = bootstrap::read_neighbours(blobs);
      for (const int peer : read[1].proved) EXPECT_TRUE(peer >= 0 && peer < 4);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.what();
      EXPECT_EQ(error.peer(), 1);
    }
  }
}

TEST(agreement, prefers_a_cause_over_an_earlier_ranks_consequence) {
  std::vector<bootstrap::Report> reports(3);
  const auto failure = [](const char* cause) {
    return bootstrap::init_error(ErrorCode::no_resource, 2, cause);
  };
  reports[0].fail(failure("it hung up"), true);
  reports[2].fail(failure("it hung up too"), true);
  reports[2].fail(failure("no memory"));
  try {
    bootstrap::throw_agreed_failure(reports);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), "no memory (reported by rank 2)");
  }
}

TEST(agreement, prefers_a_cause_over_the_timeout_of_who_waited_for_it) {
  std::vector<bootstrap::Report> reports(2);
  reports[0].attempt(
      0, [] { throw Error{bootstrap::init_error(ErrorCode::timeout, 1, "nothing came")}; });
  reports[1].attempt(
      1, [] { throw Error{bootstrap::init_error(ErrorCode::no_resource, 1, "no descriptor")}; });
  try {
    bootstrap::throw_agreed_failure(reports);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), "no descriptor (reported by rank 1)");
  }
}

TEST(agreement, refuses_proofs_that_are_not_mutual) {
  std::vector<bootstrap::Neighbours> neighbours(3);
  neighbours[0].proved = {1};
  neighbours[1].proved = {0};
  neighbours[2].proved = {1};
  try {
    bootstrap::number_nodes(neighbours);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_EQ(error.peer(), 2);
  }
}

}  // namespace

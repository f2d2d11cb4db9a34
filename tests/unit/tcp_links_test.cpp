// SPDX-License-Identifier: MIT
// Ranks that only TCP joins, as threads of one process: in two network namespaces, or forced to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/qpmesh.hpp"
#include "tests/support/dropped.hpp"
#include "tests/support/expected_error.hpp"
#include "tests/support/thread_bootstrap.hpp"
#include "tests/support/two_hosts.hpp"

namespace {

using namespace qpmesh;
using std::chrono::milliseconds;
using test::run_ranks;
using test::ThreadBootstrap;
using test::ThreadGathering;
using test::TwoHosts;
using testing::HasSubstr;

Options over_tcp() {
  Options options;
  options.transport = TransportChoice::tcp;
  options.init_timeout_ms = 20'000;
  options.operation_timeout_ms = 20'000;
  options.arena_bytes_max = std::int64_t{1} << 30;  // ranks are threads: one address space for all
  return options;
}

// Sums and rotations of many lengths: inline, through the rings, into the memory of the user.
void compute(Communicator& world) {
  const int rank = world.rank();
  const int size = world.size();
  for (const std::size_t count : {1U, 30U, 1'000U, 20'000U, 1'000'000U}) {
    std::vector<int> data(count);
    std::iota(data.begin(), data.end(), rank);
    world.allreduce(data, sum);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(data[i], size * static_cast<int>(i) + size * (size - 1) / 2) << count;
    const std::vector<int> mine(count, rank);
    std::vector<int> theirs(count);
    auto sent = world.send_async(mine, (rank + 1) % size, 5);
    world.receive(theirs, (rank + size - 1) % size, 5);
    sent.wait();
    ASSERT_EQ(theirs, std::vector<int>(count, (rank + size - 1) % size));
  }
  world.barrier();
}

void expect_none(const std::vector<std::optional<Error>>& errors) {
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

// How many ranks, and whether they ask for an interface, which Unix sockets have not.
class OverTcp : public testing::TestWithParam<std::tuple<int, std::string>> {};
INSTANTIATE_TEST_SUITE_P(ranks, OverTcp,
                         testing::Combine(testing::Values(1, 2, 3, 8), testing::Values("", "lo")));

TEST_P(OverTcp, ranks_of_one_host_compute_where_they_are_told_to) {
  const auto& [size, netdev] = GetParam();
  ThreadGathering gathering{size};
  Options options = over_tcp();
  options.netdev = netdev;
  options.log = LogLevel::debug;
  ::testing::internal::CaptureStderr();
  expect_none(run_ranks(size, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto times_said = [&](const std::string& what) {
    int times = 0;
    for (auto at = said.find(what); at != std::string::npos; at = said.find(what, at + 1)) ++times;
    return times;
  };
  const int ends = size * (size - 1);
  EXPECT_EQ(times_said(": tcp, over a Unix socket"), netdev.empty() ? ends : 0) << said;
  EXPECT_EQ(times_said(": tcp, at "), netdev.empty() ? 0 : ends) << said;
}

class OnTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
  }

  // By turns on the two.
  template <class Run>
  std::vector<std::optional<Error>> run(int size, const Run& run_rank) {
    ThreadGathering gathering{size};
    return run_ranks(size, [&](int rank) {
      hosts_.enter(rank % 2);
      ThreadBootstrap ranks{gathering, rank};
      run_rank(ranks);
    });
  }

  TwoHosts hosts_;
};

TEST_F(OnTwoHosts, ranks_that_nothing_else_joins_compute_over_tcp_unasked) {
  for (const int size : {2, 4}) {
    expect_none(run(size, [&](ThreadBootstrap& ranks) {
      Options options = over_tcp();
      options.transport = TransportChoice::automatic;
      Communicator world = init(ranks, options);
      compute(world);
      world.finish();
    }));
  }
}

TEST_F(OnTwoHosts, ranks_go_on_to_the_next_address_where_one_leads_nowhere) {
  hosts_.ip(0, {"addr", "add", "10.88.0.1/32", "dev", "lo"});
  hosts_.ip(1, {"route", "add", "10.88.0.0/24", "via", "10.77.0.99"});
  ASSERT_EQ(hosts_.problem(), "");
  expect_none(run(2, [&](ThreadBootstrap& ranks) {
    Options options = over_tcp();
    options.handshake_timeout_ms = 200;
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
}

// Rank 0 is met at an address to which the other host has no way.
class MetElsewhere : public ThreadBootstrap {
 public:
  using ThreadBootstrap::ThreadBootstrap;
  std::string local_address() const override { return rank() == 0 ? "10.88.0.1" : "10.77.0.2"; }
};

class OnTwoHostsThatMetElsewhere : public OnTwoHosts {
 protected:
  void compute_all(std::int64_t handshake_timeout_ms) {
    hosts_.ip(0, {"addr", "add", "10.88.0.1/32", "dev", "lo"});
    hosts_.ip(1, {"route", "add", "10.88.0.0/24", "via", "10.77.0.99"});
    ASSERT_EQ(hosts_.problem(), "");
    ThreadGathering gathering{2};
    expect_none(run_ranks(2, [&](int rank) {
      hosts_.enter(rank);
      MetElsewhere ranks{gathering, rank};
      Options options = over_tcp();
      options.handshake_timeout_ms = handshake_timeout_ms;
      Communicator world = init(ranks, options);
      compute(world);
      world.finish();
    }));
  }
};

TEST_F(OnTwoHostsThatMetElsewhere, ranks_link_at_another_address_where_that_one_leads_nowhere) {
  compute_all(200);
}

// Nothing says that there is nobody: only the next address ends the wait.
TEST_F(OnTwoHostsThatMetElsewhere, ranks_link_at_another_address_where_that_one_says_nothing) {
  hosts_.ip(1, {"neigh", "add", "10.77.0.99", "lladdr", "02:00:00:00:00:99", "nud", "permanent",
                "dev", "cable"});
  compute_all(60'000);  // longer than init may take
}

TEST_F(OnTwoHosts, ranks_meet_over_ipv6_where_the_options_ask_for_it) {
  hosts_.ip(0, {"addr", "add", "fd77::1/64", "dev", "cable", "nodad"});
  hosts_.ip(1, {"addr", "add", "fd77::2/64", "dev", "cable", "nodad"});
  ASSERT_EQ(hosts_.problem(), "");
  expect_none(run(2, [&](ThreadBootstrap& ranks) {
    Options options = over_tcp();
    options.subnet = "fd77::/16";
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
}

// What this thread's host has sent by an interface so far.
std::int64_t sent_bytes(const std::string& netdev) {
  std::ifstream file{"/proc/thread-self/net/dev"};
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(netdev + ":");
    if (colon == std::string::npos) continue;
    std::istringstream numbers{line.substr(colon + netdev.size() + 1)};
    std::int64_t number = 0;
    for (int i = 0; i < 9; ++i) numbers >> number;  // the eight before are of what it received
    return number;
  }
  ADD_FAILURE() << "no " << netdev;
  return 0;
}

// compute() sends several MiB each way.
constexpr std::int64_t of_data_bytes = 4'000'000;
constexpr std::int64_t beside_data_bytes_max = 500'000;

TEST_F(OnTwoHosts, a_rank_alone_chooses_the_network_of_connections_that_it_calls) {
  hosts_.lay("second", {"10.78.0.1", "10.78.0.2"});
  ASSERT_EQ(hosts_.problem(), "");
  for (const char* const choice : {"netdev", "subnet", "first_use"}) {
    expect_none(run(2, [&](ThreadBootstrap& ranks) {
      Options options = over_tcp();
      if (ranks.rank() == 1) {
        if (choice == std::string{"subnet"}) options.subnet = "10.78.0.0/24";
        else options.netdev = "second";
      }
      if (choice == std::string{"first_use"}) options.connect_when = ConnectWhen::first_use;
      const std::int64_t by_cable = sent_bytes("cable");
      const std::int64_t by_second = sent_bytes("second");
      Communicator world = init(ranks, options);
      compute(world);
      world.finish();
      EXPECT_GT(sent_bytes("second") - by_second, of_data_bytes) << choice;
      EXPECT_LT(sent_bytes("cable") - by_cable, beside_data_bytes_max) << choice;
    }));
  }
}

TEST_F(OnTwoHosts, a_rank_alone_chooses_tcp_where_both_are_on_one_host) {
  ThreadGathering gathering{2};
  expect_none(run_ranks(2, [&](int rank) {
    hosts_.enter(0);
    ThreadBootstrap ranks{gathering, rank};
    Options options = over_tcp();
    if (rank == 1) options.netdev = "lo";
    const std::int64_t before = sent_bytes("lo");
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
    EXPECT_GT(sent_bytes("lo") - before, of_data_bytes);
  }));
}

// Who is called listens in another network: the source is all that the caller's choice can hold.
TEST_F(OnTwoHosts, a_rank_calls_from_the_address_that_it_chooses_into_a_network_where_it_has_none) {
  hosts_.lay("second", {"10.78.0.1", "10.78.0.2"});
  ASSERT_EQ(hosts_.problem(), "");
  ThreadGathering gathering{2};
  ::testing::internal::CaptureStderr();
  expect_none(run_ranks(2, [&](int rank) {
    hosts_.enter(0);
    ThreadBootstrap ranks{gathering, rank};
    Options options = over_tcp();
    options.netdev = rank == 0 ? "cable" : "second";
    options.log = LogLevel::debug;
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("peer 1: tcp, at 10.78.0.1:"));
  EXPECT_THAT(said, HasSubstr("peer 0: tcp, at 10.77.0.1:"));
}

TEST_F(OnTwoHosts, a_rank_whose_options_leave_no_address_to_call_from_says_so) {
  hosts_.ip(1, {"addr", "add", "fd77::2/64", "dev", "cable", "nodad"});
  ASSERT_EQ(hosts_.problem(), "");
  const auto errors = run(2, [&](ThreadBootstrap& ranks) {
    Options options = over_tcp();
    options.init_timeout_ms = 3'000;  // the one who is called waits for three quarters of it
    options.subnet = ranks.rank() == 0 ? "10.77.0.0/24" : "fd77::/16";
    init(ranks, options);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::link_failed);
    EXPECT_EQ(error->system_error(), EADDRNOTAVAIL);
    EXPECT_THAT(error->cause(), HasSubstr(" (no address of its kind to call from)"));
  }
}

// Control links, too, go over the cable here.
TEST_F(OnTwoHosts, ranks_compute_over_encrypted_connections) {
  expect_none(run(3, [&](ThreadBootstrap& ranks) {
    Options options = over_tcp();
    options.encrypt = true;
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
}

TEST_F(OnTwoHosts, ranks_that_no_address_joins_are_told_each_of_them_with_its_reason) {
  hosts_.ip(0, {"addr", "add", "10.88.0.1/32", "dev", "cable"});
  hosts_.ip(0, {"addr", "add", "10.88.0.2/32", "dev", "cable"});
  ASSERT_EQ(hosts_.problem(), "");
  const auto errors = run(2, [&](ThreadBootstrap& ranks) {
    Options options = over_tcp();
    options.init_timeout_ms = 3'000;  // the one who is called waits for three quarters of it
    if (ranks.rank() == 0) options.subnet = "10.88.0.0/24";
    init(ranks, options);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(test::difference(
                  *error,
                  {.code = ErrorCode::link_failed,
                   .peer = 0,
                   .operation = "init",
                   .cause = "rank 1 (pid * on host *) cannot reach rank 0 (pid * on host *); tried "
                            "10.88.0.1:* (Network is unreachable), 10.88.0.2:* (Network is "
                            "unreachable) (reported by rank 1)",
                   .hint = "every rank must reach every rank of another host by TCP: is there a "
                           "firewall, is an address of a network that the hosts do not share, or "
                           "was this rank too late?",
                   .system_error = ENETUNREACH}),
              "");
  }
}

TEST_F(OnTwoHosts, ranks_learn_that_the_cable_was_cut_from_the_rank_behind_it) {
  ThreadGathering beside{2};
  const auto errors = run(2, [&](ThreadBootstrap& ranks) {
    Options options = over_tcp();
    options.link_timeout_ms = 1'500;
    Communicator world = init(ranks, options);
    compute(world);
    ThreadBootstrap aside{beside, ranks.rank()};
    aside.all_gather({}, base::after_ms(base::System{}, 10'000));
    if (ranks.rank() == 0) hosts_.cut();
    aside.all_gather({}, base::after_ms(base::System{}, 10'000));
    const auto begin = std::chrono::steady_clock::now();
    try {
      std::vector<int> data(100'000);
      world.allreduce(data, sum);
      ADD_FAILURE() << "through a cable that is cut";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::peer_dead || error.code() == ErrorCode::link_failed)
          << error.what();
      EXPECT_EQ(error.peer(), 1 - ranks.rank()) << error.what();
      EXPECT_THAT(error.cause(), HasSubstr("10.77.0."));
      if (error.code() == ErrorCode::peer_dead) {
        EXPECT_THAT(error.hint(), HasSubstr("is that rank's host up, and the network to it?"));
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds{6'000});
  });
  expect_none(errors);
}

// ---- what may be wrong with the options

void expect_error_everywhere(int size, const Options& options,
                             const test::ExpectedError& expected) {
  ThreadGathering gathering{size};
  const auto errors = run_ranks(size, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    init(ranks, options);
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(test::difference(*error, expected), "");
  }
}

TEST(tcp_options, that_name_an_interface_that_is_not_there_are_refused_with_it) {
  Options options = over_tcp();
  options.netdev = "nowhere0";
  expect_error_everywhere(
      2, options,
      {.code = ErrorCode::no_resource,
       .peer = 0,
       .operation = "init",
       .cause = "no address of this host is allowed by QPMESH_NETDEV='nowhere0' and "
                "QPMESH_SUBNET='' (reported by rank 0)",
       .hint = "ip address shows the interfaces and their addresses"});
}

TEST(tcp_options, that_name_no_range_of_ports_are_refused_before_anybody_is_met) {
  for (const char* ports : {"4000", "4000-", "-4000", "4001-4000", "0-10", "1-65536", "a-b"}) {
    Options options = over_tcp();
    options.ports = ports;
    expect_error_everywhere(2, options,
                            {.code = ErrorCode::bad_config,
                             .operation = "options",
                             .cause = std::string{"QPMESH_PORTS='"} + ports +
                                      "', allowed: two ports from 1 to 65535, as 4000-4999",
                             .hint = "docs/options.md lists every variable"});
  }
}

// A port of the system's choice.
base::UniqueFd taken_port(std::string& port) {
  bootstrap::Opened opened =
      listen_at(base::System{}, *bootstrap::numeric({.host = "127.0.0.1", .port = 0}));
  port = std::to_string(host_port(bootstrap::local_address(opened.socket.get())).port);
  return std::move(opened.socket);
}

TEST(tcp_options, that_leave_a_rank_no_port_are_told_with_the_range) {
  std::string port;
  const base::UniqueFd other = taken_port(port);
  Options options = over_tcp();
  options.ports = port + "-" + port;
  options.netdev = "lo";
  options.subnet = "127.0.0.0/8";
  expect_error_everywhere(2, options,
                          {.code = ErrorCode::no_resource,
                           .peer = 0,
                           .operation = "init",
                           .cause = "rank 0 on host * cannot listen at any of its addresses: "
                                    "127.0.0.1 (Address already in use) (reported by rank 0)",
                           .hint = "every port of QPMESH_PORTS=" + port + "-" + port +
                                   " is taken or not allowed: each rank of a host needs one or "
                                   "two of its own",
                           .system_error = EADDRINUSE});
}

TEST(tcp_options, that_give_a_range_of_ports_are_kept) {
  std::string port;
  taken_port(port).reset();
  const int first = std::stoi(port) < 60'000 ? std::stoi(port) : 50'000;
  Options options = over_tcp();
  options.ports = std::to_string(first) + "-" + std::to_string(first + 20);
  options.netdev = "lo";
  ThreadGathering gathering{3};
  expect_none(run_ranks(3, [&](int rank) {
    ThreadBootstrap ranks{gathering, rank};
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
}

// ---- strangers

// Where the ranks listen is said in the third gather, in one place. Somebody who is no rank is
// there first: some say nothing, some talk of something else, some go at once.
class AmongStrangers : public ThreadBootstrap {
 public:
  using ThreadBootstrap::ThreadBootstrap;

  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    auto all = ThreadBootstrap::all_gather(mine, deadline);
    if (++gathers_ != 3) return all;
    const auto reports = bootstrap::read_reports(all, size());
    const BlobView said{reports.front().result};
    const auto addresses = bootstrap::read_addresses(said.subspan(16 + 32 + 4), 0);
    EXPECT_FALSE(addresses.empty());
    const base::System system;
    for (int i = 0; i < 300 && rank() == 1; ++i) {
      bootstrap::Opened stranger = connect_to(system, *bootstrap::numeric(addresses.front()));
      EXPECT_EQ(stranger.error, 0);
      bootstrap::await(system, stranger.socket.get(), POLLOUT, base::after_ms(system, 2'000));
      if (i % 3 == 1) ::send(stranger.socket.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
      if (i % 3 == 2) continue;
      strangers_.push_back(std::move(stranger.socket));
    }
    return all;
  }

 private:
  int gathers_ = 0;
  std::vector<base::UniqueFd> strangers_;
};

TEST(strangers, at_the_port_of_a_rank_are_dropped_counted_and_hold_nobody_up) {
  ThreadGathering gathering{2};
  ::testing::internal::CaptureStderr();
  expect_none(run_ranks(2, [&](int rank) {
    AmongStrangers ranks{gathering, rank};
    Options options = over_tcp();
    options.handshake_timeout_ms = 20'000;  // the silent ones stay to the end
    options.netdev = "lo";
    Communicator world = init(ranks, options);
    compute(world);
    world.finish();
  }));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(test::dropped_in(said).connections, 300U) << said;
  EXPECT_NE(said.find("qpmesh rank 0 warning: dropped "), std::string::npos) << said;
  EXPECT_NE(said.find("the last: was still there at the end, without a hello\n"), std::string::npos)
      << said;
}

}  // namespace

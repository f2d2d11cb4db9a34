// SPDX-License-Identifier: MIT
// What qpmesh-doctor finds wrong in facts that a test made up: each row of its tables by a fault of
// its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "qpmesh/error.hpp"
#include "support/device_tables.hpp"
#include "support/thread_bootstrap.hpp"
#include "tools/doctor/findings.hpp"
#include "tools/doctor/pairs.hpp"
#include "tools/doctor/report.hpp"

namespace qpmesh::doctor {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::string_view softroce = R"(
device rxe0 driver=rdma_rxe software vendor=0xffffff guid=0x42 reads=128
port 1 active ethernet mtu=4096 grh rate=2500
gid 0 fe80::406a:27ff:fe4c:e343 v2 eth0
gid 1 10.77.0.1 v2 eth0
netdev eth0 up 10.77.0.1/24 fe80::406a:27ff:fe4c:e343/64
)";

// A host with SoftRoCE on which nothing is wrong.
HostFacts healthy() {
  HostFacts facts;
  facts.info.host = "alpha";
  facts.info.devices = test::devices(softroce);
  facts.info.locked_memory = {.limit_bytes = -1, .exempt = false, .peer_bytes = 64 * 1024};
  facts.kernel = "6.1.0";
  facts.interfaces = {{.name = "lo",
                       .up = true,
                       .carrier = true,
                       .loopback = true,
                       .mtu_bytes = 65536,
                       .addresses = {{.host = "127.0.0.1", .prefix_bits = 8}}},
                      {.name = "eth0",
                       .up = true,
                       .carrier = true,
                       .mtu_bytes = 9000,
                       .addresses = {{.host = "10.77.0.1", .prefix_bits = 24}}}};
  facts.own_addresses = {{"127.0.0.1", 0}, {"10.77.0.1", 0}};
  facts.host_name = {.name = "alpha", .addresses = {"10.77.0.1"}};
  facts.receive_buffer_bytes_max = 6 << 20;
  facts.send_buffer_bytes_max = 4 << 20;
  facts.kernel_devices = {"rxe0"};
  facts.device_files = {{"/dev/rdma/uverbs0", 0}};
  facts.modules = {{.name = "rdma_rxe", .loaded = true}, {.name = "siw"}};
  facts.clock_source = "tsc";
  facts.clock_read_ns = 30;
  return facts;
}

void lose_device(HostFacts& facts) {
  facts.kernel_devices.clear();
  facts.device_files.clear();
  facts.info.devices.clear();
}

struct Fault {
  std::string id;
  std::function<void(HostFacts&)> make;
  std::string what;  // parts of what is said
  std::string mend;
  Severity severity = Severity::problem;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"memlock", [](HostFacts& f) { f.info.locked_memory.limit_bytes = 65536; }, "64 KiB",
       "ulimit -l unlimited"},
      {"open_files", [](HostFacts& f) { f.files_max = 64; }, "64 files", "ulimit -n 65536"},
      {"file_size", [](HostFacts& f) { f.file_bytes_max = 4096; }, "RLIMIT_FSIZE allows 4 KiB",
       "ulimit -f unlimited"},
      {"address_space", [](HostFacts& f) { f.address_bytes_max = 1 << 30; },
       "RLIMIT_AS allows 1024 MiB", "ulimit -v unlimited"},
      {"memfd", [](HostFacts& f) { f.memfd_error = EPERM, f.filtered = true; }, "seccomp",
       "--security-opt seccomp=unconfined"},
      {"neighbour_memory",
       [](HostFacts& f) { f.neighbour_memory_error = EPERM, f.ptrace_scope = 1; },
       "kernel.yama.ptrace_scope is 1", "sysctl -w kernel.yama.ptrace_scope=0"},
      {"pidfd", [](HostFacts& f) { f.pidfd_error = ENOSYS; }, "pidfd_open", "kernel from 5.3"},
      {"loopback_down", [](HostFacts& f) { f.interfaces[0].up = false; }, "lo is down",
       "ip link set lo up"},
      {"link_down",
       [](HostFacts& f) {
         f.interfaces.push_back({.name = "eth1", .addresses = {{"10.78.0.1", 24}}});
       },
       "eth1 is down", "ip link set eth1 up"},
      {"no_such_interface", [](HostFacts& f) { f.options.netdev = "eth7"; }, "lo, eth0",
       "export QPMESH_NETDEV=eth0"},
      {"no_such_network", [](HostFacts& f) { f.options.subnet = "10.9.0.0/16"; },
       "the addresses here are: ", "unset QPMESH_SUBNET"},
      {"no_address", [](HostFacts& f) { f.interfaces[1].addresses.clear(); }, "no interface",
       "ip address add", Severity::note},
      {"own_address", [](HostFacts& f) { f.own_addresses[1].error = ETIMEDOUT; },
       "10.77.0.1: Connection timed out", "iptables -I INPUT -d 10.77.0.1 -j ACCEPT"},
      {"small_mtu", [](HostFacts& f) { f.interfaces[1].mtu_bytes = 576; }, "MTU of 576",
       "ip link set eth0 mtu 1500"},
      {"shared_subnet",
       [](HostFacts& f) {
         f.interfaces.push_back({.name = "eth1",
                                 .up = true,
                                 .carrier = true,
                                 .mtu_bytes = 1500,
                                 .addresses = {{"10.77.0.9", 24}}});
       },
       "10.77.0.0/24", "arp_ignore=1", Severity::note},
      {"host_name", [](HostFacts& f) { f.host_name.addresses = {"127.0.1.1"}; },
       "alpha resolves to 127.0.1.1 alone", "export QPMESH_ROOT=10.77.0.1:29500", Severity::note},
      {"root",
       [](HostFacts& f) {
         f.root = {"first", "Name or service not known", {}};
       },
       "first, which has no address", "/etc/hosts"},
      {"socket_buffers", [](HostFacts& f) { f.receive_buffer_bytes_max = 212992; }, "tcp_rmem",
       "sysctl -w net.ipv4.tcp_rmem", Severity::note},
      {"rdma_module",
       [](HostFacts& f) {
         lose_device(f);
         f.modules = {{.name = "rdma_rxe", .loaded = false, .loadable = true}};
       },
       "rdma_rxe is not loaded", "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0",
       Severity::note},
      {"rdma_build", [](HostFacts& f) { f.info.has_verbs = false; }, "has no verbs",
       "libibverbs-dev"},
      {"rdma_device_file",
       [](HostFacts& f) {
         f.container = "a container of Docker";
         f.device_files[0].error = ENOENT;
       },
       "the container has not", "docker run --device=/dev/infiniband"},
      {"rdma_manager",
       [](HostFacts& f) {
         f.options.connect = ConnectBy::cm;
         f.connection_manager_error = ENOENT;
       },
       "rdma_cm: ", "modprobe rdma_ucm"},
      {"rdma_provider", [](HostFacts& f) { f.kernel_devices.push_back("mlx5_0"); }, "mlx5_0",
       "apt-get install ibverbs-providers"},
      {"rdma_provider",
       [](HostFacts& f) {
         f.info.wishes.ibverbs_missing = "libibverbs.so.1: cannot open shared object file";
         f.info.devices.clear();
       },
       "libibverbs cannot be used: libibverbs.so.1", "apt-get install libibverbs1"},
      {"rdma_device", [](HostFacts& f) { f.info.devices[0].unreadable = "EACCES"; }, "EACCES",
       "ibv_devinfo -d rxe0"},
      {"rdma_choice",
       [](HostFacts& f) {
         f.options.gid_index = 7;
         f.info.wishes.gid_index = 7;
       },
       "7", "qpmesh-info"},
      {"rdma_port",
       [](HostFacts& f) {
         f.info.devices.push_back(f.info.devices[0]);
         f.info.devices[1].name = "rxe1";
         f.info.devices[1].ports[0].state = 1;
         f.info.devices[1].ports[0].state_name = "down";
         f.kernel_devices.push_back("rxe1");
       },
       "rxe1 port 1 is down", "ip link set eth0 up"},
      {"rdma_mtu", [](HostFacts& f) { f.info.devices[0].ports[0].mtu_bytes = 1024; },
       "packets of 1024 bytes", "ip link set eth0 mtu 9000", Severity::note},
      {"clock_source", [](HostFacts& f) { f.clock_read_ns = 900, f.clock_source = "hpet"; },
       "900 ns to read (hpet)", "echo tsc"},
      {"cores", [](HostFacts& f) { f.local_size = 4, f.online_cores = 2; },
       "4 ranks of this host share 2 cores", "qpmesh-run --hosts a:2,b:2", Severity::note},
      {"clock_unsynchronised", [](HostFacts& f) { f.clock_synchronised = false; },
       "not synchronised", "systemd-timesyncd", Severity::note},
      {"unknown_variable", [](HostFacts& f) { f.unknown_variables = {"QPMESH_X is unknown"}; },
       "QPMESH_X is unknown", "unset"},
      {"secret", [](HostFacts& f) { f.secret_failure = "the file may be read by others"; },
       "read by others", "QPMESH_SECRET_FILE"},
  };
  return all;
}

TEST(host_checks, find_nothing_on_a_healthy_host) { EXPECT_THAT(examine(healthy()), IsEmpty()); }

TEST(host_checks, name_each_fault_with_its_cost_and_mend) {
  for (const Fault& fault : faults()) {
    SCOPED_TRACE(fault.id);
    HostFacts facts = healthy();
    fault.make(facts);
    const auto findings = examine(facts);
    const auto found = std::ranges::find(findings, fault.id, &Finding::id);
    ASSERT_NE(found, findings.end());
    EXPECT_THAT(found->what, HasSubstr(fault.what));
    EXPECT_THAT(found->mend, HasSubstr(fault.mend));
    EXPECT_EQ(found->severity, fault.severity);
    EXPECT_FALSE(found->cost.empty());
  }
}

TEST(host_checks, have_a_fault_for_each_row) {
  std::set<std::string> rows;
  std::set<std::string> made;
  for (const auto& row : host_checks()) rows.insert(std::string{row.id});
  for (const Fault& fault : faults()) made.insert(fault.id);
  EXPECT_EQ(rows, made);
  EXPECT_EQ(rows.size(), host_checks().size());
}

TEST(host_checks, take_a_missing_device_for_a_problem_where_rdma_is_asked_for) {
  HostFacts facts = healthy();
  lose_device(facts);
  facts.modules.clear();
  EXPECT_FALSE(any_problem(examine(facts)));
  facts.options.require = Requirement::rdma;
  EXPECT_TRUE(any_problem(examine(facts)));
}

TEST(host_checks, ask_for_room_for_the_memory_of_every_rank_of_the_host) {
  HostFacts facts = healthy();
  const std::int64_t arena = facts.options.arena_bytes_max;
  facts.local_size = 3;
  facts.address_bytes_max = 3 * arena;
  EXPECT_THAT(examine(facts), IsEmpty());
  facts.address_bytes_max = 3 * arena - 1;
  const auto found = examine(facts);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].severity, Severity::problem);
  EXPECT_THAT(found[0].what, HasSubstr("for each rank of its host, and these are 3"));
  EXPECT_THAT(found[0].mend,
              HasSubstr("QPMESH_ARENA_BYTES_MAX=" + std::to_string((3 * arena - 1) / 4)));
  // Nobody says how many ranks there will be.
  facts.local_size = 0;
  facts.info.cores.cores = {0, 1, 2, 3};
  const auto guessed = examine(facts);
  ASSERT_EQ(guessed.size(), 1U);
  EXPECT_EQ(guessed[0].severity, Severity::note);
  EXPECT_THAT(guessed[0].what, HasSubstr(": 4 with one on each core"));
}

TEST(host_checks, do_not_ask_for_interfaces_that_nobody_uses) {
  HostFacts facts = healthy();
  facts.interfaces.push_back({.name = "wlan0"});
  facts.interfaces.push_back({.name = "docker0",
                              .up = true,
                              .container = true,
                              .mtu_bytes = 1500,
                              .addresses = {{"172.17.0.1", 16}}});
  EXPECT_THAT(examine(facts), IsEmpty());
}

// ---- pairs ----

RankReport rank_on(int rank, const std::string& host) {
  return {.rank = rank, .host = host, .place = {.boot_id = host}, .rdma_devices = {"rxe0"}};
}

Report healthy_job() {
  Report report;
  report.ranks = {rank_on(0, "alpha"), rank_on(1, "beta"), rank_on(2, "gamma")};
  for (const auto& [low, high] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
    const Datagrams datagrams{.netdev = "eth0",
                              .sent_bytes_max = 1500,
                              .arrived_bytes_max = 1500,
                              .roce = Arrival::arrived};
    report.pairs.push_back({.low = low,
                            .high = high,
                            .calls = {{"10.0.0.1:4000", "eth0", 0}},
                            .line = "10.0.0.1",
                            .way = "verbs",
                            .checked_bytes = 1000,
                            .latency_us = 2,
                            .bandwidth_mb_s = 1000,
                            .back_mb_s = 900,
                            .both_mb_s = 1500,
                            .reads = {.checked_bytes = 1000, .bandwidth_mb_s = 700},
                            .tcp_latency_us = 9,
                            .from_low = datagrams,
                            .from_high = datagrams,
                            .packets_from_low = {.device = "rxe0:1", .traffic_class = 106},
                            .packets_from_high = {.device = "rxe0:1", .traffic_class = 106}});
  }
  return report;
}

struct PairFault {
  std::string id;
  std::function<void(Report&)> make;
  std::string what;
  std::string mend;
};

const std::vector<PairFault>& pair_faults() {
  static const std::vector<PairFault> all{
      {"unreachable",
       [](Report& r) {
         r.pairs[0].line.clear();
         r.pairs[0].way.clear();
         r.pairs[0].calls = {{"10.0.0.1:4000", "eth0", ECONNREFUSED},
                             {"10.1.0.1:4001", "eth1", ENETUNREACH}};
       },
       "rank 1 (on beta) cannot reach rank 0 (on alpha): tried 10.0.0.1:4000 (Connection refused), "
       "10.1.0.1:4001 (Network is unreachable)",
       "on alpha: export QPMESH_PORTS=4000-4999 and open them"},
      {"not_joined",
       [](Report& r) {
         r.pairs[0].way.clear();
         r.pairs[0].refused = {{"tcp", "no answer", "look there"}};
       },
       "no tcp: no answer", "look there"},
      {"unreachable_address",
       [](Report& r) {
         r.pairs[0].calls.push_back({"10.9.0.1:4000", "eth3", EHOSTUNREACH});
       },
       "rank 1 (on beta) cannot reach 10.9.0.1 of eth3 on alpha: No route to host; 10.0.0.1 comes "
       "first",
       "export QPMESH_SUBNET"},
      {"apart",
       [](Report& r) {
         r.ranks[1].place.boot_id = "alpha";
         r.ranks[1].place.pid_namespace = 7;
       },
       "share no memory (one host, but they differ: process namespaces 0 and 7)",
       "docker run --pid=host"},
      {"rdma_pair",
       [](Report& r) {
         r.pairs[0].way = "tcp";
         r.pairs[0].refused = {{"verbs", "the peer's device does not answer", ""}};
       },
       "does not answer", "--dport 4791 -j ACCEPT"},
      {"gid_pair",
       [](Report& r) {
         r.pairs[0].way = "tcp";
         r.pairs[0].refused = {{"verbs", "no answer", ""}};
         r.pairs[0].gids = {{{"rxe0:1", 1, "10.0.0.1"}, {"rxe0:1", 1, "10.0.0.2"}, "no answer"},
                            {{"rxe0:1", 0, "fe80::1"}, {"rxe1:1", 2, "fe80::2"}, ""}};
       },
       "works by GID 0 (fe80::1) and GID 2 (fe80::2)",
       "on beta: export QPMESH_DEVICE=rxe1:1 QPMESH_GID_INDEX=2"},
      {"one_sided_rdma",
       [](Report& r) {
         r.ranks[1].rdma_devices.clear();
         r.pairs[0].way = "tcp";
         r.pairs[0].refused = {{"verbs", "no device", ""}};
       },
       "host beta has none", "on beta: modprobe rdma_rxe"},
      {"path_mtu", [](Report& r) { r.pairs[0].from_low.arrived_bytes_max = 1400; },
       "from rank 0 (on alpha) to rank 1 (on beta): packets of 1400 bytes arrive",
       "on alpha: ip link set eth0 mtu 1400"},
      {"roce_port", [](Report& r) { r.pairs[0].from_low.roce = Arrival::lost; }, "UDP port 4791",
       "on beta: iptables -I INPUT -p udp --dport 4791 -j ACCEPT"},
      {"no_datagrams", [](Report& r) { r.pairs[0].from_low.arrived_bytes_max = 0; },
       "no datagram arrives at all", "on beta: iptables"},
      {"wrong_bytes", [](Report& r) { r.pairs[0].wrong_bytes = 3; }, "3 of 1000 bytes", "tcp"},
      {"rdma_reads", [](Report& r) { r.pairs[0].reads.why = "no answer"; },
       "between rank 0 (on alpha) and rank 1 (on beta) arrive, RDMA reads fail: no answer",
       "export QPMESH_RENDEZVOUS=write"},
      {"rdma_reads", [](Report& r) { r.pairs[0].reads = {.why = "no answer", .wished = true}; },
       "RDMA reads fail: no answer", "export QPMESH_RENDEZVOUS=write"},
      {"rdma_reads", [](Report& r) { r.pairs[0].reads.wrong_bytes = 2; },
       "RDMA reads bring 2 of 1000 bytes wrong", "export QPMESH_RENDEZVOUS=write"},
      {"traffic_class", [](Report& r) { r.pairs[0].packets_from_high.traffic_class = 96; },
       "RDMA data, acknowledgements and answers to reads leave rank 0 (on alpha) by rxe0:1 with "
       "traffic class 106 (DSCP 26) and service level 0, but rank 1 (on beta) by rxe0:1 with "
       "traffic class 96 (DSCP 24) and service level 0",
       "export QPMESH_TRAFFIC_CLASS=106 QPMESH_SERVICE_LEVEL=0; or let both hosts set"},
      {"traffic_class", [](Report& r) { r.pairs[0].packets_from_low.service_level = 3; },
       "class 106 (DSCP 26) and service level 3", "QPMESH_SERVICE_LEVEL=3"},
      {"slow_pair", [](Report& r) { r.pairs[0].latency_us = 50; }, "take 50.0 us", "ethtool"},
      {"slow_direction", [](Report& r) { r.pairs[0].back_mb_s = 150; },
       "150 MB/s go from rank 0 (on alpha) to rank 1 (on beta) by verbs, and 1000 the other way",
       "ethtool"},
      {"clock_offset", [](Report& r) { r.pairs[0].clock_offset_ms = -5000; },
       "alpha and beta differ by 5.0 s", "timesyncd"},
  };
  return all;
}

TEST(pair_checks, find_nothing_in_a_healthy_job) {
  EXPECT_THAT(examine(pair_checks(), healthy_job()), IsEmpty());
}

TEST(pair_checks, name_each_fault_once_with_its_cost_and_mend) {
  for (const PairFault& fault : pair_faults()) {
    SCOPED_TRACE(fault.id);
    Report report = healthy_job();
    fault.make(report);
    const auto findings = examine(pair_checks(), report);
    ASSERT_EQ(std::ranges::count(findings, fault.id, &Finding::id), 1);
    const auto found = std::ranges::find(findings, fault.id, &Finding::id);
    EXPECT_THAT(found->what, HasSubstr(fault.what));
    EXPECT_THAT(found->mend, HasSubstr(fault.mend));
    EXPECT_FALSE(found->cost.empty());
  }
}

TEST(pair_checks, take_an_address_for_a_problem_where_init_tries_it_before_one_that_answers) {
  Report report = healthy_job();
  auto& calls = report.pairs[0].calls;
  const Call silent{"10.9.0.1:4000", "eth3", ETIMEDOUT};
  calls.push_back(silent);
  EXPECT_FALSE(any_problem(examine(pair_checks(), report)));
  calls.insert(calls.begin(), silent);
  EXPECT_TRUE(any_problem(examine(pair_checks(), report)));
}

TEST(pair_checks, do_not_expect_to_reach_a_network_of_containers) {
  Report report = healthy_job();
  report.ranks[0].interfaces = {{.name = "docker0", .up = true, .container = true}};
  report.pairs[0].calls.push_back({"172.17.0.1:4000", "docker0", ECONNREFUSED});
  EXPECT_THAT(examine(pair_checks(), report), IsEmpty());
}

TEST(pair_checks, take_no_way_for_a_problem_that_the_options_exclude) {
  Report report = healthy_job();
  report.pairs[0].way = "tcp";
  report.pairs[0].refused = {{"verbs", "QPMESH_ENCRYPT=yes", "", true}};
  EXPECT_THAT(examine(pair_checks(), report), IsEmpty());
}

TEST(pair_checks, have_a_fault_for_each_row) {
  std::set<std::string> rows;
  std::set<std::string> made;
  for (const auto& row : pair_checks()) rows.insert(std::string{row.id});
  for (const PairFault& fault : pair_faults()) made.insert(fault.id);
  EXPECT_EQ(rows, made);
}

// By the text of the tests: one looks for the row's name in the report of the tool or, of a guest,
// in its text.
TEST(rows, are_named_by_a_test_that_makes_the_fault_itself) {
  std::string tests;
  for (const char* const file : {"unit/doctor_faults_test.cpp", "vm/cases.txt", "vm/long.txt"}) {
    std::ifstream in{fmt::format("{}/tests/{}", QPMESH_SOURCE_DIR, file)};
    tests.append(std::istreambuf_iterator<char>{in}, {});
  }
  const auto look = [&](std::string_view row) {
    EXPECT_TRUE(tests.find(fmt::format(R"("{}", ")", row)) != std::string::npos ||
                tests.find(fmt::format(R"("problem {}")", row)) != std::string::npos ||
                tests.find(fmt::format(R"("note {}")", row)) != std::string::npos)
        << row;
  };
  for (const auto& row : host_checks()) look(row.id);
  for (const auto& row : pair_checks()) look(row.id);
}

// Of a device that is not there: each trial fails at once.
TEST(pairs, say_how_many_pairs_of_gids_they_left_out) {
  std::string table = "device rxe0 driver=rdma_rxe software\nport 1 active ethernet mtu=1024 grh\n";
  std::string addresses;
  for (int i = 1; i <= 5; ++i) {
    table += fmt::format("gid {0} 10.77.0.{0} v2 eth0\n", i);
    addresses += fmt::format(" 10.77.0.{}/24", i);
  }
  table += "netdev eth0 up" + addresses + "\n";
  test::ThreadGathering gathering{2};
  const auto errors = test::run_ranks(2, [&](int rank) {
    HostFacts facts = healthy();
    facts.info.devices = test::devices(table);
    facts.options.transport = TransportChoice::tcp;
    facts.options.arena_bytes_max = std::int64_t{1} << 30;  // ranks are threads of one process
    facts.place.boot_id = "alpha";
    test::ThreadBootstrap world{gathering, rank};
    const base::System system;
    std::vector<std::pair<std::size_t, std::size_t>> told;
    const auto report =
        examine_pairs(world, facts, report_of(facts, rank), true, system, base::Log{LogLevel::off},
                      [&](std::size_t tried, std::size_t all) { told.emplace_back(tried, all); });
    EXPECT_THAT(told, ElementsAre(std::pair{0, 1}, std::pair{1, 1}));
    ASSERT_EQ(report.pairs.size(), 1U);
    EXPECT_EQ(report.pairs[0].failure, "");
    EXPECT_EQ(report.pairs[0].gids.size(), 16U);
    EXPECT_EQ(report.pairs[0].gids_untried, 25 - 16);
    EXPECT_THAT(to_text(report, false), HasSubstr("9 other pairs of GIDs: not tried"));
  });
  for (const auto& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST(schedule, has_each_pair_once_and_no_rank_twice_in_a_round) {
  for (int size = 1; size <= 33; ++size) {
    std::vector<Seat> seats;
    seats.reserve(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) seats.push_back({std::to_string(rank / 4), 3});
    std::set<std::pair<int, int>> pairs;
    std::size_t count = 0;
    for (const auto& round : schedule(seats)) {
      std::set<int> ranks;
      std::map<std::string, int> at_work;
      for (const Pair& pair : round) {
        EXPECT_LT(pair.low, pair.high);
        EXPECT_TRUE(ranks.insert(pair.low).second && ranks.insert(pair.high).second);
        pairs.emplace(pair.low, pair.high);
        ++count;
        ++at_work[seats[static_cast<std::size_t>(pair.low)].host];
        ++at_work[seats[static_cast<std::size_t>(pair.high)].host];
      }
      for (const auto& [host, busy] : at_work) EXPECT_LE(busy, 3);
    }
    EXPECT_EQ(count, static_cast<std::size_t>(size * (size - 1) / 2));
    EXPECT_EQ(pairs.size(), count);
  }
}

TEST(schedule, takes_one_pair_after_the_other_on_one_core) {
  const std::vector<Seat> seats(4, {"alpha", 1});
  EXPECT_EQ(schedule(seats).size(), 6U);
}

// ---- what is told ----

Report job_with_a_fault() {
  Report report = healthy_job();
  report.pairs[0].way.clear();
  report.pairs[0].line.clear();
  report.pairs[0].calls[0].error = ECONNREFUSED;
  report.pairs[0].reads = {};
  report.ranks[1].findings = {{"memlock", Severity::problem, "too little", "init fails", "ulimit"}};
  report.findings = examine(pair_checks(), report);
  return report;
}

TEST(text, has_a_row_for_each_pair_and_problems_with_their_mends) {
  const std::string text = to_text(job_with_a_fault(), false);
  EXPECT_THAT(text, AllOf(HasSubstr("host alpha (rank 0)"),
                          HasSubstr("problem memlock: too little"), HasSubstr("mend   ulimit"),
                          HasSubstr("0 - 1  none"), HasSubstr("1 - 2  verbs  2.00 us"),
                          HasSubstr("1.00 GB/s"), HasSubstr("700 MB/s  9.00 us"),
                          HasSubstr("  RDMA packets: traffic class 106 (DSCP 26), service level "
                                    "0, both ways\n"),
                          HasSubstr("problem unreachable"), HasSubstr("2 problems, 0 notes")));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(to_text(job_with_a_fault(), true), HasSubstr("\033[1;31mproblem\033[0m memlock"));
}

TEST(text, of_many_ranks_is_a_summary) {
  Report report;
  for (int rank = 0; rank < 20; ++rank) {
    report.ranks.push_back(rank_on(rank, "alpha"));
    for (int low = 0; low < rank; ++low)
      report.pairs.push_back({.low = low,
                              .high = rank,
                              .line = "a Unix socket",
                              .way = "shm",
                              .latency_us = 1.0 + low,
                              .bandwidth_mb_s = 100,
                              .back_mb_s = 100,
                              .both_mb_s = 100});
  }
  EXPECT_THAT(to_text(report, false),
              AllOf(HasSubstr("host alpha (ranks 0-19)"), HasSubstr("190 pairs"),
                    HasSubstr("190 by shm: 8 B one way 1.00 / "),
                    HasSubstr("slowest: 18-19 19.00 us"), Not(HasSubstr("0 - 1"))));
}

TEST(json_object, holds_ranks_pairs_and_findings) {
  const auto whole = json::parse(to_json(job_with_a_fault()));
  EXPECT_EQ(whole["problems"], true);
  EXPECT_EQ(whole["ranks"][1]["findings"][0]["id"], "memlock");
  EXPECT_EQ(whole["ranks"][1]["findings"][0]["severity"], "problem");
  EXPECT_EQ(whole["pairs"][0]["way"], nullptr);
  EXPECT_EQ(whole["pairs"][0]["latency_us"], nullptr);
  EXPECT_EQ(whole["pairs"][0]["reads"]["checked_bytes"], nullptr);
  EXPECT_EQ(whole["pairs"][0]["calls"][0]["reason"], "Connection refused");
  EXPECT_EQ(whole["pairs"][2]["way"], "verbs");
  EXPECT_EQ(whole["pairs"][2]["latency_us"], 2.0);
  EXPECT_EQ(whole["pairs"][2]["reads"]["bandwidth_mb_s"], 700.0);
  EXPECT_EQ(whole["pairs"][2]["tcp_latency_us"], 9.0);
  EXPECT_EQ(whole["pairs"][2]["packets_from_high"]["traffic_class"], 106);
  EXPECT_EQ(whole["findings"][0]["id"], "unreachable");
}

TEST(what_ranks_send, comes_back_as_it_was) {
  const Report report = job_with_a_fault();
  EXPECT_EQ(pack(unpack_rank(pack(report.ranks[1]), 1)), pack(report.ranks[1]));
  EXPECT_EQ(pack(unpack_pairs(pack(report.pairs), 1)), pack(report.pairs));
  EXPECT_THROW(unpack_pairs("[{", 1), Error);
  EXPECT_THROW(unpack_rank("[]", 1), Error);
}

TEST(svg, has_two_squares_for_each_pair_and_says_what_they_are) {
  const std::string svg = to_svg(job_with_a_fault());
  std::size_t squares = 0;
  for (auto at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1))
    ++squares;
  EXPECT_EQ(squares, 6U);
  EXPECT_THAT(svg, AllOf(HasSubstr("0 - 1: cannot be joined"), HasSubstr("fill=\"black\""),
                         HasSubstr("1 - 2: verbs, 2.00 us, 1000 MB/s"), HasSubstr("</svg>")));
}

}  // namespace
}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
// The tool itself, in processes whose limits, kernel and networks are broken on purpose.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pty.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/two_hosts.hpp"

namespace {

using nlohmann::json;
using qpmesh::test::TwoHosts;
using testing::Contains;
using testing::HasSubstr;
using Words = std::vector<std::string>;
using Break = std::function<bool()>;  // in the child; false: this system does not let us

constexpr int not_broken = 99;  // exit code of a child that could not make its fault
constexpr int patience_s = 40;

struct Ran {
  int code = -1;
  std::string output;
  json report() const { return json::parse(output, nullptr, false); }
};

// A tool with this environment alone, after the child has broken something.
class Tool {
 public:
  Tool(const Words& command, const Words& variables, const Break& fault = {}) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) ::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::alarm(patience_s);
      Words environment{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent",
                        "QPMESH_SECRET=a secret of this test alone, long enough"};
      environment.insert(environment.end(), variables.begin(), variables.end());
      Words words = command;
      std::vector<char*> arguments;
      std::vector<char*> settings;
      for (std::string& word : words) arguments.push_back(word.data());
      for (std::string& variable : environment) settings.push_back(variable.data());
      arguments.push_back(nullptr);
      settings.push_back(nullptr);
      if (fault && !fault()) ::_exit(not_broken);
      ::execve(arguments[0], arguments.data(), settings.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  void end() const { ::kill(pid_, SIGKILL); }
  Ran wait() const {
    Ran ran;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = ::read(output_, bytes.data(), bytes.size())) > 0;)
      ran.output.append(bytes.data(), static_cast<std::size_t>(count));
    ::close(output_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ran;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

std::string doctor() { return QPMESH_BINARY_DIR "/bin/qpmesh-doctor"; }
std::string launcher() { return QPMESH_BINARY_DIR "/bin/qpmesh-run"; }

Ran examine(const Words& variables, const Break& fault = {}) {
  return Tool{{doctor(), "--json"}, variables, fault}.wait();
}

json finding(const json& findings, const std::string& id) {
  for (const json& each : findings)
    if (each["id"] == id) return each;
  return {};
}

// The finding of a host; null where there is none.
json found_in(const Ran& ran, const std::string& id) {
  return finding(ran.report()["ranks"][0]["findings"], id);
}

// Skips a test whose fault this system does not let us make.
#define EXPECT_FOUND(ran, id, severity, what, mend)                               \
  if ((ran).code == not_broken) GTEST_SKIP() << "this fault cannot be made here"; \
  expect_found(ran, id, severity, what, mend)

void expect_found(const Ran& ran, const std::string& id, const std::string& severity,
                  const std::string& what, const std::string& mend) {
  const json found = found_in(ran, id);
  ASSERT_FALSE(found.is_null()) << ran.output;
  EXPECT_EQ(found["severity"], severity);
  EXPECT_THAT(found["what"].get<std::string>(), HasSubstr(what));
  EXPECT_THAT(found["mend"].get<std::string>(), HasSubstr(mend));
  if (severity == "problem") {
    EXPECT_EQ(ran.code, 1);
  }
}

bool limit(decltype(RLIMIT_NOFILE) which, rlim_t value) {
  rlimit both{value, value};
  // An emulator says yes and keeps a limit of memory to itself.
  return ::setrlimit(which, &both) == 0 && ::getrlimit(which, &both) == 0 && both.rlim_cur == value;
}

bool refuse(long call, int error) {
  std::array<sock_filter, 4> program{
      {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// In a child that has one thread. What it says goes with the test's own words.
bool shell_does(const std::string& commands) {
  return std::system(("exec >&2; " + commands).c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
}

// A network of this process's own, in which a shell does the rest.
Break network(const std::string& commands) {
  return [commands] { return ::unshare(CLONE_NEWNET) == 0 && shell_does(commands); };
}

const std::string cable =
    "ip link set lo up && ip link add cable type veth peer name far && ip addr add 10.77.0.1/24 "
    "dev "
    "cable && ip link set cable up && ip link set far up";

// Packets of such ports end here as in a firewall that says nothing; the rule for own addresses has
// to stand behind.
std::string blackhole(const std::string& selector) {
  return "ip rule add pref 100 lookup local && ip rule add pref 50 " + selector +
         " blackhole && ip rule del pref 0";
}

TEST(doctor_tool, tells_a_limit_of_locked_memory) {
  const Ran ran = examine({"QPMESH_DEVICE=rxe0"}, [] {
    ::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);  // root's exec would have it again
    return limit(RLIMIT_MEMLOCK, 65536);
  });
  EXPECT_FOUND(ran, "memlock", "problem", "may lock 64 KiB", "ulimit -l unlimited");
}

TEST(doctor_tool, tells_a_limit_of_open_files) {
  const Ran ran = examine({}, [] { return limit(RLIMIT_NOFILE, 64); });
  EXPECT_FOUND(ran, "open_files", "problem", "64 files", "ulimit -n 65536");
}

TEST(doctor_tool, tells_a_limit_of_file_size) {
  const Ran files = examine({}, [] { return limit(RLIMIT_FSIZE, 1 << 20); });
  EXPECT_FOUND(files, "file_size", "problem", "1 MiB", "ulimit -f unlimited");
}

TEST(doctor_tool, tells_a_limit_of_address_space) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more address space than the limit";
#endif
  const Ran space = examine({}, [] { return limit(RLIMIT_AS, rlim_t{4} << 30); });
  EXPECT_FOUND(space, "address_space", "problem", "4096 MiB", "ulimit -v unlimited");
}

TEST(doctor_tool, tells_system_calls_that_are_refused) {
  const Ran memfd = examine({}, [] { return refuse(SYS_memfd_create, EPERM); });
  EXPECT_FOUND(memfd, "memfd", "problem",
               "Operation not permitted; system calls of this process "
               "are filtered (seccomp)",
               "seccomp=unconfined");
  const Ran read = examine({}, [] { return refuse(SYS_process_vm_readv, EPERM); });
  EXPECT_FOUND(read, "neighbour_memory", "problem", "process_vm_readv", "SYS_PTRACE");
  const Ran pidfd = examine({}, [] { return refuse(SYS_pidfd_open, ENOSYS); });
  EXPECT_FOUND(pidfd, "pidfd", "problem", "Function not implemented", "kernel from 5.3");
}

TEST(doctor_tool, tells_that_loopback_is_down_and_that_there_is_no_address) {
  const Ran ran = examine({}, network("true"));
  EXPECT_FOUND(ran, "loopback_down", "problem", "lo is down", "ip link set lo up");
  EXPECT_FOUND(ran, "no_address", "note", "has an address for other hosts", "ip address add");
}

TEST(doctor_tool, finds_no_problem_in_a_network_that_is_well) {
  const Ran ran = examine({}, network(cable));
  if (ran.code == not_broken) GTEST_SKIP() << "no network namespaces here";
  for (const char* const id :
       {"loopback_down", "no_address", "link_down", "own_address", "small_mtu"})
    EXPECT_TRUE(found_in(ran, id).is_null()) << ran.output;
}

TEST(doctor_tool, tells_a_link_that_is_down) {
  const Ran ran = examine({}, network(cable + " && ip link set cable down"));
  EXPECT_FOUND(ran, "link_down", "problem", "cable is down", "ip link set cable up");
}

TEST(doctor_tool, tells_a_link_without_carrier) {
  const Ran ran = examine({}, network(cable + " && ip link set far down"));
  EXPECT_FOUND(ran, "link_down", "problem", "cable is up and has no carrier", "ethtool cable");
}

TEST(doctor_tool, tells_a_small_mtu) {
  const Ran ran = examine({}, network(cable + " && ip link set cable mtu 576"));
  EXPECT_FOUND(ran, "small_mtu", "problem", "576 bytes", "ip link set cable mtu 1500");
}

TEST(doctor_tool, tells_two_interfaces_of_one_network) {
  const Ran ran = examine({}, network(cable + " && ip addr add 10.77.0.2/24 dev far"));
  EXPECT_FOUND(ran, "shared_subnet", "note", "10.77.0.0/24", "arp_ignore=1");
}

TEST(doctor_tool, tells_an_own_address_that_a_firewall_keeps) {
  const Ran ran = examine({}, network(cable + " && " + blackhole("to 10.77.0.1 ipproto tcp")));
  EXPECT_FOUND(ran, "own_address", "problem",
               "TCP to this host's own address 10.77.0.1: ", "ip route get 10.77.0.1");
}

TEST(doctor_tool, tells_limits_of_tcp_that_are_low) {
  const Ran ran =
      examine({}, network(cable + " && echo '4096 131072 1048576' >/proc/sys/net/ipv4/tcp_rmem && "
                                  "echo '4096 16384 4194304' >/proc/sys/net/ipv4/tcp_wmem"));
  EXPECT_FOUND(ran, "socket_buffers", "note", "net.ipv4.tcp_rmem ends at 1 MiB",
               "sysctl -w net.ipv4.tcp_rmem=");
}

TEST(doctor_tool, tells_an_interface_that_is_not_there) {
  const Ran ran = examine({"QPMESH_NETDEV=nowhere"}, network(cable));
  EXPECT_FOUND(ran, "no_such_interface", "problem", "there are: lo, ",
               "export QPMESH_NETDEV=cable");
}

TEST(doctor_tool, tells_a_network_that_no_interface_is_in) {
  const Ran ran = examine({"QPMESH_SUBNET=10.9.0.0/16"}, network(cable));
  EXPECT_FOUND(ran, "no_such_network", "problem", "QPMESH_SUBNET is '10.9.0.0/16'",
               "unset QPMESH_SUBNET");
}

TEST(doctor_tool, tells_a_host_name_that_is_loopback) {
  const Ran ran = examine({}, [] {
    return ::unshare(CLONE_NEWUTS) == 0 && ::sethostname("localhost", 9) == 0 && network(cable)();
  });
  EXPECT_FOUND(ran, "host_name", "note", "localhost resolves to ",
               "export QPMESH_ROOT=10.77.0.1:29500");
}

TEST(doctor_tool, tells_what_it_found_here_where_it_meets_nobody) {
  const Break named_localhost = [] {
    return ::unshare(CLONE_NEWUTS) == 0 && ::sethostname("localhost", 9) == 0 && network(cable)();
  };
  const Ran ran = Tool{{"/bin/sh", "-c", doctor() + " 2>&1"},
                       {"QPMESH_RANK=1", "QPMESH_SIZE=2", "QPMESH_ROOT=10.77.0.1:29500",
                        "QPMESH_INIT_TIMEOUT_MS=500"},
                       named_localhost}
                      .wait();
  if (ran.code == not_broken) GTEST_SKIP() << "this fault cannot be made here";
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("rank 1 did not reach rank 0 at 10.77.0.1:29500"));
  EXPECT_THAT(ran.output, HasSubstr("note host_name: the host name localhost resolves to "));
}

TEST(doctor_tool, tells_a_meeting_place_that_cannot_be_found) {
  const Ran ran = examine({"QPMESH_ROOT=no-such-host.invalid:4000"}, network(cable));
  EXPECT_FOUND(ran, "root", "problem", "no-such-host.invalid, which has no address", "/etc/hosts");
}

TEST(doctor_tool, tells_a_device_and_a_module_that_are_missing) {
  const Ran ran = examine({"QPMESH_DEVICE=none"});
  const json seen = found_in(ran, "rdma_choice");
  ASSERT_FALSE(seen.is_null()) << ran.output;
  EXPECT_EQ(ran.code, 1);
  if (::access("/sys/class/infiniband", F_OK) == 0) return;  // the module is not missing
  EXPECT_FOUND(ran, "rdma_module", "problem", "rdma_rxe", "rdma link add rxe0 type rxe netdev");
}

TEST(doctor_tool, tells_that_it_was_built_without_verbs) {
  const Ran ran = Tool{{QPMESH_DOCTOR_WITHOUT_VERBS, "--json"}, {"QPMESH_REQUIRE=rdma"}}.wait();
  EXPECT_FOUND(ran, "rdma_build", "problem", "this build of qpmesh has no verbs",
               "apt-get install libibverbs-dev");
}

TEST(doctor_tool, tells_a_variable_that_nothing_reads) {
  const Ran ran = examine({"QPMESH_TRANSPROT=tcp"});
  EXPECT_FOUND(ran, "unknown_variable", "problem", "QPMESH_TRANSPROT", "options.md");
}

TEST(doctor_tool, tells_a_secret_that_cannot_be_read) {
  const Ran ran = examine({"QPMESH_SECRET_FILE=/nonexistent/secret"});
  EXPECT_FOUND(ran, "secret", "problem", "/nonexistent/secret", "chmod 600 FILE");
}

TEST(doctor_tool, cannot_run_with_an_option_that_cannot_be_read) {
  EXPECT_EQ(examine({"QPMESH_TRANSPORT=pigeons"}).code, 2);
  EXPECT_EQ((Tool{{doctor(), "--nonsense"}, {}}.wait().code), 2);
}

TEST(doctor_tool, colours_nothing_that_is_no_terminal) {
  const Ran ran = Tool{{doctor()}, {}}.wait();
  EXPECT_THAT(ran.output, HasSubstr("host "));
  EXPECT_THAT(ran.output, testing::Not(HasSubstr("\033")));
}

TEST(doctor_tool, could_not_run_where_its_report_is_lost) {
  const Ran ran = examine({}, [] {
    const int full = ::open("/dev/full", O_WRONLY);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    return full >= 0 && ::dup2(full, STDOUT_FILENO) >= 0;
  });
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.output, "qpmesh-doctor: the report cannot be written: No space left on device\n");
}

TEST(doctor_tool, refuses_variables_that_a_job_would_refuse) {
  for (const std::string setting :
       {"QPMESH_PORTS=9-5", "QPMESH_ALGORITHMS=allreduce=none", "QPMESH_SUBNET=x"}) {
    const Ran ran = examine({setting}, [] { return ::dup2(STDOUT_FILENO, STDERR_FILENO) >= 0; });
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(setting.substr(0, setting.find('='))));
  }
}

TEST(doctor_tool, colours_what_a_terminal_shows_unless_it_is_asked_not_to) {
  const auto shown = [](const char* variable) {
    int terminal = -1;
    const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid == 0) {
      const std::string path = doctor();
      const std::array<const char*, 4> environment{"PATH=/usr/bin:/bin", "HOME=/nonexistent",
                                                   variable, nullptr};
      const std::array<const char*, 2> arguments{path.c_str(), nullptr};
      ::execve(path.c_str(), const_cast<char* const*>(arguments.data()),
               const_cast<char* const*>(environment.data()));
      ::_exit(127);
    }
    std::string text;
    std::array<char, 4096> bytes{};
    for (ssize_t count = 0; (count = ::read(terminal, bytes.data(), bytes.size())) > 0;)
      text.append(bytes.data(), static_cast<std::size_t>(count));
    ::close(terminal);
    ::waitpid(pid, nullptr, 0);
    return text;
  };
  EXPECT_THAT(shown("A=b"), HasSubstr("\033[1mhost "));
  EXPECT_THAT(shown("NO_COLOR=1"),
              testing::AllOf(HasSubstr("host "), testing::Not(HasSubstr("\033"))));
}

// ---- pairs ----

json found_in_job(const Ran& ran, const std::string& id) {
  return finding(ran.report()["findings"], id);
}

void expect(const Ran& ran, const std::string& id, const std::string& what,
            const std::string& mend) {
  const json seen = found_in_job(ran, id);
  ASSERT_FALSE(seen.is_null()) << ran.output;
  EXPECT_THAT(seen["what"].get<std::string>(), HasSubstr(what));
  EXPECT_THAT(seen["mend"].get<std::string>(), HasSubstr(mend));
  EXPECT_EQ(ran.code, 1);
}

TEST(doctor_job, tries_every_pair_and_draws_them) {
  const std::string svg = testing::TempDir() + "doctor_job.svg";
  const Ran ran = Tool{{launcher(), "-np", "3", doctor(), "--json", "--svg", svg}, {}}.wait();
  const json report = ran.report();
  ASSERT_TRUE(report.is_object()) << ran.output;
  ASSERT_EQ(report["pairs"].size(), 3U);
  EXPECT_EQ(report["ranks"].size(), 3U);
  for (const json& pair : report["pairs"]) {
    EXPECT_EQ(pair["way"], "shm");
    EXPECT_EQ(pair["wrong_bytes"], 0);
    EXPECT_GT(pair["checked_bytes"], 1'000'000);
    EXPECT_GT(pair["latency_us"], 0);
    for (const char* const rate : {"bandwidth_mb_s", "back_mb_s", "both_mb_s"})
      EXPECT_GT(pair[rate], 0) << rate;
  }
  EXPECT_EQ(::access(svg.c_str(), R_OK), 0);
  ::unlink(svg.c_str());
}

TEST(doctor_job, asks_for_address_space_for_all_ranks_of_the_host) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more address space than the limit";
#endif
  const auto enough_for_one = [] { return limit(RLIMIT_AS, rlim_t{100} << 30); };
  const Ran ran = Tool{{launcher(), "-np", "2", doctor(), "--json"}, {}, enough_for_one}.wait();
  EXPECT_FOUND(ran, "address_space", "problem", "and these are 2", "ulimit -v unlimited");
}

TEST(doctor_job, tells_more_ranks_than_cores) {
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (cores > 32) GTEST_SKIP() << "a rank for each core and one more takes too long here";
  const std::string ranks = std::to_string(cores + 1);
  const Ran ran = Tool{{launcher(), "-np", ranks, doctor(), "--json"}, {}}.wait();
  EXPECT_FOUND(ran, "cores", "note", ranks + " ranks of this host share ", "qpmesh-run --hosts a:");
}

TEST(doctor_job, of_a_forced_transport_tries_that) {
  const Ran ran =
      Tool{{launcher(), "-np", "2", doctor(), "--json"}, {"QPMESH_TRANSPORT=tcp"}}.wait();
  ASSERT_TRUE(ran.report().is_object()) << ran.output;
  EXPECT_EQ(ran.report()["pairs"][0]["way"], "tcp");
}

TEST(doctor_job, tells_bytes_that_change_behind_the_checksum) {
  const Ran ran = Tool{{launcher(), "-np", "2", doctor(), "--json"},
                       {"QPMESH_TRANSPORT=tcp", "LD_PRELOAD=" QPMESH_SPOILED_RECEIVE,
                        "ASAN_OPTIONS=verify_asan_link_order=0"}}
                      .wait();
  expect(ran, "wrong_bytes", "by tcp came back wrong", "do not use this pair");
  EXPECT_EQ(found_in_job(ran, "wrong_bytes")["severity"], "problem");
}

// One rank on each of two hosts.
class DoctorOnTwoHosts : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
  }

  // What rank 0 prints; empty where a command that breaks the network fails. commands: on host 0.
  Ran examine_both(const std::string& commands, const Words& variables = {}) {
    const auto start = [&](int rank) {
      Words all{"QPMESH_RANK=" + std::to_string(rank), "QPMESH_SIZE=2", "QPMESH_JOB=doctor",
                "QPMESH_LOCAL_SIZE=1",
                std::string{"QPMESH_ROOT="} + TwoHosts::addresses[0] + ":4000"};
      all.insert(all.end(), variables.begin(), variables.end());
      return Tool{{doctor(), "--json"}, all, [&, rank] {
                    hosts_.enter(rank);
                    return rank == 1 || commands.empty() || shell_does(commands);
                  }};
    };
    const Tool first = start(0);
    const Tool second = start(1);
    Ran ran = first.wait();
    if (ran.code == not_broken) {
      second.end();
      second.wait();
      return ran;
    }
    EXPECT_EQ(second.wait().code, 0);
    return ran;
  }

  TwoHosts hosts_;
};

TEST_F(DoctorOnTwoHosts, says_what_keeps_them_apart_and_measures_tcp) {
  const Ran ran = examine_both("");
  expect(ran, "apart", "network namespaces", "docker run --network=host");
  const json pair = ran.report()["pairs"][0];
  EXPECT_EQ(pair["way"], "tcp");
  for (const json& refused : pair["refused"]) {
    EXPECT_EQ(refused["why"].get<std::string>().find("they differ") != std::string::npos,
              refused["way"] == "shm")
        << ran.output;
  }
  EXPECT_EQ(pair["line"], TwoHosts::addresses[0]);
  EXPECT_EQ(pair["wrong_bytes"], 0);
  EXPECT_EQ(pair["from_low"]["arrived_bytes_max"], 1500);
  EXPECT_EQ(pair["from_high"]["arrived_bytes_max"], 1500);
  for (const char* const id : {"path_mtu", "roce_port", "no_datagrams", "unreachable_address"})
    EXPECT_TRUE(found_in_job(ran, id).is_null()) << ran.output;
}

TEST_F(DoctorOnTwoHosts, names_the_direction_that_is_slow) {
  hosts_.tc(0, {"qdisc", "add", "dev", "cable", "root", "tbf", "rate", "100mbit", "burst", "64kb",
                "latency", "50ms"});
  if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
  const Ran ran = examine_both("");
  expect(ran, "slow_direction", "MB/s go from rank 0", "tc qdisc show dev INTERFACE");
}

TEST_F(DoctorOnTwoHosts, names_ranks_that_meet_and_nothing_joins) {
  const Ran ran = examine_both("", {"QPMESH_TRANSPORT=shm"});
  expect(ran, "not_joined", "meet and cannot be joined", "QPMESH_TRANSPORT");
  EXPECT_EQ(ran.report()["pairs"][0]["way"], nullptr) << ran.output;
}

TEST_F(DoctorOnTwoHosts, names_an_address_that_no_route_leads_to) {
  hosts_.ip(0, {"addr", "add", "10.99.0.1/32", "dev", "lo"});
  ASSERT_EQ(hosts_.problem(), "");
  const Ran ran = examine_both("");
  expect(ran, "unreachable_address", "10.99.0.1 of lo", "export QPMESH_SUBNET");
  EXPECT_THAT(found_in_job(ran, "unreachable_address")["what"].get<std::string>(),
              HasSubstr("Network is unreachable"));
  EXPECT_EQ(found_in_job(ran, "unreachable_address")["severity"], "note") << "another comes first";
  EXPECT_EQ(ran.report()["pairs"][0]["way"], "tcp") << "the others go on";
}

TEST_F(DoctorOnTwoHosts, is_silent_about_a_network_of_containers_that_both_have) {
  for (const int host : {0, 1}) {
    hosts_.ip(host, {"link", "add", "docker0", "type", "veth", "peer", "name", "inside"});
    hosts_.ip(host, {"addr", "add", "172.17.0.1/16", "dev", "docker0"});
    for (const char* const end : {"docker0", "inside"}) hosts_.ip(host, {"link", "set", end, "up"});
  }
  ASSERT_EQ(hosts_.problem(), "");
  const Ran ran = examine_both("");
  EXPECT_TRUE(found_in_job(ran, "unreachable_address").is_null()) << ran.output;
  EXPECT_EQ(ran.report()["pairs"][0]["line"], TwoHosts::addresses[0]);
}

// The caller has an address of the other host itself, and who listens there says nothing.
TEST_F(DoctorOnTwoHosts, go_on_to_the_next_address_where_somebody_else_answers) {
  for (const int host : {0, 1}) {
    hosts_.ip(host, {"addr", "add", "10.56.9.9/32", "dev", "lo"});
    hosts_.ip(host, {"addr", "add", fmt::format("10.56.0.{}/24", host + 1), "dev", "cable"});
  }
  ASSERT_EQ(hosts_.problem(), "");
  std::vector<qpmesh::base::UniqueFd> silent;
  std::thread{[&] {
    hosts_.enter(1);
    for (std::uint16_t port = 5000; port <= 5007; ++port) {
      sockaddr_in here{};
      here.sin_family = AF_INET;
      here.sin_port = htons(port);
      ASSERT_EQ(::inet_pton(AF_INET, "10.56.9.9", &here.sin_addr), 1);
      auto& socket = silent.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here), 0);
      ASSERT_EQ(::listen(socket.get(), 8), 0);
    }
  }}.join();
  const Ran ran = examine_both("", {"QPMESH_SUBNET=10.56.0.0/16", "QPMESH_PORTS=5000-5007"});
  expect(ran, "unreachable_address", "10.56.9.9 of lo", "export QPMESH_SUBNET");
  EXPECT_EQ(found_in_job(ran, "unreachable_address")["severity"], "problem");
  EXPECT_EQ(ran.report()["pairs"][0]["line"], "10.56.0.1");
  EXPECT_EQ(ran.report()["pairs"][0]["way"], "tcp") << ran.output;
}

TEST_F(DoctorOnTwoHosts, is_silent_about_addresses_that_are_not_used) {
  hosts_.ip(0, {"addr", "add", "10.99.0.1/32", "dev", "lo"});
  ASSERT_EQ(hosts_.problem(), "");
  EXPECT_TRUE(found_in_job(examine_both("", {"QPMESH_SUBNET=10.77.0.0/16"}), "unreachable_address")
                  .is_null());
}

TEST_F(DoctorOnTwoHosts, names_the_packets_that_the_path_does_not_carry) {
  hosts_.ip(1, {"link", "set", "cable", "mtu", "1300"});
  ASSERT_EQ(hosts_.problem(), "");
  expect(examine_both(""), "path_mtu", "those of 1500, which its interface cable takes, do not",
         "ip link set cable mtu 1280");
}

// As where hosts are known by an address of their own, to which routes lead by several interfaces.
TEST_F(DoctorOnTwoHosts, measures_packets_by_the_interface_that_sends_them) {
  for (const int host : {0, 1}) {
    const std::size_t other = host == 0 ? 1 : 0;
    hosts_.ip(host, {"addr", "add", fmt::format("10.99.0.{}/32", host + 1), "dev", "lo"});
    hosts_.ip(host, {"route", "add", fmt::format("10.99.0.{}/32", other + 1), "via",
                     TwoHosts::addresses[other]});
  }
  ASSERT_EQ(hosts_.problem(), "");
  const Words by_lo{"QPMESH_SUBNET=10.99.0.0/16"};
  const Ran well = examine_both("", by_lo);
  EXPECT_TRUE(found_in_job(well, "path_mtu").is_null()) << well.output;
  EXPECT_EQ(well.report()["pairs"][0]["line"], "10.99.0.1");
  EXPECT_EQ(well.report()["pairs"][0]["from_low"]["sent_bytes_max"], 1500);
  EXPECT_EQ(well.report()["pairs"][0]["from_low"]["arrived_bytes_max"], 1500);
  hosts_.ip(1, {"link", "set", "cable", "mtu", "1300"});
  ASSERT_EQ(hosts_.problem(), "");
  expect(examine_both("", by_lo), "path_mtu", "those of 1500, which its interface takes, do not",
         "ip link set INTERFACE mtu 1280");
}

TEST_F(DoctorOnTwoHosts, excludes_rdma_where_messages_are_to_be_encrypted) {
  const Ran ran = examine_both("", {"QPMESH_ENCRYPT=yes"});
  const json pair = ran.report()["pairs"][0];
  EXPECT_EQ(pair["way"], "tcp") << ran.output;
  const auto verbs = std::ranges::find_if(pair["refused"],
                                          [](const json& each) { return each["way"] == "verbs"; });
  ASSERT_NE(verbs, pair["refused"].end()) << ran.output;
  EXPECT_EQ((*verbs)["why"], "QPMESH_ENCRYPT=yes");
}

TEST_F(DoctorOnTwoHosts, says_that_no_datagram_leaves_a_host_that_forbids_them) {
  const Ran ran = examine_both("ip rule add pref 50 to 10.77.0.2 ipproto udp prohibit");
  if (ran.code == not_broken) GTEST_SKIP() << "no rules of routing here";
  expect(ran, "no_datagrams", "from rank 0", "iptables");
}

TEST_F(DoctorOnTwoHosts, names_udp_port_4791_where_a_firewall_drops_it) {
  const Ran ran = examine_both(blackhole("iif cable ipproto udp dport 4791"));
  if (ran.code == not_broken) GTEST_SKIP() << "no rules of routing here";
  expect(ran, "roce_port", "from rank 1", "--dport 4791 -j ACCEPT");
}

TEST_F(DoctorOnTwoHosts, names_addresses_and_errors_where_a_firewall_drops_the_ports_of_ranks) {
  const Ran ran =
      examine_both(blackhole("iif cable ipproto tcp dport 5000-5007"), {"QPMESH_PORTS=5000-5007"});
  if (ran.code == not_broken) GTEST_SKIP() << "no rules of routing here";
  expect(ran, "unreachable", "rank 1 (on ", "--dport 4000:4999");
  EXPECT_THAT(found_in_job(ran, "unreachable")["what"].get<std::string>(),
              testing::ContainsRegex("tried 10.77.0.1:500[0-7] .Connection timed out."));
  EXPECT_EQ(ran.report()["pairs"][0]["way"], nullptr);
}

}  // namespace

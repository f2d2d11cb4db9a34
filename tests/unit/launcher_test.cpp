// SPDX-License-Identifier: MIT
// Who we are by the environments of the five launchers: Open MPI 4.1.4 and Hydra 4.0.2 as recorded
// here, srun and torchrun by their documentation.
#include "bootstrap/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/owned.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/another_user.hpp"
#include "tests/support/expected_error.hpp"

namespace qpmesh::bootstrap {
namespace {

using ::testing::MatchesRegex;
using Table = std::map<std::string, std::string, std::less<>>;

// mpirun --oversubscribe -np 2 env
const Table open_mpi{{"OMPI_APP_CTX_NUM_PROCS", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                     {"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_MCA_ess_base_jobid", "2014838785"},
                     {"OMPI_MCA_ess_base_vpid", "1"},
                     {"OMPI_MCA_mpi_oversubscribe", "0"},
                     {"OMPI_MCA_orte_ess_num_procs", "2"},
                     {"OMPI_MCA_orte_precondition_transports", "43fd78d255588b05-2d11d04c35cdbfa0"},
                     {"OMPI_UNIVERSE_SIZE", "2"},
                     {"PMIX_HOSTNAME", "vm"},
                     {"PMIX_ID", "2014838785.1"},
                     {"PMIX_NAMESPACE", "2014838785"},
                     {"PMIX_RANK", "1"},
                     {"PMIX_SECURITY_MODE", "native"}};

// mpiexec.mpich -n 2 env; the test adds PMI_FD
const Table hydra{{"GFORTRAN_UNBUFFERED_PRECONNECTED", "y"},
                  {"HYDI_CONTROL_FD", "7"},
                  {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "vm"},
                  {"MPI_LOCALNRANKS", "2"},
                  {"MPI_LOCALRANKID", "1"},
                  {"PMI_RANK", "1"},
                  {"PMI_SIZE", "2"}};

// srun --nodes=3 --ntasks=5: two tasks on the first two nodes each, one on the third; as task 4
// sees it
const Table srun{{"SLURM_JOB_ID", "4242"},
                 {"SLURM_STEP_ID", "0"},
                 {"SLURM_STEPID", "0"},
                 {"SLURM_PROCID", "4"},
                 {"SLURM_LOCALID", "0"},
                 {"SLURM_NODEID", "2"},
                 {"SLURM_NTASKS", "5"},
                 {"SLURM_NPROCS", "5"},
                 {"SLURM_STEP_NUM_TASKS", "5"},
                 {"SLURM_STEP_NUM_NODES", "3"},
                 {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                 {"SLURM_TASKS_PER_NODE", "2(x2),1"},
                 {"SLURM_JOB_NUM_NODES", "3"}};

// torchrun --nnodes=2 --nproc-per-node=2, second node
const Table torchrun{{"RANK", "3"},
                     {"WORLD_SIZE", "4"},
                     {"LOCAL_RANK", "1"},
                     {"LOCAL_WORLD_SIZE", "2"},
                     {"GROUP_RANK", "1"},
                     {"MASTER_ADDR", "10.0.0.1"},
                     {"MASTER_PORT", "29500"},
                     {"TORCHELASTIC_RUN_ID", "none"},
                     {"TORCHELASTIC_RESTART_COUNT", "0"}};

Environment environment(Table table) {
  return [table = std::move(table)](std::string_view name) -> std::optional<std::string> {
    const auto entry = table.find(name);
    if (entry == table.end()) return std::nullopt;
    return entry->second;
  };
}

Table with(Table table, const Table& more, const std::vector<std::string>& without = {}) {
  for (const auto& [name, value] : more) table[name] = value;
  for (const auto& name : without) table.erase(name);
  return table;
}

Identity identify_in(const Table& table) { return identify(environment(table)); }

// The error is bad_config of init, blames no rank, and has exactly these texts.
void expect_error(const Table& table, const std::string& cause, const std::string& hint,
                  int system_error = 0) {
  try {
    identify_in(table);
    ADD_FAILURE() << "no error, expected \"" << cause << '"';
  } catch (const Error& error) {
    EXPECT_EQ(test::difference(error, {.code = ErrorCode::bad_config,
                                       .operation = "init",
                                       .cause = cause,
                                       .hint = hint,
                                       .system_error = system_error}),
              "");
  }
}

void expect_place(const Identity& identity, const std::string& launcher, int rank, int size,
                  int local_size) {
  EXPECT_EQ(identity.launcher, launcher);
  static const Table size_variables{{"open_mpi", "OMPI_COMM_WORLD_SIZE"},
                                    {"hydra", "PMI_SIZE"},
                                    {"srun", "SLURM_STEP_NUM_TASKS"},
                                    {"torchrun", "WORLD_SIZE"},
                                    {"qpmesh", "QPMESH_SIZE"},
                                    {"alone", ""}};
  EXPECT_EQ(identity.size_variable, size_variables.at(launcher));
  EXPECT_EQ(identity.rank, rank);
  EXPECT_EQ(identity.size, size);
  EXPECT_EQ(identity.local_size, local_size);
}

const std::string long_secret = "0123456789abcdef0123456789abcdef";

TEST(launcher, alone_when_nothing_is_said) {
  const Identity identity =
      identify_in({{"PATH", "/bin"}, {"RANK", "3"}, {"SLURM_JOB_ID", "1"}, {"SLURM_NTASKS", "4"}});
  expect_place(identity, "alone", 0, 1, 1);
  EXPECT_TRUE(identity.root.empty());
  EXPECT_TRUE(identity.secret.value.empty());
}

TEST(launcher, reads_open_mpi_on_one_host_without_a_secret) {
  const Identity identity = identify_in(open_mpi);
  expect_place(identity, "open_mpi", 1, 2, 2);
  EXPECT_EQ(identity.job, "2014838785");
  EXPECT_TRUE(identity.root.empty());
  EXPECT_TRUE(identity.secret.value.empty());
}

TEST(launcher, takes_open_mpi_s_key_of_the_job_when_the_ranks_meet_over_tcp) {
  const Identity identity = identify_in(
      with(open_mpi, {{"QPMESH_ROOT", "node1:4000"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}));
  expect_place(identity, "open_mpi", 1, 2, 1);
  EXPECT_EQ(identity.root, "node1:4000");
  EXPECT_EQ(identity.secret.value, "43fd78d255588b05-2d11d04c35cdbfa0");
  EXPECT_EQ(identity.secret.source, "OMPI_MCA_orte_precondition_transports");
}

TEST(launcher, reads_hydra_and_names_the_job_by_the_process_that_made_its_socket) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const base::UniqueFd one{ends[0]};
  const base::UniqueFd two{ends[1]};
  const Identity identity = identify_in(with(hydra, {{"PMI_FD", std::to_string(ends[0])}}));
  expect_place(identity, "hydra", 1, 2, 2);
  EXPECT_THAT(identity.job, MatchesRegex(fmt::format("hydra-{}-[0-9]+", ::getpid())));
  EXPECT_EQ(identify_in(with(hydra, {{"PMI_FD", std::to_string(ends[1])}})).job, identity.job);
}

TEST(launcher, asks_for_a_job_name_when_hydra_s_socket_is_gone) {
  const base::UniqueFd file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  for (const Table& table : {hydra, with(hydra, {{"PMI_FD", "1048576"}}),
                             with(hydra, {{"PMI_FD", std::to_string(file.get())}})}) {
    expect_error(table, "hydra says that we are one of 2 ranks, but nothing names the job",
                 "set QPMESH_JOB to a name of this job, the same on every rank");
  }
  EXPECT_EQ(identify_in(with(hydra, {{"QPMESH_JOB", "mine"}})).job, "mine");
  EXPECT_EQ(identify_in(with(hydra, {{"QPMESH_ROOT", "a:1"}, {"QPMESH_SECRET", long_secret}})).job,
            "hydra");
}

TEST(launcher, reads_srun_with_the_tasks_of_its_node) {
  const Table root{{"QPMESH_ROOT", "node1:4000"}, {"QPMESH_SECRET", long_secret}};
  const Identity identity = identify_in(with(srun, root));
  expect_place(identity, "srun", 4, 5, 1);
  EXPECT_EQ(identity.job, "slurm-4242.0");
  EXPECT_EQ(identify_in(with(srun, with(root, {{"SLURM_NODEID", "1"}}))).local_size, 2);
  const Table one_node{{"SLURM_STEP_TASKS_PER_NODE", "5"}, {"SLURM_NODEID", "0"}};
  const Identity here = identify_in(with(srun, one_node));
  expect_place(here, "srun", 4, 5, 5);
  EXPECT_TRUE(here.root.empty());
  EXPECT_EQ(identify_in(with(srun, {{"SLURM_NTASKS_PER_NODE", "5"}},
                             {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}))
                .local_size,
            5);
}

TEST(launcher, takes_a_batch_script_of_slurm_for_a_process_alone) {
  expect_place(identify_in(with(srun, {{"SLURM_PROCID", "0"}}, {"SLURM_STEP_ID", "SLURM_STEPID"})),
               "alone", 0, 1, 1);
  expect_place(identify_in(with(srun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}})),
               "alone", 0, 1, 1);
}

TEST(launcher, reads_torchrun_and_keeps_off_the_port_of_its_store) {
  const Identity identity = identify_in(with(torchrun, {{"QPMESH_SECRET", long_secret}}));
  expect_place(identity, "torchrun", 3, 4, 2);
  EXPECT_EQ(identity.root, "10.0.0.1:24651");
  EXPECT_EQ(identity.job, "torchrun-10.0.0.1-29500-none-0");
  const Identity here = identify_in(with(torchrun, {{"LOCAL_WORLD_SIZE", "4"}}));
  expect_place(here, "torchrun", 3, 4, 4);
  EXPECT_TRUE(here.root.empty());
  for (int port = 1; port <= 65'535; port += 97) {
    const Identity one = identify_in(
        with(torchrun, {{"QPMESH_SECRET", long_secret}, {"MASTER_PORT", std::to_string(port)}}));
    const int ours = std::stoi(one.root.substr(one.root.find(':') + 1));
    ASSERT_NE(ours, port);
    ASSERT_GE(ours, 10'000);
    ASSERT_LT(ours, 32'768);
  }
}

TEST(launcher, puts_an_ipv6_master_into_brackets) {
  const Identity identity =
      identify_in(with(torchrun, {{"QPMESH_SECRET", long_secret}, {"MASTER_ADDR", "fe80::1"}}));
  EXPECT_EQ(identity.root, "[fe80::1]:24651");
}

TEST(launcher, reads_its_own_variables_before_all_others) {
  const Table own{{"QPMESH_RANK", "2"}, {"QPMESH_SIZE", "3"}};
  for (const Table& other : {Table{}, open_mpi, hydra, srun, torchrun}) {
    const Identity identity = identify_in(with(other, own));
    expect_place(identity, "qpmesh", 2, 3, 3);
    EXPECT_EQ(identity.job, "default");
  }
  expect_place(identify_in(with(with(open_mpi, srun), torchrun)), "open_mpi", 1, 2, 2);
  expect_place(identify_in(with(with(hydra, with(srun, torchrun)), {{"QPMESH_JOB", "a"}})), "hydra",
               1, 2, 2);
  expect_place(identify_in(with(with(srun, torchrun), {{"SLURM_STEP_TASKS_PER_NODE", "2,2,1"},
                                                       {"QPMESH_ROOT", "a:1"},
                                                       {"QPMESH_SECRET", long_secret}})),
               "srun", 4, 5, 1);
  // srun with a PMI plugin sets PMI's variables as well, but is not Hydra.
  expect_place(identify_in(with(srun, {{"PMI_RANK", "4"},
                                       {"PMI_SIZE", "5"},
                                       {"QPMESH_ROOT", "a:1"},
                                       {"QPMESH_SECRET", long_secret}})),
               "srun", 4, 5, 1);
}

TEST(launcher, meets_on_the_first_node_of_srun) {
  const auto root_of = [](const std::string& nodes, const Table& more = {}) {
    return identify_in(with(with(srun, {{"QPMESH_SECRET", long_secret},
                                        {"SLURM_STEP_NODELIST", nodes},
                                        {"SLURM_JOB_NODELIST", "never"}}),
                            more))
        .root;
  };
  const std::string root = root_of("node1,node2,node3");
  EXPECT_EQ(root.substr(0, root.find(':')), "node1");
  const int port = std::stoi(root.substr(root.find(':') + 1));
  EXPECT_GE(port, 10'000);
  EXPECT_LT(port, 32'768);
  EXPECT_NE(root_of("node1", {{"SLURM_STEP_ID", "1"}}), root) << "another step, another port";
  const Table ports{{"SLURM_STEP_RESV_PORTS", "12000-12001"}};
  EXPECT_EQ(root_of("node[01-03]", ports), "node01:12000");
  EXPECT_EQ(root_of("node[007,9-12],login[1-2]", ports), "node007:12000");
  EXPECT_EQ(root_of("rack[2-3]node[4,6]-ib.cluster", ports), "rack2node4-ib.cluster:12000");
  EXPECT_EQ(identify_in(with(srun, {{"QPMESH_SECRET", long_secret},
                                    {"SLURM_JOB_NODELIST", "b[5-7]"},
                                    {"SLURM_STEP_RESV_PORTS", "12000"}}))
                .root,
            "b5:12000");
  EXPECT_EQ(root_of("node1", {{"QPMESH_ROOT", "a:1"}}), "a:1");
  EXPECT_EQ(root_of("node1", {{"SLURM_STEP_TASKS_PER_NODE", "5"}, {"SLURM_NODEID", "0"}}), "");
  expect_error(with(srun, {{"SLURM_STEP_NODELIST", ""}}),
               "SLURM_STEP_NODELIST is \"\"; allowed is a list of nodes like node[1-4]",
               "the launcher sets it; where QPMESH_RANK and QPMESH_SIZE are set, no launcher is "
               "asked");
}

TEST(launcher, applies_its_own_root_and_job_under_every_launcher) {
  for (const Table& table : {open_mpi, hydra, srun, torchrun}) {
    const Identity identity = identify_in(with(table, {{"QPMESH_ROOT", "[::1]:4000"},
                                                       {"QPMESH_JOB", "a.b_c:d@e-1"},
                                                       {"QPMESH_SECRET", long_secret}}));
    EXPECT_EQ(identity.root, "[::1]:4000");
    EXPECT_EQ(identity.job, "a.b_c:d@e-1");
    EXPECT_EQ(identity.secret.value, long_secret);
    EXPECT_EQ(identity.secret.source, "QPMESH_SECRET");
  }
}

TEST(launcher, says_that_many_ranks_on_several_hosts_need_an_address) {
  const std::string hint = "set QPMESH_ROOT=host:port to an address of rank 0's host";
  expect_error(with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
               "open_mpi says that 2 ranks run on several hosts (1 on this one), but nothing says "
               "how to meet",
               hint);
  expect_error(
      srun,
      "srun says that 5 ranks run on several hosts (1 on this one), but nothing says how to meet",
      hint);
}

const std::string own_hint = "docs/options.md lists every variable";
const std::string both_hint = "QPMESH_RANK and QPMESH_SIZE are set together, or neither";
const std::string launcher_hint =
    "the launcher sets it; where QPMESH_RANK and QPMESH_SIZE are set, no launcher is asked";

struct Malformed {
  Table table;
  std::string cause;
  std::string hint = own_hint;
};

TEST(launcher, names_variable_value_and_range_of_what_is_malformed) {
  const Table own{{"QPMESH_RANK", "0"}, {"QPMESH_SIZE", "4"}};
  const std::vector<Malformed> cases{
      {with(own, {{"QPMESH_RANK", "12abc"}}),
       "QPMESH_RANK is \"12abc\"; allowed is a number from 0 to 65535"},
      {with(own, {{"QPMESH_RANK", "-1"}}),
       "QPMESH_RANK is \"-1\"; allowed is a number from 0 to 65535"},
      {with(own, {{"QPMESH_RANK", "+1"}}),
       "QPMESH_RANK is \"+1\"; allowed is a number from 0 to 65535"},
      {with(own, {{"QPMESH_RANK", " 1"}}),
       "QPMESH_RANK is \" 1\"; allowed is a number from 0 to 65535"},
      {with(own, {{"QPMESH_RANK", ""}}),
       "QPMESH_RANK is \"\"; allowed is a number from 0 to 65535"},
      {with(own, {{"QPMESH_RANK", "99999999999999999999"}}),
       "QPMESH_RANK is \"99999999999999999999\"; allowed is a number from 0 to 65535"},
      {with(own, {{"QPMESH_RANK", "4"}}),
       "QPMESH_RANK is \"4\"; allowed is a number from 0 to 3, because QPMESH_SIZE is 4"},
      {with(own, {{"QPMESH_SIZE", "0"}}),
       "QPMESH_SIZE is \"0\"; allowed is a number from 1 to 65536"},
      {with(own, {{"QPMESH_SIZE", "0x4"}}),
       "QPMESH_SIZE is \"0x4\"; allowed is a number from 1 to 65536"},
      {with(own, {{"QPMESH_SIZE", "65537"}}),
       "QPMESH_SIZE is \"65537\"; allowed is a number from 1 to 65536"},
      {with(own, {{"QPMESH_LOCAL_SIZE", "5"}}),
       "QPMESH_LOCAL_SIZE is \"5\"; allowed is a number from 1 to 4"},
      {with(own, {}, {"QPMESH_SIZE"}),
       "QPMESH_SIZE is not set, although the environment is that of a rank started by hand or by "
       "qpmesh-run; allowed is a number from 1 to 65536",
       both_hint},
      {with(own, {}, {"QPMESH_RANK"}),
       "QPMESH_RANK is not set, although the environment is that of a rank started by hand or by "
       "qpmesh-run; allowed is a number from 0 to 65535",
       both_hint},
      {with(own, {{"QPMESH_JOB", ""}}),
       "QPMESH_JOB is \"\"; allowed is 1 to 64 characters out of letters, digits and . _ : @ -"},
      {with(own, {{"QPMESH_JOB", "a b"}}),
       "QPMESH_JOB is \"a b\"; allowed is 1 to 64 characters out of letters, digits and . _ : @ -"},
      {with(own, {{"QPMESH_ROOT", "node1"}}),
       "QPMESH_ROOT is \"node1\": it has no port; allowed is host:port or [IPv6 address]:port with "
       "a port "
       "from 1 to 65535",
       "for example node1:4000, an address of rank 0's host"},
      {with(open_mpi, {}, {"OMPI_COMM_WORLD_RANK"}),
       "OMPI_COMM_WORLD_RANK is not set, although the environment is that of Open MPI's mpirun; "
       "allowed is a "
       "number from 0 to 65535",
       launcher_hint},
      {with(srun, {}, {"SLURM_JOB_ID"}),
       "SLURM_JOB_ID is not set, although the environment is that of srun; allowed is a word",
       launcher_hint},
      {with(hydra, {{"PMI_RANK", "2"}}),
       "PMI_RANK is \"2\"; allowed is a number from 0 to 1, because PMI_SIZE is 2", launcher_hint},
      {with(srun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}),
       "SLURM_STEP_TASKS_PER_NODE is \"2(x\"; allowed is a list like 4(x2),3 that gives node 2 "
       "from 1 to 5 "
       "tasks",
       launcher_hint},
      {with(srun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}),
       "SLURM_STEP_TASKS_PER_NODE is \"2(x2)\"; allowed is a list like 4(x2),3 that gives node 2 "
       "from 1 to 5 "
       "tasks",
       launcher_hint},
      {with(torchrun, {{"MASTER_PORT", "http"}}),
       "MASTER_PORT is \"http\"; allowed is a number from 1 to 65535", launcher_hint},
  };
  for (const auto& [table, cause, hint] : cases) expect_error(table, cause, hint);
}

class Secret : public ::testing::Test {
 protected:
  Secret() {
    std::string pattern = ::testing::TempDir() + "qpmesh-secret-XXXXXX";
    home_ = ::mkdtemp(pattern.data());
  }
  ~Secret() override { std::filesystem::remove_all(home_); }

  std::string write(const std::string& name, const std::string& text, mode_t mode) const {
    std::string path = home_ + "/" + name;
    std::ofstream{path} << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  Table table(const Table& more) const {
    return with(
        {{"QPMESH_RANK", "0"}, {"QPMESH_SIZE", "2"}, {"QPMESH_ROOT", "a:1"}, {"HOME", home_}},
        more);
  }

  std::string home_;
};

TEST_F(Secret, comes_from_the_file_before_the_variable_without_its_newline) {
  const std::string path = write("s", long_secret + "\n", 0600);
  const Identity identity = identify_in(
      table({{"QPMESH_SECRET_FILE", path}, {"QPMESH_SECRET", "another secret, not used"}}));
  EXPECT_EQ(identity.secret.value, long_secret);
  EXPECT_EQ(identity.secret.source, "the file " + path + " (QPMESH_SECRET_FILE)");
}

TEST_F(Secret, file_must_be_ours_alone) {
  const std::string wanted =
      fmt::format("it must be a file of uid {}, mode 0600, that holds the secret", ::geteuid());
  const auto refused = [&](const std::string& path, const std::string& why, const std::string& hint,
                           int system_error = 0) {
    expect_error(table({{"QPMESH_SECRET_FILE", path}}), "QPMESH_SECRET_FILE " + path + " " + why,
                 hint, system_error);
  };
  const std::string open = write("open", long_secret, 0640);
  refused(open, "has mode 0640; allowed is 0600 or 0400", "chmod 600 " + open);
  const std::string link = home_ + "/link";
  std::filesystem::create_symlink(open, link);
  refused(link, "is a symbolic link", wanted, ELOOP);
  refused(home_, "is no plain file", wanted);
  refused(home_ + "/gone", "cannot be opened", wanted, ENOENT);
  expect_error(table({{"QPMESH_SECRET_FILE", ""}}),
               "QPMESH_SECRET_FILE is \"\"; allowed is the path of a file", own_hint);
  if (test::another_user_can_run()) {
    const std::string theirs = write("theirs", long_secret, 0600);
    ASSERT_EQ(::chown(theirs.c_str(), 65534, 65534), 0);
    refused(theirs, "belongs to uid 65534, not to us, uid 0", wanted);
  }
}

TEST_F(Secret, must_have_a_sensible_length_and_is_never_shown) {
  const std::string hint = "for example: openssl rand -hex 32";
  expect_error(table({{"QPMESH_SECRET", "hunter2"}}),
               "QPMESH_SECRET has 7 characters; allowed are 16 to 4096", hint);
  const std::string path = write("s", std::string(4097, 'a'), 0600);
  expect_error(table({{"QPMESH_SECRET_FILE", path}}),
               "QPMESH_SECRET_FILE " + path + " has 4097 characters; allowed are 16 to 4096", hint);
}

TEST_F(Secret, is_made_at_first_use_for_the_user_alone_and_found_again) {
  const Identity first = identify_in(table({}));
  EXPECT_THAT(first.secret.value, MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(first.secret.value.size(), 64U);
  EXPECT_TRUE(first.secret.made_now);
  const std::string path = home_ + "/.config/qpmesh/secret";
  EXPECT_EQ(first.secret.source,
            "the file " + path + " (copy it to hosts that do not share this home)");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat((home_ + "/.config/qpmesh").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  const Identity second = identify_in(table({}));
  EXPECT_EQ(second.secret.value, first.secret.value);
  EXPECT_FALSE(second.secret.made_now);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator{home_ + "/.config/qpmesh"})
    files += entry.exists() ? 1 : 0;
  EXPECT_EQ(files, 1);
}

TEST_F(Secret, is_neither_made_nor_read_on_one_host) {
  Table one_host = table({{"QPMESH_SECRET", "short"}});
  one_host.erase("QPMESH_ROOT");
  EXPECT_TRUE(identify_in(one_host).secret.value.empty());
  EXPECT_FALSE(std::filesystem::exists(home_ + "/.config"));
}

}  // namespace
}  // namespace qpmesh::bootstrap

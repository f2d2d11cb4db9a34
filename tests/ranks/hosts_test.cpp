// SPDX-License-Identifier: MIT
// Each promise of qpmesh-run with hosts. First the hosts are names of this machine, which a script
// in ssh's place stands for; then two of them have a network and an ssh server of their own.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>

#include "job.hpp"
#include "launch.hpp"
#include "tests/support/two_hosts.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::ranks;
using Lines = std::vector<std::string>;

std::vector<std::string> on_hosts(const std::string& hosts,
                                  std::initializer_list<std::string> options,
                                  const std::string& script) {
  std::vector<std::string> arguments{"--hosts", hosts, "--ssh", REMOTE_SHELL};
  const auto rest = ranks::job(options, script);
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return arguments;
}

// A variable of the environment, as long as the test looks.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_{name} {
    ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~Variable() { ::unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe): one thread
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// "qpmesh-run: rank 2 (pid 123) on b exited with code 7", whichever the pid.
bool names(const std::string& errors, int rank, const std::string& host,
           const std::string& ending) {
  return std::ranges::any_of(lines_of(errors), [&](const std::string& line) {
    int pid = 0;
    return std::sscanf(line.c_str(), fmt::format("qpmesh-run: rank {} (pid %d)", rank).c_str(),
                       &pid) == 1 &&
           line == fmt::format("qpmesh-run: rank {} (pid {}) on {} {}", rank, pid, host, ending);
  });
}

TEST(hosts, tell_every_rank_who_it_is) {
  Launch run{on_hosts("a:2,b,c:2", {},
                      "echo $QPMESH_RANK of $QPMESH_SIZE, $QPMESH_LOCAL_SIZE on $OF_THE_HOST")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(sorted(lines_of(run.output())),
            (Lines{"0 of 5, 2 on a", "1 of 5, 2 on a", "2 of 5, 1 on b", "3 of 5, 2 on c",
                   "4 of 5, 2 on c"}));
  EXPECT_EQ(run.errors(), "");
  EXPECT_TRUE(nothing_is_left());
}

TEST(hosts, are_filled_in_their_order_when_there_is_more_room_than_ranks) {
  Launch run{on_hosts("a:2,b:2,a,c:4", {"-np", "4"},
                      "echo $QPMESH_RANK of $QPMESH_SIZE, $QPMESH_LOCAL_SIZE on $OF_THE_HOST")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(sorted(lines_of(run.output())),
            (Lines{"0 of 4, 3 on a", "1 of 4, 3 on a", "2 of 4, 3 on a", "3 of 4, 1 on b"}));
}

TEST(hosts, come_from_a_file_too) {
  const Folder folder;
  const std::string path = folder.file("hosts");
  std::ofstream{path} << "# ours\n\n  a:2 # two\nb slots=1\nuser@c\n[fd00::1]:1\n";
  Launch run{{"--hostfile", path, "--ssh", REMOTE_SHELL, "sh", "-c", "echo $OF_THE_HOST"}};
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(sorted(lines_of(run.output())), (Lines{"a", "a", "b", "fd00::1", "user@c"}));
}

TEST(hosts, need_no_shell_where_they_are_this_one) {
  Launch run{{"--hosts", "localhost:2", "--ssh", "/no/shell", "sh", "-c",
              "echo $QPMESH_RANK of $QPMESH_SIZE ${QPMESH_ROOT-no root}"}};
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(sorted(lines_of(run.output())), (Lines{"0 of 2 no root", "1 of 2 no root"}));
}

TEST(hosts, that_make_no_sense_are_refused) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"", "\"\" is no host name"},
      {"a,,b", "\"\" is no host name"},
      {"a:0", "\"0\" is no number of ranks from 1 to 65536"},
      {"a:x", "\"x\" is no number of ranks from 1 to 65536"},
      {"a:", "\"\" is no number of ranks from 1 to 65536"},
      {"a:70000", "\"70000\" is no number of ranks from 1 to 65536"},
      {"-oProxyCommand=x", "\"-oProxyCommand=x\" is no host name"},
      {"a;b", "\"a;b\" is no host name"},
      {"fd00::1", "the IPv6 address of \"fd00::1\" is not in brackets"},
      {"[fd00::1", "the bracket of \"[fd00::1\" is not closed"},
      {"[fd00::1]4", "\"[fd00::1]4\" has something behind its bracket"}};
  const Folder folder;
  const std::string path = folder.file("hosts");
  for (const auto& [hosts, what] : wrong) {
    const std::string how = "; a host is written as a, a:4, user@a:4 or [fd00::1]:4\n";
    Launch run{{"--hosts", hosts, "true"}};
    EXPECT_EQ(run.wait(), 2);
    EXPECT_EQ(run.errors(), fmt::format("qpmesh-run: --hosts: {}{}", what, how));
    if (hosts.empty() || hosts.find(',') != std::string::npos) continue;
    std::ofstream{path} << "a:4\n\n" << hosts << "\n";
    Launch file{{"--hostfile", path, "true"}};
    EXPECT_EQ(file.wait(), 2);
    EXPECT_EQ(file.errors(), fmt::format("qpmesh-run: {}, line 3: {}{}", path, what, how));
  }
  for (const auto& [line, what] :
       {std::pair{"a port=3", "\"port=3\" behind the name is not understood"},
        {"a:3 slots=3", "\"slots=3\" behind the name is not understood"},
        {"a slots=0", "\"0\" is no number of ranks from 1 to 65536"},
        {"a slots=1 b", "\"b\" is too much"}}) {
    std::ofstream{path} << line << "\n";
    Launch file{{"--hostfile", path, "true"}};
    EXPECT_EQ(file.wait(), 2);
    EXPECT_EQ(file.errors().rfind(fmt::format("qpmesh-run: {}, line 1: {};", path, what), 0), 0U)
        << file.errors();
  }
  std::ofstream{path} << "# nobody\n";
  Launch empty{{"--hostfile", path, "true"}};
  EXPECT_EQ(empty.wait(), 2);
  EXPECT_NE(empty.errors().find("it names no host"), std::string::npos);
  Launch missing{{"--hostfile", folder.file("none"), "true"}};
  EXPECT_EQ(missing.wait(), 2);
  EXPECT_EQ(missing.errors(), fmt::format("qpmesh-run: the hostfile {} cannot be read: No such "
                                          "file or directory\n",
                                          folder.file("none")));
  Launch many{{"--hosts", "a:2,b:2", "-np", "5", "true"}};
  EXPECT_EQ(many.wait(), 2);
  EXPECT_EQ(many.errors(), "qpmesh-run: -np 5 asks for more ranks than the 4 of the hosts\n");
  Launch both{{"--hosts", "a", "--hostfile", path, "true"}};
  EXPECT_EQ(both.wait(), 2);
}

TEST(hosts, get_the_environment_but_for_what_is_their_own) {
  const Variable some{"SOME_VARIABLE", "a 'b' \"c\" $d\n;e"};
  const Variable of_the_host{"OF_THE_HOST", "ours"};
  const Variable foreign{"PMI_RANK", "5"};
  const Variable secret{"QPMESH_SECRET_FILE", "/no/file"};
  Launch run{on_hosts("a,b", {},
                      "test $QPMESH_RANK = 1 || exit 0; echo \"$SOME_VARIABLE\"; echo $HOME "
                      "$OF_THE_HOST ${PMI_RANK-no} ${QPMESH_SECRET_FILE-no} ${QPMESH_SSH-no}")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "a 'b' \"c\" $d\n;e\n/home/b ours no no no\n");
}

TEST(hosts, share_a_secret_that_is_on_no_command_line) {
  Launch run{on_hosts("a,b", {},
                      "echo $QPMESH_SECRET; test $QPMESH_RANK = 0 || exit 0; cat "
                      "/proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | while read -r word; do "
                      "case $word in *$QPMESH_SECRET*) echo seen;; esac; done")};
  EXPECT_EQ(run.wait(), 0);
  const Lines lines = lines_of(run.output());
  ASSERT_EQ(lines.size(), 2U) << run.output();
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_EQ(lines[0].size(), 32U);
}

TEST(hosts, meet_where_the_first_of_them_listens_or_where_the_user_says) {
  Launch run{on_hosts("a,b", {}, "echo $QPMESH_ROOT")};
  EXPECT_EQ(run.wait(), 0);
  const Lines lines = lines_of(run.output());
  ASSERT_EQ(lines.size(), 2U) << run.output();
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_NE(lines[0].find(':'), std::string::npos);
  {
    const Variable ports{"QPMESH_PORTS", "41000-41009"};
    Launch within{on_hosts("a,b", {}, "echo $QPMESH_ROOT")};
    EXPECT_EQ(within.wait(), 0);
    EXPECT_NE(within.output().find(":4100"), std::string::npos) << within.output();
  }
  {
    const Variable root{"QPMESH_ROOT", "somewhere:4000"};
    Launch told{on_hosts("a,b", {}, "echo $QPMESH_ROOT")};
    EXPECT_EQ(told.wait(), 0);
    EXPECT_EQ(told.output(), "somewhere:4000\nsomewhere:4000\n");
  }
  {
    // Of a login over ssh, by a network that ranks may not have.
    const Variable login{"SSH_CONNECTION", "203.0.113.9 50000 203.0.113.7 22"};
    Launch here{{"--hosts", "localhost,b", "--ssh", REMOTE_SHELL, "sh", "-c", "echo $QPMESH_ROOT"}};
    EXPECT_EQ(here.wait(), 0) << here.errors();
    EXPECT_EQ(lines_of(here.output()).size(), 2U);
    EXPECT_EQ(here.output().find("203.0.113.7"), std::string::npos) << here.output();
  }
  const Variable ports{"QPMESH_PORTS", "4000-300"};
  Launch wrong{on_hosts("a,b", {}, "echo never")};
  EXPECT_EQ(wrong.wait(), 2);
  EXPECT_NE(wrong.errors().find("QPMESH_PORTS='4000-300'"), std::string::npos) << wrong.errors();
  EXPECT_EQ(wrong.output(), "");
}

TEST(hosts, start_ranks_in_the_directory_of_the_user_or_in_the_one_asked_for) {
  Launch run{on_hosts("a,b", {}, "pwd; echo $PWD")};
  EXPECT_EQ(run.wait(), 0);
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(lines_of(run.output()), (Lines{here, here, here, here}));
  const Folder folder;
  std::filesystem::create_directory(folder.file("there"));
  Launch there{on_hosts("a,b", {"--wdir", folder.file("there")}, "pwd")};
  EXPECT_EQ(there.wait(), 0);
  EXPECT_EQ(lines_of(there.output()), (Lines{folder.file("there"), folder.file("there")}));
  Launch local{{"-np", "1", "--wdir", folder.file("there"), "printenv", "PWD"}};
  EXPECT_EQ(local.wait(), 0);
  EXPECT_EQ(local.output(), folder.file("there") + "\n");
  Launch none{on_hosts("a,b", {"--wdir", folder.file("none")}, "echo never")};
  EXPECT_EQ(none.wait(), 1);
  EXPECT_NE(none.errors().find(fmt::format(": the directory {} cannot be entered: No such file or "
                                           "directory\n",
                                           folder.file("none"))),
            std::string::npos)
      << none.errors();
  EXPECT_EQ(none.output(), "");
}

TEST(hosts, are_found_from_where_qpmesh_run_is_started_and_not_where_ranks_start) {
  const Folder folder;
  std::ofstream{folder.file("hosts")} << "a\n";
  std::filesystem::copy_file(REMOTE_SHELL, folder.file("shell"));
  Launch run{{"--wdir", "/", "--hostfile", "hosts", "--ssh", "./shell", "pwd"}, {}, [&] {
               ASSERT_EQ(::chdir(folder.file(".").c_str()), 0);
             }};
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(run.output(), "/\n");
}

// ssh gives what it is told to a shell.
TEST(hosts, find_a_qpmesh_run_whose_path_is_more_than_one_word) {
  const Folder folder;
  std::filesystem::create_directory(folder.file("it's here"));
  const std::string copy = folder.file("it's here/qpmesh-run");
  std::filesystem::copy_file(QPMESH_RUN, copy);
  const std::string ssh = folder.file("ssh");
  std::ofstream{ssh}
      << "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec sh -c \"$*\"\n";
  std::filesystem::permissions(ssh, std::filesystem::perms::owner_all);
  Launch run{{"-np", "1", copy, "--hosts", "a:2", "--ssh", ssh, "echo", "here"}};
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(run.output(), "here\nhere\n");
}

TEST(hosts, run_where_there_are_no_standard_streams) {
  const Folder folder;
  Launch run{
      on_hosts("a:2", {},
               fmt::format("echo said; echo $QPMESH_RANK >{}.$QPMESH_RANK", folder.file("rank"))),
      {},
      [] {
        for (const int stream : {0, 1, 2}) ::close(stream);
      }};
  EXPECT_EQ(run.wait(), 0);
  for (const std::string rank : {"0", "1"}) {
    std::string text;
    std::ifstream{folder.file("rank." + rank)} >> text;
    EXPECT_EQ(text, rank);
  }
}

TEST(hosts, lose_no_byte_of_what_ranks_write) {
  Launch plain{on_hosts("a", {}, "head -c 3000000 /dev/zero; printf end")};
  EXPECT_EQ(plain.wait(), 0);
  EXPECT_EQ(plain.output(), std::string(3'000'000, '\0') + "end");
  Launch run{on_hosts("a,b", {"--prefix"}, "seq 1 20000; echo wrong >&2")};
  EXPECT_EQ(run.wait(), 0);
  std::array<int, 2> next{1, 1};
  for (const std::string& line : lines_of(run.output())) {
    const std::size_t rank = line.starts_with("[1] ") ? 1 : 0;
    ASSERT_EQ(line, fmt::format("[{}] {}", rank, next[rank]++));
  }
  EXPECT_EQ(next[0], 20001);
  EXPECT_EQ(next[1], 20001);
  EXPECT_EQ(sorted(lines_of(run.errors())), (Lines{"[0] wrong", "[1] wrong"}));
}

// What the launcher of a rank's host is: the courier, or its child, the job.
pid_t parent_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  std::getline(file, text);
  char state = 0;
  pid_t parent = 0;
  const std::size_t name_end = text.rfind(')');
  if (name_end != std::string::npos)
    std::istringstream{text.substr(name_end + 1)} >> state >> parent;
  return parent;
}

// Their writers are not always faster than the courier: hence the trials.
TEST(hosts, end_with_their_ranks_and_not_with_what_these_left_running) {
  for (int trial = 0; trial < 10; ++trial) {
    Launch run{on_hosts("a", {}, writers_left_behind)};
    run.read_slowly();
    ASSERT_EQ(run.wait(), 0);
    ASSERT_LT(run.output().size(), on_its_way_bytes_max) << "trial " << trial;
    ASSERT_TRUE(nothing_is_left());
  }
}

TEST(hosts, give_the_input_to_rank_0_and_nothing_to_the_others) {
  std::string text;
  for (int i = 0; i < 8000; ++i) text += fmt::format("{}\n", i);
  Launch run{on_hosts("a:2,b", {"--prefix"}, "sha256sum"), text};
  EXPECT_EQ(run.wait(), 0);
  Launch here{{"-np", "1", "--prefix", "sha256sum"}, text};
  EXPECT_EQ(here.wait(), 0);
  const Lines lines = sorted(lines_of(run.output()));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0] + "\n", here.output());
  EXPECT_EQ(lines[1].substr(4), lines[2].substr(4));
  EXPECT_NE(lines[0].substr(4), lines[1].substr(4));
}

// A rank that does not read must not keep signals from the others.
TEST(hosts, hear_signals_behind_input_that_nobody_reads) {
  Launch run{on_hosts("a,b", {}, "echo ready; exec sleep 60"), std::string(60'000, 'x')};
  ASSERT_TRUE(run.sees_lines(2));
  ASSERT_EQ(::kill(run.pid(), SIGINT), 0);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_TRUE(nothing_is_left());
}

TEST(hosts, return_the_code_of_the_rank_that_failed_first_and_name_it_with_its_host) {
  for (const int rank : {0, 1, 2, 3}) {
    Launch run{on_hosts("a:2,b:2", {"--grace-ms", "100"},
                        fmt::format("test $QPMESH_RANK = {} && exit 7; exec sleep 60", rank))};
    EXPECT_EQ(run.wait(), 7);
    EXPECT_TRUE(names(run.errors(), rank, rank < 2 ? "a" : "b", "exited with code 7"))
        << run.errors();
    EXPECT_EQ(lines_of(run.errors()).size(), 1U) << run.errors();
    EXPECT_TRUE(nothing_is_left());
  }
}

// Rank 0 ends because the end of rank 1, on another host, closes the pipe that it reads.
TEST(hosts, name_a_killed_rank_and_not_the_one_elsewhere_that_ended_because_of_it) {
  for (int trial = 0; trial < 20; ++trial) {
    Launch run{on_hosts(
        "a,b", {"--grace-ms", "5000"},
        "fifo=/tmp/qpmesh-run-test-$QPMESH_JOB; mkfifo $fifo 2>/dev/null; "
        "if test $QPMESH_RANK = 1; then exec 3> $fifo; echo $QPMESH_RANK $$; exec sleep 60; fi; "
        "exec 3< $fifo; rm $fifo; echo $QPMESH_RANK $$; read line <&3; exit 5")};
    ASSERT_TRUE(run.sees_lines(2)) << run.errors();
    ASSERT_EQ(::kill(pids_of(run, 2)[1], SIGKILL), 0);
    ASSERT_EQ(run.wait(), 128 + SIGKILL) << "trial " << trial << ": " << run.errors();
    ASSERT_TRUE(names(run.errors(), 1, "b", "was killed by signal 9 (Killed)")) << run.errors();
  }
}

TEST(hosts, end_nobody_when_told_to_keep_going) {
  Launch run{on_hosts("a:2,b", {"--keep-going", "--grace-ms", "10"},
                      "trap 'echo asked' TERM; test $QPMESH_RANK = 1 && exit 5; sleep 0.3; echo "
                      "done; test $QPMESH_RANK = 0 || exit 6")};
  EXPECT_EQ(run.wait(), 5);
  EXPECT_EQ(run.output(), "done\ndone\n");
  EXPECT_TRUE(names(run.errors(), 1, "a", "exited with code 5")) << run.errors();
  EXPECT_TRUE(names(run.errors(), 2, "b", "exited with code 6")) << run.errors();
}

TEST(hosts, ask_the_others_with_sigterm_after_the_grace_period_and_kill_who_does_not_listen) {
  Launch run{on_hosts("a,b,c", {"--grace-ms", "300"},
                      "case $QPMESH_RANK in 0) exit 3;; 1) trap 'echo asked; exit 0' TERM;; 2) "
                      "trap '' TERM;; esac; while :; do sleep 0.02; done")};
  const auto begin = Clock::now();
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.output(), "asked\n");
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds{600});
  EXPECT_TRUE(names(run.errors(), 0, "a", "exited with code 3")) << run.errors();
  EXPECT_TRUE(nothing_is_left());
}

TEST(hosts, pass_signals_on_to_all_ranks) {
  for (const auto& [number, name] : {std::pair{SIGINT, "INT"},
                                     {SIGTERM, "TERM"},
                                     {SIGHUP, "HUP"},
                                     {SIGQUIT, "QUIT"},
                                     {SIGUSR1, "USR1"},
                                     {SIGUSR2, "USR2"}}) {
    Launch run{on_hosts("a,b", {},
                        fmt::format("trap 'echo heard {0}; exit 0' {0}; echo ready; while :; do "
                                    "sleep 0.02; done",
                                    name))};
    ASSERT_TRUE(run.sees_lines(2));
    ASSERT_EQ(::kill(run.pid(), number), 0);
    EXPECT_EQ(run.wait(), 0) << run.errors();
    const std::string heard = fmt::format("heard {}", name);
    EXPECT_EQ(sorted(lines_of(run.output())), (Lines{heard, heard, "ready", "ready"}));
  }
}

// As under nohup; a login elsewhere ignores nothing.
TEST(hosts, stop_and_go_on_when_qpmesh_run_does) {
  Launch run{on_hosts("a,b", {}, "echo $QPMESH_RANK $$; exec sleep 60")};
  expect_stop_and_go(run);
}

TEST(hosts, hear_of_no_signal_that_is_ignored_here) {
  Launch run{
      on_hosts("a,b", {}, "exec env --default-signal=HUP sh -c 'echo ready; sleep 1; echo over'"),
      {},
      [] { ::signal(SIGHUP, SIG_IGN); }};
  ASSERT_TRUE(run.sees_lines(2));
  ASSERT_EQ(::kill(run.pid(), SIGHUP), 0);
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(sorted(lines_of(run.output())), (Lines{"over", "over", "ready", "ready"}));
}

TEST(hosts, end_when_they_are_asked_to_though_nobody_reads_what_ranks_say) {
  for (const auto& options : {std::initializer_list<std::string>{"--grace-ms", "200"},
                              {"--grace-ms", "200", "--prefix"}}) {
    Launch run{on_hosts("a,b", options, "echo ready; exec yes")};
    ASSERT_TRUE(run.sees_lines(2));
    ::poll(nullptr, 0, 300);  // for the pipes to fill; it holds also where they do not
    ASSERT_EQ(::kill(run.pid(), SIGTERM), 0);
    EXPECT_TRUE(await_end(run.pid()));
    EXPECT_EQ(run.wait(), 128 + SIGTERM);
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST(hosts, end_when_nobody_reads_what_ranks_say_of_errors) {
  Launch run{on_hosts("a", {}, "while echo line >&2; do :; done")};
  run.close_errors();
  EXPECT_EQ(run.wait(), 128 + SIGPIPE);
}

TEST(hosts, end_their_ranks_when_qpmesh_run_is_killed) {
  Launch run{on_hosts("a:2,b", {"--grace-ms", "200"},
                      "(trap '' TERM HUP INT; echo ready; sleep 60); echo never")};
  ASSERT_TRUE(run.sees_lines(3));
  ASSERT_EQ(::kill(run.pid(), SIGKILL), 0);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_EQ(run.output(), "ready\nready\nready\n");
  EXPECT_TRUE(nothing_is_left());
}

TEST(hosts, that_are_lost_are_named_and_end_the_job) {
  for (const bool only_job : {false, true}) {
    Launch run{on_hosts("a,b", {"--grace-ms", "200"}, "echo $QPMESH_RANK $$; exec sleep 60")};
    ASSERT_TRUE(run.sees_lines(2));
    const pid_t job = parent_of(pids_of(run, 2)[1]);
    ASSERT_EQ(::kill(only_job ? job : parent_of(job), SIGKILL), 0);
    EXPECT_EQ(run.wait(), only_job ? 128 + SIGKILL : 255);
    const std::string expected =
        only_job ? "qpmesh-run: b: qpmesh-run was killed by signal 9\n"
                 : fmt::format("qpmesh-run: b is lost: {} ended with code 137\n", REMOTE_SHELL);
    EXPECT_EQ(run.errors(), expected);
    EXPECT_TRUE(nothing_is_left());
  }
}

// How the ranks of a host ended is told to its job while the job tells how its own did. A courier
// that is late finds more of both than its socket holds.
TEST(hosts, end_together_however_many_ranks_have) {
  constexpr int size = 320;  // of each; some 280 packets fill the socket
  Launch run{on_hosts(fmt::format("a:{0},b:{0}", size), {},
                      "echo $QPMESH_RANK $$; kill -STOP $$; exit 0")};
  ASSERT_TRUE(run.sees_lines(2 * size)) << run.errors();
  const std::vector<pid_t> pids = pids_of(run, 2 * size);
  const pid_t job = parent_of(pids.back());
  const pid_t courier = parent_of(job);
  ASSERT_EQ(::kill(courier, SIGSTOP), 0);
  for (const pid_t pid : pids) {
    ASSERT_TRUE(await_state(pid, "T"));
    ASSERT_EQ(::kill(pid, SIGCONT), 0);
  }
  for (const pid_t pid : pids) ASSERT_TRUE(await_end(pid));
  ::poll(nullptr, 0, 200);  // for the job to tell what there is room for
  ASSERT_EQ(::kill(courier, SIGCONT), 0);
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(nothing_is_left());
}

struct Fault {
  std::string hosts;
  std::vector<std::string> options;
  int code;
  std::string message;
};

TEST(hosts, that_cannot_take_part_are_named_with_what_to_do_before_any_rank_starts) {
  const std::string shell = REMOTE_SHELL;
  const std::string none = "/no/such/qpmesh-run";
  for (const Fault& fault : std::vector<Fault>{
           {"a,silent", {"--hosts-timeout-ms", "300"}, 255, "no answer within 300 ms from silent"},
           {"a,refusing",
            {},
            255,
            "refusing cannot be reached: " + shell +
                " ended with code 255: user@refusing: Permission denied (publickey,password).; ssh "
                "has no key that the host accepts, and must not ask for a password: ssh-copy-id "
                "refusing"},
           {"a,old",
            {},
            255,
            "old cannot be reached: " + shell + " ended with code 2: qpmesh-run: --np is required"},
           {"b",
            {"--remote-run", none},
            127,
            fmt::format("b cannot be reached: {} ended with code 127: env: '{}': No such file or "
                        "directory; install qpmesh there as {}, or say where it is by --remote-run "
                        "PATH",
                        shell, none, none)}}) {
    std::vector<std::string> arguments{"--hosts", fault.hosts, "--ssh", shell};
    arguments.insert(arguments.end(), fault.options.begin(), fault.options.end());
    arguments.insert(arguments.end(), {"echo", "never"});
    const Variable language{"LC_ALL", "C"};
    Launch run{arguments};
    EXPECT_EQ(run.wait(), fault.code);
    std::string errors = run.errors();
    for (const std::string_view quote : {"\u2018", "\u2019"}) {
      for (auto at = errors.find(quote); at != errors.npos; at = errors.find(quote))
        errors.replace(at, quote.size(), "'");
    }
    EXPECT_EQ(errors, "qpmesh-run: " + fault.message + "\n");
    EXPECT_EQ(run.output(), "");
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST(hosts, say_which_program_they_cannot_find) {
  Launch run{{"--hosts", "a,b", "--ssh", REMOTE_SHELL, "no-such-program"}};
  EXPECT_EQ(run.wait(), 127);
  const std::string message = ": cannot run \"no-such-program\": No such file or directory\n";
  EXPECT_TRUE(run.errors() == "qpmesh-run: a" + message ||
              run.errors() == "qpmesh-run: b" + message)
      << run.errors();
  EXPECT_TRUE(nothing_is_left());
  Launch shell{{"--hosts", "a", "--ssh", "/no/shell", "true"}};
  EXPECT_EQ(shell.wait(), 127);
  EXPECT_EQ(shell.errors(), "qpmesh-run: cannot run \"/no/shell\": No such file or directory\n");
}

TEST(hosts, may_greet_those_who_log_in) {
  Launch run{on_hosts("a,noisy", {}, "echo $QPMESH_RANK")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(sorted(lines_of(run.output())), (Lines{"0", "1"}));
  EXPECT_EQ(run.errors(), "");
}

TEST(hosts, are_left_at_once_when_the_user_ends_qpmesh_run_before_all_are_there) {
  Launch run{on_hosts("a,silent", {}, "echo never")};
  ::usleep(200'000);  // it waits for the silent host, or has not begun to: both are to be left
  ASSERT_EQ(::kill(run.pid(), SIGINT), 0);
  const int code = run.wait();
  EXPECT_EQ(code, 128 + SIGINT);
  EXPECT_EQ(run.output(), "");
  EXPECT_TRUE(nothing_is_left());
}

// ---- two hosts with networks of their own, and sshd on each ----

constexpr const char* sshd_path = "/usr/sbin/sshd";

// Starts a program in the background; its output goes to a file.
pid_t start(const std::vector<std::string>& words, const std::string& output,
            const std::function<void()>& prepare) {
  std::vector<std::string> texts = words;
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(file, 1);
  ::dup2(file, 2);
  prepare();
  ::execv(pointers.front(), pointers.data());
  ::_exit(99);
}

int run_to_its_end(const std::vector<std::string>& words, const std::string& output) {
  int status = -1;
  ::waitpid(start(words, output, [] {}), &status, 0);
  return status;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

class HostsOverSsh : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
    if (::access(sshd_path, X_OK) != 0 || ::access("/usr/bin/ssh", X_OK) != 0)
      GTEST_SKIP() << "no OpenSSH (openssh-server, openssh-client)";
    std::error_code ignored;
    std::filesystem::create_directory("/run/sshd", ignored);
    for (const char* key : {"host", "user", "stranger"}) {
      ASSERT_EQ(run_to_its_end({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                                folder_.file(key)},
                               folder_.file("log")),
                0)
          << text_of_file(folder_.file("log"));
    }
    // Of a home of its own: the user's login scripts may wait for each other.
    std::ofstream{folder_.file("sshd_config")}
        << "SetEnv HOME=" << folder_.file("home") << "\nHostKey " << folder_.file("host")
        << "\nAuthorizedKeysFile " << folder_.file("user.pub")
        << "\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n";
    std::string key = text_of_file(folder_.file("host.pub"));
    std::ofstream known{folder_.file("known")};
    for (const char* const address : TwoHosts::addresses) known << address << ' ' << key;
    known.close();
    write_config("user");
    for (int host = 0; host < 2; ++host) start_sshd(host);
  }

  void TearDown() override {
    for (const pid_t pid : servers_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    EXPECT_TRUE(servers_.empty() || nothing_is_left());
    if (!HasFailure()) return;
    for (const char* const log : {"sshd0", "sshd1"})
      std::printf("%s says:\n%s", log, text_of_file(folder_.file(log)).c_str());
  }

  void write_config(const std::string& key) {
    std::ofstream{folder_.file("config")}
        << "IdentityFile " << folder_.file(key)
        << "\nIdentitiesOnly yes\nGlobalKnownHostsFile none\nUserKnownHostsFile "
        << folder_.file("known") << "\n";
  }

  void start_sshd(int host) {
    const std::string log = folder_.file(fmt::format("sshd{}", host));
    servers_.push_back(start({sshd_path, "-D", "-e", "-f", folder_.file("sshd_config")}, log,
                             [&] { hosts_.enter(host); }));
    const auto deadline = Clock::now() + std::chrono::milliseconds{launch_patience_ms};
    while (text_of_file(log).find("Server listening on 0.0.0.0") == std::string::npos) {
      if (::waitpid(servers_.back(), nullptr, WNOHANG) != 0) {
        servers_.pop_back();
        GTEST_SKIP() << "sshd does not run: " << text_of_file(log);
      }
      ASSERT_LT(Clock::now(), deadline) << text_of_file(log);
      ::poll(nullptr, 0, 5);
    }
  }

  // On the first host.
  std::unique_ptr<Launch> launch(const std::string& list, std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"--hosts", list, "--ssh", "ssh -F " + folder_.file("config") + alive_});
    return std::make_unique<Launch>(std::move(words), "", [this] { hosts_.enter(0); });
  }

  using TwoHosts = test::TwoHosts;
  TwoHosts hosts_;
  const Folder folder_;
  std::vector<pid_t> servers_;
  std::string alive_;
};

const std::string both = "10.77.0.1:2,10.77.0.2:2";

TEST_F(HostsOverSsh, run_the_ten_lines) {
  for (const std::string& list :
       {both, std::string{"localhost:2,10.77.0.2:2"}, std::string{"10.77.0.2:3,localhost:1"},
        std::string{"10.77.0.1:4"}}) {
    const auto run = launch(list, {"--prefix", TEN_LINES});
    EXPECT_EQ(run->wait(), 0) << run->errors();
    EXPECT_EQ(run->output(), "[0] 4 ranks, each element 4\n") << list << ": " << run->errors();
  }
}

TEST_F(HostsOverSsh, meet_at_an_allowed_port) {
  const Variable ports{"QPMESH_PORTS", "4100-4109"};
  const auto run = launch(both, {"sh", "-c", fmt::format("echo $QPMESH_ROOT; exec {}", TEN_LINES)});
  EXPECT_EQ(run->wait(), 0) << run->errors();
  EXPECT_NE(run->output().find("10.77.0.1:410"), std::string::npos) << run->output();
  EXPECT_NE(run->output().find("4 ranks, each element 4\n"), std::string::npos) << run->output();
}

TEST_F(HostsOverSsh, tell_ranks_that_start_up_of_one_elsewhere_that_ended_before_it_did) {
  for (const int missing : {0, 1, 2, 3}) {
    const auto begin = Clock::now();
    const auto run = launch(
        both, {"--keep-going", "sh", "-c",
               fmt::format("test $QPMESH_RANK = {} && exit 0; exec {}", missing, BOOTSTRAP_RANK)});
    EXPECT_EQ(run->wait(), 1);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds{5});
    EXPECT_NE(run->errors().find(fmt::format("rank {} (pid ", missing)), std::string::npos)
        << run->errors();
    EXPECT_NE(run->errors().find("ended with code 0 before "), std::string::npos) << run->errors();
  }
}

TEST_F(HostsOverSsh, start_ranks_where_and_how_the_user_is_and_return_their_codes) {
  const Variable variable{"SOME_VARIABLE", "a 'b' \"c\" $d"};
  const std::string script =
      "test $QPMESH_RANK = 3 || exec sleep 60; pwd -P; echo \"$1\"; echo $SOME_VARIABLE; exit 9";
  const auto run =
      launch(both, {"--wdir", folder_.file("."), "sh", "-c", script, "sh", "an 'argument'  $HOME"});
  EXPECT_EQ(run->wait(), 9);
  EXPECT_EQ(lines_of(run->output()), (Lines{std::filesystem::canonical(folder_.file(".")).string(),
                                            "an 'argument'  $HOME", "a 'b' \"c\" $d"}));
  EXPECT_TRUE(names(run->errors(), 3, "10.77.0.2", "exited with code 9")) << run->errors();
}

// Of a process that is no child of ours.
bool is_gone(pid_t pid) {
  const auto deadline = Clock::now() + std::chrono::milliseconds{launch_patience_ms};
  while (::kill(pid, 0) == 0) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
    if (Clock::now() > deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return errno == ESRCH;
}

TEST_F(HostsOverSsh, leave_no_rank_behind_whoever_is_killed) {
  enum class Victim { rank, launcher, session, interrupted };
  for (const Victim victim :
       {Victim::rank, Victim::launcher, Victim::session, Victim::interrupted}) {
    const auto run = launch(both, {"--grace-ms", "200", "sh", "-c",
                                   "trap '' TERM; echo $QPMESH_RANK $$; sleep 60; sleep 60"});
    ASSERT_TRUE(run->sees_lines(4)) << run->errors();
    const auto ranks = pids_of(*run, 4);
    const pid_t courier = parent_of(parent_of(ranks[3]));
    switch (victim) {
      case Victim::rank:
        ASSERT_EQ(::kill(ranks[3], SIGKILL), 0);
        EXPECT_EQ(run->wait(), 128 + SIGKILL);
        EXPECT_TRUE(names(run->errors(), 3, "10.77.0.2", "was killed by signal 9 (Killed)"))
            << run->errors();
        break;
      case Victim::launcher:
        ASSERT_EQ(::kill(run->pid(), SIGKILL), 0);
        EXPECT_EQ(run->wait(), 128 + SIGKILL);
        break;
      case Victim::session:
        ASSERT_EQ(::kill(parent_of(courier), SIGKILL), 0);
        EXPECT_EQ(run->wait(), 255);
        EXPECT_NE(run->errors().find("qpmesh-run: 10.77.0.2 is lost: ssh ended with code "),
                  std::string::npos)
            << run->errors();
        break;
      case Victim::interrupted:
        ASSERT_EQ(::kill(run->pid(), SIGTERM), 0);
        EXPECT_EQ(run->wait(), 128 + SIGKILL);
        break;
    }
    for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank));
  }
}

TEST_F(HostsOverSsh, that_ssh_cannot_enter_are_named_with_what_to_do) {
  const auto message = [&](const std::string& list) {
    const auto run = launch(list, {"echo", "never"});
    EXPECT_EQ(run->wait(), 255);
    EXPECT_EQ(run->output(), "");
    return run->errors();
  };
  write_config("stranger");
  const std::string refused = message("10.77.0.2");
  EXPECT_EQ(refused.rfind("qpmesh-run: 10.77.0.2 cannot be reached: ssh ended with code 255: ", 0),
            0U)
      << refused;
  EXPECT_NE(refused.find("must not ask for a password: ssh-copy-id 10.77.0.2\n"), std::string::npos)
      << refused;
  write_config("user");
  EXPECT_NE(message("10.77.0.9")
                .find("; the host does not answer: is it up, and does a firewall "
                      "let ssh in?\n"),
            std::string::npos);
  std::ofstream{folder_.file("known")}.close();
  EXPECT_NE(message(both).find("Host key verification failed.; the host's key is not known here"),
            std::string::npos);
  ::kill(servers_.back(), SIGKILL);
  ::waitpid(servers_.back(), nullptr, 0);
  servers_.pop_back();
  EXPECT_NE(message("10.77.0.2").find("Connection refused; no ssh server listens there"),
            std::string::npos);
}

TEST_F(HostsOverSsh, that_the_network_loses_are_named_and_end_the_job) {
  alive_ = " -oServerAliveInterval=1 -oServerAliveCountMax=2";
  const auto run =
      launch(both, {"--grace-ms", "200", "sh", "-c", "echo $QPMESH_RANK $$; exec sleep 60"});
  ASSERT_TRUE(run->sees_lines(4)) << run->errors();
  const auto ranks = pids_of(*run, 4);
  const pid_t session = parent_of(parent_of(parent_of(ranks[3])));
  hosts_.cut();
  EXPECT_EQ(run->wait(), 255);
  EXPECT_NE(run->errors().find("qpmesh-run: 10.77.0.2 is lost: ssh ended with code 255: "),
            std::string::npos)
      << run->errors();
  ::kill(session, SIGKILL);  // what TCP does there, a quarter of an hour later
  for (const pid_t rank : ranks) EXPECT_TRUE(is_gone(rank));
}

// ---- the same two hosts by name, and ranks that no ssh starts ----

// On Debian a host's own name stands for loopback in its /etc/hosts.
class HostsByName : public testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.problem().empty()) GTEST_SKIP() << hosts_.problem();
    std::ofstream{folder_.file("hosts0")} << "127.0.0.1 localhost\n127.0.1.1 node1\n"
                                          << TwoHosts::addresses[1] << " node2\n";
    std::ofstream{folder_.file("hosts1")} << "127.0.0.1 localhost\n127.0.1.1 node2\n"
                                          << TwoHosts::addresses[0] << " node1\n";
  }

  void become_host(int host) const {
    hosts_.enter(host);
    const std::string hosts = folder_.file(fmt::format("hosts{}", host));
    if (::unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0 ||
        ::sethostname(host == 0 ? "node1" : "node2", 5) != 0)
      ::_exit(98);
  }

  // Two ranks on each host, with the variables that a launcher would set; what rank 0 says.
  std::string run_ten_lines(
      const std::function<std::map<std::string, std::string>(int)>& variables) {
    std::vector<pid_t> ranks;
    ranks.reserve(4);
    for (int rank = 0; rank < 4; ++rank) {
      ranks.push_back(start({TEN_LINES}, folder_.file(fmt::format("said{}", rank)), [&] {
        become_host(rank / 2);
        for (const auto& [name, value] : variables(rank))
          ::setenv(name.c_str(), value.c_str(), 1);        // NOLINT(concurrency-mt-unsafe)
        ::setenv("QPMESH_SECRET", "0123456789abcdef", 1);  // NOLINT(concurrency-mt-unsafe)
      }));
    }
    for (int rank = 0; rank < 4; ++rank) {
      int status = -1;
      ::waitpid(ranks[static_cast<std::size_t>(rank)], &status, 0);
      EXPECT_EQ(status, 0) << text_of_file(folder_.file(fmt::format("said{}", rank)));
    }
    return text_of_file(folder_.file("said0"));
  }

  using TwoHosts = test::TwoHosts;
  TwoHosts hosts_;
  const Folder folder_;
};

TEST_F(HostsByName, find_each_other_under_srun) {
  EXPECT_EQ(run_ten_lines([](int rank) {
              return std::map<std::string, std::string>{{"SLURM_JOB_ID", "7"},
                                                        {"SLURM_STEP_ID", "0"},
                                                        {"SLURM_PROCID", std::to_string(rank)},
                                                        {"SLURM_NODEID", std::to_string(rank / 2)},
                                                        {"SLURM_STEP_NUM_TASKS", "4"},
                                                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                        {"SLURM_STEP_NODELIST", "node[1-2]"}};
            }),
            "4 ranks, each element 4\n");
}

TEST_F(HostsByName, find_each_other_under_torchrun) {
  EXPECT_EQ(run_ten_lines([](int rank) {
              return std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                                        {"WORLD_SIZE", "4"},
                                                        {"LOCAL_RANK", std::to_string(rank % 2)},
                                                        {"LOCAL_WORLD_SIZE", "2"},
                                                        {"MASTER_ADDR", "node1"},
                                                        {"MASTER_PORT", "29500"}};
            }),
            "4 ranks, each element 4\n");
}

TEST_F(HostsByName, are_started_by_torchrun_itself) {
  if (run_to_its_end({"/usr/bin/env", "torchrun", "--help"}, folder_.file("torchrun")) != 0)
    GTEST_SKIP() << "there is no torchrun";
  // Debian's torch 2.6 is built without libuv, and its torchrun asks for it all the same.
  constexpr auto make_store =
      "import torch.distributed as d\n"
      "try: d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)\n"
      "except RuntimeError: raise SystemExit(7)\n";
  const int made =
      run_to_its_end({"/usr/bin/env", "python3", "-c", make_store}, folder_.file("store"));
  if (WIFEXITED(made) && WEXITSTATUS(made) == 7)
    GTEST_SKIP() << "torchrun's torch has no libuv";
  std::vector<pid_t> agents;
  agents.reserve(2);
  for (int host = 0; host < 2; ++host) {
    // Their defaults are lost with torch 1.13 under Python 3.11: redirects and tee.
    agents.push_back(start({"/usr/bin/env",
                            "torchrun",
                            "--nnodes",
                            "2",
                            "--nproc_per_node",
                            "2",
                            "--rdzv_backend",
                            "c10d",
                            "--rdzv_endpoint",
                            "node1:29500",
                            "--redirects",
                            "1",
                            "--tee",
                            "2",
                            "--log_dir",
                            folder_.file(fmt::format("logs{}", host)),
                            "--no_python",
                            "sh",
                            "-c",
                            fmt::format("exec {} >{}$RANK", TEN_LINES, folder_.file("rank"))},
                           folder_.file(fmt::format("agent{}", host)), [&] {
                             become_host(host);
                             ::setenv("OMP_NUM_THREADS", "1", 1);  // NOLINT(concurrency-mt-unsafe)
                             // NOLINTNEXTLINE(concurrency-mt-unsafe)
                             ::setenv("QPMESH_SECRET", "0123456789abcdef", 1);
                           }));
  }
  for (int host = 0; host < 2; ++host) {
    int status = -1;
    ::waitpid(agents[static_cast<std::size_t>(host)], &status, 0);
    EXPECT_EQ(status, 0) << text_of_file(folder_.file(fmt::format("agent{}", host)));
  }
  EXPECT_EQ(text_of_file(folder_.file("rank0")), "4 ranks, each element 4\n");
}

// As a Kubernetes Job with a headless service has it: the number of the pod, and the first one's
// name.
TEST_F(HostsByName, find_each_other_by_variables_alone) {
  EXPECT_EQ(run_ten_lines([](int rank) {
              return std::map<std::string, std::string>{{"QPMESH_RANK", std::to_string(rank)},
                                                        {"QPMESH_SIZE", "4"},
                                                        {"QPMESH_ROOT", "node1:29500"}};
            }),
            "4 ranks, each element 4\n");
}

}  // namespace

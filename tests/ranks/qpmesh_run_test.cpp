// SPDX-License-Identifier: MIT
// Each promise of qpmesh-run, kept by the real program with shell scripts as ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "launch.hpp"
#include "tests/support/refuse_pidfd_open.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::ranks;

TEST(qpmesh_run, tells_every_rank_who_it_is) {
  Launch run{job({"-np", "3"}, "echo $QPMESH_RANK of $QPMESH_SIZE, $QPMESH_LOCAL_SIZE here")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(sorted(lines_of(run.output())),
            (std::vector<std::string>{"0 of 3, 3 here", "1 of 3, 3 here", "2 of 3, 3 here"}));
  EXPECT_EQ(run.errors(), "");
}

TEST(qpmesh_run, gives_all_ranks_of_a_job_one_name_and_every_job_another) {
  std::set<std::string> names;
  for (int i = 0; i < 2; ++i) {
    Launch run{job({"-np", "2"}, "echo $QPMESH_JOB")};
    EXPECT_EQ(run.wait(), 0);
    const auto lines = lines_of(run.output());
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0], lines[1]);
    EXPECT_EQ(lines[0].size(), 32U);
    names.insert(lines[0]);
  }
  EXPECT_EQ(names.size(), 2U);
}

TEST(qpmesh_run, takes_numbers_that_begin_with_0_for_decimal_ones) {
  Launch run{job({"-np", "010"}, "echo $QPMESH_SIZE")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(lines_of(run.output()), std::vector<std::string>(10, "10"));
}

TEST(qpmesh_run, hides_other_launchers_from_its_ranks) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_NAMESPACE", "SLURM_PROCID",
                           "RANK", "WORLD_SIZE"}) {
    ::setenv(name, "5", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ::setenv("QPMESH_RANK", "77", 1);    // NOLINT(concurrency-mt-unsafe): one thread
  ::setenv("QPMESH_LOG", "error", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  Launch run{job({"-np", "1"},
                 "echo ${OMPI_COMM_WORLD_RANK-no} ${PMI_RANK-no} ${PMIX_NAMESPACE-no} "
                 "${SLURM_PROCID-no} ${RANK-no} "
                 "${WORLD_SIZE-no} $QPMESH_RANK $QPMESH_LOG")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "no no no no no no 0 error\n");
}

TEST(qpmesh_run, sees_its_ranks_end_though_its_parent_ignored_the_ends_of_children) {
  Launch run{job({"-np", "2"}, "exit 3"), {}, [] { ::signal(SIGCHLD, SIG_IGN); }};
  EXPECT_EQ(run.wait(), 3);
}

TEST(qpmesh_run, passes_the_programs_own_options_to_it) {
  Launch run{{"--np", "1", "--grace-ms", "10", "--", "echo", "-np", "7", "--prefix", "--"}};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "-np 7 --prefix --\n");
}

TEST(qpmesh_run, prefixes_whole_lines_of_both_streams_and_a_last_one_without_end) {
  Launch run{job({"-np", "2", "--prefix"},
                 "printf begin; sleep 0.05; printf 'end\\n\\n'; echo wrong >&2; printf last")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(sorted(lines_of(run.output())),
            (std::vector<std::string>{"[0] ", "[0] beginend", "[0] last", "[1] ", "[1] beginend",
                                      "[1] last"}));
  EXPECT_EQ(sorted(lines_of(run.errors())), (std::vector<std::string>{"[0] wrong", "[1] wrong"}));
  EXPECT_EQ(run.output().back(), '\n');
}

TEST(qpmesh_run, loses_no_byte_of_large_prefixed_output) {
  Launch run{job({"-np", "2", "--prefix"}, "seq 1 20000")};
  EXPECT_EQ(run.wait(), 0);
  std::array<int, 2> next{1, 1};
  for (const std::string& line : lines_of(run.output())) {
    const std::size_t rank = line.starts_with("[1] ") ? 1 : 0;
    ASSERT_EQ(line, fmt::format("[{}] {}", rank, next[rank]++));
  }
  EXPECT_EQ(next[0], 20001);
  EXPECT_EQ(next[1], 20001);
}

TEST(qpmesh_run, ends_with_its_ranks_and_not_with_what_these_left_running) {
  Launch run{job({"-np", "1", "--prefix"}, writers_left_behind)};
  run.read_slowly();  // and these are faster
  EXPECT_EQ(run.wait(), 0);
  EXPECT_LT(run.output().size(), on_its_way_bytes_max);
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, breaks_a_line_that_never_ends) {
  Launch run{job({"-np", "1", "--prefix"}, "head -c 150000 /dev/zero | tr '\\0' x")};
  EXPECT_EQ(run.wait(), 0);
  const auto lines = lines_of(run.output());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].size(), 4 + 65536U);
  EXPECT_EQ(lines[0].size() + lines[1].size() + lines[2].size(), 150000U + 3 * 4);
}

TEST(qpmesh_run, gives_its_input_to_rank_0_and_nothing_to_the_others) {
  Launch run{job({"-np", "2", "--prefix"}, "cat"), "to whom?\n"};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "[0] to whom?\n");
}

TEST(qpmesh_run, returns_the_code_of_the_rank_that_failed_first_and_names_it) {
  Launch run{
      job({"-np", "3", "--grace-ms", "100"}, "test $QPMESH_RANK = 1 && exit 7; exec sleep 60")};
  EXPECT_EQ(run.wait(), 7);
  EXPECT_NE(rank_message(run.errors(), 1, "exited with code 7"), "") << run.errors();
  EXPECT_EQ(lines_of(run.errors()).size(), 1U) << run.errors();
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, names_the_first_of_several_ranks_that_failed_before_it_looked) {
  for (const bool killed : {true, false}) {
    Launch run{job({"-np", "3", "--grace-ms", "5000"},
                   "trap 'exit 7' USR1; trap 'exit 5' USR2; echo $QPMESH_RANK $$; "
                   "while :; do sleep 0.02; done")};
    ASSERT_TRUE(run.sees_lines(3));
    const auto ranks = pids_of(run, 3);
    // Not the last rank first: it may speak before qpmesh-run watches it.
    ASSERT_EQ(::kill(run.pid(), SIGSTOP), 0);
    ASSERT_TRUE(await_state(run.pid(), "T"));
    ASSERT_EQ(::kill(ranks[1], killed ? SIGKILL : SIGUSR1), 0);
    ASSERT_TRUE(await_state(ranks[1], "Z"));
    ASSERT_EQ(::kill(ranks[0], SIGUSR2), 0);
    ASSERT_TRUE(await_state(ranks[0], "Z"));
    ASSERT_EQ(::kill(ranks[2], SIGUSR2), 0);
    ASSERT_TRUE(await_state(ranks[2], "Z"));
    ASSERT_EQ(::kill(run.pid(), SIGCONT), 0);
    EXPECT_EQ(run.wait(), killed ? 128 + SIGKILL : 7);
    const char* const ending = killed ? "was killed by signal 9 (Killed)" : "exited with code 7";
    EXPECT_NE(rank_message(run.errors(), 1, ending), "") << run.errors();
    EXPECT_EQ(lines_of(run.errors()).size(), 1U) << run.errors();
  }
}

// Rank 0 ends because the end of rank 1 closes the pipe that it reads.
TEST(qpmesh_run, names_a_killed_rank_and_not_the_one_that_ended_because_of_it) {
  for (int trial = 0; trial < 50; ++trial) {
    Launch run{job(
        {"-np", "2", "--grace-ms", "5000"},
        "fifo=/tmp/qpmesh-run-test-$QPMESH_JOB; mkfifo $fifo 2>/dev/null; "
        "if test $QPMESH_RANK = 1; then exec 3> $fifo; echo $QPMESH_RANK $$; exec sleep 60; fi; "
        "exec 3< $fifo; rm $fifo; echo $QPMESH_RANK $$; read line <&3; exit 5")};
    ASSERT_TRUE(run.sees_lines(2)) << run.errors();
    ASSERT_EQ(::kill(pids_of(run, 2)[1], SIGKILL), 0);
    ASSERT_EQ(run.wait(), 128 + SIGKILL) << "trial " << trial;
    ASSERT_NE(rank_message(run.errors(), 1, "was killed by signal 9 (Killed)"), "") << run.errors();
  }
}

TEST(qpmesh_run, tells_ranks_that_start_up_of_one_that_ended_before_it_did) {
  for (const int missing : {0, 1, 2}) {
    const auto begin = Clock::now();
    Launch run{
        job({"-np", "3", "--keep-going"},
            fmt::format("test $QPMESH_RANK = {} && exit 0; exec {}", missing, BOOTSTRAP_RANK))};
    EXPECT_EQ(run.wait(), 1);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds{5});
    EXPECT_NE(run.errors().find(fmt::format("rank {} (pid ", missing)), std::string::npos)
        << run.errors();
    EXPECT_NE(run.errors().find("ended with code 0 before "), std::string::npos) << run.errors();
  }
}

// Ranks that have just called are not dropped to make room for each other, again and again.
TEST(qpmesh_run, starts_ranks_that_hear_at_once_that_rank_0_lacks_descriptors) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "UndefinedBehaviorSanitizer needs descriptors of its own, and takes every object for a "
         "broken one without";
#endif
  for (const int descriptors : {7, 8}) {
    const auto begin = Clock::now();
    Launch run{job({"-np", "4", "--keep-going"},
                   fmt::format("test $QPMESH_RANK = 0 && ulimit -n {}; exec {}", descriptors,
                               BOOTSTRAP_RANK))};
    EXPECT_EQ(run.wait(), 1);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds{5});
    EXPECT_NE(run.errors().find("Too many open files"), std::string::npos) << run.errors();
  }
}

TEST(qpmesh_run, sees_its_ranks_end_without_pidfds) {
  Launch run{
      job({"-np", "3", "--grace-ms", "100"}, "test $QPMESH_RANK = 1 && exit 7; exec sleep 60"),
      {},
      [] {
        if (!test::refuse_pidfd_open(ENOSYS)) ::_exit(98);
      }};
  EXPECT_EQ(run.wait(), 7);
  EXPECT_NE(rank_message(run.errors(), 1, "exited with code 7"), "") << run.errors();
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, names_the_signal_that_killed_a_rank) {
  Launch run{
      job({"-np", "3", "--grace-ms", "100"}, "test $QPMESH_RANK = 2 && kill -9 $$; exec sleep 60")};
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_NE(rank_message(run.errors(), 2, "was killed by signal 9 (Killed)"), "") << run.errors();
}

TEST(qpmesh_run, lets_the_others_end_by_themselves_within_the_grace_period) {
  Launch run{job({"-np", "2", "--grace-ms", "15000"},
                 "trap 'echo asked' TERM; test $QPMESH_RANK = 0 && exit 3; sleep 0.3; echo done")};
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.output(), "done\n");
}

TEST(qpmesh_run, asks_with_sigterm_after_the_grace_period_and_not_before) {
  const auto begin = Clock::now();
  Launch run{job({"-np", "2", "--grace-ms", "300"},
                 "test $QPMESH_RANK = 0 && exit 3; trap 'echo asked; exit 0' TERM; while :; do "
                 "sleep 0.02; done")};
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.output(), "asked\n");
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds{300});
}

TEST(qpmesh_run, wakes_a_stopped_rank_to_ask_it) {
  Launch run{job(
      {"-np", "2", "--grace-ms", "1000"},
      "trap 'echo asked; exit 0' TERM; test $QPMESH_RANK = 0 && exit 3; kill -STOP $$; sleep 60")};
  EXPECT_EQ(run.wait(), 3);
  EXPECT_EQ(run.output(), "asked\n");
}

TEST(qpmesh_run, kills_whoever_does_not_listen_together_with_what_it_started) {
  // Rank 1 ignores SIGTERM, rank 2 is stopped; both have children.
  Launch run{job(
      {"-np", "3", "--grace-ms", "100"},
      "case $QPMESH_RANK in 0) exit 3;; 1) trap '' TERM; sleep 60; sleep 60;; 2) sleep 60 & kill "
      "-STOP $$;; esac")};
  EXPECT_EQ(run.wait(), 3);
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, kills_what_a_failed_rank_left_running) {
  Launch run{job({"-np", "2", "--grace-ms", "50"}, "sleep 60 > /dev/null 2>&1 & exit 4")};
  EXPECT_EQ(run.wait(), 4);
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, ends_nobody_when_told_to_keep_going) {
  Launch run{
      job({"-np", "3", "--keep-going", "--grace-ms", "10"},
          "trap 'echo asked' TERM; test $QPMESH_RANK = 1 && exit 5; sleep 0.3; echo done; test "
          "$QPMESH_RANK = 0 || exit 6")};
  EXPECT_EQ(run.wait(), 5);
  EXPECT_EQ(run.output(), "done\ndone\n");
  EXPECT_NE(rank_message(run.errors(), 1, "exited with code 5"), "");
  EXPECT_NE(rank_message(run.errors(), 2, "exited with code 6"), "");
}

TEST(qpmesh_run, forwards_signals_to_all_ranks_and_what_they_started) {
  for (const auto& [number, name] : {std::pair{SIGINT, "INT"},
                                     {SIGTERM, "TERM"},
                                     {SIGHUP, "HUP"},
                                     {SIGQUIT, "QUIT"},
                                     {SIGUSR1, "USR1"},
                                     {SIGUSR2, "USR2"}}) {
    // The rank is the outer shell; the inner one, in the foreground, hears it too.
    const std::string inner = fmt::format(
        "trap \"echo inner {0}; exit 0\" {0}; echo ready; while :; do sleep 0.02; done", name);
    Launch run{
        job({"-np", "2"},
            fmt::format("trap 'echo outer {0}; exit 0' {0}; sh -c '{1}'; exit 1", name, inner))};
    ASSERT_TRUE(run.sees_lines(2));
    ASSERT_EQ(::kill(run.pid(), number), 0);
    EXPECT_EQ(run.wait(), 0) << run.errors();
    const auto heard = sorted(lines_of(run.output()));
    const std::string in = fmt::format("inner {}", name);
    const std::string out = fmt::format("outer {}", name);
    EXPECT_EQ(heard, (std::vector<std::string>{in, in, out, out, "ready", "ready"}));
  }
}

TEST(qpmesh_run, stops_and_goes_on_with_its_ranks) {
  Launch run{job({"-np", "2"}, "echo $QPMESH_RANK $$; exec sleep 60")};
  expect_stop_and_go(run);
}

TEST(qpmesh_run, wakes_stopped_ranks_when_it_is_asked_to_end) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    Launch run{job({"-np", "2"}, "echo ready; kill -STOP $$; exec sleep 60")};
    ASSERT_TRUE(run.sees_lines(2));
    ASSERT_EQ(::kill(run.pid(), number), 0);
    EXPECT_EQ(run.wait(), 128 + number);
    EXPECT_TRUE(nothing_is_left());
  }
}

TEST(qpmesh_run, kills_ranks_that_ignore_the_sigterm_that_it_was_sent) {
  const auto begin = Clock::now();
  Launch run{job({"-np", "2", "--grace-ms", "300"},
                 "trap '' TERM; echo ready; while :; do sleep 0.02; done")};
  ASSERT_TRUE(run.sees_lines(2));
  ASSERT_EQ(::kill(run.pid(), SIGTERM), 0);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds{300});
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, ends_when_it_is_asked_to_though_nobody_reads_what_its_ranks_say) {
  Launch run{job({"-np", "2", "--prefix", "--grace-ms", "200"}, "echo ready; exec yes")};
  ASSERT_TRUE(run.sees_lines(2));
  ::poll(nullptr, 0, 200);  // for the pipes to fill; it holds also where they do not
  ASSERT_EQ(::kill(run.pid(), SIGTERM), 0);
  EXPECT_TRUE(await_end(run.pid()));
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_TRUE(nothing_is_left());
}

// A terminal of its own, in whose foreground the ranks are not.
void enter_a_terminal() {
  const int terminal = ::posix_openpt(O_RDWR);
  ::grantpt(terminal);
  ::unlockpt(terminal);
  ::setsid();
  const int ours =
      ::open(::ptsname(terminal), O_RDWR);  // NOLINT(concurrency-mt-unsafe): one thread
  ::tcsetpgrp(ours, ::getpgrp());
}

TEST(qpmesh_run, names_a_rank_that_the_terminal_stops_and_says_why) {
  const std::vector<std::pair<std::string, std::string>> stopped{
      {"read line", "it reads from the terminal; give rank 0 its input through a pipe or file"},
      {"stty -echo",
       "it writes to the terminal or changes its settings; only who is in its foreground may"}};
  for (const auto& [command, why] : stopped) {
    Launch run{
        job({"-np", "2"},
            fmt::format("test $QPMESH_RANK = 0 && exec sleep 60; echo $$; {} </dev/tty", command)),
        {},
        enter_a_terminal};
    ASSERT_TRUE(run.sees_errors(1));
    EXPECT_EQ(run.errors(), fmt::format("qpmesh-run: rank 1 (pid {}) was stopped because {}\n",
                                        lines_of(run.output()).at(0), why));
    ASSERT_EQ(::kill(run.pid(), SIGINT), 0);
    EXPECT_EQ(run.wait(), 128 + SIGINT);
  }
}

TEST(qpmesh_run, reports_a_rank_that_a_forwarded_signal_killed) {
  Launch run{job({"-np", "2"}, "echo ready; exec sleep 60")};
  ASSERT_TRUE(run.sees_lines(2));
  ASSERT_EQ(::kill(run.pid(), SIGINT), 0);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, takes_its_ranks_and_what_they_started_with_it_when_it_is_killed) {
  Launch run{job({"-np", "3"}, "(trap '' TERM HUP INT; echo ready; sleep 60); echo never")};
  ASSERT_TRUE(run.sees_lines(3));
  ASSERT_EQ(::kill(run.pid(), SIGKILL), 0);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_EQ(run.output(), "ready\nready\nready\n");
  EXPECT_TRUE(nothing_is_left());
}

TEST(qpmesh_run, says_which_program_it_cannot_find) {
  Launch run{{"-np", "2", "no-such-program", "x"}};
  EXPECT_EQ(run.wait(), 127);
  EXPECT_EQ(run.errors(),
            "qpmesh-run: cannot run \"no-such-program\": No such file or directory\n");
  Launch directory{{"-np", "2", "/"}};
  EXPECT_EQ(directory.wait(), 126);
  EXPECT_EQ(directory.errors(), "qpmesh-run: cannot run \"/\": Permission denied\n");
}

// Returns the text as newer versions of CLI11 write it.
std::string in_newer_cli11(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> changes[] = {
      {"not in range 1 to 65536", "not in range [1 - 65536]"},
      {"not in range 0 to 3600000", "not in range [0 - 3600000]"},
      {"At Most", "At most"}};
  for (const auto& [older, newer] : changes)
    if (const auto at = text.find(older); at != text.npos) text.replace(at, older.size(), newer);
  return text;
}

TEST(qpmesh_run, refuses_a_command_line_that_makes_no_sense) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{}, "--np is required"},
      {{"true"}, "--np is required"},
      {{"-np", "2"}, "program is required"},
      {{"-np"}, "--np: 1 required INT:INT in [1 - 65536] missing"},
      {{"-np", "0", "true"}, "--np: Value 0 not in range 1 to 65536"},
      {{"-np", "x", "true"}, "--np: Value x not in range 1 to 65536"},
      {{"-np", "2", "-np", "3", "true"}, "--np: At Most 1 required but received 2"},
      {{"-np", "2", "--no-such-option", "true"},
       "The following argument was not expected: --no-such-option"},
      {{"-np", "1", "--grace-ms", "-5", "true"}, "--grace-ms: Value -5 not in range 0 to 3600000"}};
  for (const auto& [arguments, what] : wrong) {
    Launch run{arguments};
    EXPECT_EQ(run.wait(), 2);
    const auto expected = [](const std::string& cause) {
      return "qpmesh-run: " + cause +
             "\nqpmesh-run -np N [options] [--] program [arguments…]; --help says more\n";
    };
    EXPECT_TRUE(run.errors() == expected(what) || run.errors() == expected(in_newer_cli11(what)))
        << run.errors();
    EXPECT_EQ(run.output(), "");
  }
}

TEST(qpmesh_run, says_what_ranks_do_that_say_nothing_themselves) {
  Launch run{job({"-np", "2", "--states", "1"}, "[ $QPMESH_RANK = 0 ] || exit 0; sleep 1.5")};
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.errors(), "qpmesh-run: after 1 s: 1 ended (1), 1 starting (0)\n");
}

}  // namespace

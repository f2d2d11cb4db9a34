// SPDX-License-Identifier: MIT
// qpmesh-run: the ranks of a job, on this host or on several over ssh, without a launcher
// installed.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.hpp"
#include "tools/pages/pages.hpp"
#include "tools/run/across_hosts.hpp"
#include "tools/run/courier.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/job.hpp"

namespace {

using qpmesh::run::RunError;
using qpmesh::run::usage_code;

constexpr std::array<std::string_view, 11> options_with_value{
    "-n",    "-np",    "--np",         "--grace-ms",         "--hosts", "--hostfile",
    "--ssh", "--wdir", "--remote-run", "--hosts-timeout-ms", "--states"};

// Our options end at the first word that is neither an option nor its value, or at "--": the rest
// is the program's.
std::vector<std::string>::const_iterator find_program(const std::vector<std::string>& words) {
  auto word = words.begin();
  while (word != words.end() && word->starts_with('-') && *word != "--") {
    const bool takes_value = std::find(options_with_value.begin(), options_with_value.end(),
                                       *word) != options_with_value.end();
    ++word;
    if (takes_value && word != words.end()) ++word;
  }
  return word;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream{text};
  return {std::istream_iterator<std::string>{stream}, {}};
}

// What the command line says of hosts.
struct HostOptions {
  std::optional<std::string> hosts;
  std::optional<std::string> hostfile;
  std::string ssh = "ssh";
  std::string remote_run;
  std::string directory;
  std::int64_t answer_ms_max = 30'000;

  bool several() const { return hosts || hostfile; }
};

// Pipes of ours must not get the numbers of standard streams that nobody gave us.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // it gets the lowest number
  }
}

// Numbers are decimal: CLI11 takes 010 for eight.
const CLI::Validator decimal{
    [](std::string& text) {
      text.erase(0, std::min(text.find_first_not_of(" +0"), text.empty() ? 0 : text.size() - 1));
      return std::string{};
    },
    ""};

// A path that names us on every host where qpmesh is installed alike.
std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "qpmesh-run" : path.string();
}

// The directory where ranks start is ours from here on: other paths of the command line were read.
void enter(const HostOptions& options) {
  if (options.directory.empty()) return;
  if (::chdir(options.directory.c_str()) == 0) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    ::setenv("PWD", std::filesystem::current_path().c_str(), 1);
    return;
  }
  // Of other hosts each says for itself whether it is there.
  const std::string why = qpmesh::base::describe_errno(errno);
  if (!options.several() || !options.directory.starts_with('/'))
    throw RunError{fmt::format("--wdir {}: {}", options.directory, why), usage_code};
}

// A command that is a path means what it means where we were started.
std::vector<std::string> shell_of(const std::string& text) {
  std::vector<std::string> words = words_of(text);
  if (words.empty()) throw RunError{"--ssh: a command is missing", usage_code};
  if (words.front().find('/') != std::string::npos)
    words.front() = std::filesystem::absolute(words.front());
  return words;
}

int run(qpmesh::run::JobPlan job, const HostOptions& options) {
  job.job = qpmesh::run::make_job();
  if (!options.several()) {
    enter(options);
    job.local_size = job.size;
    return qpmesh::run::run_job(std::move(job));
  }
  qpmesh::run::HostsPlan plan;
  plan.hosts =
      qpmesh::run::take_slots(options.hosts ? qpmesh::run::parse_hosts(*options.hosts)
                                            : qpmesh::run::read_hostfile(*options.hostfile),
                              job.size);
  job.size = 0;
  for (const auto& host : plan.hosts) job.size += host.slots;
  // Nobody but the ranks, and who may read their environment, knows it; it goes through ssh.
  if (plan.hosts.size() > 1) job.secret = qpmesh::run::make_job();
  plan.job = std::move(job);
  plan.shell.command = shell_of(options.ssh);
  // What the user wrote, as ~/bin/qpmesh-run, may mean more to a shell than it says.
  plan.shell.program = options.remote_run;
  if (options.remote_run.empty()) {
    const bool is_for_a_shell = qpmesh::run::is_ssh(plan.shell.command);
    plan.shell.program = is_for_a_shell ? qpmesh::run::word_for_a_shell(own_path()) : own_path();
  }
  enter(options);
  plan.directory = options.directory.starts_with('/') ? options.directory
                                                      : std::filesystem::current_path().string();
  plan.answer_ms_max = options.answer_ms_max;
  return qpmesh::run::run_across_hosts(std::move(plan));
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  // What the qpmesh-run of another host starts here.
  if (argc == 2 && std::string_view{argv[1]} == "--on-host") return qpmesh::run::serve_launcher();

  qpmesh::run::JobPlan plan;
  plan.size = 0;
  HostOptions hosts;
  CLI::App app{
      "qpmesh-run -np N [options] [--] program [arguments…]\n"
      "Starts ranks of a program, on this host or over ssh on several, and waits for them. Answers "
      "with the code of the first rank that fails.",
      "qpmesh-run"};
  qpmesh::pages::add_to(app, "starts the ranks of a program");
  app.add_option("-n,--np", plan.size,
                 "number of ranks; also -np. With hosts: all that they have room for")
      ->transform(decimal)
      ->check(CLI::Range(1, 65536));
  auto* const list =
      app.add_option("--hosts", hosts.hosts, "on these hosts, with so many ranks on each: a:4,b:4");
  auto* const file =
      app.add_option("--hostfile", hosts.hostfile,
                     "the same from a file: a line for each host, as a:4 or a slots=4")
          ->excludes(list);
  app.add_option("--wdir", hosts.directory,
                 "the directory where ranks start; without it this one, on every host");
  app.add_option("--ssh", hosts.ssh,
                 "what reaches another host: these words, the host, -- and a command. One called "
                 "ssh gets options by which it asks nothing")
      ->envname("QPMESH_SSH")
      ->capture_default_str();
  app.add_option("--remote-run", hosts.remote_run,
                 "qpmesh-run, as it is called on the other hosts; without it as here");
  app.add_option("--hosts-timeout-ms", hosts.answer_ms_max, "how long a host may take to answer")
      ->capture_default_str()
      ->transform(decimal)
      ->check(CLI::Range(1, 3'600'000));
  app.add_flag("--prefix", plan.prefix, "put \"[rank] \" before every line of output");
  app.add_option("--states", plan.states_s,
                 "says every so many seconds what the ranks of this host do: who is in which call "
                 "for how long, and who is not; each call takes some tens of nanoseconds more")
      ->excludes(list)
      ->excludes(file)
      ->transform(decimal)
      ->check(CLI::Range(1, 86'400));
  app.add_flag("--keep-going", plan.keep_going, "a rank that fails ends no other");
  app.add_option(
         "--grace-ms", plan.grace_ms,
         "after the first failure the others get this long to end by themselves, and again between "
         "SIGTERM, that of qpmesh-run or one that it was sent, and SIGKILL")
      ->capture_default_str()
      ->transform(decimal)
      ->check(CLI::Range(0, 3'600'000));

  const std::vector<std::string> words{argv + 1, argv + argc};
  const auto program = find_program(words);
  std::vector<std::string> ours{words.begin(), program};
  std::replace(ours.begin(), ours.end(), std::string{"-np"},
               std::string{"--np"});  // one dash, two letters: not for CLI11
  plan.command.assign(program != words.end() && *program == "--" ? program + 1 : program,
                      words.end());
  std::reverse(ours.begin(), ours.end());  // as CLI11 wants them
  try {
    app.parse(ours);
    if (plan.size == 0 && !hosts.several()) throw CLI::RequiredError{"--np"};
    if (plan.command.empty()) throw CLI::RequiredError{"program"};
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(
        stderr,
        "qpmesh-run: {}\nqpmesh-run -np N [options] [--] program [arguments…]; --help says more\n",
        error.what());
    return usage_code;
  }

  try {
    return run(std::move(plan), hosts);
  } catch (const RunError& error) {
    fmt::print(stderr, "qpmesh-run: {}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "qpmesh-run: {}\n", error.what());
    return 1;
  }
}

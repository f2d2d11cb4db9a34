// SPDX-License-Identifier: MIT
// qpmesh-doctor: what is wrong on this host and, as ranks of a job, between every pair of them, and
// the command that mends it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "base/log.hpp"
#include "bootstrap/launcher.hpp"
#include "qpmesh/error.hpp"
#include "tools/doctor/pairs.hpp"
#include "tools/doctor/report.hpp"
#include "tools/pages/pages.hpp"
#include "tools/print.hpp"

namespace {

namespace doctor = qpmesh::doctor;

constexpr int problem_code = 1;
constexpr int cannot_run_code = 2;

struct Wishes {
  bool json = false;
  std::string svg{};  // a file; empty: none
  bool gids = false;
};

// On a terminal, until the report is there: a pair takes up to seconds.
void show_progress(std::size_t tried, std::size_t all) {
  if (tried == all) fmt::print(stderr, "\r\033[K");
  else fmt::print(stderr, "\r{} of {} pairs tried", tried, all);
  std::fflush(stderr);
}

// Open MPI gives its ranks a terminal of its own, wherever their output goes in the end.
bool for_terminal(const qpmesh::bootstrap::Identity& identity) {
  return ::isatty(STDOUT_FILENO) == 1 && identity.launcher != "open_mpi" &&
         !qpmesh::bootstrap::process_environment()("NO_COLOR");
}

int tell(const doctor::Report& report, const qpmesh::bootstrap::Identity& identity,
         const Wishes& wishes) {
  qpmesh::print(wishes.json ? to_json(report) : to_text(report, for_terminal(identity)));
  if (!wishes.svg.empty()) qpmesh::write_file(wishes.svg, to_svg(report));
  return any_problem(report) ? problem_code : 0;
}

// The first rank speaks for all, and its exit code is that of the job: a launcher ends the others
// where one of them fails.
int examine_job(const doctor::HostFacts& facts, const qpmesh::bootstrap::Identity& identity,
                const Wishes& wishes) {
  const qpmesh::base::System system;
  const qpmesh::base::Log log{facts.options.log, identity.rank};
  doctor::RankReport mine = report_of(facts, identity.rank);
  try {
    const auto world = make_bootstrap(identity, 0, facts.options, system, log);
    const bool shows = identity.rank == 0 && ::isatty(STDERR_FILENO) == 1 && for_terminal(identity);
    const auto report = doctor::examine_pairs(*world, facts, mine, wishes.gids, system, log,
                                              [shows](std::size_t tried, std::size_t all) {
                                                if (shows) show_progress(tried, all);
                                              });
    return identity.rank == 0 ? tell(report, identity, wishes) : 0;
  } catch (const qpmesh::Error& error) {
    // What is known of this host may be the reason, be it only a note.
    fmt::print(stderr, "{}\n", error.what());
    if (!mine.findings.empty())
      fmt::print(stderr, "{}", doctor::to_text({.ranks = {std::move(mine)}}, false));
    return cannot_run_code;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "qpmesh-doctor [options]\n"
      "Looks at this host's limits, kernel, interfaces, names and RDMA devices and, where a "
      "launcher starts it as the ranks of a job (qpmesh-run -np 4 qpmesh-doctor), at every pair "
      "of them. Says what is wrong, what it costs, and the command that mends it. QPMESH_ "
      "variables count as they do in a job. Exit code 0: no problem; 1: a problem; 2: it could "
      "not run.",
      "qpmesh-doctor"};
  qpmesh::pages::add_to(app, "says what is wrong with hosts and the network between them");
  Wishes wishes;
  app.add_flag("--json", wishes.json, "one JSON object instead of text");
  app.add_flag("--gids", wishes.gids,
               "every pair of GIDs of every pair of ranks, and not only where RDMA fails");
  app.add_option("--svg", wishes.svg, "writes a heat map of the pairs to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : cannot_run_code;
  }
  try {
    auto facts = doctor::collect();
    const auto identity = qpmesh::bootstrap::identify(qpmesh::bootstrap::process_environment());
    if (identity.size > 1) {
      facts.local_size = identity.local_size;
      return examine_job(facts, identity, wishes);
    }
    return tell({.ranks = {report_of(facts, 0)}}, identity, wishes);
  } catch (const std::exception& error) {
    fmt::print(stderr, "qpmesh-doctor: {}\n", error.what());
    return cannot_run_code;
  }
}

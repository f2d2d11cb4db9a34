// SPDX-License-Identifier: MIT
#include "tools/run/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/system.hpp"
#include "tools/run/child.hpp"
#include "tools/run/guardian.hpp"

namespace qpmesh::run {
namespace {

// Another launcher's word on who we are would be believed by a rank, or by an MPI that it uses.
constexpr std::array<std::string_view, 3> foreign_prefixes{"OMPI_", "PMI_", "PMIX_"};
constexpr std::array<std::string_view, 17> foreign_names{
    "SLURM_PROCID", "SLURM_LOCALID", "MPI_LOCALRANKID",  "MPI_LOCALNRANKS",   "RANK",
    "WORLD_SIZE",   "LOCAL_RANK",    "LOCAL_WORLD_SIZE", "GROUP_RANK",        "MASTER_ADDR",
    "MASTER_PORT",  "QPMESH_RANK",   "QPMESH_SIZE",      "QPMESH_LOCAL_SIZE", "QPMESH_JOB",
    "QPMESH_SSH",   "QPMESH_STATES"};

// In the child, between fork and exec. Answers with the errno of what failed, if it returns at all.
int become_rank(const JobPlan& plan, int rank, const Guardian& guardian, pid_t launcher, int output,
                int errors, char* const* command, char* const* environment) {
  // The kernel ends us with the launcher, unless that was gone before we asked.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (::getppid() != launcher) ::_exit(1);
  if (::setpgid(0, 0) != 0) return errno;
  guardian.watch(::getpid());  // from here: the launcher could be killed before it came to say so
  if (rank != 0) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0) return errno;
  }
  if (output >= 0 && (::dup2(output, STDOUT_FILENO) < 0 || ::dup2(errors, STDERR_FILENO) < 0))
    return errno;
  if (const int error = ::pthread_sigmask(SIG_SETMASK, &plan.signal_mask, nullptr); error != 0)
    return error;
  ::execvpe(command[0], command, environment);
  return errno;
}

}  // namespace

std::string make_job() {
  const base::System system;
  return fmt::format("{:016x}{:016x}", system.random_u64(), system.random_u64());
}

bool says_who_ranks_are(std::string_view name) {
  return std::find(foreign_names.begin(), foreign_names.end(), name) != foreign_names.end() ||
         std::any_of(foreign_prefixes.begin(), foreign_prefixes.end(),
                     [&](auto prefix) { return name.starts_with(prefix); });
}

std::vector<std::string> rank_environment(const char* const* environment, const JobPlan& plan,
                                          int rank) {
  std::vector<std::string> result;
  for (const char* const* entry = environment; *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = (!plan.root.empty() && name == "QPMESH_ROOT") ||
                          (!plan.secret.empty() && name.starts_with("QPMESH_SECRET"));
    if (!replaced && !says_who_ranks_are(name)) result.emplace_back(text);
  }
  result.push_back(fmt::format("QPMESH_RANK={}", rank));
  result.push_back(fmt::format("QPMESH_SIZE={}", plan.size));
  result.push_back(fmt::format("QPMESH_LOCAL_SIZE={}", plan.local_size));
  result.push_back(fmt::format("QPMESH_JOB={}", plan.job));
  if (!plan.root.empty()) result.push_back(fmt::format("QPMESH_ROOT={}", plan.root));
  if (!plan.secret.empty()) result.push_back(fmt::format("QPMESH_SECRET={}", plan.secret));
  if (plan.states_variable) result.push_back(plan.states_variable(rank - plan.first_rank));
  return result;
}

RankProcess start_rank(const JobPlan& plan, int rank, const Guardian& guardian) {
  RankProcess process;
  process.rank = rank;
  Pipe output;
  Pipe errors;
  if (plan.prefix) {
    output = make_pipe();
    errors = make_pipe();
  }
  // Made before the fork: the child only makes system calls.
  std::vector<std::string> command = plan.command;
  std::vector<std::string> environment = rank_environment(::environ, plan, rank);
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const pid_t launcher = ::getpid();
  process.pid = start_program(plan.command.front(), [&] {
    return become_rank(plan, rank, guardian, launcher, output.writing.get(), errors.writing.get(),
                       arguments.data(), variables.data());
  });
  process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  process.output = std::move(output.reading);
  process.errors = std::move(errors.reading);
  return process;
}

void RankProcess::look() noexcept {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid)
    return;
  ended = true;
  end.rank = rank;
  end.pid = pid;
  if (info.si_code == CLD_EXITED) {
    end.code = info.si_status;
    end.ending = fmt::format("exited with code {}", end.code);
  } else {
    end.killed = true;
    end.code = 128 + info.si_status;
    const char* const name =
        ::strsignal(info.si_status);  // NOLINT(concurrency-mt-unsafe): one thread
    end.ending = fmt::format("was killed by signal {} ({})", info.si_status, name);
  }
}

// A process gives its memory back first, then its descriptors, and tells its parent last.
bool RankProcess::is_ending() const noexcept {
  const base::UniqueFd sizes{
      ::open(fmt::format("/proc/{}/statm", pid).c_str(), O_RDONLY | O_CLOEXEC)};
  char first = '1';
  return ::read(sizes.get(), &first, 1) == 1 && first == '0';
}

void RankProcess::reap() noexcept { run::reap(pid); }

}  // namespace qpmesh::run

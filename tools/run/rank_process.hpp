// One rank as a process: how it is started, and how it ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/owned.hpp"

namespace qpmesh::run {

struct JobPlan {
  std::vector<std::string> command;
  int size = 1;
  bool prefix = false;
  bool keep_going = false;
  int grace_ms = 2000;
  std::string job;         // random; the same for every rank
  sigset_t signal_mask{};  // what qpmesh-run was started with; the ranks get it back
};

// A message for the user and the code to leave with.
class RunError : public std::runtime_error {
 public:
  RunError(const std::string& message, int exit_code)
      : std::runtime_error{message}, exit_code_{exit_code} {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

// The leader of a process group of its own, so that whatever it starts gets its signals too. Reaped
// as late as possible: until then nobody else can get its group's number.
struct RankProcess {
  int rank = 0;
  pid_t pid = 0;
  base::UniqueFd pidfd;   // none where the kernel, or a filter of a container, has no pidfds
  base::UniqueFd output;  // where prefixes are wanted: reading ends of its stdout and stderr
  base::UniqueFd errors;
  bool ended = false;
  bool killed = false;  // by a signal
  int code = 0;         // as a shell has it: the exit code, or 128 + signal
  std::string ending;   // "exited with code 3", "was killed by signal 9 (Killed)"

  void signal_group(int signal) const noexcept { ::kill(-pid, signal); }
  // Looks whether it ended, and leaves the zombie.
  void look() noexcept;
  // On its way to its end: its memory is gone already, and its sockets may be, which its peers see.
  bool is_ending() const noexcept;
  void reap() noexcept;
};

// 128 random bits in hexadecimal.
std::string make_job();

class Guardian;

// Returns after the program was executed and its group is known to the guardian. Throws RunError:
// 127 where there is no such program, 126 where it cannot be executed, 1 where this process is out
// of something.
RankProcess start_rank(const JobPlan& plan, int rank, const Guardian& guardian);

// What a rank finds in its environment: ours without what other launchers said, plus rank, size and
// job.
std::vector<std::string> rank_environment(const char* const* environment, const JobPlan& plan,
                                          int rank);

}  // namespace qpmesh::run

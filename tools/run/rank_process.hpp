// SPDX-License-Identifier: MIT
// One rank as a process: how it is started, and how it ended.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned.hpp"

namespace qpmesh::run {

// The ranks of one host.
struct JobPlan {
  std::vector<std::string> command;
  int size = 1;        // of the whole job
  int first_rank = 0;  // the first of this host
  int local_size = 1;  // ranks of this host
  bool prefix = false;
  bool keep_going = false;
  int grace_ms = 2000;
  std::string job;            // random; the same for every rank
  std::string root;           // where ranks of several hosts meet; empty: one host
  std::string secret;         // by which these know each other; empty: as without qpmesh-run
  sigset_t signal_mask{};     // what qpmesh-run was started with; the ranks get it back
  std::int64_t states_s = 0;  // so often it is said what ranks do; 0: never
  std::function<std::string(int)> states_variable{};  // of a rank; empty: none
  int courier = -1;  // the socket of a job that another host started (wire.hpp); -1: none
};

inline constexpr int usage_code = 2;

// A message for the user and the code to leave with.
class RunError : public std::runtime_error {
 public:
  RunError(const std::string& message, int exit_code)
      : std::runtime_error{message}, exit_code_{exit_code} {}
  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

// How a rank ended, for the user.
struct RankEnd {
  int rank = 0;
  int pid = 0;
  int code = 0;          // as a shell has it: the exit code, or 128 + signal
  bool killed = false;   // by a signal
  std::string ending{};  // "exited with code 3", "was killed by signal 9 (Killed)"
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
  RankEnd end;  // once it has

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

// Whether another launcher says who a rank is by this variable, or this one does.
bool says_who_ranks_are(std::string_view name);
// What a rank finds in its environment: ours without what other launchers said, plus rank, size,
// job and, between hosts, where to meet.
std::vector<std::string> rank_environment(const char* const* environment, const JobPlan& plan,
                                          int rank);

}  // namespace qpmesh::run

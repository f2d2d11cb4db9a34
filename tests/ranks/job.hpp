// SPDX-License-Identifier: MIT
// Processes of a test: started, watched against deadlines, and gone when the test ends, whatever
// happens.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned.hpp"

namespace qpmesh::ranks {

using Words = std::vector<std::string>;

// 30 s; ten times that in guests (RANKS_VARIABLES), which may be emulated.
int patience_ms();

// One process. Its environment is PATH, HOME and what is given: nothing of the launcher or the
// options that the tests run under, but for RANKS_VARIABLES ("A=b C=d"), by which guests run the
// same tests over verbs. Both streams go to memory, so that nobody has to read for it to go on.
class Process {
 public:
  Process(const Words& command, const Words& variables);
  // Asks, waits a little, kills; then kills whatever it left behind.
  ~Process();
  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) = delete;

  pid_t pid() const noexcept { return pid_; }
  std::string output() const;
  bool sees(std::string_view text,
            int timeout_ms = patience_ms()) const;  // text has been written within the time
  void send_signal(int number) const;
  // The exit code, 128 + signal, or -1: still running after the time.
  int wait(int timeout_ms = patience_ms());

 private:
  base::UniqueFd output_;
  pid_t pid_ = -1;
  int code_ = -1;
};

// Ranks without a launcher: QPMESH_RANK, QPMESH_SIZE and QPMESH_JOB set by hand.
struct ByHand {
  Words variables{};                                // of every rank
  std::function<Words(int rank)> more_variables{};  // of one
  std::string job{};                                // empty: a name of its own
};
std::vector<Process> start_ranks(int size, const Words& command, const ByHand& how = {});

// Waits for all, and expects code 0 of each.
void expect_success(std::vector<Process>& processes);

Words rank_program(std::string scenario, Words arguments = {});

// A path of this test alone, for files that do not exist yet. Removed with everything in it.
class Folder {
 public:
  Folder();
  ~Folder();
  std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::int64_t now_ms();

}  // namespace qpmesh::ranks

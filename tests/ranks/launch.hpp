// SPDX-License-Identifier: MIT
// A qpmesh-run that is running, and what can be seen of it and of its ranks.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::ranks {

using Clock = std::chrono::steady_clock;

inline constexpr int launch_patience_ms = 20'000;

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream{text};
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline std::vector<std::string> sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// A qpmesh-run that is running. What its ranks leave behind becomes ours (subreaper), so that a
// test can tell whether anything did.
class Launch {
 public:
  explicit Launch(std::vector<std::string> arguments, const std::string& input = {},
                  const std::function<void()>& prepare = {}) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::array<std::array<int, 2>, 3> pipes{};
    for (auto& pipe : pipes) EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::write(pipes[0][1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    arguments.insert(arguments.begin(), QPMESH_RUN);
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // A shell cannot trap what its parents ignore, as they do for a job in the background.
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP})
        ::signal(signal, SIG_DFL);
      ::dup2(pipes[0][0], 0);
      ::dup2(pipes[1][1], 1);
      ::dup2(pipes[2][1], 2);
      if (prepare) prepare();
      ::execv(QPMESH_RUN, pointers.data());
      ::_exit(99);
    }
    ::close(pipes[0][0]);
    ::close(pipes[0][1]);
    ::close(pipes[1][1]);
    ::close(pipes[2][1]);
    streams_[0].reset(pipes[1][0]);
    streams_[1].reset(pipes[2][0]);
  }
  ~Launch() {
    if (pid_ > 0) wait();
  }

  pid_t pid() const { return pid_; }
  void read_slowly() { pause_ms_ = 1; }  // between reads of 4 KiB
  const std::string& output() const { return texts_[0]; }
  const std::string& errors() const { return texts_[1]; }

  // Nobody reads what it says of errors any more.
  void close_errors() { streams_[1].reset(); }

  // Reads until stdout, or stderr, has so many lines.
  bool sees_lines(std::size_t count) { return sees_lines_of(texts_[0], count); }
  bool sees_errors(std::size_t count) { return sees_lines_of(texts_[1], count); }
  // Reads to the end of both streams and returns the code, 128 + signal, or -1 after having lost
  // patience.
  int wait() {
    while (streams_[0] || streams_[1]) {
      if (!read_some()) break;
    }
    if (streams_[0] || streams_[1]) ::kill(pid_, SIGKILL);
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    if (streams_[0] || streams_[1]) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool sees_lines_of(const std::string& text, std::size_t count) {
    while (lines_of(text).size() < count || text.back() != '\n') {
      if (!read_some()) return false;
    }
    return true;
  }

  bool read_some() {
    ::poll(nullptr, 0, pause_ms_);
    std::array<pollfd, 2> polled{};
    for (std::size_t i = 0; i < 2; ++i)
      polled[i] = {.fd = streams_[i].get(), .events = POLLIN, .revents = 0};
    if (::poll(polled.data(), polled.size(), base::remaining_ms(system_, deadline_)) <= 0)
      return false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      std::array<char, 4096> text;
      const ssize_t count = ::read(streams_[i].get(), text.data(), text.size());
      if (count <= 0) {
        streams_[i].reset();
      } else {
        texts_[i].append(text.data(), static_cast<std::size_t>(count));
      }
    }
    return streams_[0] || streams_[1];
  }

  base::System system_;
  Deadline deadline_ = base::after_ms(system_, launch_patience_ms);
  pid_t pid_ = 0;
  int pause_ms_ = 0;
  std::array<base::UniqueFd, 2> streams_;
  std::array<std::string, 2> texts_;
};

// True once no process that the run had started is left.
inline bool nothing_is_left() {
  const auto deadline = Clock::now() + std::chrono::milliseconds{launch_patience_ms};
  while (Clock::now() < deadline) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid < 0) return errno == ECHILD;
    if (pid == 0) ::poll(nullptr, 0, 2);
  }
  return false;
}

inline std::vector<std::string> job(std::initializer_list<std::string> options,
                                    const std::string& script) {
  std::vector<std::string> arguments{options};
  arguments.insert(arguments.end(), {"sh", "-c", script});
  return arguments;
}

// The pid that a message "rank 2 (pid 123) …" names.
inline std::string rank_message(const std::string& errors, int rank, const std::string& ending) {
  for (const std::string& line : lines_of(errors)) {
    int named = -1;
    int pid = -1;
    if (std::sscanf(line.c_str(), "qpmesh-run: rank %d (pid %d)", &named, &pid) != 2 ||
        named != rank || pid <= 1)
      continue;
    if (line == fmt::format("qpmesh-run: rank {} (pid {}) {}", rank, pid, ending)) return line;
  }
  return {};
}

// The third field of /proc/…/stat, behind the name in brackets; '-' where there is no such process.
inline char state_of(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '-' : text[name_end + 2];
}
// Until it is in one of these states.
inline bool await_state(pid_t pid, std::string_view states) {
  const auto deadline = Clock::now() + std::chrono::milliseconds{launch_patience_ms};
  for (; Clock::now() < deadline; ::poll(nullptr, 0, 1)) {
    if (states.find(state_of(pid)) != states.npos) return true;
  }
  return false;
}
inline bool await_end(pid_t pid) { return await_state(pid, "Z-"); }

// A rank that leaves behind who writes more, and what can be between the two at its end: pipes and
// buffers, seldom half of this.
inline const std::string writers_left_behind =
    "for i in 1 2 3 4; do dd if=/dev/zero bs=64k count=400 2>/dev/null & done; sleep 0.1; exit 0";
inline constexpr std::size_t on_its_way_bytes_max = std::size_t{2} << 20;

// Ranks say "rank pid".
inline std::vector<pid_t> pids_of(const Launch& run, std::size_t size) {
  std::vector<pid_t> pids(size);
  for (const std::string& line : lines_of(run.output())) {
    std::size_t rank = 0;
    pid_t pid = 0;
    if (std::istringstream{line} >> rank >> pid && rank < size) pids[rank] = pid;
  }
  return pids;
}

// Of two ranks that say "rank pid" and then wait.
inline void expect_stop_and_go(Launch& run) {
  ASSERT_TRUE(run.sees_lines(2));
  const auto ranks = pids_of(run, 2);
  ASSERT_EQ(::kill(run.pid(), SIGTSTP), 0);
  for (const pid_t pid : {ranks[0], ranks[1], run.pid()}) EXPECT_TRUE(await_state(pid, "T"));
  ASSERT_EQ(::kill(run.pid(), SIGCONT), 0);
  for (const pid_t pid : {ranks[0], ranks[1], run.pid()}) EXPECT_TRUE(await_state(pid, "SR"));
  ASSERT_EQ(::kill(run.pid(), SIGINT), 0);
  EXPECT_EQ(run.wait(), 128 + SIGINT);
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace qpmesh::ranks

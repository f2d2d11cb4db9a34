// SPDX-License-Identifier: MIT
#include "job.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace qpmesh::ranks {
namespace {

constexpr int grace_ms = 2'000;

std::vector<char*> pointers(Words& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// For every rank of every test: to run them over another transport.
const char* more_variables() {
  return std::getenv("RANKS_VARIABLES");  // NOLINT(concurrency-mt-unsafe): one thread
}

Words environment_with(const Words& variables) {
  Words all;
  for (const char* name : {"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS",
                           "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
    if (value != nullptr) all.push_back(std::string{name} + "=" + value);
  }
  all.insert(all.end(), variables.begin(), variables.end());
  // Behind what the test gives: of two with the same name the first counts.
  if (const char* const more = more_variables()) {
    std::istringstream words{more};
    for (std::string word; words >> word;) all.push_back(word);
  }
  return all;
}

void pause_briefly() { ::poll(nullptr, 0, 1); }

// Processes of processes that are gone are ours (subreaper). A list of the moment: what it names
// may be gone meanwhile, but not reused, because nobody but us collects it.
std::vector<pid_t> children() {
  std::ifstream file{"/proc/self/task/" + std::to_string(::gettid()) + "/children"};
  std::vector<pid_t> all;
  for (pid_t pid = 0; file >> pid;) all.push_back(pid);
  return all;
}

}  // namespace

int patience_ms() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr int alone_ms = 120'000;
#else
  constexpr int alone_ms = 30'000;
#endif
  return more_variables() == nullptr ? alone_ms : 300'000;
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Process::Process(const Words& command, const Words& variables)
    : output_{::memfd_create("output", MFD_CLOEXEC)} {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Words words = command;
  Words environment = environment_with(variables);
  const auto arguments = pointers(words);
  const auto settings = pointers(environment);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(99);
    ::dup2(nothing, 0);
    ::dup2(output_.get(), 1);
    ::dup2(output_.get(), 2);
    ::execve(arguments[0], arguments.data(), settings.data());
    ::_exit(99);
  }
  ::close(nothing);
}

Process::~Process() {
  if (!output_) return;  // moved from
  if (pid_ > 0) {
    ::kill(pid_, SIGCONT);
    ::kill(pid_, SIGTERM);  // a launcher takes its ranks with it
    if (wait(grace_ms) < 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
  }
}

std::string Process::output() const {
  std::string text;
  std::array<char, 4096> part;
  while (true) {
    const ssize_t count =
        ::pread(output_.get(), part.data(), part.size(), static_cast<off_t>(text.size()));
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

bool Process::sees(std::string_view text, int timeout_ms) const {
  const std::int64_t deadline = now_ms() + timeout_ms;
  while (output().find(text) == std::string::npos) {
    if (now_ms() >= deadline) return false;
    pause_briefly();
  }
  return true;
}

void Process::send_signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }

int Process::wait(int timeout_ms) {
  const std::int64_t deadline = now_ms() + timeout_ms;
  while (pid_ > 0) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) == pid_) {
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      pid_ = -1;
    } else if (now_ms() >= deadline) {
      return -1;
    } else {
      pause_briefly();
    }
  }
  return code_;
}

std::vector<Process> start_ranks(int size, const Words& command, const ByHand& how) {
  static int jobs = 0;
  const std::string job = how.job.empty()
                              ? "test-" + std::to_string(::getpid()) + "-" + std::to_string(jobs++)
                              : how.job;
  std::vector<Process> processes;
  for (int rank = 0; rank < size; ++rank) {
    Words variables{"QPMESH_RANK=" + std::to_string(rank), "QPMESH_SIZE=" + std::to_string(size),
                    "QPMESH_JOB=" + job};
    variables.insert(variables.end(), how.variables.begin(), how.variables.end());
    if (how.more_variables) {
      for (std::string& variable : how.more_variables(rank))
        variables.push_back(std::move(variable));
    }
    processes.emplace_back(command, variables);
  }
  return processes;
}

void expect_success(std::vector<Process>& processes) {
  const std::int64_t deadline = now_ms() + patience_ms();
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const auto left = static_cast<int>(std::max(std::int64_t{0}, deadline - now_ms()));
    EXPECT_EQ(processes[rank].wait(left), 0) << "rank " << rank << " says:\n"
                                             << processes[rank].output();
  }
}

Words rank_program(std::string scenario, Words arguments) {
  Words words{RANK_PROGRAM, std::move(scenario)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "qpmesh-ranks-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp failed"};
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

// At the end of every test: nothing of it may run on.
class NothingLeft final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::int64_t deadline = now_ms() + grace_ms; now_ms() < deadline; pause_briefly()) {
      const auto left = children();
      if (left.empty()) return;
      for (const pid_t pid : left) {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, WNOHANG);
      }
    }
  }
};

[[maybe_unused]] const bool listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NothingLeft);
  return true;
}();

}  // namespace

}  // namespace qpmesh::ranks

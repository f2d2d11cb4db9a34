// SPDX-License-Identifier: MIT
#include "tools/run/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/errors.hpp"
#include "base/system.hpp"
#include "tools/run/rank_process.hpp"

namespace qpmesh::run {

void fail(const char* call) {
  const int error = errno;
  const std::string hint = base::hint_for_descriptors(error);
  throw RunError{fmt::format("{} failed: {}{}{}", call, base::describe_errno(error),
                             hint.empty() ? "" : "; ", hint),
                 1};
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
  return {.reading = base::UniqueFd{ends[0]}, .writing = base::UniqueFd{ends[1]}};
}

std::size_t bytes_in(const base::UniqueFd& pipe) noexcept {
  int bytes = 0;
  return pipe && ::ioctl(pipe.get(), FIONREAD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

pid_t start_program(const std::string& program, const std::function<int()>& become) {
  Pipe report = make_pipe();  // closed by a successful exec
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    const int error = become();
    [[maybe_unused]] const auto written = ::write(report.writing.get(), &error, sizeof error);
    ::_exit(127);
  }
  report.writing.reset();
  int error = 0;
  if (::read(report.reading.get(), &error, sizeof error) != static_cast<ssize_t>(sizeof error))
    return pid;
  reap(pid);
  throw RunError{fmt::format("cannot run \"{}\": {}", program, base::describe_errno(error)),
                 error == ENOENT || error == ENOTDIR ? 127 : 126};
}

int reap(pid_t pid) noexcept {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

}  // namespace qpmesh::run

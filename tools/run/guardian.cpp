// SPDX-License-Identifier: MIT
#include "tools/run/guardian.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "base/system.hpp"
#include "tools/run/child.hpp"
#include "tools/run/rank_process.hpp"

namespace qpmesh::run {
namespace {

[[noreturn]] void guard(int line) {
  // Out of the terminal's reach: what ends qpmesh-run must not end its guardian.
  ::setsid();
  std::vector<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    const ssize_t count = ::recv(line, &group, sizeof group, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count != static_cast<ssize_t>(sizeof group)) break;
    groups.push_back(group);
  }
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Guardian::Guardian() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw RunError{fmt::format("socketpair failed: {}", base::describe_errno(errno)), 1};
  }
  line_.reset(ends[0]);
  const base::UniqueFd there{ends[1]};
  pid_ = ::fork();
  if (pid_ < 0) throw RunError{fmt::format("fork failed: {}", base::describe_errno(errno)), 1};
  if (pid_ != 0) return;
  line_.reset();
  guard(there.get());
}

Guardian::~Guardian() {
  ::kill(pid_, SIGKILL);
  reap(pid_);
}

void Guardian::watch(pid_t group) const noexcept {
  [[maybe_unused]] const auto sent = ::send(line_.get(), &group, sizeof group, MSG_NOSIGNAL);
}

}  // namespace qpmesh::run

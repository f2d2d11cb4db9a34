// SPDX-License-Identifier: MIT
#include "tools/run/terminal.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/system.hpp"
#include "tools/run/rank_process.hpp"

namespace qpmesh::run {

base::UniqueFd take_signals(sigset_t& mask_before) {
  sigset_t ours;
  ::sigemptyset(&ours);
  // Of who ignores it the system takes the ends of its children, and nobody can ask for them.
  ::signal(SIGCHLD, SIG_DFL);
  ::sigaddset(&ours, SIGCHLD);
  for (const int signal : forwarded_signals) {
    // One that was ignored before, as by nohup, is ignored: by ranks of other hosts, too.
    struct sigaction before {};
    const bool is_ignored =
        ::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!is_ignored) ::sigaddset(&ours, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &ours, &mask_before);
  base::UniqueFd signals{::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!signals) throw RunError{fmt::format("signalfd failed: {}", base::describe_errno(errno)), 1};
  return signals;
}

void stop() { ::raise(SIGSTOP); }

void say(const std::string& line) {
  const std::string text = fmt::format("qpmesh-run: {}\n", line);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace qpmesh::run

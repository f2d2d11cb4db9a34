// SPDX-License-Identifier: MIT
#include "tools/run/remote.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/system.hpp"
#include "tools/run/child.hpp"
#include "tools/run/hosts.hpp"

namespace qpmesh::run {
namespace {

constexpr std::size_t said_bytes_max = 2048;
constexpr const char* own_program = "/proc/self/exe";
constexpr int end_ms_max = 2'000;  // that a process may take to end after its wire has

struct Remedy {
  std::string_view said;
  std::string_view what;  // {0}: the host
};
constexpr std::array remedies{
    Remedy{
        "Permission denied",
        "ssh has no key that the host accepts, and must not ask for a password: ssh-copy-id {0}"},
    Remedy{"Too many authentication failures",
           "ssh offers too many keys: name the right one in ~/.ssh/config"},
    Remedy{"Host key verification failed",
           "the host's key is not known here, or is not the known one: ssh {0} by hand shows it"},
    Remedy{"Could not resolve hostname",
           "no such name is known here: check it, or give an address"},
    Remedy{"Connection refused",
           "no ssh server listens there: start one, or give its port in "
           "~/.ssh/config or by --ssh 'ssh -p PORT'"},
    Remedy{"timed out", "the host does not answer: is it up, and does a firewall let ssh in?"},
    Remedy{"No route to host",
           "the host does not answer: is it up, and does a firewall let ssh in?"},
    Remedy{"Network is unreachable", "no route leads to that address: ip route get {0}"},
};

}  // namespace

bool is_ssh(const std::vector<std::string>& command) {
  const std::string_view program = command.front();
  return program.substr(program.rfind('/') + 1) == "ssh";
}

std::string word_for_a_shell(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+/";
  if (text.find_first_not_of(plain) == text.npos) return text;
  std::string word = "'";
  for (const char character : text) {
    if (character == '\'') word += "'\\''";
    else word += character;
  }
  return word + "'";
}

std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host) {
  if (is_this_host(host)) return {own_program, "--on-host"};
  std::vector<std::string> words = shell.command;
  if (is_ssh(words)) {
    // What the user wrote comes first, and of two the first counts.
    words.insert(words.end(), {"-T", "-x", "-oBatchMode=yes", "-oConnectTimeout=10",
                               "-oServerAliveInterval=5", "-oServerAliveCountMax=3"});
  }
  words.insert(words.end(), {host, "--", shell.program, "--on-host"});
  return words;
}

std::string remedy_for(const RemoteShell& shell, const std::string& host, int code,
                       std::string_view said) {
  for (const Remedy& remedy : remedies) {
    if (said.find(remedy.said) != said.npos) return fmt::format(fmt::runtime(remedy.what), host);
  }
  if (code == 126 || code == 127) {
    return fmt::format("install qpmesh there as {}, or say where it is by --remote-run PATH",
                       shell.program);
  }
  return {};
}

Remote::Remote(const std::vector<std::string>& command, const sigset_t& signal_mask)
    : program_{command.front() == own_program ? "qpmesh-run" : command.front()} {
  Pipe to_it = make_pipe();
  Pipe from_it = make_pipe();
  Pipe errors = make_pipe();
  std::vector<std::string> words = command;
  const std::vector<char*> arguments = pointers(words);
  pid_ = start_program(words.front(), [&] {
    // Out of the terminal's reach: it cannot ask for a password, and ^C is ours to pass on.
    ::setsid();
    ::setenv("SSH_ASKPASS_REQUIRE", "never", 1);  // NOLINT(concurrency-mt-unsafe): one thread
    // Of the user's login: it says where that came from, and not where we are.
    if (words.front() == own_program)
      ::unsetenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe): one thread
    ::signal(SIGPIPE, SIG_DFL);
    ::dup2(to_it.reading.get(), 0);
    ::dup2(from_it.writing.get(), 1);
    ::dup2(errors.writing.get(), 2);
    ::pthread_sigmask(SIG_SETMASK, &signal_mask, nullptr);
    ::execvp(arguments[0], arguments.data());
    return errno;
  });
  wire_ = std::make_unique<Wire>(std::move(from_it.reading), std::move(to_it.writing));
  wire_->expect_announcement();
  errors_ = std::move(errors.reading);
  ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
}

Remote::~Remote() {
  if (wire_) wait();
}

void Remote::ask(std::vector<pollfd>& polled) const {
  if (errors_) polled.push_back({.fd = errors_.get(), .events = POLLIN, .revents = 0});
}

void Remote::listen() {
  std::array<char, 1024> text;
  while (errors_) {
    const ssize_t count = ::read(errors_.get(), text.data(), text.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      errors_.reset();
      return;
    }
    said_.append(text.data(), static_cast<std::size_t>(count));
    if (said_.size() > said_bytes_max) said_.erase(0, said_.size() - said_bytes_max);
  }
}

void Remote::give_up() const noexcept {
  if (pid_ > 0) ::kill(-pid_, SIGTERM);
}

int Remote::wait() {
  if (pid_ == 0) return code_;
  wire_->close();
  const base::System system;
  const Deadline deadline = base::after_ms(system, end_ms_max);
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended != 0 && (ended > 0 || errno != EINTR)) break;
    if (system.now() >= deadline) ::kill(-pid_, SIGKILL);
    listen();
    ::poll(nullptr, 0, 1);
  }
  listen();
  pid_ = 0;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

}  // namespace qpmesh::run

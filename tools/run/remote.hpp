// SPDX-License-Identifier: MIT
// A qpmesh-run on another host, as the process here through which we speak with it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned.hpp"
#include "tools/run/wire.hpp"

namespace qpmesh::run {

// How to run a program on another host.
struct RemoteShell {
  std::vector<std::string> command{"ssh"};  // a host and a command are put behind it
  std::string program;                      // qpmesh-run, as it is called there
};

// Does what reaches a host give its words to a shell there? Then a path is one word as this has it.
bool is_ssh(const std::vector<std::string>& command);
std::string word_for_a_shell(const std::string& text);

// The words that start the other end: the shell's, or our own program where the host is this one.
// Where the shell is called ssh it gets options by which it asks nothing and notices a dead host.
std::vector<std::string> remote_command(const RemoteShell& shell, const std::string& host);

// What to do about it when a shell could not reach a host, or run the program there: by its exit
// code and by what it said. Empty: nothing is known.
std::string remedy_for(const RemoteShell& shell, const std::string& host, int code,
                       std::string_view said);

class Remote {
 public:
  // signal_mask: what the process starts with. Throws RunError where the command cannot be run.
  Remote(const std::vector<std::string>& command, const sigset_t& signal_mask);
  ~Remote();  // ends the process
  Remote(Remote&&) noexcept = default;
  Remote& operator=(Remote&&) = delete;

  const std::string& program() const { return program_; }  // for people
  Wire& wire() { return *wire_; }
  // What the process said that was not the other end's: the newest of it.
  const std::string& said() const { return said_; }
  void ask(std::vector<pollfd>& polled) const;
  void listen();
  void give_up() const noexcept;  // asks it to end
  // After the wire has ended or was closed: the process's code, 128 + signal. Waits a little for
  // it, and then kills it.
  int wait();

 private:
  std::string program_;
  pid_t pid_ = 0;
  std::unique_ptr<Wire> wire_;
  base::UniqueFd errors_;
  std::string said_;
  int code_ = 0;
};

}  // namespace qpmesh::run

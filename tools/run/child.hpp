// SPDX-License-Identifier: MIT
// What qpmesh-run has of the processes that it starts: how they come to be, their pipes, their end.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/owned.hpp"

namespace qpmesh::run {

// Throws RunError: this call of the system has failed, with the errno that is there.
[[noreturn]] void fail(const char* call);

struct Pipe {
  base::UniqueFd reading;
  base::UniqueFd writing;
};
Pipe make_pipe();  // both ends closed by exec; throws RunError

// What can be read from a pipe now. Of a process that has ended it is the rest: whatever comes
// later is from one that it left behind, and need not end. 0 without a pipe.
std::size_t bytes_in(const base::UniqueFd& pipe) noexcept;

// As exec takes them: they live as long as the texts.
std::vector<char*> pointers(std::vector<std::string>& texts);

// A child that becomes a program, called so for people. become runs in the child: it executes the
// program, or answers with the errno of what kept it from that. Returns when the program was
// executed. Throws RunError: 127 where there is no such program, 126 where it cannot be executed, 1
// where this process is out of something.
pid_t start_program(const std::string& program, const std::function<int()>& become);

// Waits for the end of a child; its status as waitpid has it.
int reap(pid_t pid) noexcept;

}  // namespace qpmesh::run

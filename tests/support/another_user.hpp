// SPDX-License-Identifier: MIT
// Can a test start a process of another user?
#pragma once

#include <grp.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace qpmesh::test {

inline constexpr const char* another_user_takes =
    "a process of another user takes root, and a namespace in which there is another user";

inline bool another_user_can_run() {
  constexpr uid_t nobody = 65534;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_nobody = ::setgroups(0, nullptr) == 0 && ::setresuid(nobody, nobody, nobody) == 0;
    ::_exit(is_nobody ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace qpmesh::test

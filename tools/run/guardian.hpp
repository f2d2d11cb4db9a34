// SPDX-License-Identifier: MIT
// Ends the ranks' process groups when qpmesh-run itself is killed.
#pragma once

#include <sys/types.h>

#include "base/owned.hpp"

namespace qpmesh::run {

// The kernel ends a rank with its launcher (PR_SET_PDEATHSIG), but not what the rank started, as in
// sh -c './a; ./b'. A small process of ours does: it knows the groups, and the end of a socket
// tells it that we are gone.
class Guardian {
 public:
  Guardian();   // throws RunError
  ~Guardian();  // dismisses it: the groups live on
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group) const noexcept;

 private:
  pid_t pid_ = 0;
  base::UniqueFd line_;
};

}  // namespace qpmesh::run

// Whether the memory that a rank of this host hands over is the one it announced.
#pragma once

#include <string>

#include "base/system.hpp"
#include "bootstrap/introduction.hpp"

namespace qpmesh::bootstrap {

struct ArenaExamination {
  const char* failed_call = nullptr;  // could not be examined
  int system_error = 0;
  std::string forgery;  // in which way it is not what was announced; empty when it is
};

// Looks at size, seals and nonce. Before anything is mapped: a memory that could shrink would end
// this process with SIGBUS.
ArenaExamination examine_arena(const base::System& system, int arena,
                               const Introduction& announced);

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
// Does the system let us read the memory of processes? A container may forbid it, and an emulator
// of another processor need not know the call.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

namespace qpmesh::test {

inline constexpr const char* cannot_read_process_memory = "the system refuses process_vm_readv";

// Our own, which nothing but that forbids.
inline bool reads_process_memory() {
  char from = 1;
  char to = 0;
  const iovec there{&from, 1};
  const iovec here{&to, 1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace qpmesh::test

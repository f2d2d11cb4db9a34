// SPDX-License-Identifier: MIT
// Private memory of another process of this host, copied by process_vm_readv(2) and
// process_vm_writev(2): once, and without the owner's doing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace qpmesh::base {

class ProcessMemory {
 public:
  // A word that the process keeps at this address and that no other one has there: ids of processes
  // are given again. It is read in the same system call as what is wanted, so both are of one
  // process.
  struct Proof {
    std::uint64_t address = 0;
    std::uint64_t value = 0;
  };

  ProcessMemory() = default;  // of nobody: nothing can be copied
  ProcessMemory(pid_t process, Proof proof) noexcept : process_{process}, proof_{proof} {}

  bool is_known() const noexcept { return process_ != nobody; }
  // 0, or the errno: ESRCH where the process is gone, whoever has its id now. Then target holds
  // anything. No bytes: only looks whether this process may be read.
  int copy(std::byte* target, std::uint64_t address, std::size_t bytes) const noexcept;

  // Whether the stores of a system call are seen in their order: only then is a word seen behind
  // the data.
#if defined(__x86_64__)
  static constexpr bool stores_in_order = true;
#else
  static constexpr bool stores_in_order = false;
#endif
  // Copies to an address in the process, and then a word to another one, in one call of the system.
  // Proves nothing: the caller has looked at the process right before. False: not all of it was
  // written.
  bool write(std::uint64_t address, const std::byte* source, std::size_t bytes,
             std::uint64_t word_address, std::uint64_t word) const noexcept;

  // No thread of the process runs any more, as it was when it gave its proof: what it had begun to
  // write anywhere is written or dropped. A process that cannot be looked at may live. Never
  // blocks.
  bool has_ended() const noexcept;

 private:
  static constexpr pid_t nobody = 0;

  pid_t process_ = nobody;
  Proof proof_;
};

}  // namespace qpmesh::base

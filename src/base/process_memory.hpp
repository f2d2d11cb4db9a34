// Copies out of the private memory of another process of this host, by process_vm_readv(2): once, and without the owner's doing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace qpmesh::base {

class ProcessMemory {
 public:
  // A word that the process keeps at this address and that no other one has there: ids of processes are given again. It is read
  // in the same system call as what is wanted, so both are of one process.
  struct Proof {
    std::uint64_t address = 0;
    std::uint64_t value = 0;
  };

  ProcessMemory() = default;  // of nobody: nothing can be copied
  ProcessMemory(pid_t process, Proof proof) noexcept : process_{process}, proof_{proof} {}
  // Ranks that are objects of this process, as in a simulation: a copy, which the system has no part in.
  static ProcessMemory of_simulated_rank() noexcept { return {simulated, {}}; }

  bool is_known() const noexcept { return process_ != nobody; }
  // 0, or the errno: ESRCH where the process is gone, whoever has its id now. Then target holds anything. No bytes: only looks
  // whether this process may be read.
  int copy(std::byte* target, std::uint64_t address, std::size_t bytes) const noexcept;

 private:
  static constexpr pid_t nobody = 0;
  static constexpr pid_t simulated = -1;

  pid_t process_ = nobody;
  Proof proof_;
};

}  // namespace qpmesh::base

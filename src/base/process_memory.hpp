// Copies out of the private memory of another process of this host, by process_vm_readv(2): once, and without the owner's doing.
// And into it, where the owner has opened a FillGuard for that.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/fill_guard.hpp"

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

  // Waits for a millisecond whether the process ends, with all its threads. One that cannot be read may live.
  bool ends_soon() const noexcept;

  // Whether the stores of a system call are seen in their order: only then is `done` seen behind what was filled.
#if defined(__x86_64__)
  static constexpr bool can_fill = true;
#else
  static constexpr bool can_fill = false;
#endif
  // Copies to an address in the process, if the guard still allows it. guard_address: where the process sees the guard. False: it did
  // not, or the system did not, and the owner knows.
  bool fill(FillGuard& guard, std::uint64_t guard_address, std::uint64_t number, std::uint64_t address,
            const std::byte* source, std::size_t bytes) const noexcept;

 private:
  bool write(std::uint64_t address, const std::byte* source, std::size_t bytes, std::uint64_t word_address,
             std::uint64_t word) const noexcept;

  static constexpr pid_t nobody = 0;
  static constexpr pid_t simulated = -1;

  pid_t process_ = nobody;
  Proof proof_;
};

}  // namespace qpmesh::base

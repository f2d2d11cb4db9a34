#include "base/process_memory.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/owned.hpp"

namespace qpmesh::base {

int ProcessMemory::copy(std::byte* target, std::uint64_t address, std::size_t bytes) const noexcept {
  if (process_ == simulated) {
    if (bytes > 0) std::memcpy(target, reinterpret_cast<const std::byte*>(address), bytes);
    return 0;
  }
  if (process_ == nobody) return ESRCH;
  std::size_t copied = 0;
  do {  // a call may copy less than it is asked for, for one because there is a most
    std::uint64_t shown = 0;
    const std::array<iovec, 2> here{iovec{&shown, sizeof shown}, iovec{target + copied, bytes - copied}};
    const std::array<iovec, 2> there{iovec{reinterpret_cast<void*>(proof_.address), sizeof shown},
                                     iovec{reinterpret_cast<void*>(address + copied), bytes - copied}};
    const ssize_t count =
        ::process_vm_readv(process_, here.data(), here.size(), there.data(), there.size(), 0);
    if (count < 0) return errno == EFAULT ? ESRCH : errno;  // nothing is where the proof was
    const auto got = static_cast<std::size_t>(count);
    if (got < sizeof shown || shown != proof_.value) return ESRCH;
    if (got == sizeof shown && copied < bytes) return EFAULT;
    copied += got - sizeof shown;
  } while (copied < bytes);
  return 0;
}

bool ProcessMemory::ends_soon() const noexcept {
  if (process_ <= 0) return process_ == nobody;
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, process_, 0))};
  if (!process) {  // for want of descriptors, or of the call
    const bool ended = errno == ESRCH;
    ::poll(nullptr, 0, 1);
    return ended;
  }
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 1) > 0;
}

// The proof comes before the guard: between the two calls the id would have to be given again, and nothing else may pass between
// `begun` and the call that ends with `done`.
bool ProcessMemory::fill(FillGuard& guard, std::uint64_t guard_address, std::uint64_t number,
                         std::uint64_t address, const std::byte* source, std::size_t bytes) const noexcept {
  if (!can_fill || copy(nullptr, 0, 0) != 0 || !guard.begin(number)) return false;
  if (write(address, source, bytes, guard_address, FillGuard::word(number, FillGuard::done))) return true;
  guard.state.store(FillGuard::word(number, FillGuard::closed), std::memory_order_release);
  return false;
}

bool ProcessMemory::write(std::uint64_t address, const std::byte* source, std::size_t bytes,
                          std::uint64_t word_address, std::uint64_t word) const noexcept {
  if (process_ == simulated) {
    std::memcpy(reinterpret_cast<std::byte*>(address), source, bytes);
    std::memcpy(reinterpret_cast<std::byte*>(word_address), &word, sizeof word);
    return true;
  }
  const std::array<iovec, 2> here{iovec{const_cast<std::byte*>(source), bytes}, iovec{&word, sizeof word}};
  const std::array<iovec, 2> there{iovec{reinterpret_cast<void*>(address), bytes},
                                   iovec{reinterpret_cast<void*>(word_address), sizeof word}};
  const ssize_t count =
      ::process_vm_writev(process_, here.data(), here.size(), there.data(), there.size(), 0);
  return count == static_cast<ssize_t>(bytes + sizeof word);
}

}  // namespace qpmesh::base

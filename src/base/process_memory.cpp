// SPDX-License-Identifier: MIT
#include "base/process_memory.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "base/owned.hpp"

namespace qpmesh::base {

int ProcessMemory::copy(std::byte* target, std::uint64_t address,
                        std::size_t bytes) const noexcept {
  if (process_ == nobody) return ESRCH;
  std::size_t copied = 0;
  do {  // a call may copy less than it is asked for, for one because there is a most
    std::uint64_t shown = 0;
    const std::array<iovec, 2> here{iovec{&shown, sizeof shown},
                                    iovec{target + copied, bytes - copied}};
    const std::array<iovec, 2> there{
        iovec{reinterpret_cast<void*>(proof_.address), sizeof shown},
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

bool ProcessMemory::write(std::uint64_t address, const std::byte* source, std::size_t bytes,
                          std::uint64_t word_address, std::uint64_t word) const noexcept {
  const std::array<iovec, 2> here{iovec{const_cast<std::byte*>(source), bytes},
                                  iovec{&word, sizeof word}};
  const std::array<iovec, 2> there{iovec{reinterpret_cast<void*>(address), bytes},
                                   iovec{reinterpret_cast<void*>(word_address), sizeof word}};
  const ssize_t count =
      ::process_vm_writev(process_, here.data(), here.size(), there.data(), there.size(), 0);
  return count == static_cast<ssize_t>(bytes + sizeof word);
}

bool ProcessMemory::has_ended() const noexcept {
  if (process_ == nobody) return true;
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, process_, 0))};
  if (!process) {
    // For want of descriptors or of the call: a process without an id has been collected.
    return errno == ESRCH || (::kill(process_, 0) != 0 && errno == ESRCH);
  }
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, 0) > 0) return true;
  // It runs another program by now, or another process has its id: exec waits for the end of all
  // other threads. ESRCH alone says less: of a process whose first thread has ended others may
  // still write.
  std::uint64_t shown = 0;
  const iovec here{&shown, sizeof shown};
  const iovec there{reinterpret_cast<void*>(proof_.address), sizeof shown};
  const ssize_t count = ::process_vm_readv(process_, &here, 1, &there, 1, 0);
  return count < 0 ? errno == EFAULT : count == sizeof shown && shown != proof_.value;
}

}  // namespace qpmesh::base

#include "base/process_memory.hpp"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

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

}  // namespace qpmesh::base

// SPDX-License-Identifier: MIT
#include "base/owned.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace qpmesh::base {

void UniqueFd::reset(int fd) noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

void Mapping::reset() noexcept {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace qpmesh::base

#include "tools/run/child.hpp"

#include <sys/ioctl.h>

namespace qpmesh::run {

std::size_t bytes_in(const base::UniqueFd& pipe) noexcept {
  int bytes = 0;
  return pipe && ::ioctl(pipe.get(), FIONREAD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace qpmesh::run

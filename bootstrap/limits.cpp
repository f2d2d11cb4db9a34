#include "bootstrap/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>

namespace qpmesh::bootstrap {

std::string hint_for_descriptors(int error) {
  if (error == ENFILE) return "the host is out of open files: raise fs.file-max, or end other programs";
  if (error != EMFILE) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("raise the limit on open files (ulimit -n): this process may have {}", limit.rlim_cur);
}

}  // namespace qpmesh::bootstrap

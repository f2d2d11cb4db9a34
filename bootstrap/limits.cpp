#include "bootstrap/limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "base/owned.hpp"
#include "bootstrap/init_error.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

std::string hint_for_descriptors(int error) {
  if (error == ENFILE)
    return "the host is out of open files: raise fs.file-max, or end other programs";
  if (error != EMFILE) return {};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format("raise the limit on open files (ulimit -n): this process may have {}",
                     limit.rlim_cur);
}

// The first number of statm: pages of address space.
void require_address_space(const base::System& system, int arenas, std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const base::UniqueFd file{
      system.call("open", [] { return ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC); })};
  std::array<char, 64> text{};
  std::uint64_t pages = 0;
  if (::read(file.get(), text.data(), text.size()) > 0)
    std::from_chars(text.data(), text.data() + text.size(), pages);
  const std::uint64_t used = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (used + bytes <= limit.rlim_cur) return;
  fail_init(
      ErrorCode::no_resource, no_peer,
      fmt::format("RLIMIT_AS allows {} bytes: this process uses {}, and the arenas of {} other "
                  "ranks of this host need {} together",
                  limit.rlim_cur, used, arenas, bytes),
      fmt::format("raise it to {} at least (ulimit -v {}), or lower QPMESH_ARENA_BYTES_MAX",
                  used + bytes, (used + bytes) / 1024 + 1));
}

}  // namespace qpmesh::bootstrap

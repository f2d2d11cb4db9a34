#include "bootstrap/arena_proof.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/owned.hpp"

namespace qpmesh::bootstrap {

ArenaExamination examine_arena(const base::System& system, int arena,
                               const Introduction& announced) {
  const auto failed = [](const char* call) {
    return ArenaExamination{.failed_call = call, .system_error = errno, .forgery = {}};
  };
  const auto forged = [](std::string how) { return ArenaExamination{.forgery = std::move(how)}; };
  struct stat status {};
  if (system.call("fstat", [&] { return ::fstat(arena, &status); }) != 0) return failed("fstat");
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) != announced.arena_bytes ||
      announced.arena_bytes < sizeof announced.nonce) {
    return forged(fmt::format("rank {} announced an arena of {} bytes and sent one of {}",
                              announced.rank, announced.arena_bytes, status.st_size));
  }
  constexpr int needed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = system.call("fcntl", [&] { return ::fcntl(arena, F_GET_SEALS); });
  if (seals < 0 && errno != EINVAL) return failed("fcntl(F_GET_SEALS)");
  if (seals < 0 || (seals & needed) != needed) {  // EINVAL: no memfd at all
    return forged(
        fmt::format("the arena of rank {} is not sealed against resizing (seals {}, needed {})",
                    announced.rank, seals, needed));
  }
  std::uint64_t nonce = 0;
  void* address = system.call(
      "mmap", [&] { return ::mmap(nullptr, sizeof nonce, PROT_READ, MAP_SHARED, arena, 0); });
  if (address == MAP_FAILED) return failed("mmap");
  const base::Mapping beginning{address, sizeof nonce};
  std::memcpy(&nonce, beginning.data(), sizeof nonce);
  if (nonce != announced.nonce) {
    return forged(fmt::format("the arena of rank {} holds nonce {:016x}, announced was {:016x}",
                              announced.rank, nonce, announced.nonce));
  }
  return {};
}

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
#include "transport/memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <new>

#include "base/bytes.hpp"
#include "base/errors.hpp"

namespace qpmesh::transport {
namespace {

[[noreturn]] void fail(const char* what, std::size_t bytes, int error, std::string_view hint = {}) {
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "arena", hint,
                    "{} of {} bytes failed", what, bytes);
}

// Beyond RLIMIT_FSIZE ftruncate does not fail, it kills the process with SIGXFSZ: look first.
void check_limit(int resource, const char* name, const std::string& remedy, std::size_t need) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return;
  if (limit.rlim_cur >= need) return;
  base::throw_error({ErrorCode::no_resource}, "arena",
                    fmt::format("raise it ({}), or lower QPMESH_ARENA_BYTES_MAX", remedy),
                    "{} allows {} bytes, the arena needs {}", name, limit.rlim_cur, need);
}

std::uint64_t system_page_bytes() noexcept {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

base::Mapping map_arena(const base::System& system, int descriptor, std::size_t bytes) {
  check_limit(RLIMIT_AS, "RLIMIT_AS",
              "ulimit -v; every other rank of this host needs as much again", bytes);
  const int sharing = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* address = system.call("mmap", [&] {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_NORESERVE, descriptor, 0);
  });
  if (address == MAP_FAILED) fail("mmap", bytes, errno, "lower QPMESH_ARENA_BYTES_MAX");
  // A dump would fault in every hole of every rank's arena, while peers wait for news of this
  // death.
  ::madvise(address, bytes, MADV_DONTDUMP);
  return base::Mapping{address, bytes};
}

Arena::Arena(base::UniqueFd fd, base::Mapping mapping)
    : fd_{std::move(fd)}, mapping_{std::move(mapping)} {
  ::new (mapping_.data()) ArenaHeader{};
  free_.emplace(first_offset, mapping_.bytes() - first_offset);
}

Arena Arena::create_shared(const base::System& system, std::size_t bytes) {
  check_limit(RLIMIT_FSIZE, "RLIMIT_FSIZE", "ulimit -f", bytes);
  base::UniqueFd fd{system.call("memfd_create", [] {
    return ::memfd_create("qpmesh-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  })};
  if (!fd) {
    const int error = errno;
    fail("memfd_create", bytes, error, base::hint_for_descriptors(error));
  }
  if (system.call("ftruncate", [&] { return ::ftruncate(fd.get(), static_cast<off_t>(bytes)); }) !=
      0) {
    fail("ftruncate", bytes, errno);
  }
  // Nobody, not even a peer of the same user, can shrink the memory under us: no SIGBUS.
  if (system.call("fcntl", [&] {
        return ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
      }) != 0) {
    fail("sealing", bytes, errno);
  }
  auto mapping = map_arena(system, fd.get(), bytes);
  return Arena{std::move(fd), std::move(mapping)};
}

Arena Arena::create_private(const base::System& system, std::size_t bytes) {
  return Arena{base::UniqueFd{}, map_arena(system, -1, bytes)};
}

std::optional<std::uint64_t> Arena::allocate(std::size_t bytes) {
  if (bytes > mapping_.bytes()) return std::nullopt;  // before rounding, which would wrap
  bytes = base::round_up(bytes == 0 ? 1 : bytes, alignment);
  if (bytes < huge_page_bytes) return take(bytes, alignment);
  auto offset = take(bytes, huge_page_bytes);
  if (!offset) return take(bytes, alignment);
  // It is only advice. What is left over behind whole pages stays as small as it is.
  ::madvise(data() + *offset, bytes / huge_page_bytes * huge_page_bytes, MADV_HUGEPAGE);
  return offset;
}

std::optional<std::uint64_t> Arena::take(std::size_t bytes, std::size_t aligned_to) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, available] = *range;
    const std::uint64_t offset = base::round_up(begin, aligned_to);
    const std::uint64_t skipped = offset - begin;
    if (available < skipped || available - skipped < bytes) continue;
    const std::uint64_t behind = available - skipped - bytes;
    if (behind > 0) free_.emplace(offset + bytes, behind);
    if (skipped > 0) {
      range->second = skipped;
    } else {
      free_.erase(range);
    }
    given_bytes_ += bytes;
    return offset;
  }
  return std::nullopt;
}

std::uint64_t Arena::untouched_bytes() const noexcept {
  constexpr std::uint64_t block_bytes = 512;  // stat's, whatever the pages are
  struct stat file {};
  if (!fd_ || ::fstat(fd_.get(), &file) != 0) return given_bytes_;
  const std::uint64_t touched_bytes = static_cast<std::uint64_t>(file.st_blocks) * block_bytes;
  return given_bytes_ - std::min(given_bytes_, touched_bytes);
}

void Arena::free(std::uint64_t offset, std::size_t bytes) noexcept {
  bytes = base::round_up(bytes == 0 ? 1 : bytes, alignment);
  given_bytes_ -= bytes;
  // The next owner relies on zeroes. Whole pages go back to the system, the ends are cleared here.
  const auto [first_page, end_page] = whole_pages(offset, bytes, system_page_bytes());
  std::byte* const data = mapping_.data();
  if (first_page < end_page) {
    std::memset(data + offset, 0, first_page - offset);
    std::memset(data + end_page, 0, offset + bytes - end_page);
    const std::size_t page_range_bytes = end_page - first_page;
    const int refused =
        fd_ ? ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                          static_cast<off_t>(first_page), static_cast<off_t>(page_range_bytes))
            : ::madvise(data + first_page, page_range_bytes, MADV_DONTNEED);
    if (refused != 0) std::memset(data + first_page, 0, page_range_bytes);
  } else {
    std::memset(data + offset, 0, bytes);
  }
  auto [range, inserted] = free_.emplace(offset, bytes);
  assert(inserted);
  if (const auto next = std::next(range); next != free_.end() && offset + bytes == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range != free_.begin()) {
    const auto previous = std::prev(range);
    assert(previous->first + previous->second <= offset);
    if (previous->first + previous->second == offset) {
      previous->second += range->second;
      free_.erase(range);
    }
  }
}

std::pair<std::uint64_t, std::uint64_t> whole_pages(std::uint64_t offset, std::uint64_t bytes,
                                                    std::uint64_t page_bytes) noexcept {
  const std::uint64_t first = base::round_up(offset, page_bytes);
  return {first, std::max(first, (offset + bytes) / page_bytes * page_bytes)};
}

void populate(std::byte* data, std::size_t bytes) noexcept {
#if defined(MADV_POPULATE_WRITE)
  const std::uintptr_t skipped = reinterpret_cast<std::uintptr_t>(data) % system_page_bytes();
  ::madvise(data - skipped, bytes + skipped, MADV_POPULATE_WRITE);
#endif
}

}  // namespace qpmesh::transport

// SPDX-License-Identifier: MIT
// Counts beyond 2 GiB, in far less memory.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// As many bytes of addresses over far less memory: but for its windows it is one file again and
// again.
class Sparse {
 public:
  static constexpr std::size_t window_bytes = std::size_t{1} << 20;

  explicit Sparse(std::size_t bytes) : bytes_{bytes} {
    const int file = ::memfd_create("sparse", MFD_CLOEXEC);
    check(file >= 0 && ::ftruncate(file, repeated_bytes) == 0, "a file in memory");
    data_ = map(nullptr, bytes, -1, 0);
    for (std::size_t at = 0; at < bytes; at += repeated_bytes)
      map(data_ + at, std::min<std::size_t>(repeated_bytes, bytes - at), file, MAP_FIXED);
    ::close(file);
  }
  ~Sparse() { ::munmap(data_, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;

  // Memory of its own.
  void open_window(std::size_t begin) {
    map(data_ + begin, std::min(window_bytes, bytes_ - begin), -1, MAP_FIXED);
  }
  std::span<std::uint8_t> bytes() const { return {data_, bytes_}; }

 private:
  static constexpr off_t repeated_bytes = 32 << 20;

  static std::uint8_t* map(std::uint8_t* at, std::size_t bytes, int file, int flags) {
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    void* const data = ::mmap(at, bytes, PROT_READ | PROT_WRITE, kind | flags, file, 0);
    check(data != MAP_FAILED,
          std::string{"mmap: "} + std::strerror(errno));  // NOLINT(concurrency-mt-unsafe)
    return static_cast<std::uint8_t*>(data);
  }

  std::size_t bytes_;
  std::uint8_t* data_;
};

void a_count_beyond_two_gib(Communicator& world, Arguments) {
  constexpr std::size_t two_gib = std::size_t{1} << 31;
  constexpr std::size_t bytes = two_gib + 2 * Sparse::window_bytes + 4'097;
  constexpr std::array<std::size_t, 3> windows{0, two_gib - Sparse::window_bytes,
                                               two_gib + Sparse::window_bytes};
  Sparse memory{bytes};
  for (const std::size_t begin : windows) memory.open_window(begin);
  memory.open_window(two_gib);
  const int root = world.size() - 1;
  // At both ends, and where 32 bits with a sign, and the system calls that copy, come to an end.
  const std::array<std::size_t, 6> marks{0,           4'097,   two_gib - 4'097,
                                         two_gib - 1, two_gib, bytes - 1};
  if (world.rank() == root) {
    for (std::size_t i = 0; i < marks.size(); ++i)
      memory.bytes()[marks[i]] = static_cast<std::uint8_t>(i + 1);
  }
  world.broadcast(memory.bytes(), root, {.algorithm = "linear"});
  for (std::size_t i = 0; i < marks.size(); ++i)
    check_equal(static_cast<std::size_t>(memory.bytes()[marks[i]]), i + 1);
}

}  // namespace

std::vector<Scenario> large_scenarios() {
  return {in_world("a_count_beyond_two_gib", a_count_beyond_two_gib)};
}

}  // namespace qpmesh::ranks

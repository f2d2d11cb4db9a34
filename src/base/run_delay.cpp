// SPDX-License-Identifier: MIT
#include "base/run_delay.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace qpmesh::base {

RunDelay::RunDelay() noexcept
    : statistics_{::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)} {}

// Three numbers: ns on a core, ns of waiting for one, how often it got one.
std::chrono::nanoseconds RunDelay::total() const noexcept {
  std::array<char, 96> text;
  const auto length = statistics_ ? ::pread(statistics_.get(), text.data(), text.size(), 0) : 0;
  if (length <= 0) return {};
  const std::string_view numbers{text.data(), static_cast<std::size_t>(length)};
  const std::size_t gap = numbers.find(' ');
  if (gap == std::string_view::npos) return {};
  std::uint64_t waited_ns = 0;
  std::from_chars(numbers.data() + gap + 1, numbers.data() + numbers.size(), waited_ns);
  return std::chrono::nanoseconds{waited_ns};
}

}  // namespace qpmesh::base

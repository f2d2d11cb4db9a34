// SPDX-License-Identifier: MIT
#include "base/system.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>

namespace qpmesh::base {

Deadline System::now() const noexcept { return std::chrono::steady_clock::now(); }

// randombytes_buf needs no sodium_init on Linux: it reads getrandom(2) by itself.
void System::random(std::span<std::byte> out) const noexcept {
  randombytes_buf(out.data(), out.size());
}

std::uint64_t System::random_u64() const noexcept {
  std::uint64_t value = 0;
  random(std::as_writable_bytes(std::span{&value, 1}));
  return value;
}

int remaining_ms(const System& system, Deadline deadline, int cap_ms) noexcept {
  if (deadline == no_deadline) return cap_ms;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - system.now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, cap_ms));
}

std::string describe_errno(int error) {
  const char* const description = ::strerrordesc_np(error);
  return description != nullptr ? description : "errno " + std::to_string(error);
}

}  // namespace qpmesh::base

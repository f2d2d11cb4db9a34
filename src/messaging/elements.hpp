// SPDX-License-Identifier: MIT
// Do the two ends of a message mean the same: what the elements of a point-to-point message are
// (the signature of its record), and how long a step of a collective is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "qpmesh/element.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::messaging {

// Type in the low byte, size in bytes above it. 0: bytes, or nothing, which agree with everything.
constexpr std::uint32_t element_signature(ElementType type, std::size_t element_bytes,
                                          std::size_t element_count) noexcept {
  constexpr std::size_t element_bytes_max = 0xffffff;  // beyond, sizes are not told apart
  if (element_count == 0 || element_bytes <= 1) return 0;
  return static_cast<std::uint32_t>(std::min(element_bytes, element_bytes_max)) << 8 |
         static_cast<std::uint32_t>(type);
}
constexpr ElementType type_in(std::uint32_t signature) noexcept {
  return static_cast<ElementType>(signature & 0xff);
}
constexpr std::size_t element_bytes_in(std::uint32_t signature) noexcept { return signature >> 8; }

// A type that the library does not know agrees with all that are as long.
constexpr bool elements_agree(std::uint32_t sent, std::uint32_t wanted) noexcept {
  if (sent == wanted || sent == 0 || wanted == 0) return true;
  const bool one_unknown =
      type_in(sent) == ElementType::none || type_in(wanted) == ElementType::none;
  return one_unknown && element_bytes_in(sent) == element_bytes_in(wanted);
}

// A collective knows how long each message of its is, and its signature says most of that. What is
// left are the blocks of a v-form, whose lengths only the two ends of a message know.
ErrorDetail wrong_step_length(int peer, std::size_t bytes, std::size_t bytes_due);
ErrorDetail undue_step(int peer);  // came before, and was not looked at

}  // namespace qpmesh::messaging

// SPDX-License-Identifier: MIT
// How a write reaches a neighbour's memory. A template over its atomics, for tests/explore.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/atomics.hpp"
#include "transport/transport.hpp"

namespace qpmesh::transport::shm {

// Releases every byte of this and earlier writes to the peer's acquire load. It is sequentially
// consistent, as AsleepWord asks for (8 ns).
template <class Atomics, base::SharedWord Word>
void store_flag(std::byte* to, Word flag) noexcept {
  Atomics::store_seq_cst(base::word_at<Word>(to), flag);
}
template <class Atomics, base::SharedWord Word>
void store_flag(std::byte* to, const std::byte* from) noexcept {
  Word flag = 0;
  std::memcpy(&flag, from, sizeof flag);
  store_flag<Atomics>(to, flag);
}

// A record but for its flag: the header in words, as it was built.
template <class Atomics>
void store_behind_flag(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t header_bytes = 64;
  constexpr std::size_t flag_bytes = sizeof(std::uint32_t);
  Atomics::copy(to + flag_bytes, from + flag_bytes, flag_bytes);
  const std::size_t words_end = std::min(bytes, header_bytes);
  Atomics::copy_words(to + 2 * flag_bytes, from + 2 * flag_bytes, words_end - 2 * flag_bytes);
  if (bytes > header_bytes)
    Atomics::copy(to + header_bytes, from + header_bytes, bytes - header_bytes);
}

// The body, then the head, and its flag last.
template <class Atomics>
void store_write(std::byte* to, const Write& write) noexcept {
  const std::span<const std::byte> head = write.head;
  if (!write.body.empty()) Atomics::copy(to + head.size(), write.body.data(), write.body.size());
  if (write.flag_offset == Write::no_flag) {
    if (!head.empty()) Atomics::copy(to, head.data(), head.size());
    return;
  }
  if (write.flag_bytes == sizeof(std::uint64_t)) {
    assert(write.flag_offset == 0 && head.size() == sizeof(std::uint64_t));
    return store_flag<Atomics, std::uint64_t>(to, head.data());
  }
  const std::size_t behind = write.flag_offset + sizeof(std::uint32_t);
  if (write.flag_offset == 0 && head.size() >= sizeof(std::uint64_t) &&
      head.size() % sizeof(std::uint64_t) == 0) {
    store_behind_flag<Atomics>(to, head.data(), head.size());
  } else {
    if (write.flag_offset > 0) Atomics::copy(to, head.data(), write.flag_offset);
    if (head.size() > behind)
      Atomics::copy(to + behind, head.data() + behind, head.size() - behind);
  }
  store_flag<Atomics, std::uint32_t>(to + write.flag_offset, head.data() + write.flag_offset);
}

}  // namespace qpmesh::transport::shm

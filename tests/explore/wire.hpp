// SPDX-License-Identifier: MIT
// The two ends of a pair of ranks, each with the rings that it sends by and receives from, under
// the explored policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "explore/explored_atomics.hpp"
#include "messaging/rings/receive_ring.hpp"
#include "messaging/rings/send_ring.hpp"
#include "transport/shm/store.hpp"
#include "transport/transport.hpp"

namespace qpmesh::explore {

// Shared memory: what ShmConnection does with a write. Nobody sleeps.
inline void store_in_order(std::byte* to, const transport::Write& write) {
  transport::shm::store_write<ExploredAtomics>(to, write);
}

// A network: the words of a write appear in any order, and all of it before the next write. The
// flag and the tail of a record are words of four bytes, for that is how they are polled. What is
// there already need not appear.
inline void store_by_device(std::byte* to, const transport::Write& write) {
  ExploredAtomics::order_loads();
  ExploredAtomics::order_stores();
  const auto store_word = [&]<class Word>(const std::byte* from, Word) {
    Word word = 0;
    std::memcpy(&word, from, sizeof word);
    if (std::memcmp(to, &word, sizeof word) != 0)
      ExploredAtomics::store_relaxed(base::word_at<Word>(to), word);
    to += sizeof word;
  };
  const bool is_record = write.flag_offset == 0;
  for (const std::span<const std::byte> part : {write.head, write.body}) {
    for (std::size_t at = 0; at < part.size(); at += sizeof(std::uint64_t)) {
      const bool halved = is_record && (at == 0 || at + sizeof(std::uint64_t) == part.size());
      if (halved) {
        store_word(&part[at], std::uint32_t{});
        store_word(&part[at + sizeof(std::uint32_t)], std::uint32_t{});
      } else {
        store_word(&part[at], std::uint64_t{});
      }
    }
  }
}

class Wire final : public transport::Connection {
 public:
  using Store = void (*)(std::byte* to, const transport::Write& write);
  Wire(std::byte* memory_of_peer, const transport::Capabilities& capabilities, Store store) noexcept
      : memory_{memory_of_peer}, capabilities_{capabilities}, store_{store} {}

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  transport::Post post(std::span<const transport::Write> chain) noexcept override {
    for (const transport::Write& write : chain) store_(memory_ + write.target.offset, write);
    return transport::Post::posted;
  }
  transport::Post read(std::span<std::byte>, std::optional<std::uint32_t>,
                       transport::RemoteAddress) noexcept override {
    return transport::Post::failed;
  }
  std::uint64_t completed() const noexcept override { return 0; }
  std::optional<std::uint32_t> poll_immediate() noexcept override { return {}; }
  std::byte* map(transport::RemoteAddress target, std::size_t) noexcept override {
    return capabilities_.ordered_flag ? memory_ + target.offset : nullptr;
  }
  transport::Post publish(std::byte* flag, std::uint32_t value) noexcept override {
    transport::shm::store_flag<ExploredAtomics>(flag, value);
    return transport::Post::posted;
  }
  const std::byte* load(transport::RemoteAddress, std::size_t) noexcept override { return nullptr; }
  void tear_down() noexcept override {}
  const ErrorDetail* fault() const noexcept override { return nullptr; }

 private:
  std::byte* memory_;
  const transport::Capabilities& capabilities_;
  Store store_;
};

}  // namespace qpmesh::explore

#include "transport/shm/connection.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/atomics.hpp"

namespace qpmesh::transport::shm {

namespace {

// A record but for its first word. The header goes word by word: it was built from words just now, and wider
// loads would wait until those stores have left the core. Volatile, or the compiler makes a memcpy of it.
void copy_record(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  constexpr std::size_t header_bytes = 64;
  const std::size_t words_end = std::min(bytes, header_bytes);
  for (std::size_t at = sizeof(std::uint64_t); at < words_end; at += sizeof(std::uint64_t)) {
    *reinterpret_cast<volatile std::uint64_t*>(to + at) =
        *reinterpret_cast<const volatile std::uint64_t*>(from + at);
  }
  if (bytes > header_bytes) std::memcpy(to + header_bytes, from + header_bytes, bytes - header_bytes);
}

// Releases every byte of this and earlier writes to the peer's acquire load. Exchange instead of a store
// because of the sleeper (8 ns), where the flag is to wake one.
template <class Word>
void store_flag(std::byte* to, const std::byte* from, bool wakes) noexcept {
  Word flag = 0;
  std::memcpy(&flag, from, sizeof flag);
  Word* const word = base::word_at<Word>(to);
  if (wakes) base::ProcessAtomics::exchange_seq_cst(word, flag);
  else base::ProcessAtomics::store_release(word, flag);
}

}  // namespace

Post ShmConnection::post(std::span<const Write> chain) noexcept {
  if (severed_) return Post::failed;
  for (const Write& write : chain) {
    assert(!write.immediate);  // capabilities said that there are none
    copy(write);
    if (write.tell) ++completed_;  // the source has been read
  }
  if (chain.back().wakes) memory_.wake_if_asleep();
  return Post::posted;
}

void ShmConnection::copy(const Write& write) noexcept {
  std::byte* const to = memory_.at(write.target.offset, write.head.size() + write.body.size());
  assert(to != nullptr);
  if (!write.body.empty()) std::memcpy(to + write.head.size(), write.body.data(), write.body.size());
  if (write.flag_offset == Write::no_flag) {
    if (!write.head.empty()) std::memcpy(to, write.head.data(), write.head.size());
    return;
  }
  const std::byte* const from = write.head.data();
  if (write.flag_bytes == sizeof(std::uint64_t)) {
    assert(write.flag_offset == 0 && write.head.size() == sizeof(std::uint64_t));
    return store_flag<std::uint64_t>(to, from, write.wakes);
  }
  const std::size_t behind = write.flag_offset + sizeof(std::uint32_t);
  if (write.flag_offset == 0 && write.head.size() % sizeof(std::uint64_t) == 0) {
    std::memcpy(to + behind, from + behind, sizeof(std::uint32_t));
    copy_record(to, from, write.head.size());
  } else {
    std::memcpy(to, from, write.flag_offset);
    std::memcpy(to + behind, from + behind, write.head.size() - behind);
  }
  store_flag<std::uint32_t>(to + write.flag_offset, from + write.flag_offset, write.wakes);
}

const std::byte* ShmConnection::load(RemoteAddress source, std::size_t bytes) noexcept {
  return source.region == 0 ? memory_.at(source.offset, bytes) : nullptr;
}

// Peers write rings and Buffers, and private memory only under a guard that its owner settles: there is nothing
// to fence beyond our own posts.
void ShmConnection::sever() noexcept {
  if (severed_) return;
  severed_ = true;
  fault_.detail = "severed after an error";
}

}  // namespace qpmesh::transport::shm

// SPDX-License-Identifier: MIT
// Fixed-width little-endian encoding of what ranks exchange, and arithmetic that says when it
// overflows.
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh::base {

static_assert(std::endian::native == std::endian::little,
              "records are written as the machine stores them");

template <class T>
inline constexpr bool is_byte_array = false;
template <std::size_t bytes>
inline constexpr bool is_byte_array<std::array<std::byte, bytes>> = true;
template <std::size_t bytes>
inline constexpr bool is_byte_array<std::array<std::uint8_t, bytes>> = true;

template <class T>
concept Scalar = std::integral<T> || std::is_enum_v<T> || is_byte_array<T>;

class ByteWriter {
 public:
  template <Scalar T>
  ByteWriter& put(T value) {
    append(&value, sizeof value);
    return *this;
  }
  ByteWriter& put_bytes(BlobView bytes) {  // length first, 32 bits
    put(static_cast<std::uint32_t>(bytes.size()));
    append(bytes.data(), bytes.size());
    return *this;
  }
  ByteWriter& put_text(std::string_view text) { return put_bytes(std::as_bytes(std::span{text})); }

  // Of a struct whose fields are listed once, for both directions: numbers, texts, lists of
  // numbers.
  template <class... T>
  ByteWriter& put_fields(const T&... fields) {
    (put_field(fields), ...);
    return *this;
  }

  const Blob& blob() const& noexcept { return blob_; }
  Blob blob() && noexcept { return std::move(blob_); }

 private:
  template <Scalar T>
  void put_field(T value) {
    put(value);
  }
  void put_field(std::string_view text) { put_text(text); }
  template <Scalar T>
  void put_field(const std::vector<T>& list) {
    put_bytes(std::as_bytes(std::span{list}));
  }

  // Inlined for constant sizes, gcc 12 warns of vector overflows that cannot happen.
  [[gnu::noinline]] void append(const void* bytes, std::size_t count) {
    const auto* const first = static_cast<const std::byte*>(bytes);
    blob_.insert(blob_.end(), first, first + count);
  }

  Blob blob_;
};

// Reads what a stranger may have written: after the first value that is not there every further one
// is zero or empty, and ok() is false. finished() also demands that nothing is left over.
class ByteReader {
 public:
  explicit ByteReader(BlobView bytes) noexcept : rest_{bytes} {}

  template <Scalar T>
  T get() noexcept {
    T value{};
    if (const auto bytes = take(sizeof(T)); bytes.size() == sizeof(T))
      std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  BlobView get_bytes() noexcept { return take(get<std::uint32_t>()); }
  std::string_view get_text() noexcept {
    const auto bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <class... T>
  void get_fields(T&... fields) {
    (get_field(fields), ...);
  }
  bool ok() const noexcept { return ok_; }
  bool finished() const noexcept { return ok_ && rest_.empty(); }

 private:
  template <Scalar T>
  void get_field(T& value) noexcept {
    if constexpr (std::same_as<T, bool>) value = get<std::uint8_t>() != 0;
    else value = get<T>();
  }
  void get_field(std::string& text) { text = get_text(); }
  template <Scalar T>
  void get_field(std::vector<T>& list) {
    const BlobView bytes = get_bytes();
    ok_ = ok_ && bytes.size() % sizeof(T) == 0;
    list.resize(bytes.size() / sizeof(T));
    if (!list.empty()) std::memcpy(list.data(), bytes.data(), list.size() * sizeof(T));
  }

  BlobView take(std::size_t count) noexcept {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }

  BlobView rest_;
  bool ok_ = true;
};

// a · b, or nothing when it does not fit.
constexpr std::optional<std::size_t> checked_multiply(std::size_t a, std::size_t b) noexcept {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

// 64-bit mixing (splitmix64's finaliser, Steele, Lea, Flood 2014): for ids and signatures, not for
// secrets.
constexpr std::uint64_t mix64(std::uint64_t value) noexcept {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}
constexpr std::uint64_t mix64(std::string_view text) noexcept {
  std::uint64_t hash = 0;
  for (const char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// Of whole words of four bytes: who has copied memory that was being written sees by it whether the
// copy is whole. A multiplication for each eight bytes, in line: a CRC32C's instruction is as fast,
// but not every processor has one, and the call that finds out takes as long as the sum. Both
// halves of the product are kept: of the lower one alone, what differs in a word's last byte
// reaches two bytes of the state, where the next word's last bytes can take it back.
// Two inputs that differ agree by chance, once in 2^32.
inline std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
  assert(bytes.size() % sizeof(std::uint32_t) == 0);
  __extension__ using Product = unsigned __int128;
  std::uint64_t state = seed;
  const auto step = [&](auto word) {
    std::memcpy(&word, bytes.data(), sizeof word);
    bytes = bytes.subspan(sizeof word);
    const Product product = Product{state ^ word} * 0x9e3779b97f4a7c15U;
    state = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  while (bytes.size() >= sizeof(std::uint64_t)) step(std::uint64_t{});
  if (!bytes.empty()) step(std::uint32_t{});
  return static_cast<std::uint32_t>(state ^ state >> 32);
}

inline bool overlap(const void* a, std::size_t a_bytes, const void* b,
                    std::size_t b_bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

}  // namespace qpmesh::base

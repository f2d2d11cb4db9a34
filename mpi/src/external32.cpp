// SPDX-License-Identifier: MIT
#include "external32.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "error.hpp"

namespace qpmesh::mpi {
namespace {

// The format of IEEE 754 that has 16 bytes.
__extension__ typedef __float128 Quad;  // __extension__ needs a typedef

void copy_big_endian(const std::byte* from, std::size_t bytes, std::byte* to) {
  if constexpr (std::endian::native == std::endian::little)
    std::reverse_copy(from, from + bytes, to);
  else std::copy_n(from, bytes, to);
}

// An integer of 2, 4 or 8 bytes, of this machine's order.
std::uint64_t load(const std::byte* from, std::size_t bytes, bool is_signed) {
  std::uint64_t value = 0;
  if constexpr (std::endian::native == std::endian::little) std::memcpy(&value, from, bytes);
  else std::memcpy(reinterpret_cast<std::byte*>(&value) + sizeof value - bytes, from, bytes);
  const std::size_t unused = 64 - 8 * bytes;
  if (is_signed)
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
  return value;
}
void store(std::uint64_t value, std::byte* to, std::size_t bytes) {
  if constexpr (std::endian::native == std::endian::little) std::memcpy(to, &value, bytes);
  else std::memcpy(to, reinterpret_cast<std::byte*>(&value) + sizeof value - bytes, bytes);
}

// An integer of one length as one of another.
void resize(const std::byte* from, std::size_t from_bytes, std::byte* to, std::size_t to_bytes,
            bool is_signed) {
  const std::uint64_t value = load(from, from_bytes, is_signed);
  store(value, to, to_bytes);
  if (load(to, to_bytes, is_signed) != value) {
    fail(MPI_ERR_CONVERSION, "the integer ",
         is_signed ? std::to_string(static_cast<std::int64_t>(value)) : std::to_string(value),
         " has no ", to_bytes, " bytes in external32");
  }
}

// Complex numbers are two values.
struct Units {
  std::size_t count;
  std::size_t bytes;
  std::size_t external_bytes;
};
Units units_of(const Basic& basic, std::size_t count) noexcept {
  const std::size_t parts = basic.category == Category::complex ? 2 : 1;
  return {count * parts, basic.bytes / parts, basic.external_bytes / parts};
}
bool is_signed(const Basic& basic) noexcept { return basic.category == Category::signed_integer; }

}  // namespace

void to_external32(const Basic& basic, const std::byte* values, std::size_t count,
                   std::byte* external) {
  const Units units = units_of(basic, count);
  if (units.bytes == 1) {
    std::memcpy(external, values, units.count);
    return;
  }
  for (std::size_t i = 0; i < units.count; ++i) {
    const std::byte* const from = values + i * units.bytes;
    std::byte* const to = external + i * units.external_bytes;
    if (basic.is_long_double) {
      long double value = 0;
      std::memcpy(&value, from, sizeof value);
      const Quad quad = value;
      copy_big_endian(reinterpret_cast<const std::byte*>(&quad), sizeof quad, to);
    } else if (units.bytes != units.external_bytes) {
      std::byte resized[8];
      resize(from, units.bytes, resized, units.external_bytes, is_signed(basic));
      copy_big_endian(resized, units.external_bytes, to);
    } else {
      copy_big_endian(from, units.bytes, to);
    }
  }
}

void from_external32(const Basic& basic, const std::byte* external, std::size_t count,
                     std::byte* values) {
  const Units units = units_of(basic, count);
  if (units.bytes == 1) {
    std::memcpy(values, external, units.count);
    return;
  }
  for (std::size_t i = 0; i < units.count; ++i) {
    const std::byte* const from = external + i * units.external_bytes;
    std::byte* const to = values + i * units.bytes;
    if (basic.is_long_double) {
      Quad quad = 0;
      copy_big_endian(from, sizeof quad, reinterpret_cast<std::byte*>(&quad));
      const auto value = static_cast<long double>(quad);
      std::memcpy(to, &value, sizeof value);
    } else if (units.bytes != units.external_bytes) {
      std::byte native[8];
      copy_big_endian(from, units.external_bytes, native);
      resize(native, units.external_bytes, to, units.bytes, is_signed(basic));
    } else {
      copy_big_endian(from, units.bytes, to);
    }
  }
}

}  // namespace qpmesh::mpi

// Hashes of secrets and names (BLAKE2b), and how they are written into a name.
#pragma once

#include <fmt/core.h>
#include <sodium.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace qpmesh::bootstrap {

// use: a text by which hashes of equal bytes for different uses differ.
template <std::size_t hash_bytes>
std::array<std::byte, hash_bytes> hash(std::span<const std::byte> bytes,
                                       std::string_view use = {}) {
  std::array<std::byte, hash_bytes> result;
  crypto_generichash(reinterpret_cast<unsigned char*>(result.data()), hash_bytes,
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                     reinterpret_cast<const unsigned char*>(use.data()), use.size());
  return result;
}
template <std::size_t hash_bytes>
std::array<std::byte, hash_bytes> hash(std::string_view text, std::string_view use = {}) {
  return hash<hash_bytes>(std::as_bytes(std::span{text}), use);
}

inline std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
// Encryption of what goes over a connection between two ranks (QPMESH_ENCRYPT). Each rank makes a
// key pair for a meeting and shows its public key to all; two of them agree on a key for each
// direction (X25519, libsodium's crypto_kx), which is used for one connection and leaves no memory
// but theirs.
//
// A stream is cut into packets, each four bytes of length and what ChaCha20-Poly1305 makes of the
// plain bytes, with the packet's number as nonce. So a packet that was changed, left out, repeated
// or moved is not opened. A key that serves one connection needs none of what crypto_secretstream
// adds: a random header, and keys that change.
//
// Who reads the network learns nothing but lengths and times, also of streams recorded before a
// secret became known. Public keys are as genuine as the meeting in which they were told: who can
// change what ranks tell each other there could stand in between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/system.hpp"

namespace qpmesh::base {

using EncryptionKey = std::array<std::byte, 32>;
using PublicKey = std::array<std::byte, 32>;

struct KeyPair {
  PublicKey public_key{};
  EncryptionKey secret_key{};
};
KeyPair make_key_pair(const System& system);

// Of one connection, as one end has them: what one sends by, the other one receives by.
struct ConnectionKeys {
  EncryptionKey send{};
  EncryptionKey receive{};
};
// Nothing: no rank has such a public key.
std::optional<ConnectionKeys> agree_on_keys(const KeyPair& mine, const PublicKey& theirs);

// Plain bytes in a packet: short, so that the other end opens one while the next one is made, and
// with room for a header before 16 KiB.
inline constexpr std::size_t packet_plain_bytes_max = (std::size_t{16} << 10) + 64;
inline constexpr std::size_t packet_header_bytes = 4;
inline constexpr std::size_t packet_tag_bytes = 16;
inline constexpr std::size_t packet_bytes_max =
    packet_header_bytes + packet_plain_bytes_max + packet_tag_bytes;

// One direction of a connection. Packets are made and opened in their order, in place: the plain
// bytes lie behind the header, and the tag comes behind them.
class Encryptor {
 public:
  explicit Encryptor(const EncryptionKey& key) noexcept : key_{key} {}

  // packet has room for header and tag around so many plain bytes, 1 to packet_plain_bytes_max.
  // Returns the length of the packet.
  std::size_t encrypt(std::byte* packet, std::size_t plain_bytes) noexcept;

 private:
  EncryptionKey key_;
  std::uint64_t number_ = 0;
};

class Decryptor {
 public:
  explicit Decryptor(const EncryptionKey& key) noexcept : key_{key} {}

  // Length of the packet that begins so; 0: too few bytes are here to know. Nothing: no packet
  // begins so.
  static std::optional<std::size_t> packet_bytes(std::span<const std::byte> begin) noexcept;
  // The plain bytes of a whole packet; nothing: it is not the next one that was sent.
  std::optional<std::span<std::byte>> decrypt(std::span<std::byte> packet) noexcept;

 private:
  EncryptionKey key_;
  std::uint64_t number_ = 0;
};

}  // namespace qpmesh::base

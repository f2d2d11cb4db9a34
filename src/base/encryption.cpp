// SPDX-License-Identifier: MIT
#include "base/encryption.hpp"

#include <sodium.h>

#include <cassert>
#include <cstring>

namespace qpmesh::base {
namespace {

static_assert(sizeof(EncryptionKey) == crypto_aead_chacha20poly1305_ietf_KEYBYTES &&
              sizeof(EncryptionKey) == crypto_kx_SESSIONKEYBYTES &&
              sizeof(PublicKey) == crypto_kx_PUBLICKEYBYTES &&
              sizeof(EncryptionKey) == crypto_kx_SECRETKEYBYTES &&
              sizeof(EncryptionKey) == crypto_kx_SEEDBYTES);
static_assert(packet_tag_bytes == crypto_aead_chacha20poly1305_ietf_ABYTES);

unsigned char* raw(std::byte* bytes) noexcept { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes);
}

using Nonce = std::array<unsigned char, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;
// Never the same twice for one key.
Nonce nonce_of(std::uint64_t number) noexcept {
  Nonce nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}

}  // namespace

// sodium_init chooses the fast implementations; it may be called again and by several threads.
KeyPair make_key_pair(const System& system) {
  [[maybe_unused]] const int ready = ::sodium_init();
  assert(ready >= 0);
  EncryptionKey seed;
  system.random(seed);
  KeyPair pair;
  ::crypto_kx_seed_keypair(raw(pair.public_key.data()), raw(pair.secret_key.data()),
                           raw(seed.data()));
  ::sodium_memzero(seed.data(), seed.size());
  return pair;
}

// One of the two has to be the client: it has the lower public key.
std::optional<ConnectionKeys> agree_on_keys(const KeyPair& mine, const PublicKey& theirs) {
  const auto agree =
      mine.public_key < theirs ? ::crypto_kx_client_session_keys : ::crypto_kx_server_session_keys;
  ConnectionKeys keys;
  if (agree(raw(keys.receive.data()), raw(keys.send.data()), raw(mine.public_key.data()),
            raw(mine.secret_key.data()), raw(theirs.data())) != 0)
    return std::nullopt;
  return keys;
}

std::size_t Encryptor::encrypt(std::byte* packet, std::size_t plain_bytes) noexcept {
  assert(plain_bytes > 0 && plain_bytes <= packet_plain_bytes_max);
  const auto length = static_cast<std::uint32_t>(plain_bytes + packet_tag_bytes);
  std::memcpy(packet, &length, sizeof length);
  std::byte* const text = packet + packet_header_bytes;
  ::crypto_aead_chacha20poly1305_ietf_encrypt(raw(text), nullptr, raw(text), plain_bytes,
                                              raw(packet), packet_header_bytes, nullptr,
                                              nonce_of(number_++).data(), raw(key_.data()));
  return packet_header_bytes + length;
}

std::optional<std::size_t> Decryptor::packet_bytes(std::span<const std::byte> begin) noexcept {
  std::uint32_t length = 0;
  static_assert(sizeof length == packet_header_bytes);
  if (begin.size() < sizeof length) return 0;
  std::memcpy(&length, begin.data(), sizeof length);
  if (length <= packet_tag_bytes || length > packet_plain_bytes_max + packet_tag_bytes)
    return std::nullopt;
  return packet_header_bytes + length;
}

std::optional<std::span<std::byte>> Decryptor::decrypt(std::span<std::byte> packet) noexcept {
  const std::span<std::byte> text = packet.subspan(packet_header_bytes);
  if (::crypto_aead_chacha20poly1305_ietf_decrypt(
          raw(text.data()), nullptr, nullptr, raw(text.data()), text.size(), raw(packet.data()),
          packet_header_bytes, nonce_of(number_++).data(), raw(key_.data())) != 0)
    return std::nullopt;
  return text.first(text.size() - packet_tag_bytes);
}

}  // namespace qpmesh::base

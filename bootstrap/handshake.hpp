// SPDX-License-Identifier: MIT
// How two ranks prove to each other that they know a secret, over a new connection. Everything
// before the welcome is short and of fixed size: an unauthenticated peer costs its listener a few
// hundred bytes.
//
//   listener -> caller   challenge        version, fresh nonce
//   caller -> listener   hello            who I am, fresh nonce, proof over challenge and hello
//                        or calls_again   no challenge came in time: empty
//   listener -> caller   welcome          proof over both; or refused (an Error), or later (empty)
//   caller -> listener   acknowledgement  of a link (links.hpp), which does not count before it
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/system.hpp"
#include "bootstrap/frame_stream.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

inline constexpr std::uint32_t handshake_version = 2;  // of everything that goes over a star, too
inline constexpr const char* same_library_hint = "start every rank with the same qpmesh";

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

struct Challenge {
  std::uint32_t version = handshake_version;
  Nonce nonce{};
};
static_assert(sizeof(Challenge) == 36 && std::is_trivially_copyable_v<Challenge>);

struct Hello {
  std::uint32_t version = handshake_version;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t pid = 0;
  std::int32_t ordinal = 0;
  // Its hash: who shares a secret with another job must not end up in it by accident.
  std::uint32_t job = 0;
  std::array<char, 32> host{};  // cut to fit, zero-filled
  Nonce nonce{};
  Proof proof{};
};
static_assert(sizeof(Hello) == 120 && std::is_trivially_copyable_v<Hello>);

std::optional<std::string> host_name(const base::System& system);  // may be empty
// Without a proof yet.
Hello make_hello(const base::System& system, int rank, int size, int ordinal, std::string_view job);
std::uint32_t hash_of_job(std::string_view job);
std::string sender_of(const Hello& hello);  // "pid 12 on host a"

// The two proofs differ in their first byte: neither side's can be sent back as the other's.
enum class Role : std::uint8_t { listener = 'R', caller = 'r' };
Proof prove(const Key& key, Role role, const Challenge& challenge, const Hello& hello);
bool proves(BlobView proof, const Key& key, Role role, const Challenge& challenge,
            const Hello& hello);

// An Error on its way to another rank. Decoding something that is no error gives Error{corrupt}.
Blob encode_error(const ErrorDetail& detail);
ErrorDetail decode_error(BlobView payload, int sender);

// ---- hashes of secrets and names (BLAKE2b) ----

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

// How a hash is written into a name.
std::string hexadecimal(std::span<const std::byte> bytes);

}  // namespace qpmesh::bootstrap

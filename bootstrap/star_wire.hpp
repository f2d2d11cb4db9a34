// What the ranks and the root of a star say to each other, and how ranks of different hosts prove
// themselves before their control link begins (up to the welcome). Everything before the welcome
// has a fixed size, so that an unauthenticated peer costs the root a few hundred bytes and no
// allocation.
//
//   root  -> rank   Challenge      version, fresh nonce
//   rank  -> root   Hello          who I am, fresh nonce, proof over challenge and hello
//   root  -> rank   frame          welcome (proof over both), or refused, or later (come again)
//   a control link goes on with    caller -> listener acknowledgement, or it does not count
//   a star, once per all_gather:     rank -> root blob;  root -> rank waiting* and everyones
//   either side, instead:          failed (an Error, as it will be thrown)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

inline constexpr std::uint64_t star_magic =
    0x74617473'6873656dU;  // "meshstat", little-endian: for quick rejection, not trust
inline constexpr std::uint32_t star_version = 1;
inline constexpr const char* same_library_hint = "start every rank with the same qpmesh";
inline constexpr std::size_t blob_bytes_max = 64 * 1024;

using Key = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

struct Challenge {
  std::uint64_t magic = star_magic;
  std::uint32_t version = star_version;
  std::uint32_t reserved = 0;
  Nonce nonce{};
};
static_assert(sizeof(Challenge) == 48 && std::is_trivially_copyable_v<Challenge>);

struct Hello {
  std::uint64_t magic = star_magic;
  std::uint32_t version = star_version;
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
static_assert(sizeof(Hello) == 128 && std::is_trivially_copyable_v<Hello>);

Hello make_hello(const base::System& system, int rank, int size, int ordinal, std::string_view job);
std::uint32_t hash_of_job(std::string_view job);
std::string sender_of(const Hello& hello);  // "pid 12 on host a"

// The two proofs differ in their first byte, so that neither side's can be sent back as the
// other's.
enum class Role : std::uint8_t { root = 'R', rank = 'r' };
Proof prove(const Key& key, Role role, const Challenge& challenge, const Hello& hello);
bool proves(const Proof& proof, const Key& key, Role role, const Challenge& challenge,
            const Hello& hello);

enum class FrameKind : std::uint32_t {
  welcome = 1,
  refused,
  later,
  blob,
  everyones,
  waiting,
  failed,
  acknowledgement
};

struct FrameHeader {
  FrameKind kind = FrameKind::failed;
  std::uint32_t payload_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 8);

struct Frame {
  FrameKind kind = FrameKind::failed;
  Blob payload;
};

// The largest payload a rank accepts: every rank's blob with its length.
constexpr std::size_t everyones_bytes_max(int size) {
  return static_cast<std::size_t>(size) * (blob_bytes_max + 4);
}

Blob encode_everyones(const std::vector<Blob>& blobs);
std::optional<std::vector<Blob>> decode_everyones(BlobView payload, int size);

// An Error on its way to another rank. Decoding something that is no error gives Error{corrupt}.
Blob encode_error(const ErrorDetail& detail);
ErrorDetail decode_error(BlobView payload, int sender);

// Ranks that the root still waits for; at most missing_named_max of them are named.
inline constexpr std::size_t missing_named_max = 64;
struct Missing {
  std::uint32_t count = 0;
  std::vector<std::int32_t> named;
};
Blob encode_missing(const Missing& missing);
std::optional<Missing> decode_missing(BlobView payload, int size);
std::string to_string(const Missing& missing);  // "ranks 2, 5 and 3 more"

}  // namespace qpmesh::bootstrap

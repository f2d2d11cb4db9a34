#include "bootstrap/star_wire.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t error_text_bytes_max = 2000;

Blob transcript(Role role, const Challenge& challenge, Hello hello) {
  hello.proof = {};
  Blob bytes(1 + sizeof challenge + sizeof hello);
  bytes[0] = static_cast<std::byte>(role);
  std::memcpy(bytes.data() + 1, &challenge, sizeof challenge);
  std::memcpy(bytes.data() + 1 + sizeof challenge, &hello, sizeof hello);
  return bytes;
}

const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

static_assert(crypto_auth_BYTES == sizeof(Proof) && crypto_auth_KEYBYTES == sizeof(Key));

Hello make_hello(const base::System& system, int rank, int size, int ordinal,
                 std::string_view job) {
  Hello hello;
  hello.rank = rank;
  hello.size = size;
  hello.pid = ::getpid();
  hello.ordinal = ordinal;
  hello.job = hash_of_job(job);
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) {
    std::copy_n(name.begin(), std::min(std::strlen(name.data()), hello.host.size()),
                hello.host.begin());
  }
  system.random(hello.nonce);
  return hello;
}

std::uint32_t hash_of_job(std::string_view job) {
  std::array<unsigned char, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(job.data()),
                     job.size(), nullptr, 0);
  std::uint32_t value = 0;
  std::memcpy(&value, hash.data(), sizeof value);
  return value;
}

std::string sender_of(const Hello& hello) {
  std::string host;
  for (const char c : hello.host) {
    if (c == '\0') break;
    host += c > ' ' && c <= '~' ? c : '?';  // it goes into a log line
  }
  return fmt::format("pid {} on host {}", hello.pid, host);
}

Proof prove(const Key& key, Role role, const Challenge& challenge, const Hello& hello) {
  const Blob bytes = transcript(role, challenge, hello);
  Proof proof;
  crypto_auth(raw(proof.data()), raw(bytes.data()), bytes.size(), raw(key.data()));
  return proof;
}

bool proves(const Proof& proof, const Key& key, Role role, const Challenge& challenge,
            const Hello& hello) {
  const Blob bytes = transcript(role, challenge, hello);
  return crypto_auth_verify(raw(proof.data()), raw(bytes.data()), bytes.size(), raw(key.data())) ==
         0;
}

Blob encode_everyones(const std::vector<Blob>& blobs) {
  base::ByteWriter writer;
  for (const Blob& blob : blobs) writer.put_bytes(blob);
  return std::move(writer).blob();
}

std::optional<std::vector<Blob>> decode_everyones(BlobView payload, int size) {
  base::ByteReader reader{payload};
  std::vector<Blob> blobs;
  blobs.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const BlobView bytes = reader.get_bytes();
    if (bytes.size() > blob_bytes_max) return std::nullopt;
    blobs.emplace_back(bytes.begin(), bytes.end());
  }
  if (!reader.finished()) return std::nullopt;
  return blobs;
}

Blob encode_error(const ErrorDetail& detail) {
  base::ByteWriter writer;
  writer.put(detail.code).put(std::int32_t{detail.peer}).put(std::int32_t{detail.system_error});
  writer.put_text(std::string_view{detail.cause}.substr(0, error_text_bytes_max));
  writer.put_text(std::string_view{detail.hint}.substr(0, error_text_bytes_max));
  return std::move(writer).blob();
}

ErrorDetail decode_error(BlobView payload, int sender) {
  base::ByteReader reader{payload};
  ErrorDetail detail{.operation = "init"};
  detail.code = reader.get<ErrorCode>();
  detail.peer = reader.get<std::int32_t>();
  detail.system_error = reader.get<std::int32_t>();
  detail.cause = reader.get_text();
  detail.hint = reader.get_text();
  if (reader.finished() && detail.code <= ErrorCode::internal) return detail;
  return {.code = ErrorCode::corrupt,
          .peer = sender,
          .operation = "init",
          .cause = fmt::format("rank {} sent {} bytes that should be an error and are not", sender,
                               payload.size())};
}

Blob encode_missing(const Missing& missing) {
  base::ByteWriter writer;
  writer.put(missing.count).put(static_cast<std::uint32_t>(missing.named.size()));
  for (const std::int32_t rank : missing.named) writer.put(rank);
  return std::move(writer).blob();
}

std::optional<Missing> decode_missing(BlobView payload, int size) {
  base::ByteReader reader{payload};
  Missing missing;
  missing.count = reader.get<std::uint32_t>();
  const auto named = reader.get<std::uint32_t>();
  if (named > missing_named_max || named > missing.count) return std::nullopt;
  for (std::uint32_t i = 0; i < named; ++i) {
    missing.named.push_back(reader.get<std::int32_t>());
    if (missing.named.back() < 0 || missing.named.back() >= size) return std::nullopt;
  }
  if (!reader.finished()) return std::nullopt;
  return missing;
}

std::string to_string(const Missing& missing) {
  std::string text = missing.count == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < missing.named.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", missing.named[i]);
  if (missing.count > missing.named.size())
    text += fmt::format(" and {} more", missing.count - missing.named.size());
  return text;
}

}  // namespace qpmesh::bootstrap

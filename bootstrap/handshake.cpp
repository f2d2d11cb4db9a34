// SPDX-License-Identifier: MIT
#include "bootstrap/handshake.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "bootstrap/init_error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t error_text_bytes_max = 2000;

}  // namespace

static_assert(crypto_auth_BYTES == sizeof(Proof) && crypto_auth_KEYBYTES == sizeof(Key));

std::optional<std::string> host_name(const base::System& system) {
  std::array<char, 256> name{};
  // Names longer than the buffer are cut without a terminator: the last byte stays ours.
  const int result =
      system.call("gethostname", [&] { return ::gethostname(name.data(), name.size() - 1); });
  if (result != 0) return std::nullopt;
  return name.data();
}

Hello make_hello(const base::System& system, int rank, int size, int ordinal,
                 std::string_view job) {
  Hello hello;
  hello.rank = rank;
  hello.size = size;
  hello.pid = ::getpid();
  hello.ordinal = ordinal;
  hello.job = hash_of_job(job);
  const std::string name = host_name(system).value_or("");
  std::copy_n(name.begin(), std::min(name.size(), hello.host.size()), hello.host.begin());
  system.random(hello.nonce);
  return hello;
}

std::uint32_t hash_of_job(std::string_view job) {
  std::uint32_t value = 0;
  std::memcpy(&value, hash<16>(job).data(), sizeof value);
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
  Hello unproven = hello;
  unproven.proof = {};
  std::array<unsigned char, 1 + sizeof challenge + sizeof hello> transcript{
      static_cast<unsigned char>(role)};
  std::memcpy(transcript.data() + 1, &challenge, sizeof challenge);
  std::memcpy(transcript.data() + 1 + sizeof challenge, &unproven, sizeof unproven);
  Proof proof;
  crypto_auth(reinterpret_cast<unsigned char*>(proof.data()), transcript.data(), transcript.size(),
              reinterpret_cast<const unsigned char*>(key.data()));
  return proof;
}

bool proves(BlobView proof, const Key& key, Role role, const Challenge& challenge,
            const Hello& hello) {
  const Proof expected = prove(key, role, challenge, hello);
  return proof.size() == expected.size() &&
         sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

Blob encode_error(const ErrorDetail& detail) {
  const auto shortened = [](std::string_view text) { return text.substr(0, error_text_bytes_max); };
  base::ByteWriter writer;
  writer.put_fields(detail.code, detail.peer, detail.system_error, shortened(detail.operation),
                    shortened(detail.cause), shortened(detail.hint));
  return std::move(writer).blob();
}

ErrorDetail decode_error(BlobView payload, int sender) {
  base::ByteReader reader{payload};
  ErrorDetail detail;
  reader.get_fields(detail.code, detail.peer, detail.system_error, detail.operation, detail.cause,
                    detail.hint);
  if (reader.finished() && detail.code <= ErrorCode::internal) return detail;
  return init_error(ErrorCode::corrupt, sender,
                    fmt::format("rank {} sent {} bytes that should be an error and are not", sender,
                                payload.size()));
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace qpmesh::bootstrap

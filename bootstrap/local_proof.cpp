#include "bootstrap/local_proof.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/bytes.hpp"
#include "base/owned.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::uint64_t greeting_magic = 0x6873656d7071'0003U;

}  // namespace

Blob greeting_of(const Introduction& mine) {
  base::ByteWriter writer;
  writer.put(greeting_magic).put(std::int32_t{mine.rank});
  for (const std::byte byte : mine.token) writer.put(byte);
  return std::move(writer).blob();
}

int proven_rank(std::span<const std::byte, greeting_bytes> greeting,
                std::span<const Introduction> everybody) {
  base::ByteReader reader{greeting};
  if (reader.get<std::uint64_t>() != greeting_magic) return no_peer;
  const int rank = reader.get<std::int32_t>();
  if (rank < 0 || rank >= static_cast<int>(everybody.size())) return no_peer;
  const Token& expected = everybody[static_cast<std::size_t>(rank)].token;
  const auto shown = greeting.last<sizeof(Token)>();
  return sodium_memcmp(shown.data(), expected.data(), expected.size()) == 0 ? rank : no_peer;
}

ArenaExamination examine_arena(const base::System& system, int arena,
                               const Introduction& announced) {
  const auto failed = [](const char* call) {
    return ArenaExamination{.failed_call = call, .system_error = errno, .forgery = {}};
  };
  const auto forged = [](std::string how) { return ArenaExamination{.forgery = std::move(how)}; };
  struct stat status {};
  if (system.call("fstat", [&] { return ::fstat(arena, &status); }) != 0) return failed("fstat");
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) != announced.arena_bytes ||
      announced.arena_bytes < sizeof announced.nonce) {
    return forged(fmt::format("rank {} announced an arena of {} bytes and sent one of {}",
                              announced.rank, announced.arena_bytes, status.st_size));
  }
  constexpr int needed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = system.call("fcntl", [&] { return ::fcntl(arena, F_GET_SEALS); });
  if (seals < 0 && errno != EINVAL) return failed("fcntl(F_GET_SEALS)");
  if (seals < 0 || (seals & needed) != needed) {  // EINVAL: no memfd at all
    return forged(
        fmt::format("the arena of rank {} is not sealed against resizing (seals {}, needed {})",
                    announced.rank, seals, needed));
  }
  std::uint64_t nonce = 0;
  void* address = system.call(
      "mmap", [&] { return ::mmap(nullptr, sizeof nonce, PROT_READ, MAP_SHARED, arena, 0); });
  if (address == MAP_FAILED) return failed("mmap");
  const base::Mapping beginning{address, sizeof nonce};
  std::memcpy(&nonce, beginning.data(), sizeof nonce);
  if (nonce != announced.nonce) {
    return forged(fmt::format("the arena of rank {} holds nonce {:016x}, announced was {:016x}",
                              announced.rank, nonce, announced.nonce));
  }
  return {};
}

}  // namespace qpmesh::bootstrap

// What a rank of this host must show: that it is who it says, and that the memory it hands over is
// the one it announced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/system.hpp"
#include "bootstrap/introduction.hpp"

namespace qpmesh::bootstrap {

// The first bytes on a connection, in both directions: magic, rank, token.
inline constexpr std::size_t greeting_bytes =
    sizeof(std::uint64_t) + sizeof(std::int32_t) + sizeof(Token);

Blob greeting_of(const Introduction& mine);

// The rank that a greeting proves to be from, or no_peer.
int proven_rank(std::span<const std::byte, greeting_bytes> greeting,
                std::span<const Introduction> everybody);

struct ArenaExamination {
  const char* failed_call = nullptr;  // could not be examined
  int system_error = 0;
  std::string forgery;  // in which way it is not what was announced; empty when it is
};

// Looks at size, seals and nonce. Before anything is mapped: a memory that could shrink would end
// this process with SIGBUS.
ArenaExamination examine_arena(const base::System& system, int arena,
                               const Introduction& announced);

}  // namespace qpmesh::bootstrap

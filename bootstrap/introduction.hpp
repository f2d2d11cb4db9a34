// SPDX-License-Identifier: MIT
// What every rank tells every rank before anything else: the first blob of a meeting.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/encryption.hpp"
#include "base/rank_identity.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::bootstrap {

// "qpmesh", and the place of this blob in a start.
inline constexpr std::uint64_t introduction_magic = 0x6873656d7071'0001U;
// Of everything ranks exchange; raised by every change that old ranks misread.
inline constexpr std::uint32_t protocol_version = 10;

using Token = std::array<std::byte, 16>;

struct Introduction {
  std::uint32_t protocol = protocol_version;
  std::string library_version;
  int rank = -1;
  int size = 0;
  base::Place place;
  pid_t pid = 0;
  std::string host;
  std::string listener;  // abstract Unix socket; empty where preparing failed, as its report says
  Token token{};         // known to ranks of this meeting only
  base::PublicKey public_key{};  // for control links, where they are encrypted
  std::uint64_t nonce = 0;
  std::uint64_t arena_bytes = 0;
  // Where the nonce lies in private memory too; 0: nobody is to read that.
  std::uint64_t private_nonce_address = 0;
  Token contribution{};  // to the epoch
  Blob facts;
};

// What needs no system call that may fail: even a rank that is about to give up can say this much.
Introduction introduce_myself(const base::System& system, int rank, int size);
// Fills in place and host. Throws Error{no_resource}.
void look_around(const base::System& system, Introduction& mine);

Blob encode(const Introduction& introduction);

// Reads what all ranks sent. The answer, and the Error, depend on the blobs alone: ranks that
// gathered the same blobs come to the same end. Throws Error{corrupt} naming the rank whose blob
// makes no sense, Error{mismatch} naming both ranks and values that differ.
std::vector<Introduction> read_introductions(std::span<const Blob> blobs, int size);

// Random where one rank's contribution is, and equal on every rank.
std::uint64_t epoch_of(std::span<const Introduction> introductions);

}  // namespace qpmesh::bootstrap

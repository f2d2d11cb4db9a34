// SPDX-License-Identifier: MIT
#include "bootstrap/introduction.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/owned.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"
#include "qpmesh/version.h"

namespace qpmesh::bootstrap {
namespace {

[[noreturn]] void fail_reading(std::string_view what, int error) {
  const std::string hint = base::hint_for_descriptors(error);
  fail_init(ErrorCode::no_resource, no_peer, fmt::format("cannot read {}", what),
            hint.empty() ? "is /proc mounted?" : hint, error);
}

std::string read_boot_id(const base::System& system) {
  constexpr const char* path = "/proc/sys/kernel/random/boot_id";
  const base::UniqueFd file{
      system.call("open", [&] { return ::open(path, O_RDONLY | O_CLOEXEC); })};
  if (!file) fail_reading(path, errno);
  std::array<char, 64> text{};
  const ssize_t count =
      system.call("read", [&] { return ::read(file.get(), text.data(), text.size()); });
  if (count <= 0) fail_reading(path, count < 0 ? errno : 0);
  std::string_view id{text.data(), static_cast<std::size_t>(count)};
  while (!id.empty() && id.back() == '\n') id.remove_suffix(1);
  return std::string{id};
}

std::uint64_t namespace_inode(const base::System& system, const char* path) {
  struct stat status {};
  if (system.call("stat", [&] { return ::stat(path, &status); }) != 0) fail_reading(path, errno);
  return status.st_ino;
}

// All that travels behind the protocol's number, in its order, for writing and reading alike.
void use_fields(auto& of, const auto& use) {
  use(of.library_version, of.rank, of.size, of.place.boot_id, of.place.uid, of.place.pid_namespace,
      of.place.net_namespace, of.place.user_namespace, of.pid, of.host, of.listener, of.token,
      of.public_key, of.nonce, of.arena_bytes, of.private_nonce_address, of.contribution, of.facts);
}

Introduction read_one(BlobView blob, int rank) {
  const auto refuse = [&](const char* why) {
    fail_corrupt_blob(rank, fmt::format("the {} bytes of rank {} {}", blob.size(), rank, why));
  };
  base::ByteReader reader{blob};
  if (reader.get<std::uint64_t>() != introduction_magic) refuse("are no introduction");
  Introduction read;
  read.protocol = reader.get<std::uint32_t>();
  if (!reader.ok()) refuse("are too few for an introduction");
  // The fields behind a protocol number that is not ours are not ours to read.
  if (read.protocol != protocol_version) return read;
  use_fields(read, [&](auto&... fields) { reader.get_fields(fields...); });
  if (read.listener.size() > unix_name_bytes_max) refuse("name a socket that no system has");
  if (!reader.finished()) refuse("are not what the fields of its introduction say");
  return read;
}

}  // namespace

Introduction introduce_myself(const base::System& system, int rank, int size) {
  Introduction mine;
  mine.library_version = QPMESH_VERSION;
  mine.rank = rank;
  mine.size = size;
  system.random(mine.token);
  system.random(mine.contribution);
  mine.pid = ::getpid();
  return mine;
}

void look_around(const base::System& system, Introduction& mine) {
  mine.place.uid = ::geteuid();
  mine.place.boot_id = read_boot_id(system);
  mine.place.pid_namespace = namespace_inode(system, "/proc/self/ns/pid");
  mine.place.net_namespace = namespace_inode(system, "/proc/thread-self/ns/net");
  mine.place.user_namespace = namespace_inode(system, "/proc/self/ns/user");
  const auto host = host_name(system);
  if (!host) fail_reading("the host's name", errno);
  mine.host = *host;
}

Blob encode(const Introduction& introduction) {
  base::ByteWriter writer;
  writer.put(introduction_magic).put(introduction.protocol);
  use_fields(introduction, [&](const auto&... fields) { writer.put_fields(fields...); });
  return std::move(writer).blob();
}

std::vector<Introduction> read_introductions(std::span<const Blob> blobs, int size) {
  require_blob_per_rank(blobs, size);
  std::vector<Introduction> all;
  all.reserve(blobs.size());
  for (const Blob& blob : blobs) all.push_back(read_one(blob, static_cast<int>(all.size())));
  // Everybody is compared with rank 0, so that every rank names the same two. Protocols first: of a
  // blob in another protocol nothing else was read.
  const Introduction& first = all.front();
  const auto fail_mismatch = [](int rank, std::string cause, std::string hint) {
    fail_init(ErrorCode::mismatch, rank, std::move(cause), std::move(hint));
  };
  constexpr const char* same_version = "start every rank with the same version of qpmesh";
  for (const Introduction& other : all) {
    if (other.protocol == first.protocol) continue;
    const auto rank = static_cast<int>(&other - all.data());
    fail_mismatch(rank,
                  fmt::format("rank 0 speaks protocol {}, rank {} speaks protocol {}",
                              first.protocol, rank, other.protocol),
                  same_version);
  }
  if (first.protocol != protocol_version) {
    fail_mismatch(0,
                  fmt::format("this rank speaks protocol {}, every blob says protocol {}",
                              protocol_version, first.protocol),
                  "the bootstrap must hand blobs over as they are");
  }
  for (int rank = 0; rank < size; ++rank) {
    const Introduction& other = all[static_cast<std::size_t>(rank)];
    if (other.library_version != first.library_version) {
      fail_mismatch(rank,
                    fmt::format("rank 0 runs qpmesh {}, rank {} runs qpmesh {}",
                                first.library_version, rank, other.library_version),
                    same_version);
    }
    if (other.size != size) {
      fail_mismatch(rank,
                    fmt::format("{} ranks were gathered, rank {} was started as one of {}", size,
                                rank, other.size),
                    "start every rank with the same number of ranks");
    }
    if (other.rank != rank) {
      fail_mismatch(rank, fmt::format("the blob in place {} is rank {}'s", rank, other.rank),
                    "all_gather must return the blobs in rank order");
    }
  }
  return all;
}

std::uint64_t epoch_of(std::span<const Introduction> introductions) {
  base::ByteWriter writer;
  for (const Introduction& introduction : introductions) writer.put(introduction.contribution);
  return base::ByteReader{hash<16>(writer.blob(), "qpmesh epoch")}.get<std::uint64_t>();
}

}  // namespace qpmesh::bootstrap

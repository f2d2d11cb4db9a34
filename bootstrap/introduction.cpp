#include "bootstrap/introduction.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/owned.hpp"
#include "bootstrap/hash.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

[[noreturn]] void fail(std::string_view what, int error) {
  throw Error{{.code = ErrorCode::no_resource,
               .operation = "init",
               .cause = fmt::format("cannot read {}", what),
               .system_error = error,
               .hint = "is /proc mounted?"}};
}

std::string read_boot_id(const base::System& system) {
  constexpr const char* path = "/proc/sys/kernel/random/boot_id";
  const base::UniqueFd file{
      system.call("open", [&] { return ::open(path, O_RDONLY | O_CLOEXEC); })};
  if (!file) fail(path, errno);
  std::array<char, 64> text{};
  const ssize_t count =
      system.call("read", [&] { return ::read(file.get(), text.data(), text.size()); });
  if (count <= 0) fail(path, count < 0 ? errno : 0);
  std::string_view id{text.data(), static_cast<std::size_t>(count)};
  while (!id.empty() && id.back() == '\n') id.remove_suffix(1);
  return std::string{id};
}

std::uint64_t namespace_inode(const base::System& system, const char* path) {
  struct stat status {};
  if (system.call("stat", [&] { return ::stat(path, &status); }) != 0) fail(path, errno);
  return status.st_ino;
}

std::string host_name(const base::System& system) {
  std::array<char, 256> name{};
  // Names longer than the buffer are cut without a terminator: the last byte stays ours.
  if (system.call("gethostname", [&] { return ::gethostname(name.data(), name.size() - 1); }) !=
      0) {
    fail("the host's name", errno);
  }
  return name.data();
}

[[noreturn]] void corrupt(int rank, std::string cause) {
  throw Error{
      {.code = ErrorCode::corrupt,
       .peer = rank,
       .operation = "init",
       .cause = std::move(cause),
       .hint = "the bootstrap must hand every rank's blob to every rank as it is, in rank order"}};
}

[[noreturn]] void mismatch(int rank, std::string cause, std::string hint) {
  throw Error{{.code = ErrorCode::mismatch,
               .peer = rank,
               .operation = "init",
               .cause = std::move(cause),
               .hint = std::move(hint)}};
}

// The fields behind a protocol number that is not ours are not ours to read.
Introduction read_one(BlobView blob, int rank) {
  base::ByteReader reader{blob};
  if (reader.get<std::uint64_t>() != introduction_magic) {
    corrupt(rank, fmt::format("the {} bytes of rank {} are no introduction", blob.size(), rank));
  }
  Introduction read;
  read.protocol = reader.get<std::uint32_t>();
  if (!reader.ok())
    corrupt(rank,
            fmt::format("the introduction of rank {} ends after {} bytes", rank, blob.size()));
  if (read.protocol != protocol_version) return read;
  read.library_version = reader.get_text();
  read.rank = reader.get<std::int32_t>();
  read.size = reader.get<std::int32_t>();
  read.place.boot_id = reader.get_text();
  read.place.uid = reader.get<std::uint32_t>();
  read.place.pid_namespace = reader.get<std::uint64_t>();
  read.place.net_namespace = reader.get<std::uint64_t>();
  read.place.user_namespace = reader.get<std::uint64_t>();
  read.pid = reader.get<std::int32_t>();
  read.host = reader.get_text();
  read.listener = reader.get_text();
  read.token = reader.get<Token>();
  read.nonce = reader.get<std::uint64_t>();
  read.arena_bytes = reader.get<std::uint64_t>();
  read.private_nonce_address = reader.get<std::uint64_t>();
  read.contribution = reader.get<Token>();
  const BlobView facts = reader.get_bytes();
  read.facts.assign(facts.begin(), facts.end());
  if (!reader.finished()) {
    corrupt(rank, fmt::format(
                      "the introduction of rank {} has {} bytes, which is not what its fields say",
                      rank, blob.size()));
  }
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
  mine.host = host_name(system);
}

Blob encode(const Introduction& introduction) {
  const base::Place& place = introduction.place;
  base::ByteWriter writer;
  writer.put(introduction_magic).put(introduction.protocol).put_text(introduction.library_version);
  writer.put(std::int32_t{introduction.rank}).put(std::int32_t{introduction.size});
  writer.put_text(place.boot_id).put(std::uint32_t{place.uid}).put(place.pid_namespace);
  writer.put(place.net_namespace).put(place.user_namespace);
  writer.put(std::int32_t{introduction.pid}).put_text(introduction.host);
  writer.put_text(introduction.listener).put(introduction.token).put(introduction.nonce);
  writer.put(introduction.arena_bytes).put(introduction.private_nonce_address);
  writer.put(introduction.contribution).put_bytes(introduction.facts);
  return std::move(writer).blob();
}

std::vector<Introduction> read_introductions(std::span<const Blob> blobs, int size) {
  if (blobs.size() != static_cast<std::size_t>(size)) {
    mismatch(no_peer,
             fmt::format("the bootstrap says {} ranks and gathered {} blobs", size, blobs.size()),
             "all_gather must return one blob per rank");
  }
  std::vector<Introduction> all;
  all.reserve(blobs.size());
  for (const Blob& blob : blobs) all.push_back(read_one(blob, static_cast<int>(all.size())));
  // Everybody is compared with rank 0, so that every rank names the same two. Protocols first: of a
  // blob in another protocol nothing else was read.
  const Introduction& first = all.front();
  for (int rank = 1; rank < size; ++rank) {
    const Introduction& other = all[static_cast<std::size_t>(rank)];
    if (other.protocol == first.protocol) continue;
    mismatch(rank,
             fmt::format("rank 0 speaks protocol {}, rank {} speaks protocol {}", first.protocol,
                         rank, other.protocol),
             "start every rank with the same version of qpmesh");
  }
  if (first.protocol != protocol_version) {
    mismatch(0,
             fmt::format("this rank speaks protocol {}, every blob says protocol {}",
                         protocol_version, first.protocol),
             "the bootstrap must hand blobs over as they are");
  }
  for (int rank = 0; rank < size; ++rank) {
    const Introduction& other = all[static_cast<std::size_t>(rank)];
    if (other.library_version != first.library_version) {
      mismatch(rank,
               fmt::format("rank 0 runs qpmesh {}, rank {} runs qpmesh {}", first.library_version,
                           rank, other.library_version),
               "start every rank with the same version of qpmesh");
    }
    if (other.size != size) {
      mismatch(rank,
               fmt::format("{} ranks were gathered, rank {} was started as one of {}", size, rank,
                           other.size),
               "start every rank with the same number of ranks");
    }
    if (other.rank != rank) {
      mismatch(rank, fmt::format("the blob in place {} is rank {}'s", rank, other.rank),
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

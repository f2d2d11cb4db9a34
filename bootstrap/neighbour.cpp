#include "bootstrap/neighbour.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bootstrap/init_error.hpp"
#include "bootstrap/limits.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {
namespace {

[[noreturn]] void fail_forged(int peer, std::string cause) {
  fail_init(ErrorCode::authentication, peer, std::move(cause),
            "no correct rank does that: start every rank with the same qpmesh");
}

void examine_arena(const base::System& system, int arena, const Introduction& peer) {
  struct stat status {};
  if (system.call("fstat", [&] { return ::fstat(arena, &status); }) != 0)
    fail_call("fstat", errno, peer.rank);
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) != peer.arena_bytes ||
      peer.arena_bytes < sizeof peer.nonce) {
    fail_forged(peer.rank, fmt::format("rank {} announced an arena of {} bytes and sent one of {}",
                                       peer.rank, peer.arena_bytes, status.st_size));
  }
  constexpr int needed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = system.call("fcntl", [&] { return ::fcntl(arena, F_GET_SEALS); });
  if (seals < 0 && errno != EINVAL) fail_call("fcntl(F_GET_SEALS)", errno, peer.rank);
  if (seals < 0 || (seals & needed) != needed) {  // EINVAL: no memfd at all
    fail_forged(peer.rank, fmt::format("the arena of rank {} is not sealed against resizing (seals "
                                       "{}, needed {})",
                                       peer.rank, seals, needed));
  }
  std::uint64_t nonce = 0;
  void* address = system.call(
      "mmap", [&] { return ::mmap(nullptr, sizeof nonce, PROT_READ, MAP_SHARED, arena, 0); });
  if (address == MAP_FAILED) fail_call("mmap", errno, peer.rank);
  const base::Mapping beginning{address, sizeof nonce};
  std::memcpy(&nonce, beginning.data(), sizeof nonce);
  if (nonce == peer.nonce) return;
  fail_forged(peer.rank,
              fmt::format("the arena of rank {} holds nonce {:016x}, announced was {:016x}",
                          peer.rank, nonce, peer.nonce));
}

// Tried, because what forbids it cannot be known before: yama, seccomp, a process that is not
// dumpable, another namespace.
base::ProcessMemory try_private_memory(const base::Log& log, const Introduction& peer,
                                       const LocalOffer& offer) {
  if (offer.private_nonce_address == 0 || peer.private_nonce_address == 0) return {};
  const base::ProcessMemory memory{peer.pid,
                                   {.address = peer.private_nonce_address, .value = peer.nonce}};
  const int error = memory.copy(nullptr, 0, 0);
  if (error == 0) return memory;
  log.info(
      "the private memory of rank {} cannot be read, so it is copied through shared memory: "
      "{}",
      peer.rank, base::describe_errno(error));
  return {};
}

}  // namespace

void fail_call(const char* call, int error, int peer) {
  fail_init(ErrorCode::no_resource, no_peer,
            fmt::format("{} failed while linking with rank {}", call, peer),
            error == EPERM ? "does a seccomp filter of a container refuse this call? allow it"
                           : hint_for_descriptors(error),
            error);
}

void check_process(const base::System& system, int socket, const Introduction& peer) {
  Credentials there;
  if (const int error = read_credentials(system, socket, there); error != 0)
    fail_call("getsockopt(SO_PEERCRED)", error, peer.rank);
  if (there.uid == peer.place.uid && there.pid == peer.pid) return;
  fail_forged(peer.rank,
              fmt::format("rank {} said it is pid {} of uid {}; its socket belongs to pid {} of "
                          "uid {}",
                          peer.rank, peer.pid, peer.place.uid, there.pid, there.uid));
}

LocalPeer take_memory(const base::System& system, const base::Log& log, Descriptors& descriptors,
                      const Introduction& peer, const LocalOffer& offer) {
  if (!descriptors[1]) {
    fail_forged(
        peer.rank,
        fmt::format("rank {} did not send the descriptors of its arena and doorbell", peer.rank));
  }
  examine_arena(system, descriptors[0].get(), peer);
  return {.rank = peer.rank,
          .arena = std::move(descriptors[0]),
          .arena_bytes = peer.arena_bytes,
          .doorbell = std::move(descriptors[1]),
          .private_memory = try_private_memory(log, peer, offer)};
}

base::UniqueFd open_process(const base::System& system, const base::Log& log,
                            const Introduction& peer) {
  base::UniqueFd pidfd{system.call("pidfd_open", [&] {
    // glibc 2.36 declares pidfd_open without extern "C".
    return static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0));
  })};
  if (pidfd) return pidfd;
  if (errno == ESRCH) {
    fail_init(ErrorCode::peer_dead, peer.rank,
              fmt::format("rank {} (pid {} on host {}) ended during the handshake", peer.rank,
                          peer.pid, peer.host),
              "look at what that rank said before it ended", ESRCH);
  }
  if (errno != ENOSYS) fail_call("pidfd_open", errno, peer.rank);
  log.warning("this kernel has no pidfds: the death of rank {} is seen by its hang-up only",
              peer.rank);
  return {};
}

}  // namespace qpmesh::bootstrap

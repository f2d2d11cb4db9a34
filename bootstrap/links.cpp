// SPDX-License-Identifier: MIT
#include "bootstrap/links.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/bytes.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/streams.hpp"

namespace qpmesh::bootstrap {
namespace {

// ---- what a rank of this place must show ----
//
// That it is the process it said, and that the memory it hands over is the one it announced. All
// throw Error{authentication} where it is not, Error{no_resource} where a call failed.

[[noreturn]] void fail_forged(int peer, std::string cause) {
  fail_init(ErrorCode::authentication, peer, std::move(cause),
            "no correct rank does that: start every rank with the same qpmesh");
}

void examine_arena(const base::System& system, int arena, const Introduction& peer) {
  struct stat status {};
  if (system.call("fstat", [&] { return ::fstat(arena, &status); }) != 0)
    fail_linking("fstat", errno, peer.rank);
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) != peer.arena_bytes ||
      peer.arena_bytes < sizeof peer.nonce) {
    fail_forged(peer.rank, fmt::format("rank {} announced an arena of {} bytes and sent one of {}",
                                       peer.rank, peer.arena_bytes, status.st_size));
  }
  constexpr int needed = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = system.call("fcntl", [&] { return ::fcntl(arena, F_GET_SEALS); });
  if (seals < 0 && errno != EINVAL) fail_linking("fcntl(F_GET_SEALS)", errno, peer.rank);
  if (seals < 0 || (seals & needed) != needed) {  // EINVAL: no memfd at all
    fail_forged(peer.rank, fmt::format("the arena of rank {} is not sealed against resizing (seals "
                                       "{}, needed {})",
                                       peer.rank, seals, needed));
  }
  std::uint64_t nonce = 0;
  void* address = system.call(
      "mmap", [&] { return ::mmap(nullptr, sizeof nonce, PROT_READ, MAP_SHARED, arena, 0); });
  if (address == MAP_FAILED) fail_linking("mmap", errno, peer.rank);
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

void check_process(const base::System& system, int socket, const Introduction& peer) {
  Credentials there;
  if (const int error = read_credentials(system, socket, there); error != 0)
    fail_linking("getsockopt(SO_PEERCRED)", error, peer.rank);
  if (there.uid == peer.place.uid && there.pid == peer.pid) return;
  fail_forged(peer.rank,
              fmt::format("rank {} said it is pid {} of uid {}; its socket belongs to pid {} of "
                          "uid {}",
                          peer.rank, peer.pid, peer.place.uid, there.pid, there.uid));
}

// Before anything is mapped: a memory that could shrink would end this process with SIGBUS.
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

// A pidfd; empty on kernels without. Throws Error{peer_dead} where the process is gone.
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
  if (errno != ENOSYS) fail_linking("pidfd_open", errno, peer.rank);
  log.warning("this kernel has no pidfds: the death of rank {} is seen by its hang-up only",
              peer.rank);
  return {};
}

// Everybody else, and where they are called.
std::vector<StreamPeer> peers_of(const LinkSettings& settings,
                                 std::span<const Introduction> everybody,
                                 std::span<const std::vector<HostPort>> addresses) {
  const Introduction& mine = everybody[static_cast<std::size_t>(settings.rank)];
  std::vector<StreamPeer> peers;
  for (const Introduction& other : everybody) {
    if (other.rank == settings.rank) continue;
    StreamPeer& peer = peers.emplace_back(
        StreamPeer{.rank = other.rank,
                   .pid = other.pid,
                   .host = other.host,
                   .kind = same_place(other, mine) ? StreamKind::local : StreamKind::tcp});
    if (peer.kind == StreamKind::local) {
      peer.listener = other.listener;
      peer.descriptors = {settings.offer.arena_fd, settings.offer.doorbell_fd};
      continue;
    }
    peer.addresses = reachable(addresses[static_cast<std::size_t>(other.rank)],
                               same_network(other.place, mine.place));
  }
  return peers;
}

// A rank that shows something else than it announced fails alone.
Link make_link(const LinkSettings& settings, const Introduction& peer, const Introduction& mine,
               FrameStream& stream, Descriptors& descriptors, const base::System& system,
               const base::Log& log) {
  Link link;
  if (same_place(peer, mine)) {
    if (stream.lost_descriptors()) fail_linking("receiving descriptors", EMFILE, peer.rank);
    check_process(system, stream.fd(), peer);
    link.memory = take_memory(system, log, descriptors, peer, settings.offer);
    // A pidfd of this very process would end with us: the hang-up has to do.
    if (peer.pid != mine.pid) link.control.pidfd = open_process(system, log, peer);
  } else {
    link.control.address = to_string(remote_address(stream.fd()));
    if (settings.key_pair != nullptr) {
      link.control.keys = base::agree_on_keys(*settings.key_pair, peer.public_key);
      if (!link.control.keys)
        fail_forged(peer.rank,
                    fmt::format("rank {} told a public key that no rank has", peer.rank));
    }
    if (settings.silence_ms_max != 0) set_silence_max(system, stream.fd(), settings.silence_ms_max);
  }
  link.control.peer = peer.rank;
  link.control.pid = peer.pid;
  link.control.host = peer.host;
  link.control.socket = stream.release();
  return link;
}

}  // namespace

bool same_place(const Introduction& a, const Introduction& b) {
  return !a.listener.empty() && !b.listener.empty() && a.place == b.place;
}

Key key_of_listener(std::span<const Introduction> everybody, int rank) {
  base::ByteWriter writer;
  writer.put(std::int32_t{rank});
  for (const Introduction& each : everybody) writer.put(each.token).put(each.contribution);
  return hash<sizeof(Key)>(writer.blob(), "qpmesh control link, version 1");
}

// The first number of statm: pages of address space.
void require_address_space(int arenas, std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  std::uint64_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  const std::uint64_t used = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (used + bytes <= limit.rlim_cur) return;
  fail_init(
      ErrorCode::no_resource, no_peer,
      fmt::format("RLIMIT_AS allows {} bytes: this process uses {}, and the arenas of {} other "
                  "ranks of this host need {} together",
                  limit.rlim_cur, used, arenas, bytes),
      fmt::format("raise it to {} at least (ulimit -v {}), or lower QPMESH_ARENA_BYTES_MAX",
                  used + bytes, (used + bytes) / 1024 + 1));
}

std::vector<Link> link_peers(const LinkSettings& settings, std::vector<base::UniqueFd> listeners,
                             std::span<const Introduction> everybody,
                             std::span<const std::vector<HostPort>> addresses, Report& report,
                             const base::System& system, const base::Log& log) {
  const Introduction& mine = everybody[static_cast<std::size_t>(settings.rank)];
  int arenas = 0;
  std::uint64_t bytes = 0;
  for (const Introduction& other : everybody) {
    if (other.rank == settings.rank || !same_place(other, mine)) continue;
    ++arenas;
    bytes += other.arena_bytes;
  }
  report.attempt(mine.rank, [&] { require_address_space(arenas, bytes); });
  std::vector<Link> links;
  connect_streams(
      {.rank = mine.rank,
       .size = static_cast<int>(everybody.size()),
       .pid = mine.pid,
       .host = mine.host,
       .key = [&](int rank) { return key_of_listener(everybody, rank); },
       .handshake_timeout_ms = settings.handshake_timeout_ms,
       .deadline = settings.deadline,
       .check = settings.check},
      std::move(listeners), peers_of(settings, everybody, addresses),
      [&](const StreamPeer& peer, FrameStream& stream, Descriptors& descriptors) {
        links.push_back(make_link(settings, everybody[static_cast<std::size_t>(peer.rank)], mine,
                                  stream, descriptors, system, log));
      },
      report, system, log);
  std::ranges::sort(links, {}, [](const Link& link) { return link.control.peer; });
  return links;
}

}  // namespace qpmesh::bootstrap

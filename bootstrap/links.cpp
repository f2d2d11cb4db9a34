#include "bootstrap/links.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>

#include "base/bytes.hpp"
#include "bootstrap/acceptor.hpp"
#include "bootstrap/caller.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/listener.hpp"

namespace qpmesh::bootstrap {
namespace {

using Descriptors = std::array<base::UniqueFd, 2>;  // arena, doorbell

// A system call of ours failed while linking with a rank.
[[noreturn]] void fail_call(const char* call, int error, int peer) {
  fail_init(ErrorCode::no_resource, no_peer,
            fmt::format("{} failed while linking with rank {}", call, peer),
            error == EPERM ? "does a seccomp filter of a container refuse this call? allow it"
                           : hint_for_descriptors(error),
            error);
}

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
  if (errno != ENOSYS) fail_call("pidfd_open", errno, peer.rank);
  log.warning("this kernel has no pidfds: the death of rank {} is seen by its hang-up only",
              peer.rank);
  return {};
}

// ---- linking ----

// Rounds over all addresses of a peer in which every one of them said no: more than 200 ms.
constexpr int refused_rounds_max = 10;
constexpr std::size_t unauthenticated_peers_max = 256;  // beside the ranks of the meeting

// A higher rank that has called and proven itself, and must still show that it heard the welcome.
struct UnacknowledgedPeer {
  int rank = no_peer;
  FrameStream stream;
  Deadline until;
  Descriptors descriptors{};
};

class Linker {
 public:
  Linker(const LinkSettings& settings, std::vector<base::UniqueFd> listeners,
         std::span<const Introduction> everybody, std::span<const std::vector<HostPort>> addresses,
         Report& report, const base::System& system, const base::Log& log)
      : settings_{settings},
        everybody_{everybody},
        report_{report},
        system_{system},
        log_{log},
        acceptor_{{.rank = settings.rank,
                   .key = key_of_listener(everybody, settings.rank),
                   .handshake_timeout_ms = settings.handshake_timeout_ms,
                   .unauthenticated_peers_max = unauthenticated_peers_max + everybody.size(),
                   .processes = local_callers()},
                  system,
                  log} {
    for (base::UniqueFd& listener : listeners) acceptor_.listen(std::move(listener));
    for (const Introduction& peer : everybody) {
      if (peer.rank > settings.rank) awaited_.push_back(peer.rank);
      if (peer.rank < settings.rank)
        add_caller(peer.rank, addresses[static_cast<std::size_t>(peer.rank)]);
    }
  }

  std::vector<Link> run() {
    while (!callers_.empty() || !awaited_.empty()) {
      if (system_.now() >= settings_.deadline) {
        give_up();
        break;
      }
      serve();
    }
    std::ranges::sort(links_, {}, [](const Link& link) { return link.control.peer; });
    return std::move(links_);
  }

 private:
  const Introduction& about(int peer) const { return everybody_[static_cast<std::size_t>(peer)]; }
  const Introduction& mine() const { return about(settings_.rank); }
  bool is_local(int peer) const { return same_place(about(peer), mine()); }
  std::string name(int peer) const {
    return fmt::format("rank {} (pid {} on host {})", peer, about(peer).pid, about(peer).host);
  }
  std::vector<pid_t> local_callers() const {
    std::vector<pid_t> processes;
    for (const Introduction& peer : everybody_) {
      if (peer.rank > settings_.rank && is_local(peer.rank)) processes.push_back(peer.pid);
    }
    return processes;
  }
  // What goes with our words to a rank of this place.
  std::vector<int> offered_to(int peer) const {
    if (!is_local(peer)) return {};
    return {settings_.offer.arena_fd, settings_.offer.doorbell_fd};
  }

  // ---- failures ----

  void fail_unreachable(const Caller& caller, ErrorCode code) {
    const int peer = caller.peer();
    const bool local = is_local(peer);
    report_.fail(
        init_error(local && code == ErrorCode::link_failed ? ErrorCode::peer_dead : code, peer,
                   fmt::format("{} cannot reach {}; tried {}", name(settings_.rank), name(peer),
                               caller.problems()),
                   local ? "has that rank ended, or is it stopped? otherwise raise "
                           "QPMESH_INIT_TIMEOUT_MS"
                         : "every rank must reach every rank of another host by TCP: is there a "
                           "firewall, is an address of a network that the hosts do not share, or "
                           "was this rank too late?",
                   caller.last_error()),
        local);
  }
  void give_up() {
    for (const Caller& caller : callers_) fail_unreachable(caller, ErrorCode::timeout);
    if (awaited_.empty()) return;
    const int peer = awaited_.front();
    if (acceptor_.accept_error() != 0) fail_call("accept", acceptor_.accept_error(), peer);
    report_.fail(
        init_error(ErrorCode::timeout, peer,
                   fmt::format("{} did not call {} at {} in time", name(peer), name(settings_.rank),
                               acceptor_.where()),
                   is_local(peer)
                       ? "is that process stopped? otherwise raise QPMESH_INIT_TIMEOUT_MS"
                       : "is that process stopped, or is there a firewall between the hosts?"),
        true);
  }

  // ---- lower ranks, which we call ----

  void add_caller(int peer, std::span<const HostPort> told) {
    Resolved resolved;
    if (is_local(peer)) resolved.addresses.push_back(unix_address(about(peer).listener));
    for (const HostPort& each : told) {
      const auto there = numeric(each);
      // Loopback leads to them only where it is the same one.
      if (is_local(peer) || !there ||
          (scope_of(*there) == Scope::loopback && !same_network(about(peer), mine())))
        continue;
      resolved.addresses.push_back(*there);
    }
    if (resolved.addresses.empty()) {
      return report_.fail(init_error(ErrorCode::link_failed, peer,
                                     fmt::format("{} told no address at which {} could reach it",
                                                 name(peer), name(settings_.rank))));
    }
    // Of this meeting, as the key says: job and ordinal have nothing to add.
    callers_.emplace_back(
        CallerSettings{.peer = peer,
                       .hello = make_hello(system_, settings_.rank,
                                           static_cast<int>(everybody_.size()), 0, {}),
                       .key = key_of_listener(everybody_, peer),
                       .handshake_timeout_ms = settings_.handshake_timeout_ms,
                       .resolve = [resolved](bool) { return resolved; }},
        system_, log_);
  }

  // True when there is no more to do for this one.
  bool step(Caller& caller, bool ready) {
    if (caller.step(ready)) {
      if (const auto refusal = caller.refusal())
        caller.try_next_address(refusal->cause, refusal->system_error);
      else if (acknowledge(caller)) return true;
    }
    if (caller.refused_rounds() < refused_rounds_max) return false;
    fail_unreachable(caller, ErrorCode::link_failed);
    return true;
  }

  // True when there is no more to do.
  bool acknowledge(Caller& caller) {
    const Introduction& peer = about(caller.peer());
    FrameStream& stream = caller.stream();
    stream.read(system_);  // its end, where the listener has given us up meanwhile
    stream.queue(FrameKind::acknowledgement, {});
    stream.flush(system_, offered_to(peer.rank));
    const int error = stream.error() != 0 ? stream.error() : stream.send_error();
    if (stream.unsent() || error != 0) {
      caller.try_next_address("could not acknowledge the welcome", error);
      return false;
    }
    add_link(peer, stream, caller.descriptors());
    return true;
  }

  // ---- higher ranks, which call us ----

  void judge(AuthenticatedPeer caller) {
    const Hello& hello = caller.hello;
    const int size = static_cast<int>(everybody_.size());
    const bool expected =
        hello.rank > settings_.rank && hello.rank < size && hello.size == size &&
        hello.pid == about(hello.rank).pid &&
        is_local(hello.rank) == (local_address(caller.stream.fd()).family() == AF_UNIX);
    if (!expected) {
      const std::string cause =
          fmt::format("rank {} (pid {}) of {} does not call rank {} of {} in this meeting",
                      hello.rank, hello.pid, hello.size, settings_.rank, size);
      return acceptor_.refuse(std::move(caller), cause, "");
    }
    const Proof proof = acceptor_.welcome(caller);
    UnacknowledgedPeer& peer = unacknowledged_.emplace_back(
        UnacknowledgedPeer{hello.rank, std::move(caller.stream),
                           base::after_ms(system_, settings_.handshake_timeout_ms)});
    peer.stream.limit(0);
    peer.stream.queue(FrameKind::welcome, proof);
    peer.stream.flush(system_, offered_to(peer.rank));  // a new socket takes 40 bytes
  }

  // True when there is no more to do: one that breaks off or keeps silent has not heard the
  // welcome, and calls again.
  bool hear(UnacknowledgedPeer& peer, bool ready) {
    FrameStream& stream = peer.stream;
    const bool expired = system_.now() >= peer.until;  // read all the same: it may be here by now
    if (!ready && !expired) return false;
    const auto frame = stream.read(system_, peer.descriptors);
    const bool acknowledged = frame && frame->kind == FrameKind::acknowledgement;
    const bool failed_here = stream.error() != 0 && !connection_broke(stream.error());
    if ((acknowledged || failed_here) && std::erase(awaited_, peer.rank) != 0) {
      if (acknowledged) {
        add_link(about(peer.rank), stream, peer.descriptors);
      } else {
        report_.attempt(settings_.rank, [&] { fail_call("recvmsg", stream.error(), peer.rank); });
      }
    }
    return frame || stream.ended() || stream.oversize() || expired;
  }

  // A rank that shows something else than it announced fails alone.
  void add_link(const Introduction& peer, FrameStream& stream, Descriptors& descriptors) {
    report_.attempt(settings_.rank, [&] {
      Link link;
      if (is_local(peer.rank)) {
        if (stream.lost_descriptors()) fail_call("receiving descriptors", EMFILE, peer.rank);
        check_process(system_, stream.fd(), peer);
        link.memory = take_memory(system_, log_, descriptors, peer, settings_.offer);
        // A pidfd of this very process would end with us: the hang-up has to do.
        if (peer.pid != mine().pid) link.control.pidfd = open_process(system_, log_, peer);
      } else {
        link.control.address = to_string(remote_address(stream.fd()));
        if (settings_.silence_ms_max != 0)
          set_silence_max(system_, stream.fd(), settings_.silence_ms_max);
      }
      link.control.peer = peer.rank;
      link.control.pid = peer.pid;
      link.control.host = peer.host;
      link.control.socket = stream.release();
      links_.push_back(std::move(link));
    });
  }

  // One poll and everything that it found. Throws Error where this process cannot go on.
  void serve() {
    polled_.clear();
    Deadline wake = acceptor_.watch(polled_, settings_.deadline);
    const std::size_t first_caller = polled_.size();
    for (const Caller& caller : callers_) polled_.push_back(caller.watch(wake));
    for (const UnacknowledgedPeer& peer : unacknowledged_) {
      wake = std::min(wake, peer.until);
      polled_.push_back({.fd = peer.stream.fd(), .events = POLLIN, .revents = 0});
    }
    const int ready = system_.call("poll", [&] {
      return ::poll(polled_.data(), polled_.size(), base::remaining_ms(system_, wake));
    });
    const int peer = callers_.empty() ? awaited_.front() : callers_.front().peer();
    if (ready < 0 && errno != EINTR) fail_call("poll", errno, peer);

    const std::span<const pollfd> entries{polled_};
    std::size_t entry = first_caller;
    std::erase_if(callers_,
                  [&](Caller& each) { return step(each, entries[entry++].revents != 0); });
    std::erase_if(unacknowledged_, [&](UnacknowledgedPeer& each) {
      return hear(each, entries[entry++].revents != 0);
    });
    for (AuthenticatedPeer& each : acceptor_.serve(entries.first(first_caller)))
      judge(std::move(each));
    if (acceptor_.is_starved()) fail_call("accept", EMFILE, peer);
  }

  const LinkSettings& settings_;
  const std::span<const Introduction> everybody_;
  Report& report_;
  const base::System& system_;
  const base::Log& log_;
  Acceptor acceptor_;
  std::list<Caller> callers_;  // of lower ranks that are not links yet
  std::vector<int> awaited_;   // higher ranks that are not links yet
  std::list<UnacknowledgedPeer> unacknowledged_;
  std::vector<Link> links_;
  std::vector<pollfd> polled_;  // acceptor, callers, unacknowledged peers: rebuilt each turn
};

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
  int arenas = 0;
  std::uint64_t bytes = 0;
  for (const Introduction& other : everybody) {
    if (other.rank == settings.rank ||
        !same_place(other, everybody[static_cast<std::size_t>(settings.rank)]))
      continue;
    ++arenas;
    bytes += other.arena_bytes;
  }
  require_address_space(arenas, bytes);
  return Linker{settings, std::move(listeners), everybody, addresses, report, system, log}.run();
}

}  // namespace qpmesh::bootstrap

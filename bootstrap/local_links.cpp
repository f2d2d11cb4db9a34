#include "bootstrap/local_links.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <list>

#include "bootstrap/limits.hpp"
#include "bootstrap/local_proof.hpp"
#include "bootstrap/local_socket.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr const char* hint_for_forgery =
    "no correct rank does that: start every rank with the same qpmesh";

constexpr int full_queue_retry_ms = 5;  // poll cannot tell when a listener's queue has room again

// One connection until it became a Link or was dropped.
struct Conversation {
  base::UniqueFd socket;
  bool incoming = false;
  int rank = no_peer;               // whom we called; of an incoming one, who proved to be there
  local::Credentials caller;        // of an incoming one
  Deadline deadline = no_deadline;  // of an incoming one, to greet
  std::array<std::byte, greeting_bytes> greeting{};
  std::size_t received_bytes = 0;
  std::size_t sent_bytes = 0;
  std::array<base::UniqueFd, 2> descriptors;  // arena, doorbell
  bool truncated = false;
  bool over = false;

  // An incoming caller hears nothing from us before it proved who it is.
  bool wants_to_send() const {
    return sent_bytes < greeting_bytes && (!incoming || rank != no_peer);
  }
  bool wants_to_receive() const { return received_bytes < greeting_bytes; }
};

class Linker {
 public:
  Linker(const base::System& system, const base::Log& log, int listener, const LocalOffer& offer,
         std::span<const Introduction> everybody, int rank, std::int64_t handshake_timeout_ms,
         std::vector<Link>& links, Outcome& outcome)
      : system_{system},
        log_{log},
        listener_{listener},
        offer_{offer},
        everybody_{everybody},
        rank_{rank},
        handshake_timeout_ms_{handshake_timeout_ms},
        greeting_{greeting_of(mine())},
        links_{links},
        outcome_{outcome} {
    for (int peer = 0; peer < static_cast<int>(everybody.size()); ++peer) {
      if (peer == rank || !same_place(mine(), about(peer))) continue;
      waiting_.push_back(peer);
      if (peer < rank) to_call_.push_back(peer);
    }
  }

  void run(Deadline deadline) {
    while (!waiting_.empty()) {
      call_lower_ranks();
      if (waiting_.empty()) return;
      const int timeout_ms = until_next_deadline_ms(deadline);
      if (system_.now() >= deadline) return give_up_waiting();
      if (const int error = wait(timeout_ms); error != 0) return fail_everybody("poll", error);
      for (Conversation& conversation : conversations_) step(conversation);
      if (hears_callers()) answer_callers();
      drop_silent_callers();
      conversations_.remove_if([](const Conversation& conversation) { return conversation.over; });
    }
  }

 private:
  const Introduction& about(int peer) const { return everybody_[static_cast<std::size_t>(peer)]; }
  const Introduction& mine() const { return about(rank_); }
  bool is_waiting_for(int peer) const {
    return std::find(waiting_.begin(), waiting_.end(), peer) != waiting_.end();
  }
  // Whoever calls when nobody is left to call us stays in the listener's queue.
  bool hears_callers() const {
    return listening_ &&
           std::any_of(waiting_.begin(), waiting_.end(), [&](int peer) { return peer > rank_; });
  }
  void forget(int peer) {
    std::erase(waiting_, peer);
    std::erase(to_call_, peer);
  }

  // The peer will not become a link: the whole meeting fails, and goes on only to spare the others
  // a second failure.
  void fail(int peer, ErrorCode code, std::string cause, int error = 0, std::string hint = {},
            bool consequence = false) {
    forget(peer);
    outcome_.fail(peer, code, std::move(cause), error, std::move(hint), consequence);
  }
  void fail_call(int peer, const char* what, int error) {
    const bool hung_up =
        error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == ESRCH;
    if (hung_up) {
      fail(peer, ErrorCode::peer_dead,
           fmt::format("rank {} (pid {} on host {}) hung up during the handshake: {}", peer,
                       about(peer).pid, about(peer).host, what),
           error, "look at what that rank said before it ended", true);
    } else {
      fail(rank_, ErrorCode::no_resource,
           fmt::format("{} failed while linking with rank {}", what, peer), error,
           error == EPERM ? "does a seccomp filter of a container refuse this call? allow it"
                          : hint_for_descriptors(error));
      forget(peer);
    }
  }
  void fail_everybody(const char* what, int error) {
    for (const int peer : std::vector<int>{waiting_}) fail_call(peer, what, error);
  }
  void give_up_waiting() {
    const std::vector<int> missing = waiting_;
    for (const int peer : missing) {
      fail(peer, ErrorCode::timeout,
           fmt::format("rank {} (pid {} on host {}) did not shake hands with rank {} in time", peer,
                       about(peer).pid, about(peer).host, rank_),
           0, "is that process stopped? otherwise raise QPMESH_INIT_TIMEOUT_MS", true);
    }
  }

  void call_lower_ranks() {
    for (const int peer : std::vector<int>{to_call_}) {
      local::Connecting connecting = local::connect_to(system_, about(peer).listener);
      if (connecting.error == EAGAIN) continue;  // stays in to_call_
      if (connecting.error != 0) {
        fail_call(peer, "connect", connecting.error);
        continue;
      }
      std::erase(to_call_, peer);
      local::Credentials there;
      if (const int error = local::read_credentials(system_, connecting.socket.get(), there);
          error != 0) {
        fail_call(peer, "getsockopt(SO_PEERCRED)", error);
      } else if (there.uid != about(peer).place.uid || there.pid != about(peer).pid) {
        fail(peer, ErrorCode::authentication,
             fmt::format(
                 "rank {} said it is pid {} of uid {}; its socket belongs to pid {} of uid {}",
                 peer, about(peer).pid, about(peer).place.uid, there.pid, there.uid),
             0, hint_for_forgery);
      } else {
        Conversation& conversation = conversations_.emplace_back();
        conversation.socket = std::move(connecting.socket);
        conversation.rank = peer;
        step(conversation);
      }
    }
    conversations_.remove_if([](const Conversation& conversation) { return conversation.over; });
  }

  int until_next_deadline_ms(Deadline deadline) const {
    int timeout_ms = base::remaining_ms(system_, deadline);
    for (const Conversation& conversation : conversations_) {
      timeout_ms = base::remaining_ms(system_, conversation.deadline, timeout_ms);
    }
    return to_call_.empty() ? timeout_ms : std::min(timeout_ms, full_queue_retry_ms);
  }

  int wait(int timeout_ms) {
    polled_.clear();
    if (hears_callers()) polled_.push_back({.fd = listener_, .events = POLLIN, .revents = 0});
    for (const Conversation& conversation : conversations_) {
      const int events = (conversation.wants_to_send() ? POLLOUT : 0) |
                         (conversation.wants_to_receive() ? POLLIN : 0);
      polled_.push_back(
          {.fd = conversation.socket.get(), .events = static_cast<short>(events), .revents = 0});
    }
    const int ready =
        system_.call("poll", [&] { return ::poll(polled_.data(), polled_.size(), timeout_ms); });
    return ready < 0 && errno != EINTR ? errno : 0;
  }

  void answer_callers() {
    while (!waiting_.empty()) {
      base::UniqueFd socket{system_.call("accept4", [&] {
        return ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      })};
      if (!socket) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        // Out of descriptors or worse. The listener would stay readable: without a caller to hear
        // there is nothing to wait for.
        const int error = errno;
        listening_ = false;
        for (const int peer : std::vector<int>{waiting_}) {
          if (peer > rank_) fail_call(peer, "accept", error);
        }
        return;
      }
      Conversation caller;
      caller.incoming = true;
      const int error = local::read_credentials(system_, socket.get(), caller.caller);
      const bool expected = error == 0 && caller.caller.uid == mine().place.uid &&
                            std::any_of(waiting_.begin(), waiting_.end(), [&](int peer) {
                              return peer > rank_ && about(peer).pid == caller.caller.pid;
                            });
      if (!expected) {
        log_.info(
            "dropped a connection from another process at the meeting's socket: pid {} of uid {}",
            caller.caller.pid, caller.caller.uid);
        continue;
      }
      caller.socket = std::move(socket);
      caller.deadline = base::after_ms(system_, handshake_timeout_ms_);
      step(conversations_.emplace_back(std::move(caller)));
    }
  }

  void drop_silent_callers() {
    for (Conversation& conversation : conversations_) {
      if (conversation.over || conversation.rank != no_peer ||
          system_.now() < conversation.deadline)
        continue;
      drop(conversation, "it did not greet in time");
    }
  }
  void drop(Conversation& conversation, const char* why) {
    log_.info("dropped a connection from pid {}: {}", conversation.caller.pid, why);
    conversation.over = true;
  }

  // As far as the conversation gets without waiting.
  void step(Conversation& conversation) {
    if (conversation.over) return;
    if (conversation.incoming) {
      if (!hear(conversation) || !identify(conversation) || !greet(conversation)) return;
    } else {
      if (!greet(conversation) || !hear(conversation)) return;
      if (proven_rank(conversation.greeting, everybody_) != conversation.rank) {
        conversation.over = true;
        return fail(conversation.rank, ErrorCode::authentication,
                    fmt::format("what answers at the socket of rank {} does not know its token",
                                conversation.rank),
                    0, hint_for_forgery);
      }
    }
    conversation.over = true;
    take_memory(conversation);
  }

  bool greet(Conversation& conversation) {
    while (conversation.sent_bytes < greeting_bytes) {
      const std::array<int, 2> descriptors{offer_.arena_fd, offer_.doorbell_fd};
      const bool first = conversation.sent_bytes == 0;
      const auto sent = local::send(
          system_, conversation.socket.get(), BlobView{greeting_}.subspan(conversation.sent_bytes),
          first ? std::span<const int>{descriptors} : std::span<const int>{});
      if (sent.error == EAGAIN) return false;
      if (sent.error != 0) {
        conversation.over = true;
        fail_call(conversation.rank, "sendmsg", sent.error);
        return false;
      }
      conversation.sent_bytes += sent.count;
    }
    return true;
  }

  bool hear(Conversation& conversation) {
    while (conversation.received_bytes < greeting_bytes) {
      // Never more than the greeting: what follows belongs to the control channel.
      const auto received =
          local::receive(system_, conversation.socket.get(),
                         std::span{conversation.greeting}.subspan(conversation.received_bytes),
                         conversation.descriptors);
      if (received.error == EAGAIN) return false;
      if (received.error != 0 || received.ended) {
        if (conversation.rank == no_peer) {
          drop(conversation, "it hung up without a greeting");
        } else {
          conversation.over = true;
          fail_call(conversation.rank, "recvmsg", received.ended ? ECONNRESET : received.error);
        }
        return false;
      }
      conversation.truncated |= received.truncated;
      conversation.received_bytes += received.count;
    }
    return true;
  }

  bool identify(Conversation& conversation) {
    if (conversation.rank != no_peer) return true;
    const int rank = proven_rank(conversation.greeting, everybody_);
    if (rank <= rank_ || !is_waiting_for(rank) || about(rank).pid != conversation.caller.pid) {
      drop(conversation, "its greeting is none of this meeting's");
      return false;
    }
    conversation.rank = rank;
    conversation.deadline = no_deadline;  // authenticated
    return true;
  }

  void take_memory(Conversation& conversation) {
    const int peer = conversation.rank;
    if (conversation.truncated) return fail_call(peer, "receiving descriptors", EMFILE);
    if (!conversation.descriptors[1]) {
      return fail(
          peer, ErrorCode::authentication,
          fmt::format("rank {} did not send the descriptors of its arena and doorbell", peer), 0,
          hint_for_forgery);
    }
    ArenaExamination examination =
        examine_arena(system_, conversation.descriptors[0].get(), about(peer));
    if (examination.failed_call != nullptr)
      return fail_call(peer, examination.failed_call, examination.system_error);
    if (!examination.forgery.empty())
      return fail(peer, ErrorCode::authentication, std::move(examination.forgery), 0,
                  hint_for_forgery);
    add_link(conversation);
  }

  void add_link(Conversation& conversation) {
    const int peer = conversation.rank;
    Link link;
    // A pidfd of this very process would end with us: the hang-up has to do.
    if (about(peer).pid != mine().pid) {
      link.pidfd.reset(system_.call("pidfd_open", [&] {
        // glibc 2.36 declares pidfd_open without extern "C".
        return static_cast<int>(::syscall(SYS_pidfd_open, about(peer).pid, 0));
      }));
      if (!link.pidfd && errno != ENOSYS) return fail_call(peer, "pidfd_open", errno);
      if (!link.pidfd)
        log_.warning("this kernel has no pidfds: the death of rank {} is seen by its hang-up only",
                     peer);
    }
    link.memory.rank = peer;
    link.memory.arena_bytes = about(peer).arena_bytes;
    link.memory.arena = std::move(conversation.descriptors[0]);
    link.memory.doorbell = std::move(conversation.descriptors[1]);
    link.memory.private_memory = try_private_memory(about(peer));
    link.socket = std::move(conversation.socket);
    links_.push_back(std::move(link));
    forget(peer);
  }

  // Tried, because what forbids it cannot be known before: yama, seccomp, a process that is not
  // dumpable, another namespace.
  base::ProcessMemory try_private_memory(const Introduction& peer) const {
    if (offer_.private_nonce_address == 0 || peer.private_nonce_address == 0) return {};
    const base::ProcessMemory memory{peer.pid,
                                     {.address = peer.private_nonce_address, .value = peer.nonce}};
    const int error = memory.copy(nullptr, 0, 0);
    if (error == 0) return memory;
    log_.info(
        "the private memory of rank {} cannot be read, so it is copied through shared memory: {}",
        peer.rank, base::describe_errno(error));
    return {};
  }

  const base::System& system_;
  const base::Log& log_;
  const int listener_;
  const LocalOffer& offer_;
  const std::span<const Introduction> everybody_;
  const int rank_;
  const std::int64_t handshake_timeout_ms_;
  const Blob greeting_;
  std::vector<Link>& links_;
  Outcome& outcome_;

  std::vector<int> waiting_;  // neither linked nor failed
  std::vector<int> to_call_;  // of those, whom we must call and did not reach yet
  std::list<Conversation> conversations_;
  std::vector<pollfd> polled_;
  bool listening_ = true;
};

}  // namespace

bool same_place(const Introduction& a, const Introduction& b) {
  return !a.listener.empty() && !b.listener.empty() && a.place == b.place;
}

void link_local_peers(const base::System& system, const base::Log& log, int listener,
                      const LocalOffer& offer, std::span<const Introduction> everybody, int rank,
                      std::int64_t handshake_timeout_ms, Deadline deadline,
                      std::vector<Link>& links, Outcome& outcome) {
  int arenas = 0;
  std::uint64_t bytes = 0;
  for (const Introduction& other : everybody) {
    if (other.rank == rank || !same_place(other, everybody[static_cast<std::size_t>(rank)]))
      continue;
    ++arenas;
    bytes += other.arena_bytes;
  }
  require_address_space(system, arenas, bytes);
  Linker{system, log, listener, offer, everybody, rank, handshake_timeout_ms, links, outcome}.run(
      deadline);
  std::sort(links.begin(), links.end(),
            [](const Link& a, const Link& b) { return a.memory.rank < b.memory.rank; });
  for (const Link& link : links) outcome.proved.push_back(link.memory.rank);
  outcome.reads_neighbours = !links.empty() && std::ranges::all_of(links, [](const Link& link) {
    return link.memory.private_memory.is_known();
  });
}

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
#include "bootstrap/streams.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <list>

#include "base/errors.hpp"
#include "bootstrap/acceptor.hpp"
#include "bootstrap/caller.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {
namespace {

// Rounds over all addresses of a peer in which every one of them said no: more than 200 ms.
constexpr int refused_rounds_max = 10;
constexpr std::size_t unauthenticated_peers_max = 256;  // beside the ranks of the meeting

// A higher rank that has called and proven itself, and must still show that it heard the welcome.
// It stays until it does, or its connection ends: one that was given up here could acknowledge in
// the same moment, count the stream, and never call again.
struct UnacknowledgedPeer {
  int rank = no_peer;
  FrameStream stream;
  Descriptors descriptors{};
};

struct Call {
  Caller caller;
  Deadline until;
};

// consequence: another rank has more to say (Report::fail).
using FailLinking = std::function<void(int peer, ErrorDetail detail, bool consequence)>;

class Linker {
 public:
  Linker(const StreamSettings& settings, std::vector<base::UniqueFd> listeners,
         std::span<const StreamPeer> peers, const TakeStream& take, FailLinking fail,
         const base::System& system, const base::Log& log)
      : settings_{settings},
        peers_{peers},
        take_{take},
        fail_{std::move(fail)},
        system_{system},
        log_{log},
        acceptor_{{.rank = settings.rank,
                   .key = settings.key(settings.rank),
                   .handshake_timeout_ms = settings.handshake_timeout_ms,
                   .unauthenticated_peers_max = unauthenticated_peers_max + peers.size(),
                   .processes = local_callers(),
                   .any_user = any_is(StreamKind::either)},
                  system,
                  log} {
    for (base::UniqueFd& listener : listeners) acceptor_.listen(std::move(listener));
    for (const StreamPeer& peer : peers) {
      if (peer.rank > settings.rank) awaited_.push_back(peer.rank);
    }
  }

  void call(int peer, Deadline until) { add_caller(about(peer), until); }
  // Also a stranger's connection: it lasts as long as a handshake.
  bool is_under_way() const noexcept {
    return !callers_.empty() || !unacknowledged_.empty() || acceptor_.has_unauthenticated();
  }

  void run() {
    for (const StreamPeer& peer : peers_) {
      if (peer.rank < settings_.rank) add_caller(peer, settings_.deadline);
    }
    while (!callers_.empty() || !awaited_.empty()) {
      serve(true);
      if (!awaited_.empty() && system_.now() >= settings_.deadline) {
        give_up_awaited();
        break;
      }
    }
  }

  // What poll must watch, and until when.
  Deadline watch(std::vector<pollfd>& polled) {
    Deadline wake = acceptor_.watch(polled, settings_.deadline);
    first_caller_ = polled.size();
    for (const Call& call : callers_) {
      wake = std::min(wake, call.until);
      polled.push_back(call.caller.watch(wake));
    }
    for (const UnacknowledgedPeer& peer : unacknowledged_)
      polled.push_back({.fd = peer.stream.fd(), .events = POLLIN, .revents = 0});
    return wake;
  }

  // One poll and everything that it found. Throws Error where this process cannot go on.
  void serve(bool waits) {
    polled_.clear();
    const Deadline wake = watch(polled_);
    const int ready =
        waits ? base::poll_in_start(system_, polled_, wake, settings_.check)
              : system_.call("poll", [&] { return ::poll(polled_.data(), polled_.size(), 0); });
    if (ready < 0 && errno != EINTR) fail_linking("poll", errno, any_peer());

    const std::span<const pollfd> entries{polled_};
    std::size_t entry = first_caller_;
    std::erase_if(callers_, [&](Call& each) { return step(each, entries[entry++].revents != 0); });
    std::erase_if(unacknowledged_, [&](UnacknowledgedPeer& each) {
      return entries[entry++].revents != 0 && hear(each);
    });
    for (AuthenticatedPeer& each : acceptor_.serve(entries.first(first_caller_)))
      judge(std::move(each));
    if (acceptor_.is_starved()) fail_linking("accept", EMFILE, any_peer());
  }

 private:
  // Of whom something is still expected.
  int any_peer() const {
    if (!callers_.empty()) return callers_.front().caller.peer();
    return awaited_.empty() ? no_peer : awaited_.front();
  }

  // Of one of the peers.
  const StreamPeer& about(int peer) const {
    return *std::ranges::find(peers_, peer, &StreamPeer::rank);
  }
  bool is_local(int peer) const { return about(peer).kind == StreamKind::local; }
  bool any_is(StreamKind kind) const {
    return std::ranges::find(peers_, kind, &StreamPeer::kind) != peers_.end();
  }
  static std::string name(int rank, pid_t pid, std::string_view host) {
    return fmt::format("rank {} (pid {} on host {})", rank, pid, host);
  }
  std::string name(int peer) const { return name(peer, about(peer).pid, about(peer).host); }
  std::string own_name() const { return name(settings_.rank, settings_.pid, settings_.host); }
  std::vector<pid_t> local_callers() const {
    std::vector<pid_t> processes;
    for (const StreamPeer& peer : peers_) {
      if (peer.rank > settings_.rank && peer.kind == StreamKind::local)
        processes.push_back(peer.pid);
    }
    return processes;
  }
  // What goes with our words to a rank of this place.
  static std::span<const int> offered_to(const StreamPeer& peer) {
    const bool local = peer.kind == StreamKind::local;
    return local ? std::span<const int>{peer.descriptors} : std::span<const int>{};
  }

  // ---- failures ----

  void fail_unreachable(const Caller& caller, ErrorCode code) {
    const int peer = caller.peer();
    const bool local = is_local(peer);
    fail_(peer,
          init_error(local && code == ErrorCode::link_failed ? ErrorCode::peer_dead : code, peer,
                     fmt::format("{} cannot reach {}; tried {}", own_name(), name(peer),
                                 caller.problems()),
                     local ? "has that rank ended, or is it stopped? otherwise raise "
                             "QPMESH_INIT_TIMEOUT_MS"
                           : "every rank must reach every rank of another host by TCP: is there a "
                             "firewall, is an address of a network that the hosts do not share, or "
                             "was this rank too late?",
                     caller.last_error()),
          local);
  }
  void give_up_awaited() {
    const int peer = awaited_.front();
    if (acceptor_.accept_error() != 0) fail_linking("accept", acceptor_.accept_error(), peer);
    fail_(peer,
          init_error(ErrorCode::timeout, peer,
                     fmt::format("{} did not call {} at {} in time", name(peer), own_name(),
                                 acceptor_.where()),
                     is_local(peer)
                         ? "is that process stopped? otherwise raise QPMESH_INIT_TIMEOUT_MS"
                         : "is that process stopped, or is there a firewall between the hosts?"),
          true);
  }

  // ---- lower ranks, which we call ----

  void add_caller(const StreamPeer& peer, Deadline until) {
    Resolved resolved;
    if (peer.kind != StreamKind::tcp && !peer.listener.empty())
      resolved.addresses.push_back(unix_address(peer.listener));
    for (const HostPort& each : peer.addresses) {
      if (const auto there = numeric(each)) resolved.addresses.push_back(*there);
    }
    if (resolved.addresses.empty()) {
      return fail_(peer.rank,
                   init_error(ErrorCode::link_failed, peer.rank,
                              fmt::format("{} told no address at which {} could reach it",
                                          name(peer.rank), own_name())),
                   false);
    }
    // Of this meeting, as the key says: job and ordinal have nothing to add.
    callers_.push_back(
        {.caller = Caller{{.peer = peer.rank,
                           .hello = make_hello(system_, settings_.rank, settings_.size, 0, {}),
                           .key = settings_.key(peer.rank),
                           .handshake_timeout_ms = settings_.handshake_timeout_ms,
                           .any_user = peer.kind == StreamKind::either,
                           .resolve = [resolved](bool) { return resolved; },
                           .source = settings_.source},
                          system_,
                          log_},
         .until = until});
  }

  // True when there is no more to do for this one.
  bool step(Call& call, bool ready) {
    Caller& caller = call.caller;
    if (caller.step(ready)) {
      if (const auto refusal = caller.refusal())
        caller.try_next_address(refusal->cause, refusal->system_error);
      else if (acknowledge(caller)) return true;
    }
    const bool refused = caller.refused_rounds() >= refused_rounds_max;
    if (!refused && system_.now() < call.until) return false;
    fail_unreachable(caller, refused ? ErrorCode::link_failed : ErrorCode::timeout);
    return true;
  }

  // True when there is no more to do.
  bool acknowledge(Caller& caller) {
    const StreamPeer& peer = about(caller.peer());
    FrameStream& stream = caller.stream();
    stream.read(system_);  // its end, where the listener has given us up meanwhile
    stream.queue(FrameKind::acknowledgement, {});
    stream.flush(system_, offered_to(peer));
    const int error = stream.error() != 0 ? stream.error() : stream.send_error();
    if (stream.unsent() || error != 0) {
      caller.try_next_address("could not acknowledge the welcome", error);
      return false;
    }
    take(peer, stream, caller.descriptors());
    return true;
  }

  // ---- higher ranks, which call us ----

  void judge(AuthenticatedPeer caller) {
    const Hello& hello = caller.hello;
    const bool known = hello.rank > settings_.rank &&
                       std::ranges::find(peers_, hello.rank, &StreamPeer::rank) != peers_.end();
    const bool by_unix = local_address(caller.stream.fd()).family() == AF_UNIX;
    const bool expected = known && hello.size == settings_.size &&
                          hello.pid == about(hello.rank).pid &&
                          about(hello.rank).kind != (by_unix ? StreamKind::tcp : StreamKind::local);
    if (!expected) {
      const std::string cause =
          fmt::format("rank {} (pid {}) of {} does not call rank {} of {} in this meeting",
                      hello.rank, hello.pid, hello.size, settings_.rank, settings_.size);
      return acceptor_.refuse(std::move(caller), cause, "");
    }
    const Proof proof = acceptor_.welcome(caller);
    UnacknowledgedPeer& peer =
        unacknowledged_.emplace_back(UnacknowledgedPeer{hello.rank, std::move(caller.stream)});
    peer.stream.limit(0);
    peer.stream.queue(FrameKind::welcome, proof);
    peer.stream.flush(system_, offered_to(about(peer.rank)));  // a new socket takes 40 bytes
  }

  // True when there is no more to do: one that breaks off has not heard the welcome, and calls
  // again.
  bool hear(UnacknowledgedPeer& peer) {
    FrameStream& stream = peer.stream;
    const auto frame = stream.read(system_, peer.descriptors);
    const bool acknowledged = frame && frame->kind == FrameKind::acknowledgement;
    const bool failed_here = stream.error() != 0 && !connection_broke(stream.error());
    if ((acknowledged || failed_here) && std::erase(awaited_, peer.rank) != 0) {
      if (acknowledged) {
        take(about(peer.rank), stream, peer.descriptors);
      } else {
        attempt(peer.rank, [&] { fail_linking("recvmsg", stream.error(), peer.rank); });
      }
    }
    return frame || stream.ended() || stream.oversize();
  }

  void take(const StreamPeer& peer, FrameStream& stream, Descriptors& descriptors) {
    attempt(peer.rank, [&] { take_(peer, stream, descriptors); });
  }

  void attempt(int peer, const std::function<void()>& step) {
    Report own;
    own.attempt(settings_.rank, step);
    if (own.failure) fail_(peer, std::move(own.failure->detail), own.failure->consequence);
  }

  const StreamSettings& settings_;
  const std::span<const StreamPeer> peers_;
  const TakeStream& take_;
  const FailLinking fail_;
  const base::System& system_;
  const base::Log& log_;
  Acceptor acceptor_;
  std::list<Call> callers_;   // of lower ranks without a stream yet
  std::vector<int> awaited_;  // higher ranks without a stream yet
  std::list<UnacknowledgedPeer> unacknowledged_;
  std::vector<pollfd> polled_;  // acceptor, callers, unacknowledged peers: rebuilt each turn
  std::size_t first_caller_ = 0;
};

}  // namespace

void connect_streams(const StreamSettings& settings, std::vector<base::UniqueFd> listeners,
                     std::span<const StreamPeer> peers, const TakeStream& take, Report& report,
                     const base::System& system, const base::Log& log) {
  const auto fail = [&report](int, ErrorDetail detail, bool consequence) {
    report.fail(std::move(detail), consequence);
  };
  Linker{settings, std::move(listeners), peers, take, fail, system, log}.run();
}

struct StreamsOnDemand::Parts {
  Parts(StreamSettings its_settings, std::vector<base::UniqueFd> listeners,
        std::vector<StreamPeer> its_peers, TakeStream its_take, FailStream its_fail,
        const base::System& its_system, const base::Log& log)
      : settings{std::move(its_settings)},
        peers{std::move(its_peers)},
        take{std::move(its_take)},
        fail{std::move(its_fail)},
        system{its_system},
        linker{settings,
               std::move(listeners),
               peers,
               take,
               [this](int peer, ErrorDetail detail, bool) { fail(peer, std::move(detail)); },
               system,
               log},
        epoll{system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); })} {
    if (!epoll) fail_linking("epoll_create1", errno, no_peer);
  }

  StreamSettings settings;
  std::vector<StreamPeer> peers;
  TakeStream take;
  FailStream fail;
  const base::System& system;
  Linker linker;
  base::UniqueFd epoll;
  std::vector<pollfd> armed;  // what epoll watches; some may be closed by now
  std::vector<int> called;
};

StreamsOnDemand::StreamsOnDemand(StreamSettings settings, std::vector<base::UniqueFd> listeners,
                                 std::vector<StreamPeer> peers, TakeStream take, FailStream fail,
                                 const base::System& system, const base::Log& log) {
  settings.deadline = no_deadline;
  settings.check = {};
  parts_ = std::make_unique<Parts>(std::move(settings), std::move(listeners), std::move(peers),
                                   std::move(take), std::move(fail), system, log);
}

StreamsOnDemand::~StreamsOnDemand() = default;

void StreamsOnDemand::call(int peer, Deadline until) {
  if (std::ranges::find(parts_->peers, peer, &StreamPeer::rank) == parts_->peers.end()) return;
  if (std::ranges::find(parts_->called, peer) != parts_->called.end()) return;
  parts_->called.push_back(peer);
  parts_->linker.call(peer, until);
}

bool StreamsOnDemand::serve() {
  parts_->linker.serve(false);
  return parts_->linker.is_under_way();
}

int StreamsOnDemand::wake_descriptor() const noexcept { return parts_->epoll.get(); }

Deadline StreamsOnDemand::arm() {
  // A descriptor that was closed is watched no more; its number may be another one's.
  for (const pollfd& each : parts_->armed)
    ::epoll_ctl(parts_->epoll.get(), EPOLL_CTL_DEL, each.fd, nullptr);
  parts_->armed.clear();
  const Deadline wake = parts_->linker.watch(parts_->armed);
  for (const pollfd& each : parts_->armed) {
    if (each.fd < 0) continue;
    static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT);
    epoll_event event{.events = static_cast<std::uint32_t>(each.events), .data = {.fd = each.fd}};
    if (::epoll_ctl(parts_->epoll.get(), EPOLL_CTL_ADD, each.fd, &event) != 0)
      fail_linking("epoll_ctl", errno, no_peer);
  }
  return wake;
}

void fail_linking(const char* call, int error, int peer) {
  fail_init(ErrorCode::no_resource, no_peer,
            fmt::format("{} failed while linking with rank {}", call, peer),
            error == EPERM ? "does a seccomp filter of a container refuse this call? allow it"
                           : base::hint_for_descriptors(error),
            error);
}

}  // namespace qpmesh::bootstrap

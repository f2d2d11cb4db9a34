#include "bootstrap/remote_links.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>

#include "bootstrap/client_handshake.hpp"
#include "bootstrap/limits.hpp"
#include "bootstrap/local_links.hpp"
#include "bootstrap/stream_socket.hpp"

namespace qpmesh::bootstrap {
namespace {

// Rounds over all addresses of a peer in which every one of them said no. A round in which one kept
// silent does not count: its host may be slow.
constexpr int refused_rounds_max = 5;
constexpr std::int64_t first_pause_ms = 20;  // between two rounds; doubles
constexpr std::int64_t pause_ms_max = 500;
constexpr std::size_t verdict_bytes_max = 8192;  // of what an acceptor answers

// A lower rank on its way to become a link.
struct Call {
  int peer = no_peer;
  std::vector<HostPort> addresses;
  std::vector<std::string> problems;  // by address, the last one
  std::size_t next = 0;               // address
  int refused_rounds = 0;
  bool silence_in_round = false;
  std::int64_t pause_ms = first_pause_ms;
  int last_error = 0;

  // One attempt: waiting until begin, or connecting, or shaking hands.
  Deadline begin{};
  Deadline until = no_deadline;
  base::UniqueFd connecting;
  std::optional<ClientHandshake> handshake;

  const HostPort& address() const { return addresses[next]; }
  bool waits() const { return !connecting && !handshake; }
};

// A higher rank that has called and proven itself, and must still show that it heard the welcome.
struct UnacknowledgedPeer {
  int peer = no_peer;
  FrameStream stream;
  std::string address;
  Deadline until;
  bool over = false;
};

// Whether an errno speaks of the connection, not of this process.
bool broke(int error) {
  return error == ECONNRESET || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

class RemoteLinker {
 public:
  RemoteLinker(const base::System& system, const base::Log& log, Listener& listener,
               std::span<const Introduction> everybody, std::span<const Outcome> outcomes, int rank,
               std::int64_t handshake_timeout_ms, std::vector<RemoteLink>& links, Outcome& outcome)
      : system_{system},
        log_{log},
        listener_{listener},
        everybody_{everybody},
        outcomes_{outcomes},
        rank_{rank},
        handshake_timeout_ms_{handshake_timeout_ms},
        links_{links},
        outcome_{outcome} {
    for (int peer = 0; peer < static_cast<int>(everybody.size()); ++peer) {
      if (same_place(about(peer), about(rank))) continue;
      if (peer > rank) awaited_.push_back(peer);
      if (peer < rank) add_call(peer);
    }
  }

  void run(Deadline deadline) {
    while (!outcome_.failure && !(calls_.empty() && awaited_.empty())) {
      for (Call& call : calls_) begin_attempt(call);
      if (outcome_.failure) return;
      if (system_.now() >= deadline) return give_up();
      serve(deadline);
      unacknowledged_.remove_if([](const UnacknowledgedPeer& caller) { return caller.over; });
      calls_.remove_if([](const Call& call) { return call.peer == no_peer; });
    }
  }

 private:
  const Introduction& about(int peer) const { return everybody_[static_cast<std::size_t>(peer)]; }
  std::string name(int peer) const {
    return fmt::format("rank {} (pid {} on host {})", peer, about(peer).pid, about(peer).host);
  }

  void add_call(int peer) {
    Call call;
    call.peer = peer;
    for (const HostPort& address : outcomes_[static_cast<std::size_t>(peer)].listens_at) {
      // Loopback leads to them only where it is the same one.
      const auto there = tcp::numeric(address);
      if (!there || (tcp::is_loopback(*there) && !same_network(about(peer), about(rank_))))
        continue;
      call.addresses.push_back(address);
    }
    call.problems.resize(call.addresses.size());
    if (call.addresses.empty()) {
      return outcome_.fail(
          peer, ErrorCode::link_failed,
          fmt::format("{} told no address at which {} could reach it", name(peer), name(rank_)));
    }
    calls_.push_back(std::move(call));
  }

  void fail_here(const char* what, int error) {
    outcome_.fail(rank_, ErrorCode::no_resource,
                  fmt::format("{} failed while linking with ranks of other hosts", what), error,
                  hint_for_descriptors(error));
  }
  void fail_unreachable(const Call& call, ErrorCode code) {
    std::string tried;
    for (std::size_t i = 0; i < call.addresses.size(); ++i) {
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", to_string(call.addresses[i]),
                           call.problems[i].empty() ? "not yet" : call.problems[i]);
    }
    outcome_.fail(call.peer, code,
                  fmt::format("{} cannot reach {}; tried {}", name(rank_), name(call.peer), tried),
                  call.last_error,
                  "every rank must reach every rank of another host by TCP: is there a firewall, "
                  "is an address of a "
                  "network that the hosts do not share, or was this rank too late?");
  }
  void give_up() {
    for (const Call& call : calls_) return fail_unreachable(call, ErrorCode::timeout);
    if (const int error = listener_.accept_error(); error != 0) return fail_here("accept", error);
    std::string addresses;
    for (const HostPort& address : listener_.addresses())
      addresses += (addresses.empty() ? "" : ", ") + to_string(address);
    const int peer = awaited_.front();
    outcome_.fail(
        peer, ErrorCode::timeout,
        fmt::format("{} did not call {} at {} in time", name(peer), name(rank_), addresses), 0,
        "is that process stopped, or is there a firewall between the hosts?", true);
  }

  // ---- calls ----

  void begin_attempt(Call& call) {
    if (!call.waits() || system_.now() < call.begin) return;
    call.until = base::after_ms(system_, handshake_timeout_ms_);
    tcp::Connecting connecting = tcp::connect_to(system_, *tcp::numeric(call.address()));
    call.connecting = std::move(connecting.socket);
    if (connecting.error == EMFILE || connecting.error == ENFILE)
      return fail_here("socket", connecting.error);
    if (connecting.error != 0)
      no_luck(call, base::describe_errno(connecting.error), connecting.error);
  }

  // The next address, or the next round.
  void no_luck(Call& call, std::string problem, int error, bool silence = false) {
    log_.debug("rank {} at {}: {}", call.peer, to_string(call.address()), problem);
    call.connecting.reset();
    call.handshake.reset();
    call.problems[call.next] = std::move(problem);
    call.last_error = error;
    call.silence_in_round |= silence;
    call.begin = {};
    call.until = no_deadline;
    if (++call.next < call.addresses.size()) return;
    call.next = 0;
    if (!call.silence_in_round && ++call.refused_rounds == refused_rounds_max)
      return fail_unreachable(call, ErrorCode::link_failed);
    call.silence_in_round = false;
    call.begin = base::after_ms(system_, call.pause_ms);
    call.pause_ms = std::min(2 * call.pause_ms, pause_ms_max);
  }

  void step(Call& call, bool ready) {
    if (ready && call.connecting) {
      int error = tcp::finish_connecting(system_, call.connecting.get());
      if (error == 0) error = tcp::set_up(system_, call.connecting.get());
      if (error != 0) return no_luck(call, base::describe_errno(error), error);
      // Of this meeting, as the key says: job and ordinal have nothing to add.
      call.handshake.emplace(std::move(call.connecting),
                             make_hello(system_, rank_, static_cast<int>(everybody_.size()), 0, {}),
                             Callee{.rank = call.peer,
                                    .endpoint = to_string(call.address()),
                                    .key = key_of_listener(everybody_, call.peer)},
                             verdict_bytes_max);
      call.until = base::after_ms(system_, handshake_timeout_ms_);
    }
    if (ready && call.handshake) {
      if (auto end = call.handshake->step(system_)) return finish(call, std::move(*end));
    }
    if (call.waits() || system_.now() < call.until) return;
    no_luck(call,
            call.handshake ? call.handshake->silence()
                           : fmt::format("no answer in {} ms", handshake_timeout_ms_),
            ETIMEDOUT, true);
  }

  void finish(Call& call, HandshakeEnd end) {
    if (end.kind != HandshakeEnd::Kind::welcome)
      return no_luck(call, std::move(end.detail.cause), end.detail.system_error);
    FrameStream stream = call.handshake->take();
    if (stream.unread()) return no_luck(call, "more than a welcome came", 0);
    const FrameHeader acknowledgement{.kind = FrameKind::acknowledgement, .payload_bytes = 0};
    const auto sent =
        stream::send(system_, stream.fd(), std::as_bytes(std::span{&acknowledgement, 1}));
    if (sent.count != sizeof acknowledgement)
      return no_luck(call, "could not acknowledge the welcome", sent.error);
    links_.push_back(
        {.rank = call.peer, .socket = stream.release(), .address = to_string(call.address())});
    call.handshake.reset();
    call.peer = no_peer;
  }

  // ---- callers ----

  void judge(AuthenticatedPeer caller) {
    const Hello hello = caller.hello;
    const bool expected = hello.rank > rank_ && hello.rank < static_cast<int>(everybody_.size()) &&
                          hello.size == static_cast<int>(everybody_.size()) &&
                          hello.pid == about(hello.rank).pid &&
                          !same_place(about(hello.rank), about(rank_));
    if (!expected) {
      return listener_.refuse(
          std::move(caller),
          fmt::format("rank {} (pid {}) of {} does not call rank {} of {} in this meeting",
                      hello.rank, hello.pid, hello.size, rank_, everybody_.size()));
    }
    std::string address = to_string(tcp::host_port(tcp::remote_address(caller.fd.get())));
    FrameStream stream{std::move(caller.fd), 0};
    stream.queue(FrameKind::welcome, prove(listener_.key(), Role::root, caller.challenge, hello));
    stream.flush(system_);  // a new socket takes 40 bytes
    unacknowledged_.push_back({.peer = hello.rank,
                               .stream = std::move(stream),
                               .address = std::move(address),
                               .until = base::after_ms(system_, handshake_timeout_ms_)});
  }

  // One that breaks off or keeps silent has not heard the welcome: it calls again.
  void hear(UnacknowledgedPeer& caller, bool ready) {
    FrameStream& stream = caller.stream;
    if (ready) stream.fill(system_);
    const auto frame = stream.take();
    caller.over = frame || stream.ended() || stream.oversize() || system_.now() >= caller.until;
    if (stream.error() != 0 && !broke(stream.error())) return fail_here("recv", stream.error());
    if (!frame || frame->kind != FrameKind::acknowledgement || stream.unread()) return;
    if (std::erase(awaited_, caller.peer) == 0) return;  // a second call of one rank
    links_.push_back({.rank = caller.peer, .socket = stream.release(), .address = caller.address});
  }

  // ---- waiting ----

  // One poll and everything that it found.
  void serve(Deadline deadline) {
    polled_.clear();
    Deadline wake = listener_.watch(polled_, deadline);
    const std::size_t first_call = polled_.size();
    for (const Call& call : calls_) {
      wake = std::min(wake, call.waits() ? call.begin : call.until);
      const int fd = call.handshake ? call.handshake->fd() : call.connecting.get();
      const short events = call.handshake ? POLLIN : POLLOUT;
      polled_.push_back({.fd = fd, .events = events, .revents = 0});
    }
    for (const UnacknowledgedPeer& caller : unacknowledged_) {
      wake = std::min(wake, caller.until);
      polled_.push_back({.fd = caller.stream.fd(), .events = POLLIN, .revents = 0});
    }
    const int ready = system_.call("poll", [&] {
      return ::poll(polled_.data(), polled_.size(), base::remaining_ms(system_, wake));
    });
    if (ready < 0 && errno != EINTR) return fail_here("poll", errno);

    const std::span<const pollfd> entries{polled_};
    std::size_t entry = first_call;
    for (Call& call : calls_) step(call, entries[entry++].revents != 0);
    for (UnacknowledgedPeer& caller : unacknowledged_) hear(caller, entries[entry++].revents != 0);
    for (AuthenticatedPeer& caller : listener_.serve(entries.first(first_call)))
      judge(std::move(caller));
  }

  const base::System& system_;
  const base::Log& log_;
  Listener& listener_;
  const std::span<const Introduction> everybody_;
  const std::span<const Outcome> outcomes_;
  const int rank_;
  const std::int64_t handshake_timeout_ms_;
  std::vector<RemoteLink>& links_;
  Outcome& outcome_;

  std::list<Call> calls_;     // peer is no_peer once it is a link
  std::vector<int> awaited_;  // higher ranks that must still become links
  std::list<UnacknowledgedPeer> unacknowledged_;
  std::vector<pollfd> polled_;  // acceptors, calls, unacknowledged peers: rebuilt each turn
};

}  // namespace

bool scattered(std::span<const Introduction> everybody) {
  const auto prepared = [](const Introduction& each) { return !each.listener.empty(); };
  const auto elsewhere = [&](const Introduction& each) {
    return !same_place(each, everybody.front());
  };
  return std::all_of(everybody.begin(), everybody.end(), prepared) &&
         std::any_of(everybody.begin(), everybody.end(), elsewhere);
}

void link_remote_peers(const base::System& system, const base::Log& log, Listener& listener,
                       std::span<const Introduction> everybody, std::span<const Outcome> outcomes,
                       int rank, std::int64_t handshake_timeout_ms, Deadline deadline,
                       std::vector<RemoteLink>& links, Outcome& outcome) {
  RemoteLinker{system, log,    listener, everybody, outcomes, rank, handshake_timeout_ms,
               links,  outcome}
      .run(deadline);
  if (outcome.failure) links.clear();
  std::sort(links.begin(), links.end(),
            [](const RemoteLink& a, const RemoteLink& b) { return a.rank < b.rank; });
}

}  // namespace qpmesh::bootstrap

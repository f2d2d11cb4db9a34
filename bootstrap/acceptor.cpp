#include "bootstrap/acceptor.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bootstrap/frame_stream.hpp"

namespace qpmesh::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr int accepts_per_turn_max = 64;
constexpr milliseconds accept_pause{50};  // after running out of descriptors
constexpr milliseconds line_pause{1000};

}  // namespace

Acceptor::Acceptor(const AcceptorSettings& settings, Endpoint& endpoint, const base::System& system,
                   const base::Log& log)
    : settings_{settings},
      endpoint_{endpoint},
      system_{system},
      log_{log},
      listener_{endpoint.listen()} {
  unauthenticated_.reserve(settings.unauthenticated_peers_max);
}

Deadline Acceptor::watch(std::vector<pollfd>& polled, Deadline wake) {
  std::erase_if(unauthenticated_, [](const UnauthenticatedPeer& peer) { return peer.done; });
  const bool listening = system_.now() >= accept_after_;
  polled.push_back({.fd = listening ? listener_.get() : -1, .events = POLLIN, .revents = 0});
  for (const UnauthenticatedPeer& peer : unauthenticated_) {
    polled.push_back({.fd = peer.fd.get(), .events = POLLIN, .revents = 0});
  }
  if (!listening) wake = std::min(wake, accept_after_);
  return unauthenticated_.empty() ? wake : std::min(wake, unauthenticated_.front().deadline);
}

std::vector<AuthenticatedPeer> Acceptor::serve(std::span<const pollfd> entries) {
  std::vector<AuthenticatedPeer> callers;
  const Deadline now = system_.now();
  for (std::size_t i = 0; i < unauthenticated_.size(); ++i) {
    UnauthenticatedPeer& peer = unauthenticated_[i];
    if (entries[1 + i].revents != 0 && hello_here(peer)) judge(peer, callers);
    if (!peer.done && now >= peer.deadline) drop(peer, "said no hello in time");
  }
  if (entries[0].revents != 0) accept_peers();
  return callers;
}

void Acceptor::accept_peers() {
  for (int i = 0; i < accepts_per_turn_max; ++i) {
    base::UniqueFd fd{system_.call("accept4", [&] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    })};
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        accept_error_ = errno;
        starved_ = errno == EMFILE && unauthenticated_.empty();
        if (!unauthenticated_.empty()) drop(unauthenticated_.front(), "no descriptor was left");
        accept_after_ = system_.now() + accept_pause;
        last_refusal_ = fmt::format(
            "rank {} could not accept a connection: {}; raise the limit on open files (ulimit -n)",
            settings_.rank, base::describe_errno(accept_error_));
        log_.debug("accept failed: {}", base::describe_errno(accept_error_));
      }
      return;  // everything else is the caller's trouble, or nobody is left
    }
    if (const auto reason = endpoint_.reject_reason(fd.get())) {
      report(*reason);
      continue;
    }
    if (const int error = endpoint_.prepare(fd.get()); error != 0) {
      log_.debug("a connection to {} broke at once: {}", endpoint_.describe(),
                 base::describe_errno(error));
      continue;
    }
    if (unauthenticated_.size() >= settings_.unauthenticated_peers_max) {
      if (!unauthenticated_.front().done)
        drop(unauthenticated_.front(), "too many connections that had said no hello");
      unauthenticated_.erase(unauthenticated_.begin());
    }
    UnauthenticatedPeer& peer =
        unauthenticated_.emplace_back(UnauthenticatedPeer{.fd = std::move(fd)});
    peer.deadline = system_.now() + milliseconds{settings_.handshake_timeout_ms};
    system_.random(peer.challenge.nonce);
    const auto bytes = std::as_bytes(std::span{&peer.challenge, 1});
    const auto sent = system_.call("send", [&] {
      return ::send(peer.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    if (sent == static_cast<ssize_t>(bytes.size())) continue;
    // A port scan: nothing to tell people about.
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      log_.debug("a connection to {} closed at once", endpoint_.describe());
      leave(peer);
    } else {
      drop(peer, "took no challenge");
    }
  }
}

// Reads on. True once the hello is whole.
bool Acceptor::hello_here(UnauthenticatedPeer& peer) {
  while (peer.input_bytes < peer.input.size()) {
    const auto got = system_.call("recv", [&] {
      return ::recv(peer.fd.get(), peer.input.data() + peer.input_bytes,
                    peer.input.size() - peer.input_bytes, MSG_DONTWAIT);
    });
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      log_.debug("a connection to {} closed after {} bytes", endpoint_.describe(),
                 peer.input_bytes);
      leave(peer);
      return false;
    }
    peer.input_bytes += static_cast<std::size_t>(got);
  }
  // The magic is looked at as soon as it is here: garbage need not be as long as a hello.
  if (peer.input_bytes >= sizeof star_magic &&
      std::memcmp(peer.input.data(), &star_magic, sizeof star_magic) != 0) {
    drop(peer, "does not speak qpmesh");
    return false;
  }
  return peer.input_bytes == peer.input.size();
}

void Acceptor::judge(UnauthenticatedPeer& peer, std::vector<AuthenticatedPeer>& callers) {
  AuthenticatedPeer caller{.fd = std::move(peer.fd), .challenge = peer.challenge};
  std::memcpy(&caller.hello, peer.input.data(), sizeof caller.hello);
  peer.done = true;
  if (caller.hello.version != star_version) {
    const std::string cause =
        fmt::format("rank {} speaks bootstrap version {}, rank {} speaks version {}",
                    caller.hello.rank, caller.hello.version, settings_.rank, star_version);
    refuse(std::move(caller), ErrorCode::mismatch, cause, same_library_hint);
  } else if (!proves(caller.hello.proof, endpoint_.key(), Role::rank, caller.challenge,
                     caller.hello)) {
    const std::string cause = fmt::format("rank {} at {} did not accept the secret", settings_.rank,
                                          endpoint_.describe());
    answer(
        std::move(caller.fd), FrameKind::refused,
        encode_error({.code = ErrorCode::authentication, .peer = settings_.rank, .cause = cause}));
    constexpr std::string_view why = "did not prove that it knows the secret of this job";
    // Anybody can get here: a rank that did prove who it is has more to say.
    if (last_refusal_.empty()) last_refusal_ = fmt::format("a connection was refused: it {}", why);
    report(why);
  } else {
    callers.push_back(std::move(caller));
  }
}

void Acceptor::refuse(AuthenticatedPeer caller, ErrorCode code, const std::string& cause,
                      std::string hint) {
  answer(std::move(caller.fd), FrameKind::refused,
         encode_error(
             {.code = code, .peer = settings_.rank, .cause = cause, .hint = std::move(hint)}));
  last_refusal_ = fmt::format("{} was refused: {}", sender_of(caller.hello), cause);
  report(last_refusal_);
}

void Acceptor::send_away(AuthenticatedPeer caller) const {
  answer(std::move(caller.fd), FrameKind::later, {});
}

void Acceptor::close() noexcept {
  unauthenticated_.clear();
  listener_.reset();
}

void Acceptor::leave(UnauthenticatedPeer& peer) noexcept {
  peer.done = true;
  peer.fd.reset();
}

void Acceptor::drop(UnauthenticatedPeer& peer, std::string_view why) {
  leave(peer);
  report(why);
}

void Acceptor::report(std::string_view why) {
  ++unreported_;
  if (system_.now() < line_due_) return;
  line_due_ = system_.now() + line_pause;
  const auto count = std::exchange(unreported_, 0);
  log_.warning("dropped {} connection{} to {}, the last: {}", count, count == 1 ? "" : "s",
               endpoint_.describe(), why);
}

// One small frame to someone who is not a member: it fits the new socket, or is lost with it.
void Acceptor::answer(base::UniqueFd fd, FrameKind kind, BlobView payload) const {
  FrameStream stream{std::move(fd), 0};
  stream.queue(kind, payload);
  stream.farewell(system_);
}

}  // namespace qpmesh::bootstrap

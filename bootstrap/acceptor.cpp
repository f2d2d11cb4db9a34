// SPDX-License-Identifier: MIT
#include "bootstrap/acceptor.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr int accepts_per_turn_max = 64;
constexpr milliseconds accept_pause{50};  // after running out of descriptors
constexpr milliseconds line_pause{1000};

}  // namespace

Acceptor::Acceptor(AcceptorSettings settings, const base::System& system, const base::Log& log)
    : settings_{std::move(settings)}, system_{system}, log_{log} {
  unauthenticated_.reserve(settings_.unauthenticated_peers_max);
}

void Acceptor::listen(base::UniqueFd listener) {
  where_ += (where_.empty() ? "" : ", ") + to_string(local_address(listener.get()));
  listeners_.push_back(std::move(listener));
}

Deadline Acceptor::watch(std::vector<pollfd>& polled, Deadline wake) {
  std::erase_if(unauthenticated_, [](const UnauthenticatedPeer& peer) { return peer.done; });
  const bool listening = system_.now() >= accept_after_;
  for (const base::UniqueFd& listener : listeners_)
    polled.push_back({.fd = listening ? listener.get() : -1, .events = POLLIN, .revents = 0});
  for (const UnauthenticatedPeer& peer : unauthenticated_)
    polled.push_back({.fd = peer.stream.fd(), .events = POLLIN, .revents = 0});
  if (!listening) wake = std::min(wake, accept_after_);
  return unauthenticated_.empty() ? wake : std::min(wake, unauthenticated_.front().deadline);
}

std::vector<AuthenticatedPeer> Acceptor::serve(std::span<const pollfd> entries) {
  std::vector<AuthenticatedPeer> callers;
  starved_ = false;  // descriptors may have come free
  const Deadline now = system_.now();
  for (std::size_t i = 0; i < unauthenticated_.size(); ++i) {
    UnauthenticatedPeer& peer = unauthenticated_[i];
    if (entries[listeners_.size() + i].revents != 0) hear(peer, callers);
    if (!peer.done && now >= peer.deadline) drop(peer, "said no hello in time");
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (entries[i].revents != 0) accept_peers(listeners_[i].get());
  }
  return callers;
}

void Acceptor::accept_peers(int listener) {
  for (int i = 0; i < accepts_per_turn_max; ++i) {
    base::UniqueFd fd{system_.call("accept4", [&] {
      return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    })};
    if (fd) {
      accept_error_ = 0;
      greet(std::move(fd));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      accept_error_ = errno;
      starved_ = errno == EMFILE && unauthenticated_.empty();
      make_room();
      accept_after_ = system_.now() + accept_pause;
      last_refusal_ = fmt::format(
          "rank {} could not accept a connection: {}; raise the limit on open files (ulimit -n)",
          settings_.rank, base::describe_errno(accept_error_));
      log_.debug("accept failed: {}", base::describe_errno(accept_error_));
    }
    return;  // everything else is the caller's trouble, or nobody is left
  }
}

// A rank says hello at once: the oldest is none where it has been silent for a pause. Those that
// came later may be ranks, and leave no descriptor free when they have proven it.
void Acceptor::make_room() {
  if (unauthenticated_.empty()) return;
  UnauthenticatedPeer& oldest = unauthenticated_.front();
  const Deadline came = oldest.deadline - milliseconds{settings_.handshake_timeout_ms};
  if (system_.now() >= came + accept_pause) drop(oldest, "no descriptor was left");
}

void Acceptor::greet(base::UniqueFd fd) {
  if (const std::string reason = reject_reason(fd.get()); !reason.empty()) return report(reason);
  if (const int error = set_up(system_, fd.get()); error != 0) {
    return report(fmt::format("broke at once: {}", base::describe_errno(error)));
  }
  if (unauthenticated_.size() >= settings_.unauthenticated_peers_max) {
    if (!unauthenticated_.front().done)
      drop(unauthenticated_.front(), "too many connections that had said no hello");
    unauthenticated_.erase(unauthenticated_.begin());
  }
  UnauthenticatedPeer& peer =
      unauthenticated_.emplace_back(UnauthenticatedPeer{{std::move(fd), sizeof(Hello)}});
  peer.deadline = base::after_ms(system_, settings_.handshake_timeout_ms);
  system_.random(peer.challenge.nonce);
  peer.stream.queue(FrameKind::challenge, std::as_bytes(std::span{&peer.challenge, 1}));
  peer.stream.flush(system_);
  if (peer.stream.unsent() || peer.stream.ended()) drop(peer, "took no challenge");
}

std::string Acceptor::reject_reason(int fd) const {
  Credentials there;
  const auto& expected = settings_.processes;
  if (!expected.empty() && local_address(fd).family() == AF_UNIX &&
      read_credentials(system_, fd, there) == 0 &&
      std::ranges::find(expected, there.pid) == expected.end())
    return fmt::format("pid {} of uid {} is none of the processes that may call", there.pid,
                       there.uid);
  return settings_.any_user ? std::string{} : bootstrap::reject_reason(system_, fd);
}

void Acceptor::hear(UnauthenticatedPeer& peer, std::vector<AuthenticatedPeer>& callers) {
  const auto frame = peer.stream.read(system_);
  // Looked at as soon as its length is here: garbage need not be as long as a hello.
  const auto header = peer.stream.begun();
  if (frame && frame->kind == FrameKind::calls_again && frame->payload.empty()) {
    log_.debug("a rank that called {} waited too long, and calls again", where_);
    peer.done = true;
    peer.stream.release();
    return;
  }
  const bool garbage =
      frame ? frame->kind != FrameKind::hello || frame->payload.size() != sizeof(Hello)
            : header && (header->kind != FrameKind::hello || peer.stream.oversize());
  if (garbage) return drop(peer, "does not speak qpmesh");
  if (frame) {
    AuthenticatedPeer caller{.stream = std::move(peer.stream), .challenge = peer.challenge};
    std::memcpy(&caller.hello, frame->payload.data(), sizeof caller.hello);
    peer.done = true;
    judge(std::move(caller), callers);
  } else if (peer.stream.ended()) {  // a port scan, or a rank that died
    drop(peer, "closed before it said hello");
  }
}

void Acceptor::judge(AuthenticatedPeer caller, std::vector<AuthenticatedPeer>& callers) {
  const Hello& hello = caller.hello;
  if (hello.version != handshake_version) {
    const std::string cause =
        fmt::format("rank {} speaks bootstrap version {}, rank {} speaks version {}", hello.rank,
                    hello.version, settings_.rank, handshake_version);
    refuse(std::move(caller), cause, same_library_hint);
  } else if (!proves(hello.proof, settings_.key, Role::caller, caller.challenge, hello)) {
    const std::string cause =
        fmt::format("rank {} at {} did not accept the secret", settings_.rank, where_);
    answer(std::move(caller.stream), FrameKind::refused,
           encode_error(init_error(ErrorCode::authentication, settings_.rank, cause)));
    constexpr std::string_view why = "did not prove that it knows the secret of this job";
    // Anybody can get here: a rank that did prove who it is has more to say.
    if (last_refusal_.empty()) last_refusal_ = fmt::format("a connection was refused: it {}", why);
    report(why);
  } else {
    callers.push_back(std::move(caller));
  }
}

void Acceptor::refuse(AuthenticatedPeer caller, const std::string& cause, std::string hint) {
  answer(std::move(caller.stream), FrameKind::refused,
         encode_error(init_error(ErrorCode::mismatch, settings_.rank, cause, std::move(hint))));
  last_refusal_ = fmt::format("{} was refused: {}", sender_of(caller.hello), cause);
  report(last_refusal_);
}

void Acceptor::send_away(AuthenticatedPeer caller) const {
  answer(std::move(caller.stream), FrameKind::later, {});
}

void Acceptor::close() noexcept {
  const auto left = std::ranges::count(unauthenticated_, false, &UnauthenticatedPeer::done);
  untold_ += static_cast<std::uint64_t>(left);
  unauthenticated_.clear();
  listeners_.clear();
  tell_count(left > 0 ? "was still there at the end, without a hello"
                      : std::string_view{last_why_});
}

void Acceptor::drop(UnauthenticatedPeer& peer, std::string_view why) {
  peer.done = true;
  peer.stream.release();
  report(why);
}

void Acceptor::report(std::string_view why) {
  ++untold_;
  last_why_ = why;
  if (system_.now() < line_due_) return;
  line_due_ = system_.now() + line_pause;
  tell_count(why);
}

void Acceptor::tell_count(std::string_view why) noexcept {
  const auto count = std::exchange(untold_, 0);
  if (count == 0) return;
  log_.warning("dropped {} connection{} to {}, the last: {}", count, count == 1 ? "" : "s", where_,
               why);
}

// One small frame to someone who is not a member: it fits the new socket, or is lost with it.
void Acceptor::answer(FrameStream stream, FrameKind kind, BlobView payload) const {
  stream.queue(kind, payload);
  stream.farewell(system_);
}

}  // namespace qpmesh::bootstrap

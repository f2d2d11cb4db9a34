#include "bootstrap/gate.hpp"

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

Gate::Gate(const GateSettings& settings, Doorway& doorway, const base::System& system, const base::Log& log)
    : settings_{settings}, doorway_{doorway}, system_{system}, log_{log}, listener_{doorway.listen()} {
  candidates_.reserve(settings.candidates_max);
}

Deadline Gate::watch(std::vector<pollfd>& polled, Deadline wake) {
  std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.done; });
  const bool listening = system_.now() >= accept_after_;
  polled.push_back({.fd = listening ? listener_.get() : -1, .events = POLLIN, .revents = 0});
  for (const Candidate& candidate : candidates_) {
    polled.push_back({.fd = candidate.fd.get(), .events = POLLIN, .revents = 0});
  }
  if (!listening) wake = std::min(wake, accept_after_);
  return candidates_.empty() ? wake : std::min(wake, candidates_.front().deadline);
}

std::vector<Gate::Guest> Gate::serve(std::span<const pollfd> entries) {
  std::vector<Guest> guests;
  const Deadline now = system_.now();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    if (entries[1 + i].revents != 0 && hello_here(candidate)) judge(candidate, guests);
    if (!candidate.done && now >= candidate.deadline) drop(candidate, "said no hello in time");
  }
  if (entries[0].revents != 0) accept_candidates();
  return guests;
}

void Gate::accept_candidates() {
  for (int i = 0; i < accepts_per_turn_max; ++i) {
    base::UniqueFd fd{system_.call("accept4", [&] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    })};
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        accept_error_ = errno;
        if (!candidates_.empty()) drop(candidates_.front(), "no descriptor was left");
        accept_after_ = system_.now() + accept_pause;
        last_refusal_ = fmt::format(
            "rank {} could not accept a connection: {}; raise the limit on open files (ulimit -n)",
            settings_.rank, base::describe_errno(accept_error_));
        log_.debug("accept failed: {}", base::describe_errno(accept_error_));
      }
      return;  // everything else is the newcomer's trouble, or nobody is left
    }
    if (const auto reason = doorway_.stranger(fd.get())) {
      report(*reason);
      continue;
    }
    if (const int error = doorway_.prepare(fd.get()); error != 0) {
      log_.debug("a connection to {} broke at once: {}", doorway_.place(), base::describe_errno(error));
      continue;
    }
    if (candidates_.size() >= settings_.candidates_max) {
      if (!candidates_.front().done) drop(candidates_.front(), "too many connections that had said no hello");
      candidates_.erase(candidates_.begin());
    }
    Candidate& candidate = candidates_.emplace_back(Candidate{.fd = std::move(fd)});
    candidate.deadline = system_.now() + milliseconds{settings_.handshake_timeout_ms};
    system_.random(candidate.challenge.nonce);
    const auto bytes = std::as_bytes(std::span{&candidate.challenge, 1});
    const auto sent = system_.call("send", [&] {
      return ::send(candidate.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    if (sent == static_cast<ssize_t>(bytes.size())) continue;
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {  // a port scan: nothing to tell people about
      log_.debug("a connection to {} closed at once", doorway_.place());
      leave(candidate);
    } else {
      drop(candidate, "took no challenge");
    }
  }
}

// Reads on. True once the hello is whole.
bool Gate::hello_here(Candidate& candidate) {
  while (candidate.input_bytes < candidate.input.size()) {
    const auto got = system_.call("recv", [&] {
      return ::recv(candidate.fd.get(), candidate.input.data() + candidate.input_bytes,
                    candidate.input.size() - candidate.input_bytes, MSG_DONTWAIT);
    });
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      log_.debug("a connection to {} closed after {} bytes", doorway_.place(), candidate.input_bytes);
      leave(candidate);
      return false;
    }
    candidate.input_bytes += static_cast<std::size_t>(got);
  }
  // The magic is looked at as soon as it is here: garbage need not be as long as a hello.
  if (candidate.input_bytes >= sizeof star_magic &&
      std::memcmp(candidate.input.data(), &star_magic, sizeof star_magic) != 0) {
    drop(candidate, "does not speak qpmesh");
    return false;
  }
  return candidate.input_bytes == candidate.input.size();
}

void Gate::judge(Candidate& candidate, std::vector<Guest>& guests) {
  Guest guest{.fd = std::move(candidate.fd), .challenge = candidate.challenge};
  std::memcpy(&guest.hello, candidate.input.data(), sizeof guest.hello);
  candidate.done = true;
  if (guest.hello.version != star_version) {
    const std::string cause =
        fmt::format("rank {} speaks bootstrap version {}, rank {} speaks version {}", guest.hello.rank,
                    guest.hello.version, settings_.rank, star_version);
    refuse(std::move(guest), ErrorCode::mismatch, cause, same_library_hint);
  } else if (!proves(guest.hello.proof, doorway_.key(), Role::rank, guest.challenge, guest.hello)) {
    const std::string cause =
        fmt::format("rank {} at {} did not accept the secret", settings_.rank, doorway_.place());
    answer(std::move(guest.fd), FrameKind::refused,
           encode_error({.code = ErrorCode::authentication, .peer = settings_.rank, .cause = cause}));
    constexpr std::string_view why = "did not prove that it knows the secret of this job";
    // Anybody can get here: a rank that did prove who it is has more to say.
    if (last_refusal_.empty()) last_refusal_ = fmt::format("a connection was refused: it {}", why);
    report(why);
  } else {
    guests.push_back(std::move(guest));
  }
}

void Gate::refuse(Guest guest, ErrorCode code, const std::string& cause, std::string hint) {
  answer(std::move(guest.fd), FrameKind::refused,
         encode_error({.code = code, .peer = settings_.rank, .cause = cause, .hint = std::move(hint)}));
  last_refusal_ = fmt::format("{} was refused: {}", sender_of(guest.hello), cause);
  report(last_refusal_);
}

void Gate::send_away(Guest guest) const { answer(std::move(guest.fd), FrameKind::later, {}); }

void Gate::close() noexcept {
  candidates_.clear();
  listener_.reset();
}

void Gate::leave(Candidate& candidate) noexcept {
  candidate.done = true;
  candidate.fd.reset();
}

void Gate::drop(Candidate& candidate, std::string_view why) {
  leave(candidate);
  report(why);
}

void Gate::report(std::string_view why) {
  ++unreported_;
  if (system_.now() < line_due_) return;
  line_due_ = system_.now() + line_pause;
  const auto count = std::exchange(unreported_, 0);
  log_.warning("dropped {} connection{} to {}, the last: {}", count, count == 1 ? "" : "s", doorway_.place(),
               why);
}

// One small frame to someone who is not a member: it fits the new socket, or is lost with it.
void Gate::answer(base::UniqueFd fd, FrameKind kind, BlobView payload) const {
  FrameStream stream{std::move(fd), 0};
  stream.queue(kind, payload);
  stream.farewell(system_);
}

}  // namespace qpmesh::bootstrap

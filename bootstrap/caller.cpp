// SPDX-License-Identifier: MIT
#include "bootstrap/caller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errors.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {
namespace {

// Between two rounds over all addresses; doubles.
constexpr std::int64_t first_pause_ms = 1;
constexpr std::int64_t pause_ms_max = 50;

// For one address of several to answer in the first round; then it is left, and tried again in the
// next one. As long as RFC 8305, section 5, waits until it tries another one, too. Doubles with
// each round, up to the handshake's time: a distant host and a lost packet have theirs.
constexpr std::int64_t first_connecting_ms = 250;

}  // namespace

Caller::Caller(CallerSettings settings, const base::System& system, const base::Log& log)
    : settings_{std::move(settings)},
      system_{system},
      log_{log},
      connecting_ms_{std::min(first_connecting_ms, settings_.handshake_timeout_ms)} {}

pollfd Caller::watch(Deadline& wake) const {
  wake = std::min(wake, state_ == State::waiting ? begin_ : until_);
  const short events = state_ == State::connecting ? POLLOUT : POLLIN;
  return {.fd = stream_ ? stream_->fd() : -1, .events = events, .revents = 0};
}

bool Caller::step(bool ready) {
  const Deadline now = system_.now();
  if (state_ == State::waiting) {
    if (now >= begin_) begin_attempt();
    return false;
  }
  if (ready) state_ == State::connecting ? finish_connecting() : shake_hands();
  const bool goes_on = state_ != State::waiting && state_ != State::ended;
  if (goes_on && now >= until_) {
    if (state_ == State::connected) say_that_we_call_again();
    try_next_address(silence(), state_ == State::connecting ? ETIMEDOUT : 0, true);
  }
  return state_ == State::ended;
}

void Caller::try_next_address(std::string problem, int error, bool silence) {
  log_.debug("calling rank {}: {}", settings_.peer, problem);
  problems_[next_] = std::move(problem);
  last_error_ = error;
  silence_in_round_ |= silence;
  stream_.reset();
  descriptors_ = {};
  refusal_.reset();
  state_ = State::waiting;
  begin_ = {};
  if (++next_ < addresses_.size()) return;
  next_ = 0;
  if (!silence_in_round_) ++refused_rounds_;
  silence_in_round_ = false;
  pause_ms_ = std::clamp(2 * pause_ms_, first_pause_ms, pause_ms_max);
  connecting_ms_ = std::min(2 * connecting_ms_, settings_.handshake_timeout_ms);
  begin_ = base::after_ms(system_, pause_ms_);
}

void Caller::begin_attempt() {
  ++attempts_;
  if (next_ == 0) {
    Resolved found = settings_.resolve(taken_);
    addresses_ = std::move(found.addresses);
    problems_.resize(std::max<std::size_t>(1, addresses_.size()));
    if (addresses_.empty()) return try_next_address(std::move(found.problem), found.error);
  }
  const auto source = source_for(addresses_[next_]);
  if (!source) return try_next_address("no address of its kind to call from", EADDRNOTAVAIL);
  Opened opened = connect_to(system_, addresses_[next_], *source);
  if (opened.error == EMFILE || opened.error == ENFILE) {
    fail_init(ErrorCode::no_resource, settings_.hello.rank,
              fmt::format("rank {} has no descriptor left: connect to {}", settings_.hello.rank,
                          address()),
              base::hint_for_descriptors(opened.error), opened.error);
  }
  if (opened.error != 0) {
    const bool full_queue = opened.error == EAGAIN;
    return try_next_address(base::describe_errno(opened.error), opened.error, full_queue);
  }
  stream_.emplace(std::move(opened.socket), sizeof challenge_);
  state_ = State::connecting;
  until_ = base::after_ms(system_,
                          addresses_.size() > 1 ? connecting_ms_ : settings_.handshake_timeout_ms);
}

void Caller::finish_connecting() {
  if (const int error = bootstrap::finish_connecting(system_, stream_->fd()); error != 0)
    return try_next_address(base::describe_errno(error), error);
  const std::string reason =
      settings_.any_user ? std::string{} : reject_reason(system_, stream_->fd());
  if (!reason.empty()) {
    taken_ = true;
    if (settings_.resolve(taken_).addresses.size() > 1) return try_next_address(reason);
    return refuse(ErrorCode::authentication,
                  fmt::format("what answers at {} is not of this job: {}", address(), reason),
                  "somebody else took the name: give the job a QPMESH_JOB of its own");
  }
  state_ = State::connected;
  until_ = base::after_ms(system_, settings_.handshake_timeout_ms);
}

void Caller::shake_hands() {
  const bool greeted = state_ == State::greeted;
  const auto frame =
      stream_->read(system_, greeted ? std::span{descriptors_} : std::span<base::UniqueFd>{});
  if (frame && greeted) return hear_verdict(*frame);
  const auto header =
      frame ? FrameHeader{frame->kind, static_cast<std::uint32_t>(frame->payload.size())}
            : stream_->begun();
  const bool strange = header && (header->kind != FrameKind::challenge ||
                                  header->payload_bytes != sizeof challenge_);
  // Another service may say less than a challenge has, and then wait for us.
  if (!greeted && strange) {
    std::uint64_t beginning = 0;
    std::memcpy(&beginning, &*header, sizeof beginning);
    return refuse(ErrorCode::authentication,
                  fmt::format("what answers at {} is no rank {} of qpmesh: it began with {:#018x}",
                              address(), settings_.peer, beginning),
                  "another service uses this address; choose another one with QPMESH_ROOT");
  }
  if (frame) {
    std::memcpy(&challenge_, frame->payload.data(), sizeof challenge_);
    return answer();
  }
  if (stream_->oversize()) {
    return refuse(ErrorCode::corrupt,
                  fmt::format("rank {} announced a message of {} bytes", settings_.peer,
                              header->payload_bytes),
                  same_library_hint);
  }
  if (!stream_->ended()) return;
  try_next_address(
      fmt::format("rank {} closed the connection during the handshake", settings_.peer),
      stream_->error());
}

void Caller::answer() {
  Hello& hello = settings_.hello;
  if (challenge_.version != handshake_version) {
    return refuse(ErrorCode::mismatch,
                  fmt::format("rank {} speaks bootstrap version {}, rank {} speaks version {}",
                              hello.rank, handshake_version, settings_.peer, challenge_.version),
                  same_library_hint);
  }
  hello.proof = prove(settings_.key, Role::caller, challenge_, hello);
  stream_->limit(settings_.payload_bytes_max);
  stream_->queue(FrameKind::hello, std::as_bytes(std::span{&hello, 1}));
  stream_->flush(system_);  // a new socket takes a hello at once; one that does not is broken
  if (stream_->unsent() || stream_->ended())
    return try_next_address("could not send the hello", stream_->error());
  state_ = State::greeted;
  until_ = base::after_ms(system_, settings_.handshake_timeout_ms);
}

// A listener that looks too late finds this, and takes us for no stranger.
void Caller::say_that_we_call_again() {
  stream_->queue(FrameKind::calls_again, {});
  stream_->flush(system_);
}

void Caller::hear_verdict(const Frame& frame) {
  if (frame.kind == FrameKind::later)
    return try_next_address(
        fmt::format("rank {} is still busy with an earlier start", settings_.peer));
  if (frame.kind != FrameKind::welcome) return end(decode_error(frame.payload, settings_.peer));
  if (proves(frame.payload, settings_.key, Role::listener, challenge_, settings_.hello))
    return end({});
  refuse(ErrorCode::authentication,
         fmt::format("what answers at {} does not know the secret of this job", address()));
}

void Caller::end(std::optional<ErrorDetail> refusal) {
  refusal_ = std::move(refusal);
  state_ = State::ended;
}

void Caller::refuse(ErrorCode code, std::string cause, std::string hint) {
  end(init_error(code, settings_.peer, std::move(cause), std::move(hint)));
}

// Nothing: there is none to call it from. No address: the system chooses.
std::optional<Address> Caller::source_for(const Address& target) const {
  if (!settings_.source || target.family() == AF_UNIX) return Address{};
  const Address source = settings_.source(target);
  return source.bytes == 0 ? std::nullopt : std::optional{source};
}

std::string Caller::describe(const Address& target) const {
  const Address source = source_for(target).value_or(Address{});
  return source.bytes == 0 ? to_string(target)
                           : fmt::format("{} from {}", to_string(target), host_port(source).host);
}

std::string Caller::silence() const {
  if (state_ == State::waiting) return "not yet";
  if (state_ == State::connecting) return "no answer";
  if (state_ == State::greeted)
    return fmt::format("rank {} did not answer the hello", settings_.peer);
  if (stream_->bytes_here() == 0)
    return fmt::format("connected, but rank {} said nothing", settings_.peer);
  return fmt::format("connected, but rank {} said only {} bytes", settings_.peer,
                     stream_->bytes_here());
}

std::string Caller::problems() const {
  std::string text;
  for (std::size_t i = 0; i < problems_.size(); ++i) {
    // An attempt that has just begun says less than the last one.
    const bool connected = i == next_ && state_ >= State::connected;
    const std::string problem = connected || problems_[i].empty() ? silence() : problems_[i];
    text += text.empty() ? "" : ", ";
    text +=
        i < addresses_.size() ? fmt::format("{} ({})", describe(addresses_[i]), problem) : problem;
  }
  return text.empty() ? "no attempt was made" : text;
}

}  // namespace qpmesh::bootstrap

#include "bootstrap/client_handshake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "bootstrap/stream_socket.hpp"

namespace qpmesh::bootstrap {
namespace {

HandshakeEnd retryable(std::string what, int error = 0) {
  return {.kind = HandshakeEnd::Kind::retryable_error,
          .detail = {.cause = std::move(what), .system_error = error}};
}

}  // namespace

std::string ClientHandshake::silence() const {
  if (challenged()) return fmt::format("rank {} did not answer the hello", callee_.rank);
  if (challenge_bytes_ == 0)
    return fmt::format("connected, but rank {} said nothing", callee_.rank);
  return fmt::format("connected, but rank {} said only {} bytes", callee_.rank, challenge_bytes_);
}

std::optional<HandshakeEnd> ClientHandshake::step(const base::System& system) {
  if (!challenged()) {
    if (auto end = hear_challenge(system)) return end;
    const bool strange =
        challenge_bytes_ >= sizeof challenge_.magic && challenge_.magic != star_magic;
    if (!challenged() && !strange) return std::nullopt;
    if (auto end = answer(system)) return end;
  }
  return hear_verdict(system);
}

std::optional<HandshakeEnd> ClientHandshake::hear_challenge(const base::System& system) {
  const auto bytes = std::as_writable_bytes(std::span{&challenge_, 1});
  while (!challenged()) {
    const auto received = stream::receive(system, fd(), bytes.subspan(challenge_bytes_));
    if (received.error == EAGAIN) return std::nullopt;
    if (received.error != 0) return retryable("connected, but could not read", received.error);
    if (received.ended)
      return retryable(fmt::format("rank {} closed the connection after {} bytes", callee_.rank,
                                   challenge_bytes_));
    challenge_bytes_ += received.count;
    // Another service may say less than a challenge has, and then wait for us.
    if (challenge_bytes_ >= sizeof challenge_.magic && challenge_.magic != star_magic) break;
  }
  return std::nullopt;
}

std::optional<HandshakeEnd> ClientHandshake::answer(const base::System& system) {
  if (challenge_.magic != star_magic) {
    return HandshakeEnd{
        .kind = HandshakeEnd::Kind::other_service,
        .detail = {
            .code = ErrorCode::authentication,
            .peer = callee_.rank,
            .cause = fmt::format("what answers at {} is no rank {} of qpmesh: it began with "
                                 "{:#018x} instead of {:#018x}",
                                 callee_.endpoint, callee_.rank, challenge_.magic, star_magic)}};
  }
  if (challenge_.version != star_version) {
    return HandshakeEnd{
        .kind = HandshakeEnd::Kind::refusal,
        .detail = {
            .code = ErrorCode::mismatch,
            .peer = callee_.rank,
            .cause = fmt::format("rank {} speaks bootstrap version {}, rank {} speaks version {}",
                                 hello_.rank, star_version, callee_.rank, challenge_.version),
            .hint = same_library_hint}};
  }
  hello_.proof = prove(callee_.key, Role::rank, challenge_, hello_);
  // A new socket takes 128 bytes at once; one that does not is broken.
  const auto sent = stream::send(system, fd(), std::as_bytes(std::span{&hello_, 1}));
  if (sent.count != sizeof hello_) return retryable("could not send the hello", sent.error);
  return std::nullopt;
}

std::optional<HandshakeEnd> ClientHandshake::hear_verdict(const base::System& system) {
  stream_.fill(system);
  const auto frame = stream_.take();
  if (!frame && stream_.ended()) {
    return retryable(
        fmt::format("rank {} closed the connection during the handshake", callee_.rank),
        stream_.error());
  }
  if (!frame && stream_.oversize()) {
    return HandshakeEnd{.kind = HandshakeEnd::Kind::refusal,
                        .detail = {.code = ErrorCode::corrupt,
                                   .peer = callee_.rank,
                                   .cause = fmt::format("rank {} announced a message of {} bytes",
                                                        callee_.rank, stream_.claimed_bytes()),
                                   .hint = same_library_hint}};
  }
  if (!frame) return std::nullopt;
  if (frame->kind == FrameKind::later)
    return retryable(fmt::format("rank {} is still busy with an earlier start", callee_.rank));
  if (frame->kind != FrameKind::welcome)
    return HandshakeEnd{.kind = HandshakeEnd::Kind::refusal,
                        .detail = decode_error(frame->payload, callee_.rank)};
  Proof proof{};
  if (frame->payload.size() == proof.size()) std::ranges::copy(frame->payload, proof.begin());
  if (proves(proof, callee_.key, Role::root, challenge_, hello_)) return HandshakeEnd{};
  return HandshakeEnd{
      .kind = HandshakeEnd::Kind::refusal,
      .detail = {.code = ErrorCode::authentication,
                 .peer = callee_.rank,
                 .cause = fmt::format("what answers at {} does not know the secret of this job",
                                      callee_.endpoint)}};
}

}  // namespace qpmesh::bootstrap

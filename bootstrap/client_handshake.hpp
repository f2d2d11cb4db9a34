// A caller's half of the handshake at an acceptor: answer the challenge, be welcomed. Never waits.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/star_wire.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

// Whom we call.
struct Callee {
  int rank = 0;
  std::string endpoint;  // for people: "127.0.0.1:4000"
  Key key{};
};

struct HandshakeEnd {
  enum class Kind : std::uint8_t {
    welcome,          // both sides have proven themselves
    retryable_error,  // worth another attempt: detail has cause and errno
    other_service,    // what answers does not speak as we do
    refusal,          // by them, or of them: another attempt would end alike
  };
  Kind kind = Kind::welcome;
  ErrorDetail detail{};
};

class ClientHandshake {
 public:
  // socket: connected, non-blocking. hello: who calls; its proof is made here. payload_bytes_max:
  // of the frames that may follow the welcome.
  ClientHandshake(base::UniqueFd socket, const Hello& hello, Callee callee,
                  std::size_t payload_bytes_max) noexcept
      : callee_{std::move(callee)}, hello_{hello}, stream_{std::move(socket), payload_bytes_max} {}

  // As far as it gets without waiting; nothing: it goes on when fd() is readable.
  std::optional<HandshakeEnd> step(const base::System& system);
  int fd() const noexcept { return stream_.fd(); }

  // What it waits for, to be said when that took too long.
  std::string silence() const;
  FrameStream take() noexcept { return std::move(stream_); }  // after the welcome

 private:
  bool challenged() const noexcept { return challenge_bytes_ == sizeof challenge_; }
  std::optional<HandshakeEnd> hear_challenge(const base::System& system);
  std::optional<HandshakeEnd> answer(const base::System& system);
  std::optional<HandshakeEnd> hear_verdict(const base::System& system);

  Callee callee_;
  Hello hello_;
  Challenge challenge_{};
  std::size_t challenge_bytes_ = 0;
  FrameStream stream_;
};

}  // namespace qpmesh::bootstrap

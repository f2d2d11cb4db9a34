// A caller's half of the handshake at a gate: answer the challenge, be welcomed. Never waits.
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
struct Visited {
  int rank = 0;
  std::string place;  // for people: "127.0.0.1:4000"
  Key key{};
};

struct VisitEnd {
  enum class Kind : std::uint8_t {
    welcome,        // both sides have proven themselves
    setback,        // worth another attempt: detail has cause and errno
    other_service,  // what answers does not speak as we do
    refusal,        // by them, or of them: another attempt would end alike
  };
  Kind kind = Kind::welcome;
  ErrorDetail detail{};
};

class Visit {
 public:
  // socket: connected, non-blocking. hello: who calls; its proof is made here. payload_bytes_max: of the frames
  // that may follow the welcome.
  Visit(base::UniqueFd socket, const Hello& hello, Visited visited, std::size_t payload_bytes_max) noexcept
      : visited_{std::move(visited)}, hello_{hello}, stream_{std::move(socket), payload_bytes_max} {}

  // As far as it gets without waiting; nothing: it goes on when fd() is readable.
  std::optional<VisitEnd> step(const base::System& system);
  int fd() const noexcept { return stream_.fd(); }

  // What it waits for, to be said when that took too long.
  std::string silence() const;
  FrameStream take() noexcept { return std::move(stream_); }  // after the welcome

 private:
  bool challenged() const noexcept { return challenge_bytes_ == sizeof challenge_; }
  std::optional<VisitEnd> hear_challenge(const base::System& system);
  std::optional<VisitEnd> answer(const base::System& system);
  std::optional<VisitEnd> hear_verdict(const base::System& system);

  Visited visited_;
  Hello hello_;
  Challenge challenge_{};
  std::size_t challenge_bytes_ = 0;
  FrameStream stream_;
};

}  // namespace qpmesh::bootstrap

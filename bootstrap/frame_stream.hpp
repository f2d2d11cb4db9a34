// SPDX-License-Identifier: MIT
// Whole frames over one non-blocking socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/encryption.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"

namespace qpmesh::bootstrap {

enum class FrameKind : std::uint32_t {
  // Of the handshake. The first word is no beginning of another service's.
  challenge = 0x6873656d,  // "mesh"
  hello,
  welcome,
  refused,
  later,  // come again
  acknowledgement,
  calls_again,
  // Of a star.
  blob = 1,
  everyones,
  failed,
  // Of the control channel.
  message,
  goodbye,
  progress,
};

struct FrameHeader {
  FrameKind kind = FrameKind::failed;
  std::uint32_t payload_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 8);

struct Frame {
  FrameKind kind = FrameKind::failed;
  Blob payload;
};

// Sends what the socket takes and keeps the rest; reads one frame at a time, and nothing behind it.
// Never blocks.
class FrameStream {
 public:
  FrameStream(base::UniqueFd fd, std::size_t payload_bytes_max) noexcept
      : fd_{std::move(fd)}, payload_bytes_max_{payload_bytes_max} {}

  int fd() const noexcept { return fd_.get(); }
  void limit(std::size_t payload_bytes_max) noexcept { payload_bytes_max_ = payload_bytes_max; }

  // From now on, both ways: each frame is a packet. What does not decrypt ends the stream with
  // EBADMSG.
  void encrypt(const base::ConnectionKeys& keys) {
    encryptor_.emplace(keys.send);
    decryptor_.emplace(keys.receive);
  }

  void queue(FrameKind kind, BlobView payload);
  bool unsent() const noexcept { return sent_ < output_.size(); }
  // Until the socket says "not now". Descriptors go with the first byte, if any is taken.
  void flush(const base::System& system, std::span<const int> descriptors = {}) noexcept;

  // The next frame, once it is whole. One that is longer than allowed makes oversize() true and is
  // never read. Descriptors that came with it fill places.
  std::optional<Frame> read(const base::System& system, std::span<base::UniqueFd> places = {});
  bool oversize() const noexcept { return begun() && begun()->payload_bytes > payload_bytes_max_; }
  // Of the frame that is not whole yet: its header, unless it is encrypted, and how much of it is
  // here.
  std::optional<FrameHeader> begun() const noexcept;
  std::size_t bytes_here() const noexcept { return input_.size(); }

  // The other side closed, or error() says what broke.
  bool ended() const noexcept { return ended_; }
  int error() const noexcept { return error_; }
  int send_error() const noexcept { return send_error_; }               // the last one
  bool lost_descriptors() const noexcept { return lost_descriptors_; }  // no room for them here

  base::UniqueFd release() noexcept { return std::move(fd_); }

  // Tells the other side that nothing more comes. What it sent is read and dropped: closing a TCP
  // socket over unread bytes would destroy what we sent last.
  void farewell(const base::System& system) noexcept;

 private:
  std::optional<Frame> take_packet();

  base::UniqueFd fd_;
  std::size_t payload_bytes_max_;
  Blob output_;
  std::size_t sent_ = 0;
  Blob input_;  // one frame or packet, or its beginning
  std::optional<base::Encryptor> encryptor_;
  std::optional<base::Decryptor> decryptor_;
  bool ended_ = false;
  bool lost_descriptors_ = false;
  int error_ = 0;
  int send_error_ = 0;
};

}  // namespace qpmesh::bootstrap

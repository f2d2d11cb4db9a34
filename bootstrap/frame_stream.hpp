// Whole frames over one non-blocking socket.
#pragma once

#include <cstddef>
#include <optional>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/star_wire.hpp"

namespace qpmesh::bootstrap {

// Sends what the socket takes and keeps the rest; reads what is there and hands out whole frames.
// Never blocks.
class FrameStream {
 public:
  FrameStream(base::UniqueFd fd, std::size_t payload_bytes_max) noexcept
      : fd_{std::move(fd)}, payload_bytes_max_{payload_bytes_max} {}

  int fd() const noexcept { return fd_.get(); }
  void queue(FrameKind kind, BlobView payload);
  bool unsent() const noexcept { return sent_ < output_.size(); }

  // Sends and reads until the socket says "not now" or a whole frame is here.
  void flush(const base::System& system) noexcept;
  void fill(const base::System& system);

  // The next whole frame. A frame longer than allowed makes oversize() true and is never read.
  std::optional<Frame> take();
  bool oversize() const noexcept {
    return header_seen() && header().payload_bytes > payload_bytes_max_;
  }
  std::uint32_t claimed_bytes() const noexcept {
    return header_seen() ? header().payload_bytes : 0;
  }

  // The other side closed, or error() says what broke.
  bool ended() const noexcept { return ended_; }
  int error() const noexcept { return error_; }

  // The bare socket, to go on without frames. Bytes that came and were not taken are lost: unread()
  // says whether there are any.
  base::UniqueFd release() noexcept { return std::move(fd_); }
  bool unread() const noexcept { return !input_.empty(); }

  // Tells the other side that nothing more comes. What it sent is read and dropped: closing a TCP
  // socket over unread bytes would destroy what we sent last.
  void farewell(const base::System& system) noexcept;

 private:
  bool header_seen() const noexcept { return input_.size() >= sizeof(FrameHeader); }
  FrameHeader header() const noexcept;
  bool frame_here() const noexcept {
    return header_seen() && !oversize() &&
           input_.size() >= sizeof(FrameHeader) + header().payload_bytes;
  }

  base::UniqueFd fd_;
  std::size_t payload_bytes_max_;
  Blob output_;
  std::size_t sent_ = 0;
  Blob input_;
  bool ended_ = false;
  int error_ = 0;
};

}  // namespace qpmesh::bootstrap

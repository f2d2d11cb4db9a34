#include "bootstrap/frame_stream.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace qpmesh::bootstrap {

FrameHeader FrameStream::header() const noexcept {
  FrameHeader header;
  std::memcpy(&header, input_.data(), sizeof header);
  return header;
}

void FrameStream::queue(FrameKind kind, BlobView payload) {
  if (!unsent()) {
    output_.clear();
    sent_ = 0;
  }
  const FrameHeader header{kind, static_cast<std::uint32_t>(payload.size())};
  const auto bytes = std::as_bytes(std::span{&header, 1});
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  output_.insert(output_.end(), payload.begin(), payload.end());
}

void FrameStream::flush(const base::System& system) noexcept {
  while (unsent() && !ended_) {
    const auto sent = system.call("send", [&] {
      return ::send(fd_.get(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    });
    if (sent >= 0) {
      sent_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      // The other side may have said why before it closed: reading, not writing, ends the stream. Only a
      // failure that reading would not show ends it here.
      if (errno == EPIPE || errno == ECONNRESET) {
        sent_ = output_.size();
        return;
      }
      ended_ = true;
      error_ = errno;
    }
  }
}

void FrameStream::fill(const base::System& system) {
  std::array<std::byte, 16 * 1024> chunk;
  while (!ended_ && !frame_here() && !oversize()) {
    const auto got =
        system.call("recv", [&] { return ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT); });
    if (got > 0) {
      input_.insert(input_.end(), chunk.begin(), chunk.begin() + got);
    } else if (got == 0) {
      ended_ = true;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      ended_ = true;
      error_ = errno;
    }
  }
}

std::optional<Frame> FrameStream::take() {
  if (!frame_here()) return std::nullopt;
  const FrameHeader head = header();
  const auto begin = input_.begin() + sizeof(FrameHeader);
  Frame frame{head.kind, Blob(begin, begin + head.payload_bytes)};
  input_.erase(input_.begin(), begin + head.payload_bytes);
  return frame;
}

void FrameStream::farewell(const base::System& system) noexcept {
  flush(system);
  ::shutdown(fd_.get(), SHUT_WR);
  std::array<std::byte, 4096> dropped;
  for (int i = 0; i < 64; ++i) {  // bounded: a peer that never stops sending must not hold us
    if (::recv(fd_.get(), dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0) break;
  }
}

}  // namespace qpmesh::bootstrap

#include "bootstrap/frame_stream.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "bootstrap/stream_socket.hpp"

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
    const auto sent = stream::send(system, fd_.get(), BlobView{output_}.subspan(sent_));
    sent_ += sent.count;
    if (sent.error == EAGAIN) return;
    if (sent.error == EPIPE || sent.error == ECONNRESET) {
      // The other side may have said why before it closed: reading, not writing, ends the stream.
      // Only a failure that reading would not show ends it here.
      sent_ = output_.size();
    } else if (sent.error != 0) {
      ended_ = true;
      error_ = sent.error;
    }
  }
}

void FrameStream::fill(const base::System& system) {
  std::array<std::byte, 16 * 1024> chunk;
  while (!ended_ && !frame_here() && !oversize()) {
    const auto received = stream::receive(system, fd_.get(), chunk);
    if (received.error == EAGAIN) return;
    input_.insert(input_.end(), chunk.begin(),
                  chunk.begin() + static_cast<std::ptrdiff_t>(received.count));
    ended_ = received.ended || received.error != 0;
    error_ = received.error;
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

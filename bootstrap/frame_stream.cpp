// SPDX-License-Identifier: MIT
#include "bootstrap/frame_stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {
namespace {

// A claimed length is believed only as far as bytes have come.
constexpr std::size_t growth_bytes_max = 64 * 1024;
// Of memory for what was sent: a stream of start-up sends little afterwards.
constexpr std::size_t kept_bytes_max = 64 * 1024;

}  // namespace

std::optional<FrameHeader> FrameStream::begun() const noexcept {
  FrameHeader header;
  if (decryptor_ || input_.size() < sizeof header) return std::nullopt;
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
  const std::size_t begin = output_.size();
  const std::size_t around =
      encryptor_ ? base::packet_header_bytes + base::packet_tag_bytes : std::size_t{0};
  output_.reserve(begin + bytes.size() + payload.size() + around);  // the whole frame or nothing
  if (encryptor_) output_.resize(begin + base::packet_header_bytes);
  output_.insert(output_.end(), bytes.begin(), bytes.end());
  output_.insert(output_.end(), payload.begin(), payload.end());
  if (!encryptor_) return;
  output_.resize(output_.size() + base::packet_tag_bytes);
  encryptor_->encrypt(output_.data() + begin, bytes.size() + payload.size());
}

void FrameStream::flush(const base::System& system, std::span<const int> descriptors) noexcept {
  while (unsent() && !ended_) {
    const Sent sent = send(system, fd(), BlobView{output_}.subspan(sent_), descriptors);
    sent_ += sent.count;
    descriptors = {};
    if (sent.error == EAGAIN) return;
    if (sent.error == 0) continue;
    // The other side may have said why before it closed: reading, not writing, ends the stream.
    // Only a failure that reading would not show ends it here. The kernel tells each failure once,
    // to whoever asks first.
    sent_ = output_.size();
    send_error_ = sent.error;
    if (connection_broke(sent.error)) continue;
    ended_ = true;
    error_ = sent.error;
  }
  if (!unsent() && output_.capacity() > kept_bytes_max) {
    output_ = {};
    sent_ = 0;
  }
}

std::optional<Frame> FrameStream::read(const base::System& system,
                                       std::span<base::UniqueFd> places) {
  while (!ended_ && !oversize()) {
    const std::size_t here = input_.size();
    const auto header = begun();
    std::size_t whole = sizeof(FrameHeader) + (header ? header->payload_bytes : 0);
    if (decryptor_) {
      const auto packet_bytes = base::Decryptor::packet_bytes(input_);
      whole = packet_bytes == 0U ? base::packet_header_bytes : packet_bytes.value_or(here);
      if (packet_bytes != 0U && here == whole) return take_packet();
    } else if (header && here == whole) {
      Frame frame{header->kind, Blob(input_.begin() + sizeof(FrameHeader), input_.end())};
      input_.clear();
      return frame;
    }
    input_.resize(std::min(whole, here + growth_bytes_max));
    const Received received = receive(system, fd(), std::span{input_}.subspan(here), places);
    input_.resize(here + received.count);
    if (received.error == EAGAIN) break;
    lost_descriptors_ |= received.truncated;
    ended_ = received.ended || received.error != 0;
    error_ = received.error;
  }
  return std::nullopt;
}

// Of a length that no packet has it is the beginning, which does not decrypt either.
std::optional<Frame> FrameStream::take_packet() {
  std::optional<std::span<std::byte>> frame;
  if (base::Decryptor::packet_bytes(input_) == input_.size()) frame = decryptor_->decrypt(input_);
  FrameHeader header;
  if (frame && frame->size() >= sizeof header) {
    std::memcpy(&header, frame->data(), sizeof header);
    const auto payload = frame->subspan(sizeof header);
    if (payload.size() == header.payload_bytes) {
      Frame whole{header.kind, Blob(payload.begin(), payload.end())};
      input_.clear();
      return whole;
    }
  }
  ended_ = true;
  error_ = EBADMSG;
  return std::nullopt;
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

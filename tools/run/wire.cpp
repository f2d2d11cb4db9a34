// SPDX-License-Identifier: MIT
#include "tools/run/wire.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace qpmesh::run {
namespace {

// Has the version of the protocol; zero bytes are no shell's.
constexpr std::string_view announcement{"\0qpmesh-run 1\n", 14};
constexpr std::size_t stray_bytes_max = std::size_t{64} << 10;
constexpr std::size_t payload_bytes_max = std::size_t{16} << 20;  // a plan has an environment
constexpr std::size_t packet_bytes_max = 4096;
constexpr std::size_t header_bytes = 5;

// Whether it was not for want of room that it did not go.
bool put_packet(int socket, const Message& message, int flags) noexcept {
  base::ByteWriter packet;
  packet.put(message.word);
  Blob bytes = packet.blob();
  bytes.insert(bytes.end(), message.payload.begin(), message.payload.end());
  bytes.resize(std::min(bytes.size(), packet_bytes_max));
  ssize_t sent = 0;
  do {
    sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | flags);
  } while (sent < 0 && errno == EINTR);
  return sent >= 0 || errno != EAGAIN;
}

}  // namespace

Wire::Wire(base::UniqueFd in, base::UniqueFd out) : in_{std::move(in)}, out_{std::move(out)} {
  for (const int fd : {in_.get(), out_.get()})
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void Wire::announce() {
  const auto bytes = std::as_bytes(std::span{announcement});
  output_.insert(output_.end(), bytes.begin(), bytes.end());
}

void Wire::send(Word word, BlobView payload) {
  if (sent_ == output_.size()) {
    output_.clear();
    sent_ = 0;
  }
  base::ByteWriter header;
  header.put(static_cast<std::uint32_t>(payload.size())).put(word);
  output_.insert(output_.end(), header.blob().begin(), header.blob().end());
  output_.insert(output_.end(), payload.begin(), payload.end());
}

void Wire::ask(std::vector<pollfd>& polled, bool reads) const {
  if (ended_) return;
  if (reads) polled.push_back({.fd = in_.get(), .events = POLLIN, .revents = 0});
  if (unsent_bytes() > 0) polled.push_back({.fd = out_.get(), .events = POLLOUT, .revents = 0});
}

void Wire::flush() {
  while (unsent_bytes() > 0 && out_) {
    const ssize_t count = ::write(out_.get(), output_.data() + sent_, unsent_bytes());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    // What the other end said before it went is still to be read: reading ends the wire.
    if (count < 0) sent_ = output_.size();
    else sent_ += static_cast<std::size_t>(count);
  }
}

void Wire::finish() {
  for (flush(); unsent_bytes() > 0; flush()) {
    pollfd polled{.fd = out_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&polled, 1, -1);
  }
}

void Wire::close() {
  in_.reset();
  out_.reset();
  ended_ = true;
}

bool Wire::read_some() {
  std::array<std::byte, 64 * 1024> bytes;
  const ssize_t count = ::read(in_.get(), bytes.data(), bytes.size());
  if (count > 0) {
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(taken_));
    taken_ = 0;
    input_.insert(input_.end(), bytes.begin(), bytes.begin() + count);
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  ended_ = true;
  return false;
}

bool Wire::find_announcement() {
  const std::string_view text{reinterpret_cast<const char*>(input_.data()), input_.size()};
  const auto at = text.find(announcement);
  if (at == text.npos) {
    stray_ = text.substr(0, stray_bytes_max);
    ended_ = ended_ || text.size() > stray_bytes_max;
    return false;
  }
  stray_ = text.substr(0, at);
  taken_ = at + announcement.size();
  return true;
}

std::optional<Message> Wire::receive() {
  do {
    if (!announced_) announced_ = find_announcement();
    if (!announced_) continue;
    base::ByteReader header{BlobView{input_}.subspan(taken_)};
    const auto payload_bytes = header.get<std::uint32_t>();
    const auto word = header.get<Word>();
    if (!header.ok()) continue;
    if (payload_bytes > payload_bytes_max || word > Word::done) {
      ended_ = true;
      return std::nullopt;
    }
    if (input_.size() - taken_ < header_bytes + payload_bytes) continue;
    const auto first = input_.begin() + static_cast<std::ptrdiff_t>(taken_ + header_bytes);
    taken_ += header_bytes + payload_bytes;
    return Message{.word = word, .payload = Blob(first, first + payload_bytes)};
  } while (!ended_ && read_some());
  return std::nullopt;
}

Blob encode(const RankEnd& end) {
  base::ByteWriter writer;
  writer.put_fields(end.rank, end.pid, end.code, end.killed, end.ending);
  return std::move(writer).blob();
}

RankEnd decode_rank_end(BlobView blob) {
  RankEnd end;
  base::ByteReader reader{blob};
  reader.get_fields(end.rank, end.pid, end.code, end.killed, end.ending);
  if (!reader.finished()) end.rank = -1;
  return end;
}

void send_packet(int socket, const Message& message) noexcept { put_packet(socket, message, 0); }

bool send_packet_now(int socket, const Message& message) noexcept {
  return put_packet(socket, message, MSG_DONTWAIT);
}

std::optional<Message> receive_packet(int socket) {
  std::array<std::byte, packet_bytes_max> bytes;
  ssize_t count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  // The other end is gone, and had not read all: told once, before the packets that it has left.
  if (count < 0 && errno == ECONNRESET)
    count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 1) return std::nullopt;
  return Message{.word = static_cast<Word>(bytes.front()),
                 .payload = Blob(bytes.begin() + 1, bytes.begin() + count)};
}

}  // namespace qpmesh::run

// SPDX-License-Identifier: MIT
#include "transport/tcp/connection.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/errors.hpp"
#include "base/system.hpp"

namespace qpmesh::transport::tcp {
namespace {

constexpr std::size_t chain_writes_max = 16;
// A message of 2 KiB with its record: of more, the copy costs what it saves.
constexpr std::size_t gathered_bytes_max = (std::size_t{2} << 10) + 128;
// Then the next connection has its turn.
constexpr int receives_max = 8;

// "Not now", of a call that would otherwise have to wait for memory of the system, too.
bool is_busy(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

iovec part(std::span<const std::byte> bytes) noexcept {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

std::span<const std::byte> bytes_of(const FrameHeader& header) noexcept {
  return std::as_bytes(std::span{&header, 1});
}

// What is left of bytes behind the first ones of a row, of which the row has so many.
std::span<const std::byte> behind(std::span<const std::byte> bytes, std::size_t& row) noexcept {
  const std::size_t skipped = std::min(row, bytes.size());
  row -= skipped;
  return bytes.subspan(skipped);
}

}  // namespace

TcpConnection::TcpConnection(TcpTransport& transport, Joined joined)
    : transport_{transport},
      joined_{std::move(joined)},
      outbox_{2 * transport.settings_.inline_bytes_max + chain_writes_max * sizeof(FrameHeader)} {
  fault_.code = ErrorCode::link_failed;
  fault_.peer = joined_.peer;
  if (joined_.keys) encryption_ = std::make_unique<Encryption>(*joined_.keys);
  (joined_.socket ? transport_.connections_ : transport_.unconnected_).push_back(this);
}

void TcpConnection::open(Joined joined) {
  if (joined.keys) encryption_ = std::make_unique<Encryption>(*joined.keys);
  joined_ = std::move(joined);
  transport_.connections_.push_back(this);  // there is room
}

void TcpConnection::give_up(ErrorDetail why) noexcept {
  if (failed_) return;
  failed_ = true;
  fault_.system_error = why.system_error;
  fault_.cause = std::move(why.cause);
  fault_.hint = std::move(why.hint);
}

Post TcpConnection::ask_for_socket() noexcept {
  if (!std::exchange(asked_for_socket_, true)) transport_.want(*this);
  return failed_ ? Post::failed : Post::busy;
}

TcpConnection::~TcpConnection() {
  // A forked child may hold the socket, too: closing ours would not take it out.
  transport_.watch(*this, 0);
  std::erase(transport_.connections_, this);
  std::erase(transport_.unconnected_, this);
}

// ---- what leaves ----

Post TcpConnection::post(std::span<const Write> chain) noexcept {
  if (failed_) return Post::failed;
  if (!joined_.socket) [[unlikely]]
    return ask_for_socket();
  assert(!chain.empty() && chain.size() <= chain_writes_max);
  transport_.silent_looks_ = 0;  // an answer may come
  std::array<FrameHeader, chain_writes_max> headers;
  std::array<iovec, 3 * chain_writes_max> parts;
  std::size_t used = 0;
  std::size_t frame_bytes = 0;
  std::size_t copied_bytes = 0;
  std::uint64_t tells = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Write& write = chain[i];
    const std::size_t bytes = write.head.size() + write.body.size();
    assert(bytes <= write_bytes_max && !write.immediate);
    assert(write.flag_offset == Write::no_flag || bytes <= whole_bytes_max);
    headers[i] = FrameHeader::of(FrameKind::write, bytes, write.target);
    parts[used++] = part(bytes_of(headers[i]));
    if (!write.head.empty()) parts[used++] = part(write.head);
    if (!write.body.empty()) parts[used++] = part(write.body);
    frame_bytes += sizeof(FrameHeader) + bytes;
    copied_bytes += sizeof(FrameHeader);
    if (bytes <= transport_.settings_.inline_bytes_max) copied_bytes += bytes;
    tells += write.tell ? 1U : 0U;
  }
  const std::size_t pieces = chain.size();
  if (!outbox_.has_room(3 * pieces, copied_bytes, 2 * pieces)) return Post::busy;
  const bool leaves_now = !has_unsent();
  std::size_t sent = 0;
  if (leaves_now && !encryption_) {
    sent = frame_bytes <= gathered_bytes_max ? send_gathered({parts.data(), used})
                                             : send({parts.data(), used});
    if (failed_) return Post::failed;
    if (sent == frame_bytes) {
      tells_posted_ += tells;
      outbox_.has_told(tells_posted_);
      return Post::posted;
    }
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const std::size_t bytes = sizeof(FrameHeader) + headers[i].bytes();
    queue(headers[i], chain[i], std::min(sent, bytes));
    sent -= std::min(sent, bytes);
  }
  if (leaves_now && encryption_) flush_packets();
  return failed_ ? Post::failed : Post::posted;
}

// What the socket did not take of a write.
void TcpConnection::queue(const FrameHeader& header, const Write& write,
                          std::size_t sent) noexcept {
  if (write.tell) ++tells_posted_;
  const bool all_sent = sent == sizeof header + header.bytes();
  if (!all_sent) {
    const bool is_inline = header.bytes() <= transport_.settings_.inline_bytes_max;
    outbox_.copy(behind(bytes_of(header), sent));
    for (const std::span<const std::byte> bytes : {write.head, write.body}) {
      const std::span<const std::byte> left = behind(bytes, sent);
      is_inline ? outbox_.copy(left) : outbox_.refer(left);
    }
  }
  if (!write.tell) return;
  all_sent ? outbox_.has_told(tells_posted_) : outbox_.tell(tells_posted_);
}

// How much the socket took; nothing where it is full.
std::size_t TcpConnection::send(std::span<iovec> parts) noexcept {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return send_by([&] { return ::sendmsg(socket(), &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
}

// The same of a few bytes: the system looks at one place faster than at several.
std::size_t TcpConnection::send_gathered(std::span<const iovec> parts) noexcept {
  std::array<std::byte, gathered_bytes_max> all;
  std::size_t bytes = 0;
  for (const iovec& each : parts) {
    std::memcpy(all.data() + bytes, each.iov_base, each.iov_len);
    bytes += each.iov_len;
  }
  return send_by([&] { return ::send(socket(), all.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL); });
}

template <class Call>
std::size_t TcpConnection::send_by(Call&& call) noexcept {
  for (;;) {
    const ssize_t count = transport_.system_.call("sendmsg", call);
    if (count >= 0) return static_cast<std::size_t>(count);
    const int error = errno;
    if (error == EINTR) continue;
    if (is_busy(error)) return 0;
    // What the peer had sent before it closed is here, and counts.
    while (!failed_ && receive_once()) {}
    fail("broke while it was written to", error);
    return 0;
  }
}

void TcpConnection::flush() noexcept {
  encryption_ ? flush_packets() : flush_frames();
  if (!failed_ && wanted_count_ > 0) answer_reads();
}

void TcpConnection::flush_frames() noexcept {
  std::array<iovec, 64> parts;
  while (!failed_ && !outbox_.empty()) {
    const std::size_t used = outbox_.gather(parts);
    std::size_t bytes = 0;
    for (const iovec& each : std::span{parts}.first(used)) bytes += each.iov_len;
    const std::size_t sent = send({parts.data(), used});
    if (failed_) return;
    outbox_.left(sent);
    if (sent < bytes) return;
  }
}

void TcpConnection::flush_packets() noexcept {
  Encryption& own = *encryption_;
  while (!failed_ && has_unsent()) {
    if (own.unsent() == 0) encrypt_next_packet();
    iovec rest = part(std::span{own.packet}.subspan(own.sent_bytes, own.unsent()));
    const std::size_t sent = send({&rest, 1});
    if (failed_) return;
    own.sent_bytes += sent;
    if (own.unsent() > 0) return;
  }
}

// Sources may be reused from here on.
void TcpConnection::encrypt_next_packet() noexcept {
  Encryption& own = *encryption_;
  std::array<iovec, 64> parts;
  const std::size_t used = outbox_.gather(parts);
  std::byte* const plain = own.packet.data() + base::packet_header_bytes;
  std::size_t bytes = 0;
  for (const iovec& each : std::span{parts}.first(used)) {
    const std::size_t fits = std::min(each.iov_len, base::packet_plain_bytes_max - bytes);
    std::memcpy(plain + bytes, each.iov_base, fits);
    bytes += fits;
  }
  outbox_.left(bytes);
  own.packet_bytes = own.encryptor.encrypt(own.packet.data(), bytes);
  own.sent_bytes = 0;
}

Post TcpConnection::read(std::span<std::byte> target, std::optional<std::uint32_t>,
                         RemoteAddress source) noexcept {
  if (failed_) return Post::failed;
  if (!joined_.socket) [[unlikely]]
    return ask_for_socket();
  if (read_count_ == reads_.size() || !outbox_.has_room(1, sizeof(FrameHeader), 0))
    return Post::busy;
  outbox_.copy(bytes_of(FrameHeader::of(FrameKind::read, target.size(), source)));
  outbox_.tell(++tells_posted_);
  reads_[(first_read_ + read_count_++) % reads_.size()] = {target.data(), target.size(),
                                                           tells_posted_};
  flush();
  return failed_ ? Post::failed : Post::posted;
}

std::uint64_t TcpConnection::completed() const noexcept {
  const std::uint64_t left = outbox_.told();
  return read_count_ == 0 ? left : std::min(left, reads_[first_read_].number - 1);
}

// Acknowledged bytes are the peer's kernel's, and nothing that happens to us takes them back. On
// one host they are there at once.
bool TcpConnection::delivered() noexcept {
  if (failed_) return true;
  if (has_unsent() || wanted_count_ > 0) return false;
  if (joined_.on_host) return true;
  int unacknowledged = 0;
  if (::ioctl(socket(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0) return true;
  transport_.awaits_acknowledgement_ = true;
  return false;
}

// ---- what comes ----

bool TcpConnection::receive() noexcept {
  const std::uint64_t before = received_;
  for (int turn = 0; turn < receives_max && !failed_; ++turn) {
    if (!receive_once()) break;
  }
  return received_ != before;
}

void TcpConnection::receive_all() noexcept {
  if (!joined_.socket) transport_.serve_connector();  // the peer may have it already
  if (!joined_.socket) return;
  while (receive()) {}
}

// False: there is nothing more for now.
bool TcpConnection::receive_once() noexcept {
  return encryption_ ? receive_packets() : receive_frames();
}

// How many bytes came: none now, or never again.
std::size_t TcpConnection::receive(std::span<iovec> parts) noexcept {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  for (;;) {
    const ssize_t result = transport_.system_.call("recvmsg", [&] {
      return parts.size() > 1
                 ? ::recvmsg(socket(), &message, MSG_DONTWAIT)
                 : ::recv(socket(), parts.front().iov_base, parts.front().iov_len, MSG_DONTWAIT);
    });
    if (result > 0) {
      received_ += static_cast<std::size_t>(result);
      return static_cast<std::size_t>(result);
    }
    const int error = errno;
    if (result < 0 && error == EINTR) continue;
    if (result == 0) fail("was closed by the peer");
    else if (!is_busy(error)) fail("broke", error);
    return 0;
  }
}

bool TcpConnection::receive_frames() noexcept {
  std::array<iovec, 2> parts;
  std::size_t used = 0;
  const Target target = incoming_.left > 0 ? target_of(incoming_.header) : Target{};
  if (target.at != nullptr) {
    const std::size_t here = incoming_.header.bytes() - incoming_.left;
    parts[used++] = {.iov_base = target.at + here, .iov_len = incoming_.left};
  }
  // What is dropped passes through the buffer, which is empty while a long frame comes. Behind that
  // one little more is taken: what the buffer gets of the next long one is copied twice.
  std::size_t room = (fits_input_ ? input_.size() : input_bytes_of_long) - input_held_;
  if (target.at != nullptr && !fits_input_) room = whole_bytes_max;
  else if (target.dropped) room = std::min(room, incoming_.left);
  parts[used++] = {.iov_base = input_.data() + input_held_, .iov_len = room};
  const std::size_t count = receive({parts.data(), used});
  if (count == 0) return false;
  const std::size_t of_frame = std::min(count, incoming_.left);
  if (of_frame > 0) {
    incoming_.left -= of_frame;
    if (incoming_.left == 0) end_frame(incoming_.header);
  }
  input_held_ += count - of_frame;
  std::size_t wanted = 0;
  for (const iovec& each : std::span{parts}.first(used)) wanted += each.iov_len;
  return take_frames() && count == wanted;
}

bool TcpConnection::receive_packets() noexcept {
  Encryption& own = *encryption_;
  iovec room{.iov_base = own.input.data() + own.input_held,
             .iov_len = own.input.size() - own.input_held};
  const std::size_t count = receive({&room, 1});
  if (count == 0) return false;
  std::span<std::byte> here = std::span{own.input}.first(own.input_held + count);
  for (;;) {
    const std::optional<std::size_t> bytes = base::Decryptor::packet_bytes(here);
    if (bytes && (*bytes == 0 || *bytes > here.size())) break;
    std::optional<std::span<std::byte>> frames;
    if (bytes) frames = own.decryptor.decrypt(here.first(*bytes));
    if (!frames) fail("carried bytes that were changed on their way: they do not decrypt");
    else take(*frames);
    if (failed_) return false;
    here = here.subspan(*bytes);
  }
  std::memmove(own.input.data(), here.data(), here.size());
  own.input_held = here.size();
  return count == room.iov_len;
}

// The next bytes of the stream of frames, which may begin and end anywhere.
void TcpConnection::take(std::span<const std::byte> frames) noexcept {
  while (!frames.empty() && !failed_) {
    std::size_t taken = 0;
    if (incoming_.left > 0) {
      taken = std::min(incoming_.left, frames.size());
      const Target target = target_of(incoming_.header);
      const std::size_t here = incoming_.header.bytes() - incoming_.left;
      if (target.at != nullptr) std::memcpy(target.at + here, frames.data(), taken);
      incoming_.left -= taken;
      if (incoming_.left == 0) end_frame(incoming_.header);
    } else {
      taken = std::min(input_.size() - input_held_, frames.size());
      std::memcpy(input_.data() + input_held_, frames.data(), taken);
      input_held_ += taken;
      take_frames();
    }
    frames = frames.subspan(taken);
  }
}

// Places what is in the buffer, but for the beginning of a short frame. False: it has failed.
bool TcpConnection::take_frames() noexcept {
  std::size_t at = 0;
  while (incoming_.left == 0 && input_held_ - at >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, input_.data() + at, sizeof header);
    const std::size_t bytes = header.is_followed_by_bytes() ? header.bytes() : 0;
    if (header.bytes() > write_bytes_max) {
      fail("carried a frame that is longer than any rank sends");
      return false;
    }
    const std::size_t here = std::min(bytes, input_held_ - at - sizeof header);
    if (here < bytes && bytes <= whole_bytes_max) break;
    if (bytes > whole_bytes_max) fits_input_ = bytes + whole_bytes_max <= input_.size();
    if (bytes > 0) {
      const Target target = target_of(header);
      if (target.at == nullptr && !target.dropped) {
        fail_about(header);
        return false;
      }
      if (target.at != nullptr) std::memcpy(target.at, input_.data() + at + sizeof header, here);
      if (here < bytes) incoming_ = {.header = header, .left = bytes - here};
    }
    at += sizeof header + here;
    if (here == bytes) end_frame(header);
    if (failed_) return false;
  }
  input_held_ -= at;
  if (at > 0 && input_held_ > 0) std::memmove(input_.data(), input_.data() + at, input_held_);
  return true;
}

// Of the whole frame.
TcpConnection::Target TcpConnection::target_of(const FrameHeader& header) noexcept {
  if (header.kind() == FrameKind::answer) {
    const bool expected = read_count_ > 0 && reads_[first_read_].bytes == header.bytes();
    return {.at = expected ? reads_[first_read_].target : nullptr};
  }
  if (header.region == Regions::window)
    return {.at = part_of(joined_.window, header.offset, header.bytes())};
  const Regions& regions = transport_.regions_;
  return {.at = regions.writable(header.address(), header.bytes()),
          .dropped = regions.is_closed(header.region)};
}

void TcpConnection::end_frame(const FrameHeader& header) noexcept {
  switch (header.kind()) {
    case FrameKind::write: return;
    case FrameKind::read: return take_read(header);
    case FrameKind::answer:
      if (read_count_ == 0 || reads_[first_read_].bytes != header.bytes())
        return fail("carried an answer that nobody waits for");
      first_read_ = (first_read_ + 1) % reads_.size();
      --read_count_;
      return;
    case FrameKind::refusal:
      return end_with([&] {
        return fmt::format("a read of {} bytes was refused: {} has not opened them", header.bytes(),
                           joined_.peer_name);
      });
  }
  fail("carried bytes that no rank of this version sends");
}

void TcpConnection::take_read(const FrameHeader& header) noexcept {
  if (wanted_count_ == wanted_.size()) return fail("carried more reads than a rank may post");
  wanted_[(first_wanted_ + wanted_count_++) % wanted_.size()] = {
      transport_.regions_.readable(header.address(), header.bytes()), header.bytes()};
  answer_reads();
}

void TcpConnection::answer_reads() noexcept {
  while (wanted_count_ > 0 && outbox_.has_room(1, sizeof(FrameHeader), 1)) {
    const Wanted& wanted = wanted_[first_wanted_];
    const bool open = wanted.source != nullptr;
    outbox_.copy(
        bytes_of(FrameHeader::of(open ? FrameKind::answer : FrameKind::refusal, wanted.bytes)));
    if (open) outbox_.refer({wanted.source, wanted.bytes});
    first_wanted_ = (first_wanted_ + 1) % wanted_.size();
    --wanted_count_;
  }
}

// ---- how it ends ----

// The peer's kernel answers for a process that is stopped, too: only a host or a network that is
// gone keeps silent. A closed window is answered, and no silence.
void TcpConnection::look_for_silence(Deadline now, std::int64_t silence_ms_max) noexcept {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (failed_ || joined_.on_host ||
      ::getsockopt(socket(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
    return;
  const bool owes = info.tcpi_retransmits > 1 || info.tcpi_probes > 1;
  const auto silent = silence_.lasts(now, owes, std::chrono::milliseconds{info.tcpi_last_ack_recv});
  if (silent.count() <= silence_ms_max) return;
  end_with([&] {
    return fmt::format("nothing came from {} for {} ms, and {} packets were repeated",
                       joined_.peer_name, silent.count(), info.tcpi_retransmits + info.tcpi_probes);
  });
}

void TcpConnection::fail_about(const FrameHeader& header) noexcept {
  end_with([&] {
    return fmt::format("{} wrote {} bytes to {} of region {}, which was never open to it",
                       joined_.peer_name, header.bytes(), header.offset, header.region);
  });
}

void TcpConnection::fail(std::string_view what, int system_error) noexcept {
  end_with([&] { return fmt::format("the connection to {} {}", joined_.peer_name, what); },
           system_error);
}

// Nothing is placed or sent any more, and the peer is told by the end of the stream.
template <class Explain>
void TcpConnection::end_with(Explain&& explain, int system_error) noexcept {
  if (failed_) return;
  failed_ = true;
  fault_.system_error = system_error;
  try {
    fault_.cause = explain();
  } catch (const std::bad_alloc&) {
    fault_.cause = base::no_memory;
  }
  incoming_ = {};
  outbox_.clear();
  if (encryption_) encryption_->packet_bytes = encryption_->sent_bytes = 0;
  wanted_count_ = 0;
  transport_.watch(*this, 0);
  ::shutdown(socket(), SHUT_RDWR);
}

}  // namespace qpmesh::transport::tcp

// SPDX-License-Identifier: MIT
#include "bootstrap/control_channel.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

namespace {

constexpr std::size_t frame_bytes_on_wire_max =
    sizeof(FrameHeader) + base::ControlChannel::frame_bytes_max;
static_assert(frame_bytes_on_wire_max <= base::packet_plain_bytes_max);

// What a peer may have unread, over TCP. A kernel of default settings has room for more (measured:
// 100 KiB, in frames of 20 bytes too).
constexpr std::size_t unread_bytes_max = 64 * 1024;
constexpr std::size_t progress_bytes = 16 * 1024;  // read before the peer is told
static_assert(progress_bytes + frame_bytes_on_wire_max <= unread_bytes_max,
              "a peer that has read everything always has room for the next frame");

// A peer that sends faster than we read must not keep poll from the others.
constexpr std::size_t read_bytes_max = std::size_t{1} << 20;

constexpr int acknowledgement_poll_ms = 1;  // nothing tells when the other kernel has everything

// What epoll hands back: which peer, and which of its two descriptors.
constexpr std::uint64_t tag(std::size_t index, bool pidfd) {
  return std::uint64_t{index} << 1 | (pidfd ? 1U : 0U);
}

[[noreturn]] void fail(const char* what, int error) {
  fail_init(ErrorCode::no_resource, no_peer, fmt::format("{} for the control channel failed", what),
            base::hint_for_descriptors(error), error);
}

std::string process_of(const ControlLink& link) {
  return fmt::format("process {} on host {}", link.pid, link.host);
}

// What the system says when an acknowledgement did not come in time.
bool is_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

// What the end of a stream says; error is 0 for a plain end.
std::string ending(const ControlLink& link, int error) {
  const bool local = link.address.empty();
  if (error == 0 || (local && (error == ECONNRESET || error == EPIPE)))
    return fmt::format("{} hung up without a goodbye", process_of(link));
  if (error == ECONNRESET || error == EPIPE)
    return fmt::format("the connection to {} ({}) was reset", process_of(link), link.address);
  if (is_silence(error)) {
    return fmt::format("nothing came from host {} ({}) for too long, and process {} ran there: {}",
                       link.host, link.address, link.pid, base::describe_errno(error));
  }
  if (error == EBADMSG) {
    return fmt::format("what came from {} ({}) was changed on its way: it does not decrypt",
                       process_of(link), link.address);
  }
  return fmt::format("reading from {} failed: {}", process_of(link), base::describe_errno(error));
}

// progress, over TCP only: how many bytes of frames the sender has read since it last said so.
bool is_sound(const FrameHeader& header, bool remote) {
  switch (header.kind) {
    case FrameKind::message: return header.payload_bytes <= base::ControlChannel::frame_bytes_max;
    case FrameKind::progress: return remote && header.payload_bytes == sizeof(std::uint32_t);
    default: return header.kind == FrameKind::goodbye && header.payload_bytes == 0;
  }
}

}  // namespace

SocketControlChannel::SocketControlChannel(const base::System& system,
                                           std::vector<ControlLink> links)
    : system_{system},
      epoll_{system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); })} {
  if (!epoll_) fail("epoll_create1", errno);
  const auto watch = [&](int descriptor, std::uint64_t name) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = name}};
    if (system_.call("epoll_ctl", [&] {
          return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
        }) != 0) {
      fail("epoll_ctl", errno);
    }
  };
  peers_.reserve(links.size());
  for (ControlLink& link : links) {
    watch(link.socket.get(), tag(peers_.size(), false));
    if (link.pidfd) watch(link.pidfd.get(), tag(peers_.size(), true));
    if (!link.address.empty()) acknowledge_at_once(link.socket.get());
    FrameStream stream{std::move(link.socket), frame_bytes_max};
    if (link.keys) stream.encrypt(*link.keys);
    peers_.emplace_back(Peer{.link = std::move(link), .stream = std::move(stream)});
  }
  ready_.resize(std::max<std::size_t>(1, 2 * peers_.size()));
  process_ended_.resize(peers_.size());
}

SocketControlChannel::Peer* SocketControlChannel::find(int peer) noexcept {
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&](const Peer& each) { return each.link.peer == peer; });
  return found == peers_.end() ? nullptr : &*found;
}

void SocketControlChannel::send(int peer, BlobView frame) {
  assert(frame.size() <= frame_bytes_max);
  Peer* const found = find(peer);
  if (found == nullptr || found->state == State::dead || found->said_goodbye ||
      mark_.is_inherited())
    return;
  queue(*found, FrameKind::message, frame);
  flush(*found);
}

void SocketControlChannel::queue(Peer& peer, FrameKind kind, BlobView bytes) {
  peer.held.push_back({kind, Blob(bytes.begin(), bytes.end())});
  release(peer);
}

// Who leaves, and who has left, is not waited for.
void SocketControlChannel::release(Peer& peer) {
  const bool limited = peer.remote() && peer.state == State::alive && !peer.said_goodbye;
  while (!peer.held.empty()) {
    const Frame& frame = peer.held.front();
    const std::size_t bytes = sizeof(FrameHeader) + frame.payload.size();
    if (limited && peer.unread_bytes + bytes > unread_bytes_max) return;
    peer.stream.queue(frame.kind, frame.payload);
    peer.unread_bytes += bytes;
    peer.held.pop_front();
  }
}

void SocketControlChannel::flush(Peer& peer) noexcept {
  const bool sends = peer.stream.unsent();
  peer.stream.flush(system_);
  if (base::descriptor_lost(peer.stream.error())) lose_descriptor();
  if (sends && !peer.stream.unsent() && peer.remote()) acknowledge_at_once(peer.stream.fd());
  watch_room(peer, peer.stream.unsent());
}

// Cannot fail for a reason that matters: every poll tries to flush what is queued.
void SocketControlChannel::watch_room(Peer& peer, bool wanted) noexcept {
  if (peer.watches_room == wanted || peer.state != State::alive) return;
  peer.watches_room = wanted;
  constexpr std::uint32_t readable = EPOLLIN;
  epoll_event event{.events = wanted ? readable | EPOLLOUT : readable,
                    .data = {.u64 = tag(static_cast<std::size_t>(&peer - peers_.data()), false)}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.stream.fd(), &event);
}

std::vector<base::ControlEvent> SocketControlChannel::poll() {
  std::vector<base::ControlEvent> events;
  if (peers_.empty()) return events;
  for (Peer& peer : peers_) {
    if (peer.state != State::dead && peer.stream.unsent()) flush(peer);
  }
  const int count = system_.call("epoll_wait", [&] {
    return ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), 0);
  });
  if (count < 0 && errno != EINTR) lose_descriptor();
  // A process whose pidfd is readable sends nothing more: its socket, read from now on, has all.
  const auto readable = std::span{ready_}.first(static_cast<std::size_t>(std::max(count, 0)));
  std::fill(process_ended_.begin(), process_ended_.end(), false);
  for (const epoll_event& event : readable) {
    if ((event.data.u64 & 1U) != 0) process_ended_[event.data.u64 >> 1] = true;
  }
  for (const epoll_event& event : readable) {
    Peer& peer = peers_[event.data.u64 >> 1];
    if (peer.state == State::alive) read(peer, process_ended_[event.data.u64 >> 1], events);
  }
  if (descriptor_ == Descriptor::lost) {
    descriptor_ = Descriptor::told_of;
    events.push_back(
        {.kind = base::ControlEvent::Kind::descriptor_lost, .bytes = {}, .detail = {}});
  }
  return events;
}

void SocketControlChannel::read(Peer& peer, bool process_ended,
                                std::vector<base::ControlEvent>& events) {
  for (std::size_t read_bytes = 0; read_bytes < read_bytes_max && peer.state == State::alive;) {
    auto frame = peer.stream.read(system_);
    const auto header =
        frame ? FrameHeader{frame->kind, static_cast<std::uint32_t>(frame->payload.size())}
              : peer.stream.begun();
    if (header && !is_sound(*header, peer.remote())) {
      return end(peer, State::dead,
                 fmt::format("{} sent a frame of kind {} and {} bytes, which no correct peer does: "
                             "connection dropped",
                             process_of(peer.link), static_cast<std::uint32_t>(header->kind),
                             header->payload_bytes),
                 events);
    }
    if (frame) {
      read_bytes += sizeof(FrameHeader) + frame->payload.size();
      take(peer, std::move(*frame), events);
    } else if (!peer.stream.ended()) {
      if (process_ended)
        end(peer, State::dead, fmt::format("{} ended (pidfd)", process_of(peer.link)), events);
      return;
    } else if (base::descriptor_lost(peer.stream.error())) {  // this says nothing of the peer
      return lose_descriptor();
    } else {
      const int error = peer.stream.error() != 0 ? peer.stream.error() : peer.stream.send_error();
      end(peer, State::dead, ending(peer.link, error), events);
      events.back().host_is_silent = is_silence(error);
      return;
    }
  }
}

void SocketControlChannel::take(Peer& peer, Frame frame, std::vector<base::ControlEvent>& events) {
  if (frame.kind == FrameKind::goodbye) return end(peer, State::said_goodbye, {}, events);
  if (frame.kind == FrameKind::progress) {
    // More than was sent is no harm: it ends the waiting, not the counting.
    const std::size_t read_bytes = base::ByteReader{frame.payload}.get<std::uint32_t>();
    peer.unread_bytes -= std::min(peer.unread_bytes, read_bytes);
    release(peer);
    return flush(peer);
  }
  const std::size_t bytes = sizeof(FrameHeader) + frame.payload.size();
  events.push_back({.kind = base::ControlEvent::Kind::frame,
                    .peer = peer.link.peer,
                    .bytes = std::move(frame.payload),
                    .detail = {}});
  tell_what_was_read(peer, bytes);
}

// Past what is held: two peers that have filled each other up must still hear of progress.
void SocketControlChannel::tell_what_was_read(Peer& peer, std::size_t bytes) {
  peer.unreported_bytes += bytes;
  if (!peer.remote() || peer.said_goodbye || peer.unreported_bytes < progress_bytes) return;
  base::ByteWriter progress;
  progress.put(static_cast<std::uint32_t>(peer.unreported_bytes));
  peer.stream.queue(FrameKind::progress, progress.blob());
  peer.unreported_bytes = 0;
  flush(peer);
}

void SocketControlChannel::end(Peer& peer, State state, std::string detail,
                               std::vector<base::ControlEvent>& events) {
  using Kind = base::ControlEvent::Kind;
  events.push_back({.kind = state == State::dead ? Kind::death : Kind::goodbye,
                    .peer = peer.link.peer,
                    .bytes = {},
                    .detail = std::move(detail)});
  // Taken out by hand: closing does not, as long as a forked child holds the descriptor too, and
  // the end of a stream or process stays readable for ever.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.stream.fd(), nullptr);
  if (peer.link.pidfd) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.link.pidfd.get(), nullptr);
  peer.state = state;
  peer.watches_room = false;
  peer.link.pidfd.reset();
  if (state != State::dead) return release(peer);  // the peer may still wait for our goodbye
  peer.held = {};
  peer.stream = FrameStream{{}, 0};
}

void SocketControlChannel::say_goodbye(Deadline deadline) noexcept {
  if (mark_.is_inherited()) return;
  try {
    std::vector<Peer*> waiting;
    for (Peer& peer : peers_) {
      if (peer.state == State::dead || peer.said_goodbye) continue;
      peer.said_goodbye = true;
      queue(peer, FrameKind::goodbye, {});
      flush(peer);
      waiting.push_back(&peer);
    }
    std::vector<pollfd> polled;
    while (!waiting.empty()) {
      polled.clear();
      int timeout_ms = base::remaining_ms(system_, deadline);
      std::erase_if(waiting, [&](Peer* peer) {
        const Farewell wants = farewell(*peer);
        if (wants == Farewell::nothing) return true;
        if (wants == Farewell::acknowledgement)
          timeout_ms = std::min(timeout_ms, acknowledgement_poll_ms);
        const short events = wants == Farewell::room ? POLLOUT : 0;
        polled.push_back({.fd = peer->stream.fd(), .events = events, .revents = 0});
        return false;
      });
      if (waiting.empty() || system_.now() >= deadline) return;
      const int ready =
          system_.call("poll", [&] { return ::poll(polled.data(), polled.size(), timeout_ms); });
      if (ready < 0 && errno != EINTR) return;
    }
  } catch (const std::exception&) {
    return;  // out of memory: the peers take our end for a death, which is what it looks like
  }
}

// What a Unix socket took is at the peer. TCP may still lose it, and sends it again only while the
// connection lives: one that is closed over unread bytes is reset, and the goodbye gone.
SocketControlChannel::Farewell SocketControlChannel::farewell(Peer& peer) noexcept {
  flush(peer);
  if (peer.stream.ended()) return Farewell::nothing;
  if (peer.stream.unsent()) return Farewell::room;
  if (!peer.remote()) return Farewell::nothing;
  const int socket = peer.stream.fd();
  int unacknowledged_bytes = 0;
  if (::ioctl(socket, SIOCOUTQ, &unacknowledged_bytes) != 0 || unacknowledged_bytes == 0)
    return Farewell::nothing;
  pollfd ended{.fd = socket, .events = 0, .revents = 0};
  return ::poll(&ended, 1, 0) > 0 ? Farewell::nothing : Farewell::acknowledgement;
}

}  // namespace qpmesh::bootstrap

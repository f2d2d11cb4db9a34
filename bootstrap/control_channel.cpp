#include "bootstrap/control_channel.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/bytes.hpp"
#include "bootstrap/local_socket.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

// On the wire: u32 bytes, u8 kind, bytes.
enum class FrameKind : std::uint8_t { frame, goodbye };
constexpr std::size_t header_bytes = sizeof(std::uint32_t) + sizeof(std::uint8_t);

// A peer that sends faster than we read must not keep poll from the others.
constexpr std::size_t read_bytes_max = std::size_t{1} << 20;

// What epoll hands back: which peer, and which of its two descriptors.
constexpr std::uint64_t tag(std::size_t index, bool pidfd) {
  return std::uint64_t{index} << 1 | (pidfd ? 1U : 0U);
}

[[noreturn]] void fail(const char* what, int error) {
  throw Error{
      {.code = ErrorCode::no_resource,
       .operation = "init",
       .cause = fmt::format("{} for the control channel failed", what),
       .system_error = error,
       .hint = error == EMFILE || error == ENFILE ? "raise the limit on open files (ulimit -n)" : ""}};
}

}  // namespace

UnixControlChannel::UnixControlChannel(const base::System& system, std::vector<ControlLink> links)
    : system_{system},
      owner_{::getpid()},
      epoll_{system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); })} {
  if (!epoll_) fail("epoll_create1", errno);
  const auto watch = [&](int descriptor, std::uint64_t name) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = name}};
    if (system_.call("epoll_ctl",
                     [&] { return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event); }) != 0) {
      fail("epoll_ctl", errno);
    }
  };
  peers_.reserve(links.size());
  for (ControlLink& link : links) {
    watch(link.socket.get(), tag(peers_.size(), false));
    if (link.pidfd) watch(link.pidfd.get(), tag(peers_.size(), true));
    peers_.emplace_back().link = std::move(link);
  }
  ready_.resize(std::max<std::size_t>(1, 2 * peers_.size()));
  process_ended_.resize(peers_.size());
}

UnixControlChannel::~UnixControlChannel() = default;

UnixControlChannel::Peer* UnixControlChannel::find(int peer) noexcept {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& each) { return each.link.peer == peer; });
  return found == peers_.end() ? nullptr : &*found;
}

void UnixControlChannel::send(int peer, BlobView frame) {
  assert(frame.size() <= frame_bytes_max);
  Peer* const found = find(peer);
  if (found == nullptr || found->state == State::dead || found->said_goodbye || ::getpid() != owner_) return;
  queue(*found, static_cast<std::uint8_t>(FrameKind::frame), frame);
  flush(*found);
}

void UnixControlChannel::queue(Peer& peer, std::uint8_t kind, BlobView bytes) {
  base::ByteWriter writer;
  writer.put(static_cast<std::uint32_t>(bytes.size())).put(kind);
  Blob frame = std::move(writer).blob();
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  // In one step: the whole frame or, without memory, nothing.
  peer.outgoing.insert(peer.outgoing.end(), frame.begin(), frame.end());
}

void UnixControlChannel::flush(Peer& peer) noexcept {
  while (peer.sent_bytes < peer.outgoing.size()) {
    const auto sent =
        local::send(system_, peer.link.socket.get(), BlobView{peer.outgoing}.subspan(peer.sent_bytes));
    if (sent.error == EAGAIN) return watch_room(peer, true);
    if (sent.error != 0)
      break;  // the peer is gone: reading its stream to the end says so, after what it had sent
    peer.sent_bytes += sent.count;
  }
  peer.outgoing.clear();
  peer.sent_bytes = 0;
  watch_room(peer, false);
}

// Cannot fail for a reason that matters: every poll tries to flush what is queued.
void UnixControlChannel::watch_room(Peer& peer, bool wanted) noexcept {
  if (peer.watches_room == wanted || peer.state != State::alive) return;
  peer.watches_room = wanted;
  constexpr std::uint32_t readable = EPOLLIN;
  epoll_event event{.events = wanted ? readable | EPOLLOUT : readable,
                    .data = {.u64 = tag(static_cast<std::size_t>(&peer - peers_.data()), false)}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.link.socket.get(), &event);
}

std::vector<base::ControlEvent> UnixControlChannel::poll() {
  std::vector<base::ControlEvent> events;
  if (peers_.empty()) return events;
  for (Peer& peer : peers_) {
    if (peer.state != State::dead && !peer.outgoing.empty()) flush(peer);
  }
  const int count = system_.call("epoll_wait", [&] {
    return ::epoll_wait(epoll_.get(), ready_.data(), static_cast<int>(ready_.size()), 0);
  });
  // A process whose pidfd is readable sends nothing more: reading its socket after this look finds
  // everything.
  const auto readable = std::span{ready_}.first(static_cast<std::size_t>(std::max(count, 0)));
  std::fill(process_ended_.begin(), process_ended_.end(), false);
  for (const epoll_event& event : readable) {
    if ((event.data.u64 & 1U) != 0) process_ended_[event.data.u64 >> 1] = true;
  }
  for (const epoll_event& event : readable) {
    Peer& peer = peers_[event.data.u64 >> 1];
    if (peer.state == State::alive) read(peer, process_ended_[event.data.u64 >> 1], events);
  }
  return events;
}

void UnixControlChannel::read(Peer& peer, bool process_ended, std::vector<base::ControlEvent>& events) {
  for (std::size_t read_bytes = 0; read_bytes < read_bytes_max;) {
    const auto received = local::receive(system_, peer.link.socket.get(), chunk_);
    if (received.error == EAGAIN) {
      if (process_ended) end(peer, State::dead, fmt::format("{} ended (pidfd)", who(peer)), events);
      return;
    }
    if (received.ended || received.error == ECONNRESET) {
      return end(peer, State::dead, fmt::format("{} hung up without a goodbye", who(peer)), events);
    }
    if (received.error != 0) {
      return end(peer, State::dead,
                 fmt::format("reading from {} failed: {}", who(peer), base::describe_errno(received.error)),
                 events);
    }
    read_bytes += received.count;
    peer.incoming.insert(peer.incoming.end(), chunk_.begin(),
                         chunk_.begin() + static_cast<std::ptrdiff_t>(received.count));
    if (!take_frames(peer, events)) return;
  }
}

// False when the peer ended.
bool UnixControlChannel::take_frames(Peer& peer, std::vector<base::ControlEvent>& events) {
  BlobView rest{peer.incoming};
  while (rest.size() >= header_bytes) {
    base::ByteReader header{rest};
    const std::size_t bytes = header.get<std::uint32_t>();
    const auto kind = header.get<std::uint8_t>();
    const bool goodbye = kind == static_cast<std::uint8_t>(FrameKind::goodbye);
    const bool sound = goodbye
                           ? bytes == 0
                           : kind == static_cast<std::uint8_t>(FrameKind::frame) && bytes <= frame_bytes_max;
    if (!sound) {
      end(peer, State::dead,
          fmt::format(
              "{} sent a frame of kind {} and {} bytes, which no correct peer does: connection dropped",
              who(peer), kind, bytes),
          events);
      return false;
    }
    if (goodbye) {
      end(peer, State::said_goodbye, {}, events);
      return false;
    }
    if (rest.size() < header_bytes + bytes) break;
    const BlobView frame = rest.subspan(header_bytes, bytes);
    events.push_back({.kind = base::ControlEvent::Kind::frame,
                      .peer = peer.link.peer,
                      .bytes = Blob(frame.begin(), frame.end()),
                      .detail = {}});
    rest = rest.subspan(header_bytes + bytes);
  }
  peer.incoming.erase(peer.incoming.begin(), peer.incoming.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return true;
}

void UnixControlChannel::end(Peer& peer, State state, std::string detail,
                             std::vector<base::ControlEvent>& events) {
  using Kind = base::ControlEvent::Kind;
  events.push_back({.kind = state == State::dead ? Kind::death : Kind::goodbye,
                    .peer = peer.link.peer,
                    .bytes = {},
                    .detail = std::move(detail)});
  // Taken out by hand: closing does not, as long as a forked child holds the descriptor too, and the end of a
  // stream or process stays readable for ever.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.link.socket.get(), nullptr);
  if (peer.link.pidfd) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.link.pidfd.get(), nullptr);
  peer.state = state;
  peer.watches_room = false;
  peer.incoming = {};
  peer.link.pidfd.reset();
  if (state != State::dead) return;  // the peer may still wait for our goodbye
  peer.outgoing = {};
  peer.sent_bytes = 0;
  peer.link.socket.reset();
}

std::string UnixControlChannel::who(const Peer& peer) const {
  return fmt::format("process {} on host {}", peer.link.pid, peer.link.host);
}

void UnixControlChannel::say_goodbye(Deadline deadline) noexcept {
  if (::getpid() != owner_) return;
  try {
    for (Peer& peer : peers_) {
      if (peer.state == State::dead || peer.said_goodbye) continue;
      queue(peer, static_cast<std::uint8_t>(FrameKind::goodbye), {});
      peer.said_goodbye = true;
      flush(peer);
    }
    for (;;) {
      std::vector<pollfd> full;
      for (Peer& peer : peers_) {
        if (peer.state != State::dead && !peer.outgoing.empty()) flush(peer);
        if (!peer.outgoing.empty())
          full.push_back({.fd = peer.link.socket.get(), .events = POLLOUT, .revents = 0});
      }
      if (full.empty() || system_.now() >= deadline) return;
      const int timeout_ms = base::remaining_ms(system_, deadline);
      const int ready = system_.call("poll", [&] { return ::poll(full.data(), full.size(), timeout_ms); });
      if (ready < 0 && errno != EINTR) return;
    }
  } catch (const std::exception&) {
    return;  // out of memory: the peers take our end for a death, which is what it looks like
  }
}

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
// The control channel: one connected stream per peer, kept open from the meeting to the goodbye.
//
// To a rank of this host it is the Unix socket of the meeting, with a pidfd. What counts as the end
// of the peer is its pidfd (which a forked child of the peer cannot hold back, unlike the socket),
// or the end of its stream (which is all there is where ranks are threads of one process),
// whichever comes first. To a rank elsewhere it is a TCP connection that the kernel keeps alive:
// the peer ends when its end is closed or reset, or when its host was silent for too long
// (set_silence_max in socket.hpp). A forked child that outlives its rank keeps that news from other
// hosts; the rank's neighbours have it and pass it on. In every case the end waits until everything
// that had come from the peer was delivered.
//
// What is sent to a rank without a link is dropped, and nothing is ever reported about it.
//
// Over TCP a rank sends no more than the peer's kernel has room for, and waits until the peer says
// that it has read: a peer that is merely stopped would otherwise be taken for dead by
// TCP_USER_TIMEOUT, which counts the time of a closed window too (measured: 200 KiB unread end the
// connection).
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/control_channel.hpp"
#include "base/encryption.hpp"
#include "base/owned.hpp"
#include "base/process_mark.hpp"
#include "base/system.hpp"
#include "bootstrap/frame_stream.hpp"

namespace qpmesh::bootstrap {

struct ControlLink {
  int peer = -1;
  pid_t pid = 0;
  std::string host;
  std::string address;    // of the other end, for people; empty: a Unix socket
  base::UniqueFd socket;  // connected stream, non-blocking; TCP: set up
  base::UniqueFd pidfd;   // may be empty
  std::optional<base::ConnectionKeys> keys = {};  // nothing: frames go as they are
};

// One thread at a time. A forked child may destroy its copy; its send and say_goodbye do nothing.
class SocketControlChannel final : public base::ControlChannel {
 public:
  // Throws Error{no_resource}. system outlives the channel.
  SocketControlChannel(const base::System& system, std::vector<ControlLink> links);

  void send(int peer, BlobView frame) override;
  std::vector<base::ControlEvent> poll() override;
  void say_goodbye(Deadline deadline) noexcept override;
  int wake_descriptor() const noexcept override { return epoll_.get(); }

 private:
  // After goodbye only our own direction stays open; after death nothing does.
  enum class State : std::uint8_t { alive, said_goodbye, dead };
  // What our goodbye still waits for.
  enum class Farewell : std::uint8_t { room, acknowledgement, nothing };

  struct Peer {
    ControlLink link;  // without its socket
    FrameStream stream;
    State state = State::alive;
    bool said_goodbye = false;         // by us
    bool watches_room = false;         // epoll tells when the socket takes more
    std::size_t unreported_bytes = 0;  // of frames that we read and did not tell the peer of
    std::list<Frame> held{};           // frames that wait until the peer has read others
    std::size_t unread_bytes = 0;      // of frames that left held, as far as we know

    bool remote() const noexcept { return !link.address.empty(); }
  };

  Peer* find(int peer) noexcept;
  static void queue(Peer& peer, FrameKind kind, BlobView bytes);
  static void release(Peer& peer);
  void flush(Peer& peer) noexcept;
  void watch_room(Peer& peer, bool wanted) noexcept;
  void read(Peer& peer, bool process_ended, std::vector<base::ControlEvent>& events);
  void take(Peer& peer, Frame frame, std::vector<base::ControlEvent>& events);
  void tell_what_was_read(Peer& peer, std::size_t bytes);
  void end(Peer& peer, State state, std::string detail, std::vector<base::ControlEvent>& events);
  Farewell farewell(Peer& peer) noexcept;

  void lose_descriptor() noexcept { descriptor_ = std::max(descriptor_, Descriptor::lost); }

  const base::System& system_;
  const base::ProcessMark mark_;
  base::UniqueFd epoll_;
  enum class Descriptor : std::uint8_t { kept, lost, told_of } descriptor_ = Descriptor::kept;
  std::vector<Peer> peers_;
  std::vector<epoll_event> ready_;
  std::vector<bool> process_ended_;
};

}  // namespace qpmesh::bootstrap

// The control channel among the ranks of one host: the Unix sockets of their meeting, kept open, and a pidfd
// per peer.
//
// A rank of another host has no link here: what is sent to it is dropped, and nothing is ever reported about
// it. A transport that reaches other hosts brings its own links.
//
// What counts as the end of a peer: its pidfd (which a forked child of the peer cannot hold back, unlike the
// socket), or the end of its stream (which is all there is where ranks are threads of one process), whichever
// comes first. Both wait until everything the peer had sent was delivered.
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/control_channel.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"

namespace qpmesh::bootstrap {

struct ControlLink {
  int peer = -1;
  pid_t pid = 0;
  std::string host;
  base::UniqueFd socket;  // connected stream, non-blocking
  base::UniqueFd pidfd;   // may be empty
};

// One thread at a time. A forked child may destroy its copy; its send and say_goodbye do nothing.
class UnixControlChannel final : public base::ControlChannel {
 public:
  // Throws Error{no_resource}. system outlives the channel.
  UnixControlChannel(const base::System& system, std::vector<ControlLink> links);
  ~UnixControlChannel() override;

  void send(int peer, BlobView frame) override;
  std::vector<base::ControlEvent> poll() override;
  void say_goodbye(Deadline deadline) noexcept override;
  int wake_descriptor() const noexcept override { return epoll_.get(); }

 private:
  // After goodbye only our own direction stays open; after death nothing does.
  enum class State : std::uint8_t { alive, said_goodbye, dead };

  struct Peer {
    ControlLink link;
    State state = State::alive;
    Blob incoming;  // the beginning of a frame
    Blob outgoing;  // whole frames, of which the first sent_bytes went out
    std::size_t sent_bytes = 0;
    bool watches_room = false;  // epoll tells when the socket takes more
    bool said_goodbye = false;  // by us
  };

  Peer* find(int peer) noexcept;
  void queue(Peer& peer, std::uint8_t kind, BlobView bytes);
  void flush(Peer& peer) noexcept;
  void watch_room(Peer& peer, bool wanted) noexcept;
  void read(Peer& peer, bool process_ended, std::vector<base::ControlEvent>& events);
  bool take_frames(Peer& peer, std::vector<base::ControlEvent>& events);
  void end(Peer& peer, State state, std::string detail, std::vector<base::ControlEvent>& events);
  std::string who(const Peer& peer) const;

  const base::System& system_;
  const pid_t owner_;
  base::UniqueFd epoll_;
  std::vector<Peer> peers_;
  std::vector<epoll_event> ready_;
  std::vector<bool> process_ended_;
  std::array<std::byte, 32 * 1024> chunk_;
};

}  // namespace qpmesh::bootstrap

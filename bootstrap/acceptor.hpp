// SPDX-License-Identifier: MIT
// Who listens, and the connections that have not yet proven that they are ours: at the root of a
// star, and at every rank that other ranks link with. All of them are served at once; each costs a
// descriptor and a few hundred bytes, for at most the handshake time.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/handshake.hpp"

namespace qpmesh::bootstrap {

struct AcceptorSettings {
  int rank = 0;                               // who listens
  Key key{};                                  // callers must know it
  std::int64_t handshake_timeout_ms = 2'000;  // a silent unauthenticated peer is dropped after it
  // Descriptors that unauthenticated peers can hold; beyond it the oldest goes, so that a real rank
  // always gets in.
  std::size_t unauthenticated_peers_max = 256;
  // Who may call over a Unix socket; empty: any process of our user.
  std::vector<pid_t> processes{};
  bool any_user = false;  // or of any user: the key is a secret of this meeting
};

// Someone who speaks our version and knows the key; what the hello says is not checked any further.
struct AuthenticatedPeer {
  FrameStream stream;
  Challenge challenge{};
  Hello hello{};
};

class Acceptor {
 public:
  // log outlives it: the connections that no line has told of yet are told of at the end.
  Acceptor(AcceptorSettings settings, const base::System& system, const base::Log& log);
  ~Acceptor() { close(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Callers may come by this socket, too.
  void listen(base::UniqueFd listener);

  // Appends what poll must watch, and returns wake or the earlier time when the acceptor wants to
  // be served.
  Deadline watch(std::vector<pollfd>& polled, Deadline wake);
  // Serves what poll found in the entries of the last watch.
  std::vector<AuthenticatedPeer> serve(std::span<const pollfd> entries);

  // Answers an authenticated peer who may not come in, and why. One line of log a second at most.
  void refuse(AuthenticatedPeer caller, const std::string& cause, std::string hint);
  // Answers an authenticated peer who is too early: it will come again.
  void send_away(AuthenticatedPeer caller) const;
  // The proof that goes with a welcome.
  Proof welcome(const AuthenticatedPeer& caller) const {
    return prove(settings_.key, Role::listener, caller.challenge, caller.hello);
  }
  const std::string& where() const noexcept { return where_; }  // "10.0.0.1:4000, @qpmesh-…"
  // Why the last one who wanted in is not in; for the error of a start that nobody else completes.
  const std::string& last_refusal() const noexcept { return last_refusal_; }
  // Of the last connection that was lost for want of descriptors or memory, or 0.
  int accept_error() const noexcept { return accept_error_; }
  // This process has no descriptor left for a connection, and no unauthenticated peer holds one.
  bool is_starved() const noexcept { return starved_; }
  // Connections whose hello is still to come.
  bool has_unauthenticated() const noexcept {
    return !std::ranges::all_of(unauthenticated_, &UnauthenticatedPeer::done);
  }
  void close() noexcept;

 private:
  struct UnauthenticatedPeer {
    FrameStream stream;
    Challenge challenge{};
    Deadline deadline{};
    bool done = false;
  };

  void accept_peers(int listener);
  void make_room();
  void greet(base::UniqueFd fd);
  std::string reject_reason(int fd) const;
  void hear(UnauthenticatedPeer& peer, std::vector<AuthenticatedPeer>& callers);
  void judge(AuthenticatedPeer caller, std::vector<AuthenticatedPeer>& callers);
  void drop(UnauthenticatedPeer& peer, std::string_view why);
  void report(std::string_view why);
  void tell_count(std::string_view why) noexcept;
  void answer(FrameStream stream, FrameKind kind, BlobView payload) const;

  AcceptorSettings settings_;
  std::vector<base::UniqueFd> listeners_;
  std::string where_;
  const base::System& system_;
  const base::Log& log_;
  std::vector<UnauthenticatedPeer> unauthenticated_;  // oldest first
  Deadline accept_after_{};
  int accept_error_ = 0;
  bool starved_ = false;
  Deadline line_due_{};
  std::uint64_t untold_ = 0;  // connections that were dropped since the last line
  std::string last_why_;
  std::string last_refusal_;
};

}  // namespace qpmesh::bootstrap

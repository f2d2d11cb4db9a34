// SPDX-License-Identifier: MIT
// Calls one peer until it lets us in: at its addresses in turn, with a handshake (handshake.hpp) at
// each, and again after a pause. Never waits.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/handshake.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

struct CallerSettings {
  int peer = 0;   // whom we call
  Hello hello{};  // who calls; its proof is made here
  Key key{};
  // For the connection, where one address of several has less at first (caller.cpp), and again for
  // each answer.
  std::int64_t handshake_timeout_ms = 2'000;
  std::size_t payload_bytes_max = 8'192;  // of what may follow the handshake
  // Whoever answers at a Unix socket may be of another user: the key is a secret of this meeting.
  bool any_user = false;
  Resolve resolve;  // asked before every round of addresses
  ChooseSource source{};
};

class Caller {
 public:
  Caller(CallerSettings settings, const base::System& system, const base::Log& log);

  // What poll must watch until wake, or until the earlier time that it is set to.
  pollfd watch(Deadline& wake) const;
  // As far as it gets now; ready: poll found something. True: the call has ended, by a welcome
  // with which both sides have proven themselves, or by a refusal. Throws Error{no_resource} where
  // this process may not open a socket.
  bool step(bool ready);
  // By them, or of them: another attempt at this address would end alike. Nothing after a welcome.
  const std::optional<ErrorDetail>& refusal() const noexcept { return refusal_; }
  void try_next_address(std::string problem, int error = 0, bool silence = false);

  // After a welcome: the connection, and the descriptors that came with it.
  FrameStream& stream() noexcept { return *stream_; }
  std::array<base::UniqueFd, 2>& descriptors() noexcept { return descriptors_; }
  std::string address() const { return to_string(addresses_[next_]); }

  int peer() const noexcept { return settings_.peer; }
  int attempts() const noexcept { return attempts_; }
  // Rounds in which every address said no. One in which an address kept silent does not count: its
  // host may be slow.
  int refused_rounds() const noexcept { return refused_rounds_; }
  int last_error() const noexcept { return last_error_; }  // errno, or 0
  // Every address with its last problem: "10.0.0.1:4000 (Connection refused)".
  std::string problems() const;

 private:
  void begin_attempt();
  void finish_connecting();
  void shake_hands();
  void answer();
  void say_that_we_call_again();
  void hear_verdict(const Frame& frame);
  void end(std::optional<ErrorDetail> refusal);
  void refuse(ErrorCode code, std::string cause, std::string hint = {});
  std::string silence() const;
  std::optional<Address> source_for(const Address& target) const;
  std::string describe(const Address& target) const;

  CallerSettings settings_;
  const base::System& system_;
  const base::Log& log_;
  std::vector<Address> addresses_;
  std::vector<std::string> problems_;  // by address, the last one
  std::size_t next_ = 0;               // address
  bool silence_in_round_ = false;
  bool taken_ = false;  // by a process of another user
  int refused_rounds_ = 0;
  int attempts_ = 0;
  int last_error_ = 0;
  std::int64_t pause_ms_ = 0;
  std::int64_t connecting_ms_;  // that one address of several has in this round

  // One attempt begins at begin_. Each of its states lasts until until_ at most.
  enum class State : std::uint8_t { waiting, connecting, connected, greeted, ended };
  State state_ = State::waiting;
  Deadline begin_{};
  Deadline until_ = no_deadline;
  std::optional<FrameStream> stream_;
  Challenge challenge_{};
  std::optional<ErrorDetail> refusal_;
  std::array<base::UniqueFd, 2> descriptors_;
};

}  // namespace qpmesh::bootstrap

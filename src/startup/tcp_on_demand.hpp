// SPDX-License-Identifier: MIT
// Connections over tcp that are made when they are first used (QPMESH_CONNECT_WHEN=first_use).
//
// The higher rank of a pair calls, as in init. Where the lower one wants to be connected it asks
// the higher one over the control channel: so there is one call, also where both want it at once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/streams.hpp"
#include "transport/on_demand.hpp"
#include "transport/tcp/transport.hpp"

namespace qpmesh::startup {

class TcpOnDemand final : public transport::tcp::Connector, public transport::OnDemand {
 public:
  // What the transport is to join a pair with.
  using MakeEnd = std::function<transport::tcp::Joined(const bootstrap::StreamPeer& peer,
                                                       base::UniqueFd socket)>;

  // transport owns this. system outlives both. timeout_ms: for each connection, of a peer that
  // keeps silent. Throws Error{no_resource}.
  TcpOnDemand(transport::tcp::TcpTransport& transport, bootstrap::StreamSettings settings,
              std::vector<base::UniqueFd> listeners, std::vector<bootstrap::StreamPeer> peers,
              std::int64_t timeout_ms, MakeEnd make_end, const base::System& system,
              const base::Log& log);

  void want(int peer) override;
  bool serve() noexcept override;
  int wake_descriptor() const noexcept override { return streams_.wake_descriptor(); }
  std::chrono::microseconds request_notification() noexcept override;

  // There is nothing to say but that a call is wanted.
  void tell_by(std::function<void(int peer, BlobView words)> tell) override {
    tell_ = std::move(tell);
  }
  void told_by(int peer, BlobView words) noexcept override;

 private:
  void call(int peer);
  void warn(const ErrorDetail& failure) noexcept;
  void fail_all(const ErrorDetail& why) noexcept;

  transport::tcp::TcpTransport& transport_;
  const base::System& system_;
  base::Log log_;
  int rank_;
  std::int64_t timeout_ms_;
  Deadline warn_after_{};
  std::vector<int> wanted_;  // asked for, and neither joined nor failed
  std::function<void(int peer, BlobView words)> tell_;
  bootstrap::StreamsOnDemand streams_;  // last: it tells the others
};

}  // namespace qpmesh::startup

// SPDX-License-Identifier: MIT
// Connections that are made when they are first used (QPMESH_CONNECT_WHEN=first_use) by an exchange
// of addresses over the control channel.
//
// Both ends do the same. Who first wants the connection, or hears that the peer does, makes its end
// and tells its address. Who knows both addresses connects its end and says so. An end posts when
// it has heard that the peer's is connected: what comes to a queue pair before is dropped, and
// costs a retransmission timeout. One that cannot be connected tells the peer why. Nothing waits
// here: a peer that never looks ends the calls that wait for it by their own limit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/errors.hpp"
#include "qpmesh/bootstrap.hpp"
#include "transport/on_demand.hpp"

namespace qpmesh::startup {

class ExchangeOnDemand final : public transport::OnDemand {
 public:
  // Our ends of the connections, each made once at most. Between make and open, calls come in this
  // order; fail may come at any time, and nothing comes behind it.
  class Ends {
   public:
    virtual ~Ends() = default;
    // Makes our end. Returns what the peer needs to know. Throws Error.
    virtual Blob make(int peer) = 0;
    // From here on the peer may write. Throws Error.
    virtual void connect(int peer, BlobView address) = 0;
    // The peer's end is connected, too: from here on we may write.
    virtual void open(int peer) noexcept = 0;
    virtual void fail(int peer, const ErrorDetail& why) noexcept = 0;
  };

  ExchangeOnDemand(std::unique_ptr<Ends> ends, int size);

  // Our first use. Has an effect once.
  void want(int peer) noexcept;

  void tell_by(std::function<void(int peer, BlobView words)> tell) override {
    tell_ = std::move(tell);
  }
  void told_by(int peer, BlobView words) noexcept override;

 private:
  enum class Stage : std::uint8_t { unmade, made, connected, open, failed };
  struct Words;  // what one end tells the other

  Stage& stage(int peer) { return stages_[static_cast<std::size_t>(peer)]; }
  void take(int peer, const Words& words);
  // What an end throws fails the connection here and at the peer.
  template <class F>
  void guarded(int peer, F&& step) noexcept;
  void fail(int peer, const ErrorDetail& why, bool tells) noexcept;

  std::unique_ptr<Ends> ends_;
  std::vector<Stage> stages_;  // by rank
  std::function<void(int peer, BlobView words)> tell_;
};

}  // namespace qpmesh::startup

// SPDX-License-Identifier: MIT
// Our ends of links over verbs that are connected when they are first used.
#pragma once

#include <optional>
#include <vector>

#include "messaging/messaging.hpp"
#include "startup/exchange_on_demand.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::startup {

// What a peer writes first lies behind its slot and our staging for it, and nobody reads it.
// Nothing else may lie there: of a link that is made at its first use our end may send, out of that
// staging, before the peer's first write comes.
inline constexpr std::size_t probed_bytes = 4096;  // the largest path MTU

// The first writes to a peer (VerbsConnection::probe).
void probe_path(transport::verbs::VerbsConnection& connection, const messaging::PeerPlaces& places,
                bool second_rail) noexcept;

// One or two queue pairs for each peer. A second one that cannot be connected is done without: its
// connection fails, and the railed one that holds it carries on with the first. A first one that
// cannot be connected is the end of both.
class VerbsEnds final : public ExchangeOnDemand::Ends {
 public:
  // By rank; empty where there is no such peer.
  using Places = std::vector<std::optional<messaging::PeerPlaces>>;
  // The transports outlive this. second: nullptr where there is one rail.
  VerbsEnds(transport::verbs::VerbsTransport& first, transport::verbs::VerbsTransport* second,
            Places places);

  Blob make(int peer) override;
  void connect(int peer, BlobView address) override;
  void open(int peer) noexcept override;
  void fail(int peer, const ErrorDetail& why) noexcept override;

 private:
  // nullptr: there is none, or none any more.
  transport::verbs::VerbsConnection* second_of(int peer) const noexcept;
  template <class F>
  void on_second(int peer, F&& step);
  void open(transport::verbs::VerbsConnection& connection, int peer, bool second_rail) noexcept;

  transport::verbs::VerbsTransport& first_;
  transport::verbs::VerbsTransport* second_;
  Places places_;
};

}  // namespace qpmesh::startup

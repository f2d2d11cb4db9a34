// SPDX-License-Identifier: MIT
// RDMA over reliable-connected queue pairs (InfiniBand, RoCE, SoftRoCE): set-up.
//
// Bring-up: once it is known what every end relies on, rely_on. Then, per peer, address_for (queue
// pair in INIT) → the bootstrap carries the addresses → connect → once for all peers, make_ready
// (RTR, RTS; connector.hpp). Nothing is posted until every rank is ready: a packet that meets a
// queue pair in INIT is dropped and costs a retransmission timeout.
//
// Or, for a connection that is made when it is first used: connect_later in bring-up; then, when it
// is wanted here or by the peer, address_for → addresses are exchanged → join → each end tells the
// other that it has joined → open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/attributes.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/connector.hpp"
#include "transport/verbs/diagnosis/statuses.hpp"
#include "transport/verbs/handles.hpp"
#include "transport/verbs/regions.hpp"
#include "transport/verbs/selection/pairing.hpp"
#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::transport::verbs {

struct Settings {
  std::string host;
  selection::PortChoice port;       // of the device that is opened
  selection::DeviceFacts device{};  // its limits
  std::uint32_t peers = 0;          // how many connections there will be at most
  // Immediates of one peer that may be under way, by its credits and by how its records come.
  std::function<std::uint32_t(const Capabilities&)> immediates_max{};
  std::int64_t link_timeout_ms = 0;  // option of that name
  // Carries no record and no immediate before it takes over from the first: until one comes, they
  // are looked for now and then.
  bool second_rail = false;
  std::optional<JobMember> cm{};  // who asks the communication manager; nothing: plain exchange
};

// Two endpoints that can be connected.
struct Path {
  selection::Endpoint local;
  selection::Endpoint peer;
};
struct PeerPaths {
  std::string peer_host;
  selection::Notifications theirs;  // what the peer's end relies on
  std::vector<Path> choices;        // best first, the same at both ends; at most 64
};

class VerbsTransport final : public Transport {
 public:
  // Opens the device. Throws Error{no_resource} naming it and the step that failed.
  VerbsTransport(const base::System& system, const base::Log& log, Settings settings);
  ~VerbsTransport() override;
  VerbsTransport(const VerbsTransport&) = delete;
  VerbsTransport& operator=(const VerbsTransport&) = delete;

  RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind kind) override {
    return regions_.add(memory, kind);
  }
  bool deregister_memory(std::uint32_t region) noexcept override { return regions_.remove(region); }
  std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept override {
    return regions_.address_of(memory);
  }
  // Once, before all that follows: what this end relies on, and the least that an end of its peers
  // does. Makes the completion queues: only immediates take entries of those for arrivals. Throws
  // Error{no_resource}, where the device has too little room or the system too little memory.
  void rely_on(const selection::Notifications& ours, const selection::Notifications& least);
  // What the peer needs to connect to us by one of these paths.
  Blob address_for(int peer, PeerPaths paths);
  std::unique_ptr<Connection> connect(int peer, BlobView peer_address);

  // A connection that is made when it is first used, by plain exchange.
  std::unique_ptr<Connection> connect_later(int peer, PeerPaths paths);
  // Called when something is first posted or read on such a connection, once for each. It may throw
  // Error, or bad_alloc: then the connection fails.
  void ask_by(std::function<void(int peer)> want) { want_ = std::move(want); }
  // What the peer needs to join its end to ours. Throws Error{no_resource} or {link_failed}.
  Blob address_for(int peer);
  // Connects our end, whose address the peer has or will have. Throws Error{link_failed}, also
  // where the connection has failed before, {no_resource} or {corrupt}.
  void join(int peer, BlobView peer_address);
  // Of a connection that was made later; nullptr: it is no more.
  VerbsConnection* made_later(int peer) const noexcept;
  // After every rank has called connect for all of its peers. Where queue pairs are connected by
  // plain exchange they are ready before.
  void make_ready(Deadline deadline, const base::StartCheck& check = {}) {
    connector_->finish(deadline, check);
  }
  void progress() noexcept override;
  int wake_descriptor() const noexcept override { return wake_.get(); }
  std::chrono::microseconds request_notification() noexcept override;
  void poll_async_events() noexcept override;

 private:
  friend class VerbsConnection;
  // A queue pair in INIT, until it is handed to its connection; or none yet.
  struct Pending {
    int peer = -1;
    std::uint32_t index = 0;
    PeerPaths paths;
    Capabilities capabilities{};
    std::uint64_t unroutable = 0;  // bit i: choices[i] has no route from here
    QueuePair queue_pair;
    std::uint32_t psn = 0;
    selection::Ece ece{};                   // what it offers
    VerbsConnection* connection = nullptr;  // one that is made later
  };
  struct Address;  // what one end tells the other

  Pending& pending_of(int peer);
  void open_queue_pair(Pending& pending);
  Blob make_address(Pending& pending);
  // By the first path that both ends have a route on.
  diagnosis::LinkDescription begin(Pending& mine, const Address& theirs);
  Capabilities together_with(const selection::Notifications& theirs) const noexcept;
  // What a queue pair has room for: all immediates that may be under way, and those whose receive
  // requests have not gone back.
  std::uint32_t receives_for(const Capabilities& capabilities) const;
  VerbsConnection::Parts parts_of(Pending& pending, diagnosis::LinkDescription link);
  // Why links of this port may fail; nullptr: nothing is known.
  const ErrorDetail* port_fault() const noexcept {
    if (port_down_) return &*port_down_;
    return gid_gone_ ? &*gid_gone_ : nullptr;
  }
  void look_for_gids() noexcept;
  void say_joined(int peer, const diagnosis::LinkDescription& link,
                  const Capabilities& capabilities) const;
  void want(VerbsConnection& connection) noexcept;
  void forget(std::uint32_t index) noexcept;
  bool has_route(const Path& path);
  diagnosis::LinkDescription describe_link(const Pending& pending, const Path& path) const;
  // Those of the connections from index queue_peers * i on.
  struct Queues {
    CompletionQueue sent;
    CompletionQueue arrived;
  };
  const Queues& queues_of(std::uint32_t index) const { return queues_[index / queue_peers_]; }
  // Returns how many completions there were.
  int drain(ibv_cq& queue, void (VerbsConnection::*handle)(const ibv_wc&) noexcept) noexcept;
  // What the device has told, a port that went down among it: before a link's failure is explained,
  // too.
  void read_events() noexcept;
  void handle_event(const ibv_async_event& event) noexcept;
  void watch_links() noexcept;

  const base::System& system_;
  base::Log log_;
  Settings settings_;
  DeviceContext device_;
  ProtectionDomain domain_;
  CompletionChannel channel_;
  selection::Notifications notifications_;
  std::uint32_t queue_peers_ = 1;  // how many share a pair of completion queues
  std::vector<Queues> queues_;
  Regions regions_;
  base::UniqueFd wake_;  // epoll over the completion channel and the device's events
  // Whether there is a route, by port and GID here and GID and LID there: many peers share a
  // device, and for each address handle libibverbs reads all of the system's links and neighbours.
  std::map<std::tuple<int, int, selection::Gid, int>, bool> routes_;
  std::unique_ptr<Connector> connector_;
  std::optional<std::uint32_t> inline_bytes_max_;  // of every queue pair, once one was asked
  std::vector<Pending> pending_;                   // by index
  std::function<void(int peer)> want_;
  std::vector<VerbsConnection*> connections_;  // by index; nullptr: not yet, or no more
  // Connections that wait for a completion which they asked for. Where there is none the queue need
  // not be looked at: what fails unasked is found by poll_async_events.
  std::uint32_t awaiting_ = 0;
  Deadline watched_at_{};  // when silent links were last looked for
  std::optional<ErrorDetail> port_down_;
  std::optional<ErrorDetail> gid_gone_;  // one that a connection uses
  bool polled_ = false;                  // some connection's news are only seen in memory
  bool may_get_immediates_ = false;      // some connection's news are completions
  bool immediates_ = false;              // the same, and not of a second rail that had none yet
};

}  // namespace qpmesh::transport::verbs

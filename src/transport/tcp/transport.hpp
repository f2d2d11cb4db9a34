// SPDX-License-Identifier: MIT
// TCP: the way between ranks that neither shared memory nor an RDMA device joins. One socket for
// each pair, a Unix one where both are on one host, no thread. A write is a frame that names its
// target; the peer's process receives it there, in the order posted, whenever it looks
// (docs/decisions/0022-writes-over-a-socket.md).
//
// Sockets come connected and authenticated (bootstrap/streams.hpp). That a peer has died is told by
// the control channel; a socket that ends, or whose peer's kernel is silent, is a failed link.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/encryption.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "transport/tcp/regions.hpp"
#include "transport/transport.hpp"

namespace qpmesh::transport::tcp {

class TcpConnection;

struct Settings {
  // Sources up to this length may be reused at once: what the socket does not take is copied.
  std::size_t inline_bytes_max = 0;
  // For so long a peer's kernel may owe an acknowledgement.
  std::int64_t silence_ms_max = 8'000;
  // The context has peers of other transports, too: who waits for one of those does not pay for a
  // look at the sockets each time.
  bool beside_others = false;
};

// One end of a pair.
struct Joined {
  int peer = -1;
  std::string peer_name{};  // for people: "rank 3 (pid 12 on host b) at 10.0.0.2:4000"
  base::UniqueFd socket{};  // a connected stream, non-blocking
  // Our memory that the peer writes without asking where: Regions::window of its addresses.
  std::span<std::byte> window;
  bool on_host = false;                           // a Unix socket: found out by connect
  bool one_kernel = false;                        // runs both ends: nothing leaves the host
  std::optional<base::ConnectionKeys> keys = {};  // nothing: frames go as they are
};

// Who makes the sockets of connections that begin without one, when they are first used.
class Connector {
 public:
  virtual ~Connector() = default;
  // Once for each: it ends in TcpTransport::join or fail, from serve.
  virtual void want(int peer) = 0;
  // Goes on with what is under way and hears who calls; never blocks. True: something is under way.
  virtual bool serve() noexcept = 0;
  // Readable when serve has something to do, behind a request_notification, which says how long a
  // sleep may last.
  virtual int wake_descriptor() const noexcept = 0;
  virtual std::chrono::microseconds request_notification() noexcept = 0;
};

class TcpTransport final : public Transport {
 public:
  // Throws Error{no_resource}. system outlives the transport.
  TcpTransport(const base::System& system, const Settings& settings);
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  // Set-up. Without a socket the connection is made when it is first used: posts are busy until
  // then. Throws Error{no_resource}.
  std::unique_ptr<Connection> connect(Joined joined);
  // Before the first connection without a socket. Throws Error{no_resource}.
  void connect_by(std::unique_ptr<Connector> connector);
  // A connection without a socket gets one, or never will. Nothing happens where it is gone, or has
  // failed. Throws Error{no_resource}.
  void join(Joined joined);
  void fail(int peer, ErrorDetail why) noexcept;
  // The connector has begun something by itself.
  void serve_soon() noexcept { connecting_ = true; }

  RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind kind) override {
    return regions_.add(memory, kind);
  }
  bool deregister_memory(std::uint32_t region) noexcept override { return regions_.remove(region); }
  std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept override {
    return regions_.address_of(memory);
  }
  // A look at few sockets is a system call for each; at many it is one, and another one for each
  // that has news. Beside others, and where no more comes or leaves, it is one in looks_between.
  void progress() noexcept override;
  int wake_descriptor() const noexcept override { return epoll_.get(); }
  std::chrono::microseconds request_notification() noexcept override;
  void end_notification() noexcept override {
    asleep_ = false;
    connecting_ = connector_ != nullptr;
  }
  void poll_async_events() noexcept override;

 private:
  friend class TcpConnection;

  static constexpr std::size_t looked_at_each_max = 2;
  // From a sleep on, this often: who sleeps again soon does not begin to watch anew each time.
  static constexpr int watched_looks = 1'000;
  // Looks that found nothing, about 10 us of them: no answer is on its way to us. From then on what
  // comes waits for less than a microsecond.
  static constexpr int silent_looks_max = 32;
  static constexpr int looks_between = 16;

  // Looks at a connector that has nothing under way: somebody may call.
  static constexpr int looks_between_calls = 64;

  void set_up(Joined& joined) const;
  void watch_new(TcpConnection& connection, int socket);
  void want(TcpConnection& connection) noexcept;
  void serve_connector() noexcept;
  // What makes epoll_ readable: EPOLLIN, EPOLLOUT, both, or 0.
  void watch(TcpConnection& connection, std::uint32_t events) const noexcept;
  bool is_worth_a_look() noexcept;
  void watch_all() const noexcept;  // for what a sleep may end by
  // True when anything came.
  bool look_at_each() noexcept;
  bool look_at_ready() noexcept;

  const base::System& system_;
  Settings settings_;
  Capabilities capabilities_;
  base::UniqueFd epoll_;
  Regions regions_;
  std::vector<TcpConnection*> connections_;
  std::vector<TcpConnection*> unconnected_;
  std::unique_ptr<Connector> connector_;
  bool connecting_ = false;
  int looks_without_serving_ = 0;
  // Few sockets are watched for sleeps only: the system tells every packet to who watches, whether
  // he sleeps or not.
  bool watches_ = true;
  bool asleep_ = false;
  int looks_ = 0;         // since the last sleep
  int silent_looks_ = 0;  // since anything came, was posted, or somebody slept
  int skipped_looks_ = 0;
  bool awaits_acknowledgement_ = false;  // which wakes nobody
  Deadline silence_looked_for_at_{};
};

}  // namespace qpmesh::transport::tcp

// SPDX-License-Identifier: MIT
#include "transport/tcp/transport.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <new>
#include <utility>

#include "base/errors.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/frame.hpp"

namespace qpmesh::transport::tcp {
namespace {

// Between two looks for silent peers.
constexpr std::chrono::milliseconds silence_look_interval{500};
// While somebody waits until the peers' kernels have everything.
constexpr std::chrono::milliseconds acknowledgement_look_interval{1};
// What the system's own choice gains on a network costs time where there is none: one that paces
// (bbr) takes 1.25 of the time of a stream both ways. Every kernel has this one.
constexpr std::string_view congestion_control_on_one_kernel = "reno";

[[noreturn]] void fail_connecting(int peer, std::string_view call) {
  const int error = errno;
  base::throw_error({.code = ErrorCode::no_resource, .peer = peer, .system_error = error},
                    "connect", base::hint_for_descriptors(error), "{} failed", call);
}

}  // namespace

TcpTransport::TcpTransport(const base::System& system, const Settings& settings)
    : system_{system},
      settings_{settings},
      capabilities_{.name = "tcp",
                    .ordered_flag = true,
                    .registers_user_memory = true,
                    .registers_for_nothing = true,
                    .receiver_places = true,
                    .inline_bytes_max = settings.inline_bytes_max,
                    .write_bytes_max = write_bytes_max,
                    .eager_bytes_max = eager_bytes_max,
                    .eager_step_bytes_max = eager_step_bytes_max},
      epoll_{system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); })} {
  if (!epoll_) fail_connecting(no_peer, "epoll_create1");
}

TcpTransport::~TcpTransport() = default;

std::unique_ptr<Connection> TcpTransport::connect(Joined joined) {
  if (joined.socket) {
    set_up(joined);
    connections_.reserve(connections_.size() + 1);
    auto connection = std::make_unique<TcpConnection>(*this, std::move(joined));
    watch_new(*connection, connection->socket());
    return connection;
  }
  assert(connector_);
  unconnected_.reserve(unconnected_.size() + 1);
  connections_.reserve(connections_.size() + unconnected_.size() + 1);  // for join
  return std::make_unique<TcpConnection>(*this, std::move(joined));
}

void TcpTransport::connect_by(std::unique_ptr<Connector> connector) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = nullptr}};
  const int descriptor = connector->wake_descriptor();
  if (system_.call("epoll_ctl", [&] {
        return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event);
      }) != 0)
    fail_connecting(no_peer, "epoll_ctl");
  connector_ = std::move(connector);
}

void TcpTransport::join(Joined joined) {
  const auto found = std::ranges::find(unconnected_, joined.peer, &TcpConnection::peer);
  if (found == unconnected_.end() || (*found)->fault() != nullptr) return;
  TcpConnection& connection = **found;
  set_up(joined);
  watch_new(connection, joined.socket.get());
  connection.open(std::move(joined));
  unconnected_.erase(found);
  // From few to many sockets, which are found by the set.
  for (TcpConnection* const each : connections_) {
    if (each->fault() == nullptr) watch(*each, EPOLLIN);
  }
  watches_ = true;
  looks_ = 0;
}

void TcpTransport::fail(int peer, ErrorDetail why) noexcept {
  const auto found = std::ranges::find(unconnected_, peer, &TcpConnection::peer);
  if (found != unconnected_.end()) (*found)->give_up(std::move(why));
}

void TcpTransport::want(TcpConnection& connection) noexcept {
  connecting_ = true;
  auto failure = base::thrown_by([&] { connector_->want(connection.peer()); });
  if (failure) connection.give_up(*std::move(failure));
}

void TcpTransport::serve_connector() noexcept {
  if (!connector_) return;
  looks_without_serving_ = 0;
  connecting_ = connector_->serve();
}

void TcpTransport::set_up(Joined& joined) const {
  const int peer = joined.peer;
  const int socket = joined.socket.get();
  // A peer that computes does not read, and its window closes: the timer that ends the control
  // channel of a silent host would end this connection, too.
  const auto set = [&](int level, int name, int value) {
    return system_.call("setsockopt", [&] {
      return ::setsockopt(socket, level, name, &value, sizeof value);
    }) == 0;
  };
  int domain = 0;
  socklen_t bytes = sizeof domain;
  if (system_.call("getsockopt", [&] {
        return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
      }) != 0)
    fail_connecting(peer, "getsockopt");
  joined.on_host = domain == AF_UNIX;
  if (!joined.on_host &&
      (!set(IPPROTO_TCP, TCP_NODELAY, 1) || !set(IPPROTO_TCP, TCP_USER_TIMEOUT, 0) ||
       !set(SOL_SOCKET, SO_KEEPALIVE, 0)))
    fail_connecting(peer, "setsockopt");
  if (!joined.on_host && joined.one_kernel) {  // or as it is, where that is not allowed
    ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, congestion_control_on_one_kernel.data(),
                 congestion_control_on_one_kernel.size());
  }
}

void TcpTransport::watch_new(TcpConnection& connection, int socket) {
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &connection}};
  if (system_.call("epoll_ctl",
                   [&] { return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event); }) != 0)
    fail_connecting(connection.peer(), "epoll_ctl");
  connection.watched_for = EPOLLIN;
}

void TcpTransport::watch(TcpConnection& connection, std::uint32_t events) const noexcept {
  if (connection.watched_for == events) return;
  const int operation = connection.watched_for == 0 ? EPOLL_CTL_ADD
                        : events == 0               ? EPOLL_CTL_DEL
                                                    : EPOLL_CTL_MOD;
  epoll_event event{.events = events, .data = {.ptr = &connection}};
  if (::epoll_ctl(epoll_.get(), operation, connection.socket(), &event) == 0)
    connection.watched_for = events;
}

bool TcpTransport::look_at_each() noexcept {
  if (watches_ && !asleep_ && ++looks_ > watched_looks) {
    watches_ = false;
    for (TcpConnection* const connection : connections_) watch(*connection, 0);
  }
  bool news = false;
  for (TcpConnection* const connection : connections_) {
    news |= connection->receive();
    if (connection->has_unsent()) connection->flush();
  }
  return news;
}

bool TcpTransport::look_at_ready() noexcept {
  std::array<epoll_event, 16> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<std::size_t>(i)];
    if (event.data.ptr == nullptr) connecting_ = true;  // of the connector
    else if ((event.events & ~unsigned{EPOLLOUT}) != 0)
      static_cast<TcpConnection*>(event.data.ptr)->receive();
  }
  for (TcpConnection* const connection : connections_) {
    if (connection->has_unsent()) connection->flush();
  }
  return count > 0;
}

bool TcpTransport::is_worth_a_look() noexcept {
  if (!settings_.beside_others || silent_looks_ < silent_looks_max) return true;
  if (++skipped_looks_ < looks_between) return false;
  skipped_looks_ = 0;
  return true;
}

void TcpTransport::progress() noexcept {
  if (connector_ && (connecting_ || ++looks_without_serving_ > looks_between_calls))
    serve_connector();
  if (!is_worth_a_look()) return;
  const bool news = connections_.size() <= looked_at_each_max ? look_at_each() : look_at_ready();
  silent_looks_ = news ? 0 : silent_looks_ + 1;
  if (asleep_) watch_all();  // the last look before a sleep: it may have begun to send
}

void TcpTransport::watch_all() const noexcept {
  for (TcpConnection* const connection : connections_) {
    if (connection->fault() == nullptr)
      watch(*connection, EPOLLIN | (connection->has_unsent() ? unsigned{EPOLLOUT} : 0U));
  }
}

std::chrono::microseconds TcpTransport::request_notification() noexcept {
  watches_ = asleep_ = true;
  looks_ = silent_looks_ = 0;
  watch_all();
  const std::chrono::microseconds longest = std::exchange(awaits_acknowledgement_, false)
                                                ? acknowledgement_look_interval
                                                : silence_look_interval;
  return connector_ ? std::min(longest, connector_->request_notification()) : longest;
}

void TcpTransport::poll_async_events() noexcept {
  const Deadline now = system_.now();
  if (now - silence_looked_for_at_ < silence_look_interval) return;
  silence_looked_for_at_ = now;
  for (TcpConnection* const connection : connections_)
    connection->look_for_silence(now, settings_.silence_ms_max);
}

}  // namespace qpmesh::transport::tcp

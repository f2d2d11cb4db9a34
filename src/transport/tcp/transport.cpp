#include "transport/tcp/transport.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/errors.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/frame.hpp"

namespace qpmesh::transport::tcp {
namespace {

// Between two looks for silent peers.
constexpr std::chrono::milliseconds silence_look_interval{500};

[[noreturn]] void fail_connecting(int peer, std::string_view call) {
  base::throw_error({.code = ErrorCode::no_resource, .peer = peer, .system_error = errno},
                    "connect", "raise the limit of open files (ulimit -n)", "{} failed", call);
}

}  // namespace

TcpTransport::TcpTransport(const base::System& system, const Settings& settings)
    : system_{system},
      settings_{settings},
      capabilities_{.name = "tcp",
                    .ordered_flag = true,
                    .registers_user_memory = true,
                    .registers_for_nothing = true,
                    .deregistering_fences = true,
                    .inline_bytes_max = settings.inline_bytes_max,
                    .write_bytes_max = write_bytes_max},
      epoll_{system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); })} {
  if (!epoll_) fail_connecting(no_peer, "epoll_create1");
}

TcpTransport::~TcpTransport() = default;

std::unique_ptr<Connection> TcpTransport::connect(Joined joined) {
  const int peer = joined.peer;
  const int socket = joined.socket.get();
  // A peer that computes does not read, and its window closes: the timer that ends the control
  // channel of a silent host would end this connection, too.
  const auto set = [&](int level, int name, int value) {
    return system_.call("setsockopt", [&] {
      return ::setsockopt(socket, level, name, &value, sizeof value);
    }) == 0;
  };
  if (!set(IPPROTO_TCP, TCP_NODELAY, 1) || !set(IPPROTO_TCP, TCP_USER_TIMEOUT, 0) ||
      !set(SOL_SOCKET, SO_KEEPALIVE, 0))
    fail_connecting(peer, "setsockopt");
  connections_.reserve(connections_.size() + 1);
  auto connection = std::make_unique<TcpConnection>(*this, std::move(joined));
  epoll_event event{.events = EPOLLIN, .data = {.ptr = connection.get()}};
  if (system_.call("epoll_ctl",
                   [&] { return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event); }) != 0)
    fail_connecting(peer, "epoll_ctl");
  return connection;
}

void TcpTransport::watch(TcpConnection& connection, bool room, int operation) const noexcept {
  epoll_event event{.events = EPOLLIN | (room ? unsigned{EPOLLOUT} : 0U),
                    .data = {.ptr = &connection}};
  if (::epoll_ctl(epoll_.get(), operation, connection.socket(), &event) == 0)
    connection.watches_room = room;
}

void TcpTransport::progress() noexcept {
  if (connections_.size() == 1) {
    TcpConnection& connection = *connections_.front();
    if (connection.fault() != nullptr) return;
    connection.receive();
    if (connection.has_unsent()) connection.flush();
    return;
  }
  std::array<epoll_event, 16> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<std::size_t>(i)];
    if ((event.events & ~unsigned{EPOLLOUT}) != 0)
      static_cast<TcpConnection*>(event.data.ptr)->receive();
  }
  for (TcpConnection* const connection : connections_) {
    if (connection->has_unsent()) connection->flush();
  }
}

std::chrono::microseconds TcpTransport::request_notification() noexcept {
  for (TcpConnection* const connection : connections_) {
    const bool room = connection->has_unsent();
    if (room != connection->watches_room) watch(*connection, room, EPOLL_CTL_MOD);
  }
  return silence_look_interval;
}

void TcpTransport::poll_async_events() noexcept {
  const Deadline now = system_.now();
  if (now - watched_at_ < silence_look_interval) return;
  watched_at_ = now;
  for (TcpConnection* const connection : connections_)
    connection->look_for_silence(settings_.silence_ms_max);
}

}  // namespace qpmesh::transport::tcp

// Two ends of a socket over loopback, in one process, under the conformance suites; once with room
// for little, so that sources wait in the outbox.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <stdexcept>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "tests/conformance/transport_conformance.hpp"
#include "transport/tcp/transport.hpp"

namespace qpmesh::test {
namespace {

using transport::tcp::TcpTransport;

std::array<base::UniqueFd, 2> connected_sockets(int buffer_bytes) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const base::UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  base::UniqueFd caller{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (buffer_bytes > 0) {  // before they connect: the window follows from it
    for (const int socket : {listener.get(), caller.get()}) {
      ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
      ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    }
  }
  if (::bind(listener.get(), generic, bytes) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), generic, &bytes) != 0 ||
      ::connect(caller.get(), generic, bytes) != 0)
    throw std::runtime_error{"no connection over loopback"};
  return {base::UniqueFd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)},
          std::move(caller)};
}

class TcpPair final : public ConnectedPair {
 public:
  explicit TcpPair(std::size_t inline_bytes_max, int buffer_bytes) {
    auto sockets = connected_sockets(buffer_bytes);
    for (const std::size_t side : {0U, 1U}) {
      memory_[side].resize(memory_bytes);
      transports_[side] = std::make_unique<TcpTransport>(
          system_, transport::tcp::Settings{.inline_bytes_max = inline_bytes_max});
      const std::span window = std::span{memory_[side]}.first(4096);
      connections_[side] = transports_[side]->connect({.peer = static_cast<int>(1 - side),
                                                       .peer_name = "the other end",
                                                       .socket = std::move(sockets[side]),
                                                       .window = window});
      ends_[side] = {.transport = transports_[side].get(),
                     .connection = connections_[side].get(),
                     .memory = memory_[side],
                     .address = transports_[side]->register_memory(memory_[side],
                                                                   transport::RegionKind::lasting),
                     .region_bytes = memory_bytes};
    }
  }

  End& end(int side) override { return ends_[static_cast<std::size_t>(side)]; }
  void pump() override {
    for (const auto& one : transports_) one->progress();
  }

 private:
  base::System system_;
  std::array<std::vector<std::byte>, 2> memory_;
  std::array<std::unique_ptr<TcpTransport>, 2> transports_;
  std::array<std::unique_ptr<transport::Connection>, 2> connections_;
  std::array<End, 2> ends_;
};

const PairFactory tcp{"tcp", [] { return std::make_unique<TcpPair>(256 * 1024, 0); }};
const PairFactory short_of_room{"short_of_room",
                                [] { return std::make_unique<TcpPair>(1024, 4096); }};

}  // namespace

// No Immediates: a frame is placed by who looks at it.
INSTANTIATE_TEST_SUITE_P(tcp, TransportConformance, ::testing::Values(tcp, short_of_room),
                         factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, OrderedWrites, ::testing::Values(tcp, short_of_room), factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, OrderedFlags, ::testing::Values(tcp, short_of_room), factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, Registrations, ::testing::Values(tcp, short_of_room), factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, Fences, ::testing::Values(tcp, short_of_room), factory_name);

}  // namespace qpmesh::test

// SPDX-License-Identifier: MIT
// Two ends of a socket over loopback, in one process, under the conformance suites; once with room
// for little, so that sources wait in the outbox.
#include <sys/socket.h>

#include <array>
#include <memory>

#include "base/system.hpp"
#include "tests/conformance/transport_conformance.hpp"
#include "tests/support/loopback_sockets.hpp"
#include "transport/tcp/transport.hpp"

namespace qpmesh::test {
namespace {

using transport::tcp::TcpTransport;

class TcpPair final : public ConnectedPair {
 public:
  enum class Frames { plain, encrypted };

  TcpPair(std::size_t inline_bytes_max, std::array<base::UniqueFd, 2> sockets,
          Frames frames = Frames::plain) {
    const std::array pairs{base::make_key_pair(system_), base::make_key_pair(system_)};
    for (const std::size_t side : {0U, 1U}) {
      memory_[side].resize(memory_bytes);
      transports_[side] = std::make_unique<TcpTransport>(
          system_, transport::tcp::Settings{.inline_bytes_max = inline_bytes_max});
      const std::span window = std::span{memory_[side]}.first(4096);
      std::optional<base::ConnectionKeys> keys;
      if (frames == Frames::encrypted)
        keys = base::agree_on_keys(pairs[side], pairs[1 - side].public_key);
      connections_[side] = transports_[side]->connect({.peer = static_cast<int>(1 - side),
                                                       .peer_name = "the other end",
                                                       .socket = std::move(sockets[side]),
                                                       .window = window,
                                                       .keys = keys});
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

const PairFactory tcp{"tcp",
                      [] { return std::make_unique<TcpPair>(256 * 1024, loopback_sockets()); }};
const PairFactory short_of_room{
    "short_of_room", [] { return std::make_unique<TcpPair>(1024, loopback_sockets(4096)); }};

const PairFactory on_one_host{"on_one_host", [] {
                                std::array<int, 2> ends{-1, -1};
                                ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
                                return std::make_unique<TcpPair>(
                                    256 * 1024,
                                    std::array{base::UniqueFd{ends[0]}, base::UniqueFd{ends[1]}});
                              }};

const PairFactory encrypted{"encrypted", [] {
                              return std::make_unique<TcpPair>(256 * 1024, loopback_sockets(),
                                                               TcpPair::Frames::encrypted);
                            }};
const PairFactory encrypted_short_of_room{
    "encrypted_short_of_room", [] {
      return std::make_unique<TcpPair>(1024, loopback_sockets(4096), TcpPair::Frames::encrypted);
    }};

const auto all =
    ::testing::Values(tcp, short_of_room, on_one_host, encrypted, encrypted_short_of_room);

}  // namespace

// No Immediates: a frame is placed by who looks at it.
INSTANTIATE_TEST_SUITE_P(tcp, TransportConformance, all, factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, OrderedWrites, all, factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, OrderedFlags, all, factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, Registrations, all, factory_name);
INSTANTIATE_TEST_SUITE_P(tcp, Fences, all, factory_name);

}  // namespace qpmesh::test

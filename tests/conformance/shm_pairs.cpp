// SPDX-License-Identifier: MIT
// Shared memory under the conformance suites: two ranks in one process, each
// with its own mapping of the other's arena.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/system.hpp"
#include "tests/conformance/transport_conformance.hpp"
#include "transport/shm/transport.hpp"

namespace qpmesh::test {
namespace {

using transport::Arena;
using transport::shm::ShmTransport;

class ShmPair final : public ConnectedPair {
 public:
  ShmPair() {
    for (const int side : {0, 1})
      at(transports_, side) =
          std::make_unique<ShmTransport>(side, at(arenas_, side), at(doorbells_, side).get());
    for (const int side : {0, 1}) {
      const int peer = 1 - side;
      at(transports_, side)
          ->add_peer(peer, {system_,
                            at(arenas_, peer).descriptor(),
                            arena_bytes,
                            base::UniqueFd{::fcntl(at(doorbells_, peer).get(), F_DUPFD_CLOEXEC, 0)},
                            {::getpid(), {reinterpret_cast<std::uintptr_t>(&word_), word_}}});
    }
    for (const int side : {0, 1}) {
      const int peer = 1 - side;
      at(connections_, side) = at(transports_, side)->connect(peer);
      Arena& arena = at(arenas_, side);
      const std::uint64_t offset = arena.allocate(memory_bytes).value();
      const std::span memory{arena.data() + offset, memory_bytes};
      at(ends_, side) = {
          .transport = at(transports_, side).get(),
          .connection = at(connections_, side).get(),
          .memory = memory,
          .address = at(transports_, side)->register_memory(memory, transport::RegionKind::lasting),
          .region_bytes = arena_bytes};
    }
  }

  End& end(int side) override { return at(ends_, side); }
  void pump() override {
    for (const auto& one : transports_) one->progress();
  }

 private:
  static constexpr std::size_t arena_bytes = memory_bytes + 64 * 1024;

  template <class T>
  static T& at(std::array<T, 2>& both, int side) {
    return both[static_cast<std::size_t>(side)];
  }

  base::System system_;
  const std::uint64_t word_ = system_.random_u64();
  std::array<Arena, 2> arenas_{Arena::create_shared(system_, arena_bytes),
                               Arena::create_shared(system_, arena_bytes)};
  std::array<base::UniqueFd, 2> doorbells_{
      base::UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      base::UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}};
  std::array<std::unique_ptr<ShmTransport>, 2> transports_;
  std::array<std::unique_ptr<transport::Connection>, 2> connections_;
  std::array<End, 2> ends_;
};

const PairFactory shm{"shm", [] { return std::make_unique<ShmPair>(); }};

}  // namespace

// No Immediates: shm has none. No Fences: peers write the arena only, which stays mapped.
INSTANTIATE_TEST_SUITE_P(shm, TransportConformance, ::testing::Values(shm), factory_name);
INSTANTIATE_TEST_SUITE_P(shm, OrderedWrites, ::testing::Values(shm), factory_name);
INSTANTIATE_TEST_SUITE_P(shm, OrderedFlags, ::testing::Values(shm), factory_name);

}  // namespace qpmesh::test

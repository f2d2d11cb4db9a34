// SPDX-License-Identifier: MIT
// One rank's engine and messaging that talk to themselves over shared memory:
// the least world in which messages move.
#pragma once

#include <sys/eventfd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/group.hpp"
#include "collectives/real_machine.hpp"
#include "messaging/messaging.hpp"
#include "progress/engine.hpp"
#include "transport/shm/transport.hpp"

namespace qpmesh::test {

struct LoneRank final : messaging::Listener {
  static constexpr messaging::RingLayout layout{.payload_ring_units = 64};
  static constexpr std::uint64_t communicator = 9;

  LoneRank() {
    slot = arena.data() + arena.allocate(layout.slot_bytes()).value();
    messaging.add_peer(0, {.transport = &shm,
                           .connection = connection.get(),
                           .layout = layout,
                           .slot = slot,
                           .remote_slot = {.region = 0, .offset = arena.offset_of(slot)},
                           .staging = {},
                           .send_seed = 1,
                           .receive_seed = 1});
    engine.set_sources(&messaging, nullptr);
  }

  collectives::Group group() { return {members, 0, 0}; }
  void steps() {
    for (int i = 0; i < 10; ++i) engine.step();
  }

  bool agrees(int, std::uint64_t, std::uint32_t, std::uint32_t) override { return true; }
  void link_failed(ErrorDetail detail) override { failures.push_back(std::move(detail)); }
  void communicator_failed(std::uint64_t id, ErrorDetail detail) override {
    failures.push_back(detail);
    if (failure) return;
    failure = std::make_unique<const Error>(std::move(detail));
    messaging.fail(id, *failure);
  }

  std::vector<ErrorDetail> failures;
  std::unique_ptr<const Error> failure;  // of the communicator
  base::System system;
  base::Log log;
  base::UniqueFd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  transport::Arena arena = transport::Arena::create_private(system, std::size_t{1} << 20);
  transport::shm::ShmTransport shm{0, arena, doorbell.get()};
  std::unique_ptr<transport::Connection> connection = shm.connect(0);
  std::byte* slot = nullptr;  // what this rank writes to itself, and reads
  progress::Engine engine;
  int self = 0;
  messaging::Messaging messaging{
      engine,
      system,
      log,
      *this,
      {.eager_bytes_max = 1024, .unexpected_bytes_max = 1 << 16, .unexpected_messages_max = 100},
      1};
  collectives::RealMachine machine{messaging, engine.pool()};
  collectives::Group::Members members{.machine = &machine,
                                      .context_ranks = &self,
                                      .size = 1,
                                      .rank = 0,
                                      .communicator = communicator};
};

}  // namespace qpmesh::test

// SPDX-License-Identifier: MIT
// What the library's innermost steps cost, to be held against one flag exchange
// between two cores of the same run.
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "bench/micro/probe.hpp"
#include "bench/micro/threads.hpp"
#include "collectives/choice.hpp"
#include "messaging/rings/layout.hpp"
#include "messaging/rings/receive_ring.hpp"
#include "messaging/rings/send_ring.hpp"
#include "progress/engine.hpp"
#include "progress/task.hpp"
#include "progress/wait.hpp"
#include "transport/memory.hpp"
#include "transport/shm/transport.hpp"

namespace qpmesh::bench {
namespace {

using messaging::ProcessAtomics;

// ---- task step: one nested co_await of a task that ends at once, its frame from the pool ----

progress::Task leaf(std::uint64_t& sum) {
  ++sum;
  co_return;
}

progress::Task await_leaves(int count, std::uint64_t& sum) {
  for (int i = 0; i < count; ++i) co_await leaf(sum);
}

double task_step_ns(CorePair cores) {
  constexpr int steps = 2000;
  pin_to(cores.first);
  progress::Engine engine;
  progress::TaskOperation operation;
  std::uint64_t sum = 0;
  const double ns = elapsed_ns([&] {
    engine.start(operation, [&] { return await_leaves(steps, sum); });
    while (!operation.done) engine.step();
  });
  if (sum != steps) std::abort();  // the number below would be about something else
  return ns / steps;
}

// ---- choice: which algorithm runs a call of a length that was called before, and is not timed
// ----

double choice_ns(CorePair cores) {
  constexpr int calls = 10'000;
  pin_to(cores.first);
  collectives::Selector selector{collectives::TopologyParams{.shares_memory = true}};
  collectives::CallShape shape{.size = 2, .bytes = 8, .one_node = true};
  const auto choose = [&] {
    asm volatile("" : "+m"(shape.bytes));  // or it is chosen once, before the loop
    return selector.select(shape, Collective::allreduce, {}).row;
  };
  const collectives::Algorithm* const first = choose();
  int others = 0;
  const double ns = elapsed_ns([&] {
    for (int i = 0; i < calls; ++i) others += choose() == first ? 0 : 1;
  });
  if (others != 0) std::abort();
  return ns / calls;
}

// ---- ring put and take: a record with 8 bytes inline over shared memory, both ends in this thread
// ----

class LoopedRing {
 public:
  LoopedRing()
      : doorbell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
        arena_{transport::Arena::create_private(system_, arena_bytes)},
        shm_{0, arena_, doorbell_.get()},
        connection_{shm_.connect(0)},
        slot_offset_{arena_.allocate(layout.slot_bytes()).value()},
        out_{*connection_, connection_->capabilities(), places(), layout, seed, seed},
        in_{*connection_, connection_->capabilities(), arena_.data() + slot_offset_, layout, seed} {
  }

  void put() {
    messaging::Record record;
    record.header() = {.sequence = 0,
                       .checksum = 0,
                       .kind = messaging::RecordKind::eager_inline,
                       .flags = 0,
                       .length_words = messaging::record_length(payload_bytes) / 8,
                       .inline_bytes = payload_bytes,
                       .consumed = 0,
                       .communicator = 1,
                       .key = 2,
                       .total_bytes = payload_bytes,
                       .signature = 0};
    std::memcpy(record.body(), &value_, payload_bytes);
    ++value_;
    if (out_.send(record, {}, Out::Priority::data, {}) != Out::Sent::posted) std::abort();
  }
  void take() {
    messaging::TakenMessage message;
    if (in_.take(message, [](const messaging::Immediate&) {}) != In::Take::taken) std::abort();
    in_.release(message);
  }
  void return_credits() {
    if (out_.return_credits(in_.consumed()) != Out::Sent::posted) std::abort();
    out_.poll_credits();
  }

 private:
  using Out = messaging::SendRing<ProcessAtomics>;
  using In = messaging::ReceiveRing<ProcessAtomics>;
  static constexpr std::size_t arena_bytes = std::size_t{1} << 20;
  static constexpr messaging::RingLayout layout{.payload_ring_units = 1024};
  static constexpr std::uint32_t seed = 7;
  static constexpr std::uint8_t payload_bytes = sizeof(std::uint64_t);

  messaging::SendPlaces places() const {
    return {.slot = {.region = 0, .offset = slot_offset_},
            .credit_cell = arena_.data() + slot_offset_ + messaging::RingLayout::credit_cell_offset,
            .staging = {}};
  }

  base::System system_;
  base::UniqueFd doorbell_;
  transport::Arena arena_;
  transport::shm::ShmTransport shm_;
  std::unique_ptr<transport::Connection> connection_;
  std::uint64_t slot_offset_;
  Out out_;
  In in_;
  std::uint64_t value_ = 0;
};

enum class RingEnd { put, take };

// Bursts of half a ring; only one end's half of each burst is on the clock.
double ring_ns(CorePair cores, LoopedRing& ring, RingEnd measured) {
  constexpr int bursts = 50;
  constexpr int burst_records = messaging::record_ring_lines / 2;
  pin_to(cores.first);
  double ns = 0;
  for (int burst = 0; burst < bursts; ++burst) {
    const double put_ns = elapsed_ns([&] {
      for (int i = 0; i < burst_records; ++i) ring.put();
    });
    const double take_ns = elapsed_ns([&] {
      for (int i = 0; i < burst_records; ++i) ring.take();
    });
    ring.return_credits();
    ns += measured == RingEnd::put ? put_ns : take_ns;
  }
  return ns / (bursts * burst_records);
}

// ---- bulk: what a long message's bytes go through, beside libc's copy between the same vectors
// ----

void copy_by_a_write(CopiedVectors& vectors) {
  base::Asleep asleep{};
  const transport::Neighbour peer{vectors.to, asleep, -1};
  transport::shm::ShmConnection connection{0, peer};
  const transport::Write write{.body = vectors.from};
  connection.post({&write, 1});
}

// ---- wake-up: a rank that sleeps in the waiting function, woken by a write of its peer ----

// One rank's memory, as far as sleeping and waking needs it.
struct Sleeper final : progress::Pollable {
  alignas(128) std::atomic<std::uint32_t> round{
      0};  // written by the peer's connection, which releases it
  std::uint32_t seen = 0;
  alignas(128) base::Asleep asleep{};
  base::UniqueFd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  base::System system;
  progress::Engine engine;
  // Sleeps at once: this is about the sleep and not about how well spinning avoids it.
  progress::Waiter waiter{engine,
                          system,
                          {.spins_max = 0, .yields_max = 0, .polls_per_yield = 1},
                          {.asleep = &asleep, .eventfd = doorbell.get()}};

  Sleeper() { engine.set_sources(this, nullptr); }

  bool poll() override {
    const std::uint32_t now = round.load(std::memory_order_acquire);
    return now != std::exchange(seen, now);
  }
  void await(std::uint32_t wanted) {
    waiter.wait_until([&] { return seen == wanted; }, {});
  }
  const transport::Neighbour as_seen{std::as_writable_bytes(std::span{&round, 1}), asleep,
                                     doorbell.get()};

  transport::shm::ShmConnection connection_to_it() { return {0, as_seen}; }
};

void announce(transport::Connection& connection, std::uint32_t round) {
  const transport::Write write{.head = std::as_bytes(std::span{&round, 1}), .flag_offset = 0};
  connection.post({&write, 1});
}

double wake_ns(CorePair cores) {
  constexpr std::uint32_t round_trips = 200;
  Sleeper first;
  Sleeper second;
  return run_pair_ns(
             cores,
             [&] {
               auto to_second = second.connection_to_it();
               for (std::uint32_t round = 1; round <= round_trips; ++round) {
                 announce(to_second, round);
                 first.await(round);
               }
             },
             [&] {
               auto to_first = first.connection_to_it();
               for (std::uint32_t round = 1; round <= round_trips; ++round) {
                 second.await(round);
                 announce(to_first, round);
               }
             }) /
         (2 * round_trips);
}

}  // namespace

std::vector<Probe> own_probes(CorePair cores) {
  const CorePair one_core{.first = cores.first, .second = cores.first};
  const auto ring = std::make_shared<LoopedRing>();
  std::vector<Probe> probes{
      {.name = "ours/ring_take",
       .sample_ns = [cores, ring] { return ring_ns(cores, *ring, RingEnd::take); }},
      {.name = "ours/choice", .sample_ns = [cores] { return choice_ns(cores); }},
      {.name = "ours/wake/one_core", .sample_ns = [one_core] { return wake_ns(one_core); }}};
  for (const auto& [size_name, bytes] :
       {std::pair{"64KiB", std::size_t{64} << 10}, std::pair{"1MiB", std::size_t{1} << 20},
        std::pair{"16MiB", std::size_t{16} << 20}}) {
    const auto vectors = std::make_shared<CopiedVectors>(bytes);
    probes.push_back({.name = std::string{"ours/write/"} + size_name,
                      .sample_ns = copy_sampler(vectors, copy_by_a_write),
                      .bytes = static_cast<double>(bytes),
                      .reference_ns = copy_sampler(vectors, copy_by_libc),
                      .share_max = 1.1});
  }
  // No step between cores, but as dear as one may be beside it.
  const auto flag_ns = [cores] { return flag_exchange_ns(cores); };
  const double bounded = cores.distinct() ? 1 : 0;
  probes.push_back({.name = "ours/task_step",
                    .sample_ns = [cores] { return task_step_ns(cores); },
                    .reference_ns = flag_ns,
                    .share_max = 0.25 * bounded});
  probes.push_back({.name = "ours/ring_put",
                    .sample_ns = [cores, ring] { return ring_ns(cores, *ring, RingEnd::put); },
                    .reference_ns = flag_ns,
                    .share_max = 0.5 * bounded});
  if (cores.distinct()) {
    probes.push_back(
        {.name = "ours/wake/two_cores", .sample_ns = [cores] { return wake_ns(cores); }});
  }
  return probes;
}

}  // namespace qpmesh::bench

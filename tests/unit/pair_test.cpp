// Two ranks in one process, each stepped when a test says so: who copies how much of a long message, and credits that come late.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/group.hpp"
#include "messaging/messaging.hpp"
#include "progress/engine.hpp"
#include "transport/shm/connection.hpp"
#include "transport/shm/transport.hpp"

namespace qpmesh::messaging {
namespace {

// To a rank in this process, whose memory is private to it all the same.
class NearConnection final : public transport::Connection {
 public:
  explicit NearConnection(transport::Arena& peer)
      : peer_{peer}, own_{0, peer_}, capabilities_{own_.capabilities()} {
    capabilities_.copies_private_memory = capabilities_.fills_private_memory = true;
  }

  std::function<void()> at_first_copy = [] {};
  bool may_fill = true;
  std::vector<std::size_t> copies;

  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  transport::Post post(std::span<const transport::Write> chain) noexcept override { return own_.post(chain); }
  std::uint64_t completed() const noexcept override { return own_.completed(); }
  std::optional<std::uint32_t> take_arrival() noexcept override { return std::nullopt; }
  const std::byte* load(transport::RemoteAddress source, std::size_t bytes) noexcept override {
    return own_.load(source, bytes);
  }
  bool copy_private(std::byte* target, std::uint64_t address, std::size_t bytes) noexcept override {
    if (copies.empty()) at_first_copy();
    copies.push_back(bytes);
    return memory_.copy(target, address, bytes) == 0;
  }
  bool fill_private(const transport::PrivateTarget& target,
                    std::span<const std::byte> source) noexcept override {
    if (!may_fill) return false;
    auto& guard = *reinterpret_cast<base::FillGuard*>(peer_.at(target.guard.offset, sizeof(base::FillGuard)));
    return memory_.fill(guard, target.guard_address, target.number, target.address, source.data(),
                        source.size());
  }
  void sever() noexcept override { own_.sever(); }
  const transport::Fault* fault() const noexcept override { return own_.fault(); }

 private:
  transport::Neighbour peer_;
  transport::shm::ShmConnection own_;
  transport::Capabilities capabilities_;
  base::ProcessMemory memory_ = base::ProcessMemory::of_simulated_rank();
};

struct Pair : Listener {
  static constexpr RingLayout layout{.payload_ring_units = 64};

  struct Rank {
    Rank(Pair& pair, int number, transport::Arena& own, transport::Arena& other, bool own_core)
        : arena{own},
          shm{number, own, -1},
          connection{other},
          messaging{engine,
                    pair.system,
                    pair.log,
                    pair,
                    {.eager_bytes_max = 1024,
                     .unexpected_bytes_max = 1 << 16,
                     .unexpected_messages_max = 100,
                     .own_core = own_core,
                     .revocations = &own.header().revocations},
                    2},
          machine{messaging, engine.pool()},
          members{.machine = &machine,
                  .context_ranks = pair.ranks.data(),
                  .size = 2,
                  .rank = number,
                  .communicator = 9} {
      engine.set_sources(&messaging, nullptr);
    }
    collectives::Group group() { return {members, 0, 0}; }

    transport::Arena& arena;
    transport::shm::ShmTransport shm;
    NearConnection connection;
    progress::Engine engine;
    Messaging messaging;
    collectives::RealMachine machine;
    collectives::Group::Members members;
  };

  explicit Pair(bool own_core = true) {
    const std::array slots{arenas[0].allocate(layout.slot_bytes()).value(),
                           arenas[1].allocate(layout.slot_bytes()).value()};
    for (int rank = 0; rank < 2; ++rank) {
      const auto own = static_cast<std::size_t>(rank);
      const std::size_t other = 1 - own;
      at[own] = std::make_unique<Rank>(*this, rank, arenas[own], arenas[other], own_core);
      at[own]->messaging.add_peer(
          1 - rank,
          {.transport = &at[own]->shm,
           .connection = &at[own]->connection,
           .layout = layout,
           .slot = arenas[own].data() + slots[own],
           .remote_slot = {.region = 0, .offset = slots[other]},
           .remote_revocations = {.region = 0, .offset = offsetof(transport::ArenaHeader, revocations)},
           .staging = {},
           .send_seed = 1,
           .receive_seed = 1});
    }
  }

  Rank& sender() { return *at[0]; }
  Rank& receiver() { return *at[1]; }

  void step_both() {
    for (int i = 0; i < 10; ++i) {
      receiver().engine.step();
      sender().engine.step();
    }
  }
  // Sends so many bytes, which arrive; gives the copies that the receiver made for it.
  std::vector<std::size_t> copies_of(std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 4096);
    std::vector<std::byte> in(bytes);
    ReceiveOperation receive = receiver().group().receive_operation(0, in);
    SendOperation send = sender().group().send_operation(1, out);
    receive.key = send.key = tag_key(1);
    receiver().connection.copies.clear();
    receiver().messaging.start(receive);
    sender().messaging.start(send);
    step_both();
    EXPECT_TRUE(receive.done && send.done);
    EXPECT_TRUE(in == out);
    return receiver().connection.copies;
  }

  bool admit(int, std::uint64_t, std::uint64_t, std::uint32_t) override { return true; }
  void link_failed(ErrorDetail detail) override { ADD_FAILURE() << detail.cause; }
  void communicator_failed(std::uint64_t, ErrorDetail detail) override { ADD_FAILURE() << detail.cause; }

  base::System system;
  base::Log log;
  std::array<int, 2> ranks{0, 1};
  std::array<transport::Arena, 2> arenas{transport::Arena::create_private(system, std::size_t{1} << 20),
                                         transport::Arena::create_private(system, std::size_t{1} << 20)};
  std::array<std::unique_ptr<Rank>, 2> at;
};

using Copies = std::vector<std::size_t>;

TEST(a_sender_that_polls, copies_the_second_half_while_the_receiver_copies_the_first) {
  if (!base::ProcessMemory::can_fill) GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  pair.receiver().connection.at_first_copy = [&] { pair.sender().engine.step(); };
  for (const std::size_t bytes : {base::filled_bytes_min, base::filled_bytes_min + 1, std::size_t{1234567}})
    EXPECT_EQ(pair.copies_of(bytes).size(), 1U) << bytes;
  EXPECT_EQ(pair.receiver().messaging.counters().helped_pulls, 3U);
}

TEST(a_sender_that_polls, too_late_finds_that_the_receiver_has_copied_everything) {
  Pair pair;
  const std::size_t half = base::FillShare{}.first_bytes(base::filled_bytes_min);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(pair.copies_of(base::filled_bytes_min), (Copies{half, base::filled_bytes_min - half}));
  EXPECT_EQ(pair.receiver().messaging.counters().helped_pulls, 0U);
}

TEST(a_sender_that_polls, when_the_receive_has_ended_writes_nothing_into_its_buffer) {
  Pair pair;
  const std::vector<std::byte> out(base::filled_bytes_min, std::byte{1});
  std::vector<std::byte> in(base::filled_bytes_min);
  ReceiveOperation receive = pair.receiver().group().receive_operation(0, in);
  SendOperation send = pair.sender().group().send_operation(1, out);
  receive.key = send.key = tag_key(1);
  pair.receiver().messaging.start(receive);
  pair.sender().messaging.start(send);
  while (!receive.done) pair.receiver().engine.step();
  std::ranges::fill(in, std::byte{2});
  pair.step_both();
  EXPECT_TRUE(send.done);
  EXPECT_TRUE(std::ranges::all_of(in, [](std::byte byte) { return byte == std::byte{2}; }));
}

// The cell overtakes it: what it carries is older by exactly a turn of 16 bits, and would read as "nothing is in flight".
TEST(a_record, that_was_unread_while_the_cell_told_a_whole_turn_of_credits_brings_none) {
  Pair pair;
  constexpr std::size_t bytes = 1024;
  constexpr int turn = 65536 / (bytes / unit_bytes);
  constexpr int held = 2;  // by the receiver, of the four that fill a ring
  constexpr int more = 4;
  struct Sent {
    std::vector<std::byte> data;
    SendOperation operation;
  };
  std::deque<Sent> sent;
  const auto send = [&](int number) {
    sent.push_back({std::vector<std::byte>(bytes, static_cast<std::byte>(number)), {}});
    SendOperation& operation = sent.back().operation;
    operation = pair.sender().group().send_operation(1, sent.back().data);
    operation.key = tag_key(1);
    pair.sender().messaging.start(operation);
  };
  std::vector<std::byte> in(bytes);
  const auto receive = [&](int number) {
    ReceiveOperation operation = pair.receiver().group().receive_operation(0, in);
    operation.key = tag_key(1);
    pair.receiver().messaging.start(operation);
    for (int step = 0; step < 100 && !operation.done; ++step) pair.receiver().engine.step();
    ASSERT_TRUE(operation.done) << number;
    ASSERT_EQ(in, std::vector<std::byte>(bytes, static_cast<std::byte>(number))) << number;
  };
  std::vector<std::byte> word(8);
  SendOperation early = pair.receiver().group().send_operation(0, word);
  early.key = tag_key(7);
  pair.receiver().messaging.start(early);
  for (int number = 0; number < turn; ++number) {
    send(number);
    if (number < turn - held) {
      ASSERT_NO_FATAL_FAILURE(receive(number));
    }
  }
  ReceiveOperation late = pair.sender().group().receive_operation(1, word);
  late.key = tag_key(7);
  pair.sender().messaging.start(late);
  pair.sender().engine.step();
  ASSERT_TRUE(late.done);
  for (int number = turn; number < turn + more; ++number) send(number);
  for (int number = turn - held; number < turn + more; ++number) ASSERT_NO_FATAL_FAILURE(receive(number));
  pair.step_both();
  EXPECT_TRUE(std::ranges::all_of(sent, [](const Sent& each) { return each.operation.done; }));
}

TEST(a_sender_that_polls, and_whom_the_system_forbids_to_fill_leaves_the_second_half_to_the_receiver) {
  Pair pair;
  pair.receiver().connection.at_first_copy = [&] { pair.sender().engine.step(); };
  pair.sender().connection.may_fill = false;
  EXPECT_EQ(pair.copies_of(base::filled_bytes_min).size(), 2U);
}

TEST(a_receiver,
     asks_for_no_help_with_short_messages_on_shared_cores_and_where_the_sender_has_its_own_to_receive) {
  Pair pair;
  EXPECT_EQ(pair.copies_of(base::filled_bytes_min - 1), Copies{base::filled_bytes_min - 1});
  Pair sharing{false};
  EXPECT_EQ(sharing.copies_of(base::filled_bytes_min), Copies{base::filled_bytes_min});
  std::vector<std::byte> back(2048);
  SendOperation send = pair.receiver().group().send_operation(0, back);
  pair.receiver().messaging.start(send);
  EXPECT_EQ(pair.copies_of(base::filled_bytes_min), Copies{base::filled_bytes_min});
  EXPECT_FALSE(send.done);
  ReceiveOperation receive = pair.sender().group().receive_operation(1, back);
  receive.key = send.key;
  pair.sender().messaging.start(receive);
  pair.step_both();
  EXPECT_TRUE(send.done);
}

}  // namespace
}  // namespace qpmesh::messaging

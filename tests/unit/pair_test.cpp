// SPDX-License-Identifier: MIT
// Two ranks in one process, each stepped when a test says so: who copies how much of a long
// message, and credits that come late.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/group.hpp"
#include "collectives/real_machine.hpp"
#include "messaging/messaging.hpp"
#include "progress/engine.hpp"
#include "transport/shm/transport.hpp"

namespace qpmesh::messaging {
namespace {

// A rank in this process, whose memory is private to it all the same.
class Near final : public transport::Neighbour {
 public:
  enum class Fills : std::uint8_t { at_once, never, when_let };

  explicit Near(const transport::Arena& arena) : Neighbour{arena} {}

  std::function<void()> at_first_copy = [] {};
  Fills fills = Fills::at_once;
  bool ended = false;
  mutable std::vector<std::size_t> copies;
  mutable std::function<void()> let_go = [] {};  // of what it holds in the middle of filling

  bool copies_private() const noexcept override { return true; }
  int copy_private(std::byte* target, std::uint64_t address,
                   std::size_t bytes) const noexcept override {
    if (copies.empty()) at_first_copy();
    copies.push_back(bytes);
    std::memcpy(target, reinterpret_cast<const std::byte*>(address), bytes);
    return 0;
  }
  bool fill(transport::FillGuard& guard, const transport::FillTarget& target,
            std::span<const std::byte> source) const noexcept override {
    if (fills == Fills::never || !guard.begin(target.number)) return false;
    let_go = [&guard, target, source] {
      std::memcpy(reinterpret_cast<std::byte*>(target.address), source.data(), source.size());
      guard.end(target.number);
    };
    if (fills == Fills::at_once) let_go();
    return true;
  }
  bool has_ended() const noexcept override { return ended; }
};

struct Pair : Listener {
  static constexpr RingLayout layout{.payload_ring_units = 64};

  struct Rank {
    Rank(Pair& pair, int number, transport::Arena& own, transport::Arena& other, bool own_core)
        : arena{own},
          shm{number, own, -1},
          neighbour{other},
          connection{1 - number, neighbour},
          messaging{engine,
                    pair.system,
                    pair.log,
                    pair,
                    {.eager_bytes_max = 1024,
                     .unexpected_bytes_max = 1 << 16,
                     .unexpected_messages_max = 100,
                     .cooperative_copies = own_core,
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
    Near neighbour;
    transport::shm::ShmConnection connection;
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
           .neighbour = &at[own]->neighbour,
           .layout = layout,
           .slot = arenas[own].data() + slots[own],
           .remote_slot = {.region = 0, .offset = slots[other]},
           .remote_revocations = {.region = 0,
                                  .offset = offsetof(transport::ArenaHeader, revocations)},
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
    receiver().neighbour.copies.clear();
    receiver().messaging.start(receive);
    sender().messaging.start(send);
    step_both();
    EXPECT_TRUE(receive.done && send.done);
    EXPECT_TRUE(in == out);
    return receiver().neighbour.copies;
  }

  bool agrees(int, std::uint64_t, std::uint32_t, std::uint32_t) override { return true; }
  void link_failed(ErrorDetail detail) override { ADD_FAILURE() << detail.cause; }
  void communicator_failed(std::uint64_t, ErrorDetail detail) override {
    ADD_FAILURE() << detail.cause;
  }

  base::System system;
  base::Log log;
  std::array<int, 2> ranks{0, 1};
  std::array<transport::Arena, 2> arenas{
      transport::Arena::create_private(system, std::size_t{1} << 20),
      transport::Arena::create_private(system, std::size_t{1} << 20)};
  std::array<std::unique_ptr<Rank>, 2> at;
};

using Copies = std::vector<std::size_t>;

TEST(a_sender_that_polls, copies_the_second_half_while_the_receiver_copies_the_first) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  pair.receiver().neighbour.at_first_copy = [&] { pair.sender().engine.step(); };
  for (const std::size_t bytes :
       {base::filled_bytes_min, base::filled_bytes_min + 1, std::size_t{1234567}})
    EXPECT_EQ(pair.copies_of(bytes).size(), 1U) << bytes;
  EXPECT_EQ(pair.receiver().messaging.counters().helped_pulls, 3U);
}

TEST(a_sender_that_polls, too_late_finds_that_the_receiver_has_copied_everything) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  const std::size_t half = base::FillShare{}.first_bytes(base::filled_bytes_min);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(pair.copies_of(base::filled_bytes_min),
              (Copies{half, base::filled_bytes_min - half}));
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

// ---- a sender that is held up in the middle of its copy ----

// A receive whose end the sender has begun to fill, and does not end before it is let.
struct Held {
  explicit Held(Pair& with) : pair{with} {
    pair.sender().neighbour.fills = pair.receiver().neighbour.fills = Near::Fills::when_let;
    pair.receiver().neighbour.at_first_copy = [this] { pair.sender().engine.step(); };
    receive = pair.receiver().group().receive_operation(0, in);
    send = pair.sender().group().send_operation(1, out);
    receive.key = send.key = tag_key(1);
    pair.receiver().messaging.start(receive);
    pair.sender().messaging.start(send);
    pair.step_both();
  }
  void let_go() { pair.sender().neighbour.let_go(); }
  // Messages between the two, of another communicator.
  void expect_others_go_on() {
    std::vector<std::byte> there(100, std::byte{3});
    std::vector<std::byte> here(100);
    SendOperation another = pair.sender().group().send_operation(1, there);
    ReceiveOperation its = pair.receiver().group().receive_operation(0, here);
    another.communicator = its.communicator = 10;
    another.key = its.key = tag_key(1);
    pair.receiver().messaging.start(its);
    pair.sender().messaging.start(another);
    pair.step_both();
    EXPECT_TRUE(another.done && its.done);
    EXPECT_EQ(here, there);
  }

  Pair& pair;
  std::vector<std::byte> out = std::vector<std::byte>(base::filled_bytes_min, std::byte{1});
  std::vector<std::byte> in = std::vector<std::byte>(base::filled_bytes_min);
  SendOperation send;
  ReceiveOperation receive;
};

TEST(a_sender_that_is_held_up, while_it_copies_keeps_the_receive_and_nothing_else) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  Held held{pair};
  EXPECT_FALSE(held.receive.done);
  EXPECT_EQ(pair.receiver().messaging.fills(9), 0);
  EXPECT_EQ(pair.receiver().messaging.fills(10), std::nullopt);
  EXPECT_EQ(pair.receiver().messaging.awaited(9), 0);
  held.expect_others_go_on();
  held.let_go();
  pair.step_both();
  EXPECT_TRUE(held.receive.done && held.send.done);
  EXPECT_EQ(held.receive.failure, nullptr);
  EXPECT_EQ(held.in, held.out);
  EXPECT_EQ(pair.receiver().messaging.fills(9), std::nullopt);
}

TEST(a_sender_that_is_held_up, is_not_asked_for_help_with_the_next_message) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  Held held{pair};
  pair.receiver().neighbour.at_first_copy = [] {};
  EXPECT_EQ(pair.copies_of(base::filled_bytes_min), Copies{base::filled_bytes_min});
  held.let_go();
  pair.step_both();
  EXPECT_EQ(held.in, held.out);
}

TEST(a_sender_that_is_held_up, keeps_a_failed_receive_until_it_has_written_the_last_byte) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  Held held{pair};
  const Error failure{{.code = ErrorCode::timeout}};
  pair.receiver().messaging.fail(9, failure);
  pair.receiver().messaging.end_closing(9);
  pair.step_both();
  EXPECT_FALSE(held.receive.done);
  EXPECT_EQ(pair.receiver().messaging.fills(9), 0);
  held.expect_others_go_on();
  held.let_go();
  pair.step_both();
  EXPECT_TRUE(held.receive.done);
  EXPECT_EQ(held.receive.failure, &failure);
}

TEST(a_sender_that_is_held_up, and_dies_gives_the_receive_back_when_its_process_is_gone) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  Held held{pair};
  const Error failure{{.code = ErrorCode::peer_dead}};
  pair.receiver().messaging.give_up(0);
  pair.receiver().messaging.fail(9, failure);
  pair.receiver().messaging.look_at_links();
  EXPECT_FALSE(held.receive.done) << "a hang-up says nothing about what its threads still do";
  pair.receiver().neighbour.ended = true;
  pair.receiver().messaging.look_at_links();
  EXPECT_TRUE(held.receive.done);
  EXPECT_EQ(held.receive.failure, &failure);
}

// The cell overtakes it: what it carries is older by exactly a turn of 16 bits, and would read as
// "nothing is in flight".
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
  for (int number = turn - held; number < turn + more; ++number)
    ASSERT_NO_FATAL_FAILURE(receive(number));
  pair.step_both();
  EXPECT_TRUE(std::ranges::all_of(sent, [](const Sent& each) { return each.operation.done; }));
}

TEST(a_sender_that_polls,
     and_whom_the_system_forbids_to_fill_leaves_the_second_half_to_the_receiver) {
  if (!base::ProcessMemory::stores_in_order)
    GTEST_SKIP() << "stores of a system call are not seen in order here";
  Pair pair;
  pair.receiver().neighbour.at_first_copy = [&] { pair.sender().engine.step(); };
  pair.sender().neighbour.fills = Near::Fills::never;
  EXPECT_EQ(pair.copies_of(base::filled_bytes_min).size(), 2U);
}

TEST(
    a_receiver,
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

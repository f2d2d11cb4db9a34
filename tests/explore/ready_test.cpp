// SPDX-License-Identifier: MIT
// A receiver that stands ready, and a sender that offers its message because of that, and waits.
#include "explore/scenario.hpp"
#include "messaging/rings/ready_receive.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;

// The receiver stands ready for the first of two messages with one key. It takes the second one
// only when the sender has come further: who offers that one as well waits for ever.
struct ReceiverThatStandsReady {
  static constexpr std::size_t threads = 2;
  using Ready = messaging::ReadyReceive<A>;
  static constexpr std::uint32_t name = Ready::name_of(3, 5, 7);
  static constexpr std::size_t bytes = 8192;
  Ready ready{};
  std::uint32_t sent = 0;  // messages in the ring, or offered there
  std::uint32_t taken = 0;
  std::uint32_t has_gone_on = 0;

  void run(std::size_t rank) { rank == 0 ? receive() : send(); }
  static void await(const std::uint32_t& word, std::uint32_t value) {
    while (A::load_relaxed(&word) < value) wait_for_news();
  }
  void receive() {
    ready.begin(name, bytes, 0);
    await(sent, 1);
    A::store_relaxed(&taken, 1U);
    ready.end();
    await(has_gone_on, 1);
    await(sent, 2);
    A::store_relaxed(&taken, 2U);
  }
  void send() {
    for (std::uint32_t number = 0; number < 2; ++number) {
      const bool offers = ready.is_for(name, bytes, number);
      require(!offers || number == 0, "nobody stands ready for the second one");
      A::store_relaxed(&sent, number + 1);
      if (offers) await(taken, number + 1);
    }
    A::store_relaxed(&has_gone_on, 1U);
  }
  void check() {}
};
TEST(a_receiver_that_stands_ready, is_ready_for_no_message_but_the_next) {  // whatever the order
  expect_right<ReceiverThatStandsReady>();
}
TEST(a_receiver_that_stands_ready, would_keep_a_sender_waiting_that_looked_at_no_lines) {
  messaging::mutant = messaging::Mutant::ready_lines;
  EXPECT_NE(qpmesh::explore::explore<ReceiverThatStandsReady>().finding, "");
  messaging::mutant = messaging::Mutant::none;
}

}  // namespace

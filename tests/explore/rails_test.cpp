// SPDX-License-Identifier: MIT
// Two rails of which one fails: the messages of a direction go on by the other, and the word by
// which the ends agree from which on (transport/rail_notice.hpp).
#include "transport/rail_notice.hpp"

#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;
using transport::Rail;
using transport::RailNotice;
using NoticeWord = transport::RailNoticeWord<A>;

// What a device does when it is told to write: the words appear in any order, behind all that its
// process stored before. The provider's barrier orders no loads (on arm64 it is a dmb of stores).
template <class... Stores>
void write_by_device(Stores... stores) {
  A::order_stores();
  (stores(), ...);
}

// The receiver's queue pair of the first rail. The peer's packets land through it, one after
// another, until it is reset: behind that none does, and what has landed is in the memory.
struct QueuePair {
  enum State : std::uint32_t { open, landing, severed };
  std::uint32_t state = open;

  bool change(State from, State to) {
    std::uint32_t expected = from;
    return A::compare_exchange_acq_rel(&state, expected, to);
  }
  template <class Land>
  void land(Land&& land) {
    if (!change(open, landing)) return;  // it was severed: the packet is lost
    land();
    A::store_release(&state, open);
  }
  void sever() {
    while (!change(open, severed)) wait_for_news();
  }
};

// The sender's first rail brings some messages whole and one in part, then it fails. The receiver
// learns of that by the sender's word, or has seen something itself at any time. It severs its own
// end, takes what is there whole, clears the rest, and says how many it has taken; the sender posts
// the others again on the second rail. As transport/rails.cpp and messaging do.
// untold: taken, and not said to be.
template <std::uint32_t untold = 0>
struct Takeover {
  static constexpr std::size_t threads = 2;
  static constexpr std::uint32_t messages = 2;
  struct Line {
    std::uint32_t sequence = 0;  // the number and one, when the body is there
    std::uint32_t body = 0;
  };
  static std::uint32_t body_of(std::uint32_t number) { return 100 + number; }

  // The receiver's memory, which devices of the sender write.
  Line lines[messages]{};
  NoticeWord senders{};
  QueuePair queue_pair;
  // The sender's.
  NoticeWord receivers{};

  void run(std::size_t rank) { rank == 0 ? send() : receive(); }

  // `own` is where an end writes what it tells, in memory of its own.
  static void tell(const RailNotice& notice, NoticeWord& at_peer) {
    NoticeWord own{};
    own.write(notice);
    write_by_device([&] { A::store_relaxed(&at_peer.content, own.content); },
                    [&] { A::store_relaxed(&at_peer.complement, own.complement); });
  }

  void post_body(std::uint32_t number) {
    write_by_device([&] { A::store_relaxed(&lines[number].body, body_of(number)); });
  }
  void post(std::uint32_t number) {
    post_body(number);
    write_by_device([&] { A::store_relaxed(&lines[number].sequence, number + 1); });
  }
  void send() {
    std::uint32_t next = 0;
    for (; next < messages && either(); ++next) queue_pair.land([&] { post(next); });
    if (next < messages) queue_pair.land([&] { post_body(next); });
    tell({.severed = Rail::first, .taken = 0}, senders);
    std::optional<RailNotice> notice;
    while (!(notice = receivers.read())) wait_for_news();
    require(notice->severed == Rail::first && notice->taken <= messages, "a notice");
    for (next = notice->taken; next < messages; ++next) post(next);
  }

  void receive() {
    std::uint32_t taken = 0;
    bool sees_failure = either();
    bool told = false;
    while (!told || taken < messages) {
      if (taken < messages && take(taken)) {
        ++taken;
        if (!sees_failure) sees_failure = either();
      } else if (!told && (sees_failure || senders.read())) {
        queue_pair.sever();
        while (taken < messages && take(taken)) ++taken;
        for (Line& line : lines) {
          A::store_plain(&line.sequence, 0U);  // nothing lands meanwhile
          A::store_plain(&line.body, 0U);
        }
        tell({.severed = Rail::first, .taken = taken < untold ? 0 : taken - untold}, receivers);
        told = true;
      } else {
        wait_for_news();
      }
    }
  }
  // Messages come in order, each once. Its line is cleared.
  bool take(std::uint32_t number) {
    Line& line = lines[number];
    if (A::load_acquire(&line.sequence) != number + 1) return false;
    require(A::load_relaxed(&line.body) == body_of(number), "the body of a message");
    A::store_relaxed(&line.sequence, 0);
    A::store_relaxed(&line.body, 0);
    return true;
  }
  void check() {
    for (const Line& line : lines)
      require(line.sequence == 0 && line.body == 0, "a message was placed twice");
  }
};

TEST(a_rail_that_fails, loses_no_message_and_brings_none_twice) {
  expect_right_and_every_mutant_found<Takeover<>>(
      {{Damage::no_release, "change", 0,
        "the store that ends a landing releases what has landed"}});
}
TEST(a_rail_that_fails, brings_one_twice_where_it_was_not_said_to_be_taken) {
  EXPECT_NE(qpmesh::explore::explore<Takeover<1>>().finding, "");
}

}  // namespace

// SPDX-License-Identifier: MIT
// Record and payload rings between two ranks, and the credits that give them back: messaging/rings,
// over shared memory.
#include <array>

#include "explore/scenario.hpp"
#include "explore/wire.hpp"
#include "support/long_runs.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using namespace qpmesh::messaging;

constexpr transport::Capabilities network{.name = "explored",
                                          .inline_bytes_max = std::size_t{1} << 30,
                                          .write_bytes_max = std::size_t{1} << 30};
constexpr transport::Capabilities shared_memory{.name = "explored",
                                                .ordered_flag = true,
                                                .loads_peer_memory = true,
                                                .inline_bytes_max = std::size_t{1} << 30,
                                                .write_bytes_max = std::size_t{1} << 30};

using Out = SendRing<ExploredAtomics>;
using In = ReceiveRing<ExploredAtomics>;

// One rank's end of the pair.
struct End {
  Wire wire;
  Out out;
  In in;

  End(std::byte* own_slot, std::byte* peers_slot, std::uint32_t ring_units,
      const transport::Capabilities& able)
      : wire{peers_slot, able, able.ordered_flag ? store_in_order : store_by_device},
        out{wire,         able, {{}, own_slot + RingLayout::credit_cell_offset, {}},
            {ring_units}, seed, seed},
        in{wire, able, own_slot, {ring_units}, seed} {}
  static constexpr std::uint32_t seed = 17;

  static std::byte mark(std::uint32_t number) { return static_cast<std::byte>(number + 1); }

  // Where memory is shared every other message is built in the ring.
  bool stores(std::uint32_t number) const { return out.stores() && number % 2 == 1; }

  Out::Sent try_to_send_record(std::uint32_t number, std::size_t body_bytes) {
    const RecordFields fields{.kind = RecordKind::eager_inline,
                              .inline_bytes = static_cast<std::uint8_t>(body_bytes),
                              .body_bytes = body_bytes,
                              .key = number,
                              .total_bytes = body_bytes};
    Record record;
    start_record(record, fields);
    std::memset(record.body(), static_cast<int>(mark(number)), body_bytes);
    return stores(number)
               ? out.store_inline(fields, {record.body(), body_bytes}, Out::Priority::control, {})
               : out.send(record, {}, Out::Priority::control, {});
  }
  Out::Sent try_to_send_payload(std::uint32_t number, std::size_t bytes) {
    std::array<std::byte, 256> payload;
    payload.fill(mark(number));
    const RecordFields fields{.kind = RecordKind::eager_payload,
                              .body_bytes = sizeof(PayloadPlace),
                              .key = number,
                              .total_bytes = bytes};
    const auto sent = std::span{payload}.first(bytes);
    if (stores(number)) return out.store(fields, sent, Out::Priority::control, {});
    Record record;
    start_record(record, fields);
    return out.send(record, sent, Out::Priority::control, {});
  }
  template <class Send>
  void send(Send&& try_to_send) {
    while (try_to_send() != Out::Sent::posted) {
      out.poll_credits();
      if (try_to_send() == Out::Sent::posted) return;
      wait_for_news();
    }
  }
  // The next message that is no pad. Its payload stays, an inline one until its release.
  void take(TakenMessage& message, std::uint32_t number) {
    for (;;) {
      In::Take taken = In::Take::nothing;
      while ((taken = in.take(message, [](auto&&...) {})) == In::Take::nothing) wait_for_news();
      require(taken == In::Take::taken, "a record is corrupt");
      if (message.record.header().kind != RecordKind::pad) break;
      in.release(message);
    }
    require(message.record.header().key == number, "a record of another message");
  }
  void take_record(std::uint32_t number, std::size_t body_bytes) {
    TakenMessage message;
    take(message, number);
    std::array<std::byte, inline_bytes_max> copy;
    ExploredAtomics::copy(copy.data(), message.inline_payload, body_bytes);
    for (std::size_t i = 0; i < body_bytes; ++i)
      require(copy[i] == mark(number), "a record's body");
    in.release(message);
  }
  void read_payload(const TakenMessage& message, std::uint32_t number, std::size_t bytes) {
    std::array<std::byte, 256> copy;
    ExploredAtomics::copy(copy.data(), message.payload, bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      require(copy[i] == mark(number), "a payload is another message's");
  }
};

template <std::uint32_t ring_units, const transport::Capabilities& able = shared_memory>
struct Pair {
  static constexpr std::size_t threads = 2;
  alignas(128) std::byte slots[2][RingLayout::payload_offset + ring_units * unit_bytes];
  static End& end(std::size_t rank) { return *ends_[rank]; }

  Pair() {
    std::memset(slots, 0, sizeof slots);
    for (std::size_t rank = 0; rank < 2; ++rank)
      ends_[rank].emplace(slots[rank], slots[1 - rank], ring_units, able);
  }
  void check() {}

 private:
  // The ends are their ranks' own memory: static, so that it is not shared.
  static inline std::array<std::optional<End>, 2> ends_;
};

// Records of three lines: the ring is filled but for one record, then written over while it is
// read. Its last lines are skipped: the record that would begin there begins at the start.
struct Records : Pair<4> {
  static constexpr std::size_t body_bytes = 100;
  static constexpr std::uint32_t sent_before = record_ring_lines / 3 - 1;
  static constexpr std::uint32_t all = sent_before + 3;

  Records() {
    for (std::uint32_t number = 0; number < sent_before; ++number)
      end(0).try_to_send_record(number, body_bytes);
  }
  void run(std::size_t rank) {
    if (rank == 0) {
      for (std::uint32_t number = sent_before; number < all; ++number)
        end(0).send([&] { return end(0).try_to_send_record(number, body_bytes); });
    } else {
      for (std::uint32_t number = 0; number < all; ++number) {
        end(1).take_record(number, body_bytes);
        if (number == 1 || number == 2) end(1).out.return_credits(end(1).in.consumed());
      }
    }
  }
};

// Records of one line: with one line more the ring's first would be written over.
struct ShortRecords : Pair<4> {
  static constexpr std::uint32_t sent_before = record_ring_lines - 1;
  static constexpr std::uint32_t all = record_ring_lines + 1;

  ShortRecords() {
    for (std::uint32_t number = 0; number < sent_before; ++number)
      end(0).try_to_send_record(number, 8);
  }
  void run(std::size_t rank) {
    for (std::uint32_t number = rank == 0 ? sent_before : 0; number < all; ++number) {
      if (rank == 0) {
        end(0).send([&] { return end(0).try_to_send_record(number, 8); });
      } else {
        end(1).take_record(number, 8);
        if (number == 0) end(1).out.return_credits(end(1).in.consumed());
      }
    }
  }
};

// Payloads in a ring of four units, of one unit and of two: the third does not fit behind the
// second and skips to the start, or finds the ring empty and begins again there.
template <std::size_t... bytes>
struct Payloads : Pair<4> {
  void run(std::size_t rank) {
    std::uint32_t number = 0;
    (run(rank, number++, bytes), ...);
  }
  void run(std::size_t rank, std::uint32_t number, std::size_t length) {
    if (rank == 0) return end(0).send([&] { return end(0).try_to_send_payload(number, length); });
    TakenMessage message;
    end(1).take(message, number);
    end(1).read_payload(message, number, length);
    end(1).in.release(message);
    end(1).in.free_until(message.place.end);
    end(1).out.return_credits(end(1).in.consumed());
  }
};

// Credits come in records of the other direction, and in the words of the cell.
struct Mixed : Pair<2> {
  void run(std::size_t rank) {
    for (std::uint32_t number = 0; number < 4; ++number) {
      if (rank == 0) send(number);
      else consume(number);
    }
  }
  void send(std::uint32_t number) {
    while (end(0).try_to_send_payload(number, unit_bytes) != Out::Sent::posted) {
      const bool read_some = read();
      end(0).out.poll_credits();
      if (!read_some && !end(0).out.has_units(unit_bytes)) wait_for_news();
    }
  }
  bool read() {
    TakenMessage message;
    const bool taken = end(0).in.take(message, [](auto&&...) {}) == In::Take::taken;
    if (taken) {
      end(0).out.take_credits(message.record.header());
      end(0).in.release(message);
    }
    return taken;
  }
  void consume(std::uint32_t number) {
    TakenMessage message;
    end(1).take(message, number);
    end(1).read_payload(message, number, unit_bytes);
    end(1).in.release(message);
    end(1).in.free_until(message.place.end);
    if (number % 2 == 1) {
      end(1).out.return_credits(end(1).in.consumed());
    } else {
      Record record;
      start_record(record, {.kind = RecordKind::finished});
      end(1).out.send(record, {}, Out::Priority::control, end(1).in.consumed());
    }
  }
};

// Over a network credits come in a cell that may be read while it is written. The receiver is told
// of payloads by a word, so that only credits come as a network brings them.
template <std::uint32_t ring_units>
struct Network : Pair<ring_units, network> {
  using Pair<ring_units, network>::end;
  std::uint32_t sent = 0;

  void send(std::uint32_t number) {
    while (end(0).try_to_send_payload(number, unit_bytes) != Out::Sent::posted) {
      end(0).out.poll_credits();
      if (!end(0).out.has_units(unit_bytes)) wait_for_news();
    }
    ExploredAtomics::store_release(&sent, number + 1);
  }
  Credits consume(std::uint32_t number) {
    while (ExploredAtomics::load_acquire(&sent) <= number) wait_for_news();
    TakenMessage message;
    message.payload =
        &this->slots[1][RingLayout::payload_offset + number % ring_units * unit_bytes];
    end(1).read_payload(message, number, unit_bytes);
    return {.lines = number + 1, .units = number + 1};
  }
};

struct Cells : Network<1> {
  void run(std::size_t rank) {
    for (std::uint32_t number = 0; number < 2; ++number) {
      if (rank == 0) {
        send(number);
      } else {
        end(1).out.return_credits(consume(number));
      }
    }
  }
};

// A record may be read long after a cell that was written behind it: what it tells is old.
struct CellAndRecord : Network<2> {
  void run(std::size_t rank) {
    if (rank == 0) {
      for (std::uint32_t number = 0; number < 4; ++number) send(number);
      TakenMessage message;
      while (end(0).in.take(message, [](auto&&...) {}) != In::Take::taken) wait_for_news();
      end(0).out.take_credits(message.record.header());
      require(!end(0).out.has_units(unit_bytes), "an old count returns what is in flight");
    } else {
      Record record;
      start_record(record, {.kind = RecordKind::finished});
      end(1).out.send(record, {}, Out::Priority::control, consume(0));
      end(1).out.return_credits(consume(1));
      consume(2);
      consume(3);
    }
  }
};

// Memory is taken back behind an answer that opened it. Who looks at the count between the two
// records, and finds it raised, finds the second record.
struct Revokes : Pair<1> {
  void run(std::size_t rank) {
    if (rank == 0) {
      for (std::uint32_t number = 0; number < 2; ++number) end(0).try_to_send_record(number, 8);
      end(0).out.tell_revokes(1);
      return;
    }
    end(1).take_record(0, 8);
    if (end(1).in.revokes_heard() == 0) return end(1).take_record(1, 8);
    TakenMessage message;
    require(end(1).in.take(message, [](auto&&...) {}) == In::Take::taken,
            "a count before its record");
  }
};

constexpr Harmless no_sleeper{Damage::no_order, "store_flag", 0, "only sleepers need it"};
constexpr Harmless units_are_not_short{Damage::no_acquire, "poll_credits", 2,
                                       "no unit of payload is sent"};
constexpr Harmless lines_are_not_short[] = {
    {Damage::no_acquire, "poll_credits", 1, "there are lines enough"},
    {Damage::no_release, "store_flag", 2, "as well"}};

TEST(a_ring_of_records, is_written_over_only_where_it_was_read) {
  expect_right_and_every_mutant_found<Records>({no_sleeper, units_are_not_short});
}
TEST(a_ring_of_records, is_never_overfull) {
  expect_right_and_every_mutant_found<ShortRecords>({no_sleeper, units_are_not_short});
}
TEST(a_ring_of_payloads, is_written_over_only_where_it_was_read) {
  expect_right_and_every_mutant_found<Payloads<64, 128, 128, 64>>(
      {no_sleeper, lines_are_not_short[0], lines_are_not_short[1]});
  if (test::runs_long()) expect_right<Payloads<64, 128, 128, 64, 64>>();
}
TEST(a_ring_of_payloads, is_given_back_by_records_and_words_in_any_order) {
  expect_right_and_every_mutant_found<Mixed>(
      {no_sleeper, lines_are_not_short[0], lines_are_not_short[1]});
}
TEST(a_ring, is_overrun_by_who_believes_that_it_is_one_larger) {
  messaging::mutant = messaging::Mutant::ring_size;
  EXPECT_NE(qpmesh::explore::explore<ShortRecords>().finding, "");
  EXPECT_NE((qpmesh::explore::explore<Payloads<64, 64, 64, 64, 64>>().finding), "");
  messaging::mutant = messaging::Mutant::none;
}
TEST(credits_over_a_network, are_whole_or_not_taken) {
  expect_right_and_every_mutant_found<Cells>(
      {{Damage::no_release, "send", 0, "the write behind it has released"}});
}
TEST(credits_over_a_network, are_the_newest_that_a_cell_or_a_record_told) {
  expect_right<CellAndRecord>();
}
TEST(a_count_of_revokes, is_seen_behind_the_records_that_it_counts) {
  expect_right_and_every_mutant_found<Revokes>({no_sleeper});
}

}  // namespace

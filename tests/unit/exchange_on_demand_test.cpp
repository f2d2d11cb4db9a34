// SPDX-License-Identifier: MIT
// Two ends that connect as they are first used: in whatever order both want it, hear of each other
// and fail.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "startup/exchange_on_demand.hpp"

namespace {

using namespace qpmesh;
using startup::ExchangeOnDemand;

enum class Step : std::uint8_t { none, make, connect };

struct Seen {
  int made = 0;
  int connected = 0;
  int opened = 0;
  std::vector<std::string> failures;
  bool opened_early = false;  // before the peer's end was connected
};

class Ends final : public ExchangeOnDemand::Ends {
 public:
  Ends(Seen& mine, const Seen& theirs, Step fails) : mine_{mine}, theirs_{theirs}, fails_{fails} {}
  Blob make(int) override {
    ++mine_.made;
    fail_at(Step::make);
    return Blob(3, std::byte{7});
  }
  void connect(int, BlobView address) override {
    EXPECT_EQ(address.size(), 3U);
    EXPECT_EQ(mine_.made, 1);
    fail_at(Step::connect);
    ++mine_.connected;
  }
  void open(int) noexcept override {
    EXPECT_EQ(mine_.connected, 1);
    ++mine_.opened;
    mine_.opened_early |= theirs_.connected == 0;
  }
  void fail(int, const ErrorDetail& why) noexcept override { mine_.failures.push_back(why.cause); }

 private:
  void fail_at(Step step) const {
    if (step == fails_)
      base::throw_error({ErrorCode::no_resource}, "connect", "make room", "no queue pair");
  }
  Seen& mine_;
  const Seen& theirs_;
  Step fails_;
};

// What can happen next: an end wants the connection, or the oldest words to it arrive.
enum class Event : std::uint8_t { want_0, want_1, hear_0, hear_1 };
constexpr std::array events{Event::want_0, Event::want_1, Event::hear_0, Event::hear_1};

class Pair {
 public:
  Pair(int failing_end, Step fails) {
    for (int end = 0; end < 2; ++end) {
      auto& exchange = exchanges_[at(end)];
      exchange = std::make_unique<ExchangeOnDemand>(
          std::make_unique<Ends>(seen[at(end)], seen[at(1 - end)],
                                 end == failing_end ? fails : Step::none),
          2);
      exchange->tell_by([this, end](int peer, BlobView words) {
        EXPECT_EQ(peer, 1 - end);
        on_way_[at(peer)].emplace_back(words.begin(), words.end());
      });
    }
  }
  bool can(Event event) const {
    if (event == Event::hear_0 || event == Event::hear_1) return !on_way_[end_of(event)].empty();
    return wants_[end_of(event)] < 2;
  }
  void happen(Event event) {
    const std::size_t end = end_of(event);
    const int peer = 1 - static_cast<int>(end);
    if (event == Event::want_0 || event == Event::want_1) {
      ++wants_[end];
      return exchanges_[end]->want(peer);
    }
    const Blob words = on_way_[end].front();
    on_way_[end].pop_front();
    exchanges_[end]->told_by(peer, words);
  }
  bool wanted() const { return wants_[0] + wants_[1] > 0; }
  bool is_quiet() const { return on_way_[0].empty() && on_way_[1].empty(); }
  ExchangeOnDemand& operator[](int end) { return *exchanges_[at(end)]; }

  std::array<Seen, 2> seen;

 private:
  static std::size_t at(int end) { return static_cast<std::size_t>(end); }
  static std::size_t end_of(Event event) {
    return event == Event::want_0 || event == Event::hear_0 ? 0 : 1;
  }
  std::array<std::unique_ptr<ExchangeOnDemand>, 2> exchanges_;
  std::array<std::deque<Blob>, 2> on_way_;  // to this end
  std::array<int, 2> wants_{};
};

// Calls check with the pair after every history of events that goes on until nothing is on its way.
template <class Check>
int for_every_history(int failing_end, Step fails, Check&& check) {
  int histories = 0;
  std::vector<Event> history;
  const auto go_on = [&](const auto& self) -> void {
    Pair pair{failing_end, fails};
    for (const Event event : history) pair.happen(event);
    ASSERT_LT(history.size(), 16U);
    if (pair.wanted() && pair.is_quiet()) {
      ++histories;
      check(pair);
    }
    for (const Event event : events) {
      if (!pair.can(event)) continue;
      history.push_back(event);
      self(self);
      history.pop_back();
    }
  };
  go_on(go_on);
  return histories;
}

TEST(ends_connected_at_first_use, open_once_when_both_are_connected_in_every_order) {
  const int histories = for_every_history(0, Step::none, [](const Pair& pair) {
    for (const Seen& end : pair.seen) {
      EXPECT_EQ(end.made, 1);
      EXPECT_EQ(end.connected, 1);
      EXPECT_EQ(end.opened, 1);
      EXPECT_FALSE(end.opened_early);
      EXPECT_TRUE(end.failures.empty());
    }
  });
  EXPECT_GT(histories, 100);
}

TEST(ends_connected_at_first_use, both_fail_once_where_one_cannot_be_made_or_connected) {
  for (const Step fails : {Step::make, Step::connect}) {
    const int histories = for_every_history(1, fails, [](const Pair& pair) {
      EXPECT_EQ(pair.seen[1].failures, std::vector<std::string>{"no queue pair"});
      EXPECT_EQ(pair.seen[0].failures,
                std::vector<std::string>{"the peer could not connect: no queue pair"});
      EXPECT_EQ(pair.seen[0].opened + pair.seen[1].opened, 0);
    });
    EXPECT_GT(histories, 20);
  }
}

TEST(ends_connected_at_first_use, fail_where_a_peer_says_what_no_rank_says) {
  Pair pair{0, Step::none};
  pair[0].told_by(1, Blob(5, std::byte{1}));
  ASSERT_EQ(pair.seen[0].failures.size(), 1U);
  EXPECT_EQ(pair.seen[0].failures.front(), "5 bytes are not what a rank says that connects");
  pair.happen(Event::hear_1);
  ASSERT_EQ(pair.seen[1].failures.size(), 1U);
}

}  // namespace

// SPDX-License-Identifier: MIT
// What a rank does, in one word.
#include "base/rank_state.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "tools/run/states.hpp"

namespace qpmesh {
namespace {

using base::OwnRankState;
using base::RankState;

TEST(a_rank_state, comes_out_of_its_word_as_it_went_in) {
  for (const std::string_view call : {"", "barrier", "allreduce_async", "finish"}) {
    for (const int peer : {-1, 0, 7, 65'534}) {
      const RankState state =
          base::decode(base::encode({.call = call, .peer = peer, .since_ms = 123'456'789}));
      EXPECT_EQ(state.call, call);
      EXPECT_EQ(state.peer, peer);
      EXPECT_EQ(state.since_ms, 123'456'789U);
    }
  }
  EXPECT_EQ(base::decode(0).since_ms, 0U);
}

TEST(a_rank_state, of_a_call_or_a_peer_that_has_no_number_says_less) {
  const RankState state =
      base::decode(base::encode({.call = "something", .peer = 70'000, .since_ms = 1}));
  EXPECT_EQ(state.call, "another call");
  EXPECT_EQ(state.peer, -1);
  EXPECT_EQ(base::decode(~std::uint64_t{0}).call, "another call");
}

TEST(a_rank_state, is_told_in_the_word_of_its_number_or_nowhere) {
  std::string name = "/tmp/qpmesh-states-XXXXXX";
  const base::UniqueFd file{::mkstemp(name.data())};
  ASSERT_EQ(::ftruncate(file.get(), 16), 0);
  const OwnRankState second{name + ":1"};
  ASSERT_TRUE(second);
  second.tell({.call = "send", .peer = 3, .since_ms = 9});
  std::array<std::uint64_t, 2> words{};
  ASSERT_EQ(::pread(file.get(), words.data(), sizeof words, 0), 16);
  EXPECT_EQ(words[0], 0U);
  EXPECT_EQ(base::decode(words[1]).peer, 3);
  for (const std::string& wrong :
       {name + ":2", name + ":-1", name, name + ":x", std::string{"/nowhere:0"}, std::string{}})
    EXPECT_FALSE(OwnRankState{wrong}) << wrong;
  ::unlink(name.c_str());
}

TEST(states, put_together_those_that_do_the_same) {
  const auto in = [](std::string_view call, std::uint64_t since_ms, int peer = -1) {
    return base::encode({.call = call, .peer = peer, .since_ms = since_ms});
  };
  const std::vector<run::SeenRank> seen{{0, false, in("allreduce", 1'000)},
                                        {1, false, in("allreduce", 3'000)},
                                        {2, false, in("", 500)},
                                        {3, true, in("finish", 4'000)},
                                        {4, false, in("allreduce", 2'000)},
                                        {5, false, 0},
                                        {6, false, in("receive", 5'000, 2)}};
  EXPECT_EQ(run::describe(seen, 5'000),
            "3 in allreduce (0-1, 4: 4.0 s), 1 ended (3), 1 in receive with 2 (6), "
            "1 outside of calls (2: 4.5 s), 1 starting (5)");
}

}  // namespace
}  // namespace qpmesh

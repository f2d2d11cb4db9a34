// SPDX-License-Identifier: MIT
// The members of a node agree which row runs the calls of a class: the words of
// collectives/choice_words.hpp, used as Selector uses them.
#include "collectives/choice_words.hpp"

#include <array>

#include "base/atomics.hpp"
#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using namespace qpmesh::collectives;
using A = ExploredAtomics;

enum class Broken { nothing, a_member_does_not_wait, rank_0_overwrites_what_is_unread };

// Rounds of a class: every member has timed a call, rank 0 judges what it finds of the others', and
// all go on by what it says.
template <std::size_t ranks, std::uint64_t rounds, Broken broken = Broken::nothing>
struct Agreement {
  static constexpr std::size_t threads = ranks;
  ChoiceWords<A> words[ranks]{};

  // What a member has timed, and what is said for a round.
  static Span stamp(std::uint64_t round) { return {.begin_ns = 10 * round + 1, .end_ns = 0}; }
  static Decision decision_of(std::uint64_t round) {
    Decision decision;
    decision.plan.calls = static_cast<std::uint32_t>(100 + round);
    return decision;
  }

  void judge(std::uint64_t round) {
    for (std::size_t i = 1; i < ranks && broken != Broken::rank_0_overwrites_what_is_unread; ++i) {
      while (!words[i].has_read(round)) wait_for_news();
    }
    const auto others =
        spans_of_all(ranks - 1, round, [&](int rank) -> const auto& { return words[rank + 1]; });
    const std::uint64_t begin_ns = others[0].begin_ns;
    require(begin_ns == 0 || begin_ns == stamp(round).begin_ns, "a stamp of another round");
    words[0].decide(round + 1, decision_of(round + 1));
  }

  void run(std::size_t rank) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (rank == 0) {
        judge(round);
        continue;
      }
      words[rank].put_stamp(round, 0, 0, stamp(round));
      while (!words[0].has_decided(round + 1) && broken != Broken::a_member_does_not_wait)
        wait_for_news();
      const Decision next = words[0].decision_read();
      require(next.plan.calls == decision_of(round + 1).plan.calls, "the plan of another round");
      words[rank].acknowledge(round + 1);
    }
  }
  void check() {}
};

TEST(members_that_choose, go_on_by_the_same_plan_round_for_round) {
  expect_right_and_every_mutant_found<Agreement<2, 3>>();
}
TEST(members_that_choose, are_any_number) { expect_right<Agreement<3, 2>>(); }

TEST(members_that_choose, must_wait_for_what_is_decided) {
  EXPECT_NE((explore::explore<Agreement<2, 1, Broken::a_member_does_not_wait>>().finding), "");
}
TEST(members_that_choose, must_have_read_what_is_decided_before_more_is) {
  EXPECT_NE((explore::explore<Agreement<2, 2, Broken::rank_0_overwrites_what_is_unread>>().finding),
            "");
}

}  // namespace

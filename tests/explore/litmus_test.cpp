// SPDX-License-Identifier: MIT
// What C++ allows and forbids, in the smallest programs that show it: the explorer finds all of the
// first and none of the second.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "explore/explored_atomics.hpp"

namespace {

using namespace qpmesh::explore;
using A = ExploredAtomics;
using Word = std::uint32_t;

std::set<std::tuple<Word, Word, Word, Word>> outcomes;

template <class S>
std::set<std::tuple<Word, Word, Word, Word>> outcomes_of(std::uint64_t executions) {
  outcomes.clear();
  const Explored explored = explore<S>();
  EXPECT_EQ(explored.finding, "");
  EXPECT_EQ(explored.executions, executions);
  return outcomes;
}

struct Words {
  Word x = 0, y = 0, z = 0;
  Word a = 0, b = 0, c = 0, d = 0;  // each written by one thread, and read when all have ended
  void check() { outcomes.insert({a, b, c, d}); }
  void put(Word& result, Word value) { A::store_plain(&result, value); }
};

struct StoreBuffering : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    A::store_release(thread == 0 ? &x : &y, 1);
    put(thread == 0 ? a : b, A::load_acquire(thread == 0 ? &y : &x));
  }
};
TEST(litmus, each_of_two_releases_may_be_missed_by_the_other) {
  EXPECT_EQ(outcomes_of<StoreBuffering>(4).size(), 4U);
}

struct StoreBufferingFences : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    A::store_relaxed(thread == 0 ? &x : &y, 1);
    A::order_all();
    put(thread == 0 ? a : b, A::load_relaxed(thread == 0 ? &y : &x));
  }
};
TEST(litmus, a_fence_between_store_and_load_lets_one_of_two_see_the_other) {
  const auto seen = outcomes_of<StoreBufferingFences>(3);
  EXPECT_FALSE(seen.contains({0, 0, 0, 0}));
}

// The handshake of a sleeper that only exchanges: its look is not sequentially consistent, and
// nothing orders it with the exchange.
struct ExchangeThenAcquire : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) {
      A::exchange_seq_cst(&x, 1);
      put(a, A::load_seq_cst(&y));
    } else {
      A::exchange_seq_cst(&y, 1);
      put(b, A::load_acquire(&x));
    }
  }
};
TEST(litmus, an_exchange_does_not_order_an_acquire_load_behind_it) {
  EXPECT_TRUE(outcomes_of<ExchangeThenAcquire>(4).contains({0, 0, 0, 0}));
}
struct ExchangeFenceThenAcquire : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) {
      A::exchange_seq_cst(&x, 1);
      put(a, A::load_seq_cst(&y));
    } else {
      A::store_relaxed(&y, 1);
      A::order_all();
      put(b, A::load_acquire(&x));
    }
  }
};
TEST(litmus, a_fence_orders_it) {
  EXPECT_FALSE(outcomes_of<ExchangeFenceThenAcquire>(3).contains({0, 0, 0, 0}));
}

struct MessagePassing : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) {
      A::store_plain(&x, 7);
      A::store_release(&y, 1);
    } else {
      while (A::load_acquire(&y) == 0) wait_for_news();
      put(a, A::load_plain(&x));
    }
  }
};
TEST(litmus, an_acquire_that_meets_a_release_sees_what_was_before_it) {
  const auto seen = outcomes_of<MessagePassing>(2);  // with and without a look in vain
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen.contains({7, 0, 0, 0}));
}
TEST(litmus, each_mutant_of_it_is_found) {
  const auto whole = explore<MessagePassing>();
  ASSERT_EQ(whole.mutants.size(), 4U);  // acquire, release, the plain stores late
  int found = 0;
  for (const Mutant& mutant : whole.mutants)
    found += explore<MessagePassing>(mutant).finding.empty() ? 0 : 1;
  EXPECT_EQ(found, 3);  // the result that is written late is published by nothing
}

struct MessagePassingFences : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) {
      A::store_plain(&x, 7);
      A::order_stores();
      A::store_relaxed(&y, 1);
    } else {
      if (A::load_relaxed(&y) == 0) return;
      A::order_loads();
      put(a, A::load_plain(&x));
    }
  }
};
TEST(litmus, fences_carry_a_relaxed_store_to_a_relaxed_load) {
  EXPECT_EQ(outcomes_of<MessagePassingFences>(2).size(), 2U);
}

struct IndependentReads : Words {
  static constexpr std::size_t threads = 4;
  void run(std::size_t thread) {
    switch (thread) {
      case 0: A::store_release(&x, 1); break;
      case 1: A::store_release(&y, 1); break;
      case 2:
        put(a, A::load_acquire(&x));
        put(b, A::load_acquire(&y));
        break;
      default: put(c, A::load_acquire(&y)); put(d, A::load_acquire(&x));
    }
  }
};
TEST(litmus, two_readers_may_see_two_releases_in_different_orders) {
  const auto seen = outcomes_of<IndependentReads>(16);
  EXPECT_TRUE(seen.contains({1, 0, 1, 0}));
}
struct IndependentStrongReads : Words {
  static constexpr std::size_t threads = 4;
  void run(std::size_t thread) {
    switch (thread) {
      case 0: A::exchange_seq_cst(&x, 1); break;
      case 1: A::exchange_seq_cst(&y, 1); break;
      case 2:
        put(a, A::load_seq_cst(&x));
        put(b, A::load_seq_cst(&y));
        break;
      default: put(c, A::load_seq_cst(&y)); put(d, A::load_seq_cst(&x));
    }
  }
};
TEST(litmus, sequentially_consistent_ones_only_in_one) {
  EXPECT_FALSE(outcomes_of<IndependentStrongReads>(15).contains({1, 0, 1, 0}));
}

// A load may not return what was stored before something that its thread knows.
struct Coherence : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) {
      A::store_relaxed(&x, 1);
      A::store_relaxed(&x, 2);
    } else {
      put(a, A::load_relaxed(&x));
      put(b, A::load_relaxed(&x));
    }
  }
};
TEST(litmus, loads_of_one_word_never_go_back) { EXPECT_EQ(outcomes_of<Coherence>(6).size(), 6U); }

// Two exchanges of one word: one of them comes first. What the first released is still released by
// the second.
struct ReleaseSequence : Words {
  static constexpr std::size_t threads = 3;
  void run(std::size_t thread) {
    if (thread == 0) {
      A::store_plain(&z, 5);
      A::store_release(&x, 1);
    } else if (thread == 1) {
      Word expected = 1;
      if (A::compare_exchange_acq_rel(&x, expected, 2)) put(a, 1);
    } else if (A::load_acquire(&x) == 2) {
      put(b, A::load_plain(&z));
    }
  }
};
TEST(litmus, a_release_sequence_goes_on_through_an_exchange) {
  const auto seen = outcomes_of<ReleaseSequence>(5);
  EXPECT_TRUE(seen.contains({1, 5, 0, 0}));
}

struct TwoExchanges : Words {
  static constexpr std::size_t threads = 3;
  void run(std::size_t thread) {
    const Word old = A::exchange_seq_cst(&x, static_cast<Word>(thread + 1));
    put(thread == 0 ? a : thread == 1 ? b : c, old);
  }
};
TEST(litmus, exchanges_of_one_word_come_in_every_order_and_none_is_lost) {
  EXPECT_EQ(outcomes_of<TwoExchanges>(6).size(), 6U);
}

struct LostWakeUp : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) return;
    while (A::load_acquire(&x) == 0) wait_for_news();
  }
};
TEST(litmus, a_thread_that_nothing_wakes_is_a_finding) {
  EXPECT_EQ(explore<LostWakeUp>().finding.substr(0, 27), "wait for ever: thread 1\n   ");
}

struct Race : Words {
  static constexpr std::size_t threads = 2;
  void run(std::size_t thread) {
    if (thread == 0) A::store_plain(&x, 1);
    else put(a, A::load_plain(&x));
  }
};
TEST(litmus, plain_accesses_that_nothing_orders_are_a_finding) {
  EXPECT_TRUE(explore<Race>().finding.starts_with("data race"));
}

}  // namespace

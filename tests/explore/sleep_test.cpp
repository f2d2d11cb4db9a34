// SPDX-License-Identifier: MIT
// A rank that sleeps, and others that publish something for it: progress::Waiter and
// Neighbour::wake_if_asleep.
#include "base/atomics.hpp"

#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;

// The system's eventfd. It orders more than this: nothing here needs that.
struct Bell {
  std::uint32_t rings = 0;

  void ring() { exchange(&rings, sizeof rings, 1, Order::relaxed, Place::current()); }
  void wait() {
    while (load(&rings, sizeof rings, Order::relaxed, Place::current()) == 0) wait_for_news();
    exchange(&rings, sizeof rings, 0, Order::relaxed, Place::current());
  }
};

// The sleeper waits for a flag of each publisher as Waiter does, but without a time limit: where a
// wake-up is lost it waits for ever.
template <std::size_t publishers>
struct Sleep {
  static constexpr std::size_t threads = publishers + 1;
  base::AsleepWord<A> asleep{};
  Bell bell;
  std::uint32_t flags[publishers]{};
  std::uint32_t data[publishers]{};

  void run(std::size_t thread) {
    if (thread == publishers) return sleep_until_all_have_come();
    A::store_plain(&data[thread], static_cast<std::uint32_t>(thread) + 1);
    A::exchange_seq_cst(&flags[thread], 1);
    if (asleep.is_set()) bell.ring();
  }
  bool all_have_come() {
    bool all = true;
    for (std::uint32_t& flag : flags) all = A::load_acquire(&flag) != 0 && all;
    return all;
  }
  void sleep_until_all_have_come() {
    while (!all_have_come()) {
      asleep.set();
      if (all_have_come()) {
        asleep.clear();
        break;
      }
      bell.wait();
      asleep.clear();
    }
    for (std::size_t i = 0; i < publishers; ++i)
      require(A::load_plain(&data[i]) == i + 1, "the data of a flag");
  }
  void check() {}
};

TEST(a_sleeper, is_woken_by_one_who_publishes) { expect_right_and_every_mutant_found<Sleep<1>>(); }
TEST(a_sleeper, is_woken_by_each_of_two) { expect_right_and_every_mutant_found<Sleep<2>>(); }

}  // namespace

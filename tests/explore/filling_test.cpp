// SPDX-License-Identifier: MIT
// Memory that another rank may fill, and that its owner takes back: the guard of cooperative
// copies.
#include "base/fill_guard.hpp"
#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;

// A receiver lets the sender fill a part of its buffer, copies the rest, and takes the part back.
// What the sender has begun is waited for. Then the same with the next number, which a late sender
// must not take for its own.
struct CooperativeCopy {
  static constexpr std::size_t threads = 2;
  static constexpr std::uint32_t messages = 2;
  base::FillGuard<A> guard{};
  std::uint32_t asked = 0;  // as the record that asks
  std::uint64_t part = 0;   // of the receiver's buffer

  using Guard = base::FillGuard<A>;
  void run(std::size_t rank) { rank == 0 ? receive() : fill(); }
  void receive() {
    for (std::uint32_t number = 1; number <= messages; ++number) {
      A::store_plain(&part, 1000);  // its owner's
      guard.open_for(number);
      A::store_release(&asked, number);
      auto phase = Guard::begun;
      while ((phase = guard.take_back(number)) == Guard::begun) wait_for_news();
      if (phase == Guard::done) {
        require(A::load_plain(&part) == number, "what was filled");
      } else {
        A::store_plain(&part, number);
      }
    }
    A::store_plain(&part, 2000);  // and again
  }
  void fill() {
    std::uint32_t number = 0;
    while ((number = A::load_acquire(&asked)) == 0) wait_for_news();
    for (; number <= messages; ++number) {
      if (!guard.begin(number)) continue;
      A::store_plain(&part, number);
      if (either()) {
        guard.end(number);
      } else {
        guard.give_up(number);
      }
    }
  }
  void check() {}
};
TEST(a_buffer_that_another_rank_may_fill, is_its_owners_when_it_is_taken_back) {
  expect_right_and_every_mutant_found<CooperativeCopy>(
      {{Damage::no_release, "change", 0,
        "who begins and who closes has written nothing that the other reads"},
       {Damage::no_release, "receive", 0, "the guard tells that it is open, whoever asked"},
       {Damage::no_acquire, "fill", 0, "as well"},
       {Damage::late, "receive", 2, "what the owner copies itself nobody else reads"},
       {Damage::late, "receive", 3, "nor what it writes afterwards"}});
}

}  // namespace

// SPDX-License-Identifier: MIT
// Threads that come to their turns one after the other: progress::Turn.
#include "progress/turn.hpp"

#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;

// Each thread adds to plain memory in its turn.
template <std::size_t count>
struct Turns {
  static constexpr std::size_t threads = count;
  progress::Tickets<A> tickets;
  std::uint32_t turns = 0;

  void run(std::size_t) {
    const std::uint32_t ticket = tickets.draw();
    while (!tickets.is_served(ticket)) wait_for_news();
    require(A::load_plain(&turns) == ticket, "turns in the order of the tickets");
    A::store_plain(&turns, ticket + 1);
    tickets.serve_next();
  }
  void check() { require(turns == count, "a turn for each thread"); }
};

// The order between the store of `serving` and the look at who sleeps is not explored:
// std::atomic_ref sleeps and wakes.
TEST(turns, come_one_after_the_other_for_two) {
  expect_right_and_every_mutant_found<Turns<2>>(
      {Harmless{Damage::no_acquire, "draw", 0, "a ticket is a number alone"},
       Harmless{Damage::no_release, "draw", 0, "a ticket is a number alone"},
       Harmless{Damage::no_order, "serve_next", 0, "only sleepers need it"},
       Harmless{Damage::late, "run", 0, "serve_next begins with a load"}});
}
TEST(turns, come_one_after_the_other_for_three) { expect_right<Turns<3>>(); }

}  // namespace

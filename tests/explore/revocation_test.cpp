// SPDX-License-Identifier: MIT
// Memory that is taken back from who may load it: what RevocationCount promises.
#include "base/atomics.hpp"
#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;

// A sender offers its source with the count of its revocations, and takes it back. The receiver
// copies at any time. Then the same again, with the next count.
struct Revocation {
  static constexpr std::size_t threads = 2;
  static constexpr std::uint32_t offers = 2;
  base::RevocationCount<A> revocations{};
  std::uint32_t offered = 0;  // as the record that carries an offer
  std::uint64_t source[2]{};

  void run(std::size_t rank) { rank == 0 ? offer() : pull(); }
  void write_source(std::uint64_t value) {
    for (std::uint64_t& word : source) A::store_relaxed(&word, value);
  }
  void offer() {
    for (std::uint32_t offer = 1; offer <= offers; ++offer) {
      write_source(offer);
      require(revocations.current() == offer - 1, "the count of earlier offers");
      A::store_release(&offered, offer);
      revocations.revoke();
    }
    write_source(99);  // its owner's again
  }
  void pull() {
    std::uint32_t offer = 0;
    while ((offer = A::load_acquire(&offered)) == 0) wait_for_news();
    std::uint64_t copy[2];
    A::copy_unproven(reinterpret_cast<std::byte*>(copy), reinterpret_cast<std::byte*>(source),
                     sizeof copy);
    if (revocations.has_changed_since(offer - 1)) return;
    require(copy[0] == offer && copy[1] == offer, "a copy of what was taken back");
  }
  void check() {}
};
TEST(a_copy_of_what_is_offered, is_the_message_where_it_was_not_taken_back) {
  expect_right_and_every_mutant_found<Revocation>();
}

}  // namespace

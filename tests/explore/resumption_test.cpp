// SPDX-License-Identifier: MIT
// A coroutine that waits, and the two that want it: the thread that finds the end of its operation,
// and its owner, who destroys it (progress/resumption.hpp).
#include "progress/resumption.hpp"

#include "explore/scenario.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::explore;
using A = ExploredAtomics;

struct ResumedOrDestroyed {
  static constexpr std::size_t threads = 2;
  enum Frame : std::uint32_t { running, stopped, resumed, destroyed };

  progress::WaitingCoroutine<A> waiting;
  std::uint32_t frame = running;

  void run(std::size_t thread) { thread == 0 ? wait_and_destroy() : resume(); }

  void wait_and_destroy() {
    A::store_plain(&frame, stopped);
    waiting.wait(&frame);
    if (waiting.take() != nullptr) A::store_plain(&frame, destroyed);
  }
  // It looks once: the end may be found before anything waits, or behind its destruction.
  void resume() {
    if (!waiting.waits() || waiting.take() == nullptr) return;
    require(A::load_plain(&frame) == stopped, "who resumes finds the frame as it stopped");
    A::store_plain(&frame, resumed);
  }
  void check() {
    require(frame == resumed || frame == destroyed, "one of the two has it");
    require(!waiting.waits(), "who has it leaves nothing to take");
  }
};

TEST(resumption, one_of_two_threads_has_the_coroutine) {
  expect_right_and_every_mutant_found<ResumedOrDestroyed>(
      {Harmless{Damage::no_release, "take", 0, "who takes it writes nothing before"},
       Harmless{Damage::late, "wait_and_destroy", 2, "nothing comes behind the destruction"},
       Harmless{Damage::late, "resume", 0, "nothing comes behind it here"}});
}

}  // namespace

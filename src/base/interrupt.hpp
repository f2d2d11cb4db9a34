// SPDX-License-Identifier: MIT
// Whether who waits is to wait no longer (qpmesh/interrupt.hpp).
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <span>

#include "base/system.hpp"
#include "qpmesh/deadline.hpp"

namespace qpmesh::base {

// Between two questions: whoever waits for an answer to ^C does not notice it, and an interpreter's
// lock is taken seldom.
inline constexpr std::chrono::milliseconds ask_interval{50};

// Is there somebody to ask?
bool may_be_interrupted() noexcept;
bool is_interrupted() noexcept;

// ---- the loops of a start, which may turn far more often ----

// Whether it is in vain, as far as the bootstrap has heard (Bootstrap::check_ranks). May be empty.
using StartCheck = std::function<void()>;

// Asks whether it was interrupted, and check, where the thread has not asked here for ask_interval.
// Throws Error{aborted} of no_peer where it was: it is the rank that throws.
void ask_in_start(Deadline now, const StartCheck& check = {});
// poll(2), by its own result: the count, or -1 and errno. It may end before the deadline with
// nothing. Throws as ask_in_start.
int poll_in_start(const System& system, std::span<pollfd> entries, Deadline deadline,
                  const StartCheck& check = {});

}  // namespace qpmesh::base

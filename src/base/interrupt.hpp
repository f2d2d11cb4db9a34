// Whether who waits is to wait no longer (qpmesh/interrupt.hpp).
#pragma once

#include <chrono>

namespace qpmesh::base {

// Between two questions: whoever waits for an answer to ^C does not notice it, and an interpreter's
// lock is taken seldom.
inline constexpr std::chrono::milliseconds ask_interval{50};

// Is there somebody to ask?
bool may_be_interrupted() noexcept;
bool is_interrupted() noexcept;

}  // namespace qpmesh::base

// SPDX-License-Identifier: MIT
// How long the kernel of a peer has kept silent. What is asked of the system now and then tells
// whether it owes an acknowledgement, and when the last one came: on a pair that had nothing to say
// that may be long ago.
#pragma once

#include <algorithm>
#include <chrono>

#include "qpmesh/deadline.hpp"

namespace qpmesh::transport::tcp {

class Silence {
 public:
  // What is known at `now`. owes: packets were sent more than once, in vain. Returns how long that
  // has been so at least; 0: not so.
  std::chrono::milliseconds lasts(Deadline now, bool owes,
                                  std::chrono::milliseconds since_acknowledgement) noexcept {
    if (!owes) began_ = no_deadline;
    else if (began_ == no_deadline) began_ = now;
    if (!owes) return std::chrono::milliseconds{0};
    const auto seen = std::chrono::duration_cast<std::chrono::milliseconds>(now - began_);
    return std::min(seen, since_acknowledgement);
  }

 private:
  Deadline began_ = no_deadline;  // no_deadline: it owes nothing
};

}  // namespace qpmesh::transport::tcp

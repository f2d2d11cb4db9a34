// SPDX-License-Identifier: MIT
// How long to look for what a peer may do at once.
#pragma once

#include <algorithm>
#include <cstdint>

namespace qpmesh::messaging {

// Does it pay to look on for what a peer sends, before a core that ranks share is given away? Or
// for a peer to stand ready, before a message is copied twice? Nobody tells: found by trying.
class Patience {
 public:
  // Looks for the next message. A look and a pause take some 30 ns; all of them, less than to give
  // a core away and get it back.
  int spins() noexcept { return trust_ > 0 || ++waits_ % waits_per_try == 0 ? spins_max : 0; }
  // Of a wait with such looks.
  void note(bool it_came) noexcept { trust_ = it_came ? trust_max : std::max(trust_ - 1, 0); }

 private:
  static constexpr int spins_max = 32;
  static constexpr int trust_max = 4;
  static constexpr std::uint32_t waits_per_try = 16;

  int trust_ = 0;
  std::uint32_t waits_ = 0;
};

}  // namespace qpmesh::messaging

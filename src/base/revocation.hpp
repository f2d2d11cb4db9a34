// How the owner of memory takes back what others may load, without waiting for them: a count that
// it raises before anybody writes that memory again. Who has copied looks at the count afterwards.
#pragma once

#include <cstdint>

#include "base/atomics.hpp"

namespace qpmesh::base {

// Lies in memory that both share; the owner alone writes it. What is copied meanwhile may be of any
// age: it is thrown away when the count has changed. A copy that has met what was written after
// revoke() sees the count of that revoke(): the two fences pair.
template <class Atomics>
struct RevocationCount {
  std::uint32_t word;

  // The owner's. Memory that it offers carries this count with it.
  std::uint32_t current() const noexcept { return Atomics::load_relaxed(&word); }
  void revoke() noexcept {
    Atomics::store_relaxed(&word, Atomics::load_relaxed(&word) + 1);
    Atomics::order_stores();
  }
  // The reader's, behind its last load of what was offered with that count.
  bool has_changed_since(std::uint32_t offered) const noexcept {
    Atomics::order_loads();
    return Atomics::load_relaxed(&word) != offered;
  }
};
using Revocations = RevocationCount<ProcessAtomics>;

}  // namespace qpmesh::base

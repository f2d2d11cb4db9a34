// How nobody sleeps while there is something for it: a word in which a rank says that it sleeps,
// for those who publish something to look at.
#pragma once

#include <cstdint>

#include "base/atomics.hpp"

namespace qpmesh::base {

// Lies in memory that both share. The owner sets it, looks at everything once more, and sleeps only
// if there was nothing. A publisher stores its flag by store_seq_cst, then asks is_set(), and
// wakes the owner. Of a store and a load on either side one must see the other: hence the fence of
// the owner, and the two sequentially consistent operations of the publisher. An exchange of the
// owner's would order its looks by no rule of C++, and by none of arm64 where an acquire load may
// pass an earlier release.
template <class Atomics>
struct AsleepWord {
  std::uint32_t word;

  void set() noexcept {
    Atomics::store_relaxed(&word, 1U);
    Atomics::order_all();
  }
  void clear() noexcept { Atomics::store_relaxed(&word, 0U); }
  bool is_set() const noexcept { return Atomics::load_seq_cst(&word) != 0; }
};
using Asleep = AsleepWord<ProcessAtomics>;

}  // namespace qpmesh::base

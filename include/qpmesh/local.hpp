// SPDX-License-Identifier: MIT
// A reduction on one rank alone.
#pragma once

#include "qpmesh/detail/untyped.hpp"
#include "qpmesh/element.hpp"
#include "qpmesh/export.h"
#include "qpmesh/reduction.hpp"

namespace qpmesh {

namespace detail {

QPMESH_API void reduce_local(const ConstElements& in, const Elements& inout,
                             const AnyReduction& reduction);

}  // namespace detail

// inout[i] = in[i] op inout[i], by the loops of the collectives and with their bits: for who
// combines what came in messages. Any thread. Error{bad_argument}, and nothing is written: unequal
// counts, two ranges that overlap in part, an average. What a user's function throws is thrown.
template <Source S, Target T, ReductionOf<element_t<S>> O>
  requires SameElements<S, T>
void reduce_local(const S& in, T&& inout, const O& reduction) {
  detail::reduce_local(detail::const_elements(in), detail::elements(inout),
                       detail::any_reduction<element_t<S>>(reduction));
}

}  // namespace qpmesh

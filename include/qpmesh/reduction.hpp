// How elements of several ranks become one.
#pragma once

#include <cstdint>

namespace qpmesh {

enum class ReductionKind : std::uint8_t {
  sum,
  product,
  min,
  max,
  average,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor
};

// Every rank gets the same bits. Integer sum and product wrap; average is the sum, then one division in the
// element's type (integers truncate); min and max propagate NaN and order -0 before +0; bitwise reductions of
// floating types are Error{bad_argument}; logical ones give 1 or 0.
struct Reduction {
  ReductionKind kind;
};

inline constexpr Reduction sum{ReductionKind::sum};
inline constexpr Reduction product{ReductionKind::product};
inline constexpr Reduction min{ReductionKind::min};
inline constexpr Reduction max{ReductionKind::max};
inline constexpr Reduction average{ReductionKind::average};
inline constexpr Reduction bit_and{ReductionKind::bit_and};
inline constexpr Reduction bit_or{ReductionKind::bit_or};
inline constexpr Reduction bit_xor{ReductionKind::bit_xor};
inline constexpr Reduction logical_and{ReductionKind::logical_and};
inline constexpr Reduction logical_or{ReductionKind::logical_or};
inline constexpr Reduction logical_xor{ReductionKind::logical_xor};

}  // namespace qpmesh

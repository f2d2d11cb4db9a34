// A collective's call that was checked, and what follows from its arguments. A program calls most
// of its collectives again and again with the same ones: a call like the last one of its collective
// is not checked again, nor one that differs in the root alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/algorithm.hpp"
#include "context/call_history.hpp"
#include "qpmesh/detail/untyped.hpp"

namespace qpmesh::context {

// Of one communicator, where all that the checks look at beside the call stays the same.
struct PreparedCall {
  // False: its call was refused, or has lists that are the caller's.
  bool lasts = false;
  detail::AnyCollective what{Collective::barrier};
  collectives::CallShape shape{};
  collectives::Arguments arguments;  // set from `what`
  // With the algorithm that ran it last, and its signature.
  CollectiveCall call{.operation = "none"};
  std::uint32_t signature = 0;
  bool moves_nothing = false;
  collectives::DivideKernel divide = nullptr;  // average: after the sum
  std::size_t divided_count = 0;               // elements of out, on this rank
  // Of layouts that leave theirs out.
  std::vector<std::size_t> in_displacements{};
  std::vector<std::size_t> out_displacements{};

  // But for the root. Both are of one collective, and this rank is the root of both, or of neither.
  bool is_like(const detail::AnyCollective& other) const noexcept {
    return lasts && what.in == other.in && what.out == other.out &&
           what.reduction == other.reduction && !other.has_layout();
  }
};

}  // namespace qpmesh::context

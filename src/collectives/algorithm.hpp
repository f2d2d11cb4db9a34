// What an algorithm is: a row that its file ends with, beside the coroutine and the cost.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.hpp"
#include "collectives/arguments.hpp"
#include "collectives/cost.hpp"
#include "collectives/group.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh::collectives {

struct Algorithm {
  Collective collective;
  std::string_view name;  // of its file, of its value in QPMESH_ALGORITHMS and of the log field
  bool (*applies)(const CallShape& shape);
  Cost (*cost)(const CallShape& shape, const CostModel& model);
  Task (*run)(Group group, const Arguments& arguments);
  std::uint64_t hash = base::mix64(name);  // in the signature of a call: the same on every rank
};

// What rows apply to.
inline bool always(const CallShape& /*shape*/) { return true; }
inline bool any_order(const CallShape& shape) { return !shape.ordered; }
inline bool equal_blocks(const CallShape& shape) { return !shape.uneven; }

}  // namespace qpmesh::collectives

#include "bench/scale/bounds.hpp"

#include <functional>
#include <queue>
#include <vector>

namespace qpmesh::bench {
namespace {

using collectives::CallShape;
using collectives::CostModel;

// Until the last of so many ranks knows what one of them knows.
double told_s(int size, const CostModel& model) {
  std::priority_queue<double, std::vector<double>, std::greater<>>
      next_told_s;  // by each rank that knows
  double last_s = 0;
  next_told_s.push(model.latency_s);
  for (int told = 1; told < size; ++told) {
    last_s = next_told_s.top();
    next_told_s.pop();
    next_told_s.push(last_s + model.overhead_s);
    next_told_s.push(last_s + model.latency_s);
  }
  return last_s;
}

double port_bytes(Collective collective, const CallShape& shape) {
  const double others = shape.vector_bytes() - shape.block_bytes();
  switch (collective) {
    case Collective::barrier: break;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exscan: return shape.vector_bytes();
    case Collective::allreduce: return 2 * others;
    case Collective::allgather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall: return others;
  }
  return 0;
}

double combined_bytes(Collective collective, const CallShape& shape) {
  const bool reduces = collective == Collective::reduce ||
                       collective == Collective::reduce_scatter ||
                       collective == Collective::allreduce;
  return reduces ? shape.vector_bytes() - shape.block_bytes() : 0;
}

}  // namespace

double lower_bound_s(Collective collective, const CallShape& shape, const CostModel& model) {
  if (shape.size == 1) return 0;
  return std::max({told_s(shape.size, model),
                   model.latency_s + port_bytes(collective, shape) * model.byte_s,
                   model.latency_s + combined_bytes(collective, shape) * model.reduced_byte_s});
}

}  // namespace qpmesh::bench

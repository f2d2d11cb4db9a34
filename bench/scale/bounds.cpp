#include "bench/scale/bounds.hpp"

#include <functional>
#include <queue>
#include <vector>

namespace qpmesh::bench {
namespace {

using collectives::CallShape;
using collectives::CostModel;

// Until the last of so many ranks knows what one of them knows; senders: each that knows is so many
// that tell it.
double told_s(int size, const CostModel& model, int senders = 1) {
  std::priority_queue<double, std::vector<double>, std::greater<>>
      next_told_s;  // by each rank that knows
  double last_s = 0;
  for (int sender = 0; sender < senders; ++sender) next_told_s.push(model.latency_s);
  for (int told = 1; told < size; ++told) {
    last_s = next_told_s.top();
    next_told_s.pop();
    next_told_s.push(last_s + model.overhead_s);
    for (int sender = 0; sender < senders; ++sender) next_told_s.push(last_s + model.latency_s);
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

// Of a node's link.
double link_bytes(Collective collective, const CallShape& shape) {
  const double others = shape.vector_bytes() * (1 - 1.0 / shape.levels.nodes);
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
    case Collective::scatter: return others;
    case Collective::alltoall: return shape.levels.node_ranks_max * others;
  }
  return 0;
}

}  // namespace

double lower_bound_s(Collective collective, const CallShape& shape,
                     const collectives::TopologyParams& topology) {
  if (shape.size == 1) return 0;
  const CostModel far = topology.model({.size = shape.size});
  const double combined_s = combined_bytes(collective, shape) * far.reduced_byte_s;
  if (shape.levels.nodes == 0) {
    return std::max({told_s(shape.size, far),
                     far.latency_s + port_bytes(collective, shape) * far.byte_s,
                     far.latency_s + combined_s});
  }
  const int node_ranks = shape.levels.node_ranks_max;
  const CostModel near = collectives::inside(topology).model({.size = node_ranks});
  const double fastest_byte_s = std::min(near.byte_s, far.byte_s);
  return std::max({told_s(shape.levels.nodes, far, node_ranks) + near.latency_s,
                   far.latency_s + link_bytes(collective, shape) * far.byte_s,
                   far.latency_s + port_bytes(collective, shape) * fastest_byte_s,
                   far.latency_s + combined_s});
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
#include "bench/scale/bounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

namespace qpmesh::bench {
namespace {

using collectives::CallShape;
using collectives::CostModel;

// Until the last of so many ranks knows what one of them knows. Each that knows tells others of its
// node and others elsewhere at the same time, either as often as a port lets it that does nothing
// else. Of the first node no more are told on it than there are; elsewhere they may be more: so
// nobody is told earlier than here.
double told_s(int size, const CostModel& far, int node_ranks, const CostModel& near) {
  struct Told {
    double on_first_node = 0;
    double on_others = 0;  // by one of their own
    double from_elsewhere = 0;
  };
  const auto ps = [](double seconds) { return std::llround(seconds * 1e12); };  // equal ones meet
  std::map<std::int64_t, Told> at;
  if (node_ranks > 1) at[ps(near.latency_s)].on_first_node = 1;
  at[ps(far.latency_s)].from_elsewhere += 1;
  double first_node = 1;
  double all = 1;
  std::int64_t last = 0;
  while (all < size) {
    const auto [now, told] = *at.begin();
    at.erase(at.begin());
    const double here = std::min(told.on_first_node, node_ranks - first_node);
    first_node += here;
    const double known = here + told.on_others + told.from_elsewhere;  // since now
    if (known == 0) continue;
    all += known;
    last = now;
    at[now + ps(far.overhead_s)].from_elsewhere += told.from_elsewhere;
    at[now + ps(far.latency_s)].from_elsewhere += known;
    if (node_ranks == 1) continue;
    Told& near_again = at[now + ps(near.overhead_s)];
    near_again.on_first_node += told.on_first_node;
    near_again.on_others += told.on_others;
    Told& near_first = at[now + ps(near.latency_s)];
    near_first.on_first_node += here;
    near_first.on_others += told.on_others + told.from_elsewhere;
  }
  return static_cast<double>(last) * 1e-12;
}
double told_s(int size, const CostModel& model) { return told_s(size, model, 1, model); }

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
  switch (collective) {
    case Collective::reduce:
    case Collective::reduce_scatter:
    case Collective::allreduce: return shape.vector_bytes() - shape.block_bytes();
    case Collective::scan: return shape.vector_bytes();
    case Collective::exscan: return shape.size > 2 ? shape.vector_bytes() : 0;
    default: return 0;
  }
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
  return std::max({told_s(shape.size, far, node_ranks, near),
                   far.latency_s + link_bytes(collective, shape) * far.byte_s,
                   far.latency_s + port_bytes(collective, shape) * fastest_byte_s,
                   far.latency_s + combined_s});
}

}  // namespace qpmesh::bench

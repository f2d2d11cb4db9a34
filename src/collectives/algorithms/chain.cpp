// Pipelined chain: the vector goes from rank to rank in segments, each passed on while the next one
// comes. Wins for very long vectors: every link carries the vector once.
// Cost (N-1) alpha + (N-2) s beta + S beta for segments of s bytes.
// Source: the pipeline algorithm of Open MPI's tuned collectives.
#include "collectives/algorithm.hpp"
#include "collectives/patterns/binomial.hpp"

namespace qpmesh::collectives {
namespace {

constexpr std::size_t segment_bytes_max = std::size_t{64} << 10;
// At least one, so that a vector of no bytes is told of too.
std::size_t segment_count(std::size_t bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / segment_bytes_max + 1;
}

Task run(Group group, const Arguments& arguments) {
  const std::size_t bytes = arguments.bytes();
  const auto segment = [&](std::size_t index) {
    const std::size_t begin = index * segment_bytes_max;
    return std::span{arguments.out + begin, std::min(segment_bytes_max, bytes - begin)};
  };
  const int me = relative_rank(group.rank(), arguments.root, group.size());
  const bool receives = me > 0;
  const bool sends = me + 1 < group.size();
  const std::size_t segments = segment_count(bytes);
  Round<1> round{group};
  for (std::size_t index = 0; index < segments; ++index) {
    if (receives) round.receive(group.previous(), segment(index));
    if (receives && sends && index > 0) round.send(group.next(), segment(index - 1));
    if (!receives && sends) round.send(group.next(), segment(index));
    co_await round;
  }
  if (receives && sends) {
    round.send(group.next(), segment(segments - 1));
    co_await round;
  }
}

Cost cost(const CallShape& shape, const CostModel& model) {
  Cost cost;
  if (shape.size == 1) return cost;
  const auto segments = static_cast<double>(segment_count(shape.bytes));
  const auto segment_bytes = static_cast<double>(std::min(shape.bytes, segment_bytes_max));
  cost.time_s = (shape.ranks() - 1) * model.latency_s +
                ((shape.ranks() - 2) * segment_bytes + shape.vector_bytes()) * model.alone().byte_s;
  cost.messages = segments;
  cost.bytes = shape.vector_bytes();
  return cost;
}

}  // namespace

extern constexpr Algorithm broadcast_chain{Collective::broadcast, "chain", always, cost, run};

}  // namespace qpmesh::collectives

// Binomial tree: whoever has the vector sends it to a rank that has not, so their number doubles in
// every round. Wins for small vectors on many ranks. Cost ceil(log2 N)(alpha + S beta). Source: R.
// Thakur, R. Rabenseifner, W. Gropp, 2005.
#include "collectives/patterns/binomial.hpp"
#include "collectives/algorithm.hpp"

namespace qpmesh::collectives {
namespace {

Task run(Group group, const Arguments& arguments) {
  const std::span<std::byte> vector{arguments.out, arguments.bytes()};
  const int size = group.size();
  const int root = arguments.root;
  const int me = relative_rank(group.rank(), root, size);
  constexpr int children_max = 31;
  Round<children_max> round{group};
  if (me != 0) {
    round.receive(absolute_rank(binomial_parent(me), root, size), vector);
    co_await round;
  }
  for (int reach = binomial_reach(me, size) / 2; reach >= 1;
       reach /= 2) {  // the largest subtree first
    if (me + reach < size) round.send(absolute_rank(me + reach, root, size), vector);
  }
  co_await round;
}

Cost cost(const CallShape& shape, const CostModel& model) {
  const double messages = ceil_log2(shape.size);
  return {.time_s = binomial_s(shape.size, model, [&](int) { return shape.vector_bytes(); }),
          .messages = messages,
          .bytes = messages * shape.vector_bytes()};
}

}  // namespace

extern constexpr Algorithm broadcast_binomial{Collective::broadcast, "binomial", always, cost, run};

}  // namespace qpmesh::collectives

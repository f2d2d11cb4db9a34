#include "collectives/allreduce/folding.hpp"

#include <algorithm>

namespace qpmesh::collectives {

Task take_part_folded(Group group, const Arguments& arguments) {
  const int rank_before = group.rank() - 1;
  Round<1> round{group};
  round.send(rank_before, {arguments.in, arguments.bytes()});
  co_await round;
  round.receive(rank_before, {arguments.out, arguments.bytes()});
  co_await round;
}

Task take_folded(Group group, const Arguments& arguments) {
  Round<1> round{group};
  round.receive_reduce(group.rank() + 1, {arguments.out, arguments.bytes()}, arguments.in,
                       arguments.reducer);
  co_await round;
}

Task return_to_folded(Group group, const Arguments& arguments) {
  Round<1> round{group};
  round.send(group.rank() + 1, {arguments.out, arguments.bytes()});
  co_await round;
}

void add_folding_cost(Cost& cost, const RecursiveMultiplying& pattern, double bytes, double early_s,
                      const CostModel& model) {
  if (pattern.folded() == 0) return;
  cost.time_s +=
      model.latency_s + model.combined_s(bytes) + std::max(0.0, model.round_s(1, bytes) - early_s);
  ++cost.messages;
  cost.bytes += bytes;
}

}  // namespace qpmesh::collectives

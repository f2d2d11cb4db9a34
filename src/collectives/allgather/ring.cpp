// Ring allgather: every round passes the newest block to the next rank.
// Cost (N-1)(alpha + S/N beta). Wins for long vectors on neighbour-friendly
// networks; any N; in place for free.
#include "collectives/allgather/allgather.hpp"

namespace qpmesh::collectives {

Task allgather_ring(Group group, std::byte* blocks, std::size_t block_bytes) {
  const auto block = [=](int index) {
    return std::span{blocks + static_cast<std::size_t>(index) * block_bytes, block_bytes};
  };
  Round<1> round{group};
  for (int step = 0; step < group.size() - 1; ++step) {
    round.send(group.next(), block(group.minus(step)));
    round.receive(group.previous(), block(group.minus(step + 1)));
    co_await round;
  }
}

}  // namespace qpmesh::collectives

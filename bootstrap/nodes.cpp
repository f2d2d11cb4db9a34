#include "bootstrap/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/bytes.hpp"
#include "bootstrap/init_error.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

Blob encode(const Neighbours& neighbours) {
  base::ByteWriter writer;
  writer.put_fields(neighbours.are_read, neighbours.proved);
  return std::move(writer).blob();
}

std::vector<Neighbours> read_neighbours(std::span<const Blob> blobs) {
  const int size = static_cast<int>(blobs.size());
  std::vector<Neighbours> all;
  for (int rank = 0; rank < size; ++rank) {
    base::ByteReader reader{blobs[static_cast<std::size_t>(rank)]};
    Neighbours& its = all.emplace_back();
    const std::vector<int>& proved = its.proved;
    reader.get_fields(its.are_read, its.proved);
    const bool ascending = std::ranges::adjacent_find(proved, std::greater_equal{}) == proved.end();
    const bool others = proved.empty() || (proved.front() >= 0 && proved.back() < size &&
                                           !std::ranges::binary_search(proved, rank));
    if (reader.finished() && ascending && others) continue;
    fail_corrupt_blob(rank, fmt::format("rank {} does not say with whom it shares memory", rank));
  }
  return all;
}

std::vector<int> number_nodes(std::span<const Neighbours> neighbours) {
  const auto proved = [&](int rank, int peer) {
    return std::ranges::binary_search(neighbours[static_cast<std::size_t>(rank)].proved, peer);
  };
  std::vector<int> node_of;
  int nodes = 0;
  for (int rank = 0; rank < static_cast<int>(neighbours.size()); ++rank) {
    const std::vector<int>& mine = neighbours[static_cast<std::size_t>(rank)].proved;
    const int lowest = mine.empty() ? rank : std::min(rank, mine.front());
    node_of.push_back(lowest == rank ? nodes++ : node_of[static_cast<std::size_t>(lowest)]);
    for (int other = 0; other < rank; ++other) {
      const bool same_node = node_of[static_cast<std::size_t>(other)] == node_of.back();
      if (same_node == proved(rank, other) && same_node == proved(other, rank)) continue;
      fail_init(ErrorCode::mismatch, rank,
                fmt::format("ranks {} and {} disagree on whether they share memory", other, rank),
                "QPMESH_LOG=info says what each rank saw of its neighbours");
    }
  }
  return node_of;
}

}  // namespace qpmesh::bootstrap

#include "bootstrap/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/bytes.hpp"
#include "bootstrap/init_error.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

Blob encode(const Neighbours& neighbours) {
  base::ByteWriter writer;
  writer.put(static_cast<std::uint8_t>(neighbours.are_read ? 1 : 0));
  writer.put(static_cast<std::uint32_t>(neighbours.proved.size()));
  for (const int peer : neighbours.proved) writer.put(std::int32_t{peer});
  return std::move(writer).blob();
}

std::vector<Neighbours> read_neighbours(std::span<const Blob> blobs) {
  const int size = static_cast<int>(blobs.size());
  std::vector<Neighbours> all;
  for (int rank = 0; rank < size; ++rank) {
    base::ByteReader reader{blobs[static_cast<std::size_t>(rank)]};
    Neighbours& its = all.emplace_back();
    its.are_read = reader.get<std::uint8_t>() != 0;
    const auto count = reader.get<std::uint32_t>();
    int above = 0;
    bool sound = true;
    for (std::uint32_t i = 0; i < count && reader.ok() && sound; ++i) {
      its.proved.push_back(reader.get<std::int32_t>());
      sound = its.proved.back() >= above && its.proved.back() < size && its.proved.back() != rank;
      above = its.proved.back() + 1;
    }
    if (sound && reader.finished()) continue;
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

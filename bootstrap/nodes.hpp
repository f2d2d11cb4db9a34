// Which ranks share memory: what each has proved, and the nodes that follow from it.
#pragma once

#include <span>
#include <vector>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh::bootstrap {

// What a rank tells the others of those with whom it shares memory.
struct Neighbours {
  std::vector<int> proved{};  // they hold our memory as we hold theirs; ascending
  bool are_read = false;      // their private memory, of all of them, and there are some
};
Blob encode(const Neighbours& neighbours);
// Of every rank. Throws Error{corrupt} naming the rank whose blob makes no sense.
std::vector<Neighbours> read_neighbours(std::span<const Blob> blobs);

// Node of each rank, by mutual proof; nodes are numbered by their lowest rank. Throws
// Error{mismatch} where rank a proved rank b but not the reverse, or two ranks proved a third but
// not each other.
std::vector<int> number_nodes(std::span<const Neighbours> neighbours);

}  // namespace qpmesh::bootstrap

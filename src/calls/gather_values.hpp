// SPDX-License-Identifier: MIT
// What calls of the library itself learn of all ranks.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "collectives/algorithm.hpp"
#include "context/communicator_state.hpp"

namespace qpmesh::calls {

// How such calls gather: into everybody's `out`, in rank order, out of blocks as long as `mine`.
struct Gathering {
  const collectives::Algorithm* algorithm;
  collectives::Arguments arguments;
};
Gathering gathering_of_all(const context::CommunicatorState& state, std::span<const std::byte> mine,
                           std::span<std::byte> out);

// Every rank's `mine`, in rank order; bytes is the same everywhere.
std::vector<std::byte> gather_of_all(const std::shared_ptr<context::CommunicatorState>& state,
                                     const context::CollectiveCall& what,
                                     std::span<const std::byte> mine, const CallOptions& options);

// The same of one value.
template <class T>
std::vector<T> gather_values(const std::shared_ptr<context::CommunicatorState>& state,
                             const context::CollectiveCall& what, const T& mine,
                             const CallOptions& options) {
  const auto blocks = gather_of_all(state, what, std::as_bytes(std::span{&mine, 1}), options);
  std::vector<T> values(static_cast<std::size_t>(state->size()));
  std::memcpy(values.data(), blocks.data(), blocks.size());
  return values;
}

}  // namespace qpmesh::calls

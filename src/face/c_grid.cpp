// SPDX-License-Identifier: MIT
// For C: the ranks of a communicator as points of a grid.
#include <algorithm>
#include <limits>

#include "base/bytes.hpp"
#include "face/c_interface.hpp"

struct qpmesh_grid {  // NOLINT(readability-identifier-naming): C's name
  qpmesh::Grid grid;
};

namespace {

using namespace qpmesh;
using namespace qpmesh::face;

const Grid& required_grid(const qpmesh_grid* grid, std::string_view operation) {
  if (grid == nullptr) bad_argument(operation, "qpmesh_grid_make makes it", "grid is null");
  return grid->grid;
}

// What is exchanged: both have two blocks for each dimension.
struct Exchange {
  const Grid& grid;
  qpmesh_communicator& world;
  detail::ConstElements in;
  detail::Elements out;
};
Exchange exchange_of(const qpmesh_grid* grid, qpmesh_communicator* world, const void* in, void* out,
                     std::size_t count, qpmesh_type type, std::string_view operation) {
  const Grid& of = required_grid(grid, operation);
  auto& over = required_world(world, operation);
  const AnElement element = element_of(type, operation);
  // So many that they cannot be counted no memory holds.
  const std::size_t all = base::checked_multiply(count, 2 * of.lengths().size())
                              .value_or(std::numeric_limits<std::size_t>::max());
  return {of, over, source(in, all, element), target(out, all, element)};
}

}  // namespace

int qpmesh_grid_make(const qpmesh_communicator* world, const int* lengths, const int* periodic,
                     int dimensions, qpmesh_grid** grid) {
  return guarded("grid", [&] {
    const auto& of = required_world(world, "grid");
    auto& made = required(grid, "grid", "grid");
    const auto count = static_cast<std::size_t>(std::max(dimensions, 0));
    if (count > 0) required(lengths, "lengths", "grid");
    std::vector<bool> is_periodic;
    if (periodic != nullptr) is_periodic.assign(periodic, periodic + count);
    made = new qpmesh_grid{Grid{of.communicator, {lengths, lengths + count}, is_periodic}};
  });
}

int qpmesh_grid_free(qpmesh_grid* grid) {
  delete grid;
  return QPMESH_OK;
}

int qpmesh_grid_lengths(int ranks, int dimensions, int* lengths) {
  return guarded("grid_lengths", [&] {
    required(lengths, "lengths", "grid_lengths");
    std::ranges::copy(grid_lengths(ranks, dimensions), lengths);
  });
}

int qpmesh_grid_shape(const qpmesh_grid* grid, int* lengths, int* periodic) {
  return guarded("grid_shape", [&] {
    const Grid& of = required_grid(grid, "grid_shape");
    if (lengths != nullptr) std::ranges::copy(of.lengths(), lengths);
    if (periodic == nullptr) return;
    const auto dimensions = static_cast<int>(of.lengths().size());
    for (int dimension = 0; dimension < dimensions; ++dimension)
      periodic[dimension] = of.is_periodic(dimension) ? 1 : 0;
  });
}

int qpmesh_grid_coordinates(const qpmesh_grid* grid, int rank, int* coordinates) {
  return guarded("coordinates", [&] {
    const Grid& of = required_grid(grid, "coordinates");
    required(coordinates, "coordinates", "coordinates");
    std::ranges::copy(of.coordinates(rank), coordinates);
  });
}

int qpmesh_grid_rank_at(const qpmesh_grid* grid, const int* coordinates, int* rank) {
  return guarded("rank_at", [&] {
    const Grid& of = required_grid(grid, "rank_at");
    required(coordinates, "coordinates", "rank_at");
    auto& found = required(rank, "rank", "rank_at");
    found = of.rank_at({coordinates, coordinates + of.lengths().size()});
  });
}

int qpmesh_grid_shift(const qpmesh_grid* grid, int dimension, int steps, int* before, int* behind) {
  return guarded("shift", [&] {
    const Grid& of = required_grid(grid, "shift");
    auto& from = required(before, "before", "shift");
    auto& to = required(behind, "behind", "shift");
    const Neighbours neighbours = of.shift(dimension, steps);
    from = neighbours.from;
    to = neighbours.to;
  });
}

int qpmesh_grid_exchange(const qpmesh_grid* grid, qpmesh_communicator* world, const void* in,
                         void* out, size_t count, qpmesh_type type, const qpmesh_call* call) {
  return guarded("exchange", [&] {
    const Exchange what = exchange_of(grid, world, in, out, count, type, "exchange");
    Access::exchange(what.grid, what.world.communicator, what.in, what.out,
                     read_blocking(call, "exchange").options);
  });
}

int qpmesh_grid_exchange_async(const qpmesh_grid* grid, qpmesh_communicator* world, const void* in,
                               void* out, size_t count, qpmesh_type type, const qpmesh_call* call,
                               qpmesh_request** requests) {
  constexpr std::string_view operation = "exchange_async";
  return guarded(operation, [&] {
    const Exchange what = exchange_of(grid, world, in, out, count, type, operation);
    required(requests, "requests", operation);
    const Asked asked = read_call(call, operation);
    const auto messages =
        Access::messages_of(what.grid, what.world.communicator, what.in, what.out, operation);
    // Those that have begun go when one cannot.
    std::vector<std::unique_ptr<qpmesh_request>> all;
    all.reserve(messages.size());
    for (const detail::AnyMessage& message : messages) {
      qpmesh_request* request = nullptr;
      if (asked.prepared) prepare(what.world, message, asked.options, request);
      else
        start(request,
              [&] { return Access::start(what.world.communicator, message, asked.options); });
      all.emplace_back(request);
    }
    for (auto& request : all) *requests++ = request.release();
  });
}

// SPDX-License-Identifier: MIT
#include "topology.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "communicator.hpp"
#include "entry.hpp"
#include "environment.hpp"
#include "error.hpp"

namespace qpmesh::mpi {
namespace {

std::size_t at(int index) noexcept { return static_cast<std::size_t>(index); }

// The handle that a call makes: null where it fails.
void begin(MPI_Comm* newcomm) {
  check_addresses(newcomm);
  *newcomm = MPI_COMM_NULL;
}

// A list of an argument.
std::span<const int> list_of(const int* values, int count, const char* name) {
  require(count >= 0, MPI_ERR_ARG, "the length of ", name, " is ", count);
  require(count == 0 || values != nullptr, MPI_ERR_ARG, name, " is null");
  return {values, at(count)};
}
void store(const std::vector<int>& list, int count_max, int* target) {
  const auto count = std::min(list.size(), at(std::max(count_max, 0)));
  if (count > 0) check_addresses(target);
  std::copy_n(list.begin(), count, target);
}

const Topology& topology_of(const Communicator& own, int kind, const char* name) {
  const Topology& topology = given_topology(own);
  require(topology.kind == kind, MPI_ERR_TOPOLOGY, "the communicator's topology is no ", name);
  return topology;
}
const Topology& grid_of(const Communicator& own) { return topology_of(own, MPI_CART, "grid"); }
const Topology& graph_of(const Communicator& own) { return topology_of(own, MPI_GRAPH, "graph"); }
const Topology& distributed_graph_of(const Communicator& own) {
  return topology_of(own, MPI_DIST_GRAPH, "distributed graph");
}

void check_rank(const Communicator& own, int rank) {
  require(rank >= 0 && rank < own.size, MPI_ERR_RANK, "rank ", rank, " of ", own.size, " ranks");
}

// The first ranks of a communicator, with a topology; MPI_COMM_NULL for the others. make: the
// topology of a rank.
template <class Make>
MPI_Comm create(Communicator& parent, std::int64_t ranks, const Make& make) {
  require(ranks <= parent.size, MPI_ERR_TOPOLOGY, "a topology of ", ranks, " ranks for ",
          parent.size);
  auto made = ranks == parent.size
                  ? duplicate_ranks(parent)
                  : split_ranks(parent, parent.rank < ranks ? 0 : MPI_UNDEFINED, 0);
  if (!made) return MPI_COMM_NULL;
  made->topology = std::make_shared<const Topology>(make(made->rank));
  return handle_for_program(std::move(made));
}

// ---- grids ----

std::int64_t ranks_of(std::span<const int> lengths) {
  std::int64_t ranks = 1;
  for (const int length : lengths) {
    require(length >= 1, MPI_ERR_DIMS, "a dimension of length ", length);
    ranks *= length;
    if (ranks > std::numeric_limits<int>::max()) return ranks;
  }
  return ranks;
}

std::vector<int> coordinates_of(const Topology& grid, int rank) {
  std::vector<int> coordinates(grid.lengths.size());
  for (std::size_t i = coordinates.size(); i-- > 0; rank /= grid.lengths[i])
    coordinates[i] = rank % grid.lengths[i];
  return coordinates;
}

// MPI_PROC_NULL beyond an edge.
int rank_at(const Topology& grid, std::span<const int> coordinates) {
  int rank = 0;
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    const int length = grid.lengths[i];
    int coordinate = coordinates[i];
    if (grid.periods[i] != 0) coordinate = (coordinate % length + length) % length;
    else if (coordinate < 0 || coordinate >= length) return MPI_PROC_NULL;
    rank = rank * length + coordinate;
  }
  return rank;
}

int shifted(const Topology& grid, int rank, int dimension, std::int64_t steps) {
  std::vector<int> there = coordinates_of(grid, rank);
  const std::int64_t length = grid.lengths[at(dimension)];
  // Beyond the grid by more than its length is beyond it.
  const std::int64_t moved =
      grid.periods[at(dimension)] != 0 ? steps % length : std::clamp(steps, -length, length);
  there[at(dimension)] += static_cast<int>(moved);
  return rank_at(grid, there);
}

Topology make_grid(std::vector<int> lengths, std::vector<int> periods, int rank) {
  Topology grid{.kind = MPI_CART, .lengths = std::move(lengths), .periods = std::move(periods)};
  for (int& period : grid.periods) period = period != 0 ? 1 : 0;
  for (int dimension = 0; at(dimension) < grid.lengths.size(); ++dimension) {
    for (const int step : {-1, 1}) grid.sources.push_back(shifted(grid, rank, dimension, step));
  }
  grid.targets = grid.sources;
  return grid;
}

void check_direction(const Topology& grid, int direction) {
  require(direction >= 0 && at(direction) < grid.lengths.size(), MPI_ERR_DIMS, "dimension ",
          direction, " of ", grid.lengths.size());
}

// The divisors of a number, the least first.
std::vector<int> divisors_of(int number) {
  std::vector<int> low;
  std::vector<int> high;
  for (int divisor = 1; divisor <= number / divisor; ++divisor) {
    if (number % divisor != 0) continue;
    low.push_back(divisor);
    if (divisor != number / divisor) high.push_back(number / divisor);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

// side to the power of dimensions, or a little more than the limit.
std::int64_t volume(int side, int dimensions, int limit) {
  std::int64_t volume = 1;
  for (int i = 0; i < dimensions && volume <= limit; ++i) volume *= side;
  return volume;
}

// Appends lengths that do not fall, from the range, whose product is ranks: those whose first is
// longest, then whose second is, and so on. False where there are none.
bool divide(std::span<const int> divisors, int ranks, int dimensions, int length_min,
            int length_max, std::vector<int>& lengths) {
  if (dimensions == 0) return ranks == 1;
  for (std::size_t i = divisors.size(); i-- > 0;) {
    const int length = divisors[i];
    if (length < length_min) return false;
    if (length > length_max || ranks % length != 0) continue;
    if (volume(length, dimensions, ranks) > ranks) continue;  // no length behind it is shorter
    if (length * volume(length_max, dimensions - 1, ranks) < ranks) return false;
    lengths.push_back(length);
    if (divide(divisors, ranks / length, dimensions - 1, length, length_max, lengths)) return true;
    lengths.pop_back();
  }
  return false;
}

// ---- graphs ----

std::span<const int> neighbours_of(const Topology& graph, int rank) {
  const int begin = rank == 0 ? 0 : graph.index[at(rank) - 1];
  return std::span{graph.edges}.subspan(at(begin), at(graph.index[at(rank)] - begin));
}

Topology make_graph(std::span<const int> index, std::span<const int> edges, int rank) {
  Topology graph{.kind = MPI_GRAPH,
                 .index = {index.begin(), index.end()},
                 .edges = {edges.begin(), edges.end()}};
  const auto own = neighbours_of(graph, rank);
  graph.sources.assign(own.begin(), own.end());
  graph.targets = graph.sources;
  return graph;
}

// The two lists of a graph's arguments.
struct GraphLists {
  std::span<const int> index;
  std::span<const int> edges;
};
GraphLists graph_lists(int nodes, const int* index, const int* edges) {
  const auto own_index = list_of(index, nodes, "index");
  int before = 0;
  for (const int end : own_index) {
    require(end >= before, MPI_ERR_ARG, "index falls from ", before, " to ", end);
    before = end;
  }
  const auto own_edges = list_of(edges, before, "edges");
  for (const int edge : own_edges)
    require(edge >= 0 && edge < nodes, MPI_ERR_ARG, "an edge to ", edge, " of ", nodes, " nodes");
  return {own_index, own_edges};
}

// ---- distributed graphs ----

// Weights of as many edges; none where the graph has none.
std::vector<int> weights_of(const int* weights, int count) {
  if (weights == MPI_UNWEIGHTED) return {};
  require(count == 0 || weights != MPI_WEIGHTS_EMPTY, MPI_ERR_ARG, "MPI_WEIGHTS_EMPTY for ", count,
          " edges");
  const auto list = list_of(weights, weights == MPI_WEIGHTS_EMPTY ? 0 : count, "weights");
  return {list.begin(), list.end()};
}

MPI_Comm adopt_graph(Communicator& parent, Topology graph) {
  auto made = duplicate_ranks(parent);
  made->topology = std::make_shared<const Topology>(std::move(graph));
  return handle_for_program(std::move(made));
}

// An edge on its way to the ranks at its ends.
struct Edge {
  int source;
  int target;
  int weight;
};

// Everybody gives edges; each rank gets those that end at it.
std::vector<Edge> deliver(Communicator& own, const std::vector<std::vector<Edge>>& for_rank) {
  const auto ranks = at(own.size);
  std::vector<std::size_t> sent(ranks);
  std::vector<std::size_t> received(ranks);
  std::vector<Edge> out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    sent[rank] = for_rank[rank].size();
    out.insert(out.end(), for_rank[rank].begin(), for_rank[rank].end());
  }
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  check(qpmesh_alltoall(own.mesh, sent.data(), received.data(), 1, QPMESH_UINT64, nullptr));
  std::size_t count = 0;
  for (const std::size_t some : received) count += some;
  std::vector<Edge> in(count);
  const qpmesh_blocks from{out.data(), sent.data(), nullptr, nullptr};
  const qpmesh_blocks to{in.data(), received.data(), nullptr, nullptr};
  check(qpmesh_alltoallv(own.mesh, &from, &to,
                         QPMESH_STRUCT + static_cast<qpmesh_type>(sizeof(Edge)), nullptr));
  return in;
}

Topology gather_graph(Communicator& own, std::span<const Edge> edges, bool weighted) {
  std::vector<std::vector<Edge>> for_rank(at(own.size));
  for (const Edge& edge : edges) {
    for_rank[at(edge.source)].push_back(edge);
    if (edge.target != edge.source) for_rank[at(edge.target)].push_back(edge);
  }
  Topology graph{.kind = MPI_DIST_GRAPH, .weighted = weighted};
  for (const Edge& edge : deliver(own, for_rank)) {
    if (edge.source == own.rank) {
      graph.targets.push_back(edge.target);
      if (weighted) graph.target_weights.push_back(edge.weight);
    }
    if (edge.target == own.rank) {
      graph.sources.push_back(edge.source);
      if (weighted) graph.source_weights.push_back(edge.weight);
    }
  }
  return graph;
}

}  // namespace

const Topology& given_topology(const Communicator& communicator) {
  if (communicator.topology == nullptr) fail(MPI_ERR_TOPOLOGY, "the communicator has no topology");
  return *communicator.topology;
}

std::vector<int> even_lengths(int ranks, int dimensions) {
  std::vector<int> best;  // not falling
  if (dimensions == 0) return best;
  const std::vector<int> divisors = divisors_of(ranks);
  const auto range = [](const std::vector<int>& lengths) {
    return lengths.back() - lengths.front();
  };
  for (const int longest : divisors) {
    if (volume(longest, dimensions, ranks) < ranks) continue;
    // The shortest is at most as long as the side of a cube.
    if (!best.empty() && volume(longest - range(best), dimensions, ranks) > ranks) break;
    std::vector<int> lengths;
    if (!divide(divisors, ranks, dimensions, 1, longest, lengths)) continue;
    const bool is_better = best.empty() || range(lengths) < range(best) ||
                           (range(lengths) == range(best) && lengths.front() > best.front());
    if (is_better) best = lengths;
  }
  std::ranges::reverse(best);
  return best;
}

}  // namespace qpmesh::mpi

using namespace qpmesh::mpi;

QPMESH_MPI_ENTRY(Topo_test, (MPI_Comm comm, int* kind)) {
  return on_communicator("MPI_Topo_test", comm, [&](const Communicator& own) {
    check_addresses(kind);
    *kind = own.topology == nullptr ? MPI_UNDEFINED : own.topology->kind;
  });
}

// ---- grids ----

QPMESH_MPI_ENTRY(Dims_create, (int nodes, int ndims, int dims[])) {
  return while_running("MPI_Dims_create", [&] {
    const auto given = list_of(dims, ndims, "dims");
    require(nodes >= 1, MPI_ERR_ARG, "nnodes is ", nodes);
    std::int64_t fixed = 1;
    for (const int length : given) {
      require(length >= 0, MPI_ERR_DIMS, "a dimension of length ", length);
      if (length > 0 && fixed <= nodes) fixed *= length;
    }
    const auto open = static_cast<int>(std::ranges::count(given, 0));
    require(nodes % fixed == 0 && (open > 0 || fixed == nodes), MPI_ERR_DIMS,
            "the lengths that are given make ", fixed, ", which does not divide ", nodes,
            " into the others");
    const std::vector<int> lengths = even_lengths(nodes / static_cast<int>(fixed), open);
    auto next = lengths.begin();
    for (int i = 0; i < ndims; ++i) {
      if (dims[i] == 0) dims[i] = *next++;
    }
  });
}

QPMESH_MPI_ENTRY(Cart_create, (MPI_Comm comm, int ndims, const int dims[], const int periods[], int,
                               MPI_Comm* newcomm)) {
  return on_communicator("MPI_Cart_create", comm, [&](Communicator& own) {
    begin(newcomm);
    const auto lengths = list_of(dims, ndims, "dims");
    const auto periodic = list_of(periods, ndims, "periods");
    *newcomm = create(own, ranks_of(lengths), [&](int rank) {
      return make_grid({lengths.begin(), lengths.end()}, {periodic.begin(), periodic.end()}, rank);
    });
  });
}
QPMESH_MPI_ENTRY(Cart_map,
                 (MPI_Comm comm, int ndims, const int dims[], const int[], int* newrank)) {
  return on_communicator("MPI_Cart_map", comm, [&](const Communicator& own) {
    check_addresses(newrank);
    const std::int64_t ranks = ranks_of(list_of(dims, ndims, "dims"));
    require(ranks <= own.size, MPI_ERR_DIMS, "a grid of ", ranks, " ranks for ", own.size);
    *newrank = own.rank < ranks ? own.rank : MPI_UNDEFINED;
  });
}
QPMESH_MPI_ENTRY(Cartdim_get, (MPI_Comm comm, int* ndims)) {
  return on_communicator("MPI_Cartdim_get", comm, [&](const Communicator& own) {
    check_addresses(ndims);
    *ndims = static_cast<int>(grid_of(own).lengths.size());
  });
}
QPMESH_MPI_ENTRY(Cart_get,
                 (MPI_Comm comm, int ndims_max, int dims[], int periods[], int coords[])) {
  return on_communicator("MPI_Cart_get", comm, [&](const Communicator& own) {
    const Topology& grid = grid_of(own);
    require(at(std::max(ndims_max, 0)) >= grid.lengths.size(), MPI_ERR_ARG, "maxdims is ",
            ndims_max, " for ", grid.lengths.size(), " dimensions");
    if (grid.lengths.empty()) return;
    check_addresses(dims, periods, coords);
    store(grid.lengths, ndims_max, dims);
    store(grid.periods, ndims_max, periods);
    store(coordinates_of(grid, own.rank), ndims_max, coords);
  });
}
QPMESH_MPI_ENTRY(Cart_rank, (MPI_Comm comm, const int coords[], int* rank)) {
  return on_communicator("MPI_Cart_rank", comm, [&](const Communicator& own) {
    check_addresses(rank);
    const Topology& grid = grid_of(own);
    const auto coordinates = list_of(coords, static_cast<int>(grid.lengths.size()), "coords");
    const int found = rank_at(grid, coordinates);
    require(found != MPI_PROC_NULL, MPI_ERR_ARG, "these coordinates are not in the grid");
    *rank = found;
  });
}
QPMESH_MPI_ENTRY(Cart_coords, (MPI_Comm comm, int rank, int ndims_max, int coords[])) {
  return on_communicator("MPI_Cart_coords", comm, [&](const Communicator& own) {
    const Topology& grid = grid_of(own);
    check_rank(own, rank);
    require(at(std::max(ndims_max, 0)) >= grid.lengths.size(), MPI_ERR_ARG, "maxdims is ",
            ndims_max, " for ", grid.lengths.size(), " dimensions");
    store(coordinates_of(grid, rank), ndims_max, coords);
  });
}
QPMESH_MPI_ENTRY(Cart_shift,
                 (MPI_Comm comm, int direction, int displacement, int* source, int* destination)) {
  return on_communicator("MPI_Cart_shift", comm, [&](const Communicator& own) {
    check_addresses(source, destination);
    const Topology& grid = grid_of(own);
    check_direction(grid, direction);
    *source = shifted(grid, own.rank, direction, -std::int64_t{displacement});
    *destination = shifted(grid, own.rank, direction, displacement);
  });
}
QPMESH_MPI_ENTRY(Cart_sub, (MPI_Comm comm, const int remain_dims[], MPI_Comm* newcomm)) {
  return on_communicator("MPI_Cart_sub", comm, [&](Communicator& own) {
    begin(newcomm);
    const Topology& grid = grid_of(own);
    const auto remains = list_of(remain_dims, static_cast<int>(grid.lengths.size()), "remain_dims");
    const std::vector<int> coordinates = coordinates_of(grid, own.rank);
    std::vector<int> lengths;
    std::vector<int> periods;
    int color = 0;  // by the coordinates that go
    int key = 0;    // by those that remain
    for (std::size_t i = 0; i < remains.size(); ++i) {
      int& number = remains[i] != 0 ? key : color;
      number = number * grid.lengths[i] + coordinates[i];
      if (remains[i] == 0) continue;
      lengths.push_back(grid.lengths[i]);
      periods.push_back(grid.periods[i]);
    }
    auto made = split_ranks(own, color, key);
    made->topology = std::make_shared<const Topology>(
        make_grid(std::move(lengths), std::move(periods), made->rank));
    *newcomm = handle_for_program(std::move(made));
  });
}

// ---- graphs ----

QPMESH_MPI_ENTRY(Graph_create, (MPI_Comm comm, int nodes, const int index[], const int edges[], int,
                                MPI_Comm* newcomm)) {
  return on_communicator("MPI_Graph_create", comm, [&](Communicator& own) {
    begin(newcomm);
    const GraphLists lists = graph_lists(nodes, index, edges);
    *newcomm =
        create(own, nodes, [&](int rank) { return make_graph(lists.index, lists.edges, rank); });
  });
}
QPMESH_MPI_ENTRY(Graph_map,
                 (MPI_Comm comm, int nodes, const int index[], const int edges[], int* newrank)) {
  return on_communicator("MPI_Graph_map", comm, [&](const Communicator& own) {
    check_addresses(newrank);
    graph_lists(nodes, index, edges);
    require(nodes <= own.size, MPI_ERR_ARG, "a graph of ", nodes, " nodes for ", own.size,
            " ranks");
    *newrank = own.rank < nodes ? own.rank : MPI_UNDEFINED;
  });
}
QPMESH_MPI_ENTRY(Graphdims_get, (MPI_Comm comm, int* nodes, int* edges)) {
  return on_communicator("MPI_Graphdims_get", comm, [&](const Communicator& own) {
    check_addresses(nodes, edges);
    const Topology& graph = graph_of(own);
    *nodes = static_cast<int>(graph.index.size());
    *edges = static_cast<int>(graph.edges.size());
  });
}
QPMESH_MPI_ENTRY(Graph_get,
                 (MPI_Comm comm, int index_max, int edges_max, int index[], int edges[])) {
  return on_communicator("MPI_Graph_get", comm, [&](const Communicator& own) {
    const Topology& graph = graph_of(own);
    store(graph.index, index_max, index);
    store(graph.edges, edges_max, edges);
  });
}
QPMESH_MPI_ENTRY(Graph_neighbors_count, (MPI_Comm comm, int rank, int* count)) {
  return on_communicator("MPI_Graph_neighbors_count", comm, [&](const Communicator& own) {
    check_addresses(count);
    const Topology& graph = graph_of(own);
    check_rank(own, rank);
    *count = static_cast<int>(neighbours_of(graph, rank).size());
  });
}
QPMESH_MPI_ENTRY(Graph_neighbors, (MPI_Comm comm, int rank, int neighbors_max, int neighbors[])) {
  return on_communicator("MPI_Graph_neighbors", comm, [&](const Communicator& own) {
    const Topology& graph = graph_of(own);
    check_rank(own, rank);
    const auto list = neighbours_of(graph, rank);
    store({list.begin(), list.end()}, neighbors_max, neighbors);
  });
}

// ---- distributed graphs ----

QPMESH_MPI_ENTRY(Dist_graph_create_adjacent,
                 (MPI_Comm comm, int indegree, const int sources[], const int source_weights[],
                  int outdegree, const int destinations[], const int destination_weights[],
                  MPI_Info info, int, MPI_Comm* newcomm)) {
  return on_communicator("MPI_Dist_graph_create_adjacent", comm, [&](Communicator& own) {
    begin(newcomm);
    given_info_or_null(info);
    const auto from = list_of(sources, indegree, "sources");
    const auto to = list_of(destinations, outdegree, "destinations");
    for (const int rank : from) check_rank(own, rank);
    for (const int rank : to) check_rank(own, rank);
    *newcomm = adopt_graph(own, {.kind = MPI_DIST_GRAPH,
                                 .sources = {from.begin(), from.end()},
                                 .targets = {to.begin(), to.end()},
                                 .weighted = source_weights != MPI_UNWEIGHTED,
                                 .source_weights = weights_of(source_weights, indegree),
                                 .target_weights = weights_of(destination_weights, outdegree)});
  });
}
QPMESH_MPI_ENTRY(Dist_graph_create, (MPI_Comm comm, int n, const int sources[], const int degrees[],
                                     const int destinations[], const int weights[], MPI_Info info,
                                     int, MPI_Comm* newcomm)) {
  return on_communicator("MPI_Dist_graph_create", comm, [&](Communicator& own) {
    begin(newcomm);
    given_info_or_null(info);
    const auto from = list_of(sources, n, "sources");
    const auto counts = list_of(degrees, n, "degrees");
    int edge_count = 0;
    for (const int count : counts) {
      require(count >= 0, MPI_ERR_ARG, "a degree of ", count);
      edge_count += count;
    }
    const auto to = list_of(destinations, edge_count, "destinations");
    const std::vector<int> own_weights = weights_of(weights, edge_count);
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < from.size(); ++i) {
      check_rank(own, from[i]);
      for (int j = 0; j < counts[i]; ++j) {
        const std::size_t edge = edges.size();
        check_rank(own, to[edge]);
        edges.push_back({from[i], to[edge], own_weights.empty() ? 0 : own_weights[edge]});
      }
    }
    *newcomm = adopt_graph(own, gather_graph(own, edges, weights != MPI_UNWEIGHTED));
  });
}
QPMESH_MPI_ENTRY(Dist_graph_neighbors_count,
                 (MPI_Comm comm, int* indegree, int* outdegree, int* weighted)) {
  return on_communicator("MPI_Dist_graph_neighbors_count", comm, [&](const Communicator& own) {
    check_addresses(indegree, outdegree, weighted);
    const Topology& graph = distributed_graph_of(own);
    *indegree = static_cast<int>(graph.sources.size());
    *outdegree = static_cast<int>(graph.targets.size());
    *weighted = graph.weighted ? 1 : 0;
  });
}
QPMESH_MPI_ENTRY(Dist_graph_neighbors,
                 (MPI_Comm comm, int indegree_max, int sources[], int source_weights[],
                  int outdegree_max, int destinations[], int destination_weights[])) {
  return on_communicator("MPI_Dist_graph_neighbors", comm, [&](const Communicator& own) {
    const Topology& graph = distributed_graph_of(own);
    store(graph.sources, indegree_max, sources);
    store(graph.targets, outdegree_max, destinations);
    if (source_weights != MPI_UNWEIGHTED) store(graph.source_weights, indegree_max, source_weights);
    if (destination_weights != MPI_UNWEIGHTED)
      store(graph.target_weights, outdegree_max, destination_weights);
  });
}

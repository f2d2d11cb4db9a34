// Grids, graphs and their neighbours.
#include "check.h"

static void dims(void) {
  int lengths[3] = {0, 0, 0};
  MPI_Dims_create(12, 2, lengths);
  SAYS("Dims_create is as even as can be, not increasing", lengths[0] == 4 && lengths[1] == 3);
  lengths[0] = lengths[1] = 0;
  MPI_Dims_create(7, 2, lengths);
  SAYS("a prime is one row", lengths[0] == 7 && lengths[1] == 1);
  lengths[0] = 0, lengths[1] = 3, lengths[2] = 0;
  MPI_Dims_create(24, 3, lengths);
  SAYS("lengths that are given stay", lengths[0] == 4 && lengths[1] == 3 && lengths[2] == 2);
}

static void grids(void) {
  int lengths[2] = {0, 0}, periods[2] = {1, 0};
  MPI_Dims_create(size, 2, lengths);
  MPI_Comm grid;
  MPI_Cart_create(MPI_COMM_WORLD, 2, lengths, periods, 0, &grid);
  int status = -1, dimensions = -1, me = -1, place[2], got_lengths[2], got_periods[2];
  MPI_Topo_test(grid, &status);
  SAYS("a grid says that it is one", status == MPI_CART);
  MPI_Topo_test(MPI_COMM_WORLD, &status);
  SAYS("the world is none", status == MPI_UNDEFINED);
  MPI_Cartdim_get(grid, &dimensions);
  MPI_Cart_get(grid, 2, got_lengths, got_periods, place);
  SAYS("a grid keeps its shape", dimensions == 2 && got_lengths[0] == lengths[0] &&
                                     got_lengths[1] == lengths[1] && got_periods[0] == 1 &&
                                     got_periods[1] == 0);
  SAYS("places go row by row", place[0] == rank / lengths[1] && place[1] == rank % lengths[1]);
  MPI_Cart_rank(grid, place, &me);
  SAYS("Cart_rank and Cart_coords are inverse", me == rank);
  int beyond[2] = {place[0] + lengths[0], place[1]};
  MPI_Cart_rank(grid, beyond, &me);
  SAYS("a periodic dimension wraps round", me == rank);
  MPI_Cart_coords(grid, size - 1, 2, place);
  SAYS("the last place", place[0] == lengths[0] - 1 && place[1] == lengths[1] - 1);
  int from = -5, to = -5;
  MPI_Cart_shift(grid, 0, 1, &from, &to);
  SAYS("a shift along a periodic dimension has both neighbours",
       to == (rank + lengths[1]) % size && from == (rank + size - lengths[1]) % size);
  MPI_Cart_shift(grid, 1, 1, &from, &to);
  const int column = rank % lengths[1];
  SAYS("at the edge is nobody", to == (column + 1 < lengths[1] ? rank + 1 : MPI_PROC_NULL) &&
                                    from == (column > 0 ? rank - 1 : MPI_PROC_NULL));
  MPI_Cart_shift(grid, 1, -1, &from, &to);
  SAYS("shifts go back", from == (column + 1 < lengths[1] ? rank + 1 : MPI_PROC_NULL));
  MPI_Comm rows, copy;
  int keep[2] = {0, 1}, ranks = -1;
  MPI_Cart_sub(grid, keep, &rows);
  MPI_Comm_size(rows, &ranks);
  MPI_Comm_rank(rows, &me);
  MPI_Cartdim_get(rows, &dimensions);
  SAYS("a subgrid is a row", ranks == lengths[1] && me == column && dimensions == 1);
  MPI_Comm_free(&rows);
  MPI_Comm_dup(grid, &copy);
  MPI_Topo_test(copy, &status);
  SAYS("a duplicate keeps the topology", status == MPI_CART);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&grid);
  int smaller[1] = {size > 1 ? size - 1 : 1}, flat[1] = {0};
  MPI_Cart_create(MPI_COMM_WORLD, 1, smaller, flat, 1, &grid);
  SAYS("ranks beyond the grid get nothing",
       (grid == MPI_COMM_NULL) == (size > 1 && rank == size - 1));
  if (grid != MPI_COMM_NULL) MPI_Comm_free(&grid);
  MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &grid);
  SAYS("a grid of no dimensions is rank 0", (grid != MPI_COMM_NULL) == (rank == 0));
  if (grid != MPI_COMM_NULL) MPI_Comm_free(&grid);
}

static void neighbours(void) {  // of a line: before and after
  MPI_Comm line;
  int lengths[1] = {size}, periods[1] = {0};
  MPI_Cart_create(MPI_COMM_WORLD, 1, lengths, periods, 0, &line);
  int mine = rank, got[2] = {-7, -7};
  MPI_Neighbor_allgather(&mine, 1, MPI_INT, got, 1, MPI_INT, line);
  SAYS("Neighbor_allgather of a line",
       got[0] == (rank > 0 ? rank - 1 : -7) && got[1] == (rank + 1 < size ? rank + 1 : -7));
  const int out[2] = {10 * rank, 10 * rank + 1};
  got[0] = got[1] = -7;
  MPI_Neighbor_alltoall(out, 1, MPI_INT, got, 1, MPI_INT, line);
  SAYS("Neighbor_alltoall of a line", got[0] == (rank > 0 ? 10 * (rank - 1) + 1 : -7) &&
                                          got[1] == (rank + 1 < size ? 10 * (rank + 1) : -7));
  MPI_Comm_free(&line);
  periods[0] = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, lengths, periods, 0, &line);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  MPI_Request request;
  got[0] = got[1] = -7;
  MPI_Ineighbor_alltoall(out, 1, MPI_INT, got, 1, MPI_INT, line, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  // With both neighbours the same rank Open MPI 4.1 takes the messages in the other order, and
  // MPICH 4.0 those of the forms with v and w.
  if (!open_mpi || size > 2)
    SAYS("Ineighbor_alltoall of a ring, of two ranks and of one too",
         got[0] == 10 * left + 1 && got[1] == 10 * right);
  const int counts[2] = {1, 1}, places[2] = {1, 0};
  got[0] = got[1] = -7;
  MPI_Neighbor_allgatherv(&mine, 1, MPI_INT, got, counts, places, MPI_INT, line);
  SAYS("Neighbor_allgatherv puts them where it is told", got[1] == left && got[0] == right);
  got[0] = got[1] = -7;
  MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, got, counts, places, MPI_INT, line);
  if (size > 2 || (!open_mpi && !mpich))
    SAYS("Neighbor_alltoallv takes and puts", got[1] == 10 * left && got[0] == 10 * right + 1);
  const MPI_Aint byte_places[2] = {4, 0};
  const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  got[0] = got[1] = -7;
  MPI_Neighbor_alltoallw(out, counts, byte_places, types, got, counts, byte_places, types, line);
  if (size > 2 || (!open_mpi && !mpich))
    SAYS("Neighbor_alltoallw too", got[1] == 10 * left && got[0] == 10 * right + 1);
  MPI_Comm_free(&line);
}

static void graphs(void) {  // a directed ring: from the left, to the right
  MPI_Comm ring;
  const int left[1] = {(rank + size - 1) % size}, right[1] = {(rank + 1) % size},
            weight[1] = {rank + 1};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, left, MPI_UNWEIGHTED, 1, right, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &ring);
  int status = -1, in = -1, out = -1, weighted = -1, got = -1;
  MPI_Topo_test(ring, &status);
  MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
  SAYS("a distributed graph says what it is",
       status == MPI_DIST_GRAPH && in == 1 && out == 1 && weighted == 0);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, ring);
  SAYS("neighbours of a directed ring", got == left[0]);
  MPI_Comm_free(&ring);
  const int source[1] = {rank}, degree[1] = {1};
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, source, degree, right, weight, MPI_INFO_NULL, 0, &ring);
  int sources[1] = {-1}, destinations[1] = {-1}, in_weights[1] = {-1}, out_weights[1] = {-1};
  MPI_Dist_graph_neighbors(ring, 1, sources, in_weights, 1, destinations, out_weights);
  SAYS("edges are told where they are wanted",
       sources[0] == left[0] && destinations[0] == right[0] && in_weights[0] == left[0] + 1 &&
           out_weights[0] == rank + 1);
  MPI_Comm_free(&ring);
  int index[64], edges[128], neighbours_of[2];
  for (int i = 0; i < size && size <= 64; ++i) {
    index[i] = 2 * (i + 1);
    edges[2 * i] = (i + size - 1) % size;
    edges[2 * i + 1] = (i + 1) % size;
  }
  MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring);
  int count = -1, nodes = -1, all_edges = -1;
  MPI_Graph_neighbors_count(ring, rank, &count);
  MPI_Graph_neighbors(ring, rank, 2, neighbours_of);
  MPI_Graphdims_get(ring, &nodes, &all_edges);
  SAYS("a graph has the neighbours that it was given", count == 2 && neighbours_of[0] == left[0] &&
                                                           neighbours_of[1] == right[0] &&
                                                           nodes == size && all_edges == 2 * size);
  int both[2] = {-1, -1};
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, both, 1, MPI_INT, ring);
  SAYS("and exchanges with them", both[0] == left[0] && both[1] == right[0]);
  MPI_Comm_free(&ring);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
      {"dims", dims, 1}, {"grids", grids, 1}, {"neighbours", neighbours, 1}, {"graphs", graphs, 1}};
  return RUN_SCENARIOS(scenarios, argc, argv);
}

// SPDX-License-Identifier: MIT
// Grids, graphs and their neighbours.
#include "forms.h"

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
  int smaller[1] = {size > 1 ? size - 1 : 1}, flat[1] = {0}, place_of_mine = -1;
  MPI_Cart_map(MPI_COMM_WORLD, 2, lengths, periods, &place_of_mine);
  SAYS("Cart_map gives each rank a place", place_of_mine >= 0 && place_of_mine < size);
  MPI_Cart_map(MPI_COMM_WORLD, 1, smaller, flat, &place_of_mine);
  if (!open_mpi)
    SAYS("and none to those that are too many",
         (place_of_mine == MPI_UNDEFINED) == (size > 1 && rank == size - 1));
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
  int got_index[64], got_edges[128], place = -1;
  for (int i = 0; i < 64; ++i) got_index[i] = got_edges[i] = got_edges[64 + i] = -1;
  MPI_Graph_get(ring, size, 2 * size, got_index, got_edges);
  SAYS("Graph_get gives the whole graph",
       memcmp(got_index, index, (size_t)size * sizeof(int)) == 0 &&
           memcmp(got_edges, edges, (size_t)size * 2 * sizeof(int)) == 0);
  if (size > 1 && !mpich) {
    got_index[1] = got_edges[1] = -1;
    MPI_Graph_get(ring, 1, 1, got_index, got_edges);
    SAYS("or as much as there is room for",
         got_index[0] == 2 && got_index[1] == -1 && got_edges[0] == edges[0] && got_edges[1] == -1);
  }
  MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &place);
  SAYS("Graph_map gives each rank a node", place >= 0 && place < size);
  edges[0] = edges[1] = 0;  // a node with edges to itself
  MPI_Graph_map(MPI_COMM_WORLD, 1, index, edges, &place);
  if (!open_mpi)  // 4.1 gives each its rank
    SAYS("and none to those that are too many", place == (rank == 0 ? 0 : MPI_UNDEFINED));
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
  if (size > 1 && !open_mpi) {
    memset(index, 0, sizeof index);
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &ring);
    MPI_Graph_get(ring, size, 0, got_index, NULL);
    SAYS("Graph_get of no edges needs no room for them",
         memcmp(got_index, index, (size_t)size * sizeof(int)) == 0);
    MPI_Comm_free(&ring);
  }
}

// One edge, from rank 0 to rank 1: what others give and take has no elements, and no address.
static void ranks_without_neighbours(void) {
  if (mpich) return;  // 4.0 wants a buffer all the same
  const int left[] = {0}, right[] = {1}, weight[] = {1}, one = 1, none = 0;
  const int sends = rank == 0, receives = rank == 1;
  MPI_Comm edge;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, receives, left, weight, sends, right, weight,
                                 MPI_INFO_NULL, 0, &edge);
  MPI_Comm_set_errhandler(edge, MPI_ERRORS_RETURN);
  for (int way = 0; way < ways; ++way) {
    int given = 7, got = -1;
    int* const out = sends ? &given : NULL;
    int* const in = receives ? &got : NULL;
    SAYS("Neighbor_alltoall takes no buffer of who has no neighbours",
         CALL(way, Neighbor_alltoall, neighbor_alltoall, out, 1, MPI_INT, in, 1, MPI_INT, edge) ==
                 MPI_SUCCESS &&
             got == (receives ? 7 : -1));
    got = -1;
    SAYS("nor does Neighbor_allgather", CALL(way, Neighbor_allgather, neighbor_allgather, out, 1,
                                             MPI_INT, in, 1, MPI_INT, edge) == MPI_SUCCESS &&
                                            got == (receives ? 7 : -1));
    if (is_large(way)) continue;
    got = -1;
    SAYS("nor Neighbor_allgatherv",
         CALL_INT(way, Neighbor_allgatherv, neighbor_allgatherv, out, 1, MPI_INT, in, &one, &none,
                  MPI_INT, edge) == MPI_SUCCESS &&
             got == (receives ? 7 : -1));
  }
  MPI_Comm_free(&edge);
}

// ---- every collective of neighbourhoods, in every form, on several kinds of them ----

enum { neighbours_max = 64 };

// Where this rank's blocks go, and of which block of whom those are that it gets. What is beside a
// grid is MPI_PROC_NULL.
typedef struct Neighbourhood {
  const char* name;
  MPI_Comm comm;
  int sources[neighbours_max], from_block[neighbours_max], targets[neighbours_max];
  int in_degree, out_degree;
  // Where two ranks have several edges Open MPI 4.1 takes the messages of a grid in another order,
  // and MPICH 4.0 all of them.
  int order_differs_elsewhere;
} Neighbourhood;

static void add_source(Neighbourhood* to, int source, int block) {
  to->sources[to->in_degree] = source;
  to->from_block[to->in_degree++] = block;
}
static void add_target(Neighbourhood* to, int target) { to->targets[to->out_degree++] = target; }

// What goes to one side of a dimension comes from the other.
static void grid_of(Neighbourhood* made, const char* name, int dimensions, const int* lengths,
                    int periodic) {
  const int periods[2] = {periodic, periodic};
  *made = (Neighbourhood){.name = name, .comm = MPI_COMM_NULL};
  MPI_Cart_create(MPI_COMM_WORLD, dimensions, lengths, periods, 0, &made->comm);
  for (int d = 0; d < dimensions; ++d) {
    int before = -1, after = -1;
    MPI_Cart_shift(made->comm, d, 1, &before, &after);
    add_source(made, before, 2 * d + 1);
    add_source(made, after, 2 * d);
    add_target(made, before);
    add_target(made, after);
    made->order_differs_elsewhere |= periodic && lengths[d] <= 2 && (open_mpi || mpich);
  }
}

static void star_of(Neighbourhood* made) {  // rank 0 and each other one
  int index[neighbours_max], edges[2 * neighbours_max];
  for (int r = 0; r < size; ++r) {
    index[r] = size - 1 + r;
    if (r > 0) edges[r - 1] = r, edges[size - 2 + r] = 0;
  }
  *made = (Neighbourhood){.name = "a star", .comm = MPI_COMM_NULL};
  MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &made->comm);
  for (int r = 1; rank == 0 && r < size; ++r) {
    add_source(made, r, 0);
    add_target(made, r);
  }
  if (rank > 0) {
    add_source(made, 0, rank - 1);
    add_target(made, 0);
  }
}

static void connect(Neighbourhood* made) {
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, made->in_degree, made->sources, MPI_UNWEIGHTED,
                                 made->out_degree, made->targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &made->comm);
}
static void stairs_of(Neighbourhood* made) {  // each to itself and all before it
  *made = (Neighbourhood){.name = "stairs", .comm = MPI_COMM_NULL};
  for (int r = 0; r <= rank; ++r) add_target(made, r);
  for (int r = size - 1; r >= rank; --r) add_source(made, r, rank);
  connect(made);
}
static void double_ring_of(Neighbourhood* made) {
  *made = (Neighbourhood){
      .name = "a ring of double edges", .comm = MPI_COMM_NULL, .order_differs_elsewhere = mpich};
  for (int i = 0; i < 2; ++i) {
    add_target(made, (rank + 1) % size);
    add_source(made, (rank + size - 1) % size, i);
  }
  connect(made);
}

// Blocks by the rank that sends them and their number there: lengths that differ, some are 0. Each
// lies behind a gap of one element.
typedef struct Blocks {
  int lengths[neighbours_max], places[neighbours_max], all;
#if MPI_VERSION >= 4
  MPI_Count large_lengths[neighbours_max];
#endif
  MPI_Aint large_places[neighbours_max], byte_places[neighbours_max];
  MPI_Datatype types[neighbours_max];
} Blocks;
static Blocks sent, received;

static int block_length(int from, int block) { return (3 * from + 2 * block + 1) % 4; }
static void add_block(Blocks* blocks, int index, int kind, int length) {
  if (index == 0) blocks->all = 1;
  blocks->lengths[index] = length;
  blocks->places[index] = blocks->all;
#if MPI_VERSION >= 4
  blocks->large_lengths[index] = length;
#endif
  blocks->large_places[index] = blocks->all;
  // In blocks of the largest elements: their places then do not depend on the type.
  blocks->byte_places[index] = blocks->all * 3 * (MPI_Aint)sizeof(int);
  blocks->types[index] = types[kind];
  blocks->all += length + 1;
}

enum { of_one_block, own_lengths, own_types };  // how blocks are laid out

static void lay_out(const Neighbourhood* of, int shape, int kind) {
  sent.all = received.all = 1;
  for (int i = 0; i < of->out_degree; ++i)
    add_block(&sent, i, shape == own_types ? (kind + i) % 2 : kind, block_length(rank, i));
  for (int i = 0; i < of->in_degree; ++i) {
    const int from = of->sources[i], in_kind = (kind + 1 + (shape == own_types ? i : 0)) % 2;
    const int block = shape == of_one_block ? 0 : of->from_block[i];
    add_block(&received, i, in_kind, from < 0 ? 0 : block_length(from, block));
  }
}

// All blocks that come, and what they must be.
static void neighbourhood_in_one_form(const Neighbourhood* of, int way, int kind) {
  enum { count = 3 };
  const MPI_Comm comm = of->comm;
  const MPI_Datatype out_type = types[kind], in_type = types[1 - kind];

  put(out, kind, 0, count, rank, 0);
  clear(in), clear(expected);
  for (int i = 0; i < of->in_degree; ++i)
    if (of->sources[i] >= 0) put(expected, 1 - kind, i * count, count, of->sources[i], 0);
  CALL(way, Neighbor_allgather, neighbor_allgather, out, count, out_type, in, count, in_type, comm);
  SAYS("Neighbor_allgather: the block of each neighbour, in their order", as_expected(1000));

  lay_out(of, of_one_block, kind);
  clear(in), clear(expected);
  for (int i = 0; i < of->in_degree; ++i)
    put(expected, 1 - kind, received.places[i], received.lengths[i], of->sources[i], 0);
  put(out, kind, 0, block_length(rank, 0), rank, 0);
  if (is_large(way))
    CALL_LARGE(way, Neighbor_allgatherv, neighbor_allgatherv, out, block_length(rank, 0), out_type,
               in, received.large_lengths, received.large_places, in_type, comm);
  else
    CALL_INT(way, Neighbor_allgatherv, neighbor_allgatherv, out, block_length(rank, 0), out_type,
             in, received.lengths, received.places, in_type, comm);
  SAYS("Neighbor_allgatherv: the block of each neighbour at its displacement", as_expected(1000));

  if (of->order_differs_elsewhere) return;
  for (int i = 0; i < of->out_degree; ++i) put(out, kind, i * count, count, rank, i);
  clear(in), clear(expected);
  for (int i = 0; i < of->in_degree; ++i)
    if (of->sources[i] >= 0)
      put(expected, 1 - kind, i * count, count, of->sources[i], of->from_block[i]);
  CALL(way, Neighbor_alltoall, neighbor_alltoall, out, count, out_type, in, count, in_type, comm);
  SAYS("Neighbor_alltoall: of each neighbour the block for this edge", as_expected(1000));

  lay_out(of, own_lengths, kind);
  clear(in), clear(expected);
  for (int i = 0; i < of->out_degree; ++i) put(out, kind, sent.places[i], sent.lengths[i], rank, i);
  for (int i = 0; i < of->in_degree; ++i)
    put(expected, 1 - kind, received.places[i], received.lengths[i], of->sources[i],
        of->from_block[i]);
  if (is_large(way))
    CALL_LARGE(way, Neighbor_alltoallv, neighbor_alltoallv, out, sent.large_lengths,
               sent.large_places, out_type, in, received.large_lengths, received.large_places,
               in_type, comm);
  else
    CALL_INT(way, Neighbor_alltoallv, neighbor_alltoallv, out, sent.lengths, sent.places, out_type,
             in, received.lengths, received.places, in_type, comm);
  SAYS("Neighbor_alltoallv: of each neighbour the block for this edge, at its displacement",
       as_expected(1000));

  if (mpich) return;  // 4.0 sends blocks of other lengths than it is told
  lay_out(of, own_types, kind);
  clear(in), clear(expected);
  for (int i = 0; i < of->out_degree; ++i)
    put(out + 3 * sent.places[i], (kind + i) % 2, 0, sent.lengths[i], rank, i);
  for (int i = 0; i < of->in_degree; ++i)
    put(expected + 3 * received.places[i], (kind + 1 + i) % 2, 0, received.lengths[i],
        of->sources[i], of->from_block[i]);
  if (is_large(way))
    CALL_LARGE(way, Neighbor_alltoallw, neighbor_alltoallw, out, sent.large_lengths,
               sent.byte_places, sent.types, in, received.large_lengths, received.byte_places,
               received.types, comm);
  else
    CALL_INT(way, Neighbor_alltoallw, neighbor_alltoallw, out, sent.lengths, sent.byte_places,
             sent.types, in, received.lengths, received.byte_places, received.types, comm);
  SAYS("Neighbor_alltoallw: of each neighbour the block for this edge, of its own type",
       as_expected(1000));
}

static void every_form(void) {
  if (size > 16) return;
  int lengths[2] = {0, 0};
  MPI_Dims_create(size, 2, lengths);
  Neighbourhood all[6];
  grid_of(&all[0], "a line", 1, &size, 0);
  grid_of(&all[1], "a ring", 1, &size, 1);
  grid_of(&all[2], "a torus", 2, lengths, 1);
  star_of(&all[3]);
  stairs_of(&all[4]);
  double_ring_of(&all[5]);
  for (int n = 0; n < 6; ++n) {
    for (int way = 0; way < ways; ++way)
      for (int kind = 0; kind < kinds; ++kind) {
        const int before = failures;
        neighbourhood_in_one_form(&all[n], way, kind);
        if (failures != before && failures < 20)
          fprintf(stderr, "  on %s, way %d, types %d and %d\n", all[n].name, way, kind, 1 - kind);
      }
    MPI_Comm_free(&all[n].comm);
  }
}

#if MPI_VERSION >= 4
static void persistent_ones(void) {  // each start takes what is there then
  Neighbourhood ring;
  double_ring_of(&ring);
  int mine[2] = {0, 0}, got[2] = {-1, -1};
  const int counts[2] = {1, 1};
  const MPI_Aint places[2] = {0, sizeof(int)};
  const MPI_Datatype ints[2] = {MPI_INT, MPI_INT};
  MPI_Request request;
  MPI_Neighbor_alltoallw_init(mine, counts, places, ints, got, counts, places, ints, ring.comm,
                              MPI_INFO_NULL, &request);
  for (int round = 0; round < 4; ++round) {
    mine[0] = 100 * round + rank, mine[1] = -mine[0];
    got[0] = got[1] = -1;
    MPI_Start(&request);
    if (round == 2) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAYS("a persistent one is started again and again",
         got[0] == 100 * round + ring.sources[0] && got[1] == -got[0]);
  }
  MPI_Request_free(&request);
  MPI_Comm_free(&ring.comm);
}
#endif

static void without_topology(void) {
  MPI_Comm plain;
  MPI_Request request = MPI_REQUEST_NULL;
  int got = -1;
  MPI_Comm_dup(MPI_COMM_WORLD, &plain);
  MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN);
  if (!open_mpi) {
    SAYS("a communicator without topology has no neighbours",
         class_of(MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, plain)) ==
             MPI_ERR_TOPOLOGY);
    SAYS("not to begin with either",
         class_of(MPI_Ineighbor_alltoall(&rank, 1, MPI_INT, &got, 1, MPI_INT, plain, &request)) ==
                 MPI_ERR_TOPOLOGY &&
             got == -1);
  }
  MPI_Comm_free(&plain);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_types();
  const Scenario scenarios[] = {
    {"dims", dims, 1},
    {"grids", grids, 1},
    {"neighbours", neighbours, 1},
    {"graphs", graphs, 1},
    {"ranks_without_neighbours", ranks_without_neighbours, 2},
    {"every_form", every_form, 1},
#if MPI_VERSION >= 4
    {"persistent_ones", persistent_ones, 1},
#endif
    {"without_topology", without_topology, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

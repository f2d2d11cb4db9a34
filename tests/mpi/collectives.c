// SPDX-License-Identifier: MIT
// Collectives: each of them in each form (blocking, non-blocking, persistent, all three with large
// counts), with each type of the two sides, in place, of no elements and of many, with counts of
// each rank's own.
#include "forms.h"

typedef struct Form {
  int way, count, out_kind, in_kind, root, in_place;
} Form;

// Each block has its length, and a place with a gap of one element before it.
static int length_of(int count, int r) {
  return count == 0 ? 0 : count + r - (r % 3 == 2 ? count : 0);
}
static int lengths[64], places[64];
#if MPI_VERSION >= 4
static MPI_Count large_lengths[64];
static MPI_Aint large_places[64];
#endif
static int lay_out(int count, int shift) {
  int place = 1;
  for (int r = 0; r < size; ++r) {
    lengths[r] = length_of(count, r + shift);
    places[r] = place;
    place += lengths[r] + 1;
#if MPI_VERSION >= 4
    large_lengths[r] = lengths[r];
    large_places[r] = places[r];
#endif
  }
  return place;
}

static void bcast(Form f) {
  const int kind = rank == f.root ? f.out_kind : f.in_kind;
  if (rank == f.root) put(in, kind, 0, f.count, f.root, 1);
  CALL(f.way, Bcast, bcast, in, f.count, types[kind], f.root, MPI_COMM_WORLD);
  put(expected, kind, 0, f.count, f.root, 1);
  SAYS("Bcast: everybody has what the root has", as_expected(f.count * 3));
}

static void gather(Form f) {
  const int place = f.in_place && rank == f.root;
  put(place ? in : out, place ? f.in_kind : f.out_kind, place ? rank * f.count : 0, f.count, rank,
      2);
  const void* sent = place ? MPI_IN_PLACE : out;
  void* received = rank == f.root ? in : NULL;
  CALL(f.way, Gather, gather, sent, f.count, types[f.out_kind], received, f.count, types[f.in_kind],
       f.root, MPI_COMM_WORLD);
  if (rank == f.root)
    for (int r = 0; r < size; ++r) put(expected, f.in_kind, r * f.count, f.count, r, 2);
  SAYS("Gather: the root has the block of each rank in its place", as_expected(size * f.count * 3));
}

static void gatherv(Form f) {
  const int all = lay_out(f.count, 0), place = f.in_place && rank == f.root;
  put(place ? in : out, place ? f.in_kind : f.out_kind, place ? places[rank] : 0, lengths[rank],
      rank, 2);
  const void* sent = place ? MPI_IN_PLACE : out;
  if (is_large(f.way))
    CALL_LARGE(f.way, Gatherv, gatherv, sent, lengths[rank], types[f.out_kind], in, large_lengths,
               large_places, types[f.in_kind], f.root, MPI_COMM_WORLD);
  else
    CALL_INT(f.way, Gatherv, gatherv, sent, lengths[rank], types[f.out_kind], in, lengths, places,
             types[f.in_kind], f.root, MPI_COMM_WORLD);
  if (rank == f.root)
    for (int r = 0; r < size; ++r) put(expected, f.in_kind, places[r], lengths[r], r, 2);
  SAYS("Gatherv: the root has the block of each rank at its displacement, and nothing between",
       as_expected(all * 3));
}

static void scatter(Form f) {
  const int place = f.in_place && rank == f.root;
  if (rank == f.root)
    for (int r = 0; r < size; ++r) put(out, f.out_kind, r * f.count, f.count, f.root, r);
  void* received = place ? MPI_IN_PLACE : in;
  const void* sent = rank == f.root ? out : NULL;
  CALL(f.way, Scatter, scatter, sent, f.count, types[f.out_kind], received, f.count,
       types[f.in_kind], f.root, MPI_COMM_WORLD);
  if (!place) put(expected, f.in_kind, 0, f.count, f.root, rank);
  SAYS("Scatter: each has its block of the root", as_expected(f.count * 3));
}

static void scatterv(Form f) {
  const int place = f.in_place && rank == f.root;
  lay_out(f.count, 0);
  if (rank == f.root)
    for (int r = 0; r < size; ++r) put(out, f.out_kind, places[r], lengths[r], f.root, r);
  void* received = place ? MPI_IN_PLACE : in;
  if (is_large(f.way))
    CALL_LARGE(f.way, Scatterv, scatterv, out, large_lengths, large_places, types[f.out_kind],
               received, lengths[rank], types[f.in_kind], f.root, MPI_COMM_WORLD);
  else
    CALL_INT(f.way, Scatterv, scatterv, out, lengths, places, types[f.out_kind], received,
             lengths[rank], types[f.in_kind], f.root, MPI_COMM_WORLD);
  if (!place) put(expected, f.in_kind, 0, lengths[rank], f.root, rank);
  SAYS("Scatterv: each has its block of the root", as_expected(lengths[rank] * 3));
}

static void allgather(Form f) {
  put(f.in_place ? in : out, f.in_place ? f.in_kind : f.out_kind, f.in_place ? rank * f.count : 0,
      f.count, rank, 2);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  CALL(f.way, Allgather, allgather, sent, f.count, types[f.out_kind], in, f.count, types[f.in_kind],
       MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r) put(expected, f.in_kind, r * f.count, f.count, r, 2);
  SAYS("Allgather: each has the block of each rank in its place", as_expected(size * f.count * 3));
}

static void allgatherv(Form f) {
  const int all = lay_out(f.count, 0);
  put(f.in_place ? in : out, f.in_place ? f.in_kind : f.out_kind, f.in_place ? places[rank] : 0,
      lengths[rank], rank, 2);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  if (is_large(f.way))
    CALL_LARGE(f.way, Allgatherv, allgatherv, sent, lengths[rank], types[f.out_kind], in,
               large_lengths, large_places, types[f.in_kind], MPI_COMM_WORLD);
  else
    CALL_INT(f.way, Allgatherv, allgatherv, sent, lengths[rank], types[f.out_kind], in, lengths,
             places, types[f.in_kind], MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r) put(expected, f.in_kind, places[r], lengths[r], r, 2);
  if (mpich && size == 1) return;  // 4.0 passes displacements over where one rank is alone
  SAYS("Allgatherv: each has the block of each rank at its displacement, and nothing between",
       as_expected(all * 3));
}

static void alltoall(Form f) {
  for (int r = 0; r < size; ++r)
    put(f.in_place ? in : out, f.in_place ? f.in_kind : f.out_kind, r * f.count, f.count, rank, r);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  CALL(f.way, Alltoall, alltoall, sent, f.count, types[f.out_kind], in, f.count, types[f.in_kind],
       MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r) put(expected, f.in_kind, r * f.count, f.count, r, rank);
  SAYS("Alltoall: each has a block of each", as_expected(size * f.count * 3));
}

// In place each sends as much to a rank as it receives from it: lengths that depend on the sum of
// both ranks.
static void alltoallv(Form f) {
  const int all = lay_out(f.count, rank);
  for (int r = 0; r < size; ++r)
    put(f.in_place ? in : out, f.in_place ? f.in_kind : f.out_kind, places[r], lengths[r], rank, r);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  if (is_large(f.way))
    CALL_LARGE(f.way, Alltoallv, alltoallv, sent, large_lengths, large_places, types[f.out_kind],
               in, large_lengths, large_places, types[f.in_kind], MPI_COMM_WORLD);
  else
    CALL_INT(f.way, Alltoallv, alltoallv, sent, lengths, places, types[f.out_kind], in, lengths,
             places, types[f.in_kind], MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r) put(expected, f.in_kind, places[r], lengths[r], r, rank);
  SAYS("Alltoallv: each has a block of each at its displacement, and nothing between",
       as_expected(all * 3));
}

static void alltoallw(Form f) {  // types of each pair's own, places in bytes
  static int out_places[64], in_places[64];
  static MPI_Datatype out_types[64], in_types[64];
  const int all = lay_out(f.count, rank);
  for (int r = 0; r < size; ++r) {
    const int out_kind = (f.out_kind + r) % 2, in_kind = (f.in_kind + r) % 2;
    out_types[r] = types[f.in_place ? in_kind : out_kind];
    in_types[r] = types[in_kind];
    // In blocks of the largest elements: their places then do not depend on the type.
    out_places[r] = places[r] * 3 * (int)sizeof(int);
    in_places[r] = places[r] * 3 * (int)sizeof(int);
    put((f.in_place ? in : out) + places[r] * 3, f.in_place ? in_kind : out_kind, 0, lengths[r],
        rank, r);
    put(expected + places[r] * 3, in_kind, 0, lengths[r], r, rank);
  }
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  if (is_large(f.way)) {
#if MPI_VERSION >= 4
    static MPI_Aint large_out[64], large_in[64];
    for (int r = 0; r < size; ++r) large_out[r] = out_places[r], large_in[r] = in_places[r];
    CALL_LARGE(f.way, Alltoallw, alltoallw, sent, large_lengths, large_out, out_types, in,
               large_lengths, large_in, in_types, MPI_COMM_WORLD);
#endif
  } else {
    CALL_INT(f.way, Alltoallw, alltoallw, sent, lengths, out_places, out_types, in, lengths,
             in_places, in_types, MPI_COMM_WORLD);
  }
  if (open_mpi && size == 1) return;  // 4.1 passes displacements over where one rank is alone
  SAYS("Alltoallw: each has a block of each, of its own type", as_expected(all * 3));
}

// ---- reductions: sums of ints ----

static int term(int from, int i) { return (from + 1) * (i % 101 + 1); }
static int sum_up_to(int last, int i) { return (last + 1) * (last + 2) / 2 * (i % 101 + 1); }
static void put_terms(int* data, int count) {
  for (int i = 0; i < count; ++i) data[i] = term(rank, i);
}
static void put_sums(int* data, int first, int count, int last) {
  for (int i = 0; i < count; ++i) data[i] = sum_up_to(last, first + i);
}

static void reduce(Form f) {
  if (mpich && f.root != 0) f.in_place = 0;  // 4.0 reads at MPI_IN_PLACE there
  const int place = f.in_place && rank == f.root;
  put_terms(place ? in : out, f.count);
  const void* sent = place ? MPI_IN_PLACE : out;
  void* received = rank == f.root ? in : NULL;
  CALL(f.way, Reduce, reduce, sent, received, f.count, MPI_INT, MPI_SUM, f.root, MPI_COMM_WORLD);
  if (rank == f.root) put_sums(expected, 0, f.count, size - 1);
  SAYS("Reduce: the root has the sum", as_expected(f.count));
}

static void allreduce(Form f) {
  put_terms(f.in_place ? in : out, f.count);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  CALL(f.way, Allreduce, allreduce, sent, in, f.count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  put_sums(expected, 0, f.count, size - 1);
  SAYS("Allreduce: everybody has the sum", as_expected(f.count));
}

static void reduce_scatter_block(Form f) {
  put_terms(f.in_place ? in : out, f.count * size);
  if (f.in_place) memcpy(expected, in, sizeof in);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  CALL(f.way, Reduce_scatter_block, reduce_scatter_block, sent, in, f.count, MPI_INT, MPI_SUM,
       MPI_COMM_WORLD);
  put_sums(expected, rank * f.count, f.count, size - 1);
  SAYS("Reduce_scatter_block: each has its block of the sum at the start", as_expected(f.count));
}

static void reduce_scatter(Form f) {
  lay_out(f.count, 0);
  int all = 0, first = 0;
  for (int r = 0; r < size; ++r) {
    if (r == rank) first = all;
    all += lengths[r];
  }
  put_terms(f.in_place ? in : out, all);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  if (is_large(f.way))
    CALL_LARGE(f.way, Reduce_scatter, reduce_scatter, sent, in, large_lengths, MPI_INT, MPI_SUM,
               MPI_COMM_WORLD);
  else
    CALL_INT(f.way, Reduce_scatter, reduce_scatter, sent, in, lengths, MPI_INT, MPI_SUM,
             MPI_COMM_WORLD);
  put_sums(expected, first, lengths[rank], size - 1);
  SAYS("Reduce_scatter: each has its block of the sum at the start", as_expected(lengths[rank]));
}

static void scan(Form f) {
  put_terms(f.in_place ? in : out, f.count);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  CALL(f.way, Scan, scan, sent, in, f.count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  put_sums(expected, 0, f.count, rank);
  SAYS("Scan: each has the sum up to its own", as_expected(f.count));
}

static void exscan(Form f) {
  put_terms(f.in_place ? in : out, f.count);
  const void* sent = f.in_place ? MPI_IN_PLACE : out;
  CALL(f.way, Exscan, exscan, sent, in, f.count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) return;  // its result is undefined
  put_sums(expected, 0, f.count, rank - 1);
  SAYS("Exscan: each has the sum of those before it", as_expected(f.count));
}

typedef struct Operation {
  const char* name;
  void (*run)(Form form);
  int rooted, typed, has_in_place;
} Operation;

static const Operation operations[] = {
    {"bcast", bcast, 1, 1, 0},
    {"gather", gather, 1, 1, 1},
    {"gatherv", gatherv, 1, 1, 1},
    {"scatter", scatter, 1, 1, 1},
    {"scatterv", scatterv, 1, 1, 1},
    {"allgather", allgather, 0, 1, 1},
    {"allgatherv", allgatherv, 0, 1, 1},
    {"alltoall", alltoall, 0, 1, 1},
    {"alltoallv", alltoallv, 0, 1, 1},
    {"alltoallw", alltoallw, 0, 1, 1},
    {"reduce", reduce, 1, 0, 1},
    {"allreduce", allreduce, 0, 0, 1},
    {"reduce_scatter_block", reduce_scatter_block, 0, 0, 1},
    {"reduce_scatter", reduce_scatter, 0, 0, 1},
    {"scan", scan, 0, 0, 1},
    {"exscan", exscan, 0, 0, 1},
};

static void every_form(void) {
  static const int counts[] = {0, 1, 7, 2000};
  for (size_t o = 0; o < sizeof operations / sizeof *operations; ++o) {
    const Operation* operation = &operations[o];
    const int before = failures;
    for (int way = 0; way < ways; ++way)
      for (int c = 0; c < 4; ++c)
        for (int kind = 0; kind < (operation->typed ? 4 : 1); ++kind)
          for (int root = 0; root < size; root += operation->rooted && size > 1 ? size - 1 : size)
            for (int in_place = 0; in_place <= operation->has_in_place; ++in_place) {
              if (kind >= 2 && counts[c] == 2000)
                continue;  // long ones of two pairs of types are enough
              clear(in);
              clear(expected);
              const Form form = {way, counts[c], kind % 2, (kind + kind / 2) % 2, root, in_place};
              const int failed = failures;
              operation->run(form);
              if (failures != failed && failures < 20)
                fprintf(
                    stderr, "  %s, way %d, %d elements, types %d and %d, root %d, in place %d\n",
                    operation->name, way, form.count, form.out_kind, form.in_kind, root, in_place);
            }
    if (failures != before) fprintf(stderr, "rank %d: in %s\n", rank, operation->name);
  }
}

static void barriers(void) {
  CALL_INT(blocking, Barrier, barrier, MPI_COMM_WORLD);
  CALL_INT(nonblocking, Barrier, barrier, MPI_COMM_WORLD);
#if MPI_VERSION >= 4
  CALL_INT(persistent, Barrier, barrier, MPI_COMM_WORLD);
#endif
  // Nobody leaves before the last has come.
  MPI_Request request;
  int flag = 0;
  if (rank != 0) {
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (int i = 0; i < 500 && !flag; ++i) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    SAYS("a barrier does not end before everybody has entered it", !flag);
    MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
  } else {
    for (int r = 1; r < size; ++r)
      MPI_Recv(NULL, 0, MPI_INT, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void nothing(void) {  // null buffers where nothing moves
  const int none[64] = {0};
  MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allgatherv(NULL, 0, MPI_INT, NULL, none, none, MPI_INT, MPI_COMM_WORLD);
  if (!mpich)  // which calls two null buffers aliased
    MPI_Alltoallv(NULL, none, none, MPI_INT, NULL, none, none, MPI_INT, MPI_COMM_WORLD);
  MPI_Scan(NULL, NULL, 0, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (!open_mpi && !mpich) {
    MPI_Datatype nulls[64];
    for (int i = 0; i < 64; ++i) nulls[i] = MPI_DATATYPE_NULL;
    if (size <= 64) MPI_Alltoallw(NULL, none, none, nulls, NULL, none, none, nulls, MPI_COMM_WORLD);
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : NULL, 0, MPI_INT, NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
  }
  SAYS("collectives of nothing end", 1);
}

static void insignificant(void) {  // what a rank does not get may have any buffer
  int before = -1;
  MPI_Exscan(&rank, rank == 0 ? NULL : &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  SAYS("rank 0 of Exscan needs no buffer for a result",
       before == (rank == 0 ? -1 : rank * (rank - 1) / 2));
  MPI_Request request;
  before = -1;
  MPI_Iexscan(&rank, rank == 0 ? NULL : &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("and none of Iexscan", before == (rank == 0 ? -1 : rank * (rank - 1) / 2));
}

static void own_operation(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
}

static void empty_elements(void) {
  MPI_Datatype empty;
  MPI_Op own;
  int one = 1, other = 2;
  MPI_Type_contiguous(0, MPI_INT, &empty);
  MPI_Type_commit(&empty);
  MPI_Op_create(own_operation, 1, &own);
  MPI_Allreduce(&one, &other, 3, empty, own, MPI_COMM_WORLD);
  MPI_Reduce_scatter_block(&one, &other, 1, empty, own, MPI_COMM_WORLD);
  SAYS("elements without bytes are reduced to nothing", one == 1 && other == 2);
  MPI_Op_free(&own);
  MPI_Type_free(&empty);
}

static void many_in_flight(void) {
  enum { count = 40 };
  static int sums[count], terms[count], gathered[count][16], from_root[count];
  static MPI_Request requests[3 * count + 2];
  if (size > 16) return;
  int message = -1;
  MPI_Irecv(&message, 1, MPI_INT, (rank + size - 1) % size, 5, MPI_COMM_WORLD,
            &requests[3 * count]);
  for (int i = 0; i < count; ++i) {
    terms[i] = rank + i;
    from_root[i] = rank == i % size ? i : -1;
    MPI_Iallreduce(&terms[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3 * i]);
    MPI_Iallgather(&terms[i], 1, MPI_INT, gathered[i], 1, MPI_INT, MPI_COMM_WORLD,
                   &requests[3 * i + 1]);
    MPI_Ibcast(&from_root[i], 1, MPI_INT, i % size, MPI_COMM_WORLD, &requests[3 * i + 2]);
    if (i == count / 2) {
      int sum = 0;
      MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      SAYS("a blocking collective goes past those in flight", sum == size * (size - 1) / 2);
    }
  }
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &requests[3 * count + 1]);
  MPI_Waitall(3 * count + 2, requests, MPI_STATUSES_IGNORE);
  int right = message == (rank + size - 1) % size;
  for (int i = 0; i < count; ++i) {
    right &= sums[i] == size * (size - 1) / 2 + size * i && from_root[i] == i;
    for (int r = 0; r < size; ++r) right &= gathered[i][r] == r + i;
  }
  SAYS("many collectives are in flight, beside messages", right);
}

static void waited_backwards(void) {
  enum { count = 10 };
  int terms[count], sums[count];
  MPI_Request requests[count];
  for (int i = 0; i < count; ++i) {
    terms[i] = i * (rank + 1);
    MPI_Iallreduce(&terms[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < count; ++i) {
    const int chosen = rank % 2 ? i : count - 1 - i;
    MPI_Wait(&requests[chosen], MPI_STATUS_IGNORE);
    SAYS("collectives are waited for in any order, another on each rank",
         sums[chosen] == chosen * size * (size + 1) / 2);
  }
}

static void two_communicators(void) {  // started in another order on each rank
  MPI_Comm comms[2];
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  for (int round = 0; round < 20; ++round) {
    int sums[2] = {-1, -1}, terms[2] = {rank, rank * 10};
    MPI_Request requests[2];
    for (int i = 0; i < 2; ++i) {
      const int chosen = (rank + i) % 2;
      MPI_Iallreduce(&terms[chosen], &sums[chosen], 1, MPI_INT, MPI_SUM, comms[chosen],
                     &requests[chosen]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    SAYS("collectives of two communicators do not wait for one another",
         sums[0] == size * (size - 1) / 2 && sums[1] == 5 * size * (size - 1));
  }
  MPI_Comm_free(&comms[0]);
  MPI_Comm_free(&comms[1]);
}

#if MPI_VERSION >= 4
static void persistent_in_any_order(void) {
  enum { count = 4 };
  int terms[count], sums[count], order[count], from_root = -1, index = -1;
  MPI_Request requests[count + 1];
  for (int i = 0; i < count; ++i)
    MPI_Allreduce_init(&terms[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[i]);
  MPI_Bcast_init(&from_root, 1, MPI_INT, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[count]);
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < count; ++i) {
      terms[i] = (rank + 1) * (i + 1) + round;
      sums[i] = -1;
      order[i] = (i * (rank % 2 ? count - 1 : 1) + rank + round) % count;
    }
    from_root = rank == size - 1 ? round : -1;
    if (round % 3 == 2) {
      MPI_Startall(count + 1, requests);
    } else {
      if (rank % 2) MPI_Start(&requests[count]);
      for (int i = 0; i < count; ++i) MPI_Start(&requests[order[i]]);
      if (rank % 2 == 0) MPI_Start(&requests[count]);
    }
    int told = 0;
    if (round % 2 || mpich) {  // whose Waitany leaves persistent collectives active
      MPI_Waitall(count + 1, requests, MPI_STATUSES_IGNORE);
    } else {
      while (told <= count) {
        MPI_Waitany(count + 1, requests, &index, MPI_STATUS_IGNORE);
        if (index == MPI_UNDEFINED) break;
        ++told;
      }
      SAYS("Waitany tells each persistent collective once a start", told == count + 1);
    }
    for (int i = 0; i < count; ++i)
      SAYS(
          "persistent collectives are started in any order, another on each rank: they were made "
          "in one",
          sums[i] == (i + 1) * size * (size + 1) / 2 + size * round);
    SAYS("and each start takes what is there then", from_root == round);
  }
  for (int i = 0; i <= count; ++i) MPI_Request_free(&requests[i]);
}

static void persistent_beside_others(
    void) {  // blocking and non-blocking ones between start and end
  int term = 0, sum = 0, all = 0, count = 0;
  MPI_Request request, other;
  MPI_Allreduce_init(&term, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int round = 0; round < 10; ++round) {
    term = rank + round;
    if (rank % 2) MPI_Start(&request);
    MPI_Iallreduce(&rank, &count, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &other);
    MPI_Allreduce(&round, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank % 2 == 0) MPI_Start(&request);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAYS("a persistent collective is started before or after others, as each rank likes",
         sum == size * (size - 1) / 2 + size * round && all == size * round && count == size - 1);
  }
  MPI_Request_free(&request);
}
#endif

static void long_ones(void) {
  enum { count = 1 << 20 };
  double* sent = malloc(count * sizeof(double));
  double* received = malloc(count * sizeof(double));
  for (int i = 0; i < count; ++i) sent[i] = rank + i % 1000;
  MPI_Allreduce(sent, received, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int right = 1;
  const int ranks_sum = size * (size - 1) / 2;
  for (int i = 0; i < count; ++i) right &= received[i] == ranks_sum + size * (i % 1000);
  SAYS("a long vector is reduced", right);
  if (rank == 0)
    for (int i = 0; i < count; ++i) received[i] = -i;
  MPI_Bcast(received, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i) right &= received[i] == -i;
  SAYS("a long vector is sent to all", right);
  MPI_Alltoall(sent, count / size, MPI_DOUBLE, received, count / size, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r)
    for (int i = 0; i < count / size; ++i)
      right &= received[r * (count / size) + i] == r + (rank * (count / size) + i) % 1000;
  SAYS("long blocks are exchanged", right);
  free(sent);
  free(received);
}

static void at_bottom(void) {  // absolute addresses
  int sent = rank, received[64];
  MPI_Aint address;
  const int length = 1;
  MPI_Datatype absolute;
  MPI_Get_address(&sent, &address);
  MPI_Type_create_hindexed(1, &length, &address, MPI_INT, &absolute);
  MPI_Type_commit(&absolute);
  if (size <= 64) MPI_Allgather(MPI_BOTTOM, 1, absolute, received, 1, MPI_INT, MPI_COMM_WORLD);
  int right = 1;
  for (int r = 0; r < size; ++r) right &= received[r] == r;
  SAYS("MPI_BOTTOM and absolute addresses are taken", right);
  sent = rank == size - 1 ? 77 : 0;
  MPI_Bcast(MPI_BOTTOM, 1, absolute, size - 1, MPI_COMM_WORLD);
  SAYS("in collectives of one buffer too", sent == 77);
  MPI_Type_free(&absolute);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_types();
  const Scenario scenarios[] = {
    {"every_form", every_form, 1},
    {"barriers", barriers, 1},
    {"nothing", nothing, 1},
    {"insignificant", insignificant, 1},
    {"empty_elements", empty_elements, 1},
    {"many_in_flight", many_in_flight, 1},
    {"waited_backwards", waited_backwards, 1},
    {"two_communicators", two_communicators, 1},
#if MPI_VERSION >= 4
    {"persistent_in_any_order", persistent_in_any_order, 1},
    {"persistent_beside_others", persistent_beside_others, 1},
#endif
    {"long_ones", long_ones, 1},
    {"at_bottom", at_bottom, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

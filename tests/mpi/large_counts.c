// SPDX-License-Identifier: MIT
// Counts, displacements, strides and lengths of messages beyond INT_MAX, in the functions that end
// in _c. A buffer is the same few megabytes again and again, and an end of its own, so that what a
// call leaves out at the end is seen.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): for memfd_create
#define _GNU_SOURCE
#include <limits.h>
#include <stdint.h>
#include <sys/mman.h>

#if !defined(RUN_SECONDS_MAX)
#define RUN_SECONDS_MAX 100  // gigabytes are copied, also on a machine that others use
#endif
#include "check.h"

#if defined(__SANITIZE_THREAD__)
int main(void) {
  printf("skipped: ThreadSanitizer remembers four times as many bytes as a message has\n");
  return 0;
}
#elif MPI_VERSION >= 4

// As an int it is negative, and the rest behind INT_MAX is not whole words.
static const MPI_Count many = (MPI_Count)INT_MAX + 10;
enum { piece = 16 << 20, end_bytes = 4096 };
// The end begins here: the last pages of a buffer, with the last 9 of its bytes.
static const MPI_Count end_at = (MPI_Count)INT_MAX + 1;

// Null where the system does not give so many addresses.
static unsigned char* make_buffer(void) {
  const int file = memfd_create("buffer", 0);
  const size_t bytes = (size_t)end_at + end_bytes;
  if (file < 0 || ftruncate(file, piece + end_bytes) != 0) return NULL;
  unsigned char* const all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;
  for (size_t at = 0; at < bytes; at += piece) {
    const int is_end = at == (size_t)end_at;
    if (mmap(all + at, is_end ? end_bytes : piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file, is_end ? piece : 0) == MAP_FAILED)
      return NULL;
  }
  close(file);
  return all;
}
static unsigned char *from, *to;

static unsigned char value_at(MPI_Count index) { return (unsigned char)(index % 251 + 1); }
static void fill(void) {
  for (int i = 0; i < piece; ++i) from[i] = value_at(i), to[i] = 0;
  for (int i = 0; i < end_bytes; ++i) from[end_at + i] = value_at(i), to[end_at + i] = 0;
}
// All but the end, and as much of the end as the count has.
static int has_arrived(void) {
  for (int i = 0; i < piece; ++i)
    if (to[i] != value_at(i)) return 0;
  for (int i = 0; i < end_bytes; ++i)
    if (to[end_at + i] != (end_at + i < many ? value_at(i) : 0)) return 0;
  return 1;
}

static void messages(void) {
  fill();
  MPI_Status status;
  MPI_Count count = -1;
  int narrow = -1;
  if (rank == 0) MPI_Send_c(from, many, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  if (rank != 1) return;
  SAYS("a message of more than INT_MAX elements is received",
       MPI_Recv_c(to, many, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
  SAYS("with all of its bytes", has_arrived());
  MPI_Get_count_c(&status, MPI_BYTE, &count);
  SAYS("Get_count_c tells how many came", count == many);
  MPI_Get_elements_c(&status, MPI_BYTE, &count);
  SAYS("Get_elements_c too", count == many);
  MPI_Get_count(&status, MPI_BYTE, &narrow);
  SAYS("Get_count cannot", narrow == MPI_UNDEFINED);
}

static void one_large_element(void) {
  MPI_Datatype type;
  MPI_Status status;
  MPI_Count size = -1, lower = -1, extent = -1;
  int narrow = -1;
  MPI_Type_contiguous_c(many, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_Type_size_c(type, &size);
  MPI_Type_get_extent_c(type, &lower, &extent);
  SAYS("a type has more than INT_MAX bytes", size == many && lower == 0 && extent == many);
  MPI_Type_size(type, &narrow);
  SAYS("which an int cannot tell", narrow == MPI_UNDEFINED);
  fill();
  if (rank == 0) MPI_Send(from, 1, type, 1, 2, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Recv(to, 1, type, 0, 2, MPI_COMM_WORLD, &status);
    SAYS("one element of it is received", has_arrived() && count_of(&status, type) == 1);
  }
  MPI_Type_free(&type);
}

static void far_apart(void) {
  MPI_Datatype type;
  fill();
  MPI_Type_vector_c(2, 1, many - 1, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  const unsigned char first = from[0], last = from[many - 1];
  unsigned char packed[2] = {0, 0};
  MPI_Count position = 0;
  MPI_Pack_c(from, 1, type, packed, 2, &position, MPI_COMM_WORLD);
  SAYS("bytes that are more than INT_MAX apart are packed",
       position == 2 && packed[0] == first && packed[1] == last);
  position = 0;
  MPI_Unpack_c(packed, 2, &position, to, 1, type, MPI_COMM_WORLD);
  SAYS("and unpacked", to[0] == first && to[many - 1] == last && to[many - 2] == 0);
  MPI_Type_free(&type);
  const MPI_Count ones[2] = {1, 1};
  const MPI_Aint places[2] = {0, (MPI_Aint)many - 1};
  const unsigned char mine = (unsigned char)(100 + rank);
  MPI_Allgatherv_c(&mine, 1, MPI_BYTE, to, ones, places, MPI_BYTE, MPI_COMM_WORLD);
  SAYS("blocks lie behind INT_MAX", to[0] == 100 && to[many - 1] == 101);
}

static void packing(void) {
  MPI_Count bytes = -1, position = 0;
  int narrow = -1;
  MPI_Pack_size_c(many, MPI_BYTE, MPI_COMM_WORLD, &bytes);
  SAYS("Pack_size_c tells more than INT_MAX bytes", bytes == many);
  if (!open_mpi && !mpich) {
    const int code = MPI_Pack_size(INT_MAX, MPI_INT, MPI_COMM_WORLD, &narrow);
    SAYS("Pack_size cannot, and says so", class_of(code) == MPI_ERR_VALUE_TOO_LARGE);
  }
  if (rank != 0) return;
  fill();
  MPI_Pack_c(from, many, MPI_BYTE, to, many, &position, MPI_COMM_WORLD);
  SAYS("more than INT_MAX bytes are packed", position == many && has_arrived());
}

static void broadcast(void) {
  fill();
  MPI_Bcast_c(rank == 0 ? from : to, many, MPI_BYTE, 0, MPI_COMM_WORLD);
  SAYS("a broadcast has more than INT_MAX elements", rank == 0 || has_arrived());
}

// Where memory is seen many times all ranks have the same, of which any order makes the same.
static void reduction(void) {
  fill();
  for (int i = 0; i < end_bytes; ++i) from[end_at + i] = (unsigned char)(1 << rank);
  MPI_Allreduce_c(from, to, many, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  int is_whole = 1;
  for (int i = 0; i < piece; ++i) is_whole &= to[i] == value_at(i);
  for (int i = 0; i < end_bytes; ++i)
    is_whole &= to[end_at + i] == (end_at + i < many ? (1 << size) - 1 : 0);
  SAYS("a reduction has more than INT_MAX elements", is_whole);
}

static MPI_Count reduced;
static void count_elements(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)type;
  reduced += *count > 0 ? *count : 2 * many;
}
static void count_elements_c(void* in, void* inout, MPI_Count* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)type;
  reduced += *count;
}
static void functions_of_the_program(void) {
  MPI_Op narrow, wide;
  MPI_Op_create(count_elements, 1, &narrow);
  MPI_Op_create_c(count_elements_c, 1, &wide);
  if (!mpich) {  // which ends the process
    MPI_Reduce_local_c(from, to, many, MPI_BYTE, narrow);
    SAYS("a function with counts of int is called until all are reduced", reduced == many);
  }
  reduced = 0;
  MPI_Reduce_local_c(from, to, many, MPI_BYTE, wide);
  SAYS("one with large counts gets them", reduced == many);
  MPI_Op_free(&narrow);
  MPI_Op_free(&wide);
}

// Elements of no bytes: nothing moves, and a count that is cut to an int is negative.
static void of_nothing(void) {
  MPI_Datatype type;
  MPI_Request request;
  MPI_Status status;
  MPI_Type_contiguous(0, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
#define GOES_WELL(...) SAYS(#__VA_ARGS__, (__VA_ARGS__) == MPI_SUCCESS)
  GOES_WELL(MPI_Sendrecv_c(from, many, type, next, 3, to, many, type, before, 3, MPI_COMM_WORLD,
                           &status));
  GOES_WELL(MPI_Irecv_c(to, many, type, before, 4, MPI_COMM_WORLD, &request));
  GOES_WELL(MPI_Ssend_c(from, many, type, next, 4, MPI_COMM_WORLD));
  GOES_WELL(MPI_Wait(&request, &status));
  GOES_WELL(MPI_Gather_c(from, many, type, to, many, type, 0, MPI_COMM_WORLD));
  GOES_WELL(MPI_Scatter_c(from, many, type, to, many, type, 0, MPI_COMM_WORLD));
  GOES_WELL(MPI_Allgather_c(from, many, type, to, many, type, MPI_COMM_WORLD));
  GOES_WELL(MPI_Alltoall_c(from, many, type, to, many, type, MPI_COMM_WORLD));
  GOES_WELL(MPI_Ibcast_c(from, many, type, 0, MPI_COMM_WORLD, &request));
  GOES_WELL(MPI_Wait(&request, &status));
  MPI_Type_free(&type);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  from = make_buffer();
  to = make_buffer();
  int have_buffers = from != NULL && to != NULL;
  MPI_Allreduce(MPI_IN_PLACE, &have_buffers, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  if (!have_buffers) {
    if (rank == 0) printf("skipped: the system does not map 2 GiB twice for each rank\n");
    MPI_Finalize();
    return 0;
  }
  const Scenario scenarios[] = {
      {"messages", messages, 2},
      {"one_large_element", one_large_element, 2},
      {"far_apart", far_apart, 2},
      {"packing", packing, 1},
      {"broadcast", broadcast, 1},
      {"reduction", reduction, 1},
      {"functions_of_the_program", functions_of_the_program, 1},
      {"of_nothing", of_nothing, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

#else
int main(void) {
  printf("skipped: large counts came with MPI 4\n");
  return 0;
}
#endif

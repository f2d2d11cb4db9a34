// SPDX-License-Identifier: MIT
// Each function with counts of MPI_Count beside the same one with counts of int: with small counts
// both do the same. Those of collectives and neighbourhoods are in their own programs.
#include "check.h"

enum { go = 999, longest = 3000 };

static int filled(const int* data, int count, int value) {
  for (int i = 0; i < count; ++i)
    if (data[i] != value + i) return 0;
  return 1;
}
static void fill(int* data, int count, int value) {
  for (int i = 0; i < count; ++i) data[i] = value + i;
}

// ---- messages: every send to every receive ----

enum { sends = 12, receives = 5 };
static const char* const send_names[sends] = {
    "Send",   "Ssend",  "Bsend",     "Rsend",      "Isend",      "Issend",
    "Ibsend", "Irsend", "Send_init", "Ssend_init", "Bsend_init", "Rsend_init"};
static const char* const receive_names[receives] = {"Recv", "Irecv", "Recv_init", "Mrecv",
                                                    "Imrecv"};

static void finish(MPI_Request* request, int prepared) {
  if (prepared) MPI_Start(request);
  MPI_Wait(request, MPI_STATUS_IGNORE);
  if (prepared) MPI_Request_free(request);
}

#define WITH_COUNTS(large, name, ...) \
  ((large) ? MPI_##name##_c(__VA_ARGS__) : MPI_##name(__VA_ARGS__))

static void send_by(int way, int large, const int* data, int count, int to, int tag,
                    MPI_Comm comm) {
  MPI_Request request;
#define ONE(name) WITH_COUNTS(large, name, data, count, MPI_INT, to, tag, comm)
#define BEGUN(name) WITH_COUNTS(large, name, data, count, MPI_INT, to, tag, comm, &request)
  switch (way) {
    case 0: ONE(Send); return;
    case 1: ONE(Ssend); return;
    case 2: ONE(Bsend); return;
    case 3: ONE(Rsend); return;
    case 4: BEGUN(Isend); break;
    case 5: BEGUN(Issend); break;
    case 6: BEGUN(Ibsend); break;
    case 7: BEGUN(Irsend); break;
    case 8: BEGUN(Send_init); break;
    case 9: BEGUN(Ssend_init); break;
    case 10: BEGUN(Bsend_init); break;
    default: BEGUN(Rsend_init); break;
  }
#undef ONE
#undef BEGUN
  finish(&request, way >= 8);
}

static void receive_by(int way, int large, int* data, int count, int from, int tag, MPI_Comm comm,
                       MPI_Status* status) {
  MPI_Request request;
  MPI_Message message = MPI_MESSAGE_NULL;
  // A receive that waits before the send begins, for ready sends.
  if (way == 1) WITH_COUNTS(large, Irecv, data, count, MPI_INT, from, tag, comm, &request);
  if (way == 2) {
    WITH_COUNTS(large, Recv_init, data, count, MPI_INT, from, tag, comm, &request);
    MPI_Start(&request);
  }
  MPI_Send(NULL, 0, MPI_INT, from, go, comm);
  if (way == 0) WITH_COUNTS(large, Recv, data, count, MPI_INT, from, tag, comm, status);
  if (way >= 3) MPI_Mprobe(from, tag, comm, &message, MPI_STATUS_IGNORE);
  if (way == 3) WITH_COUNTS(large, Mrecv, data, count, MPI_INT, &message, status);
  if (way == 4) WITH_COUNTS(large, Imrecv, data, count, MPI_INT, &message, &request);
  if (way == 1 || way == 2 || way == 4) MPI_Wait(&request, status);
  if (way == 2) MPI_Request_free(&request);
}

static void messages(void) {
  static int data[longest];
  char* const memory = malloc(sizeof data + MPI_BSEND_OVERHEAD);
  if (rank == 0) MPI_Buffer_attach(memory, (int)sizeof data + MPI_BSEND_OVERHEAD);
  for (int send = 0; send < sends; ++send)
    for (int receive = 0; receive < receives; ++receive) {
      const int ready = send % 4 == 3, waits = receive == 1 || receive == 2;
      if (ready && !waits) continue;
      for (int large = 0; large < 4; ++large)  // on neither side, one, both
        for (int count = 0; count < longest; count = 3 * count + 7) {
          const int before = failures, value = 100 * send + 10 * receive + large;
          MPI_Status status;
          if (rank == 0) {
            fill(data, count, value);
            MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            send_by(send, large & 1, data, count, 1, send, MPI_COMM_WORLD);
          }
          if (rank != 1) continue;
          memset(data, 0, sizeof data);
          receive_by(receive, large >> 1, data, longest, 0, send, MPI_COMM_WORLD, &status);
          MPI_Count elements = -1;
          MPI_Get_count_c(&status, MPI_INT, &elements);
          SAYS("each send comes to each receive, with small counts and large ones",
               filled(data, count, value) && count_of(&status, MPI_INT) == count &&
                   elements == count && status.MPI_TAG == send && status.MPI_SOURCE == 0);
          if (failures != before)
            fprintf(stderr, "  %s to %s, large %d, %d elements\n", send_names[send],
                    receive_names[receive], large, count);
        }
    }
  if (rank == 0) {
    void* address;
    int bytes;
    MPI_Buffer_detach(&address, &bytes);
  }
  free(memory);
}

static void exchanges(void) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int out[5], in[7];
  for (int large = 0; large < 2; ++large)
    for (int way = 0; way < 4; ++way) {
      MPI_Status status;
      MPI_Request request;
      fill(out, 5, 100 * rank);
      for (int i = 0; i < 7; ++i) in[i] = i < 5 && way >= 2 ? out[i] : -1;
      switch (way) {
        case 0:
          WITH_COUNTS(large, Sendrecv, out, 5, MPI_INT, right, 1, in, 7, MPI_INT, left, 1,
                      MPI_COMM_WORLD, &status);
          break;
        case 1:
          WITH_COUNTS(large, Isendrecv, out, 5, MPI_INT, right, 1, in, 7, MPI_INT, left, 1,
                      MPI_COMM_WORLD, &request);
          break;
        case 2:
          WITH_COUNTS(large, Sendrecv_replace, in, 5, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD,
                      &status);
          break;
        default:
          WITH_COUNTS(large, Isendrecv_replace, in, 5, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD,
                      &request);
      }
      if (way % 2) MPI_Wait(&request, &status);
      SAYS("both ways at once, with small counts and large ones",
           filled(in, 5, 100 * left) && in[5] == -1 && in[6] == -1 &&
               count_of(&status, MPI_INT) == 5 && status.MPI_SOURCE == left);
    }
}

static void buffers(void) {
  char memory[MPI_BSEND_OVERHEAD + 100];
  void* address = NULL;
  int in = -1, bytes = -1;
  MPI_Count large_bytes = -1;
  MPI_Buffer_attach_c(memory, sizeof memory);
  MPI_Bsend(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
  MPI_Recv(&in, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Buffer_detach_c(&address, &large_bytes);
  SAYS("a buffer of a large size is attached and detached",
       in == rank && address == memory && large_bytes == sizeof memory);
  address = NULL;
  MPI_Buffer_attach_c(memory, sizeof memory);
  MPI_Buffer_detach(&address, &bytes);
  SAYS("its size may be asked for as int", address == memory && bytes == sizeof memory);
#if MPI_IS_AT_LEAST(4, 1)
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  in = -1, large_bytes = -1, address = NULL;
  MPI_Comm_attach_buffer_c(comm, memory, sizeof memory);
  MPI_Bsend(&rank, 1, MPI_INT, 0, 1, comm);
  MPI_Recv(&in, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
  MPI_Comm_detach_buffer_c(comm, &address, &large_bytes);
  SAYS("so is a communicator's", in == rank && address == memory && large_bytes == sizeof memory);
  MPI_Comm_free(&comm);
#endif
}

static void statuses(void) {
  MPI_Status status;
  MPI_Datatype three;
  const int out[5] = {0};
  int in[6], count = -1;
  MPI_Count large = -1;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_commit(&three);
  MPI_Sendrecv(out, 5, MPI_INT, 0, 1, in, 6, MPI_INT, 0, 1, MPI_COMM_SELF, &status);
  MPI_Get_elements(&status, three, &count);
  MPI_Get_elements_c(&status, three, &large);
  SAYS("Get_elements with a large count", count == 5 && large == 5);
  MPI_Get_count_c(&status, three, &large);
  SAYS("Get_count with a large count", large == MPI_UNDEFINED);
#if MPI_IS_AT_LEAST(4, 1)
  MPI_Status_set_elements_c(&status, MPI_INT, 12);
  MPI_Get_count(&status, three, &count);
  SAYS("Status_set_elements with a large count", count == 4);
  MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)5 << 32);
  MPI_Get_elements(&status, MPI_BYTE, &count);
  MPI_Get_elements_c(&status, MPI_BYTE, &large);
  SAYS("what is too large for int is told by the other alone",
       count == MPI_UNDEFINED && large == (MPI_Count)5 << 32);
#endif
  MPI_Type_free(&three);
}

// ---- types ----

static MPI_Count total(const MPI_Count* counts, MPI_Count count) {  // of their places, too
  MPI_Count sum = 0;
  for (MPI_Count i = 0; i < count; ++i) sum += (i + 1) * counts[i];
  return sum;
}

// The measures of both, what they take of memory, and what they were made of. Counts and addresses
// of the one are counts of the other; numbers that are no counts are numbers of both.
static void same(const char* name, MPI_Datatype small, MPI_Datatype large, int numbers_of_both) {
  enum { bytes_max = 4000 };
  static unsigned char memory[bytes_max], packed[2][bytes_max];
  const int before = failures;
  int bytes = -1, combiner[2] = {-1, -2}, positions[2] = {0, 0}, integers, addresses, types;
  MPI_Aint lower, extent, true_lower, true_extent;
  MPI_Count large_bytes = -1, bounds[4], counts[4] = {-1, -1, -1, -1};
  MPI_Type_size(small, &bytes);
  MPI_Type_size_c(large, &large_bytes);
  SAYS("they have one size", bytes > 0 && large_bytes == bytes);
  MPI_Type_get_extent(small, &lower, &extent);
  MPI_Type_get_true_extent(small, &true_lower, &true_extent);
  MPI_Type_get_extent_c(large, &bounds[0], &bounds[1]);
  MPI_Type_get_true_extent_c(large, &bounds[2], &bounds[3]);
  SAYS("and one extent", bounds[0] == lower && bounds[1] == extent && bounds[2] == true_lower &&
                             bounds[3] == true_extent);
  for (int i = 0; i < bytes_max; ++i) memory[i] = (unsigned char)(i * 7 + i / 256);
  MPI_Type_commit(&small);
  MPI_Type_commit(&large);
  MPI_Pack(memory + 400, 2, small, packed[0], bytes_max, &positions[0], MPI_COMM_SELF);
  MPI_Pack(memory + 400, 2, large, packed[1], bytes_max, &positions[1], MPI_COMM_SELF);
  SAYS("they take the same bytes, in the same order",
       positions[0] == 2 * bytes && positions[1] == positions[0] &&
           memcmp(packed[0], packed[1], (size_t)positions[0]) == 0);
  MPI_Type_get_envelope(small, &integers, &addresses, &types, &combiner[0]);
  MPI_Type_get_envelope_c(large, &counts[0], &counts[1], &counts[2], &counts[3], &combiner[1]);
  SAYS("they are made alike",
       combiner[0] == combiner[1] && counts[0] == numbers_of_both && counts[1] == 0 &&
           counts[2] == integers + addresses - numbers_of_both && counts[3] == types);
  if (failures == before && types <= 4 && counts[2] <= 20) {
    int numbers[40], large_numbers[40];
    MPI_Aint places[20], none[1];
    MPI_Count large_counts[20], small_counts[20];
    MPI_Datatype parts[4], large_parts[4];
    int n = 0;
    MPI_Type_get_contents(small, integers, addresses, types, numbers, places, parts);
    MPI_Type_get_contents_c(large, counts[0], 0, counts[2], counts[3], large_numbers, none,
                            large_counts, large_parts);
    if (numbers_of_both == 0) {
      for (int i = 0; i < integers; ++i) small_counts[n++] = numbers[i];
      for (int i = 0; i < addresses; ++i) small_counts[n++] = places[i];
    } else {  // grids: dimensions and order, or all but the lengths, which follow the first three
      const int first = numbers_of_both == 2 ? 1 : 3;
      for (int i = 0; i < integers - numbers_of_both; ++i) small_counts[n++] = numbers[first + i];
      SAYS("with the same numbers first and last",
           memcmp(numbers, large_numbers, (size_t)first * sizeof(int)) == 0 &&
               numbers[integers - 1] == large_numbers[numbers_of_both - 1]);
    }
    SAYS("of the same numbers", n == counts[2] && total(small_counts, n) == total(large_counts, n));
    int same_parts = 1;
    for (int i = 0; i < types; ++i) same_parts &= parts[i] == large_parts[i];
    SAYS("and the same types", same_parts);
  }
  if (failures != before) fprintf(stderr, "  of %s\n", name);
  MPI_Type_free(&small);
  MPI_Type_free(&large);
}

static void types(void) {
  const int lengths[3] = {2, 1, 4}, places[3] = {5, 1, 10};
  const MPI_Count large_lengths[3] = {2, 1, 4}, large_places[3] = {5, 1, 10};
  const MPI_Aint byte_places[3] = {40, 4, 96};
  const MPI_Count large_byte_places[3] = {40, 4, 96};
  const MPI_Datatype parts[3] = {MPI_DOUBLE, MPI_CHAR, MPI_INT};
  MPI_Datatype small, large;
  MPI_Type_contiguous(7, MPI_INT, &small);
  MPI_Type_contiguous_c(7, MPI_INT, &large);
  same("contiguous", small, large, 0);
  MPI_Type_vector(3, 2, 5, MPI_INT, &small);
  MPI_Type_vector_c(3, 2, 5, MPI_INT, &large);
  same("vector", small, large, 0);
  MPI_Type_create_hvector(3, 2, 36, MPI_INT, &small);
  MPI_Type_create_hvector_c(3, 2, 36, MPI_INT, &large);
  same("hvector", small, large, 0);
  MPI_Type_indexed(3, lengths, places, MPI_INT, &small);
  MPI_Type_indexed_c(3, large_lengths, large_places, MPI_INT, &large);
  same("indexed", small, large, 0);
  MPI_Type_create_hindexed(3, lengths, byte_places, MPI_INT, &small);
  MPI_Type_create_hindexed_c(3, large_lengths, large_byte_places, MPI_INT, &large);
  same("hindexed", small, large, 0);
  MPI_Type_create_indexed_block(3, 2, places, MPI_INT, &small);
  MPI_Type_create_indexed_block_c(3, 2, large_places, MPI_INT, &large);
  same("indexed_block", small, large, 0);
  MPI_Type_create_hindexed_block(3, 2, byte_places, MPI_INT, &small);
  MPI_Type_create_hindexed_block_c(3, 2, large_byte_places, MPI_INT, &large);
  same("hindexed_block", small, large, 0);
  MPI_Type_create_struct(3, lengths, byte_places, parts, &small);
  MPI_Type_create_struct_c(3, large_lengths, large_byte_places, parts, &large);
  same("struct", small, large, 0);
  MPI_Type_create_resized(MPI_INT, -8, 20, &small);
  MPI_Type_create_resized_c(MPI_INT, -8, 20, &large);
  same("resized", small, large, 0);
  const int sizes[2] = {6, 8}, sub_sizes[2] = {3, 2}, starts[2] = {1, 5};
  const MPI_Count large_sizes[2] = {6, 8}, large_sub_sizes[2] = {3, 2}, large_starts[2] = {1, 5};
  MPI_Type_create_subarray(2, sizes, sub_sizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &small);
  MPI_Type_create_subarray_c(2, large_sizes, large_sub_sizes, large_starts, MPI_ORDER_FORTRAN,
                             MPI_INT, &large);
  same("subarray", small, large, 2);
  const int distributions[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
            arguments[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 2};
  MPI_Type_create_darray(4, 1, 2, sizes, distributions, arguments, grid, MPI_ORDER_C, MPI_INT,
                         &small);
  MPI_Type_create_darray_c(4, 1, 2, large_sizes, distributions, arguments, grid, MPI_ORDER_C,
                           MPI_INT, &large);
  same("darray", small, large, 10);
}

static void contents_of_small_types(void) {  // asked for with large counts
  MPI_Datatype vector, of[1];
  MPI_Count integers = -1, addresses = -1, counts = -1, types_of = -1;
  int combiner = -1, numbers[3] = {0};
  MPI_Type_vector(5, 2, 7, MPI_FLOAT, &vector);
  MPI_Type_get_envelope_c(vector, &integers, &addresses, &counts, &types_of, &combiner);
  SAYS("a type that was made with counts of int says so", integers == 3 && addresses == 0 &&
                                                              counts == 0 && types_of == 1 &&
                                                              combiner == MPI_COMBINER_VECTOR);
  MPI_Type_get_contents_c(vector, 3, 0, 0, 1, numbers, NULL, NULL, of);
  SAYS("and which", numbers[0] == 5 && numbers[1] == 2 && numbers[2] == 7 && of[0] == MPI_FLOAT);
  MPI_Type_free(&vector);
}

// ---- packing and reductions ----

static void packing(void) {
  int data[6] = {1, 2, 3, 4, 5, 6}, back[6], bytes = -1, position = 4;
  unsigned char small[64] = {0}, large[64] = {0};
  MPI_Aint external_bytes = -1, external_position = 8;
  MPI_Count large_bytes = -1, large_position = 4;
  MPI_Datatype gaps;
  MPI_Type_vector(3, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  MPI_Pack_size(1, gaps, MPI_COMM_SELF, &bytes);
  MPI_Pack_size_c(1, gaps, MPI_COMM_SELF, &large_bytes);
  SAYS("Pack_size is the same", bytes >= 12 && large_bytes == bytes);
  MPI_Pack(data, 1, gaps, small, sizeof small, &position, MPI_COMM_SELF);
  MPI_Pack_c(data, 1, gaps, large, sizeof large, &large_position, MPI_COMM_SELF);
  SAYS("Pack stores the same",
       position == 16 && large_position == 16 && memcmp(small, large, sizeof small) == 0);
  memset(back, 0, sizeof back);
  large_position = 4;
  MPI_Unpack_c(small, sizeof small, &large_position, back, 1, gaps, MPI_COMM_SELF);
  SAYS("and Unpack finds it",
       large_position == 16 && back[0] == 1 && back[1] == 0 && back[2] == 3 && back[4] == 5);
  MPI_Pack_external_size("external32", 1, gaps, &external_bytes);
  MPI_Pack_external_size_c("external32", 1, gaps, &large_bytes);
  SAYS("Pack_external_size is the same", external_bytes == 12 && large_bytes == 12);
  memset(small, 0, sizeof small);
  memset(large, 0, sizeof large);
  large_position = 8;
  MPI_Pack_external("external32", data, 1, gaps, small, sizeof small, &external_position);
  MPI_Pack_external_c("external32", data, 1, gaps, large, sizeof large, &large_position);
  SAYS("Pack_external stores the same", external_position == 20 && large_position == 20 &&
                                            small[11] == 1 &&
                                            memcmp(small, large, sizeof small) == 0);
  memset(back, 0, sizeof back);
  large_position = 8;
  MPI_Unpack_external_c("external32", small, sizeof small, &large_position, back, 1, gaps);
  SAYS("and Unpack_external finds it",
       large_position == 20 && back[0] == 1 && back[1] == 0 && back[2] == 3 && back[4] == 5);
  MPI_Type_free(&gaps);
}

static void local_reductions(void) {
  const int in[3] = {1, 20, 3};
  int small[3] = {10, 2, 30}, large[3] = {10, 2, 30};
  MPI_Reduce_local(in, small, 2, MPI_INT, MPI_MAX);
  MPI_Reduce_local_c(in, large, 2, MPI_INT, MPI_MAX);
  SAYS("Reduce_local does the same", small[0] == 10 && small[1] == 20 && small[2] == 30 &&
                                         memcmp(small, large, sizeof small) == 0);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
      {"messages", messages, 2}, {"exchanges", exchanges, 1},
      {"buffers", buffers, 1},   {"statuses", statuses, 1},
      {"types", types, 1},       {"contents_of_small_types", contents_of_small_types, 1},
      {"packing", packing, 1},   {"local_reductions", local_reductions, 1}};
  return RUN_SCENARIOS(scenarios, argc, argv);
}

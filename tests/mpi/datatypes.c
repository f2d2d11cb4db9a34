// SPDX-License-Identifier: MIT
// Types of the user: their extents, what they touch in messages and collectives, packing, and what
// they are made of.
#include <stddef.h>

#include "check.h"

static void extents(void) {
  MPI_Datatype type, resized;
  MPI_Aint lower, extent;
  int bytes = -1;
  MPI_Type_vector(3, 2, 4, MPI_INT, &type);
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_size(type, &bytes);
  SAYS("a vector spans from its first element to its last",
       lower == 0 && extent == 10 * 4 && bytes == 6 * 4);
  MPI_Type_free(&type);
  MPI_Type_vector(2, 1, -3, MPI_INT, &type);
  MPI_Type_get_extent(type, &lower, &extent);
  SAYS("a vector may go backwards", lower == -3 * 4 && extent == 4 * 4);
  MPI_Type_free(&type);
  MPI_Type_contiguous(2, MPI_DOUBLE_INT, &type);
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_size(type, &bytes);
  SAYS("a pair has the extent of its struct, and the size of its parts",
       extent == 32 && bytes == 24);
  MPI_Type_free(&type);
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {0, 8};
  const MPI_Datatype parts[2] = {MPI_DOUBLE, MPI_CHAR};
  MPI_Type_create_struct(2, lengths, places, parts, &type);
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_size(type, &bytes);
  SAYS("a struct is padded as the compiler pads it", extent == 16 && bytes == 9);
  MPI_Aint true_lower = -1, true_extent = -1;
  MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  SAYS("its true extent is not", true_lower == 0 && true_extent == 9);
  MPI_Type_create_resized(type, -4, 40, &resized);
  MPI_Type_get_extent(resized, &lower, &extent);
  MPI_Type_get_true_extent(resized, &true_lower, &true_extent);
  SAYS("a resized type has the bounds that it was given",
       lower == -4 && extent == 40 && true_lower == 0 && true_extent == 9);
  MPI_Type_free(&type);
  MPI_Type_free(&resized);
  MPI_Type_contiguous(0, MPI_INT, &type);
  MPI_Type_size(type, &bytes);
  MPI_Type_get_extent(type, &lower, &extent);
  SAYS("a type may be empty", bytes == 0 && extent == 0);
  MPI_Type_free(&type);
  MPI_Count large_lower = -1, large_extent = -1, large_bytes = -1;
  MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &type);
  MPI_Type_get_extent_x(type, &large_lower, &large_extent);
  MPI_Type_size_x(type, &large_bytes);
  SAYS("sizes beyond int are told in MPI_Count",
       large_extent == (MPI_Count)8 << 30 && large_bytes == (MPI_Count)8 << 30);
  MPI_Type_size(type, &bytes);
  SAYS("and MPI_UNDEFINED in int", bytes == MPI_UNDEFINED);
  MPI_Type_create_resized(type, -16, 8, &resized);
  large_lower = large_extent = -1;
  MPI_Type_get_true_extent_x(resized, &large_lower, &large_extent);
  SAYS("the true extent in MPI_Count", large_lower == 0 && large_extent == (MPI_Count)8 << 30);
  MPI_Type_get_extent_x(resized, &large_lower, &large_extent);
  SAYS("beside the one that was given", large_lower == -16 && large_extent == 8);
  MPI_Type_free(&resized);
  MPI_Type_free(&type);
}

static void predefined(void) {
  const struct {
    MPI_Datatype type;
    int bytes, extent;
  } table[] = {
      {MPI_CHAR, 1, 1},
      {MPI_BYTE, 1, 1},
      {MPI_SHORT, 2, 2},
      {MPI_INT, 4, 4},
      {MPI_LONG, 8, 8},
      {MPI_LONG_LONG, 8, 8},
      {MPI_FLOAT, 4, 4},
      {MPI_DOUBLE, 8, 8},
      {MPI_LONG_DOUBLE, 16, 16},
      {MPI_WCHAR, 4, 4},
      {MPI_C_BOOL, 1, 1},
      {MPI_INT16_T, 2, 2},
      {MPI_UINT64_T, 8, 8},
      {MPI_AINT, 8, 8},
      {MPI_COUNT, 8, 8},
      {MPI_OFFSET, 8, 8},
      {MPI_C_FLOAT_COMPLEX, 8, 8},
      {MPI_C_DOUBLE_COMPLEX, 16, 16},
      {MPI_PACKED, 1, 1},
      {MPI_FLOAT_INT, 8, 8},
      {MPI_DOUBLE_INT, 12, 16},
      {MPI_LONG_INT, 12, 16},
      {MPI_2INT, 8, 8},
      {MPI_SHORT_INT, 6, 8},
      {MPI_LONG_DOUBLE_INT, 20, 32},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    int bytes = -1;
    MPI_Aint lower = -1, extent = -1;
    MPI_Type_size(table[i].type, &bytes);
    MPI_Type_get_extent(table[i].type, &lower, &extent);
    SAYS("predefined types are as large as the compiler's",
         bytes == table[i].bytes && extent == table[i].extent && lower == 0);
  }
}

// ---- round trips: what a type covers arrives, and nothing else changes ----

enum { ints = 4000, guard = -9 };
static int out[ints], in[ints], wanted[ints];

static void fill(int* data) {
  for (int i = 0; i < ints; ++i) data[i] = i * 3 + rank;
}
static void blank(int* data) {
  for (int i = 0; i < ints; ++i) data[i] = guard;
}

// What `count` of `type` cover: packed and unpacked by hand through MPI_Pack of one int each would
// be circular; each case says itself which ints are covered.
typedef int (*Covers)(int index);

static void round_trip(const char* name, MPI_Datatype type, int count, Covers covers) {
  const int right = (rank + 1) % size, left = (rank + size - 1) % size, before = failures;
  MPI_Type_commit(&type);
  int each = 0, covered = 0;
  MPI_Type_size(type, &each);
  for (int i = 0; i < ints; ++i) {
    covered += covers(i);
    wanted[i] = covers(i) ? i * 3 + left : guard;
  }
  SAYS("the size is that of what is covered", each * count == covered * (int)sizeof(int));
  MPI_Status status;
  fill(out);
  blank(in);
  MPI_Sendrecv(out, count, type, right, 1, in, count, type, left, 1, MPI_COMM_WORLD, &status);
  SAYS("a type goes from place to place",
       memcmp(in, wanted, sizeof in) == 0 && count_of(&status, type) == count);
  // From the type to plain ints, and back: the order of elements is that of the type.
  static int plain[ints];
  MPI_Sendrecv(out, count, type, right, 2, plain, ints, MPI_INT, left, 2, MPI_COMM_WORLD, &status);
  SAYS("a type comes as plain elements", count_of(&status, MPI_INT) == covered);
  blank(in);
  MPI_Sendrecv(plain, covered, MPI_INT, rank, 3, in, count, type, rank, 3, MPI_COMM_WORLD, &status);
  SAYS("plain elements come as a type", memcmp(in, wanted, sizeof in) == 0);
  // Packed.
  char packed[ints * 4 + 100];
  int position = 0, bound = -1;
  MPI_Pack_size(count, type, MPI_COMM_WORLD, &bound);
  MPI_Pack(out, count, type, packed, sizeof packed, &position, MPI_COMM_WORLD);
  SAYS("Pack_size is enough", bound >= position);
  blank(in);
  MPI_Sendrecv(packed, position, MPI_PACKED, right, 4, in, count, type, left, 4, MPI_COMM_WORLD,
               &status);
  SAYS("what is packed comes as the type", memcmp(in, wanted, sizeof in) == 0);
  blank(in);
  MPI_Sendrecv(out, count, type, right, 5, packed, sizeof packed, MPI_PACKED, left, 5,
               MPI_COMM_WORLD, &status);
  int used = 0;
  MPI_Unpack(packed, count_of(&status, MPI_PACKED), &used, in, count, type, MPI_COMM_WORLD);
  SAYS("what comes packed is unpacked",
       memcmp(in, wanted, sizeof in) == 0 && used == count_of(&status, MPI_PACKED));
  char external[ints * 4 + 100];
  MPI_Aint external_bytes = 0, place = 0;
  MPI_Pack_external_size("external32", count, type, &external_bytes);
  SAYS("Pack_external_size is the size of the data", external_bytes == covered * 4);
  MPI_Pack_external("external32", plain, 1, MPI_INT, external, sizeof external, &place);
  const unsigned char first = (unsigned char)(plain[0] & 255);
  if (covered > 0)
    SAYS("external32 has the highest byte first",
         place == 4 && (unsigned char)external[3] == first);
  place = 0;
  MPI_Pack_external("external32", out, count, type, external, sizeof external, &place);
  blank(in);
  place = 0;
  MPI_Unpack_external("external32", external, external_bytes, &place, in, count, type);
  int same = 1;
  for (int i = 0; i < ints; ++i) same &= in[i] == (covers(i) ? i * 3 + rank : guard);
  SAYS("external32 goes there and back", same);
  // Persistent, and in a collective.
  MPI_Request requests[2];
  blank(in);
  MPI_Send_init(out, count, type, right, 6, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(in, count, type, left, 6, MPI_COMM_WORLD, &requests[1]);
  for (int round = 0; round < 2; ++round) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  SAYS("persistent requests take types", memcmp(in, wanted, sizeof in) == 0);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  if (rank == size - 1) fill(in);
  else blank(in);
  MPI_Bcast(in, count, type, size - 1, MPI_COMM_WORLD);
  if (rank != size - 1) {
    same = 1;
    for (int i = 0; i < ints; ++i) same &= in[i] == (covers(i) ? i * 3 + size - 1 : guard);
    SAYS("Bcast takes types", same);
  }
  // Type_dup and a copy of it are the type; its handle may go while a message is under way.
  MPI_Datatype copy;
  MPI_Type_dup(type, &copy);
  blank(in);
  MPI_Irecv(in, count, copy, left, 7, MPI_COMM_WORLD, &requests[0]);
  MPI_Type_free(&copy);
  MPI_Send(out, count, type, right, 7, MPI_COMM_WORLD);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  SAYS("a type that was freed serves what is under way", memcmp(in, wanted, sizeof in) == 0);
  MPI_Type_free(&type);
  if (failures != before) fprintf(stderr, "  of %s\n", name);
}

static int in_vector(int i) { return i < 36 && i % 3 < 2 && (i / 12 < 3) && i % 12 < 11; }
static int in_hvector(int i) { return i % 7 == 0 && i < 7 * 50; }
static int in_indexed(int i) {
  return i % 16 == 5 || i % 16 == 6 || i % 16 == 1 || (i % 16 >= 10 && i % 16 < 14);
}
static int in_struct(int i) { return i % 8 < 2 || i % 8 == 4; }
static int in_subarray(int i) {
  const int cell = i % 120, row = cell / 20, column = cell % 20;
  return i < 240 && row >= 1 && row < 4 && column >= 5 && column < 12;
}
static int in_fortran_subarray(int i) {
  const int column = i / 6, row = i % 6;
  return i < 60 && row >= 2 && row < 5 && column >= 1 && column < 8;
}
static int in_blocks(int i) {
  return i < 60 && (i % 20 == 0 || i % 20 == 1 || i % 20 == 8 || i % 20 == 9);
}
static int in_nested(int i) { return i < 400 && i % 100 < 50 && i % 10 < 6 && i % 2 == 0; }
static int in_long(int i) { return i % 2 == 0; }

static void round_trips(void) {
  MPI_Datatype type, part, inner;
  // 4 blocks of 2 in 3; extent 11 → resized to 12.
  MPI_Type_vector(4, 2, 3, MPI_INT, &part);
  MPI_Type_create_resized(part, 0, 12 * 4, &type);
  round_trip("vector", type, 3, in_vector);
  MPI_Type_free(&part);
  MPI_Type_create_hvector(50, 1, 28, MPI_INT, &type);
  round_trip("hvector", type, 1, in_hvector);
  const int lengths[3] = {2, 1, 4}, places[3] = {5, 1, 10};
  MPI_Type_indexed(3, lengths, places, MPI_INT, &part);  // not in ascending order
  MPI_Type_create_resized(part, 0, 16 * 4, &type);
  round_trip("indexed", type, ints / 16, in_indexed);
  MPI_Type_free(&part);
  const MPI_Aint byte_places[3] = {20, 4, 40};
  MPI_Type_create_hindexed(3, lengths, byte_places, MPI_INT, &part);
  MPI_Type_create_resized(part, 0, 16 * 4, &type);
  round_trip("hindexed", type, ints / 16, in_indexed);
  MPI_Type_free(&part);
  const MPI_Aint struct_places[3] = {0, 4, 16};
  const MPI_Datatype int_types[3] = {MPI_INT, MPI_INT, MPI_INT};
  const int int_lengths[3] = {1, 1, 1};
  MPI_Type_create_struct(3, int_lengths, struct_places, int_types, &part);
  MPI_Type_create_resized(part, 0, 32, &type);
  round_trip("struct", type, ints / 8, in_struct);
  MPI_Type_free(&part);
  const int sizes[2] = {6, 20}, sub_sizes[2] = {3, 7}, starts[2] = {1, 5};
  MPI_Type_create_subarray(2, sizes, sub_sizes, starts, MPI_ORDER_C, MPI_INT, &type);
  round_trip("subarray", type, 2, in_subarray);
  const int fortran_sizes[2] = {6, 10}, fortran_sub_sizes[2] = {3, 7}, fortran_starts[2] = {2, 1};
  MPI_Type_create_subarray(2, fortran_sizes, fortran_sub_sizes, fortran_starts, MPI_ORDER_FORTRAN,
                           MPI_INT, &type);
  round_trip("subarray in Fortran's order", type, 1, in_fortran_subarray);
  const int block_places[2] = {0, 8};
  MPI_Type_create_indexed_block(2, 2, block_places, MPI_INT, &part);
  MPI_Type_create_resized(part, 0, 80, &type);
  round_trip("indexed_block", type, 3, in_blocks);
  MPI_Type_free(&part);
  const MPI_Aint byte_block_places[2] = {0, 32};
  MPI_Type_create_hindexed_block(2, 2, byte_block_places, MPI_INT, &part);
  MPI_Type_create_resized(part, 0, 80, &type);
  round_trip("hindexed_block", type, 3, in_blocks);
  MPI_Type_free(&part);
  MPI_Type_vector(3, 1, 2, MPI_INT, &inner);
  MPI_Type_create_hvector(5, 1, 40, inner, &part);
  MPI_Type_create_resized(part, 0, 400, &type);
  MPI_Type_free(&inner);  // parts may go before the whole
  MPI_Type_free(&part);
  round_trip("nested", type, 4, in_nested);
  MPI_Type_vector(ints / 2, 1, 2, MPI_INT, &type);
  round_trip("long vector", type, 1, in_long);
}

static void mixed(void) {  // types of several kinds in one struct
  typedef struct Mixed {
    char letter;
    double number;
    short little[3];
    float real;
    long long large;
  } Mixed;
  Mixed sent[20], received[20];
  memset(sent, 0, sizeof sent);
  memset(received, 0, sizeof received);
  for (int i = 0; i < 20; ++i)
    sent[i] = (Mixed){(char)('a' + i),
                      i * 1.5 + rank,
                      {(short)i, (short)-i, (short)rank},
                      (float)i / 3,
                      1LL << (i + 20)};
  const int lengths[5] = {1, 1, 3, 1, 1};
  const MPI_Aint places[5] = {offsetof(Mixed, letter), offsetof(Mixed, number),
                              offsetof(Mixed, little), offsetof(Mixed, real),
                              offsetof(Mixed, large)};
  const MPI_Datatype types[5] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_FLOAT, MPI_LONG_LONG};
  MPI_Datatype type;
  MPI_Type_create_struct(5, lengths, places, types, &type);
  MPI_Type_commit(&type);
  MPI_Aint lower, extent;
  MPI_Type_get_extent(type, &lower, &extent);
  SAYS("a struct has the extent that C gives it", extent == (MPI_Aint)sizeof(Mixed));
  const int left = (rank + size - 1) % size;
  MPI_Status status;
  MPI_Sendrecv(sent, 20, type, (rank + 1) % size, 1, received, 20, type, left, 1, MPI_COMM_WORLD,
               &status);
  int right = 1;
  for (int i = 0; i < 20; ++i)
    right &= received[i].letter == 'a' + i && received[i].number == i * 1.5 + left &&
             received[i].little[1] == -i && received[i].little[2] == left &&
             received[i].real == (float)i / 3 && received[i].large == 1LL << (i + 20);
  SAYS("structs go whole", right);
  int elements = -1;
  MPI_Get_elements(&status, type, &elements);
  SAYS("Get_elements counts their parts", elements == 20 * 7);
  Mixed gathered[64 * 20];
  if (size <= 64) {
    MPI_Allgather(sent, 20, type, gathered, 20, type, MPI_COMM_WORLD);
    for (int r = 0; r < size; ++r)
      for (int i = 0; i < 20; ++i)
        right &= gathered[r * 20 + i].number == i * 1.5 + r && gathered[r * 20 + i].little[2] == r;
    SAYS("and are gathered", right);
  }
  MPI_Type_free(&type);
}

static void transposed(void) {  // sent by columns, received by rows
  int matrix[6][5], turned[5][6];
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 5; ++j) matrix[i][j] = 10 * i + j;
  MPI_Datatype column, columns;
  MPI_Type_vector(6, 1, 5, MPI_INT, &column);
  MPI_Type_create_hvector(5, 1, 4, column, &columns);
  MPI_Type_commit(&columns);
  MPI_Sendrecv(matrix, 1, columns, rank, 1, turned, 30, MPI_INT, rank, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  int right = 1;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 5; ++j) right &= turned[j][i] == 10 * i + j;
  SAYS("elements come in the order of the type map: a matrix is transposed", right);
  MPI_Type_free(&column);
  MPI_Type_free(&columns);
}

static void distributed(void) {  // darray: blocks of all ranks cover the whole once
  if (size != 1 && size != 2 && size != 4) return;
  const int process_grid[2] = {size == 4 ? 2 : size, size == 4 ? 2 : 1};
  const int sizes[2] = {7, 9}, distributions[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  const int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
  MPI_Datatype type;
  MPI_Type_create_darray(size, rank, 2, sizes, distributions, arguments, process_grid, MPI_ORDER_C,
                         MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Aint lower, extent;
  MPI_Type_get_extent(type, &lower, &extent);
  SAYS("a darray has the extent of the whole array", extent == 63 * 4 && lower == 0);
  int bytes = 0, all = 0, mine[63], marks[63], sum[63];
  MPI_Type_size(type, &bytes);
  MPI_Allreduce(&bytes, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  SAYS("the parts are the whole", all == 63 * 4);
  for (int i = 0; i < 63; ++i) {
    mine[i] = 1;
    marks[i] = 0;
  }
  MPI_Sendrecv(mine, bytes / 4, MPI_INT, rank, 1, marks, 1, type, rank, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Allreduce(marks, sum, 63, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int once = 1;
  for (int i = 0; i < 63; ++i) once &= sum[i] == 1;
  SAYS("and each element is in one part", once);
  MPI_Type_free(&type);
}

static void contents(void) {
  MPI_Datatype vector, structure, copy, contents_types[3];
  int integers = -1, addresses = -1, datatypes = -1, combiner = -1, numbers[8];
  MPI_Aint places[3];
  MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &datatypes, &combiner);
  SAYS("a predefined type is named",
       combiner == MPI_COMBINER_NAMED && integers == 0 && addresses == 0 && datatypes == 0);
  MPI_Type_vector(5, 2, 7, MPI_FLOAT, &vector);
  MPI_Type_get_envelope(vector, &integers, &addresses, &datatypes, &combiner);
  SAYS("the envelope of a vector",
       combiner == MPI_COMBINER_VECTOR && integers == 3 && addresses == 0 && datatypes == 1);
  MPI_Type_get_contents(vector, 3, 0, 1, numbers, places, contents_types);
  SAYS("its contents are what it was made of",
       numbers[0] == 5 && numbers[1] == 2 && numbers[2] == 7 && contents_types[0] == MPI_FLOAT);
  const int lengths[2] = {3, 4};
  const MPI_Aint offsets[2] = {8, 100};
  const MPI_Datatype parts[2] = {MPI_INT, vector};
  MPI_Type_create_struct(2, lengths, offsets, parts, &structure);
  MPI_Type_get_envelope(structure, &integers, &addresses, &datatypes, &combiner);
  SAYS("the envelope of a struct",
       combiner == MPI_COMBINER_STRUCT && integers == 3 && addresses == 2 && datatypes == 2);
  MPI_Type_get_contents(structure, 3, 2, 2, numbers, places, contents_types);
  SAYS("its contents", numbers[0] == 2 && numbers[1] == 3 && numbers[2] == 4 && places[0] == 8 &&
                           places[1] == 100 && contents_types[0] == MPI_INT);
  MPI_Type_get_envelope(contents_types[1], &integers, &addresses, &datatypes, &combiner);
  SAYS("derived parts are told as derived types", combiner == MPI_COMBINER_VECTOR);
  int key, there = 0;
  void* value = NULL;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
  MPI_Type_set_attr(vector, key, &key);
  MPI_Type_free(&contents_types[1]);  // which belong to the caller
  MPI_Type_get_attr(vector, key, &value, &there);
  SAYS("what a part has been given stays with its own handle", there && value == &key);
  MPI_Type_free_keyval(&key);
  MPI_Type_dup(structure, &copy);
  MPI_Type_get_envelope(copy, &integers, &addresses, &datatypes, &combiner);
  SAYS("a duplicate says so", combiner == MPI_COMBINER_DUP && datatypes == 1);
  char name[MPI_MAX_OBJECT_NAME];
  int length = -1;
  MPI_Type_get_name(MPI_DOUBLE, name, &length);
  SAYS("predefined types have their names", strcmp(name, "MPI_DOUBLE") == 0 && length == 10);
  MPI_Type_get_name(vector, name, &length);
  SAYS("others have none", length == 0 && name[0] == 0);
  MPI_Type_set_name(vector, "rows");
  MPI_Type_get_name(vector, name, &length);
  SAYS("before they are given one", strcmp(name, "rows") == 0 && length == 4);
  MPI_Type_free(&vector);
  MPI_Type_free(&structure);
  MPI_Type_free(&copy);
}

static void by_properties(void) {  // types that the library chooses
  MPI_Datatype type = MPI_DATATYPE_NULL, again;
  int bytes = -1, sum = -1;
  const struct {
    int of_class, bytes;
  } sizes[] = {{MPI_TYPECLASS_INTEGER, 1}, {MPI_TYPECLASS_INTEGER, 2}, {MPI_TYPECLASS_INTEGER, 4},
               {MPI_TYPECLASS_INTEGER, 8}, {MPI_TYPECLASS_REAL, 4},    {MPI_TYPECLASS_REAL, 8},
               {MPI_TYPECLASS_COMPLEX, 8}, {MPI_TYPECLASS_COMPLEX, 16}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    type = MPI_DATATYPE_NULL;
    MPI_Type_match_size(sizes[i].of_class, sizes[i].bytes, &type);
    MPI_Type_size(type, &bytes);
    SAYS("Type_match_size gives a type of this size", bytes == sizes[i].bytes);
  }
  MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &type);
  const int one = rank + 1;
  MPI_Allreduce(&one, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD);
  SAYS("an integer of 4 bytes is added", sum == size * (size + 1) / 2);
  MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
  const double third = 0.25 * one;
  double most = -1;
  MPI_Allreduce(&third, &most, 1, type, MPI_MAX, MPI_COMM_WORLD);
  SAYS("a real of 8 bytes is compared", most == 0.25 * size);
  if (!open_mpi) {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    SAYS("of a size that no type has there is none",
         class_of(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type)) == MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  }
#if MPI_IS_AT_LEAST(4, 1)
  MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
  SAYS("a value of double and an index of int are MPI_DOUBLE_INT", type == MPI_DOUBLE_INT);
  MPI_Type_get_value_index(MPI_INT, MPI_INT, &type);
  SAYS("two ints are MPI_2INT", type == MPI_2INT);
  MPI_Type_get_value_index(MPI_LONG_DOUBLE, MPI_INT, &type);
  SAYS("MPI_LONG_DOUBLE_INT is found", type == MPI_LONG_DOUBLE_INT);
  MPI_Type_get_value_index(MPI_SHORT, MPI_INT, &type);
  SAYS("MPI_SHORT_INT too", type == MPI_SHORT_INT);
  MPI_Type_get_value_index(MPI_DOUBLE, MPI_CHAR, &type);
  SAYS("what no pair has is MPI_DATATYPE_NULL", type == MPI_DATATYPE_NULL);
#endif
  int integers = -1, places = -1, types = -1, combiner = -1, numbers[2] = {-1, -1};
  MPI_Type_create_f90_integer(9, &type);
  MPI_Type_size(type, &bytes);
  MPI_Type_get_envelope(type, &integers, &places, &types, &combiner);
  SAYS("an integer of 9 digits has 4 bytes, and says how it was asked for",
       bytes == 4 && combiner == MPI_COMBINER_F90_INTEGER && integers == 1 && places == 0 &&
           types == 0);
  MPI_Type_get_contents(type, 1, 0, 0, numbers, NULL, NULL);
  SAYS("with the number", numbers[0] == 9);
  MPI_Type_create_f90_integer(9, &again);
  SAYS("equal questions get the same type", again == type);
  sum = -1;
  MPI_Allreduce(&one, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD);
  SAYS("it is used without a commit, and added", sum == size * (size + 1) / 2);
  MPI_Type_create_f90_integer(12, &type);
  MPI_Type_size(type, &bytes);
  SAYS("one of 12 digits has 8 bytes", bytes == 8 && type != again);
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type);
  MPI_Type_size(type, &bytes);
  MPI_Type_get_envelope(type, &integers, &places, &types, &combiner);
  SAYS("a real of 15 digits has 8 bytes",
       bytes == 8 && combiner == MPI_COMBINER_F90_REAL && integers == 2 && types == 0);
  MPI_Type_get_contents(type, 2, 0, 0, numbers, NULL, NULL);
  SAYS("and digits and range as they were asked for",
       numbers[0] == 15 && numbers[1] == MPI_UNDEFINED);
  most = -1;
  MPI_Allreduce(&third, &most, 1, type, MPI_MAX, MPI_COMM_WORLD);
  SAYS("it is compared", most == 0.25 * size);
  MPI_Type_create_f90_real(MPI_UNDEFINED, 30, &type);
  MPI_Type_size(type, &bytes);
  SAYS("a real of the range 30 has 4 bytes", bytes == 4);
  MPI_Type_create_f90_complex(6, 100, &type);
  MPI_Type_size(type, &bytes);
  MPI_Type_get_envelope(type, &integers, &places, &types, &combiner);
  SAYS("a complex of the range 100 has 16 bytes",
       bytes == 16 && combiner == MPI_COMBINER_F90_COMPLEX && integers == 2);
  MPI_Type_get_contents(type, 2, 0, 0, numbers, NULL, NULL);
  SAYS("and says how it was asked for, too", numbers[0] == 6 && numbers[1] == 100);
  const double mine[2] = {one, -one};
  double both[2] = {0, 0};
  MPI_Allreduce(mine, both, 1, type, MPI_SUM, MPI_COMM_WORLD);
  SAYS("it is added by its parts",
       both[0] == size * (size + 1) / 2.0 && both[1] == -size * (size + 1) / 2.0);
}

static void addresses(void) {
  const int data[10] = {0};
  MPI_Aint first, second;
  MPI_Get_address(&data[0], &first);
  MPI_Get_address(&data[7], &second);
  SAYS("Aint_diff and Aint_add",
       MPI_Aint_diff(second, first) == 28 && MPI_Aint_add(first, 28) == second);
}

static void packing_several(void) {
  char buffer[100];
  int position = 0, number = 7, got_number = 0;
  double real = 2.5, got_real = 0;
  MPI_Pack(&number, 1, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
  MPI_Pack(&real, 1, MPI_DOUBLE, buffer, sizeof buffer, &position, MPI_COMM_WORLD);
  const int packed = position;
  position = 0;
  MPI_Unpack(buffer, packed, &position, &got_number, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Unpack(buffer, packed, &position, &got_real, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  SAYS("several are packed one behind the other",
       got_number == 7 && got_real == 2.5 && position == packed);
}

#if MPI_VERSION >= 4
static void large_counts(void) {
  MPI_Datatype type;
  MPI_Count lower = -1, extent = -1, bytes = -1, integers, places, counts, types;
  int combiner = -1;
  MPI_Type_vector_c(3, 1, (MPI_Count)1 << 32, MPI_INT, &type);
  MPI_Type_get_extent_c(type, &lower, &extent);
  MPI_Type_size_c(type, &bytes);
  SAYS("strides beyond int", lower == 0 && extent == ((MPI_Count)1 << 35) + 4 && bytes == 12);
  MPI_Type_get_envelope_c(type, &integers, &places, &counts, &types, &combiner);
  SAYS("have their envelope with large counts",
       combiner == MPI_COMBINER_VECTOR && counts == 3 && types == 1 && integers == 0);
  MPI_Type_free(&type);
}
#endif

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
    {"extents", extents, 1},
    {"predefined", predefined, 1},
    {"round_trips", round_trips, 1},
    {"mixed", mixed, 1},
    {"transposed", transposed, 1},
    {"distributed", distributed, 1},
    {"contents", contents, 1},
    {"by_properties", by_properties, 1},
    {"addresses", addresses, 1},
    {"packing_several", packing_several, 1},
#if MPI_VERSION >= 4
    {"large_counts", large_counts, 1},
#endif
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

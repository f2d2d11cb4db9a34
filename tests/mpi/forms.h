// SPDX-License-Identifier: MIT
// What tests of collectives share: the ways in which one is called, elements of two types, and what
// must have come where.
#pragma once

#include "check.h"

// With counts of int, then with large ones.
enum {
  blocking,
  nonblocking,
  persistent,
  large_blocking,
  large_nonblocking,
  large_persistent,
#if MPI_VERSION >= 4
  ways
#else
  ways = persistent  // Open MPI 4.1 knows MPI 3.1
#endif
};
static inline int is_large(int way) { return way >= large_blocking; }

static MPI_Request pending;

static inline int waited(int code) {
  (void)code;
  return MPI_Wait(&pending, MPI_STATUS_IGNORE);
}

static inline int started(int code) {
  (void)code;
  MPI_Start(&pending);
  MPI_Wait(&pending, MPI_STATUS_IGNORE);
  return MPI_Request_free(&pending);
}

// One operation in one of its ways. Where it takes arrays those with large counts take others:
// CALL_LARGE, and CALL_INT for the rest.
#if MPI_VERSION >= 4
#define CALL_INT(way, Upper, lower, ...)                                \
  ((way) == blocking      ? MPI_##Upper(__VA_ARGS__)                    \
   : (way) == nonblocking ? waited(MPI_I##lower(__VA_ARGS__, &pending)) \
                          : started(MPI_##Upper##_init(__VA_ARGS__, MPI_INFO_NULL, &pending)))
#define CALL_LARGE(way, Upper, lower, ...)                \
  ((way) == large_blocking ? MPI_##Upper##_c(__VA_ARGS__) \
   : (way) == large_nonblocking                           \
       ? waited(MPI_I##lower##_c(__VA_ARGS__, &pending))  \
       : started(MPI_##Upper##_init_c(__VA_ARGS__, MPI_INFO_NULL, &pending)))
#define CALL(way, Upper, lower, ...)                            \
  (is_large(way) ? CALL_LARGE((way), Upper, lower, __VA_ARGS__) \
                 : CALL_INT((way), Upper, lower, __VA_ARGS__))
#else
#define CALL_INT(way, Upper, lower, ...) \
  ((way) == blocking ? MPI_##Upper(__VA_ARGS__) : waited(MPI_I##lower(__VA_ARGS__, &pending)))
#define CALL_LARGE(...) (void)0
#define CALL CALL_INT
#endif

// Elements are two ints, side by side or with a gap that no operation may touch.
enum { side_by_side, gap, kinds, guard = 0x5a5a5a5a, ints_max = 200000 };
static MPI_Datatype types[kinds];
static inline int ints_of(int kind) { return kind == gap ? 3 : 2; }

static inline void make_types(void) {
  MPI_Datatype vector;
  MPI_Type_contiguous(2, MPI_INT, &types[side_by_side]);
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 3 * (MPI_Aint)sizeof(int), &types[gap]);
  MPI_Type_free(&vector);
  MPI_Type_commit(&types[side_by_side]);
  MPI_Type_commit(&types[gap]);
}

static int out[ints_max], in[ints_max];

static inline void clear(int* data) { memset(data, guard & 0xff, ints_max * sizeof(int)); }

// What rank `from` has for rank `to` in element i.
static inline int value(int from, int to, int i) { return from * 100000 + to * 1000 + i % 997; }

static inline void put(int* data, int kind, int place, int count, int from, int to) {
  const int ints = ints_of(kind);
  for (int i = 0; i < count; ++i) {
    data[(place + i) * ints] = value(from, to, i);
    data[(place + i) * ints + ints - 1] = -value(from, to, i);
  }
}

// What the whole of `in` must be: made by put in `expected`.
static int expected[ints_max];
static inline int as_expected(int ints) {
  return memcmp(in, expected, (size_t)ints * sizeof(int)) == 0 && in[ints_max - 1] == guard;
}

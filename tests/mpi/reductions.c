// SPDX-License-Identifier: MIT
// Reductions: each operation on each type that has it, functions of the user, and types of the
// user.
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "check.h"

enum { count = 300 };

// Small, so that products of it are exact in every type; never 0.
static int small(int from, int i) { return 1 + (from + i) % 3; }

// Operands of all ranks, folded here, beside what four reductions say. `same` compares the parts of
// elements that count.
typedef void (*Fold)(void* inout, const void* in);
typedef void (*Fill)(void* element, int from, int i);
typedef int (*Same)(const void* left, const void* right);

typedef struct Case {
  const char* name;
  MPI_Datatype type;
  MPI_Op op;
  size_t bytes;
  Fill fill;
  Fold fold;
  Same same;
} Case;

static char out[4096 * count], in[4096 * count], folded[4096];

// Of the ranks from first to last, in rank order.
static void fold_up(const Case* c, int first, int last, int i) {
  char element[4096];
  memset(folded, 0, c->bytes);
  c->fill(folded, first, i);
  for (int r = first + 1; r <= last; ++r) {
    memset(element, 0, c->bytes);
    c->fill(element, r, i);
    c->fold(folded, element);
  }
}

static int all_as(const Case* c, int elements, int offset, int first, int last) {
  for (int i = 0; i < elements; ++i) {
    fold_up(c, first, last, offset + i);
    if (!c->same(folded, in + (size_t)i * c->bytes)) return 0;
  }
  return 1;
}

static void check(const Case* c, int elements) {
  const size_t bytes = c->bytes * (size_t)elements;
  const int before = failures, root = size - 1;
  memset(out, 0, bytes);
  for (int i = 0; i < elements; ++i) c->fill(out + (size_t)i * c->bytes, rank, i);

  memset(in, 0, bytes);
  MPI_Allreduce(out, in, elements, c->type, c->op, MPI_COMM_WORLD);
  SAYS("Allreduce of this type and operation", all_as(c, elements, 0, 0, size - 1));
  memcpy(in, out, bytes);
  MPI_Allreduce(MPI_IN_PLACE, in, elements, c->type, c->op, MPI_COMM_WORLD);
  SAYS("Allreduce in place of this type and operation", all_as(c, elements, 0, 0, size - 1));
  memset(in, 0, bytes);
  MPI_Reduce(out, in, elements, c->type, c->op, root, MPI_COMM_WORLD);
  if (rank == root) SAYS("Reduce of this type and operation", all_as(c, elements, 0, 0, size - 1));
  memset(in, 0, bytes);
  MPI_Scan(out, in, elements, c->type, c->op, MPI_COMM_WORLD);
  SAYS("Scan of this type and operation", all_as(c, elements, 0, 0, rank));
  memset(in, 0, bytes);
  MPI_Exscan(out, in, elements, c->type, c->op, MPI_COMM_WORLD);
  if (rank > 0) SAYS("Exscan of this type and operation", all_as(c, elements, 0, 0, rank - 1));
  memset(in, 0, bytes);
  MPI_Reduce_scatter_block(out, in, elements / size, c->type, c->op, MPI_COMM_WORLD);
  SAYS("Reduce_scatter_block of this type and operation",
       all_as(c, elements / size, rank * (elements / size), 0, size - 1));
  memcpy(in, out, bytes);
  MPI_Reduce_scatter_block(MPI_IN_PLACE, in, elements / size, c->type, c->op, MPI_COMM_WORLD);
  SAYS("Reduce_scatter_block in place of this type and operation",
       all_as(c, elements / size, rank * (elements / size), 0, size - 1));
  int lengths[64], first = 0;
  for (int r = 0; r < size && r < 64; ++r) lengths[r] = (elements / size + r) % 3;
  for (int r = 0; r < rank; ++r) first += lengths[r];
  memcpy(in, out, bytes);
  if (elements >= 3 * size) {
    MPI_Reduce_scatter(MPI_IN_PLACE, in, lengths, c->type, c->op, MPI_COMM_WORLD);
    SAYS("Reduce_scatter in place of this type and operation",
         all_as(c, lengths[rank], first, 0, size - 1));
  }
  memset(in, 0, bytes);
  MPI_Request request;
  MPI_Iallreduce(out, in, elements, c->type, c->op, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("Iallreduce of this type and operation", all_as(c, elements, 0, 0, size - 1));
  memset(in, 0, bytes);
  for (int i = 0; i < elements; ++i) c->fill(in + (size_t)i * c->bytes, 5, i);
  MPI_Reduce_local(out, in, elements, c->type, c->op);  // inout = in op inout
  int right = 1;
  for (int i = 0; i < elements; ++i) {
    char right_operand[4096];
    memset(folded, 0, c->bytes);
    memset(right_operand, 0, c->bytes);
    c->fill(folded, rank, i);
    c->fill(right_operand, 5, i);
    c->fold(folded, right_operand);
    right &= c->same(folded, in + (size_t)i * c->bytes);
  }
  SAYS("Reduce_local of this type and operation", right);
  if (failures != before) fprintf(stderr, "  %s, %d elements\n", c->name, elements);
}

// ---- arithmetic ----

#define FOLDS(T, tag)                                                                          \
  static void fill_##tag(void* e, int from, int i) { *(T*)e = (T)small(from, i); }             \
  static int same_##tag(const void* a, const void* b) { return *(const T*)a == *(const T*)b; } \
  static void sum_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a + *(const T*)b); }       \
  static void prod_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a * *(const T*)b); }
#define ORDERS(T, tag)                                \
  static void max_##tag(void* a, const void* b) {     \
    if (*(const T*)b > *(T*)a) *(T*)a = *(const T*)b; \
  }                                                   \
  static void min_##tag(void* a, const void* b) {     \
    if (*(const T*)b < *(T*)a) *(T*)a = *(const T*)b; \
  }
#define LOGICS(T, tag)                                                                            \
  static void truth_##tag(void* e, int from, int i) { *(T*)e = (T)((i + from) % 3 ? i % 4 : 0); } \
  static void land_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a && *(const T*)b); }        \
  static void lor_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a || *(const T*)b); }         \
  static void lxor_##tag(void* a, const void* b) { *(T*)a = (T)(!*(T*)a != !*(const T*)b); }      \
  static int as_true_##tag(const void* a, const void* b) { return !*(const T*)a == !*(const T*)b; }
#define BITS(T, tag)                                                                      \
  static void pattern_##tag(void* e, int from, int i) {                                   \
    *(T*)e = (T)(0x55aa33cc0ff1u * (unsigned)(from + 3) + (unsigned)i);                   \
  }                                                                                       \
  static void band_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a & *(const T*)b); } \
  static void bor_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a | *(const T*)b); }  \
  static void bxor_##tag(void* a, const void* b) { *(T*)a = (T)(*(T*)a ^ *(const T*)b); }
#define INTEGERS(T, tag) FOLDS(T, tag) ORDERS(T, tag) LOGICS(T, tag) BITS(T, tag)

INTEGERS(signed char, schar)
INTEGERS(unsigned char, uchar)
INTEGERS(short, short)
INTEGERS(unsigned short, ushort)
INTEGERS(int, int)
INTEGERS(unsigned, unsigned)
INTEGERS(long, long)
INTEGERS(unsigned long, ulong)
INTEGERS(long long, llong)
INTEGERS(unsigned long long, ullong)
FOLDS(float, float)
ORDERS(float, float)
FOLDS(double, double)
ORDERS(double, double)
FOLDS(long double, ldouble)
ORDERS(long double, ldouble)
FOLDS(float complex, fcomplex)
FOLDS(double complex, dcomplex)
FOLDS(long double complex, ldcomplex)
LOGICS(bool, bool)

#define RUN(type, op, T, filler, folder, same) \
  check(&(const Case){#type " " #op, type, op, sizeof(T), filler, folder, same}, count)
#define RUN_SUMS(type, T, tag)                              \
  RUN(type, MPI_SUM, T, fill_##tag, sum_##tag, same_##tag); \
  RUN(type, MPI_PROD, T, fill_##tag, prod_##tag, same_##tag)
#define RUN_ORDERS(type, T, tag)                            \
  RUN(type, MPI_MAX, T, fill_##tag, max_##tag, same_##tag); \
  RUN(type, MPI_MIN, T, fill_##tag, min_##tag, same_##tag)
#define RUN_LOGICS(type, T, tag)                                  \
  RUN(type, MPI_LAND, T, truth_##tag, land_##tag, as_true_##tag); \
  RUN(type, MPI_LOR, T, truth_##tag, lor_##tag, as_true_##tag);   \
  RUN(type, MPI_LXOR, T, truth_##tag, lxor_##tag, as_true_##tag)
#define RUN_BITS(type, T, tag)                                   \
  RUN(type, MPI_BAND, T, pattern_##tag, band_##tag, same_##tag); \
  RUN(type, MPI_BOR, T, pattern_##tag, bor_##tag, same_##tag);   \
  RUN(type, MPI_BXOR, T, pattern_##tag, bxor_##tag, same_##tag)
#define RUN_INTEGERS(type, T, tag) \
  RUN_SUMS(type, T, tag);          \
  RUN_ORDERS(type, T, tag);        \
  RUN_LOGICS(type, T, tag);        \
  RUN_BITS(type, T, tag)

static void arithmetic(void) {
  RUN_INTEGERS(MPI_SIGNED_CHAR, signed char, schar);
  RUN_INTEGERS(MPI_UNSIGNED_CHAR, unsigned char, uchar);
  RUN_INTEGERS(MPI_SHORT, short, short);
  RUN_INTEGERS(MPI_UNSIGNED_SHORT, unsigned short, ushort);
  RUN_INTEGERS(MPI_INT, int, int);
  RUN_INTEGERS(MPI_UNSIGNED, unsigned, unsigned);
  RUN_INTEGERS(MPI_LONG, long, long);
  RUN_INTEGERS(MPI_UNSIGNED_LONG, unsigned long, ulong);
  RUN_INTEGERS(MPI_LONG_LONG, long long, llong);
  RUN_INTEGERS(MPI_UNSIGNED_LONG_LONG, unsigned long long, ullong);
  RUN_INTEGERS(MPI_INT8_T, int8_t, schar);
  RUN_INTEGERS(MPI_UINT8_T, uint8_t, uchar);
  RUN_INTEGERS(MPI_INT16_T, int16_t, short);
  RUN_INTEGERS(MPI_UINT16_T, uint16_t, ushort);
  RUN_INTEGERS(MPI_INT32_T, int32_t, int);
  RUN_INTEGERS(MPI_UINT32_T, uint32_t, unsigned);
  RUN_INTEGERS(MPI_INT64_T, int64_t, long);
  RUN_INTEGERS(MPI_UINT64_T, uint64_t, ulong);
  RUN_SUMS(MPI_AINT, MPI_Aint, long);
  RUN_ORDERS(MPI_AINT, MPI_Aint, long);
  RUN_SUMS(MPI_COUNT, MPI_Count, llong);
  RUN_ORDERS(MPI_OFFSET, MPI_Offset, llong);
  RUN_BITS(MPI_BYTE, unsigned char, uchar);
  RUN_LOGICS(MPI_C_BOOL, bool, bool);
  RUN_SUMS(MPI_FLOAT, float, float);
  RUN_ORDERS(MPI_FLOAT, float, float);
  RUN_SUMS(MPI_DOUBLE, double, double);
  RUN_ORDERS(MPI_DOUBLE, double, double);
  RUN_SUMS(MPI_LONG_DOUBLE, long double, ldouble);
  RUN_ORDERS(MPI_LONG_DOUBLE, long double, ldouble);
  RUN_SUMS(MPI_C_FLOAT_COMPLEX, float complex, fcomplex);
  RUN_SUMS(MPI_C_DOUBLE_COMPLEX, double complex, dcomplex);
  RUN_SUMS(MPI_C_LONG_DOUBLE_COMPLEX, long double complex, ldcomplex);
}

// ---- values with places ----

#define PAIRS(T, tag)                                                                  \
  typedef struct {                                                                     \
    T value;                                                                           \
    int place;                                                                         \
  } tag##_pair;                                                                        \
  static void fill_pair_##tag(void* e, int from, int i) {                              \
    ((tag##_pair*)e)->value = (T)((from * 7 + i) % 3);                                 \
    ((tag##_pair*)e)->place = 100 + from;                                              \
  }                                                                                    \
  static int same_pair_##tag(const void* a, const void* b) {                           \
    const tag##_pair *x = a, *y = b;                                                   \
    return x->value == y->value && x->place == y->place;                               \
  }                                                                                    \
  static void maxloc_##tag(void* a, const void* b) {                                   \
    tag##_pair* x = a;                                                                 \
    const tag##_pair* y = b;                                                           \
    if (y->value > x->value || (y->value == x->value && y->place < x->place)) *x = *y; \
  }                                                                                    \
  static void minloc_##tag(void* a, const void* b) {                                   \
    tag##_pair* x = a;                                                                 \
    const tag##_pair* y = b;                                                           \
    if (y->value < x->value || (y->value == x->value && y->place < x->place)) *x = *y; \
  }
PAIRS(float, float)
PAIRS(double, double)
PAIRS(long, long)
PAIRS(int, int)
PAIRS(short, short)
PAIRS(long double, ldouble)
#define RUN_PAIRS(type, tag)                                                         \
  RUN(type, MPI_MAXLOC, tag##_pair, fill_pair_##tag, maxloc_##tag, same_pair_##tag); \
  RUN(type, MPI_MINLOC, tag##_pair, fill_pair_##tag, minloc_##tag, same_pair_##tag)

static void located(void) {
  RUN_PAIRS(MPI_FLOAT_INT, float);
  RUN_PAIRS(MPI_DOUBLE_INT, double);
  RUN_PAIRS(MPI_LONG_INT, long);
  RUN_PAIRS(MPI_2INT, int);
  RUN_PAIRS(MPI_SHORT_INT, short);
  RUN_PAIRS(MPI_LONG_DOUBLE_INT, ldouble);
}

// ---- functions of the user ----

// Matrices of two by two: their product is associative, and does not commute.
typedef struct Matrix {
  int at[4];
} Matrix;

static void fill_matrix(void* e, int from, int i) {
  *(Matrix*)e = (Matrix){{1 + (from + i) % 4, from + 2, 3, (5 * from + i) % 7}};
}
static void multiply(void* a, const void* b) {
  const Matrix x = *(Matrix*)a, y = *(const Matrix*)b;
  *(Matrix*)a = (Matrix){{(x.at[0] * y.at[0] + x.at[1] * y.at[2]) % 10007,
                          (x.at[0] * y.at[1] + x.at[1] * y.at[3]) % 10007,
                          (x.at[2] * y.at[0] + x.at[3] * y.at[2]) % 10007,
                          (x.at[2] * y.at[1] + x.at[3] * y.at[3]) % 10007}};
}
static int same_matrix(const void* a, const void* b) { return memcmp(a, b, sizeof(Matrix)) == 0; }

static MPI_Datatype type_seen;
static void multiply_all(void* left, void* inout, int* length, MPI_Datatype* type) {
  type_seen = *type;
  for (int i = 0; i < *length; ++i) {
    Matrix product = ((Matrix*)left)[i];
    multiply(&product, (Matrix*)inout + i);
    ((Matrix*)inout)[i] = product;
  }
}

static void ordered(void) {
  MPI_Datatype matrix;
  MPI_Op product;
  int commutes = -1;
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply_all, 0, &product);
  MPI_Op_commutative(product, &commutes);
  SAYS("Op_commutative says what Op_create was told", commutes == 0);
  MPI_Op_commutative(MPI_SUM, &commutes);
  SAYS("sums commute", commutes == 1);
  const Case c = {
      "products of matrices", matrix, product, sizeof(Matrix), fill_matrix, multiply, same_matrix};
  check(&c, count);
  check(&c, size);
  SAYS("the function is told the type of the call", type_seen == matrix);
  // Two in flight, and the handle is freed meanwhile.
  MPI_Request requests[2];
  static Matrix results[2][count];
  for (int i = 0; i < count; ++i) fill_matrix(out + (size_t)i * sizeof(Matrix), rank, i);
  for (int k = 0; k < 2; ++k)
    MPI_Iallreduce(out, results[k], count, matrix, product, MPI_COMM_WORLD, &requests[k]);
  MPI_Op_free(&product);
  MPI_Type_free(&matrix);
  SAYS("freed handles are null", product == MPI_OP_NULL && matrix == MPI_DATATYPE_NULL);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  memcpy(in, results[1], sizeof results[1]);
  SAYS("what is in flight keeps operation and type", all_as(&c, count, 0, 0, size - 1));
}

// Elements of 400 bytes with padding around what counts.
typedef struct Wide {
  char before[40];
  double values[40];
  char behind[40];
} Wide;
static void fill_wide(void* e, int from, int i) {
  for (int k = 0; k < 40; ++k) ((Wide*)e)->values[k] = small(from, i + k);
}
static void add_wide(void* a, const void* b) {
  for (int k = 0; k < 40; ++k) ((Wide*)a)->values[k] += ((const Wide*)b)->values[k];
}
static int same_wide(const void* a, const void* b) {
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): whole numbers have one form
  return memcmp(((const Wide*)a)->values, ((const Wide*)b)->values, sizeof(double) * 40) == 0;
}
static void add_all_wide(void* left, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) add_wide((Wide*)inout + i, (Wide*)left + i);
}

static void wide(void) {
  MPI_Datatype values, type;
  MPI_Op add;
  const int lengths[1] = {40};
  const MPI_Aint places[1] = {offsetof(Wide, values)};
  const MPI_Datatype parts[1] = {MPI_DOUBLE};
  MPI_Type_create_struct(1, lengths, places, parts, &values);
  MPI_Type_create_resized(values, 0, sizeof(Wide), &type);
  MPI_Type_commit(&type);
  MPI_Op_create(add_all_wide, 1, &add);
  // Open MPI 4.1 writes beside its memory where it takes a ring for elements with gaps.
  check(&(const Case){"wide elements with gaps", type, add, sizeof(Wide), fill_wide, add_wide,
                      same_wide},
        open_mpi ? 8 : 60);
  MPI_Op_free(&add);
  MPI_Type_free(&type);
  MPI_Type_free(&values);
}

// A user's function on a predefined type; "take the left one" is associative and does not commute.
static void take_left(void* left, void* inout, int* length, MPI_Datatype* type) {
  SAYS("a function is told the predefined type", *type == MPI_INT);
  memcpy(inout, left, (size_t)*length * sizeof(int));
}
static void fill_rank(void* e, int from, int i) { *(int*)e = 1000 * from + i; }
static void keep(void* a, const void* b) { (void)a, (void)b; }

static void leftmost(void) {
  MPI_Op op;
  MPI_Op_create(take_left, 0, &op);
  check(&(const Case){"leftmost", MPI_INT, op, sizeof(int), fill_rank, keep, same_int}, count);
  MPI_Op_free(&op);
}

static void long_vectors(void) {  // of a user's type, in pieces
  enum { length = 30000 };
  MPI_Datatype matrix;
  MPI_Op product;
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply_all, 0, &product);
  const Case c = {"", matrix, product, sizeof(Matrix), fill_matrix, multiply, same_matrix};
  for (int i = 0; i < length; ++i) fill_matrix(out + (size_t)i * sizeof(Matrix), rank, i);
  MPI_Allreduce(out, in, length, matrix, product, MPI_COMM_WORLD);
  SAYS("a long vector of matrices is multiplied in order", all_as(&c, length, 0, 0, size - 1));
  MPI_Op_free(&product);
  MPI_Type_free(&matrix);
}

#if MPI_VERSION >= 4
static void multiply_many(void* left, void* inout, MPI_Count* length, MPI_Datatype* type) {
  int narrow = (int)*length;
  multiply_all(left, inout, &narrow, type);
}

static void large_counts(void) {
  MPI_Datatype matrix;
  MPI_Op product;
  MPI_Type_contiguous_c(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create_c(multiply_many, 0, &product);
  check(&(const Case){"function with large counts", matrix, product, sizeof(Matrix), fill_matrix,
                      multiply, same_matrix},
        count);
  MPI_Op_free(&product);
  MPI_Type_free(&matrix);
}
#endif

static void special_values(void) {
  double sent = rank == 0 ? 1e300 : -1e300, received = 0;
  MPI_Allreduce(&sent, &received, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  SAYS("large values keep their order", received == 1e300);
  int least = rank == 0 ? INT32_MIN : INT32_MAX, result = 0;
  MPI_Allreduce(&least, &result, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  SAYS("the least integer is least", result == INT32_MIN);
  unsigned high = rank == size - 1 ? 0xffffffffu : 1, highest = 0;
  MPI_Allreduce(&high, &highest, 1, MPI_UNSIGNED, MPI_MAX, MPI_COMM_WORLD);
  if (!mpich) SAYS("unsigned values are compared as such", highest == 0xffffffffu);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
    {"arithmetic", arithmetic, 1},
    {"located", located, 1},
    {"ordered", ordered, 1},
    {"wide", wide, 1},
    {"leftmost", leftmost, 1},
    {"long_vectors", long_vectors, 1},
#if MPI_VERSION >= 4
    {"large_counts", large_counts, 1},
#endif
    {"special_values", special_values, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

/* One rank of a job in C: every function of qpmesh.h, what it does and what it says when it cannot.
 */
#include <qpmesh/qpmesh.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ranks_max = 64 };

static int wrong = 0;

static void expect_at(int line, int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "line %d: %s does not hold; last error: %s\n", line, what, qpmesh_error_text());
  wrong = 1;
}
#define EXPECT(condition) expect_at(__LINE__, condition, #condition)
/* The call fails with the code, and its text is this one. */
#define EXPECT_ERROR(call, code, text)           \
  (expect_at(__LINE__, (call) == (code), #call), \
   expect_at(__LINE__, strcmp(qpmesh_error_text(), text) == 0, text))

static void test_messages(qpmesh_communicator* world, int rank, int size) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const int32_t out[3] = {rank, 7, 9};
  int32_t in[4] = {-1, -1, -1, -1};
  qpmesh_status status;
  EXPECT(qpmesh_send(world, out, 3, QPMESH_INT32, next, 5) == QPMESH_OK);
  EXPECT(qpmesh_receive(world, in, 4, QPMESH_INT32, QPMESH_ANY_SOURCE, QPMESH_ANY_TAG, &status) ==
         QPMESH_OK);
  EXPECT(status.source == previous && status.tag == 5 && status.bytes == sizeof out);
  EXPECT(in[0] == previous && in[1] == 7 && in[2] == 9 && in[3] == -1);

  EXPECT(qpmesh_send(world, out, 3, QPMESH_INT32, rank, 6) == QPMESH_OK);
  EXPECT(qpmesh_receive(world, in, 2, QPMESH_INT32, rank, 6, NULL) == QPMESH_TRUNCATED);
  EXPECT(strstr(qpmesh_error_text(), "12 bytes") != NULL);
  EXPECT(qpmesh_receive(world, in, 3, QPMESH_FLOAT32, rank, 6, NULL) == QPMESH_MISMATCH);
  EXPECT(strstr(qpmesh_error_text(), "the message holds int32, the buffer float32") != NULL);
  EXPECT(qpmesh_receive(world, in, sizeof out, QPMESH_BYTE, rank, 6, NULL) == QPMESH_OK);
  EXPECT(memcmp(in, out, sizeof out) == 0);
}

static void test_collectives(qpmesh_communicator* world, int rank, int size) {
  double sum[2], average = rank;
  uint8_t bits = (uint8_t)(1U << (rank % 8)), all_bits = 0;
  int64_t root_only = -1, mine = 10 * rank, all[ranks_max], out[ranks_max];
  int i;
  EXPECT(qpmesh_barrier(world) == QPMESH_OK);
  sum[0] = rank == size - 1 ? 3.5 : 0;
  EXPECT(qpmesh_broadcast(world, sum, 1, QPMESH_FLOAT64, size - 1) == QPMESH_OK);
  EXPECT(sum[0] == 3.5);

  EXPECT(qpmesh_allgather(world, &mine, all, 1, QPMESH_INT64) == QPMESH_OK);
  for (i = 0; i < size; ++i) EXPECT(all[i] == 10 * i);
  for (i = 0; i < size; ++i) all[i] = 100 * rank + i;
  EXPECT(qpmesh_alltoall(world, all, out, 1, QPMESH_INT64) == QPMESH_OK);
  for (i = 0; i < size; ++i) EXPECT(out[i] == 100 * i + rank);

  sum[0] = rank, sum[1] = 1;
  EXPECT(qpmesh_allreduce(world, sum, sum, 2, QPMESH_FLOAT64, QPMESH_SUM) == QPMESH_OK);
  EXPECT(sum[0] == size * (size - 1) / 2.0 && sum[1] == size);
  EXPECT(qpmesh_allreduce(world, &average, &average, 1, QPMESH_FLOAT64, QPMESH_AVERAGE) ==
         QPMESH_OK);
  EXPECT(average == (size - 1) / 2.0);
  EXPECT(qpmesh_allreduce(world, &bits, &all_bits, 1, QPMESH_UINT8, QPMESH_BIT_OR) == QPMESH_OK);
  EXPECT(all_bits == (size >= 8 ? 0xff : (1 << size) - 1));
  EXPECT(qpmesh_reduce(world, &mine, rank == 0 ? &root_only : NULL, 1, QPMESH_INT64, QPMESH_MAX,
                       0) == QPMESH_OK);
  EXPECT(root_only == (rank == 0 ? 10 * (size - 1) : -1));
}

/* None of them sends anything, and the communicator goes on. */
static void test_errors(qpmesh_communicator* world, int size) {
  float value = 1;
  char text[256];
  EXPECT_ERROR(qpmesh_barrier(NULL), QPMESH_BAD_ARGUMENT,
               "qpmesh: bad_argument in barrier: world is null [hint: qpmesh_init makes it]");
  EXPECT_ERROR(qpmesh_rank(NULL), -1,
               "qpmesh: bad_argument in rank: world is null [hint: qpmesh_init makes it]");
  EXPECT_ERROR(qpmesh_init(NULL), QPMESH_BAD_ARGUMENT,
               "qpmesh: bad_argument in init: world is null [hint: give the address of a pointer]");
  EXPECT_ERROR(
      qpmesh_allreduce(world, &value, &value, 1, (qpmesh_type)13, QPMESH_SUM), QPMESH_BAD_ARGUMENT,
      "qpmesh: bad_argument in allreduce: type 13 does not exist [hint: take QPMESH_FLOAT32 or one "
      "of its like]");
  EXPECT_ERROR(qpmesh_allreduce(world, &value, &value, 1, QPMESH_FLOAT32, (qpmesh_reduction)11),
               QPMESH_BAD_ARGUMENT,
               "qpmesh: bad_argument in allreduce: reduction 11 does not exist [hint: take "
               "QPMESH_SUM or one "
               "of its like]");
  EXPECT_ERROR(qpmesh_reduce(world, &value, &value, 1, QPMESH_BYTE, QPMESH_SUM, 0),
               QPMESH_BAD_ARGUMENT,
               "qpmesh: bad_argument in reduce: bytes are not reduced "
               "[hint: name the type of the elements: QPMESH_UINT8 or another]");
  EXPECT_ERROR(qpmesh_send(world, NULL, 3, QPMESH_INT8, 0, 0), QPMESH_BAD_ARGUMENT,
               "qpmesh: bad_argument in send: null with a count of 3 [hint: a range without memory "
               "has a count of 0]");
  snprintf(text, sizeof text,
           "qpmesh: bad_argument in broadcast, rank %d: root %d is not a rank of this communicator "
           "[hint: ranks here are 0 to %d]",
           size, size, size - 1);
  EXPECT_ERROR(qpmesh_broadcast(world, &value, 1, QPMESH_FLOAT32, size), QPMESH_BAD_ARGUMENT, text);
  EXPECT_ERROR(
      qpmesh_alltoall(world, &value, &value, (size_t)-1, QPMESH_BYTE), QPMESH_BAD_ARGUMENT,
      "qpmesh: bad_argument in alltoall: 18446744073709551615 elements of 1 bytes are more "
      "than memory can hold [hint: a negative count, turned unsigned, looks like this]");
  EXPECT(qpmesh_broadcast(world, NULL, 0, QPMESH_FLOAT32, 0) == QPMESH_OK);
}

int main(void) {
  qpmesh_communicator* world = NULL;
  int rank, size;
  EXPECT(strcmp(qpmesh_error_text(), "") == 0);
  if (qpmesh_init(&world) != QPMESH_OK) {
    fprintf(stderr, "%s\n", qpmesh_error_text());
    return 1;
  }
  rank = qpmesh_rank(world);
  size = qpmesh_size(world);
  EXPECT(rank >= 0 && rank < size && size <= ranks_max);
  if (!wrong) {
    test_messages(world, rank, size);
    test_collectives(world, rank, size);
    test_errors(world, size);
  }
  EXPECT(qpmesh_finalize(world) == QPMESH_OK);
  EXPECT(qpmesh_finalize(NULL) == QPMESH_OK);
  return wrong;
}

// SPDX-License-Identifier: MIT
/* One rank of a job in C: every function of qpmesh.h, blocking and not, what it does and what it
   says when it cannot. */
#include <poll.h>
#include <pthread.h>
#include <qpmesh/qpmesh.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ranks_max = 64 };

static int wrong = 0;
static const qpmesh_call no_call = {sizeof no_call, 0, NULL, 0, 0, NULL, NULL, 0, 0, 0};

static void expect_at(int line, int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "line %d: %s does not hold; last error: %s\n", line, what, qpmesh_error_text());
  wrong = 1;
}
#define EXPECT(condition) expect_at(__LINE__, condition, #condition)
#define EXPECT_OK(call) expect_at(__LINE__, (call) == QPMESH_OK, #call)
/* The call fails with the code, and its text is this one. */
#define EXPECT_ERROR(call, code, text)           \
  (expect_at(__LINE__, (call) == (code), #call), \
   expect_at(__LINE__, strcmp(qpmesh_error_text(), text) == 0, text))
#define EXPECT_BAD(call, text) \
  EXPECT_ERROR(call, QPMESH_BAD_ARGUMENT, "qpmesh: bad_argument in " text)
/* Makes the call, waits for it, and frees its request. */
#define EXPECT_WAITED(call)                  \
  do {                                       \
    qpmesh_request* request = NULL;          \
    EXPECT_OK(call);                         \
    EXPECT_OK(qpmesh_wait(request, NULL));   \
    EXPECT_OK(qpmesh_request_free(request)); \
  } while (0)

static int times_asked = 0;
static int says_yes_at_the_third_time(void) { return ++times_asked == 3; }

static void test_messages(qpmesh_communicator* world, int rank, int size) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const int32_t out[3] = {rank, 7, 9};
  int32_t in[4] = {-1, -1, -1, -1};
  int found = -1, done = -1;
  size_t index = 9;
  qpmesh_status status;
  qpmesh_message* message = NULL;
  qpmesh_request *requests[3] = {NULL, NULL, NULL}, *request = NULL;
  qpmesh_call synchronous = no_call;
  synchronous.synchronous = 1;

  EXPECT_OK(qpmesh_send(world, out, 3, QPMESH_INT32, next, 5, NULL));
  EXPECT_OK(
      qpmesh_receive(world, in, 4, QPMESH_INT32, QPMESH_ANY_SOURCE, QPMESH_ANY_TAG, NULL, &status));
  EXPECT(status.source == previous && status.tag == 5 && status.bytes == sizeof out);
  EXPECT(in[0] == previous && in[1] == 7 && in[2] == 9 && in[3] == -1);

  EXPECT_OK(qpmesh_send(world, out, 3, QPMESH_INT32, rank, 6, NULL));
  EXPECT(qpmesh_receive(world, in, 2, QPMESH_INT32, rank, 6, NULL, NULL) == QPMESH_TRUNCATED);
  EXPECT(strstr(qpmesh_last_error()->cause, "12 bytes") != NULL);
  EXPECT(qpmesh_receive(world, in, 3, QPMESH_FLOAT32, rank, 6, NULL, NULL) == QPMESH_MISMATCH);
  EXPECT(strstr(qpmesh_error_text(), "the message holds int32, the buffer float32") != NULL);
  EXPECT_OK(qpmesh_receive(world, in, sizeof out, QPMESH_BYTE, rank, 6, NULL, NULL));
  EXPECT(memcmp(in, out, sizeof out) == 0);

  memset(in, 0, sizeof in);
  EXPECT_OK(qpmesh_sendrecv(world, out, 3, QPMESH_INT32, next, rank, in, 3, QPMESH_INT32, previous,
                            previous, NULL, &status));
  EXPECT(in[0] == previous && status.tag == previous);
  memset(in, 0, sizeof in);
  EXPECT_WAITED(qpmesh_sendrecv_async(world, out, 1, QPMESH_STRUCT + 12, next, 1, in, 1,
                                      QPMESH_STRUCT + 12, previous, 1, NULL, &request));
  EXPECT(in[0] == previous && in[2] == 9);

  EXPECT_OK(qpmesh_try_probe(world, rank, 8, &found, &status));
  EXPECT(!found);
  EXPECT_OK(qpmesh_send(world, out, 3, QPMESH_INT32, rank, 8, NULL));
  EXPECT_OK(qpmesh_probe(world, rank, 8, NULL, &status));
  EXPECT(status.bytes == 12);
  EXPECT_OK(qpmesh_try_probe(world, rank, 8, &found, NULL));
  EXPECT(found);
  EXPECT_OK(qpmesh_match(world, rank, 8, NULL, &message, &status));
  EXPECT(status.source == rank && status.tag == 8);
  EXPECT_OK(qpmesh_message_free(message)); /* back in line */
  EXPECT_OK(qpmesh_try_match(world, rank, 8, &message, NULL));
  EXPECT(message != NULL);
  memset(in, 0, sizeof in);
  EXPECT_OK(qpmesh_message_receive(message, in, 3, QPMESH_INT32, NULL, &status));
  EXPECT(in[1] == 7 && status.bytes == 12);
  EXPECT(qpmesh_message_receive(message, in, 3, QPMESH_INT32, NULL, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT_OK(qpmesh_message_free(message));
  EXPECT_OK(qpmesh_send(world, out, 3, QPMESH_INT32, rank, 8, NULL));
  EXPECT_OK(qpmesh_match(world, rank, 8, NULL, &message, NULL));
  memset(in, 0, sizeof in);
  EXPECT_WAITED(qpmesh_message_receive_async(message, in, 3, QPMESH_INT32, NULL, &request));
  EXPECT(in[1] == 7);
  EXPECT_OK(qpmesh_message_free(message));
  EXPECT_OK(qpmesh_try_match(world, rank, 8, &message, NULL));
  EXPECT(message == NULL);

  /* A wait that is interrupted takes its receive back: the next one gets the message. */
  times_asked = 0;
  qpmesh_set_interrupt_check(&says_yes_at_the_third_time);
  EXPECT(qpmesh_receive(world, in, sizeof in, QPMESH_BYTE, rank, 9, NULL, &status) ==
         QPMESH_ABORTED);
  EXPECT(qpmesh_last_error()->peer == rank && times_asked == 3);
  EXPECT_OK(qpmesh_receive_async(world, in, sizeof in, QPMESH_BYTE, rank, 9, NULL, &request));
  times_asked = 0;
  EXPECT(qpmesh_wait_any(&request, 1, &index) == QPMESH_ABORTED);
  EXPECT(times_asked == 3 && request != NULL);
  qpmesh_set_interrupt_check(NULL);
  EXPECT_OK(qpmesh_send(world, out, 3, QPMESH_INT32, rank, 9, NULL));
  EXPECT_OK(qpmesh_wait(request, &status));
  EXPECT(status.bytes == 12);
  EXPECT_OK(qpmesh_request_free(request));

  /* A partner that is not there. */
  EXPECT_OK(qpmesh_send(world, out, 3, QPMESH_INT32, QPMESH_NO_RANK, 0, NULL));
  EXPECT_OK(qpmesh_receive(world, in, 3, QPMESH_INT32, QPMESH_NO_RANK, 0, NULL, &status));
  EXPECT(status.source == QPMESH_NO_RANK && status.bytes == 0);

  /* Requests that end one by one. */
  EXPECT_OK(qpmesh_receive_async(world, in, 1, QPMESH_INT32, previous, 20, NULL, &requests[0]));
  EXPECT_OK(qpmesh_receive_async(world, in + 1, 1, QPMESH_INT32, previous, 21, NULL, &requests[2]));
  EXPECT_OK(qpmesh_test(requests[2], &done, NULL));
  EXPECT_OK(qpmesh_barrier(world, NULL));
  EXPECT_OK(qpmesh_send(world, &rank, 1, QPMESH_INT32, next, 21, NULL));
  EXPECT_OK(qpmesh_wait_any((qpmesh_request* const*)requests, 3, &index));
  EXPECT(index == 2);
  EXPECT_OK(qpmesh_wait(requests[2], &status));
  EXPECT(status.tag == 21 && in[1] == previous);
  EXPECT_OK(qpmesh_test_any((qpmesh_request* const*)requests, 3, &index));
  EXPECT(index == 3);
  EXPECT_OK(qpmesh_wait_for(requests[0], 1, &done, NULL));
  EXPECT(!done);
  EXPECT_OK(qpmesh_test_all((qpmesh_request* const*)requests, 3, &done));
  EXPECT(!done);
  EXPECT_OK(qpmesh_barrier(world, NULL));
  EXPECT_OK(qpmesh_send_async(world, &rank, 1, QPMESH_INT32, next, 20, &synchronous, &requests[1]));
  EXPECT_OK(qpmesh_wait_all((qpmesh_request* const*)requests, 3));
  EXPECT_OK(qpmesh_wait_all((qpmesh_request* const*)requests, 3));
  EXPECT_OK(qpmesh_test_all((qpmesh_request* const*)requests, 3, &done));
  EXPECT(done && in[0] == previous);
  EXPECT_OK(qpmesh_wait_any((qpmesh_request* const*)requests, 3, &index));
  EXPECT(index == 3);
  EXPECT_OK(qpmesh_request_free(requests[0]));
  EXPECT_OK(qpmesh_request_free(requests[1]));
  EXPECT_OK(qpmesh_request_free(requests[2]));

  /* A short send is over when the call returns, and needs no request then. */
  {
    qpmesh_call no_request = no_call, synchronous_too = no_call, prepared = no_call;
    no_request.null_when_over = 1;
    synchronous_too.null_when_over = synchronous_too.synchronous = 1;
    prepared.null_when_over = prepared.prepared = 1;
    EXPECT_OK(qpmesh_receive_async(world, in, 1, QPMESH_INT32, previous, 25, NULL, &requests[0]));
    requests[1] = requests[0];
    EXPECT_OK(
        qpmesh_send_async(world, &rank, 1, QPMESH_INT32, next, 25, &no_request, &requests[1]));
    EXPECT(requests[1] == NULL);
    EXPECT_OK(qpmesh_wait_and_free(requests[0], &status));
    EXPECT(in[0] == previous && status.tag == 25 && status.source == previous);
    EXPECT_OK(qpmesh_receive_async(world, in, 1, QPMESH_INT32, previous, 26, NULL, &requests[0]));
    EXPECT_OK(
        qpmesh_send_async(world, &rank, 1, QPMESH_INT32, next, 26, &synchronous_too, &requests[1]));
    if (rank != next) EXPECT(requests[1] != NULL);
    EXPECT_OK(qpmesh_wait_and_free(requests[0], NULL));
    if (requests[1] != NULL) EXPECT_OK(qpmesh_wait_and_free(requests[1], NULL));
    EXPECT_OK(qpmesh_send_async(world, &rank, 1, QPMESH_INT32, next, 27, &prepared, &request));
    EXPECT(request != NULL);
    EXPECT_OK(qpmesh_start(request));
    EXPECT_OK(qpmesh_receive(world, in, 1, QPMESH_INT32, previous, 27, NULL, NULL));
    EXPECT_OK(qpmesh_wait_and_free(request, NULL));
    /* What fails is freed, too. */
    EXPECT_OK(qpmesh_receive_async(world, in, 1, QPMESH_INT32, rank, 28, NULL, &request));
    EXPECT_OK(qpmesh_send(world, out, 2, QPMESH_INT32, rank, 28, NULL));
    EXPECT(qpmesh_wait_and_free(request, NULL) == QPMESH_TRUNCATED);
    EXPECT_OK(qpmesh_receive(world, in, 2, QPMESH_INT32, rank, 28, NULL, NULL));
    EXPECT(qpmesh_wait_and_free(NULL, NULL) == QPMESH_BAD_ARGUMENT);
  }

  /* A receive that is taken back, once. */
  EXPECT_OK(qpmesh_receive_async(world, in, 1, QPMESH_INT32, previous, 30, NULL, &request));
  EXPECT_OK(qpmesh_cancel(request, &done));
  EXPECT(done);
  EXPECT_OK(qpmesh_cancel(request, &done));
  EXPECT(!done);
  EXPECT_OK(qpmesh_wait(request, &status));
  EXPECT(status.source == QPMESH_NO_RANK);
  EXPECT_OK(qpmesh_request_free(request));
  EXPECT_OK(qpmesh_request_free(NULL));
  EXPECT_OK(qpmesh_progress(world));
}

static void count_end(void* ends) { ++*(int*)ends; }

/* What an event loop does: it sleeps in poll, and hears of ends by a function. */
static void test_event_loop(qpmesh_communicator* world, int rank, int size) {
  int32_t in = -1;
  int ends = 0;
  int timeout_ms = -1;
  struct pollfd watched = {-1, POLLIN, 0};
  qpmesh_request* request = NULL;
  EXPECT_OK(qpmesh_wait_fd(world, &watched.fd));
  EXPECT_OK(qpmesh_receive_async(world, &in, 1, QPMESH_INT32, (rank + size - 1) % size, 40, NULL,
                                 &request));
  EXPECT_OK(qpmesh_on_end(request, count_end, &ends));
  EXPECT(qpmesh_on_end(request, count_end, &ends) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_on_end(request, NULL, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT_OK(qpmesh_barrier(world, NULL)); /* no message comes before */
  EXPECT_OK(qpmesh_send(world, &rank, 1, QPMESH_INT32, (rank + 1) % size, 40, NULL));
  while (ends == 0) {
    EXPECT_OK(qpmesh_arm_wait(world, &timeout_ms));
    EXPECT(timeout_ms >= 0 && timeout_ms <= 1000);
    EXPECT(poll(&watched, 1, timeout_ms) >= 0);
    EXPECT_OK(qpmesh_progress(world));
  }
  EXPECT_OK(qpmesh_wait(request, NULL));
  EXPECT(in == (rank + size - 1) % size);
  EXPECT_OK(qpmesh_on_end(request, count_end, &ends));
  EXPECT(ends == 2);
  EXPECT_OK(qpmesh_request_free(request));
  EXPECT(qpmesh_wait_fd(world, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_arm_wait(NULL, &timeout_ms) == QPMESH_BAD_ARGUMENT);
}

static void test_some(qpmesh_communicator* world, int rank) {
  int32_t in[2] = {0, 0};
  size_t indexes[2], found = 9;
  qpmesh_request* requests[2];
  EXPECT_OK(qpmesh_receive_async(world, in, 1, QPMESH_INT32, rank, 1, NULL, &requests[0]));
  EXPECT_OK(qpmesh_receive_async(world, in + 1, 1, QPMESH_INT32, rank, 2, NULL, &requests[1]));
  EXPECT_OK(qpmesh_send(world, &rank, 1, QPMESH_INT32, rank, 2, NULL));
  EXPECT_OK(qpmesh_wait_some((qpmesh_request* const*)requests, 2, indexes, &found));
  EXPECT(found == 1 && indexes[0] == 1);
  EXPECT_OK(qpmesh_wait(requests[1], NULL));
  EXPECT_OK(qpmesh_send(world, &rank, 1, QPMESH_INT32, rank, 1, NULL));
  EXPECT_OK(qpmesh_wait(requests[0], NULL));
  EXPECT_OK(qpmesh_wait_some((qpmesh_request* const*)requests, 2, indexes, &found));
  EXPECT(found == 0);
  EXPECT_OK(qpmesh_request_free(requests[0]));
  EXPECT_OK(qpmesh_request_free(requests[1]));
}

/* Both forms of a call, with the same result. `request` is the last argument of the second. */
#define EXPECT_BOTH(blocking, async, reset, holds) \
  do {                                             \
    qpmesh_request* request = NULL;                \
    reset;                                         \
    EXPECT_OK(blocking);                           \
    EXPECT(holds);                                 \
    reset;                                         \
    EXPECT_OK(async);                              \
    EXPECT_OK(qpmesh_wait(request, NULL));         \
    EXPECT_OK(qpmesh_request_free(request));       \
    EXPECT(holds);                                 \
  } while (0)

static int is_all_times(const int64_t* values, int size, int factor) {
  int i;
  for (i = 0; i < size; ++i)
    if (values[i] != factor * i) return 0;
  return 1;
}

static int comes_from_each(const int64_t* values, int size, int rank) {
  int i;
  for (i = 0; i < size; ++i)
    if (values[i] != 100 * i + rank) return 0;
  return 1;
}

static void test_collectives(qpmesh_communicator* world, int rank, int size) {
  const int last = size - 1, ranks = size * (size - 1) / 2;
  double sum[2] = {0, 0}, ones[2];
  float average = 0;
  uint8_t bits = (uint8_t)(1U << (rank % 8)), all_bits = 0;
  int64_t mine = 10 * rank, one = -1, all[ranks_max], out[ranks_max];
  int i;
  qpmesh_call ring = no_call;
  ring.algorithm = "dissemination";
  ring.timeout_ms = 20000;
  ones[0] = rank, ones[1] = 1;
  for (i = 0; i < size; ++i) all[i] = 100 * rank + i;

  EXPECT_BOTH(qpmesh_barrier(world, &ring), qpmesh_barrier_async(world, NULL, &request), (void)0,
              1);
  EXPECT_BOTH(qpmesh_broadcast(world, sum, 1, QPMESH_FLOAT64, last, NULL),
              qpmesh_broadcast_async(world, sum, 1, QPMESH_FLOAT64, last, NULL, &request),
              sum[0] = rank == last ? 3.5 : 0, sum[0] == 3.5);
  EXPECT_BOTH(
      qpmesh_allreduce(world, ones, sum, 2, QPMESH_FLOAT64, QPMESH_SUM, NULL),
      qpmesh_allreduce_async(world, ones, sum, 2, QPMESH_FLOAT64, QPMESH_SUM, NULL, &request),
      sum[0] = sum[1] = 0, sum[0] == ranks && sum[1] == size);
  EXPECT_BOTH(qpmesh_allreduce(world, &average, &average, 1, QPMESH_FLOAT32, QPMESH_AVERAGE, NULL),
              qpmesh_allreduce_async(world, &average, &average, 1, QPMESH_FLOAT32, QPMESH_AVERAGE,
                                     NULL, &request),
              average = (float)rank, average == (float)last / 2);
  EXPECT_OK(qpmesh_allreduce(world, &bits, &all_bits, 1, QPMESH_UINT8, QPMESH_BIT_OR, NULL));
  EXPECT(all_bits == (size >= 8 ? 0xff : (1 << size) - 1));
  EXPECT_BOTH(
      qpmesh_reduce(world, &mine, rank == 0 ? &one : NULL, 1, QPMESH_INT64, QPMESH_MAX, 0, NULL),
      qpmesh_reduce_async(world, &mine, rank == 0 ? &one : NULL, 1, QPMESH_INT64, QPMESH_MAX, 0,
                          NULL, &request),
      one = -1, one == (rank == 0 ? 10 * last : -1));
  EXPECT_BOTH(
      qpmesh_reduce_scatter(world, all, &one, 1, QPMESH_INT64, QPMESH_SUM, NULL),
      qpmesh_reduce_scatter_async(world, all, &one, 1, QPMESH_INT64, QPMESH_SUM, NULL, &request),
      one = -1, one == 100 * ranks + size * rank);
  EXPECT_BOTH(qpmesh_scan(world, &mine, &one, 1, QPMESH_INT64, QPMESH_SUM, NULL),
              qpmesh_scan_async(world, &mine, &one, 1, QPMESH_INT64, QPMESH_SUM, NULL, &request),
              one = -1, one == 5 * rank * (rank + 1));
  EXPECT_BOTH(qpmesh_exscan(world, &mine, &one, 1, QPMESH_INT64, QPMESH_SUM, NULL),
              qpmesh_exscan_async(world, &mine, &one, 1, QPMESH_INT64, QPMESH_SUM, NULL, &request),
              one = -1, one == (rank == 0 ? -1 : 5 * rank * (rank - 1)));
  EXPECT_BOTH(qpmesh_allgather(world, &mine, out, 1, QPMESH_INT64, NULL),
              qpmesh_allgather_async(world, &mine, out, 1, QPMESH_INT64, NULL, &request),
              memset(out, 0xff, sizeof out), is_all_times(out, size, 10));
  EXPECT_BOTH(qpmesh_gather(world, &mine, rank == last ? out : NULL, 1, QPMESH_INT64, last, NULL),
              qpmesh_gather_async(world, &mine, rank == last ? out : NULL, 1, QPMESH_INT64, last,
                                  NULL, &request),
              memset(out, 0xff, sizeof out), rank != last || is_all_times(out, size, 10));
  EXPECT_BOTH(qpmesh_scatter(world, rank == last ? all : NULL, &one, 1, QPMESH_INT64, last, NULL),
              qpmesh_scatter_async(world, rank == last ? all : NULL, &one, 1, QPMESH_INT64, last,
                                   NULL, &request),
              one = -1, one == 100 * last + rank);
  EXPECT_BOTH(qpmesh_alltoall(world, all, out, 1, QPMESH_INT64, NULL),
              qpmesh_alltoall_async(world, all, out, 1, QPMESH_INT64, NULL, &request),
              memset(out, 0xff, sizeof out), comes_from_each(out, size, rank));
}

/* Rank r has r + 1 elements, all of them r. */
static int has_blocks(const int32_t* values, const size_t* displacements, int size) {
  int r, i;
  for (r = 0; r < size; ++r)
    for (i = 0; i <= r; ++i)
      if (values[displacements[r] + (size_t)i] != r) return 0;
  return 1;
}

static void test_unequal_blocks(qpmesh_communicator* world, int rank, int size) {
  enum { all_max = 8 * 9 / 2 + 8 };
  const int last = size - 1;
  const size_t count = (size_t)rank + 1;
  size_t counts[8], gaps[8], packed[8], equal[8];
  int32_t mine[8] = {0}, out[all_max], lists[8][9], in[all_max];
  void* ranges[8];
  int i;
  size_t end = 0;
  qpmesh_blocks with_gaps = {NULL, NULL, NULL, NULL}, behind = {NULL, NULL, NULL, NULL},
                apart = {NULL, NULL, NULL, NULL}, sent = {NULL, NULL, NULL, NULL};
  if (size > 8) return;
  for (i = 0; i < size; ++i) {
    counts[i] = (size_t)i + 1;
    packed[i] = end;
    gaps[i] = end + (size_t)i;
    end += counts[i];
    equal[i] = count;
    mine[i] = rank;
    ranges[i] = lists[size - 1 - i];
  }
  with_gaps.data = behind.data = out;
  with_gaps.counts = behind.counts = apart.counts = counts;
  with_gaps.displacements = gaps;
  apart.ranges = ranges;
  EXPECT_BOTH(qpmesh_allgatherv(world, mine, count, &with_gaps, QPMESH_INT32, NULL),
              qpmesh_allgatherv_async(world, mine, count, &with_gaps, QPMESH_INT32, NULL, &request),
              memset(out, 0xff, sizeof out), has_blocks(out, gaps, size));
  EXPECT_BOTH(qpmesh_allgatherv(world, mine, count, &apart, QPMESH_INT32, NULL),
              qpmesh_allgatherv_async(world, mine, count, &apart, QPMESH_INT32, NULL, &request),
              memset(lists, 0xff, sizeof lists), lists[0][last] == last && lists[last][0] == 0);
  EXPECT_BOTH(
      qpmesh_gatherv(world, mine, count, rank == last ? &behind : NULL, QPMESH_INT32, last, NULL),
      qpmesh_gatherv_async(world, mine, count, rank == last ? &behind : NULL, QPMESH_INT32, last,
                           NULL, &request),
      memset(out, 0xff, sizeof out), rank != last || has_blocks(out, packed, size));
  /* The root still has what it gathered, and gives it back. */
  EXPECT_BOTH(
      qpmesh_scatterv(world, rank == last ? &behind : NULL, in, count, QPMESH_INT32, last, NULL),
      qpmesh_scatterv_async(world, rank == last ? &behind : NULL, in, count, QPMESH_INT32, last,
                            NULL, &request),
      memset(in, 0xff, sizeof in), in[0] == rank && in[rank] == rank);
  /* To each rank as many as this one has. */
  for (i = 0; i < size * (rank + 1); ++i) in[i] = rank;
  sent.data = in;
  sent.counts = equal;
  EXPECT_BOTH(qpmesh_alltoallv(world, &sent, &with_gaps, QPMESH_INT32, NULL),
              qpmesh_alltoallv_async(world, &sent, &with_gaps, QPMESH_INT32, NULL, &request),
              memset(out, 0xff, sizeof out), has_blocks(out, gaps, size));
  for (i = 0; i < (int)end; ++i) out[i] = i;
  EXPECT_BOTH(
      qpmesh_reduce_scatterv(world, &behind, mine, count, QPMESH_INT32, QPMESH_SUM, NULL),
      qpmesh_reduce_scatterv_async(world, &behind, mine, count, QPMESH_INT32, QPMESH_SUM, NULL,
                                   &request),
      memset(mine, 0xff, sizeof mine),
      mine[0] == size * (int)packed[rank] && mine[rank] == size * ((int)packed[rank] + rank));

  EXPECT_BAD(
      qpmesh_allgatherv(world, mine, 1, NULL, QPMESH_INT32, NULL),
      "allgatherv: blocks is null [hint: give what the call works on, and an address for what it "
      "makes]");
  sent.counts = NULL;
  EXPECT_BAD(
      qpmesh_alltoallv(world, &sent, &with_gaps, QPMESH_INT32, NULL),
      "alltoallv: counts is null [hint: give what the call works on, and an address for what it "
      "makes]");
  apart.data = out;
  EXPECT_BAD(qpmesh_allgatherv(world, mine, count, &apart, QPMESH_INT32, NULL),
             "allgatherv: blocks are ranges, and parts of one vector [hint: give ranges alone, or "
             "data with "
             "displacements or without]");
  apart.data = NULL;
  ranges[0] = NULL;
  EXPECT_BAD(qpmesh_allgatherv(world, mine, count, &apart, QPMESH_INT32, NULL),
             "allgatherv: range 0 is null with a count of 1 [hint: a range without memory has a "
             "count of 0]");
  gaps[0] = (size_t)-1;
  EXPECT(qpmesh_allgatherv(world, mine, count, &with_gaps, QPMESH_INT32, NULL) ==
         QPMESH_BAD_ARGUMENT);
}

/* Matrices of 2 x 2: their product depends on the order. */
typedef struct {
  int64_t of[4];
} matrix;
static int calls_of_function = 0;
static int multiply(void* context, const void* left, void* inout, size_t element_count) {
  const matrix* a = left;
  matrix* b = inout;
  size_t i;
  ++*(int*)context;
  for (i = 0; i < element_count; ++i) {
    const matrix c = b[i];
    b[i].of[0] = a[i].of[0] * c.of[0] + a[i].of[1] * c.of[2];
    b[i].of[1] = a[i].of[0] * c.of[1] + a[i].of[1] * c.of[3];
    b[i].of[2] = a[i].of[2] * c.of[0] + a[i].of[3] * c.of[2];
    b[i].of[3] = a[i].of[2] * c.of[1] + a[i].of[3] * c.of[3];
  }
  return 0;
}
static int refuse(void* context, const void* left, void* inout, size_t element_count) {
  (void)context, (void)left, (void)inout;
  return element_count > 0 ? 3 : 0;
}

/* While its thread is inside a call, it and another thread ask for one more. */
static void* ask_for_progress(void* world) {
  EXPECT(qpmesh_progress(world) == QPMESH_BAD_ARGUMENT);
  return NULL;
}
static int ask_inside(void* world, const void* left, void* inout, size_t element_count) {
  pthread_t other;
  size_t i;
  EXPECT(qpmesh_progress(world) == QPMESH_BAD_ARGUMENT);
  EXPECT(pthread_create(&other, NULL, ask_for_progress, world) == 0);
  EXPECT(pthread_join(other, NULL) == 0);
  for (i = 0; i < element_count; ++i) ((int32_t*)inout)[i] += ((const int32_t*)left)[i];
  return 0;
}

static void test_several_vectors(qpmesh_communicator* world, int rank, int size) {
  enum { many = 20000 };
  static int32_t numbers[many];
  int32_t few[2];
  void* vectors[3];
  const size_t counts[3] = {many, 0, 2};
  qpmesh_request* request = NULL;
  size_t i;
  vectors[0] = numbers, vectors[1] = NULL, vectors[2] = few;
  for (i = 0; i < many; ++i) numbers[i] = (int32_t)i;
  few[0] = rank, few[1] = 1;
  EXPECT_OK(qpmesh_allreduce_each(world, vectors, counts, 3, QPMESH_INT32, QPMESH_SUM, NULL));
  for (i = 0; i < many && numbers[i] == (int32_t)i * size; ++i) {}
  EXPECT(i == many && few[0] == size * (size - 1) / 2 && few[1] == size);
  EXPECT_OK(qpmesh_allreduce_each(world, NULL, NULL, 0, QPMESH_INT32, QPMESH_SUM, NULL));
  few[0] = rank, few[1] = 1;
  EXPECT_WAITED(qpmesh_allreduce_each_async(world, vectors, counts, 3, QPMESH_INT32, QPMESH_MAX,
                                            NULL, &request));
  EXPECT(few[0] == size - 1 && few[1] == 1);
  EXPECT_WAITED(
      qpmesh_allreduce_each_async(world, NULL, NULL, 0, QPMESH_INT32, QPMESH_SUM, NULL, &request));
  {
    /* What is prepared keeps no list of ours. */
    void* list[2];
    size_t list_counts[2];
    int turn;
    qpmesh_request* step = NULL;
    qpmesh_call prepared = no_call;
    prepared.prepared = 1;
    list[0] = numbers, list[1] = few;
    list_counts[0] = many, list_counts[1] = 2;
    EXPECT_OK(qpmesh_allreduce_each_async(world, list, list_counts, 2, QPMESH_INT32, QPMESH_SUM,
                                          &prepared, &step));
    list[0] = list[1] = NULL;
    for (turn = 0; turn < 3; ++turn) {
      for (i = 0; i < many; ++i) numbers[i] = turn;
      few[0] = turn, few[1] = rank;
      EXPECT_OK(qpmesh_start(step));
      EXPECT_OK(qpmesh_wait(step, NULL));
      EXPECT(numbers[many - 1] == turn * size && few[0] == turn * size);
      EXPECT(few[1] == size * (size - 1) / 2);
    }
    EXPECT_OK(qpmesh_request_free(step));
    EXPECT_BAD(
        qpmesh_allreduce_each(world, vectors, counts, 3, QPMESH_INT32, QPMESH_SUM, &prepared),
        "allreduce_each: a call that is prepared, and would wait [hint: prepare a call that "
        "ends in _async]");
  }
  EXPECT_BAD(
      qpmesh_allreduce_each_async(world, vectors, counts, 3, QPMESH_INT32, QPMESH_SUM, NULL, NULL),
      "allreduce_each_async: request is null [hint: give what the call works on, and an "
      "address for what it makes]");
  EXPECT_BAD(
      qpmesh_allreduce_each_async(world, NULL, counts, 3, QPMESH_INT32, QPMESH_SUM, NULL, &request),
      "allreduce_each_async: vectors is null [hint: give what the call works on, and an "
      "address for what it makes]");
  EXPECT_BAD(qpmesh_allreduce_each_async(NULL, vectors, counts, 3, QPMESH_INT32, QPMESH_SUM, NULL,
                                         &request),
             "allreduce_each_async: world is null [hint: qpmesh_init makes it]");
  EXPECT_BAD(qpmesh_allreduce_each_async(world, vectors, counts, 3, QPMESH_BYTE, QPMESH_SUM, NULL,
                                         &request),
             "allreduce_each_async: bytes are not reduced [hint: name the type of the elements: "
             "QPMESH_UINT8 or another]");
  EXPECT_BAD(
      qpmesh_allreduce_each(world, vectors, NULL, 3, QPMESH_INT32, QPMESH_SUM, NULL),
      "allreduce_each: counts is null [hint: give what the call works on, and an address for "
      "what it makes]");
  vectors[1] = few;
  {
    const size_t twice[3] = {1, 1, 2};
    EXPECT_BAD(
        qpmesh_allreduce_each(world, vectors, twice, 3, QPMESH_INT32, QPMESH_SUM, NULL),
        "allreduce_each: vectors 1 and 2 overlap [hint: give vectors that have no element in "
        "common]");
  }
}

static void test_reductions(qpmesh_communicator* world, int rank, int size) {
  /* [[1, 1], [0, 1]] or [[1, 0], [1, 1]] */
  const matrix mine = {{1, rank % 2 == 0, rank % 2 == 1, 1}};
  matrix product = mine, expected = {{1, 0, 0, 1}};
  struct {
    double value;
    int64_t place;
  } least = {rank % 2, rank}, greatest = least;
  int32_t left[2] = {3, 4}, inout[2] = {10, 20};
  int r, ignored = 0;
  qpmesh_call call = no_call;
  qpmesh_communicator* group = NULL;
  call.function = multiply;
  call.context = &calls_of_function;
  for (r = 0; r < size; ++r) {
    const matrix factor = {{1, r % 2 == 0, r % 2 == 1, 1}};
    matrix next = factor;
    multiply(&ignored, &expected, &next, 1);
    expected = next;
  }
  EXPECT_BOTH(qpmesh_allreduce(world, &mine, &product, 1, QPMESH_STRUCT + (int)sizeof mine,
                               QPMESH_USER, &call),
              qpmesh_allreduce_async(world, &mine, &product, 1, QPMESH_STRUCT + (int)sizeof mine,
                                     QPMESH_USER, &call, &request),
              memset(&product, 0, sizeof product),
              memcmp(&product, &expected, sizeof product) == 0);
  EXPECT(size == 1 || calls_of_function > 0);

  EXPECT_OK(qpmesh_allreduce(world, &least, &least, 1, QPMESH_FLOAT64, QPMESH_MIN_LOCATED, NULL));
  EXPECT(least.value == 0 && least.place == 0);
  EXPECT_OK(
      qpmesh_allreduce(world, &greatest, &greatest, 1, QPMESH_FLOAT64, QPMESH_MAX_LOCATED, NULL));
  EXPECT(greatest.place == (size > 1));

  EXPECT_OK(qpmesh_reduce_local(left, inout, 2, QPMESH_INT32, QPMESH_SUM, NULL));
  EXPECT(inout[0] == 13 && inout[1] == 24);
  call.function = NULL;
  EXPECT_BAD(qpmesh_reduce_local(left, inout, 2, QPMESH_INT32, QPMESH_USER, &call),
             "reduce_local: QPMESH_USER has no function [hint: give it in a qpmesh_call]");
  EXPECT_BAD(qpmesh_allreduce(world, left, inout, 1, QPMESH_FLOAT16, QPMESH_MIN_LOCATED, NULL),
             "allreduce: values of 16 bits have no place beside them [hint: take integers, "
             "QPMESH_FLOAT32 or "
             "QPMESH_FLOAT64]");

  call.function = ask_inside;
  call.context = world;
  call.commutative = 1;
  inout[0] = 1;
  EXPECT_OK(qpmesh_allreduce(world, inout, inout, 1, QPMESH_INT32, QPMESH_USER, &call));
  EXPECT(inout[0] == size);

  /* A function that fails takes its communicator with it, and no other one. */
  call.function = refuse;
  EXPECT_ERROR(qpmesh_reduce_local(left, inout, 2, QPMESH_INT32, QPMESH_USER, &call),
               QPMESH_ABORTED,
               "qpmesh: aborted in reduce_local: a reduction of the caller's returned 3 [hint: the "
               "function returns "
               "0 when all went well]");
  if (size > 1) {
    EXPECT_OK(qpmesh_duplicate(world, NULL, &group));
    EXPECT(qpmesh_allreduce(group, left, inout, 2, QPMESH_INT32, QPMESH_USER, &call) != QPMESH_OK);
    EXPECT(qpmesh_barrier(group, NULL) != QPMESH_OK);
    EXPECT_OK(qpmesh_communicator_free(group));
  }
  EXPECT_OK(qpmesh_barrier(world, NULL));
}

static void test_prepared(qpmesh_communicator* world, int rank, int size) {
  int64_t value = 0;
  int step, i, done = 0;
  size_t index = 9;
  qpmesh_call prepared = no_call;
  qpmesh_request *sum = NULL, *request = NULL;
  qpmesh_communicator* group = NULL;
  prepared.prepared = 1;
  EXPECT_OK(
      qpmesh_allreduce_async(world, &value, &value, 1, QPMESH_INT64, QPMESH_SUM, &prepared, &sum));
  EXPECT_OK(qpmesh_test(sum, &done, NULL));
  EXPECT(done);
  for (step = 0; step < 5; ++step) {
    value = rank + step;
    EXPECT_OK(qpmesh_start(sum));
    if (step == 2) {
      EXPECT(qpmesh_start(sum) == QPMESH_BAD_ARGUMENT || size == 1);
      EXPECT_OK(qpmesh_wait_any(&sum, 1, &index));
    }
    EXPECT_OK(qpmesh_wait(sum, NULL));
    EXPECT(value == size * (size - 1) / 2 + size * step);
  }
  EXPECT_OK(qpmesh_request_free(sum));
  EXPECT_BAD(qpmesh_barrier(world, &prepared),
             "barrier: a call that is prepared, and would wait [hint: prepare a call that ends in "
             "_async]");
  EXPECT_OK(qpmesh_barrier_async(world, NULL, &request));
  EXPECT_BAD(qpmesh_start(request),
             "start: the request is not prepared: it was started when it was made [hint: set "
             "prepared in the "
             "qpmesh_call of its _async]");
  EXPECT_OK(qpmesh_wait(request, NULL));
  EXPECT_OK(qpmesh_request_free(request));
  /* Of a communicator that has said goodbye. */
  EXPECT_OK(qpmesh_duplicate(world, NULL, &group));
  {
    /* In order; null is passed over, and what comes behind one that is not prepared is not started.
     */
    qpmesh_request *list[3] = {NULL, NULL, NULL}, *other = NULL;
    EXPECT_OK(qpmesh_start_all(NULL, 0));
    EXPECT_BAD(qpmesh_start_all(NULL, 1),
               "start_all: requests is null [hint: give what the call works on, and an address for "
               "what it makes]");
    EXPECT_OK(qpmesh_barrier_async(world, &prepared, &list[0]));
    EXPECT_OK(qpmesh_barrier_async(world, &prepared, &list[2]));
    EXPECT_OK(qpmesh_start_all(list, 3));
    EXPECT_OK(qpmesh_wait_all(list, 3));
    EXPECT_OK(qpmesh_barrier_async(world, NULL, &other));
    list[1] = other;
    EXPECT(qpmesh_start_all(list, 3) == QPMESH_BAD_ARGUMENT);
    EXPECT_OK(qpmesh_wait_all(list, 3));
    EXPECT_OK(qpmesh_start(list[2]));
    EXPECT_OK(qpmesh_wait(list[2], NULL));
    for (i = 0; i < 3; ++i) EXPECT_OK(qpmesh_request_free(list[i]));
  }
  EXPECT_OK(qpmesh_barrier_async(group, &prepared, &request));
  EXPECT_OK(qpmesh_finalize(group, NULL));
  EXPECT(qpmesh_start(request) == QPMESH_BAD_ARGUMENT);
  EXPECT_OK(qpmesh_request_free(request));
}

static void test_finalize(qpmesh_communicator* world, int rank, int size) {
  qpmesh_communicator* group = NULL;
  qpmesh_call call = no_call;
  call.timeout_ms = 50;
  EXPECT_OK(qpmesh_duplicate(world, NULL, &group));
  if (rank == 0 && size > 1) {
    EXPECT(qpmesh_finalize(group, &call) == QPMESH_TIMEOUT);
    EXPECT(strcmp(qpmesh_last_error()->operation, "finish") == 0);
  } else if (rank == 0) {
    EXPECT_OK(qpmesh_finalize(group, &call));
  }
  EXPECT_OK(qpmesh_barrier(world, NULL));
  if (rank != 0) EXPECT_OK(qpmesh_communicator_free(group));
  EXPECT_OK(qpmesh_duplicate(world, NULL, &group));
  call.timeout_ms = -2;
  EXPECT_BAD(qpmesh_finalize(group, &call),
             "finish: a timeout of -2 ms [hint: 1 or more, 0 for QPMESH_TIMEOUT_MS, or "
             "QPMESH_NO_TIMEOUT]");
}

static void test_detached(qpmesh_communicator* world, int rank, int size) {
  qpmesh_communicator* group = NULL;
  qpmesh_request* request = NULL;
  qpmesh_call head = no_call, prepared = no_call;
  qpmesh_status status;
  int64_t sum = rank, longer[3] = {5, 6, 7}, taken = 0;
  int ends = 0;
  head.head = 1;
  prepared.prepared = 1;
  EXPECT_OK(qpmesh_duplicate(world, NULL, &group));
  EXPECT_OK(qpmesh_allreduce_async(group, &sum, &sum, 1, QPMESH_INT64, QPMESH_SUM, NULL, &request));
  EXPECT_OK(qpmesh_on_end(request, count_end, &ends));
  EXPECT_OK(qpmesh_detach(request));
  EXPECT_OK(
      qpmesh_send_async(group, longer, 3, QPMESH_INT64, (rank + 1) % size, 4, NULL, &request));
  EXPECT_OK(qpmesh_detach(request));
  EXPECT_OK(
      qpmesh_receive(group, &taken, 1, QPMESH_INT64, (rank + size - 1) % size, 4, &head, &status));
  EXPECT(taken == 5 && status.bytes == sizeof longer);
  EXPECT_OK(qpmesh_finalize(group, NULL));
  EXPECT(sum == size * (size - 1) / 2 && ends == 1);
  EXPECT_OK(qpmesh_barrier_async(world, &prepared, &request));
  EXPECT_BAD(qpmesh_detach(request),
             "detach: the request is prepared, to be used again [hint: start it and wait for it]");
  EXPECT_OK(qpmesh_request_free(request));
  EXPECT(qpmesh_detach(NULL) == QPMESH_BAD_ARGUMENT);
}

static void test_memory(qpmesh_communicator* world, int rank, int size) {
  void *all = NULL, *here = NULL;
  const void* view = NULL;
  int text_holds;
  EXPECT_OK(qpmesh_allocate(world, 4096, NULL, &all));
  EXPECT_OK(qpmesh_allocate_here(world, 100 + (size_t)rank, &here));
  *(int*)all = rank;
  EXPECT_OK(qpmesh_barrier(world, NULL));
  EXPECT_OK(qpmesh_view_of(world, all, size - 1, &view));
  EXPECT(*(const int*)view == size - 1);
  EXPECT(qpmesh_view_of(world, here, 0, &view) == QPMESH_BAD_ARGUMENT);
  EXPECT_OK(qpmesh_barrier(world, NULL));
  EXPECT_OK(qpmesh_allreduce(world, all, all, 1, QPMESH_INT32, QPMESH_SUM, NULL));
  EXPECT(*(int*)all == size * (size - 1) / 2);
  EXPECT_OK(qpmesh_free(world, here));
  EXPECT(qpmesh_free(world, here) == QPMESH_BAD_ARGUMENT);
  text_holds = strstr(qpmesh_error_text(),
                      "qpmesh: bad_argument in free: nothing is allocated at 0x") != NULL;
  EXPECT(text_holds);
  EXPECT_OK(qpmesh_free(world, NULL));
  EXPECT(qpmesh_allocate_here(world, (size_t)1 << 60, &here) == QPMESH_NO_RESOURCE);
  /* `all` goes with its communicator. */
}

static void test_groups(qpmesh_communicator* world, int rank, int size) {
  qpmesh_communicator *half = NULL, *node = NULL, *alone = NULL, *pair = NULL, *other = NULL;
  qpmesh_communicator* copy = NULL;
  qpmesh_request *request = NULL, *second = NULL;
  int ranks[ranks_max], i, members[2];
  int64_t value = 1;
  EXPECT_OK(qpmesh_split(world, rank % 2, -rank, NULL, &half));
  EXPECT(qpmesh_size(half) == (size + 1 - rank % 2) / 2);
  EXPECT_OK(qpmesh_ranks_in(half, world, ranks));
  for (i = 1; i < qpmesh_size(half); ++i) EXPECT(ranks[i] == ranks[i - 1] - 2);
  EXPECT_OK(qpmesh_allreduce(half, &value, &value, 1, QPMESH_INT64, QPMESH_SUM, NULL));
  EXPECT(value == qpmesh_size(half));
  EXPECT_OK(qpmesh_finalize(half, NULL));
  half = world;
  EXPECT_OK(qpmesh_split(world, QPMESH_NO_COLOR, 0, NULL, &half));
  EXPECT(half == NULL);
  half = world;
  EXPECT_OK(qpmesh_split_async(world, rank % 2, 0, NULL, &half, &request));
  EXPECT_OK(qpmesh_duplicate_async(world, NULL, &copy, &second));
  EXPECT_OK(qpmesh_wait(second, NULL));
  EXPECT_OK(qpmesh_wait(request, NULL));
  EXPECT(qpmesh_size(half) == (size + 1 - rank % 2) / 2);
  EXPECT(qpmesh_rank(copy) == rank);
  EXPECT_OK(qpmesh_barrier(copy, NULL));
  EXPECT_OK(qpmesh_request_free(request));
  EXPECT_OK(qpmesh_request_free(second));
  EXPECT_OK(qpmesh_communicator_free(half));
  EXPECT_OK(qpmesh_communicator_free(copy));
  EXPECT_OK(qpmesh_split_async(world, QPMESH_NO_COLOR, 0, NULL, &half, &request));
  EXPECT_OK(qpmesh_wait(request, NULL));
  EXPECT(half == NULL);
  EXPECT_OK(qpmesh_request_free(request));
  EXPECT(qpmesh_split_async(world, 0, 0, NULL, NULL, &request) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_duplicate_async(world, NULL, &copy, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT_OK(qpmesh_split_node(world, -rank, NULL, &node));
  EXPECT(qpmesh_size(node) == size && qpmesh_rank(node) == size - 1 - rank);
  EXPECT_OK(qpmesh_communicator_free(node));
  EXPECT_OK(qpmesh_self(world, &alone));
  EXPECT(qpmesh_size(alone) == 1);
  EXPECT_OK(qpmesh_barrier(alone, NULL));
  EXPECT_OK(qpmesh_communicator_free(alone));
  members[0] = size - 1, members[1] = 0;
  if (size > 1 && (rank == 0 || rank == size - 1)) {
    EXPECT_OK(qpmesh_subgroup(world, members, 2, 4, NULL, &pair));
    EXPECT(qpmesh_rank(pair) == (rank == 0));
    EXPECT_OK(qpmesh_finalize(pair, NULL));
  }
  EXPECT_OK(qpmesh_independent(world, NULL, &other));
  EXPECT_OK(qpmesh_barrier(other, NULL));
  EXPECT_BAD(qpmesh_ranks_in(other, world, ranks),
             "ranks_in: the two communicators have no context in common [hint: ask of its parent, "
             "its children, "
             "and theirs]");
  EXPECT_OK(qpmesh_finalize(other, NULL));

  /* Abort ends its context alone. */
  EXPECT_OK(qpmesh_independent(world, NULL, &other));
  if (rank == size - 1) EXPECT_OK(qpmesh_abort(other, "enough"));
  EXPECT(qpmesh_receive(other, &value, 1, QPMESH_INT64, 0, 0, NULL, NULL) == QPMESH_ABORTED);
  EXPECT(strstr(qpmesh_last_error()->cause, "enough") != NULL);
  EXPECT_OK(qpmesh_communicator_free(other));
  EXPECT_OK(qpmesh_barrier(world, NULL));
}

/* Of a grid of two dimensions, whose first one is periodic: what comes says who sent it, and as
   which block. */
static void check_exchanged(const qpmesh_grid* grid, const int32_t* got, int round) {
  int d, before = -9, behind = -9;
  for (d = 0; d < 2; ++d) {
    EXPECT_OK(qpmesh_grid_shift(grid, d, 1, &before, &behind));
    EXPECT(got[2 * d] == (before == QPMESH_NO_RANK ? -1 : before * 100 + (2 * d + 1) * 10 + round));
    EXPECT(got[2 * d + 1] == (behind == QPMESH_NO_RANK ? -1 : behind * 100 + 2 * d * 10 + round));
  }
}

static void test_grids(qpmesh_communicator* world, int rank, int size) {
  const int open_ends[2] = {1, 0};
  int lengths[3] = {9, 9, 9}, periodic[2] = {9, 9}, coordinates[2] = {9, 9};
  int r, i, round, product, found = -9, before = -9, behind = -9;
  int32_t in[4], out[4];
  qpmesh_grid* grid = NULL;
  qpmesh_request* requests[4] = {NULL, NULL, NULL, NULL};
  qpmesh_call prepared = no_call;
  prepared.prepared = 1;

  EXPECT_OK(qpmesh_grid_lengths(12, 2, lengths));
  EXPECT(lengths[0] == 4 && lengths[1] == 3 && lengths[2] == 9);
  EXPECT_OK(qpmesh_grid_lengths(size, 3, lengths));
  EXPECT(lengths[0] * lengths[1] * lengths[2] == size && lengths[0] >= lengths[2]);
  EXPECT_OK(qpmesh_grid_lengths(size, 2, lengths));
  product = lengths[1];
  lengths[0] = 0; /* what the other leaves */
  EXPECT_OK(qpmesh_grid_make(world, lengths, open_ends, 2, &grid));
  EXPECT_OK(qpmesh_grid_shape(grid, NULL, NULL));
  EXPECT_OK(qpmesh_grid_shape(grid, lengths, periodic));
  EXPECT(lengths[0] * lengths[1] == size && lengths[1] == product);
  EXPECT(periodic[0] == 1 && periodic[1] == 0);
  for (r = 0; r < size; ++r) {
    EXPECT_OK(qpmesh_grid_coordinates(grid, r, coordinates));
    EXPECT(coordinates[0] * lengths[1] + coordinates[1] == r);
    coordinates[0] += lengths[0];
    EXPECT_OK(qpmesh_grid_rank_at(grid, coordinates, &found));
    EXPECT(found == r);
    coordinates[1] = lengths[1];
    EXPECT_OK(qpmesh_grid_rank_at(grid, coordinates, &found));
    EXPECT(found == QPMESH_NO_RANK);
  }

  for (round = 0; round < 6; ++round) {
    for (i = 0; i < 4; ++i) in[i] = rank * 100 + i * 10 + round, out[i] = -1;
    if (round % 2 == 0) {
      EXPECT_OK(qpmesh_grid_exchange(grid, world, in, out, 1, QPMESH_INT32, NULL));
    } else {
      EXPECT_OK(qpmesh_grid_exchange_async(grid, world, in, out, 1, QPMESH_INT32, NULL, requests));
      EXPECT_OK(qpmesh_wait_all(requests, 4));
      for (i = 0; i < 4; ++i) EXPECT_OK(qpmesh_request_free(requests[i]));
    }
    check_exchanged(grid, out, round);
  }
  EXPECT_OK(qpmesh_grid_exchange_async(grid, world, in, out, 1, QPMESH_INT32, &prepared, requests));
  for (round = 0; round < 5; ++round) {
    for (i = 0; i < 4; ++i) in[i] = rank * 100 + i * 10 + round, out[i] = -1;
    EXPECT_OK(qpmesh_start_all(requests, 4));
    EXPECT_OK(qpmesh_wait_all(requests, 4));
    check_exchanged(grid, out, round);
  }
  for (i = 0; i < 4; ++i) EXPECT_OK(qpmesh_request_free(requests[i]));

  EXPECT_BAD(qpmesh_grid_shift(grid, 2, 1, &before, &behind),
             "shift: dimension 2 of 2 [hint: dimensions are counted from 0]");
  EXPECT_BAD(qpmesh_grid_shift(grid, 0, 1, NULL, &behind),
             "shift: before is null [hint: give what the call works on, and an address for what it "
             "makes]");
  EXPECT_BAD(qpmesh_grid_shift(NULL, 0, 1, &before, &behind),
             "shift: grid is null [hint: qpmesh_grid_make makes it]");
  EXPECT(qpmesh_grid_coordinates(grid, size, coordinates) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_last_error()->peer == size);
  EXPECT(qpmesh_grid_coordinates(grid, 0, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_grid_rank_at(grid, coordinates, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_grid_shape(NULL, lengths, periodic) == QPMESH_BAD_ARGUMENT);
  EXPECT_BAD(qpmesh_grid_exchange(grid, world, in, in, 1, QPMESH_INT32, NULL),
             "exchange: the 16 bytes to send and the 16 bytes to receive into overlap [hint: send "
             "from one range and receive into another]");
  EXPECT(qpmesh_grid_exchange(grid, world, in, out, (size_t)-1, QPMESH_INT32, NULL) ==
         QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_grid_exchange(grid, NULL, in, out, 1, QPMESH_INT32, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT_BAD(qpmesh_grid_exchange(grid, world, in, out, 1, QPMESH_INT32, &prepared),
             "exchange: a call that is prepared, and would wait [hint: prepare a call that ends in "
             "_async]");
  EXPECT_BAD(
      qpmesh_grid_exchange_async(grid, world, in, out, 1, QPMESH_INT32, NULL, NULL),
      "exchange_async: requests is null [hint: give what the call works on, and an address for "
      "what it makes]");
  requests[0] = NULL;
  EXPECT(qpmesh_grid_exchange_async(grid, world, in, NULL, 1, QPMESH_INT32, NULL, requests) ==
         QPMESH_BAD_ARGUMENT);
  EXPECT(requests[0] == NULL);
  EXPECT_OK(qpmesh_grid_free(grid));
  EXPECT_OK(qpmesh_grid_free(NULL));
  grid = NULL;
  lengths[0] = size + 1;
  EXPECT(qpmesh_grid_make(world, lengths, NULL, 1, &grid) == QPMESH_BAD_ARGUMENT);
  EXPECT_BAD(qpmesh_grid_make(world, lengths, NULL, -1, &grid),
             "grid: a grid of no dimensions [hint: lengths are 1 or more, and their product is the "
             "number of ranks; one may be 0: what the others leave]");
  EXPECT(qpmesh_grid_make(world, NULL, NULL, 1, &grid) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_grid_make(NULL, lengths, NULL, 1, &grid) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_grid_make(world, lengths, NULL, 1, NULL) == QPMESH_BAD_ARGUMENT);
  EXPECT(grid == NULL);
  EXPECT(qpmesh_grid_lengths(0, 1, lengths) == QPMESH_BAD_ARGUMENT);
  EXPECT(qpmesh_grid_lengths(1, 1, NULL) == QPMESH_BAD_ARGUMENT);
}

static void test_explain(qpmesh_communicator* world) {
  qpmesh_candidate candidates[64];
  size_t count = 0, i, chosen = 0;
  EXPECT_OK(qpmesh_explain(world, QPMESH_ALLREDUCE, 4096, candidates, 64, &count));
  EXPECT(count > 3 && count <= 64);
  for (i = 0; i < count; ++i) {
    chosen += (size_t)candidates[i].chosen;
    EXPECT(strlen(candidates[i].algorithm) > 2);
  }
  EXPECT(chosen == 1);
  EXPECT_OK(qpmesh_explain(world, QPMESH_EXSCAN, 8, NULL, 0, &count));
  EXPECT_BAD(
      qpmesh_explain(world, 11, 8, NULL, 0, &count),
      "explain: collective 11 does not exist [hint: take QPMESH_ALLREDUCE or one of its like]");
}

/* None of them sends anything, and the communicator goes on. */
static void test_errors(qpmesh_communicator* world, int size) {
  float value = 1;
  char text[256];
  int done;
  size_t index;
  qpmesh_call call = no_call;
  EXPECT_BAD(qpmesh_barrier(NULL, NULL), "barrier: world is null [hint: qpmesh_init makes it]");
  EXPECT_ERROR(qpmesh_rank(NULL), -1,
               "qpmesh: bad_argument in rank: world is null [hint: qpmesh_init makes it]");
  EXPECT_BAD(qpmesh_init(NULL), "init: world is null [hint: give the address of a pointer]");
  EXPECT_BAD(qpmesh_allreduce(world, &value, &value, 1, 13, QPMESH_SUM, NULL),
             "allreduce: type 13 does not exist [hint: take QPMESH_FLOAT32 or one of its like]");
  EXPECT(qpmesh_allreduce(world, &value, &value, 1, QPMESH_STRUCT, QPMESH_SUM, NULL) ==
         QPMESH_BAD_ARGUMENT);
  EXPECT_BAD(qpmesh_allreduce(world, &value, &value, 1, QPMESH_FLOAT32, 14, NULL),
             "allreduce: reduction 14 does not exist [hint: take QPMESH_SUM or one of its like]");
  EXPECT_BAD(qpmesh_reduce(world, &value, &value, 1, QPMESH_BYTE, QPMESH_SUM, 0, NULL),
             "reduce: bytes are not reduced [hint: name the type of the elements: QPMESH_UINT8 or "
             "another]");
  EXPECT_BAD(qpmesh_send(world, NULL, 3, QPMESH_INT8, 0, 0, NULL),
             "send: null with a count of 3 [hint: a range without memory has a count of 0]");
  snprintf(text, sizeof text,
           "qpmesh: bad_argument in broadcast, rank %d: root %d is not a rank of this communicator "
           "[hint: ranks here are 0 to %d]",
           size, size, size - 1);
  EXPECT_ERROR(qpmesh_broadcast(world, &value, 1, QPMESH_FLOAT32, size, NULL), QPMESH_BAD_ARGUMENT,
               text);
  EXPECT(qpmesh_last_error()->code == QPMESH_BAD_ARGUMENT && qpmesh_last_error()->peer == size);
  EXPECT(strcmp(qpmesh_last_error()->operation, "broadcast") == 0);
  EXPECT(strncmp(qpmesh_last_error()->hint, "ranks here", 10) == 0);
  EXPECT(qpmesh_last_error()->system_error == 0);
  EXPECT_BAD(
      qpmesh_alltoall(world, &value, &value, (size_t)-1, QPMESH_BYTE, NULL),
      "alltoall: 18446744073709551615 elements of 1 bytes are more than memory can hold [hint: a "
      "negative count, turned unsigned, looks like this]");
  EXPECT_BAD(
      qpmesh_send_async(world, &value, 1, QPMESH_FLOAT32, 0, 0, NULL, NULL),
      "send_async: request is null [hint: give what the call works on, and an address for what it "
      "makes]");
  EXPECT_BAD(qpmesh_wait(NULL, NULL),
             "wait: request is null [hint: give what the call works on, and an address for what it "
             "makes]");
  EXPECT(qpmesh_wait_all(NULL, 2) == QPMESH_BAD_ARGUMENT);
  EXPECT_OK(qpmesh_wait_all(NULL, 0));
  EXPECT_BAD(qpmesh_wait_any(NULL, 0, &index),
             "wait_any: there are no requests [hint: wait for at least one]");
  EXPECT(qpmesh_try_probe(world, size, 0, &done, NULL) == QPMESH_BAD_ARGUMENT);
  call.timeout_ms = -2;
  EXPECT_BAD(qpmesh_barrier(world, &call),
             "barrier: a timeout of -2 ms [hint: 1 or more, 0 for QPMESH_TIMEOUT_MS, or "
             "QPMESH_NO_TIMEOUT]");
  call.timeout_ms = 5;
  EXPECT(qpmesh_receive(world, &value, 1, QPMESH_FLOAT32, 0, 99, &call, NULL) == QPMESH_TIMEOUT);
  call.timeout_ms = QPMESH_NO_TIMEOUT;
  call.algorithm = "nothing of this name";
  EXPECT(qpmesh_barrier(world, &call) == QPMESH_BAD_ARGUMENT);
  call.struct_bytes = 4;
  EXPECT(qpmesh_barrier(world, &call) == QPMESH_BAD_ARGUMENT);
  call.struct_bytes = sizeof call + 8;
  EXPECT(qpmesh_barrier(world, &call) == QPMESH_BAD_ARGUMENT);
  EXPECT(strstr(qpmesh_error_text(), "set struct_bytes to sizeof(qpmesh_call)") != NULL);
  call.struct_bytes = sizeof(size_t); /* of a version that had nothing else */
  EXPECT_OK(qpmesh_barrier(world, &call));
  EXPECT_OK(qpmesh_broadcast(world, NULL, 0, QPMESH_FLOAT32, 0, NULL));
}

/* A gather over the world, for an init of its own. */
static int gather_over(void* context, const void* mine, size_t bytes, void* all, int timeout_ms) {
  qpmesh_call call = no_call;
  call.timeout_ms = timeout_ms;
  return qpmesh_allgather(context, mine, all, bytes, QPMESH_BYTE, &call);
}
static int gather_fails(void* context, const void* mine, size_t bytes, void* all, int timeout_ms) {
  (void)context, (void)mine, (void)bytes, (void)all;
  return timeout_ms > 0 ? 7 : 0;
}

static void test_bootstrap(qpmesh_communicator* world, int rank, int size) {
  const char* options[] = {"QPMESH_ALGORITHMS=allgather=ring", "QPMESH_STALL_WARNING_MS=0", NULL};
  const char* misspelt[] = {"QPMESH_TIMEOUT=50", NULL};
  const char* beyond[] = {"QPMESH_TIMEOUT_MS=soon", NULL};
  qpmesh_bootstrap bootstrap = {0, 0, NULL, NULL, NULL};
  qpmesh_communicator* own = NULL;
  qpmesh_candidate candidates[64];
  size_t count = 0, i;
  bootstrap.rank = rank;
  bootstrap.size = size;
  bootstrap.context = world;
  EXPECT_BAD(qpmesh_init_with(NULL, &bootstrap, &own),
             "init: all_gather is null [hint: give the function that gathers]");
  bootstrap.all_gather = gather_fails;
  EXPECT_ERROR(qpmesh_init_with(NULL, &bootstrap, &own), QPMESH_INTERNAL,
               "qpmesh: internal in init: the bootstrap's all_gather returned 7 [hint: it returns "
               "0 when all "
               "ranks have gathered]");
  EXPECT(own == NULL);
  bootstrap.all_gather = gather_over;
  EXPECT_OK(qpmesh_init_with(options, &bootstrap, &own));
  EXPECT(qpmesh_rank(own) == rank && qpmesh_size(own) == size);
  EXPECT_OK(qpmesh_explain(own, QPMESH_ALLGATHER, 64, candidates, 64, &count));
  for (i = 0; i < count && !candidates[i].chosen; ++i) continue;
  EXPECT(i < count && strcmp(candidates[i].algorithm, "ring") == 0);
  EXPECT_OK(qpmesh_barrier(own, NULL));
  EXPECT_OK(qpmesh_finalize(own, NULL));
  bootstrap.rank = size;
  EXPECT(qpmesh_init_with(NULL, &bootstrap, &own) == QPMESH_BAD_ARGUMENT);
  EXPECT_ERROR(qpmesh_init_with(misspelt, NULL, &own), QPMESH_BAD_CONFIG,
               "qpmesh: bad_config in options: 'QPMESH_TIMEOUT=50' is not NAME=value of an option; "
               "did you mean "
               "QPMESH_TIMEOUT_MS? [hint: docs/options.md lists every option]");
  EXPECT(qpmesh_init_with(beyond, NULL, &own) == QPMESH_BAD_CONFIG);
}

static void test_code_names(void) {
  static const char* const names[] = {
      "ok",       "bad_argument", "bad_config", "no_resource", "authentication",
      "mismatch", "timeout",      "peer_dead",  "link_failed", "truncated",
      "aborted",  "corrupt",      "internal"};
  int code;
  for (code = QPMESH_OK; code <= QPMESH_INTERNAL; ++code)
    EXPECT(strcmp(qpmesh_code_name(code), names[code]) == 0);
  EXPECT(sizeof names / sizeof *names == QPMESH_INTERNAL + 1);
  EXPECT(strcmp(qpmesh_code_name(-1), "unknown") == 0);
  EXPECT(strcmp(qpmesh_code_name(QPMESH_INTERNAL + 1), "unknown") == 0);
}

int main(void) {
  qpmesh_communicator* world = NULL;
  int rank, size;
  EXPECT(strcmp(qpmesh_error_text(), "") == 0 && qpmesh_last_error()->code == QPMESH_OK);
  EXPECT(strcmp(qpmesh_version(), QPMESH_VERSION) == 0);
  test_code_names();
  if (qpmesh_init(&world) != QPMESH_OK) {
    fprintf(stderr, "%s\n", qpmesh_error_text());
    return 1;
  }
  rank = qpmesh_rank(world);
  size = qpmesh_size(world);
  EXPECT(rank >= 0 && rank < size && size <= ranks_max);
  if (!wrong) {
    test_messages(world, rank, size);
    test_some(world, rank);
    test_event_loop(world, rank, size);
    test_collectives(world, rank, size);
    test_unequal_blocks(world, rank, size);
    test_reductions(world, rank, size);
    test_several_vectors(world, rank, size);
    test_prepared(world, rank, size);
    test_finalize(world, rank, size);
    test_detached(world, rank, size);
    test_memory(world, rank, size);
    test_groups(world, rank, size);
    test_grids(world, rank, size);
    test_explain(world);
    test_bootstrap(world, rank, size);
    test_errors(world, size);
  }
  EXPECT_OK(qpmesh_finalize(world, NULL));
  EXPECT_OK(qpmesh_finalize(NULL, NULL));
  return wrong;
}

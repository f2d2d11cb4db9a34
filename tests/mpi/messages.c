// SPDX-License-Identifier: MIT
// Point to point: order, wildcards, modes of sends, truncation, cancelling, probes, nobody.
#include "check.h"

enum { go = 999, most = 1 << 18 };

// What is in every int of a message.
static void fill(int* data, int count, int value) {
  for (int i = 0; i < count; ++i) data[i] = value + i;
}

static int filled(const int* data, int count, int value) {
  for (int i = 0; i < count; ++i)
    if (data[i] != value + i) return 0;
  return 1;
}

static void order(void) {
  static int data[100000];
  const int counts[] = {1, 100000, 0, 3, 20000, 2, 1};
  if (rank == 0)
    for (int round = 0; round < 20; ++round)
      for (int i = 0; i < 7; ++i) {
        fill(data, counts[i], round * 10 + i);
        MPI_Send(data, counts[i], MPI_INT, 1, 5, MPI_COMM_WORLD);
      }
  if (rank == 1)
    for (int round = 0; round < 20; ++round)
      for (int i = 0; i < 7; ++i) {
        MPI_Status status;
        MPI_Recv(data, 100000, MPI_INT, 0, 5, MPI_COMM_WORLD, &status);
        SAYS(
            "messages of one pair and tag come in the order in which they were sent, long beside "
            "short",
            count_of(&status, MPI_INT) == counts[i] && filled(data, counts[i], round * 10 + i));
      }
}

static void tags_choose(void) {
  if (rank == 0)
    for (int tag = 0; tag < 5; ++tag) MPI_Send(&tag, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
  if (rank == 1)
    for (int tag = 4; tag >= 0; --tag) {
      int value = -1;
      MPI_Recv(&value, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      SAYS("a receive takes the first message of its tag, whatever came before it", value == tag);
    }
}

static void posted_order(void) {  // receives match in the order in which they were posted
  int values[4] = {-1, -1, -1, -1};
  if (rank == 1) {
    MPI_Request requests[4];
    MPI_Irecv(&values[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&values[1], 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(&values[2], 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(&values[3], 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[3]);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    SAYS("of receives that fit a message the one posted first gets it",
         values[0] == 0 && values[1] == 1 && values[2] == 2 && values[3] == 3);
  }
  if (rank == 0) {
    MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; ++i) MPI_Send(&i, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
  }
}

static void wildcards(void) {
  const int rounds = 50;
  if (rank != 0) {
    for (int i = 0; i < rounds; ++i) {
      const int pair[2] = {rank, i};
      MPI_Send(pair, 2, MPI_INT, 0, 10 + i % 3, MPI_COMM_WORLD);
    }
    return;
  }
  int next[64] = {0};
  for (int i = 0; i < rounds * (size - 1); ++i) {
    int pair[2] = {-1, -1};
    MPI_Status status;
    MPI_Recv(pair, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    SAYS("the status of a wildcard receive names source, tag and count",
         status.MPI_SOURCE == pair[0] && status.MPI_TAG == 10 + pair[1] % 3 &&
             count_of(&status, MPI_INT) == 2);
    SAYS("messages of one source come in order under wildcards",
         pair[1] == next[status.MPI_SOURCE & 63]++);
  }
}

static void negative_tags_of_the_library(void) {  // MPI_ANY_TAG matches user messages alone
  int value = -1;
  MPI_Request request;
  if (rank == 1)
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  SAYS("a collective goes past a pending wildcard receive", sum == size * (size - 1) / 2);
  if (rank == 0) MPI_Send(&sum, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAYS("and the receive gets the message meant for it", value == sum);
  }
}

static void communicators_apart(void) {
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  int first = 1, second = 2;
  if (rank == 0) {
    MPI_Send(&first, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
    MPI_Send(&second, 1, MPI_INT, 1, 4, other);
  }
  if (rank == 1) {
    int value = -1;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE);
    SAYS("a message is received in the communicator in which it was sent", value == 2);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAYS("and the other one is still there", value == 1);
  }
  MPI_Comm_free(&other);
}

static void truncation(void) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (mpich)
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // whose handler its Waitall calls
  static int data[most], in[most];
  const int counts[] = {10, 5000, most};  // eager and not
  for (int kind = 0; kind < 3; ++kind) {
    const int count = counts[kind];
    if (rank == 0) {
      fill(data, count, 7);
      MPI_Send(data, count, MPI_INT, 1, 1, comm);
      MPI_Send(data, count, MPI_INT, 1, 1, comm);
      MPI_Send(&kind, 1, MPI_INT, 1, 1, comm);
    }
    if (rank == 1) {
      fill(in, 10, 1000);
      int code = MPI_Recv(in, 4, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
      SAYS("a receive that is too small returns MPI_ERR_TRUNCATE",
           class_of(code) == MPI_ERR_TRUNCATE);
      if (!mpich) SAYS("it got the head of the message", filled(in, 4, 7));
      // Open MPI 4.1 writes there when the message is not eager.
      if (!open_mpi || kind == 0)
        SAYS("it wrote nothing behind its memory", filled(in + 4, 6, 1004));
      MPI_Request request;
      MPI_Status status = untouched();
      MPI_Irecv(in, 4, MPI_INT, 0, 1, comm, &request);
      code = MPI_Waitall(1, &request, &status);
      SAYS("Waitall returns MPI_ERR_IN_STATUS, and the status MPI_ERR_TRUNCATE",
           class_of(code) == MPI_ERR_IN_STATUS && class_of(status.MPI_ERROR) == MPI_ERR_TRUNCATE);
      SAYS("its status names source and tag", status.MPI_SOURCE == 0 && status.MPI_TAG == 1);
      SAYS("the request is null afterwards", request == MPI_REQUEST_NULL);
      int value = -1;
      code = MPI_Recv(&value, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
      SAYS("the next message is unharmed", code == MPI_SUCCESS && value == kind);
    }
  }
  MPI_Barrier(comm);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_free(&comm);
}

static void synchronous_send(void) {
  static int data[most];
  for (int kind = 0; kind < 2; ++kind) {
    const int count = kind == 0 ? 1 : most;
    if (rank == 0) {
      MPI_Request request;
      fill(data, count, 3);
      MPI_Issend(data, count, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
      int flag = 0;
      for (int i = 0; i < 2000 && !flag; ++i) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
      SAYS("a synchronous send does not end before a receive has begun", !flag);
      MPI_Send(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD);
      if (!flag) MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Ssend(data, count, MPI_INT, 1, 2, MPI_COMM_WORLD);
    }
    if (rank == 1) {
      MPI_Recv(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int tag = 1; tag <= 2; ++tag) {
        memset(data, 0, sizeof data);
        MPI_Recv(data, count, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAYS("a synchronous send brings its data", filled(data, count, 3));
      }
    }
  }
}

static void ready_send(void) {
  int value = 0;
  if (rank == 1) {
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAYS("a ready send finds its receive", value == 42);
  }
  if (rank == 0) {
    value = 42;
    MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Rsend(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
  }
}

static void ready_send_of_a_request(void) {  // begun at once, or prepared and started
  enum { longest = 70000 };
  static int data[longest];
  const int counts[] = {0, 1, longest};
  MPI_Datatype pairs;  // two ints, and a gap of one
  MPI_Type_vector(2, 1, 2, MPI_INT, &pairs);
  MPI_Type_commit(&pairs);
  for (int i = 0; i < 3; ++i)
    for (int way = 0; way < 4; ++way) {  // Wait and Test of Irsend, Start, Startall
      const int count = counts[i];
      MPI_Status status = untouched();
      MPI_Request request;
      int done = 0;
      if (rank == 1) {
        memset(data, 0, sizeof data);
        MPI_Irecv(data, longest, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        SAYS("a ready send of a request finds its receive",
             count_of(&status, MPI_INT) == count && filled(data, count, way));
      }
      if (rank != 0) continue;
      if (way < 2) fill(data, count, way);
      else MPI_Rsend_init(data, count, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
      MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (way < 2) {
        MPI_Irsend(data, count, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        SAYS("Irsend has a request", request != MPI_REQUEST_NULL);
      } else {
        fill(data, count, way);  // what is there when it starts
        if (way == 2) MPI_Start(&request);
        else MPI_Startall(1, &request);
      }
      if (way == 1) {
        while (!done) MPI_Test(&request, &done, &status);
      } else {
        MPI_Wait(&request, &status);
      }
      SAYS("its end is a send's", is_uncancelled(&status));
      if (way >= 2) {
        SAYS("a prepared one stays", request != MPI_REQUEST_NULL);
        MPI_Request_free(&request);
      }
      SAYS("then it is null", request == MPI_REQUEST_NULL);
    }
  for (int round = 0; round < 3; ++round) {  // one that is started again, of a type with gaps
    static MPI_Request again;
    if (rank == 1) {
      int got[4] = {0};
      MPI_Request request;
      MPI_Irecv(got, 4, MPI_INT, 0, 2, MPI_COMM_WORLD, &request);
      MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      SAYS("a prepared ready send brings what is there at each start",
           got[0] == round && got[1] == round + 2 && got[2] == round + 3 && got[3] == round + 5);
    }
    if (rank != 0) continue;
    if (round == 0) MPI_Rsend_init(data, 2, pairs, 1, 2, MPI_COMM_WORLD, &again);
    for (int i = 0; i < 6; ++i) data[i] = round + i;
    MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Start(&again);
    MPI_Wait(&again, MPI_STATUS_IGNORE);
    if (round == 2) MPI_Request_free(&again);
  }
  MPI_Type_free(&pairs);
}

static void ready_send_of_nothing(void) {  // errors, and sends to nobody
  MPI_Comm comm;
  MPI_Datatype unready;
  MPI_Request request = MPI_REQUEST_NULL, receive;
  MPI_Status status = untouched();
  int data[3] = {7, 8, 9}, got = -1;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Type_contiguous(2, MPI_INT, &unready);
  SAYS("Irsend knows a rank that is not there",
       class_of(MPI_Irsend(data, 1, MPI_INT, 1, 1, comm, &request)) == MPI_ERR_RANK);
  SAYS("and a tag that is none",
       class_of(MPI_Irsend(data, 1, MPI_INT, 0, -5, comm, &request)) == MPI_ERR_TAG);
  SAYS("and a type that is not committed",
       class_of(MPI_Irsend(data, 1, unready, 0, 1, comm, &request)) == MPI_ERR_TYPE);
  SAYS("so does Rsend_init",
       class_of(MPI_Rsend_init(data, 1, MPI_INT, 1, 1, comm, &request)) == MPI_ERR_RANK &&
           class_of(MPI_Rsend_init(data, 1, MPI_INT, 0, -5, comm, &request)) == MPI_ERR_TAG);
  if (!open_mpi)  // 4.1 asks at the start
    SAYS("of a type too",
         class_of(MPI_Rsend_init(data, 1, unready, 0, 1, comm, &request)) == MPI_ERR_TYPE);
  MPI_Irsend(data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &request);
  MPI_Wait(&request, &status);
  SAYS("Irsend to nobody ends", request == MPI_REQUEST_NULL && is_uncancelled(&status));
  MPI_Rsend_init(data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &request);
  MPI_Start(&request);
  MPI_Wait(&request, &status);
  SAYS("so does a prepared one", request != MPI_REQUEST_NULL && is_uncancelled(&status));
  if (!open_mpi && !mpich) {
    MPI_Start(&request);
    SAYS("which is not started twice", class_of(MPI_Start(&request)) == MPI_ERR_REQUEST);
    MPI_Wait(&request, &status);
  }
  MPI_Request_free(&request);
  if (!open_mpi) {  // whose messages to oneself are cut without a word
    MPI_Irecv(&got, 1, MPI_INT, 0, 1, comm, &receive);
    MPI_Irsend(data, 3, MPI_INT, 0, 1, comm, &request);
    SAYS("a receive that is too small for a ready send says so",
         class_of(MPI_Wait(&receive, &status)) == MPI_ERR_TRUNCATE);
    SAYS("and the send ends well", MPI_Wait(&request, &status) == MPI_SUCCESS);
  }
  MPI_Type_free(&unready);
  MPI_Comm_free(&comm);
}

static void buffered_send(void) {
  enum { count = 3000, messages = 5 };
  static int data[count];
  if (rank == 0) {
    const int bytes = messages * (count * (int)sizeof(int) + MPI_BSEND_OVERHEAD);
    char* memory = malloc((size_t)bytes);
    MPI_Buffer_attach(memory, bytes);
    for (int i = 0; i < messages; ++i) {
      fill(data, count, 100 * i);
      if (i % 2) MPI_Bsend(data, count, MPI_INT, 1, 1, MPI_COMM_WORLD);
      else {
        MPI_Request request;
        MPI_Ibsend(data, count, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      memset(data, 0, sizeof data);
    }
    MPI_Send(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD);
    void* address = NULL;
    int detached = 0;
    MPI_Buffer_detach(&address, &detached);
    SAYS("detach gives the buffer back", address == memory && detached == bytes);
    memset(memory, 0, (size_t)bytes);
    free(memory);
  }
  if (rank == 1) {
    MPI_Recv(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < messages; ++i) {
      MPI_Recv(data, count, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      SAYS("a buffered send ends without its receive, and its data is as it was then",
           filled(data, count, 100 * i));
    }
  }
}

static void buffered_on_freed(void) {
  enum { count = 1 << 21 };
  static int data[count];
  char* const memory = malloc(count * sizeof(int) + MPI_BSEND_OVERHEAD);
  for (int own = 0; own < 2; ++own) {
#if MPI_VERSION < 4 || (MPI_VERSION == 4 && MPI_SUBVERSION < 1)
    if (own) break;  // a communicator has no buffer of its own
#endif
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 0) {
      fill(data, count, own);
      const int bytes = (int)(count * sizeof(int)) + MPI_BSEND_OVERHEAD;
      if (!own) MPI_Buffer_attach(memory, bytes);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
      if (own) MPI_Comm_attach_buffer(comm, memory, bytes);
#endif
      MPI_Bsend(data, count, MPI_INT, 1, 1, comm);
      if (own) MPI_Comm_disconnect(&comm);
      else MPI_Comm_free(&comm);  // the buffer is the process's: it stays in use
      if (own) memset(memory, 0, (size_t)bytes);
    }
    if (!own) MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
      MPI_Recv(data, count, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
      SAYS("a buffered message arrives when its communicator is freed, or disconnected",
           filled(data, count, own));
    }
    if (rank == 0 && !own) {
      void* address;
      int bytes;
      MPI_Buffer_detach(&address, &bytes);
    }
    if (rank != 0) own ? MPI_Comm_disconnect(&comm) : MPI_Comm_free(&comm);
  }
  free(memory);
}

#if MPI_IS_AT_LEAST(4, 1)
static void flushed_buffers(void) {  // of the process, of a communicator, and automatic ones
  enum { count = 1 << 18, bytes = count * (int)sizeof(int) + MPI_BSEND_OVERHEAD };
  static int data[count];
  char* const memory = malloc(bytes);
  for (int kind = 0; kind < 4; ++kind) {
    const int own = kind % 2, automatic = kind >= 2;
    void* const given = automatic ? MPI_BUFFER_AUTOMATIC : (void*)memory;
    void* detached = NULL;
    int size_detached = -1;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 0) {
      if (own) MPI_Comm_attach_buffer(comm, given, automatic ? 0 : bytes);
      else MPI_Buffer_attach(given, automatic ? 0 : bytes);
      for (int round = 0; round < 2; ++round) {
        fill(data, count, 10 * kind + round);
        MPI_Bsend(data, count, MPI_INT, 1, 1, comm);
        memset(data, 0, sizeof data);
        if (own) MPI_Comm_flush_buffer(comm);
        else MPI_Buffer_flush();
        if (!automatic) memset(memory, 0, bytes);  // nothing reads it any more
      }
      fill(data, count, 10 * kind + 2);
      MPI_Bsend(data, count, MPI_INT, 1, 1, comm);
      if (own) MPI_Comm_detach_buffer(comm, &detached, &size_detached);
      else MPI_Buffer_detach(&detached, &size_detached);
      if (!automatic) memset(memory, 0, bytes);
      SAYS("what was attached is detached",
           detached == given && (automatic || size_detached == bytes));
      detached = memory, size_detached = -1;
      if (own) MPI_Comm_detach_buffer(comm, &detached, &size_detached);
      else MPI_Buffer_detach(&detached, &size_detached);
      SAYS("where nothing is attached it is nothing", detached == NULL && size_detached == 0);
      SAYS("and there is nothing to flush",
           (own ? MPI_Comm_flush_buffer(comm) : MPI_Buffer_flush()) == MPI_SUCCESS);
    }
    if (rank == 1)
      for (int round = 0; round < 3; ++round) {
        if (round == 1) usleep(20000);  // the sender has flushed, or waits for this
        MPI_Recv(data, count, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
        SAYS("flush and detach wait for what is in the buffer",
             filled(data, count, 10 * kind + round));
      }
    MPI_Comm_free(&comm);
  }
  free(memory);
}
#endif

static void buffer_too_small(void) {
  if (rank != 0) return;
  char memory[MPI_BSEND_OVERHEAD + 64];
  int data[1000] = {0};
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int code = MPI_Bsend(data, 1000, MPI_INT, 0, 1, comm);
  SAYS("a buffered send without a buffer is MPI_ERR_BUFFER", class_of(code) == MPI_ERR_BUFFER);
  SAYS("one to nobody needs no buffer",
       MPI_Bsend(data, 1000, MPI_INT, MPI_PROC_NULL, 1, comm) == MPI_SUCCESS);
  MPI_Buffer_attach(memory, sizeof memory);
  code = MPI_Bsend(data, 1000, MPI_INT, 0, 1, comm);
  SAYS("a buffered send that does not fit is MPI_ERR_BUFFER", class_of(code) == MPI_ERR_BUFFER);
  void* address;
  int bytes;
  MPI_Buffer_detach(&address, &bytes);
  MPI_Comm_free(&comm);
}

static void cancelled_receives(void) {
  int value = -1, other = -1, flag = -1;
  MPI_Status status = untouched();
  MPI_Request request;
  if (rank == 1) {
    MPI_Irecv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAYS("a receive that nothing has matched is cancelled", flag == 1);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
    MPI_Recv(&other, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAYS("the message goes to the next receive", value == -1 && other == 11);
    // One that is matched already.
    MPI_Irecv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int done = 0;
    while (!done) MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAYS("one that has its message is not", flag == 0 && value == 12 && status.MPI_SOURCE == 0);
    // And a persistent one, which can be started again.
    MPI_Recv_init(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAYS("a persistent receive is cancelled and stays", flag == 1 && request != MPI_REQUEST_NULL);
    MPI_Start(&request);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    SAYS("and starts again", flag == 0 && value == 13);
    MPI_Request_free(&request);
  }
  if (rank == 0) {
    for (value = 11; value <= 13; ++value) {
      MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
      if (value == 12) MPI_Send(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD);
    }
  }
}

static void probes(void) {
  static int data[most];
  if (rank == 0) {
    MPI_Recv(NULL, 0, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 6; ++i) {
      const int count = i == 3 ? most : i;
      fill(data, count, i);
      MPI_Send(data, count, MPI_INT, 1, 20 + i, MPI_COMM_WORLD);
    }
  }
  if (rank == 1) {
    MPI_Status status = untouched();
    int flag = -1;
    MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    SAYS("a probe sees nothing where nothing is", flag == 0);
    MPI_Send(NULL, 0, MPI_INT, 0, go, MPI_COMM_WORLD);
    for (int i = 0; i < 6; ++i) {
      const int count = i == 3 ? most : i;
      if (i % 2) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      } else {
        for (flag = 0; !flag;)
          MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
      }
      SAYS("a probe names source, tag and count of the first message",
           status.MPI_SOURCE == 0 && status.MPI_TAG == 20 + i &&
               count_of(&status, MPI_INT) == count);
      if (!mpich) SAYS("a probe leaves the status' error alone", status.MPI_ERROR == -79);
      MPI_Recv(data, most, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      SAYS("and the receive gets that message", filled(data, count, i));
    }
  }
}

static void matched_probes(void) {
  static int data[most], sent[6][most];
  if (rank == 0) {
    MPI_Request requests[6];
    for (int i = 0; i < 6; ++i) {
      const int count = i >= 4 ? most : 1 + i;
      fill(sent[i], count, 10 * i);
      MPI_Isend(sent[i], count, MPI_INT, 1, 8, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
  }
  if (rank == 1) {
    MPI_Message messages[6];
    MPI_Status status;
    for (int i = 0; i < 6; ++i) {
      int flag = 0;
      status = untouched();
      if (i % 2) MPI_Mprobe(0, 8, MPI_COMM_WORLD, &messages[i], &status);
      else
        while (!flag)
          MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &messages[i], &status);
      SAYS("a matched probe takes the messages one by one, in order",
           status.MPI_SOURCE == 0 && status.MPI_TAG == 8 &&
               count_of(&status, MPI_INT) == (i >= 4 ? most : 1 + i));
    }
    int flag = -1;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    SAYS("what was matched no other probe sees", flag == 0);
    for (int i = 5; i >= 0; --i) {
      const int count = i >= 4 ? most : 1 + i;
      memset(data, 0, sizeof data);
      status = untouched();
      if (i % 2) {
        MPI_Mrecv(data, most, MPI_INT, &messages[i], &status);
      } else {
        MPI_Request request;
        MPI_Imrecv(data, most, MPI_INT, &messages[i], &request);
        MPI_Wait(&request, &status);
      }
      SAYS("a matched receive gets the message that was matched, in any order",
           filled(data, count, 10 * i) && count_of(&status, MPI_INT) == count &&
               status.MPI_SOURCE == 0);
      SAYS("and its handle is null", messages[i] == MPI_MESSAGE_NULL);
    }
  }
}

static void sendrecv(void) {
  static int out[50000], in[50000];
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  const int counts[] = {0, 1, 50000};
  for (int i = 0; i < 3; ++i) {
    MPI_Status status = untouched();
    fill(out, counts[i], rank);
    MPI_Sendrecv(out, counts[i], MPI_INT, right, 1 + rank, in, 50000, MPI_INT, left, 1 + left,
                 MPI_COMM_WORLD, &status);
    SAYS("Sendrecv goes round, with two tags",
         filled(in, counts[i], left) && count_of(&status, MPI_INT) == counts[i] &&
             status.MPI_SOURCE == left && status.MPI_TAG == 1 + left);
    fill(out, counts[i], rank);
    MPI_Sendrecv_replace(out, counts[i], MPI_INT, right, 3, left, 3, MPI_COMM_WORLD, &status);
    SAYS("Sendrecv_replace goes round in one memory",
         filled(out, counts[i], left) && status.MPI_SOURCE == left);
    fill(out, counts[i], rank);
    MPI_Sendrecv(out, counts[i], MPI_INT, right, 4, in, 50000, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAYS("Sendrecv takes wildcards", filled(in, counts[i], left));
  }
  // Strided, in place.
  MPI_Datatype column;
  MPI_Type_vector(10, 1, 3, MPI_INT, &column);
  MPI_Type_commit(&column);
  fill(out, 30, 100 * rank);
  MPI_Sendrecv_replace(out, 1, column, right, 5, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int right_places = 1;
  for (int i = 0; i < 30; ++i) right_places &= out[i] == (i % 3 == 0 ? 100 * left : 100 * rank) + i;
  SAYS("Sendrecv_replace of a strided type replaces what the type covers alone", right_places);
  MPI_Type_free(&column);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void nobody(void) {
  int value = 5;
  MPI_Status status = untouched();
  MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
  MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
  MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
  SAYS("a receive from MPI_PROC_NULL ends at once, and leaves its memory alone", value == 5);
  SAYS("its status is MPI_PROC_NULL, MPI_ANY_TAG, nothing", status.MPI_SOURCE == MPI_PROC_NULL &&
                                                                status.MPI_TAG == MPI_ANY_TAG &&
                                                                count_of(&status, MPI_INT) == 0);
  MPI_Request requests[4];
  MPI_Status statuses[4];
  MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]);
  MPI_Startall(2, requests + 2);
  MPI_Waitall(4, requests, statuses);
  SAYS("requests with MPI_PROC_NULL end", value == 5 && requests[0] == MPI_REQUEST_NULL &&
                                              requests[1] == MPI_REQUEST_NULL &&
                                              requests[2] != MPI_REQUEST_NULL);
  if (!mpich)
    SAYS("the status of their receives is that of nobody",
         statuses[1].MPI_SOURCE == MPI_PROC_NULL && statuses[3].MPI_SOURCE == MPI_PROC_NULL);
  MPI_Request_free(&requests[2]);
  MPI_Request_free(&requests[3]);
  status = untouched();
  MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
  SAYS("a probe of MPI_PROC_NULL sees it", status.MPI_SOURCE == MPI_PROC_NULL &&
                                               status.MPI_TAG == MPI_ANY_TAG &&
                                               count_of(&status, MPI_BYTE) == 0);
  int flag = 0;
  MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
  SAYS("and says yes", flag == 1);
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
  SAYS("a matched probe of MPI_PROC_NULL gives MPI_MESSAGE_NO_PROC",
       message == MPI_MESSAGE_NO_PROC);
  MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
  SAYS("whose receive is empty, and its handle null",
       status.MPI_SOURCE == MPI_PROC_NULL && message == MPI_MESSAGE_NULL && value == 5);
  const int right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL,
            left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  int in = -1;
  MPI_Sendrecv(&rank, 1, MPI_INT, right, 2, &in, 1, MPI_INT, left, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  SAYS("a line of Sendrecv ends at MPI_PROC_NULL", in == rank - 1);
  in = rank;
  MPI_Sendrecv_replace(&in, 1, MPI_INT, right, 2, left, 2, MPI_COMM_WORLD, &status);
  SAYS("and of Sendrecv_replace", in == (rank > 0 ? rank - 1 : 0));
}

static void to_myself(void) {
  static int out[most], in[most];
  MPI_Request requests[2];
  MPI_Status statuses[2];
  for (int kind = 0; kind < 2; ++kind) {
    const int count = kind ? most : 3;
    fill(out, count, rank);
    memset(in, 0, sizeof in);
    MPI_Irecv(in, most, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, count, MPI_INT, rank, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    SAYS("a message to myself arrives", filled(in, count, rank) && statuses[0].MPI_SOURCE == rank);
    MPI_Isend(out, count, MPI_INT, 0, 3, MPI_COMM_SELF, &requests[1]);
    memset(in, 0, sizeof in);
    MPI_Recv(in, most, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &statuses[0]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    SAYS("and in MPI_COMM_SELF, where I am 0",
         filled(in, count, rank) && statuses[0].MPI_SOURCE == 0);
  }
}

// Some of them for receives that wait, and some not: none overtakes another.
static void to_myself_in_order(void) {
  int out[6] = {1, 2, 3, 4, 5, 6}, in[6] = {0}, flag = 1;
  MPI_Request receives[6], sends[6];
  MPI_Status statuses[6];
  MPI_Isend(&out[0], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &sends[0]);
  for (int i = 0; i < 3; ++i)
    MPI_Irecv(&in[i], 1, MPI_INT, i == 1 ? MPI_ANY_SOURCE : rank, i == 2 ? MPI_ANY_TAG : 1,
              MPI_COMM_WORLD, &receives[i]);
  for (int i = 1; i < 4; ++i)
    MPI_Isend(&out[i], 1, MPI_INT, rank, i == 2 ? 2 : 1, MPI_COMM_WORLD, &sends[i]);
  MPI_Waitall(3, receives, statuses);
  SAYS("messages to myself match in their order, those that wait for a receive first",
       in[0] == 1 && in[1] == 2 && in[2] == 3 && statuses[2].MPI_TAG == 2);
  MPI_Irecv(&in[3], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &receives[3]);
  MPI_Irecv(&in[4], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &receives[4]);
  MPI_Issend(&out[4], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &sends[4]);
  MPI_Isend(&out[5], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &sends[5]);
  MPI_Waitall(2, &receives[3], &statuses[3]);
  SAYS("and a synchronous one passes none by", in[3] == 4 && in[4] == 5);
  MPI_Test(&sends[4], &flag, MPI_STATUS_IGNORE);
  MPI_Recv(&in[5], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (flag == 0) MPI_Wait(&sends[4], MPI_STATUS_IGNORE);
  MPI_Waitall(6, sends, MPI_STATUSES_IGNORE);
  SAYS("nor is it passed by", in[5] == 6);

  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  in[0] = in[1] = in[2] = 0;
  MPI_Irecv(&in[0], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &receives[0]);
  MPI_Irecv(&in[1], 2, MPI_INT, rank, 1, MPI_COMM_WORLD, &receives[1]);
  MPI_Isend(out, 2, MPI_INT, rank, 1, MPI_COMM_WORLD, &sends[0]);
  MPI_Isend(&out[2], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &sends[1]);
  const int truncated = class_of(MPI_Wait(&receives[0], &statuses[0]));
  MPI_Wait(&receives[1], &statuses[1]);
  MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
  SAYS("a receive that is too small for my own message says so", truncated == MPI_ERR_TRUNCATE);
  SAYS("and the next one gets the next message",
       in[1] == 3 && count_of(&statuses[1], MPI_INT) == 1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void many_in_flight(void) {
  enum { count = 500 };
  static int out[count], in[count];
  static MPI_Request requests[2 * count];
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < count; ++i) {
    out[i] = rank * 1000 + i;
    MPI_Isend(&out[i], 1, MPI_INT, right, i % 17, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = count - 1; i >= 0; --i)
    MPI_Irecv(&in[i], 1, MPI_INT, left, i % 17, MPI_COMM_WORLD, &requests[count + i]);
  MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
  // Of tag t the receives were posted from the last one down.
  int right_ones = 1;
  for (int tag = 0; tag < 17; ++tag) {
    int last = tag + (count - 1 - tag) / 17 * 17;
    for (int i = tag; i < count; i += 17, last -= 17) right_ones &= in[last] == left * 1000 + i;
  }
  SAYS("hundreds of messages in flight each find their receive, in order", right_ones);
}

static void exchange_of_everybody(void) {  // unexpected messages of everybody to everybody
  enum { count = 20000 };
  static int out[count], in[count];
  MPI_Request requests[16];
  if (size > 16) return;
  fill(out, count, rank * 7);
  for (int i = 0; i < size; ++i) MPI_Isend(out, count, MPI_INT, i, 1, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < size; ++i) {
    MPI_Status status;
    MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
    SAYS("whoever comes first is received first", filled(in, count, status.MPI_SOURCE * 7));
  }
  MPI_Waitall(size, requests, MPI_STATUSES_IGNORE);
}

static void highest_tag(void) {
  int* bound = NULL;
  int flag = 0, value = 4;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
  SAYS("MPI_TAG_UB is at least 32767", flag && *bound >= 32767);
  if (!flag) return;
  MPI_Request request;
  MPI_Status status;
  MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, *bound, MPI_COMM_WORLD, &request);
  MPI_Recv(&value, 1, MPI_INT, (rank + size - 1) % size, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("a message may have the highest tag",
       status.MPI_TAG == *bound && value == (rank + size - 1) % size);
}

#if MPI_VERSION >= 4
static void large_counts(void) {
  int out = rank, in = -1;
  MPI_Count count = -1;
  MPI_Status status;
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Sendrecv_c(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count_c(&status, MPI_INT, &count);
  SAYS("the forms with large counts send and receive", in == left && count == 1);
  MPI_Request requests[2];
  MPI_Irecv_c(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend_c(&left, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  SAYS("and without waiting", in == (rank + 2 * size - 2) % size);
  MPI_Isendrecv(&rank, 1, MPI_INT, right, 2, &in, 1, MPI_INT, left, 2, MPI_COMM_WORLD,
                &requests[0]);
  MPI_Wait(&requests[0], &status);
  SAYS("Isendrecv goes round", in == left && status.MPI_SOURCE == left);
  in = rank;
  MPI_Isendrecv_replace(&in, 1, MPI_INT, right, 2, left, 2, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], &status);
  SAYS("Isendrecv_replace goes round", in == left && count_of(&status, MPI_INT) == 1);
}
#endif

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
    {"order", order, 2},
    {"tags_choose", tags_choose, 2},
    {"posted_order", posted_order, 2},
    {"wildcards", wildcards, 1},
    {"negative_tags_of_the_library", negative_tags_of_the_library, 2},
    {"communicators_apart", communicators_apart, 2},
    {"truncation", truncation, 2},
    {"synchronous_send", synchronous_send, 2},
    {"ready_send", ready_send, 2},
    {"ready_send_of_a_request", ready_send_of_a_request, 2},
    {"ready_send_of_nothing", ready_send_of_nothing, 1},
    {"buffered_send", buffered_send, 2},
    {"buffered_on_freed", buffered_on_freed, 2},
#if MPI_IS_AT_LEAST(4, 1)
    {"flushed_buffers", flushed_buffers, 2},
#endif
    {"buffer_too_small", buffer_too_small, 1},
    {"cancelled_receives", cancelled_receives, 2},
    {"probes", probes, 2},
    {"matched_probes", matched_probes, 2},
    {"sendrecv", sendrecv, 1},
    {"nobody", nobody, 1},
    {"to_myself", to_myself, 1},
    {"to_myself_in_order", to_myself_in_order, 1},
    {"many_in_flight", many_in_flight, 1},
    {"exchange_of_everybody", exchange_of_everybody, 1},
    {"highest_tag", highest_tag, 1},
#if MPI_VERSION >= 4
    {"large_counts", large_counts, 1},
#endif
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

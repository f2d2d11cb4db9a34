// SPDX-License-Identifier: MIT
// Requests: what completes them, in all shapes, what they are afterwards, and what statuses hold.
#include "check.h"

enum { go = 999 };

static void tell(int to) { MPI_Send(NULL, 0, MPI_INT, to, go, MPI_COMM_WORLD); }
static void hear(int from) {
  MPI_Recv(NULL, 0, MPI_INT, from, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void null_requests(void) {
  MPI_Request none = MPI_REQUEST_NULL,
              several[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status = untouched(), statuses[3];
  int flag = -1, index = -1, count = -1, indices[3];
  MPI_Wait(&none, &status);
  SAYS("Wait of a null request gives an empty status", is_empty(&status));
  status = untouched();
  MPI_Test(&none, &flag, &status);
  SAYS("Test of a null request says yes, with an empty status", flag == 1 && is_empty(&status));
  flag = -1;
  status = untouched();
  MPI_Request_get_status(none, &flag, &status);
  SAYS("Request_get_status of a null request says yes, with an empty status",
       flag == 1 && is_empty(&status));
  MPI_Waitall(3, several, statuses);
  SAYS("Waitall of null requests gives empty statuses",
       is_empty(&statuses[0]) && is_empty(&statuses[2]));
  flag = -1;
  MPI_Testall(3, several, &flag, statuses);
  SAYS("Testall of null requests says yes", flag == 1 && is_empty(&statuses[1]));
  status = untouched();
  MPI_Waitany(3, several, &index, &status);
  SAYS("Waitany of null requests gives MPI_UNDEFINED and an empty status",
       index == MPI_UNDEFINED && is_empty(&status));
  flag = index = -1;
  MPI_Testany(3, several, &index, &flag, &status);
  SAYS("Testany of null requests says yes and MPI_UNDEFINED",
       flag == 1 && index == MPI_UNDEFINED && is_empty(&status));
  MPI_Waitsome(3, several, &count, indices, statuses);
  SAYS("Waitsome of null requests gives MPI_UNDEFINED", count == MPI_UNDEFINED);
  count = -1;
  MPI_Testsome(3, several, &count, indices, statuses);
  SAYS("Testsome of null requests gives MPI_UNDEFINED", count == MPI_UNDEFINED);
  flag = index = count = -1;
  MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
  MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE);
  MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE);
  MPI_Waitsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE);
  SAYS("lists may be empty", flag == 1 && index == MPI_UNDEFINED && count == MPI_UNDEFINED);
}

static void inactive_requests(void) {
  int value = 0, flag = -1, index = -1, count = -1, indices[2];
  MPI_Request requests[2];
  MPI_Status status = untouched(), statuses[2];
  MPI_Recv_init(&value, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]);
  requests[1] = MPI_REQUEST_NULL;
  MPI_Wait(&requests[0], &status);
  SAYS("Wait of an inactive request gives an empty status, and leaves it",
       is_empty(&status) && requests[0] != MPI_REQUEST_NULL);
  MPI_Test(&requests[0], &flag, &status);
  SAYS("Test of an inactive request says yes", flag == 1 && is_empty(&status));
  MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  SAYS("Waitany passes inactive requests over", index == MPI_UNDEFINED);
  MPI_Testany(2, requests, &index, &flag, &status);
  SAYS("Testany passes inactive requests over",
       index == MPI_UNDEFINED && flag == 1 && is_empty(&status));
  MPI_Waitsome(2, requests, &count, indices, statuses);
  SAYS("Waitsome passes inactive requests over", count == MPI_UNDEFINED);
  MPI_Waitall(2, requests, statuses);
  SAYS("Waitall gives empty statuses for inactive requests",
       is_empty(&statuses[0]) && is_empty(&statuses[1]));
  flag = -1;
  MPI_Request_get_status(requests[0], &flag, &status);
  SAYS("Request_get_status of an inactive request says yes", flag == 1 && is_empty(&status));
  MPI_Request_free(&requests[0]);
  SAYS("a freed request is null", requests[0] == MPI_REQUEST_NULL);
}

static void persistent(void) {
  static int out[70000], in[70000];
  const int counts[] = {0, 1, 70000}, right = (rank + 1) % size, left = (rank + size - 1) % size;
  char buffer[1000 + MPI_BSEND_OVERHEAD];
  for (int kind = 0; kind < 3; ++kind) {
    const int count = counts[kind];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Recv_init(in, 70000, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[0]);
    if (kind == 1) {
      MPI_Buffer_attach(buffer, sizeof buffer);
      MPI_Bsend_init(out, count, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]);
    } else if (kind == 2) {
      MPI_Ssend_init(out, count, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]);
    } else {
      MPI_Send_init(out, count, MPI_INT, right, 2, MPI_COMM_WORLD, &requests[1]);
    }
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < count; ++i) out[i] = rank * 100 + round + i;
      if (round % 2) MPI_Startall(2, requests);
      else {
        MPI_Start(&requests[1]);
        MPI_Start(&requests[0]);
      }
      MPI_Waitall(2, requests, statuses);
      int same = 1;
      for (int i = 0; i < count; ++i) same &= in[i] == left * 100 + round + i;
      SAYS("persistent requests bring what is there at each start",
           same && count_of(&statuses[0], MPI_INT) == count);
      SAYS("they are inactive afterwards, and not null",
           requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    if (kind == 1) {
      void* address;
      int bytes;
      MPI_Buffer_detach(&address, &bytes);
    }
  }
}

static void persistent_with_others(void) {  // a persistent send and a plain receive match
  int out = rank, in = -1;
  MPI_Request request;
  MPI_Send_init(&out, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &request);
  for (int i = 0; i < 3; ++i) {
    out = rank + i;
    MPI_Start(&request);
    MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAYS("a persistent send is a send", in == (rank + size - 1) % size + i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Request_free(&request);
}

enum { many = 8 };

// Rank 1 posts receives with tags 0…; rank 0 sends those that rank 1 asks for.
static void serve(void) {
  for (;;) {
    int tag;
    MPI_Recv(&tag, 1, MPI_INT, 1, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (tag < 0) return;
    const int value = 100 + tag;
    MPI_Send(&value, 1, MPI_INT, 1, tag, MPI_COMM_WORLD);
  }
}
static void ask(int tag) { MPI_Send(&tag, 1, MPI_INT, 0, go, MPI_COMM_WORLD); }
static void post(int* values, MPI_Request* requests) {
  for (int i = 0; i < many; ++i) {
    values[i] = -1;
    MPI_Irecv(&values[i], 1, MPI_INT, 0, i, MPI_COMM_WORLD, &requests[i]);
  }
}

static void shapes(void) {
  if (rank == 0) serve();
  if (rank != 1) return;
  int values[many], index, flag, count, indices[many], done, seen;
  MPI_Request requests[many];
  MPI_Status status, statuses[many];

  post(values, requests);
  flag = 1;
  status = untouched();
  MPI_Test(&requests[2], &flag, &status);
  SAYS("Test of what has not come says no, and leaves request and status",
       flag == 0 && requests[2] != MPI_REQUEST_NULL && status.MPI_SOURCE == -77);
  flag = 1;
  MPI_Testall(many, requests, &flag, statuses);
  SAYS("Testall says no", flag == 0);
  index = -1, flag = 1;
  MPI_Testany(many, requests, &index, &flag, &status);
  SAYS("Testany says no, and MPI_UNDEFINED", flag == 0 && index == MPI_UNDEFINED);
  count = -1;
  MPI_Testsome(many, requests, &count, indices, statuses);
  SAYS("Testsome says none", count == 0);
  for (int i = many - 1; i >= 0; i -= 2) {
    ask(i);
    status = untouched();
    MPI_Waitany(many, requests, &index, &status);
    SAYS("Waitany gives the one that has ended",
         index == i && values[i] == 100 + i && status.MPI_TAG == i && status.MPI_SOURCE == 0 &&
             count_of(&status, MPI_INT) == 1);
    if (!mpich) SAYS("Waitany leaves the error of its status alone", status.MPI_ERROR == -79);
    SAYS("it is null then", requests[i] == MPI_REQUEST_NULL);
  }
  for (int i = 0; i < many; i += 2) {
    ask(i);
    flag = 0;
    while (!flag) MPI_Testany(many, requests, &index, &flag, &status);
    SAYS("Testany gives the one that has ended",
         index == i && values[i] == 100 + i && status.MPI_TAG == i);
  }

  post(values, requests);
  done = seen = 0;
  for (int i = 0; i < many; ++i) ask(i);
  while (done < many) {
    count = -1;
    MPI_Waitsome(many, requests, &count, indices, statuses);
    SAYS("Waitsome gives at least one", count >= 1);
    if (count < 1) break;
    for (int k = 0; k < count; ++k) {
      SAYS("Waitsome gives each once, with its status",
           !(seen & 1 << indices[k]) && statuses[k].MPI_TAG == indices[k] &&
               values[indices[k]] == 100 + indices[k] && requests[indices[k]] == MPI_REQUEST_NULL);
      seen |= 1 << indices[k];
    }
    done += count;
  }
  MPI_Waitsome(many, requests, &count, indices, MPI_STATUSES_IGNORE);
  SAYS("and MPI_UNDEFINED when all are told", count == MPI_UNDEFINED);

  post(values, requests);
  done = 0;
  for (int i = 0; i < many; ++i) ask(i);
  while (done < many) {
    MPI_Testsome(many, requests, &count, indices, statuses);
    for (int k = 0; k < count; ++k)
      SAYS("Testsome gives each with its status",
           statuses[k].MPI_TAG == indices[k] && values[indices[k]] == 100 + indices[k]);
    if (count == MPI_UNDEFINED) break;
    done += count;
  }
  SAYS("and all of them", done == many);

  post(values, requests);
  for (int i = 0; i < many - 1; ++i) ask(i);
  for (int i = 0; i < 100; ++i) MPI_Testall(many, requests, &flag, statuses);
  SAYS("Testall says no while one is missing, and none is told",
       flag == 0 && requests[0] != MPI_REQUEST_NULL);
  ask(many - 1);
  while (!flag) MPI_Testall(many, requests, &flag, statuses);
  int right = 1;
  for (int i = 0; i < many; ++i)
    right &= values[i] == 100 + i && statuses[i].MPI_TAG == i && requests[i] == MPI_REQUEST_NULL;
  SAYS("then it tells all", right);

  post(values, requests);
  for (int i = 0; i < many; ++i) ask(many - 1 - i);
  MPI_Waitall(many, requests, statuses);
  right = 1;
  for (int i = 0; i < many; ++i)
    right &= values[i] == 100 + i && statuses[i].MPI_TAG == i && statuses[i].MPI_SOURCE == 0;
  SAYS("Waitall tells all, each in its place", right);

  post(values, requests);
  ask(3);
  flag = 0;
  while (!flag) MPI_Request_get_status(requests[3], &flag, &status);
  SAYS("Request_get_status tells the end and keeps the request",
       status.MPI_TAG == 3 && requests[3] != MPI_REQUEST_NULL && values[3] == 103);
  status = untouched();
  MPI_Wait(&requests[3], &status);
  SAYS("which a Wait tells again", status.MPI_TAG == 3 && requests[3] == MPI_REQUEST_NULL);
  if (!mpich) SAYS("Wait leaves the error of its status alone", status.MPI_ERROR == -79);
  for (int i = 0; i < many; ++i) ask(i == 3 ? 0 : i);
  MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
  MPI_Recv(&values[0], 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ask(-1);
}

#if MPI_IS_AT_LEAST(4, 1)
static void states_of_several(void) {  // all of them stay
  if (rank == 0) serve();
  if (rank != 1) return;
  int values[many], index = -1, flag = -1, count = -1, indices[many], right = 1;
  MPI_Request requests[many], before[many], none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status, statuses[many];

  MPI_Request_get_status_all(2, none, &flag, statuses);
  SAYS("of null requests all have ended", flag == 1 && is_empty(&statuses[1]));
  flag = -1;
  status = untouched();
  MPI_Request_get_status_any(2, none, &index, &flag, &status);
  SAYS("and none is the first", flag == 1 && index == MPI_UNDEFINED && is_empty(&status));
  MPI_Request_get_status_some(2, none, &count, indices, statuses);
  SAYS("of them there are MPI_UNDEFINED", count == MPI_UNDEFINED);

  post(values, requests);
  memcpy(before, requests, sizeof requests);
  flag = 1;
  MPI_Request_get_status_all(many, requests, &flag, statuses);
  SAYS("nothing has come: not all", flag == 0);
  flag = 1, index = 3;
  MPI_Request_get_status_any(many, requests, &index, &flag, &status);
  SAYS("not any", flag == 0 && index == MPI_UNDEFINED);
  MPI_Request_get_status_some(many, requests, &count, indices, statuses);
  SAYS("not some", count == 0);

  ask(5);
  status = untouched();
  while (!flag) MPI_Request_get_status_any(many, requests, &index, &flag, &status);
  SAYS("the one that has come is found, with its status",
       index == 5 && status.MPI_TAG == 5 && status.MPI_SOURCE == 0 &&
           count_of(&status, MPI_INT) == 1 && values[5] == 105);
  SAYS("whose error is left alone", status.MPI_ERROR == -79);
  MPI_Request_get_status_some(many, requests, &count, indices, statuses);
  SAYS("and is some", count == 1 && indices[0] == 5 && statuses[0].MPI_TAG == 5);
  flag = 1;
  MPI_Request_get_status_all(many, requests, &flag, statuses);
  SAYS("and not all", flag == 0);
  ask(2);
  while (count < 2) MPI_Request_get_status_some(many, requests, &count, indices, statuses);
  SAYS("those that have come are told each time, each with its status",
       count == 2 && indices[0] == 2 && indices[1] == 5 && statuses[0].MPI_TAG == 2 &&
           statuses[1].MPI_TAG == 5);
  for (int i = 0; i < many; ++i)
    if (i != 2 && i != 5) ask(i);
  while (!flag) MPI_Request_get_status_all(many, requests, &flag, statuses);
  for (int i = 0; i < many; ++i)
    right &=
        statuses[i].MPI_TAG == i && count_of(&statuses[i], MPI_INT) == 1 && values[i] == 100 + i;
  SAYS("in the end all have come", right);
  SAYS("and all requests are as they were", memcmp(before, requests, sizeof requests) == 0);
  MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
  MPI_Request_get_status_all(many, requests, &flag, statuses);
  SAYS("one that is null has an empty status among them",
       flag == 1 && is_empty(&statuses[2]) && statuses[3].MPI_TAG == 3);
  MPI_Request_get_status_all(many, requests, &flag, MPI_STATUSES_IGNORE);
  MPI_Request_get_status_some(many, requests, &count, indices, MPI_STATUSES_IGNORE);
  SAYS("statuses may be ignored", flag == 1 && count == many - 1 && indices[2] == 3);
  MPI_Waitall(many, requests, statuses);
  SAYS("a wait tells them again", statuses[7].MPI_TAG == 7);
  ask(-1);
}

static void states_of_errors(void) {
  MPI_Comm comm;
  int data[2] = {1, 2}, got = -1, fits = -1, flag = 0, count = 0, index = -1, indices[2];
  MPI_Status status, statuses[2] = {untouched(), untouched()};
  MPI_Request requests[2];
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Irecv(&got, 1, MPI_INT, 0, 1, comm, &requests[0]);
  MPI_Irecv(&fits, 1, MPI_INT, 0, 2, comm, &requests[1]);
  MPI_Send(data, 2, MPI_INT, 0, 1, comm);
  MPI_Send(data, 1, MPI_INT, 0, 2, comm);
  SAYS("a state of several tells errors in the statuses",
       class_of(MPI_Request_get_status_all(2, requests, &flag, statuses)) == MPI_ERR_IN_STATUS);
  SAYS("of each its own",
       class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS);
  statuses[0] = statuses[1] = untouched();
  SAYS("of some likewise", class_of(MPI_Request_get_status_some(2, requests, &count, indices,
                                                                statuses)) == MPI_ERR_IN_STATUS &&
                               count == 2 && class_of(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
  SAYS("of any it is the call's", class_of(MPI_Request_get_status_any(
                                      2, requests, &index, &flag, &status)) == MPI_ERR_TRUNCATE);
  SAYS("and they can still be waited for",
       class_of(MPI_Wait(&requests[0], &status)) == MPI_ERR_TRUNCATE &&
           MPI_Wait(&requests[1], &status) == MPI_SUCCESS && fits == 1);
  MPI_Comm_free(&comm);
}

static void fields_of_statuses(void) {
  MPI_Status status = untouched();
  int value = -1;
  MPI_Status_get_source(&status, &value);
  SAYS("Status_get_source gives the source", value == -77);
  MPI_Status_get_tag(&status, &value);
  SAYS("Status_get_tag gives the tag", value == -78);
  MPI_Status_get_error(&status, &value);
  SAYS("Status_get_error gives the error", value == -79);
  MPI_Status_set_source(&status, 3);
  MPI_Status_set_tag(&status, 4);
  MPI_Status_set_error(&status, MPI_ERR_TAG);
  SAYS("and what is set is there, each in its field",
       status.MPI_SOURCE == 3 && status.MPI_TAG == 4 && status.MPI_ERROR == MPI_ERR_TAG);
  MPI_Status_set_elements(&status, MPI_INT, 5);
  MPI_Status_set_cancelled(&status, 1);
  MPI_Status_set_source(&status, 6);
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  SAYS("count and cancellation stay", count_of(&status, MPI_INT) == 5 && cancelled == 1);
}
#endif

static void freed_in_flight(void) {
  static int out[100000];
  if (rank == 0) {
    MPI_Request request;
    for (int i = 0; i < 100000; ++i) out[i] = i;
    MPI_Isend(out, 100000, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    SAYS("a request that is freed in flight is null", request == MPI_REQUEST_NULL);
    tell(1);
    hear(1);
    int in = -1;
    MPI_Irecv(&in, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    tell(1);
    hear(1);  // comes after the message of tag 2, and receives match in order
    for (int i = 0; i < 10000 && in != 5; ++i)
      MPI_Iprobe(1, 77, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
    SAYS("a receive that was freed in flight receives", in == 5);
  }
  if (rank == 1) {
    static int in[100000];
    hear(0);
    MPI_Recv(in, 100000, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int same = 1;
    for (int i = 0; i < 100000; ++i) same &= in[i] == i;
    SAYS("a send that was freed in flight goes on", same);
    tell(0);
    hear(0);
    const int value = 5;
    MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    tell(0);
  }
}

static void freed_with_communicator(void) {
  enum { count = 1 << 20 };
  static int data[count], late;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (rank == 0) {
    MPI_Request requests[2];
    for (int i = 0; i < count; ++i) data[i] = i;
    MPI_Isend(data, count, MPI_INT, 1, 1, comm, &requests[0]);
    MPI_Irecv(&late, 1, MPI_INT, 1, 2, comm, &requests[1]);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Comm_free(&comm);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Recv(data, count, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    SAYS("a send arrives whose request and communicator are freed", data[count - 1] == count - 1);
    const int value = 42;
    MPI_Send(&value, 1, MPI_INT, 0, 2, comm);
    tell(0);
  }
  if (rank == 0) {
    hear(1);
    SAYS("and a receive takes its value", *(volatile int*)&late == 42);
  }
  if (rank != 0) MPI_Comm_free(&comm);
}

// A short send may be over when it begins: what stands for it is a request all the same, whichever
// others are over, too.
static void over_when_begun(void) {
  enum { each = 8 };
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  int in[each], out[each], flag = 0, index = -1, count = -1, indices[each], cancelled = -1;
  MPI_Request receives[each], sends[each];
  MPI_Status status, statuses[each];
  for (int i = 0; i < each; ++i) {
    in[i] = -1;
    out[i] = 100 * rank + i;
    MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &receives[i]);
  }
  int begun = 1;
  for (int i = 0; i < each; ++i) {
    MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &sends[i]);
    begun &= sends[i] != MPI_REQUEST_NULL;
  }
  SAYS("a send that begins has a request", begun);
  while (!flag) MPI_Request_get_status(sends[0], &flag, &status);
  SAYS("Request_get_status tells the end of a send and keeps its request",
       is_uncancelled(&status) && sends[0] != MPI_REQUEST_NULL);
  status = untouched();
  MPI_Wait(&sends[0], &status);
  SAYS("Wait gives the status of a send, and ends no other",
       is_uncancelled(&status) && sends[0] == MPI_REQUEST_NULL && sends[1] != MPI_REQUEST_NULL);
  for (flag = 0; !flag;) MPI_Test(&sends[1], &flag, &status);
  SAYS("Test ends a send", is_uncancelled(&status) && sends[1] == MPI_REQUEST_NULL);
  MPI_Request_free(&sends[2]);
  SAYS("a send may be freed", sends[2] == MPI_REQUEST_NULL && sends[3] != MPI_REQUEST_NULL);
  MPI_Waitany(each, sends, &index, &status);
  SAYS("Waitany gives one of the sends",
       index >= 3 && is_uncancelled(&status) && sends[index] == MPI_REQUEST_NULL);
  for (int told = 4; told < each; told += count) {
    MPI_Waitsome(each, sends, &count, indices, statuses);
    SAYS("Waitsome gives the others, each once", count >= 1 && count <= each - told);
    if (count < 1) break;
    for (int i = 0; i < count; ++i)
      SAYS("and they are null",
           sends[indices[i]] == MPI_REQUEST_NULL && is_uncancelled(&statuses[i]));
  }
  MPI_Waitsome(each, sends, &count, indices, statuses);
  SAYS("then all are told", count == MPI_UNDEFINED);
  MPI_Waitall(each, receives, statuses);
  int right_all = 1;
  for (int i = 0; i < each; ++i)
    right_all &= in[i] == 100 * left + i && statuses[i].MPI_TAG == i &&
                 statuses[i].MPI_SOURCE == left && count_of(&statuses[i], MPI_INT) == 1;
  SAYS("all have arrived", right_all);

  MPI_Irecv(in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, receives);
  MPI_Isend(out, 1, MPI_INT, right, 0, MPI_COMM_WORLD, sends);
  MPI_Isend(out, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &sends[1]);
  for (flag = 0; !flag;) MPI_Testall(2, sends, &flag, statuses);
  SAYS("Testall ends sends, one to nobody too", sends[0] == MPI_REQUEST_NULL &&
                                                    sends[1] == MPI_REQUEST_NULL &&
                                                    is_uncancelled(&statuses[1]));
  MPI_Wait(receives, MPI_STATUS_IGNORE);
  MPI_Irecv(in, 1, MPI_INT, left, 0, MPI_COMM_WORLD, receives);
  MPI_Isend(out, 1, MPI_INT, right, 0, MPI_COMM_WORLD, sends);
  MPI_Cancel(sends);
  MPI_Wait(sends, &status);
  MPI_Test_cancelled(&status, &cancelled);
  if (cancelled) MPI_Send(out, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
  MPI_Wait(receives, &status);
  SAYS("a send that is to be cancelled arrives, or says that it does not",
       sends[0] == MPI_REQUEST_NULL && in[0] == 100 * left);
}

static void counts(void) {
  MPI_Status status;
  int out[6] = {1, 2, 3, 4, 5, 6}, in[12], count = -1;
  MPI_Datatype three;
  MPI_Type_contiguous(3, MPI_INT, &three);
  MPI_Type_commit(&three);
  MPI_Sendrecv(out, 5, MPI_INT, rank, 1, in, 4, three, rank, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, three, &count);
  SAYS("a count that is not whole is MPI_UNDEFINED", count == MPI_UNDEFINED);
  MPI_Get_elements(&status, three, &count);
  SAYS("Get_elements counts the basic elements", count == 5);
  MPI_Count elements = -1;
  MPI_Get_elements_x(&status, three, &elements);
  SAYS("and Get_elements_x", elements == 5);
  MPI_Get_count(&status, MPI_INT, &count);
  SAYS("Get_count counts in the type that it is told", count == 5);
  MPI_Sendrecv(out, 2, three, rank, 1, in, 4, three, rank, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, three, &count);
  SAYS("whole types are counted", count == 2);
  MPI_Sendrecv(out, 0, MPI_INT, rank, 1, in, 4, three, rank, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, three, &count);
  SAYS("nothing is 0", count == 0);
  MPI_Status_set_elements(&status, MPI_INT, 7);
  MPI_Get_elements(&status, MPI_INT, &count);
  SAYS("Status_set_elements sets what Get_elements says", count == 7);
  MPI_Status_set_elements_x(&status, three, 9);
  MPI_Get_elements(&status, three, &count);
  if (!mpich) SAYS("and Status_set_elements_x", count == 9);  // 4.0 takes elements for whole types
  MPI_Get_count(&status, three, &count);
  if (!mpich) SAYS("which are so many of a type", count == 3);
  MPI_Status_set_cancelled(&status, 1);
  int flag = 0;
  MPI_Test_cancelled(&status, &flag);
  SAYS("Status_set_cancelled sets what Test_cancelled says", flag == 1);
  MPI_Type_free(&three);
}

static int query(void* state, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_INT, *(int*)state);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 4;
  status->MPI_TAG = 5;
  return MPI_SUCCESS;
}
static int freed;
static int release(void* state) {
  freed += *(int*)state > 0;
  return MPI_SUCCESS;
}
static int cancel(void* state, int complete) {
  *(int*)state = complete ? 1 : 2;
  return MPI_SUCCESS;
}

static void generalized(void) {
  int state = 9, flag = -1;
  MPI_Request request;
  MPI_Status status;
  MPI_Grequest_start(query, release, cancel, &state, &request);
  MPI_Test(&request, &flag, &status);
  SAYS("a generalized request has not ended before it is told so", flag == 0);
  MPI_Grequest_complete(request);
  MPI_Wait(&request, &status);
  SAYS("then its query fills the status",
       status.MPI_SOURCE == 4 && status.MPI_TAG == 5 && count_of(&status, MPI_INT) == 9);
  SAYS("and its free function is called", freed == 1 && request == MPI_REQUEST_NULL);
  MPI_Grequest_start(query, release, cancel, &state, &request);
  MPI_Grequest_complete(request);
  MPI_Request_free(&request);
  SAYS("freed behind its end, its free function is called at once", freed == 2);
  MPI_Grequest_start(query, release, cancel, &state, &request);
  MPI_Request handle = request;
  MPI_Request_free(&request);
  SAYS("freed before its end, not yet", freed == 2);
  MPI_Grequest_complete(handle);
  SAYS("but at its end", freed == 3);
}

static void polled(
    void) {  // Test loops must not starve whoever is waited for, with more ranks than cores
  const double begun = MPI_Wtime();
  for (int i = 0; i < 200; ++i) {
    int sum = 0, flag = 0;
    MPI_Request request;
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    SAYS("a reduction that is polled has its sum", sum == size * (size - 1) / 2);
  }
  SAYS("and polling takes no time slices", MPI_Wtime() - begun < 5);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const Scenario scenarios[] = {
    {"null_requests", null_requests, 1},
    {"inactive_requests", inactive_requests, 1},
    {"persistent", persistent, 1},
    {"persistent_with_others", persistent_with_others, 1},
    {"shapes", shapes, 2},
#if MPI_IS_AT_LEAST(4, 1)
    {"states_of_several", states_of_several, 2},
    {"states_of_errors", states_of_errors, 1},
    {"fields_of_statuses", fields_of_statuses, 1},
#endif
    {"freed_in_flight", freed_in_flight, 2},
    {"freed_with_communicator", freed_with_communicator, 2},
    {"over_when_begun", over_when_begun, 1},
    {"counts", counts, 1},
    {"generalized", generalized, 1},
    {"polled", polled, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

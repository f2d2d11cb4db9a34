// SPDX-License-Identifier: MIT
// What is wrong returns the class of its error where errors return, calls the handler where there
// is one, and leaves the library as it was.
#include "check.h"

static int value, other;

// A call and the class that it returns. Where the standard leaves some freedom, a second one is as
// good.
#define GIVES(error_class, ...) \
  SAYS(#__VA_ARGS__ " gives " #error_class, class_of(__VA_ARGS__) == (error_class))
#define GIVES_ANY(first, second, ...)                \
  SAYS(#__VA_ARGS__ " gives " #first " or " #second, \
       is_either(class_of(__VA_ARGS__), first, second))
static int is_either(int error_class, int first, int second) {
  return error_class == first || error_class == second;
}

static MPI_Comm comm;

static void arguments_of_messages(void) {
  MPI_Request request;
  GIVES(MPI_ERR_COUNT, MPI_Send(&value, -1, MPI_INT, 0, 1, comm));
  GIVES(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, size, 1, comm));
  GIVES(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm));
  GIVES(MPI_ERR_RANK, MPI_Recv(&value, 1, MPI_INT, size, 1, comm, MPI_STATUS_IGNORE));
  GIVES(MPI_ERR_RANK, MPI_Isend(&value, 1, MPI_INT, -99, 1, comm, &request));
  GIVES(MPI_ERR_TAG, MPI_Send(&value, 1, MPI_INT, 0, -5, comm));
  GIVES(MPI_ERR_TAG, MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, comm));
  GIVES(MPI_ERR_TAG, MPI_Irecv(&value, 1, MPI_INT, 0, -5, comm, &request));
  GIVES(MPI_ERR_TYPE, MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 1, comm));
  GIVES(MPI_ERR_TYPE, MPI_Recv(&value, 1, MPI_DATATYPE_NULL, 0, 1, comm, MPI_STATUS_IGNORE));
  GIVES(MPI_ERR_COMM, MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_NULL));
  GIVES(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
  GIVES(MPI_ERR_COMM, MPI_Comm_rank(MPI_COMM_NULL, &value));
  int flag;
  GIVES(MPI_ERR_RANK, MPI_Iprobe(size + 5, 1, comm, &flag, MPI_STATUS_IGNORE));
  GIVES(MPI_ERR_COUNT,
        MPI_Sendrecv(&value, -1, MPI_INT, 0, 1, &other, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
  MPI_Datatype raw;
  MPI_Type_contiguous(2, MPI_INT, &raw);
  int pair[2] = {0, 0};
  GIVES(MPI_ERR_TYPE, MPI_Send(pair, 1, raw, MPI_PROC_NULL, 1, comm));  // not committed
  MPI_Type_free(&raw);
  if (!open_mpi) GIVES(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, rank, 1, comm));
}

static void arguments_of_collectives(void) {
  GIVES(MPI_ERR_COUNT, MPI_Bcast(&value, -1, MPI_INT, 0, comm));
  GIVES(MPI_ERR_ROOT, MPI_Bcast(&value, 1, MPI_INT, size, comm));
  GIVES(MPI_ERR_ROOT, MPI_Reduce(&value, &other, 1, MPI_INT, MPI_SUM, -7, comm));
  GIVES(MPI_ERR_ROOT, MPI_Gather(&value, 1, MPI_INT, &other, 1, MPI_INT, size + 1, comm));
  GIVES(MPI_ERR_TYPE, MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, comm));
  GIVES(MPI_ERR_OP, MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_OP_NULL, comm));
  GIVES_ANY(MPI_ERR_OP, MPI_ERR_TYPE, MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_MAXLOC, comm));
  double real = 0, result = 0;
  GIVES_ANY(MPI_ERR_OP, MPI_ERR_TYPE, MPI_Allreduce(&real, &result, 1, MPI_DOUBLE, MPI_BAND, comm));
  if (!mpich) GIVES(MPI_ERR_COUNT, MPI_Allreduce(&value, &other, -3, MPI_INT, MPI_SUM, comm));
  // Nothing of this has gone anywhere.
  int sum = -1;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  SAYS("a communicator goes on after wrong arguments", sum == size * (size - 1) / 2);
}

static void arguments_of_the_rest(void) {
  MPI_Group group, result;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Datatype type;
  MPI_Comm_group(comm, &group);
  const int twice[2] = {0, 0}, beyond[1] = {size};
  if (!open_mpi && !mpich) GIVES(MPI_ERR_RANK, MPI_Group_incl(group, 2, twice, &result));
  GIVES(MPI_ERR_RANK, MPI_Group_incl(group, 1, beyond, &result));
  GIVES(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &value));
  MPI_Group_free(&group);
  GIVES_ANY(MPI_ERR_ARG, MPI_ERR_COMM, MPI_Comm_free(&(MPI_Comm){MPI_COMM_NULL}));
  int lengths[2] = {size + 1, 1}, periods[2] = {0, 0}, odd[1] = {-3};
  SAYS("a grid of more ranks than there are is an error",
       MPI_Cart_create(comm, 2, lengths, periods, 0, &made) != MPI_SUCCESS);
  GIVES_ANY(MPI_ERR_DIMS, MPI_ERR_ARG, MPI_Dims_create(4, 1, odd));
  GIVES(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(comm, &value));
  GIVES(MPI_ERR_TYPE, MPI_Type_contiguous(2, MPI_DATATYPE_NULL, &type));
  GIVES_ANY(MPI_ERR_COUNT, MPI_ERR_ARG, MPI_Type_contiguous(-2, MPI_INT, &type));
#if MPI_VERSION >= 4
  if (!open_mpi && !mpich) {
    const MPI_Count long_stride = (MPI_Count)1 << 62;
    GIVES(MPI_ERR_COUNT, MPI_Type_vector_c(2, 1, long_stride, MPI_INT, &type));
    GIVES(MPI_ERR_COUNT, MPI_Type_create_hvector_c(4, 1, long_stride, MPI_INT, &type));
  }
#endif
  GIVES(MPI_ERR_TYPE, MPI_Type_free(&(MPI_Datatype){MPI_DATATYPE_NULL}));
  GIVES_ANY(MPI_ERR_TYPE, MPI_ERR_ARG, MPI_Type_free(&(MPI_Datatype){MPI_INT}));
  if (!open_mpi && !mpich) {  // a type that was chosen for Fortran counts as predefined
    MPI_Type_create_f90_real(6, 30, &type);
    GIVES(MPI_ERR_TYPE, MPI_Type_free(&type));
  }
  GIVES_ANY(MPI_ERR_OP, MPI_ERR_ARG, MPI_Op_free(&(MPI_Op){MPI_SUM}));
  if (!open_mpi)
    GIVES_ANY(MPI_ERR_KEYVAL, MPI_ERR_ARG, MPI_Comm_set_attr(comm, MPI_KEYVAL_INVALID, &value));
  GIVES_ANY(MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_Start(&(MPI_Request){MPI_REQUEST_NULL}));
  GIVES_ANY(MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_Cancel(&(MPI_Request){MPI_REQUEST_NULL}));
  GIVES_ANY(MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_Request_free(&(MPI_Request){MPI_REQUEST_NULL}));
  MPI_Info info;
  MPI_Info_create(&info);
  GIVES(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "nothing"));
  MPI_Info_free(&info);
  if (!open_mpi)
    GIVES(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(&value, 1, MPI_INT, &other, 1, MPI_INT, comm));
}

static void results_that_are_null(void) {
  MPI_Group group;
  MPI_Request request;
  MPI_Comm made;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_group(comm, &group);
  GIVES(MPI_ERR_ARG, MPI_Comm_dup(comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Comm_split(comm, 0, 0, NULL));
  GIVES(MPI_ERR_ARG, MPI_Comm_create(comm, group, NULL));
  GIVES(MPI_ERR_ARG, MPI_Comm_size(comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Comm_rank(comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Comm_group(comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Comm_compare(comm, comm, NULL));
  if (!open_mpi) {  // which does not look at these
    GIVES(MPI_ERR_ARG, MPI_Comm_idup(comm, NULL, &request));
    GIVES(MPI_ERR_ARG, MPI_Comm_create_group(comm, group, 0, NULL));
    GIVES(MPI_ERR_ARG, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, NULL));
    GIVES(MPI_ERR_ARG, MPI_Comm_get_info(comm, NULL));
    GIVES(MPI_ERR_ARG, MPI_Comm_get_name(comm, name, NULL));
  }
  if (!open_mpi && !mpich) {
    GIVES(MPI_ERR_ARG, MPI_Comm_idup(comm, &made, NULL));
    SAYS("where nothing is made, there is no communicator", made == MPI_COMM_NULL);
  }
  MPI_Group_free(&group);
}

static void results_of_requests_that_are_null(void) {
  if (open_mpi || mpich) return;  // which do not look at all of these
  int index = 0, flag = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  GIVES(MPI_ERR_ARG, MPI_Isend(&value, 1, MPI_INT, rank, 7, comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Send_init(&value, 1, MPI_INT, rank, 7, comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Iallreduce(&value, &other, 1, MPI_INT, MPI_SUM, comm, NULL));
  GIVES(MPI_ERR_ARG, MPI_Barrier_init(comm, MPI_INFO_NULL, NULL));
  GIVES(MPI_ERR_ARG, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Mrecv(&other, 1, MPI_INT, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Test(&request, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Testall(1, &request, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Waitany(1, &request, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Testany(1, &request, &index, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Waitsome(1, &request, &index, NULL, &status));
  GIVES(MPI_ERR_ARG, MPI_Request_get_status(request, NULL, &status));
  GIVES(MPI_ERR_REQUEST, MPI_Start(NULL));
  GIVES(MPI_ERR_ARG, MPI_Get_count(MPI_STATUS_IGNORE, MPI_INT, &value));
  GIVES(MPI_ERR_ARG, MPI_Test_cancelled(MPI_STATUS_IGNORE, &flag));
  GIVES(MPI_ERR_ARG, MPI_Buffer_detach(NULL, &value));
  GIVES(MPI_ERR_ARG, MPI_Get_version(&value, NULL));
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status);
  SAYS("what has no place for its request sends nothing", flag == 0);
}

static void lists_that_are_null(void) {
  if (open_mpi || mpich) return;
  enum { ranks_max = 8 };
  int all[ranks_max], none[ranks_max] = {0}, ones[ranks_max], places[ranks_max];
  for (int i = 0; i < ranks_max; ++i) ones[i] = 1, places[i] = i;
  const MPI_Datatype* const no_types = NULL;
  GIVES(MPI_ERR_ARG, MPI_Allgatherv(&value, 0, MPI_INT, all, NULL, none, MPI_INT, comm));
  GIVES(MPI_ERR_ARG, MPI_Allgatherv(&value, 0, MPI_INT, all, none, NULL, MPI_INT, comm));
  GIVES(MPI_ERR_ARG, MPI_Alltoallv(all, NULL, none, MPI_INT, all, none, none, MPI_INT, comm));
  GIVES(MPI_ERR_ARG, MPI_Alltoallw(all, none, none, no_types, all, none, none, no_types, comm));
  GIVES(MPI_ERR_ARG, MPI_Reduce_scatter(all, &other, NULL, MPI_INT, MPI_SUM, comm));
  if (rank == 0) {
    GIVES(MPI_ERR_ARG, MPI_Gatherv(&value, 0, MPI_INT, all, NULL, none, MPI_INT, 0, comm));
    GIVES(MPI_ERR_ARG, MPI_Scatterv(all, none, NULL, MPI_INT, &other, 0, MPI_INT, 0, comm));
  }
  SAYS("where they mean nothing they may be null",
       MPI_Gatherv(&rank, 1, MPI_INT, all, rank == 0 ? ones : NULL, rank == 0 ? places : NULL,
                   MPI_INT, 0, comm) == MPI_SUCCESS);
}

static int handled, class_seen;
static MPI_Comm comm_seen;
static void handler(MPI_Comm* where, int* code, ...) {
  ++handled;
  comm_seen = *where;
  class_seen = class_of(*code);
}

static void handlers(void) {
  MPI_Errhandler mine, got;
  MPI_Comm with, copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &with);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
  SAYS("the world's errors are fatal where nobody said otherwise",
       got == MPI_ERRORS_RETURN);  // begin() of this program did
  MPI_Comm_create_errhandler(handler, &mine);
  MPI_Comm_set_errhandler(with, mine);
  const MPI_Errhandler kept = mine;
  MPI_Comm_get_errhandler(with, &got);
  SAYS("a communicator tells its handler", got == kept);
  MPI_Errhandler_free(&got);
  MPI_Errhandler_free(&mine);
  SAYS("a freed handler is null", mine == MPI_ERRHANDLER_NULL);
  const int code = MPI_Send(&value, 1, MPI_INT, size + 3, 1, with);
  SAYS("a handler is called with communicator and code, also when its handle is freed",
       handled == 1 && comm_seen == with && class_seen == MPI_ERR_RANK);
  SAYS("and the call returns the code", class_of(code) == MPI_ERR_RANK);
  MPI_Comm_dup(with, &copy);
  MPI_Send(&value, 1, MPI_INT, size + 3, 1, copy);
  SAYS("a duplicate inherits the handler", handled == 2 && comm_seen == copy);
  MPI_Comm_call_errhandler(with, MPI_ERR_TOPOLOGY);
  SAYS("Comm_call_errhandler calls it", handled == 3 && class_seen == MPI_ERR_TOPOLOGY);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&with);
}

static int new_code;
static int fail_with_new_code(MPI_Comm where, int key, void* attribute, void* state) {
  (void)where, (void)key, (void)attribute, (void)state;
  return new_code;
}
// By the handler of what it was called with.
static void functions_that_are_missing(void) {
  MPI_Win window;
  MPI_Comm made;
  MPI_Session session;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  SAYS("on a communicator", class_of(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &window)) ==
                                MPI_ERR_UNSUPPORTED_OPERATION);
  SAYS("on the local one of two",
       class_of(MPI_Intercomm_create(comm, 0, MPI_COMM_WORLD, 0, 1, &made)) ==
           MPI_ERR_UNSUPPORTED_OPERATION);
  SAYS("with a handler for the call",
       class_of(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session)) ==
           MPI_ERR_UNSUPPORTED_OPERATION);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void texts(void) {
  char text[MPI_MAX_ERROR_STRING];
  int length = -1, new_class = -1, key = MPI_KEYVAL_INVALID, *last = NULL, flag = 0;
  for (int code = MPI_SUCCESS; code <= MPI_ERR_LASTCODE && code < 62; ++code) {
    MPI_Error_string(code, text, &length);
    if (length <= 0 || (int)strlen(text) != length) {
      SAYS("each error class has a text", 0);
      break;
    }
  }
  if (!open_mpi && !mpich) {
    MPI_Send(&value, 1, MPI_INT, size + 3, 1, comm);
    MPI_Bcast(&value, 1, MPI_INT, size + 4, comm);  // of another class
    const int code = MPI_Recv(&value, 1, MPI_INT, size + 5, 1, comm, MPI_STATUS_IGNORE);
    MPI_Error_string(code, text, &length);
    SAYS("the text of an error has nothing of those before it",
         strstr(text, "MPI_Recv") != NULL && strstr(text, "MPI_Send") == NULL);
    SAYS("and begins with where it was, and the class", strstr(text, ": MPI_ERR_RANK: ") != NULL);
  }
  MPI_Add_error_class(&new_class);
  SAYS("a class of the user is beyond MPI_ERR_LASTCODE", new_class > MPI_ERR_LASTCODE);
  MPI_Add_error_code(new_class, &new_code);
  MPI_Add_error_string(new_code, "the soup is cold");
  MPI_Error_string(new_code, text, &length);
  SAYS("a code of the user has the user's text",
       strcmp(text, "the soup is cold") == 0 && length == 16);
  SAYS("and its class", class_of(new_code) == new_class);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, fail_with_new_code, &key, NULL);
  MPI_Comm_set_attr(comm, key, &value);
  const int failed = MPI_Comm_delete_attr(comm, key);
  if (!open_mpi) SAYS("a function's code is that of the call", failed == new_code);
  MPI_Error_string(new_code, text, &length);
  SAYS("and has the user's text behind a failure, too", strcmp(text, "the soup is cold") == 0);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  if (!mpich) SAYS("MPI_LASTUSEDCODE tells the last", flag && *last >= new_code);
}

static void in_lists(void) {  // Waitall with errors among them
  if (size < 2) return;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  int small[3] = {-1, -1, -1}, big[100];
  for (int i = 0; i < 100; ++i) big[i] = i;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 0) {
    MPI_Send(big, 1, MPI_INT, 1, 1, comm);
    MPI_Send(big, 100, MPI_INT, 1, 2, comm);
    MPI_Send(big, 1, MPI_INT, 1, 3, comm);
  }
  if (rank == 1) {
    for (int i = 0; i < 3; ++i) MPI_Irecv(&small[i], 1, MPI_INT, 0, i + 1, comm, &requests[i]);
    const int code = MPI_Waitall(3, requests, statuses);
    SAYS("Waitall with one failure gives MPI_ERR_IN_STATUS", class_of(code) == MPI_ERR_IN_STATUS);
    SAYS("the failed one has its class", class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
    for (int i = 0; i < 3; i += 2) {
      while (statuses[i].MPI_ERROR == MPI_ERR_PENDING) {
        statuses[i].MPI_ERROR = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      }
      SAYS("the others are MPI_SUCCESS, or still pending",
           statuses[i].MPI_ERROR == MPI_SUCCESS && small[i] == 0);
    }
  }
}

// ---- handles that were freed: a copy of one is a handle of nothing ----

static void freed_types(void) {
  if (open_mpi || mpich) return;  // which use memory that is not theirs
  MPI_Datatype type, outer, again, more;
  int pair[4] = {0, 0, 0, 0}, got[4] = {-1, -1, -1, -1}, numbers[3];
  MPI_Aint address;
  MPI_Request request;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  const MPI_Datatype kept = type;
  MPI_Irecv(got, 1, type, rank, 11, comm, &request);
  MPI_Type_contiguous(2, type, &outer);
  MPI_Type_free(&type);
  GIVES(MPI_ERR_TYPE, MPI_Send(pair, 1, kept, MPI_PROC_NULL, 1, comm));
  GIVES(MPI_ERR_TYPE, MPI_Recv(pair, 1, kept, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE));
  GIVES(MPI_ERR_TYPE, MPI_Bcast(pair, 1, kept, 0, comm));
  GIVES(MPI_ERR_TYPE, MPI_Type_size(kept, &value));
  GIVES(MPI_ERR_TYPE, MPI_Type_contiguous(2, kept, &more));
  GIVES(MPI_ERR_TYPE, MPI_Type_dup(kept, &more));
  GIVES(MPI_ERR_TYPE, MPI_Type_commit(&(MPI_Datatype){kept}));
  GIVES(MPI_ERR_TYPE, MPI_Type_free(&(MPI_Datatype){kept}));
  GIVES(MPI_ERR_TYPE, MPI_Type_set_name(kept, "gone"));
  MPI_Type_get_contents(outer, 1, 0, 1, numbers, &address, &again);
  SAYS("the contents of a type are a handle again",
       again == kept && MPI_Type_size(again, &value) == MPI_SUCCESS && value == 8);
  MPI_Type_free(&again);
  GIVES(MPI_ERR_TYPE, MPI_Type_size(kept, &value));
  MPI_Type_commit(&outer);
  MPI_Type_free(&outer);
  const int sent[2] = {5, 6};
  MPI_Send(sent, 2, MPI_INT, rank, 11, comm);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("a receive in flight ends with the type that was freed",
       got[0] == 5 && got[1] == -1 && got[2] == 6);
  GIVES(MPI_ERR_TYPE, MPI_Type_size(kept, &value));
}

static void freed_where_inner_types_lie(void) {
  if (open_mpi || mpich) return;
  MPI_Datatype old, made;
  MPI_Type_contiguous(2, MPI_INT, &old);
  const MPI_Datatype kept = old;
  MPI_Type_free(&old);
  MPI_Type_create_subarray(2, (int[]){4, 4}, (int[]){2, 2}, (int[]){1, 1}, MPI_ORDER_C, MPI_INT,
                           &made);
  SAYS("a type of an array has another handle than its rows", made != kept);
  GIVES(MPI_ERR_TYPE, MPI_Type_size(kept, &value));
  MPI_Type_free(&made);
  GIVES(MPI_ERR_TYPE, MPI_Type_size(kept, &value));
}

static int size_seen;
static void add_pairs(void* in, void* inout, int* count, MPI_Datatype* type) {
  if (MPI_Type_size(*type, &size_seen) != MPI_SUCCESS) size_seen = -1;
  for (int i = 0; i < *count; ++i) {
    ((int*)inout)[4 * i] += ((int*)in)[4 * i];
    ((int*)inout)[4 * i + 2] += ((int*)in)[4 * i + 2];
  }
}

static void freed_operations(void) {
  if (open_mpi || mpich) return;
  MPI_Op op;
  MPI_Datatype type, wide;
  MPI_Request request;
  MPI_Op_create(add_pairs, 1, &op);
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_create_resized(type, 0, 4 * sizeof(int), &wide);
  MPI_Type_commit(&wide);
  const int mine[4] = {rank, 0, 1, 0};
  int sums[4] = {-1, -1, -1, -1};
  const MPI_Op kept = op;
  const MPI_Datatype kept_type = wide;
  MPI_Iallreduce(mine, sums, 1, wide, op, comm, &request);
  MPI_Op_free(&op);
  MPI_Type_free(&wide);
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("a reduction in flight ends with operation and type that were freed",
       sums[0] == size * (size - 1) / 2 && sums[1] == -1 && sums[2] == size);
  SAYS("and its function may ask about the type", size == 1 || size_seen == 8);
  GIVES(MPI_ERR_TYPE, MPI_Type_size(kept_type, &value));
  GIVES(MPI_ERR_OP, MPI_Allreduce(mine, sums, 1, MPI_INT, kept, comm));
  GIVES(MPI_ERR_OP, MPI_Reduce_local(mine, sums, 1, MPI_INT, kept));
  GIVES(MPI_ERR_OP, MPI_Op_commutative(kept, &value));
  GIVES(MPI_ERR_OP, MPI_Op_free(&(MPI_Op){kept}));
}

static void freed_groups(void) {
  if (open_mpi || mpich) return;
  MPI_Group group, second, result;
  MPI_Comm made;
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(comm, &second);
  const MPI_Group kept = group;
  MPI_Group_free(&group);
  SAYS("a group is there while one of its handles is",
       MPI_Group_size(second, &value) == MPI_SUCCESS && value == size);
  MPI_Group_free(&second);
  GIVES(MPI_ERR_GROUP, MPI_Group_size(kept, &value));
  GIVES(MPI_ERR_GROUP, MPI_Group_union(kept, MPI_GROUP_EMPTY, &result));
  GIVES(MPI_ERR_GROUP, MPI_Comm_create(comm, kept, &made));
  GIVES(MPI_ERR_GROUP, MPI_Group_free(&(MPI_Group){kept}));
  MPI_Comm_group(comm, &group);
  MPI_Group_incl(group, 1, (int[]){0}, &second);
  MPI_Group_free(&group);
  const MPI_Group of_one = second;
  MPI_Group_free(&second);
  GIVES(MPI_ERR_GROUP, MPI_Group_rank(of_one, &value));
}

static void freed_hints(void) {
  if (open_mpi || mpich) return;
  MPI_Info info, copy;
  MPI_Comm made;
  MPI_Info_create(&info);
  const MPI_Info kept = info;
  MPI_Info_free(&info);
  GIVES(MPI_ERR_INFO, MPI_Info_set(kept, "key", "value"));
  GIVES(MPI_ERR_INFO, MPI_Info_get_nkeys(kept, &value));
  GIVES(MPI_ERR_INFO, MPI_Info_dup(kept, &copy));
  GIVES(MPI_ERR_INFO, MPI_Comm_set_info(comm, kept));
  GIVES(MPI_ERR_INFO, MPI_Comm_dup_with_info(comm, kept, &made));
  GIVES(MPI_ERR_INFO, MPI_Info_free(&(MPI_Info){kept}));
  void* memory = NULL;
  MPI_Request request;
  GIVES(MPI_ERR_INFO, MPI_Alloc_mem(8, kept, &memory));
  GIVES(MPI_ERR_INFO, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, kept, &made));
  GIVES(MPI_ERR_INFO, MPI_Dist_graph_create_adjacent(comm, 0, NULL, MPI_UNWEIGHTED, 0, NULL,
                                                     MPI_UNWEIGHTED, kept, 0, &made));
  GIVES(MPI_ERR_INFO,
        MPI_Dist_graph_create(comm, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, kept, 0, &made));
#if MPI_VERSION >= 4
  GIVES(MPI_ERR_INFO, MPI_Barrier_init(comm, kept, &request));
  GIVES(MPI_ERR_INFO, MPI_Bcast_init(&value, 1, MPI_INT, 0, comm, kept, &request));
#else
  (void)request;
#endif
  MPI_Comm_dup(comm, &made);
  MPI_Info_create(&info);
  MPI_Info_create(&copy);
  const MPI_Info second = copy;
  MPI_Info_free(&copy);
  MPI_Comm_set_info(made, info);  // its own hints may lie where the second was
  GIVES(MPI_ERR_INFO, MPI_Info_set(second, "key", "value"));
  MPI_Info_free(&info);
  MPI_Comm_free(&made);
}

static void freed_handlers(void) {
#if MPI_VERSION >= 5  // their class came with 4.1
  if (open_mpi || mpich) return;
  MPI_Errhandler mine, got;
  MPI_Comm with;
  MPI_Comm_dup(comm, &with);
  MPI_Comm_create_errhandler(handler, &mine);
  const MPI_Errhandler kept = mine;
  MPI_Comm_set_errhandler(with, mine);
  MPI_Errhandler_free(&mine);
  GIVES(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(comm, kept));
  GIVES(MPI_ERR_ERRHANDLER, MPI_Errhandler_free(&(MPI_Errhandler){kept}));
  MPI_Comm_get_errhandler(with, &got);
  SAYS("the handler of a communicator is a handle again",
       got == kept && MPI_Comm_set_errhandler(with, got) == MPI_SUCCESS);
  MPI_Errhandler_free(&got);
  MPI_Comm_free(&with);
  GIVES(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(comm, kept));
#endif
}

static void freed_communicators(void) {
  if (open_mpi || mpich) return;
  MPI_Comm copy, second;
  MPI_Request request;
  int got = -1;
  MPI_Comm_dup(comm, &copy);
  MPI_Irecv(&got, 1, MPI_INT, rank, 12, copy, &request);
  MPI_Send(&rank, 1, MPI_INT, rank, 12, copy);
  const MPI_Comm kept = copy;
  MPI_Comm_free(&copy);
  GIVES(MPI_ERR_COMM, MPI_Comm_rank(kept, &value));
  GIVES(MPI_ERR_COMM, MPI_Send(&rank, 1, MPI_INT, rank, 13, kept));
  GIVES(MPI_ERR_COMM, MPI_Barrier(kept));
  GIVES(MPI_ERR_COMM, MPI_Comm_dup(kept, &second));
  GIVES(MPI_ERR_COMM, MPI_Comm_compare(comm, kept, &value));
  GIVES(MPI_ERR_COMM, MPI_Comm_free(&(MPI_Comm){kept}));
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  SAYS("a receive in flight ends on a communicator that was freed", got == rank);
  GIVES(MPI_ERR_COMM, MPI_Comm_rank(kept, &value));
}

static MPI_Comm freed_by_handler, made_by_handler;
static int frees_in_handler;
static void free_where(MPI_Comm* where, int* code, ...) {
  freed_by_handler = *where;
  MPI_Comm_free(where);
  ++frees_in_handler;
  if (*code == MPI_ERR_TOPOLOGY) MPI_Comm_dup(MPI_COMM_SELF, &made_by_handler);
}

static void freed_by_their_handlers(void) {
  if (open_mpi || mpich) return;
  MPI_Errhandler freeing;
  MPI_Request request, second;
  MPI_Comm with;
  int got[3] = {-1, -1, -1};
  MPI_Comm_create_errhandler(free_where, &freeing);
  for (int makes = 0; makes < 2; ++makes) {
    for (int calls = 0; calls < 2; ++calls) {
      MPI_Comm_dup(MPI_COMM_SELF, &with);
      MPI_Comm_set_errhandler(with, freeing);
      frees_in_handler = 0;
      if (calls) MPI_Comm_call_errhandler(with, makes ? MPI_ERR_TOPOLOGY : MPI_ERR_RANK);
      else if (makes) MPI_Cartdim_get(with, &value);
      else MPI_Send(&value, 1, MPI_INT, 3, 1, with);
      SAYS("a handler may free its communicator", frees_in_handler == 1);
      GIVES(MPI_ERR_COMM, MPI_Comm_size(freed_by_handler, &value));
      if (!makes) continue;
      SAYS("and make another one",
           MPI_Comm_size(made_by_handler, &value) == MPI_SUCCESS && value == 1);
      MPI_Comm_free(&made_by_handler);
    }
  }
  // The program has freed its own handle; the handler frees the one that it is lent.
  MPI_Comm_dup(MPI_COMM_SELF, &with);
  MPI_Comm_set_errhandler(with, freeing);
  MPI_Irecv(&got[0], 1, MPI_INT, 0, 14, with, &request);
  MPI_Irecv(&got[1], 2, MPI_INT, 0, 15, with, &second);
  MPI_Send((int[]){4, 5}, 2, MPI_INT, 0, 14, with);
  MPI_Send((int[]){6}, 1, MPI_INT, 0, 15, with);
  MPI_Comm_free(&with);
  frees_in_handler = 0;
  GIVES(MPI_ERR_TRUNCATE, MPI_Wait(&request, MPI_STATUS_IGNORE));
  SAYS("a handler may free the handle that it is lent", frees_in_handler == 1 && got[0] == 4);
  MPI_Comm_dup(MPI_COMM_SELF, &with);  // where the other one was, if it had gone
  SAYS("the communicator stays for what is in flight",
       MPI_Wait(&second, MPI_STATUS_IGNORE) == MPI_SUCCESS && got[1] == 6);
  MPI_Comm_free(&with);
  MPI_Errhandler_free(&freeing);
}

static void freed_keys(void) {
  int key, flag = -1;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  const int kept = key;
  MPI_Comm_free_keyval(&key);
  if (open_mpi || mpich) return;
  GIVES(MPI_ERR_KEYVAL, MPI_Comm_set_attr(comm, kept, &value));
  GIVES(MPI_ERR_KEYVAL, MPI_Comm_get_attr(comm, kept, &value, &flag));
  GIVES(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&(int){kept}));
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  // Errors without a communicator go to the world's handler, or that of MPI_COMM_SELF.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const Scenario scenarios[] = {
      {"arguments_of_messages", arguments_of_messages, 1},
      {"arguments_of_collectives", arguments_of_collectives, 1},
      {"arguments_of_the_rest", arguments_of_the_rest, 1},
      {"results_that_are_null", results_that_are_null, 1},
      {"results_of_requests_that_are_null", results_of_requests_that_are_null, 1},
      {"lists_that_are_null", lists_that_are_null, 1},
      {"handlers", handlers, 1},
      {"functions_that_are_missing", functions_that_are_missing, 1},
      {"texts", texts, 1},
      {"in_lists", in_lists, 1},
      {"freed_types", freed_types, 1},
      {"freed_where_inner_types_lie", freed_where_inner_types_lie, 1},
      {"freed_operations", freed_operations, 1},
      {"freed_groups", freed_groups, 1},
      {"freed_hints", freed_hints, 1},
      {"freed_handlers", freed_handlers, 1},
      {"freed_communicators", freed_communicators, 1},
      {"freed_by_their_handlers", freed_by_their_handlers, 1},
      {"freed_keys", freed_keys, 1},
  };
  return RUN_SCENARIOS(scenarios, argc, argv);
}

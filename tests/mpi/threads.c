// SPDX-License-Identifier: MIT
// Threads that are in MPI at once (MPI 5.0, 11.6.1): the outcome is as if their calls had been made
// in some order. Objects of their own, and one object that all of them use.
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { threads = 4, turns = 200 };

static pthread_barrier_t together;

typedef struct Thread {
  int index;
  void (*run)(int index);
} Thread;

static void* run_thread(void* argument) {
  const Thread* const thread = argument;
  pthread_barrier_wait(&together);
  thread->run(thread->index);
  return NULL;
}
static void at_once(void (*run)(int index)) {
  pthread_t started[threads];
  Thread all[threads];
  pthread_barrier_init(&together, NULL, threads);
  for (int i = 0; i < threads; ++i) {
    all[i] = (Thread){i, run};
    pthread_create(&started[i], NULL, run_thread, &all[i]);
  }
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  pthread_barrier_destroy(&together);
}
static _Atomic int wrong;  // SAYS counts without a lock: threads count here
static void expect(int holds) {
  if (!holds) atomic_fetch_add(&wrong, 1);
}
static int none_wrong(void) { return atomic_exchange(&wrong, 0) == 0; }

// ---- objects of their own ----

static int plus_function_calls;
static void plus(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
  ++plus_function_calls;
}
static void ignore(MPI_Comm* comm, int* code, ...) { (void)comm, (void)code; }

static void make_and_free(int index) {
  for (int turn = 0; turn < turns; ++turn) {
    MPI_Datatype type, copy, pair;
    MPI_Type_vector(2 + index, 1, 3, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_dup(type, &copy);
    int bytes = -1;
    MPI_Type_size(copy, &bytes);
    expect(bytes == (2 + index) * (int)sizeof(int));
    MPI_Type_contiguous(2, copy, &pair);
    MPI_Type_free(&type);
    MPI_Type_free(&copy);
    MPI_Type_free(&pair);

    MPI_Op op;
    MPI_Op_create(plus, index % 2, &op);
    int commutes = -1;
    MPI_Op_commutative(op, &commutes);
    expect(commutes == index % 2);
    MPI_Op_free(&op);

    MPI_Group all, mine;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &rank, &mine);
    int own_rank = -1;
    MPI_Group_rank(mine, &own_rank);
    expect(own_rank == 0);
    MPI_Group_free(&mine);
    MPI_Group_free(&all);

    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info again = MPI_Info_f2c(MPI_Info_c2f(info));
    expect(again == info);
    MPI_Info_free(&info);

    int key = MPI_KEYVAL_INVALID, error_class = -1, error_code = -1;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_free_keyval(&key);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(ignore, &handler);
    MPI_Errhandler_free(&handler);
    if (turn % 20 == 0) {
      MPI_Add_error_class(&error_class);
      MPI_Add_error_code(error_class, &error_code);
      MPI_Add_error_string(error_code, "ours");
      expect(class_of(error_code) == error_class);
    }
    MPI_Request send, receive;
    int out = turn, in = -1;
    MPI_Irecv(&in, 1, MPI_INT, rank, index, MPI_COMM_WORLD, &receive);
    MPI_Isend(&out, 1, MPI_INT, rank, index, MPI_COMM_WORLD, &send);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    expect(in == turn);
  }
}
static void objects_of_their_own(void) {
  at_once(make_and_free);
  SAYS("threads make and free objects at once", none_wrong());
}

// ---- attributes of one object ----

static int own_key[threads], type_key[threads], shared_key = MPI_KEYVAL_INVALID;

static void set_own(int index) {
  for (int turn = 0; turn < turns; ++turn) {
    int flag = -1;
    int* value = NULL;
    MPI_Comm_set_attr(MPI_COMM_SELF, own_key[index], &own_key[index]);
    MPI_Comm_get_attr(MPI_COMM_SELF, own_key[index], &value, &flag);
    expect(flag == 1 && value == &own_key[index]);
    MPI_Comm_delete_attr(MPI_COMM_SELF, own_key[index]);
    MPI_Comm_get_attr(MPI_COMM_SELF, own_key[index], &value, &flag);
    expect(flag == 0);
    MPI_Type_set_attr(MPI_INT, type_key[index], &type_key[index]);
    MPI_Type_get_attr(MPI_INT, type_key[index], &value, &flag);
    expect(flag == 1 && value == &type_key[index]);
    MPI_Type_delete_attr(MPI_INT, type_key[index]);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    expect(flag == 1 && *value >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
    expect(flag == 0 || *value > 0);
  }
}
static void attributes_of_one_object(void) {
  for (int i = 0; i < threads; ++i) {
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &own_key[i], NULL);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &type_key[i], NULL);
  }
  at_once(set_own);
  SAYS("threads set, get and delete attributes of one object", none_wrong());
  for (int i = 0; i < threads; ++i) {
    MPI_Comm_free_keyval(&own_key[i]);
    MPI_Type_free_keyval(&type_key[i]);
  }
}

static _Atomic int deletions_of[threads * turns];
static int count_deletion(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)state;
  atomic_fetch_add(&deletions_of[(MPI_Aint)value], 1);
  return MPI_SUCCESS;
}
static void set_shared(int index) {
  for (int turn = 0; turn < turns; ++turn) {
    MPI_Comm_set_attr(MPI_COMM_SELF, shared_key, (void*)(MPI_Aint)(index * turns + turn));
    if (turn % 8 == 7) MPI_Comm_delete_attr(MPI_COMM_SELF, shared_key);
  }
}
static void values_under_one_key(void) {
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletion, &shared_key, NULL);
  // Open MPI makes an error of it where another thread has deleted the attribute before.
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  at_once(set_shared);
  MPI_Comm_delete_attr(MPI_COMM_SELF, shared_key);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  int once = 0;
  for (int i = 0; i < threads * turns; ++i) once += deletions_of[i] == 1;
  if (!open_mpi && !mpich)
    SAYS("each value that threads set under one key is deleted once", once == threads * turns);
  MPI_Comm_free_keyval(&shared_key);
}

// A value says whether it lives: none is copied that is dead.
static _Atomic int lives[threads * turns];
static int copy_living(MPI_Comm comm, int key, void* state, void* value, void* new_value,
                       int* flag) {
  (void)comm, (void)key, (void)state, (void)new_value;
  expect(lives[(MPI_Aint)value]);
  *flag = 0;
  return MPI_SUCCESS;
}
static int kill_value(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)state;
  lives[(MPI_Aint)value] = 0;
  return MPI_SUCCESS;
}
static void set_or_copy(int index) {
  for (int turn = 0; turn < turns; ++turn) {
    if (index == 0) {  // of one communicator only one thread at a time makes copies
      MPI_Comm copy;
      MPI_Comm_dup(MPI_COMM_SELF, &copy);
      MPI_Comm_free(&copy);
      continue;
    }
    const int value = index * turns + turn;
    lives[value] = 1;
    MPI_Comm_set_attr(MPI_COMM_SELF, shared_key, (void*)(MPI_Aint)value);
  }
}
static void copies_of_what_changes(void) {
  MPI_Comm_create_keyval(copy_living, kill_value, &shared_key, NULL);
  at_once(set_or_copy);
  const int copied_living = none_wrong();
  if (!open_mpi && !mpich)
    SAYS("a communicator is copied while threads set its attributes", copied_living);
  MPI_Comm_delete_attr(MPI_COMM_SELF, shared_key);
  MPI_Comm_free_keyval(&shared_key);
}

// The function of one attribute waits for a thread that uses another one.
static _Atomic int function_runs, other_is_done;
static int wait_for_other(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)value, (void)state;
  function_runs = 1;
  while (!other_is_done) usleep(100);
  return MPI_SUCCESS;
}
static void wait_or_use(int index) {
  if (index == 0) {
    MPI_Comm_delete_attr(MPI_COMM_SELF, shared_key);
    return;
  }
  if (index != 1) return;
  while (!function_runs) usleep(100);
  void* value = NULL;
  int flag = -1;
  MPI_Comm_set_attr(MPI_COMM_SELF, own_key[0], &flag);
  MPI_Comm_get_attr(MPI_COMM_SELF, own_key[0], &value, &flag);
  expect(flag == 1 && value == &flag);
  MPI_Comm_delete_attr(MPI_COMM_SELF, own_key[0]);
  other_is_done = 1;
}
static void functions_that_wait(void) {
  if (open_mpi) return;  // its lock is held while a function runs
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_for_other, &shared_key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &own_key[0], NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, shared_key, NULL);
  at_once(wait_or_use);
  SAYS("a function of an attribute may wait for a thread that uses another one", none_wrong());
  MPI_Comm_free_keyval(&shared_key);
  MPI_Comm_free_keyval(&own_key[0]);
}

// ---- the rest of what one object has ----

static MPI_Info shared_info;
static const char* const texts[threads] = {"of the first", "second", "a third one's", "4"};
static int is_one_of_them(const char* text) {
  for (int i = 0; i < threads; ++i)
    if (strcmp(text, texts[i]) == 0) return 1;
  return 0;
}
static void set_all(int index) {
  char text[MPI_MAX_OBJECT_NAME];
  char key[] = {'k', (char)('0' + index), '\0'};
  int length = -1, flag = -1;
  for (int turn = 0; turn < turns; ++turn) {
    MPI_Comm_set_name(MPI_COMM_SELF, texts[index]);
    MPI_Comm_get_name(MPI_COMM_SELF, text, &length);
    expect(is_one_of_them(text) && length == (int)strlen(text));
    MPI_Type_set_name(MPI_DOUBLE, texts[index]);
    MPI_Type_get_name(MPI_DOUBLE, text, &length);
    expect(is_one_of_them(text));
    MPI_Info_set(shared_info, "key", texts[index]);
    MPI_Info_get(shared_info, "key", sizeof text - 1, text, &flag);
    expect(flag == 1 && is_one_of_them(text));
    MPI_Info_set(shared_info, key, texts[index]);
    MPI_Info_get(shared_info, key, sizeof text - 1, text, &flag);
    expect(flag == 1 && strcmp(text, texts[index]) == 0);
    MPI_Info_delete(shared_info, key);
    MPI_Info copy;
    MPI_Info_dup(shared_info, &copy);
    MPI_Info_free(&copy);
    MPI_Info_get(MPI_INFO_ENV, "command", sizeof text - 1, text, &flag);
    MPI_Comm_get_info(MPI_COMM_SELF, &copy);
    MPI_Info_free(&copy);
    MPI_Errhandler before, handler;
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &before);
    MPI_Errhandler_free(&before);
    MPI_Comm_create_errhandler(ignore, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    // The error goes to whichever handler is there; all of them return.
    expect(MPI_Send(&turn, 1, MPI_INT, 17, 0, MPI_COMM_SELF) != MPI_SUCCESS);
  }
}
static void one_object_of_all(void) {
  if (open_mpi) return;  // it calls handlers that another thread has freed
  MPI_Info_create(&shared_info);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Info_set(shared_info, "key", texts[0]);
  at_once(set_all);
  SAYS("threads change names, hints and error handlers of one object", none_wrong());
  MPI_Info_free(&shared_info);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

// Each thread has a promise of its own: what it sets nobody else takes back.
static MPI_Comm shared_comm;
static void promise(int index) {
  static const char* const promises[threads] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source",
                                                "mpi_assert_exact_length",
                                                "mpi_assert_allow_overtaking"};
  char text[8];
  for (int turn = 0; turn < 50 * turns; ++turn) {
    const char* const value = turn % 2 == 0 ? "true" : "false";
    int flag = 0;
    MPI_Info info, got;
    MPI_Info_create(&info);
    MPI_Info_set(info, promises[index], value);
    MPI_Comm_set_info(shared_comm, info);
    MPI_Info_free(&info);
    MPI_Comm_get_info(shared_comm, &got);
    MPI_Info_get(got, promises[index], sizeof text - 1, text, &flag);
    MPI_Info_free(&got);
    expect(flag == 1 && strcmp(text, value) == 0);
  }
}
static void promises_of_all(void) {
  if (open_mpi || mpich) return;  // which keep others
  MPI_Comm_dup(MPI_COMM_SELF, &shared_comm);
  at_once(promise);
  SAYS("no thread's promise is lost where another one gives one", none_wrong());
  MPI_Comm_free(&shared_comm);
}

static void commit_shared(int index) {
  static MPI_Datatype type;
  for (int turn = 0; turn < turns; ++turn) {
    if (index == 0) MPI_Type_contiguous(3, MPI_INT, &type);
    pthread_barrier_wait(&together);
    MPI_Datatype own = type;
    MPI_Type_commit(&own);
    int flag = -1;
    MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    expect(flag == 0);
    pthread_barrier_wait(&together);
    if (index == 0) MPI_Type_free(&type);
  }
}
static void one_type_of_all(void) {
  at_once(commit_shared);
  SAYS("threads commit one type", none_wrong());
}

int main(int argc, char** argv) {
  begin_at(MPI_THREAD_MULTIPLE, &argc, &argv);
  const Scenario scenarios[] = {{"objects_of_their_own", objects_of_their_own, 1},
                                {"attributes_of_one_object", attributes_of_one_object, 1},
                                {"values_under_one_key", values_under_one_key, 1},
                                {"copies_of_what_changes", copies_of_what_changes, 1},
                                {"functions_that_wait", functions_that_wait, 1},
                                {"one_object_of_all", one_object_of_all, 1},
                                {"promises_of_all", promises_of_all, 1},
                                {"one_type_of_all", one_type_of_all, 1}};
  return RUN_SCENARIOS(scenarios, argc, argv);
}

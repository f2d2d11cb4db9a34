// SPDX-License-Identifier: MIT
// How programs end: what may be called before MPI_Init and after MPI_Finalize, what is left behind,
// and what ends all ranks. The first argument chooses; the exit code and the text are looked at
// from outside (CMakeLists.txt).
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

static void allowed_outside(const char* when) {
  int flag = -1, version = -1, subversion = -1, length = -1;
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Initialized(&flag);
  SAYS(when, flag == (strcmp(when, "before") != 0));
  MPI_Finalized(&flag);
  SAYS(when, flag == (strcmp(when, "after") == 0));
  MPI_Get_version(&version, &subversion);
  SAYS(when, version == MPI_VERSION && subversion == MPI_SUBVERSION);
  MPI_Get_library_version(text, &length);
  SAYS(when, length > 0);
}

static int deleted_last_one;
static int deleted_behind_it(MPI_Comm comm, int key, void* value, void* state) {
  (void)comm, (void)key, (void)value, (void)state;
  if (!deleted_last_one) {
    fprintf(stderr, "the attribute that was set last is not the first to go\n");
    exit(3);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  return MPI_SUCCESS;
}

static int left_alone(MPI_Comm comm, int key, void* value, void* state) {
  int finalized = -1;
  (void)comm, (void)key, (void)state;
  MPI_Finalized(&finalized);
  if (value == NULL) return MPI_SUCCESS;  // set again
  deleted_last_one = 1;
  if (!finalized) printf("%s\n", (const char*)value);
  fflush(stdout);
  return MPI_SUCCESS;
}

// Everything that a program may forget.
static void leave_behind(void) {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_disable();  // it is meant so
#endif
  static int data[2], sent;
  MPI_Comm copy, part;
  MPI_Group group;
  MPI_Datatype type;
  MPI_Request requests[4];
  MPI_Info info;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &part);
  MPI_Comm_group(part, &group);
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Info_create(&info);
  MPI_Irecv(data, 1, MPI_INT, MPI_ANY_SOURCE, 99, copy, &requests[0]);  // nothing comes
  MPI_Recv_init(data, 1, MPI_INT, 0, 98, copy, &requests[1]);
  MPI_Send_init(data, 1, MPI_INT, 0, 98, MPI_COMM_WORLD, &requests[2]);
  sent = rank;
  MPI_Isend(&sent, 1, MPI_INT, (rank + 1) % size, 97, MPI_COMM_WORLD,
            &requests[3]);  // arrives, and nobody waits for it
  MPI_Recv(&data[1], 1, MPI_INT, (rank + size - 1) % size, 97, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int* memory;
  MPI_Alloc_mem(100, MPI_INFO_NULL, &memory);
#if defined(__SANITIZE_ADDRESS__)
  __lsan_enable();
#endif
}

static void hang(void) {  // until somebody ends all
  int never;
  MPI_Recv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void* other_thread(void* argument) {
  int main_thread = -1;
  MPI_Is_thread_main(&main_thread);
  *(int*)argument = main_thread;
  return NULL;
}

static void* exchange(void* argument) {  // with the thread of the same number of the next rank
  const int tag = *(const int*)argument;
  for (int i = 0; i < 200; ++i) {
    int got = -1, mine = tag * 1000 + rank + i;
    MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, tag, &got, 1, MPI_INT,
                 (rank + size - 1) % size, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    SAYS("threads exchange at once", got == tag * 1000 + (rank + size - 1) % size + i);
  }
  return NULL;
}

static void threads(int* argc, char*** argv) {
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                        MPI_THREAD_MULTIPLE};
  SAYS("levels are in order",
       levels[0] < levels[1] && levels[1] < levels[2] && levels[2] < levels[3]);
  const int wanted = levels[*argc > 2 ? atoi((*argv)[2]) : 3];
  int provided = -1, asked = -1, main_thread = -1, elsewhere = -1;
  MPI_Init_thread(argc, argv, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  SAYS("a level is provided", provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
  MPI_Query_thread(&asked);
  SAYS("Query_thread says the same", asked == provided);
  MPI_Is_thread_main(&main_thread);
  pthread_t thread;
  pthread_create(&thread, NULL, other_thread, &elsewhere);
  pthread_join(thread, NULL);
  SAYS("Is_thread_main knows the thread of Init", main_thread == 1 && elsewhere == 0);
  if (wanted == MPI_THREAD_MULTIPLE && provided == MPI_THREAD_MULTIPLE) {
    enum { count = 3 };
    pthread_t several[count];
    int tags[count];
    for (int i = 0; i < count; ++i) {
      tags[i] = i;
      pthread_create(&several[i], NULL, exchange, &tags[i]);
    }
    for (int i = 0; i < count; ++i) pthread_join(several[i], NULL);
  }
  if (rank == 0) printf("threads: asked for %d, got %d\n", wanted, provided);
}

// Whatever a thread keeps between calls is there still: what it has freed would be written by
// these, and what the program has been given since then.
static void last_calls(void) {
  enum { most = 64 };
  int data[most], counts[most], displacements[most], at[2] = {-1, -1}, length = 0;
  char* given[200];
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Request requests[2];
  if (size > most) exit(1);  // NOLINT(concurrency-mt-unsafe): one thread
  for (int i = 0; i < size; ++i) counts[i] = 1, displacements[i] = i;
  for (int i = 0; i < 200; ++i) given[i] = memset(malloc(8U * (unsigned)(i + 1)), 7, 8U * (i + 1));
  for (int round = 0; round < 20; ++round) {
    MPI_Gatherv(&rank, 1, MPI_INT, data, counts, displacements, MPI_INT, 0, MPI_COMM_WORLD);
    SAYS("Gatherv at exit", rank != 0 || data[size - 1] == size - 1);
    MPI_Alltoallv(counts, counts, displacements, MPI_INT, data, counts, displacements, MPI_INT,
                  MPI_COMM_WORLD);
    SAYS("Alltoallv at exit", data[0] == 1);
    MPI_Irecv(&at[0], 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &length, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    SAYS("Waitany at exit", at[0] == (rank + size - 1) % size);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int code = MPI_Send(&rank, 1, MPI_INT, size, 1, MPI_COMM_WORLD);
  MPI_Error_string(code, text, &length);
  SAYS("the text of an error at exit", strstr(text, "MPI_Send") != NULL);
  SAYS("a handle in Fortran", MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT);
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 8 * (i + 1); ++k)
      SAYS("memory of the program's is its own", given[i][k] == 7);
    free(given[i]);
  }
  MPI_Finalize();
  if (failures > 0) _exit(1);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "allowed";
  signal(SIGALRM, ran_out_of_time);
  alarm(RUN_SECONDS_MAX);
  scenario_now = what;
  if (strcmp(what, "early") == 0) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(what, "allowed") == 0) allowed_outside("before");
  if (strcmp(what, "threads") == 0) threads(&argc, &argv);
  else if (strcmp(what, "without_arguments") == 0) MPI_Init(NULL, NULL);
  else MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "allowed") == 0) allowed_outside("between");
  if (strcmp(what, "leaks") == 0) leave_behind();
  if (strcmp(what, "callback") == 0) {
    int key, other;
    static char text[] = "the attribute of MPI_COMM_SELF goes first";
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, left_alone, &key, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted_behind_it, &other, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, other, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, text);
  }
  if (strcmp(what, "abort") == 0) {
    if (rank == size - 1) MPI_Abort(MPI_COMM_WORLD, 7);
    hang();
  }
  if (strcmp(what, "abort_self") == 0) {
    if (rank == size - 1) MPI_Abort(MPI_COMM_SELF, 9);
    hang();
  }
  if (strcmp(what, "fatal") == 0) {
    if (rank == size - 1) MPI_Send(&rank, 1, MPI_INT, size + 4, 1, MPI_COMM_WORLD);
    hang();
  }
  if (strcmp(what, "fatal_truncation") == 0) {
    int numbers[4] = {0, 0, 0, 0};
    if (rank == 0) MPI_Send(numbers, 4, MPI_INT, size - 1, 2, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Recv(numbers, 2, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    hang();
  }
  if (strcmp(what, "exits") == 0) {  // one rank leaves without MPI_Finalize, the others wait for it
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    if (rank == size - 1) exit(5);
    hang();
  }
  if (strcmp(what, "twice") == 0) MPI_Init(&argc, &argv);
  if (strcmp(what, "at_exit") == 0) {
    atexit(last_calls);
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int index, flag, lengths[64] = {0};
    MPI_Waitany(2, none, &index, MPI_STATUS_IGNORE);
    MPI_Testall(2, none, &flag, MPI_STATUSES_IGNORE);
    MPI_Gatherv(&rank, 0, MPI_INT, lengths, lengths, lengths, MPI_INT, 0, MPI_COMM_WORLD);
    return 0;
  }
  MPI_Finalize();
  if (strcmp(what, "allowed") == 0) allowed_outside("after");
  if (strcmp(what, "late") == 0) MPI_Barrier(MPI_COMM_WORLD);
  return failures == 0 ? 0 : 1;
}

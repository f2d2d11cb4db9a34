// SPDX-License-Identifier: MIT
// What the programs of this folder share. Each is a list of scenarios; a scenario is a list of
// sentences of the MPI standard, and whether they hold here. They are plain MPI, and are run under
// other implementations too (`under`): a sentence that one of those does not keep says so where it
// stands.
#pragma once

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(OPEN_MPI)
enum { open_mpi = 1, mpich = 0 };
#elif defined(MPICH)
enum { open_mpi = 0, mpich = 1 };
#else
enum { open_mpi = 0, mpich = 0 };
#endif

// What the standard has since then is not in the others.
#define MPI_IS_AT_LEAST(version, subversion) \
  (MPI_VERSION > (version) || (MPI_VERSION == (version) && MPI_SUBVERSION >= (subversion)))

static int rank, size, failures;

static void note(int holds, const char* sentence, const char* file, int line) {
  if (holds) return;
  ++failures;
  if (failures <= 20)
    fprintf(stderr, "%s:%d: rank %d of %d: not so: %s\n", file, line, rank, size, sentence);
}

#define SAYS(sentence, ...) note((__VA_ARGS__) ? 1 : 0, sentence, __FILE__, __LINE__)

// The class of an error code.
static inline int class_of(int code) {
  int error_class = -1;
  MPI_Error_class(code, &error_class);
  return error_class;
}

static inline int count_of(const MPI_Status* status, MPI_Datatype type) {
  int count = -1;
  MPI_Get_count(status, type, &count);
  return count;
}

// Source, tag and error that no call sets: what a call leaves alone is seen.
static inline MPI_Status untouched(void) {
  MPI_Status status;
  memset(&status, 0, sizeof status);
  status.MPI_SOURCE = -77;
  status.MPI_TAG = -78;
  status.MPI_ERROR = -79;
  return status;
}

// All that a send's status tells (MPI 3.7.3): its other fields are undefined.
static inline int is_uncancelled(const MPI_Status* status) {
  int cancelled = -1;
  MPI_Test_cancelled(status, &cancelled);
  return cancelled == 0;
}

// The status of nothing: of null and inactive requests.
static inline int is_empty(const MPI_Status* status) {
  return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG &&
         count_of(status, MPI_BYTE) == 0 && is_uncancelled(status);
}

#if !defined(RUN_SECONDS_MAX)
#define RUN_SECONDS_MAX 25
#endif

static const char* volatile scenario_now = "MPI_Init";

static inline void ran_out_of_time(int signal_number) {
  const char* const texts[] = {"out of time in scenario ", scenario_now, "\n"};
  for (int i = 0; i < 3; ++i)
    if (write(2, texts[i], strlen(texts[i])) < 0) break;
  _exit(128 + signal_number);
}

// A run that hangs ends.
static inline void begin_at(int thread_level, int* argc, char*** argv) {
  signal(SIGALRM, ran_out_of_time);
  alarm(RUN_SECONDS_MAX);
  int provided = MPI_THREAD_SINGLE;
  if (thread_level == MPI_THREAD_SINGLE) MPI_Init(argc, argv);
  else MPI_Init_thread(argc, argv, thread_level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  SAYS("there are threads as they were asked for", provided == thread_level);
}
static inline void begin(int* argc, char*** argv) { begin_at(MPI_THREAD_SINGLE, argc, argv); }

typedef struct Scenario {
  const char* name;
  void (*run)(void);
  int ranks_min;
} Scenario;

// A barrier between scenarios: what one leaves in flight would be its mistake, and not the next
// one's.
static inline int run_scenarios(const Scenario* scenarios, int count, int argc, char** argv) {
  for (int i = 0; i < count; ++i) {
    if (scenarios[i].ranks_min > size || (argc > 1 && strcmp(argv[1], scenarios[i].name) != 0))
      continue;
    const int before = failures;
    scenario_now = scenarios[i].name;
    scenarios[i].run();
    if (failures != before)
      fprintf(stderr, "rank %d of %d: in scenario %s\n", rank, size, scenarios[i].name);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  scenario_now = "MPI_Finalize";
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
#define RUN_SCENARIOS(scenarios, argc, argv) \
  run_scenarios(scenarios, (int)(sizeof(scenarios) / sizeof(scenarios)[0]), argc, argv)

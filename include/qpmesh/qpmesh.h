// SPDX-License-Identifier: MIT
// The library for C (C99 and later) and for every language that can call C. What each function does
// is what the C++ function of that name does (<qpmesh/qpmesh.hpp> says it in full); docs/c.md has
// both side by side, and the rules for bindings. There is nothing here but functions, plain structs
// and constants: a binding needs no C compiler, only the shared library.
//
// Functions return QPMESH_OK or a qpmesh_code; qpmesh_last_error() then says what happened, where,
// and what to do. Results are stored on success only, through pointers that come last. What a
// function makes belongs to the caller until its _free, which takes null too. One thread at a time
// uses what one init made, unless QPMESH_THREADS=several (docs/threads.md). A pointer to nothing is
// allowed where the count is 0. Vectors of an operation are the same memory where that is said to
// be in place, and have nothing in common otherwise.
#pragma once

#include <stddef.h>

#include "qpmesh/export.h"
#include "qpmesh/version.h"  // IWYU pragma: export

#ifdef __cplusplus
extern "C" {
#endif

// The ranks of a job, or a group of them, as this rank sees them.
typedef struct qpmesh_communicator qpmesh_communicator;
// An operation in flight, or one that is prepared for being started again and again.
typedef struct qpmesh_request qpmesh_request;
// A message that was matched, and is received later.
typedef struct qpmesh_message qpmesh_message;

// What the world or the caller did wrong: qpmesh::ErrorCode, plus one.
typedef enum qpmesh_code {
  QPMESH_OK = 0,
  QPMESH_BAD_ARGUMENT,    // arguments that cannot mean anything; nothing was sent, nothing consumed
  QPMESH_BAD_CONFIG,      // an option, an environment variable or an address that cannot be used
  QPMESH_NO_RESOURCE,     // memory, descriptors or another limit of this process or host
  QPMESH_AUTHENTICATION,  // the other side did not prove that it belongs to this job
  QPMESH_MISMATCH,   // ranks disagree: size, version, options, or the arguments of one collective
  QPMESH_TIMEOUT,    // a deadline passed; the peers concerned are alive as far as the kernel knows
  QPMESH_PEER_DEAD,  // a rank's process ended, or its host is gone
  QPMESH_LINK_FAILED,  // the connection to a rank failed while the rank lives
  QPMESH_TRUNCATED,    // a receive is smaller than its message; the message stays first in line
  QPMESH_ABORTED,      // a rank gave up
  QPMESH_CORRUPT,      // bytes from a peer that no correct peer sends
  QPMESH_INTERNAL      // everything that should not happen and was still survivable
} qpmesh_code;

// The code's own name, as in C++: "peer_dead"; "ok"; "unknown" of any other number. Lasts for ever.
QPMESH_API const char* qpmesh_code_name(int code);

// What this thread's last failed call met. Texts are never null, and stay until its next one.
typedef struct qpmesh_error {
  int code;               // qpmesh_code; QPMESH_OK before the first
  int peer;               // the rank that is to blame; -1: nobody in particular
  int system_error;       // errno of the failing call, or 0
  const char* operation;  // what was being done: "allreduce", "init"
  const char* cause;      // what was observed, with the values
  const char* hint;       // what to do next; may be ""
  const char* text;       // all of it in one line
} qpmesh_error;

// Never null. qpmesh_error_text() is its text: "" before the first.
QPMESH_API const qpmesh_error* qpmesh_last_error(void);
QPMESH_API const char* qpmesh_error_text(void);

// What elements are: one of these, or QPMESH_STRUCT + n for elements of n bytes. Bytes and structs
// can be moved, and are reduced by a user's function alone; the 16-bit floating types are their
// bits.
typedef int qpmesh_type;
enum {
  QPMESH_BYTE = 0,
  QPMESH_INT8,
  QPMESH_INT16,
  QPMESH_INT32,
  QPMESH_INT64,
  QPMESH_UINT8,
  QPMESH_UINT16,
  QPMESH_UINT32,
  QPMESH_UINT64,
  QPMESH_FLOAT32,
  QPMESH_FLOAT64,
  QPMESH_FLOAT16,
  QPMESH_BFLOAT16,
  QPMESH_STRUCT = 0x40000000
};

// How elements become one. Every rank gets the same bits. Integers wrap; bitwise reductions take
// integers; averages of integers truncate. MIN_LOCATED and MAX_LOCATED take elements
// struct {T value; int64_t place;} of the type T, not of 16 bits; of equal values the least place
// counts. USER is the function of qpmesh_call.
typedef int qpmesh_reduction;
enum {
  QPMESH_SUM = 0,
  QPMESH_PRODUCT,
  QPMESH_MIN,
  QPMESH_MAX,
  QPMESH_AVERAGE,
  QPMESH_BIT_AND,
  QPMESH_BIT_OR,
  QPMESH_BIT_XOR,
  QPMESH_LOGICAL_AND,
  QPMESH_LOGICAL_OR,
  QPMESH_LOGICAL_XOR,
  QPMESH_MIN_LOCATED,
  QPMESH_MAX_LOCATED,
  QPMESH_USER
};

// Whoever sends, whatever the tag. A partner that is not there, to whom nothing goes, and from whom
// an empty message comes at once. A color that joins no group. A timeout that never comes.
enum {
  QPMESH_ANY_SOURCE = -1,
  QPMESH_ANY_TAG = -1,
  QPMESH_NO_RANK = -2,
  QPMESH_NO_COLOR = -1,
  QPMESH_NO_TIMEOUT = -1
};

// inout[i] = left[i] op inout[i] for so many elements; associative. 0, or anything else when it
// failed: then the call is QPMESH_ABORTED, and the communicator fails on every rank. It may not
// call this library.
typedef int (*qpmesh_function)(void* context, const void* left, void* inout, size_t element_count);

// How one call is made: a pointer to it, or null, comes after the arguments of every call. Zeroed
// members are left to the library.
typedef struct qpmesh_call {
  size_t struct_bytes;       // sizeof(qpmesh_call): members that came later stay zero
  int timeout_ms;            // 0: QPMESH_TIMEOUT_MS; QPMESH_NO_TIMEOUT
  const char* algorithm;     // of a collective, the same on every rank; null: the best
  int synchronous;           // sends: over when a receive has taken the message
  int prepared;              // _async: not started; qpmesh_start does it, again and again
  qpmesh_function function;  // of QPMESH_USER
  void* context;             // for the function; it lasts as long as the call or its request
  int commutative;           // operands may come in any order; otherwise in the order of ranks
  int head;            // receives: of a message that is too long its head; the rest is dropped
  int null_when_over;  // _async sends: of one that is over when the call returns there is no
                       // request
} qpmesh_call;

// What a receive got, or what a probe saw. A pointer to it may be null.
typedef struct qpmesh_status {
  int source;    // rank of the sender
  int tag;       // of the message
  size_t bytes;  // of the message, which may be shorter than what was offered
} qpmesh_status;

// ---- the job ----

// How ranks find each other, where no launcher says so. Every rank calls all_gather equally often,
// with equal bytes, in init only: from all[r * bytes] on lies what rank r gave. It returns 0, or
// anything else when it failed or the time has passed: then init is QPMESH_INTERNAL, or
// QPMESH_TIMEOUT.
typedef struct qpmesh_bootstrap {
  int rank;  // of this process, from 0 on
  int size;  // how many there are
  // As above.
  int (*all_gather)(void* context, const void* mine, size_t bytes, void* all, int timeout_ms);
  void* context;        // for all_gather
  const char* address;  // of this host, in numbers, where ranks of others reach it; null: tried
} qpmesh_bootstrap;

// Joins the job that the launcher's environment describes; alone, a world of one.
QPMESH_API int qpmesh_init(qpmesh_communicator** world);
// options: a list that ends with null of texts as "QPMESH_TIMEOUT_MS=1000", with the names and
// values of docs/options.md; they win over the environment. bootstrap: used until init returns.
// Both may be null.
QPMESH_API int qpmesh_init_with(const char* const* options, const qpmesh_bootstrap* bootstrap,
                                qpmesh_communicator** world);
// Collective goodbye, for which the call's timeout counts. The communicator and the memory that it
// allocated are gone afterwards, also when this fails; null is allowed.
QPMESH_API int qpmesh_finalize(qpmesh_communicator* world, const qpmesh_call* call);
// Local: it only goes, with the memory that it allocated. Groups that others still use are theirs.
QPMESH_API int qpmesh_communicator_free(qpmesh_communicator* world);
// Any thread. Operations in flight and all later ones fail on every rank, with the reason.
QPMESH_API int qpmesh_abort(qpmesh_communicator* world, const char* reason);
// One step of everything that is in flight; never blocks.
QPMESH_API int qpmesh_progress(qpmesh_communicator* world);

// For event loops: a descriptor to poll, and, each time before it is polled, how long that may take
// (0: do not sleep). qpmesh_progress() behind it.
QPMESH_API int qpmesh_wait_fd(qpmesh_communicator* world, int* fd);
QPMESH_API int qpmesh_arm_wait(qpmesh_communicator* world, int* timeout_ms);

// For interpreters. Waits that begin from now on ask is_interrupted, in the thread that waits: when
// they have lasted 50 ms (at once behind a wait that was interrupted), and every 50 ms from then
// on. Where it says 1 they end with QPMESH_ABORTED of this rank, and leave what their deadline
// would. qpmesh_init asks, too. It says 1 until its caller has seen that. null, as at first: nobody
// is asked. It must not use the communicators of the context that waits. Any thread.
QPMESH_API void qpmesh_set_interrupt_check(int (*is_interrupted)(void));

// Who this rank is and how many there are; -1 when world is null.
QPMESH_API int qpmesh_rank(const qpmesh_communicator* world);
QPMESH_API int qpmesh_size(const qpmesh_communicator* world);

// ---- requests: what _async calls make ----

// The vectors belong to the operation until its end was told. Free the request afterwards: of one
// in flight that waits.

// One look. *done: whether it has ended; status is stored then.
QPMESH_API int qpmesh_test(qpmesh_request* request, int* done, qpmesh_status* status);
// Until it has ended, or its deadline.
QPMESH_API int qpmesh_wait(qpmesh_request* request, qpmesh_status* status);
// wait, and the request is gone, also when this fails.
QPMESH_API int qpmesh_wait_and_free(qpmesh_request* request, qpmesh_status* status);
// As test, but it waits so long.
QPMESH_API int qpmesh_wait_for(qpmesh_request* request, int limit_ms, int* done,
                               qpmesh_status* status);
// Lists may hold null, which counts as ended and told. wait_all: all of them, then the first error.
QPMESH_API int qpmesh_wait_all(qpmesh_request* const* requests, size_t count);
// One look: whether all have ended; their test or wait tells how.
QPMESH_API int qpmesh_test_all(qpmesh_request* const* requests, size_t count, int* done);
// One that has ended: its test or wait tells how, and it is passed over from then on. count: all
// ends were told; of test_any also: none has ended.
QPMESH_API int qpmesh_wait_any(qpmesh_request* const* requests, size_t count, size_t* index);
QPMESH_API int qpmesh_test_any(qpmesh_request* const* requests, size_t count, size_t* index);
// All that have ended, at least one; *found is 0 when all ends were told. indexes: count of them.
QPMESH_API int qpmesh_wait_some(qpmesh_request* const* requests, size_t count, size_t* indexes,
                                size_t* found);
// Takes a receive back that no message has come for. *taken_back is 0: it goes on, or has ended.
QPMESH_API int qpmesh_cancel(qpmesh_request* request, int* taken_back);
// function(context) is called once when the operation has ended: at once if it has, or by the call,
// or the progress thread, that finds the end, where it may call nothing of the library. At most one
// for a request.
QPMESH_API int qpmesh_on_end(qpmesh_request* request, void (*function)(void* context),
                             void* context);
// The operation is left to itself, and the request is gone: nobody is told its end. Its buffers are
// its own until qpmesh_finalize, or until qpmesh_on_end, which comes before, tells that it is over.
QPMESH_API int qpmesh_detach(qpmesh_request* request);
// Of a prepared one: begins it. If it was started before, qpmesh_wait, qpmesh_test or one of the
// calls that store an index must have told its end; qpmesh_test_all and qpmesh_on_end are not
// enough.
QPMESH_API int qpmesh_start(qpmesh_request* request);
// All of a list, in order, to the first error; those before it are started.
QPMESH_API int qpmesh_start_all(qpmesh_request* const* requests, size_t count);
QPMESH_API int qpmesh_request_free(qpmesh_request* request);

// ---- point to point ----

// Returns when data may be reused; a large send may wait for its receive. Tags are 0 and more.
QPMESH_API int qpmesh_send(qpmesh_communicator* world, const void* data, size_t count,
                           qpmesh_type type, int destination, int tag, const qpmesh_call* call);
QPMESH_API int qpmesh_send_async(qpmesh_communicator* world, const void* data, size_t count,
                                 qpmesh_type type, int destination, int tag,
                                 const qpmesh_call* call, qpmesh_request** request);
// The message must fit, and be of the type, or one of the two QPMESH_BYTE.
QPMESH_API int qpmesh_receive(qpmesh_communicator* world, void* data, size_t count,
                              qpmesh_type type, int source, int tag, const qpmesh_call* call,
                              qpmesh_status* status);
QPMESH_API int qpmesh_receive_async(qpmesh_communicator* world, void* data, size_t count,
                                    qpmesh_type type, int source, int tag, const qpmesh_call* call,
                                    qpmesh_request** request);
// Both at once, without the deadlock of doing them in turn.
QPMESH_API int qpmesh_sendrecv(qpmesh_communicator* world, const void* sent, size_t sent_count,
                               qpmesh_type sent_type, int to, int sent_tag, void* received,
                               size_t received_count, qpmesh_type received_type, int from,
                               int received_tag, const qpmesh_call* call, qpmesh_status* status);
QPMESH_API int qpmesh_sendrecv_async(qpmesh_communicator* world, const void* sent,
                                     size_t sent_count, qpmesh_type sent_type, int to, int sent_tag,
                                     void* received, size_t received_count,
                                     qpmesh_type received_type, int from, int received_tag,
                                     const qpmesh_call* call, qpmesh_request** request);
// The first message in line, left in line.
QPMESH_API int qpmesh_probe(qpmesh_communicator* world, int source, int tag,
                            const qpmesh_call* call, qpmesh_status* status);
QPMESH_API int qpmesh_try_probe(qpmesh_communicator* world, int source, int tag, int* found,
                                qpmesh_status* status);
// The same, taken out of the line; *message is null when try_match finds none. Who frees it without
// a receive puts it back.
QPMESH_API int qpmesh_match(qpmesh_communicator* world, int source, int tag,
                            const qpmesh_call* call, qpmesh_message** message,
                            qpmesh_status* status);
QPMESH_API int qpmesh_try_match(qpmesh_communicator* world, int source, int tag,
                                qpmesh_message** message, qpmesh_status* status);
QPMESH_API int qpmesh_message_receive(qpmesh_message* message, void* data, size_t count,
                                      qpmesh_type type, const qpmesh_call* call,
                                      qpmesh_status* status);
QPMESH_API int qpmesh_message_receive_async(qpmesh_message* message, void* data, size_t count,
                                            qpmesh_type type, const qpmesh_call* call,
                                            qpmesh_request** request);
QPMESH_API int qpmesh_message_free(qpmesh_message* message);

// ---- collectives ----

// Every rank calls the same ones in the same order, with the same counts, types, reductions and
// roots. What only the root has may be null on other ranks.

// A vector's blocks of unequal lengths, one for each rank, for the calls that end in v. The lists
// have size() entries, and are read during the call only; the memory lasts as long as the
// operation.
typedef struct qpmesh_blocks {
  void* data;                   // the vector; of a source it is only read
  const size_t* counts;         // elements of each block
  const size_t* displacements;  // where each begins, in elements; null: one behind the other
  void* const* ranges;          // instead of data and displacements: each block, wherever it lies
} qpmesh_blocks;

// Returns when every rank has called it.
QPMESH_API int qpmesh_barrier(qpmesh_communicator* world, const qpmesh_call* call);
QPMESH_API int qpmesh_barrier_async(qpmesh_communicator* world, const qpmesh_call* call,
                                    qpmesh_request** request);
// Every rank gets the root's data.
QPMESH_API int qpmesh_broadcast(qpmesh_communicator* world, void* data, size_t count,
                                qpmesh_type type, int root, const qpmesh_call* call);
QPMESH_API int qpmesh_broadcast_async(qpmesh_communicator* world, void* data, size_t count,
                                      qpmesh_type type, int root, const qpmesh_call* call,
                                      qpmesh_request** request);
// out[i] is the reduction of everybody's in[i]. In place: in == out.
QPMESH_API int qpmesh_allreduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                                qpmesh_type type, qpmesh_reduction reduction,
                                const qpmesh_call* call);
QPMESH_API int qpmesh_allreduce_async(qpmesh_communicator* world, const void* in, void* out,
                                      size_t count, qpmesh_type type, qpmesh_reduction reduction,
                                      const qpmesh_call* call, qpmesh_request** request);
// In place, of vector_count vectors of counts[i] elements as if by a call for each: short ones go
// together. All ranks give as many, of the same lengths. The lists are read during the call only.
QPMESH_API int qpmesh_allreduce_each(qpmesh_communicator* world, void* const* vectors,
                                     const size_t* counts, size_t vector_count, qpmesh_type type,
                                     qpmesh_reduction reduction, const qpmesh_call* call);
QPMESH_API int qpmesh_allreduce_each_async(qpmesh_communicator* world, void* const* vectors,
                                           const size_t* counts, size_t vector_count,
                                           qpmesh_type type, qpmesh_reduction reduction,
                                           const qpmesh_call* call, qpmesh_request** request);
// The same at the root alone; on other ranks out is not touched.
QPMESH_API int qpmesh_reduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                             qpmesh_type type, qpmesh_reduction reduction, int root,
                             const qpmesh_call* call);
QPMESH_API int qpmesh_reduce_async(qpmesh_communicator* world, const void* in, void* out,
                                   size_t count, qpmesh_type type, qpmesh_reduction reduction,
                                   int root, const qpmesh_call* call, qpmesh_request** request);
// in has size() blocks of count elements; out is block rank() of their reduction. In place: out is
// that block of in.
QPMESH_API int qpmesh_reduce_scatter(qpmesh_communicator* world, const void* in, void* out,
                                     size_t count, qpmesh_type type, qpmesh_reduction reduction,
                                     const qpmesh_call* call);
QPMESH_API int qpmesh_reduce_scatter_async(qpmesh_communicator* world, const void* in, void* out,
                                           size_t count, qpmesh_type type,
                                           qpmesh_reduction reduction, const qpmesh_call* call,
                                           qpmesh_request** request);
// All ranks give counts alone, or none does. count: of this rank's.
QPMESH_API int qpmesh_reduce_scatterv(qpmesh_communicator* world, const qpmesh_blocks* in,
                                      void* out, size_t count, qpmesh_type type,
                                      qpmesh_reduction reduction, const qpmesh_call* call);
QPMESH_API int qpmesh_reduce_scatterv_async(qpmesh_communicator* world, const qpmesh_blocks* in,
                                            void* out, size_t count, qpmesh_type type,
                                            qpmesh_reduction reduction, const qpmesh_call* call,
                                            qpmesh_request** request);
// The reduction of the vectors of the ranks up to this one; exclusive: before it, and out of rank 0
// is not touched. In place: in == out.
QPMESH_API int qpmesh_scan(qpmesh_communicator* world, const void* in, void* out, size_t count,
                           qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call);
QPMESH_API int qpmesh_scan_async(qpmesh_communicator* world, const void* in, void* out,
                                 size_t count, qpmesh_type type, qpmesh_reduction reduction,
                                 const qpmesh_call* call, qpmesh_request** request);
QPMESH_API int qpmesh_exscan(qpmesh_communicator* world, const void* in, void* out, size_t count,
                             qpmesh_type type, qpmesh_reduction reduction, const qpmesh_call* call);
QPMESH_API int qpmesh_exscan_async(qpmesh_communicator* world, const void* in, void* out,
                                   size_t count, qpmesh_type type, qpmesh_reduction reduction,
                                   const qpmesh_call* call, qpmesh_request** request);
// out has size() blocks of count elements; block r is rank r's in. In place: in is this rank's
// block of out.
QPMESH_API int qpmesh_allgather(qpmesh_communicator* world, const void* in, void* out, size_t count,
                                qpmesh_type type, const qpmesh_call* call);
QPMESH_API int qpmesh_allgather_async(qpmesh_communicator* world, const void* in, void* out,
                                      size_t count, qpmesh_type type, const qpmesh_call* call,
                                      qpmesh_request** request);
QPMESH_API int qpmesh_allgatherv(qpmesh_communicator* world, const void* in, size_t count,
                                 const qpmesh_blocks* out, qpmesh_type type,
                                 const qpmesh_call* call);
QPMESH_API int qpmesh_allgatherv_async(qpmesh_communicator* world, const void* in, size_t count,
                                       const qpmesh_blocks* out, qpmesh_type type,
                                       const qpmesh_call* call, qpmesh_request** request);
// The same at the root alone.
QPMESH_API int qpmesh_gather(qpmesh_communicator* world, const void* in, void* out, size_t count,
                             qpmesh_type type, int root, const qpmesh_call* call);
QPMESH_API int qpmesh_gather_async(qpmesh_communicator* world, const void* in, void* out,
                                   size_t count, qpmesh_type type, int root,
                                   const qpmesh_call* call, qpmesh_request** request);
QPMESH_API int qpmesh_gatherv(qpmesh_communicator* world, const void* in, size_t count,
                              const qpmesh_blocks* out, qpmesh_type type, int root,
                              const qpmesh_call* call);
QPMESH_API int qpmesh_gatherv_async(qpmesh_communicator* world, const void* in, size_t count,
                                    const qpmesh_blocks* out, qpmesh_type type, int root,
                                    const qpmesh_call* call, qpmesh_request** request);
// Rank r gets block r of the root's in. In place: out is the root's block of in.
QPMESH_API int qpmesh_scatter(qpmesh_communicator* world, const void* in, void* out, size_t count,
                              qpmesh_type type, int root, const qpmesh_call* call);
QPMESH_API int qpmesh_scatter_async(qpmesh_communicator* world, const void* in, void* out,
                                    size_t count, qpmesh_type type, int root,
                                    const qpmesh_call* call, qpmesh_request** request);
QPMESH_API int qpmesh_scatterv(qpmesh_communicator* world, const qpmesh_blocks* in, void* out,
                               size_t count, qpmesh_type type, int root, const qpmesh_call* call);
QPMESH_API int qpmesh_scatterv_async(qpmesh_communicator* world, const qpmesh_blocks* in, void* out,
                                     size_t count, qpmesh_type type, int root,
                                     const qpmesh_call* call, qpmesh_request** request);
// Both have size() blocks of count elements: block r of in goes to rank r, block s of out comes
// from rank s. Never in place.
QPMESH_API int qpmesh_alltoall(qpmesh_communicator* world, const void* in, void* out, size_t count,
                               qpmesh_type type, const qpmesh_call* call);
QPMESH_API int qpmesh_alltoall_async(qpmesh_communicator* world, const void* in, void* out,
                                     size_t count, qpmesh_type type, const qpmesh_call* call,
                                     qpmesh_request** request);
QPMESH_API int qpmesh_alltoallv(qpmesh_communicator* world, const qpmesh_blocks* in,
                                const qpmesh_blocks* out, qpmesh_type type,
                                const qpmesh_call* call);
QPMESH_API int qpmesh_alltoallv_async(qpmesh_communicator* world, const qpmesh_blocks* in,
                                      const qpmesh_blocks* out, qpmesh_type type,
                                      const qpmesh_call* call, qpmesh_request** request);

// On this rank alone: inout[i] = in[i] op inout[i]. call: for QPMESH_USER.
QPMESH_API int qpmesh_reduce_local(const void* in, void* inout, size_t count, qpmesh_type type,
                                   qpmesh_reduction reduction, const qpmesh_call* call);

// The collectives, for qpmesh_explain.
enum {
  QPMESH_BARRIER = 0,
  QPMESH_BROADCAST,
  QPMESH_REDUCE,
  QPMESH_ALLGATHER,
  QPMESH_REDUCE_SCATTER,
  QPMESH_ALLREDUCE,
  QPMESH_GATHER,
  QPMESH_SCATTER,
  QPMESH_ALLTOALL,
  QPMESH_SCAN,
  QPMESH_EXSCAN
};
// An algorithm that could run.
typedef struct qpmesh_candidate {
  const char* algorithm;  // its name; lasts for ever
  int applies;            // to so many ranks
  int chosen;             // would run
  double predicted_us;    // where it applies
  double measured_us;     // where there are samples
  size_t samples;         // calls that were timed when it was measured last
} qpmesh_candidate;
// Which algorithms there are for a vector of so many bytes. *count is how many; the first
// count_max of them are stored.
QPMESH_API int qpmesh_explain(const qpmesh_communicator* world, int collective, size_t bytes,
                              qpmesh_candidate* candidates, size_t count_max, size_t* count);

// ---- memory that peers reach without a copy ----

// Zeroed, for every call that takes data. Collective; _here: for this rank alone, at any time.
QPMESH_API int qpmesh_allocate(qpmesh_communicator* world, size_t bytes, const qpmesh_call* call,
                               void** data);
QPMESH_API int qpmesh_allocate_here(qpmesh_communicator* world, size_t bytes, void** data);
// What a rank of this host got from the same call of qpmesh_allocate, to be read.
QPMESH_API int qpmesh_view_of(qpmesh_communicator* world, const void* data, int rank,
                              const void** view);
// Of the communicator that allocated it. Operations that use it keep it until they end, but not
// those of another context (qpmesh_independent).
QPMESH_API int qpmesh_free(qpmesh_communicator* world, void* data);

// ---- groups: collective, unless it is said otherwise ----

// Ranks of equal color, ordered by key. *group is null for QPMESH_NO_COLOR.
QPMESH_API int qpmesh_split(qpmesh_communicator* world, int color, int key, const qpmesh_call* call,
                            qpmesh_communicator** group);
// One group for each host, ordered by key.
QPMESH_API int qpmesh_split_node(qpmesh_communicator* world, int key, const qpmesh_call* call,
                                 qpmesh_communicator** group);
QPMESH_API int qpmesh_duplicate(qpmesh_communicator* world, const qpmesh_call* call,
                                qpmesh_communicator** group);
// The same, begun: *group is null until the request has ended, and stays where it is until then.
QPMESH_API int qpmesh_split_async(qpmesh_communicator* world, int color, int key,
                                  const qpmesh_call* call, qpmesh_communicator** group,
                                  qpmesh_request** request);
QPMESH_API int qpmesh_duplicate_async(qpmesh_communicator* world, const qpmesh_call* call,
                                      qpmesh_communicator** group, qpmesh_request** request);
// The same ranks for another thread.
QPMESH_API int qpmesh_independent(qpmesh_communicator* world, const qpmesh_call* call,
                                  qpmesh_communicator** group);
// These ranks, in this order; they alone call it, with the same list and tag.
QPMESH_API int qpmesh_subgroup(qpmesh_communicator* world, const int* ranks, size_t count, int tag,
                               const qpmesh_call* call, qpmesh_communicator** group);
// This rank alone. Local.
QPMESH_API int qpmesh_self(qpmesh_communicator* world, qpmesh_communicator** group);
// Local. ranks, size() of them: what the ranks here are in the other one, or QPMESH_NO_RANK.
QPMESH_API int qpmesh_ranks_in(const qpmesh_communicator* world, const qpmesh_communicator* other,
                               int* ranks);

// ---- grids: the ranks of a communicator as points, and who is whose neighbour ----

// The last coordinate runs fastest: rank 1 is at (0, ..., 0, 1). A value: it sends nothing, and
// lives as long as it is wanted, whatever becomes of the communicator.
typedef struct qpmesh_grid qpmesh_grid;

// lengths: of each dimension; their product is the number of ranks, and one of them may be 0: what
// the others leave. periodic: of each dimension, 1 where its ends are neighbours, or else 0; null:
// they are nowhere.
QPMESH_API int qpmesh_grid_make(const qpmesh_communicator* world, const int* lengths,
                                const int* periodic, int dimensions, qpmesh_grid** grid);
QPMESH_API int qpmesh_grid_free(qpmesh_grid* grid);
// Lengths as equal as they can be, whose product is the number of ranks; the longest comes first.
QPMESH_API int qpmesh_grid_lengths(int ranks, int dimensions, int* lengths);
// Of each dimension, as it was made. Either may be null.
QPMESH_API int qpmesh_grid_shape(const qpmesh_grid* grid, int* lengths, int* periodic);
// Where the rank is, in each dimension.
QPMESH_API int qpmesh_grid_coordinates(const qpmesh_grid* grid, int rank, int* coordinates);
// Who is there. Beyond the end of a periodic dimension it goes on at the other; of another one it
// is QPMESH_NO_RANK.
QPMESH_API int qpmesh_grid_rank_at(const qpmesh_grid* grid, const int* coordinates, int* rank);
// Who is so many steps before this rank along the dimension, and behind it; or QPMESH_NO_RANK. When
// everybody passes on to the next one, that comes from *before and goes to *behind.
QPMESH_API int qpmesh_grid_shift(const qpmesh_grid* grid, int dimension, int steps, int* before,
                                 int* behind);
// in and out have two blocks of count elements for each dimension d: block 2 d goes to, and comes
// from, the rank before this one, block 2 d + 1 the one behind it. What comes from beyond a border
// stays as it is. All ranks call it on communicators of one group, whose messages with tags 0 to
// 2 * dimensions - 1 are its own until it has ended. Never in place.
QPMESH_API int qpmesh_grid_exchange(const qpmesh_grid* grid, qpmesh_communicator* world,
                                    const void* in, void* out, size_t count, qpmesh_type type,
                                    const qpmesh_call* call);
// requests: 2 * dimensions of them, one for each block that goes.
QPMESH_API int qpmesh_grid_exchange_async(const qpmesh_grid* grid, qpmesh_communicator* world,
                                          const void* in, void* out, size_t count, qpmesh_type type,
                                          const qpmesh_call* call, qpmesh_request** requests);

#ifdef __cplusplus
}
#endif

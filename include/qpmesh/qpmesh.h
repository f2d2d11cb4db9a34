// The common operations for C (C99 and later) and whatever can call it. C++ programs take
// <qpmesh/qpmesh.hpp>, which has all of them and says in full what each does.
//
// Functions return QPMESH_OK or a qpmesh_code; qpmesh_error_text() then says what happened, where,
// and what to do. One thread at a time uses a communicator. A pointer to nothing is allowed where
// the count is 0. Vectors of an operation are the same memory where that is said to be in place,
// and have nothing in common otherwise. Waiting ends after QPMESH_TIMEOUT_MS, like everything that
// C++ programs set in Options.
#pragma once

#include <stddef.h>

#include "qpmesh/export.h"
#include "qpmesh/version.h"  // IWYU pragma: export

#ifdef __cplusplus
extern "C" {
#endif

// The ranks of a job, as this rank sees them.
typedef struct qpmesh_communicator qpmesh_communicator;

// What the world or the caller did wrong: qpmesh::ErrorCode, plus one.
typedef enum qpmesh_code {
  QPMESH_OK = 0,
  QPMESH_BAD_ARGUMENT,    // arguments that cannot mean anything; nothing was sent, nothing consumed
  QPMESH_BAD_CONFIG,      // an environment variable or an address that cannot be used
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

// Element types. Bytes can be moved, not reduced; the 16-bit floating types are their bits.
typedef enum qpmesh_type {
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
  QPMESH_BFLOAT16
} qpmesh_type;

// Every rank gets the same bits. Integers wrap; bitwise reductions take integers; averages of
// integers truncate.
typedef enum qpmesh_reduction {
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
  QPMESH_LOGICAL_XOR
} qpmesh_reduction;

// For qpmesh_receive: whoever sends, whatever the tag. For both directions: a partner that is not
// there, to whom nothing goes, and from whom an empty message comes at once.
enum { QPMESH_ANY_SOURCE = -1, QPMESH_ANY_TAG = -1, QPMESH_NO_RANK = -2 };

// What a receive got.
typedef struct qpmesh_status {
  int source;    // rank of the sender
  int tag;       // of the message
  size_t bytes;  // of the message, which may be shorter than what was offered
} qpmesh_status;

// Joins the job that the launcher's environment describes; alone, a world of one. *world is set on
// success only.
QPMESH_API int qpmesh_init(qpmesh_communicator** world);
// Collective goodbye. The communicator is gone afterwards, also when this fails; null is allowed.
QPMESH_API int qpmesh_finalize(qpmesh_communicator* world);

// Who this rank is and how many there are; -1 when world is null.
QPMESH_API int qpmesh_rank(const qpmesh_communicator* world);
QPMESH_API int qpmesh_size(const qpmesh_communicator* world);

// Returns when data may be reused; a large send may wait for its receive. Tags are 0 and more.
QPMESH_API int qpmesh_send(qpmesh_communicator* world, const void* data, size_t count,
                           qpmesh_type type, int destination, int tag);
// The message must fit, and be of the type, or one of the two QPMESH_BYTE. status may be null.
QPMESH_API int qpmesh_receive(qpmesh_communicator* world, void* data, size_t count,
                              qpmesh_type type, int source, int tag, qpmesh_status* status);

// Every rank calls the same collectives in the same order, with the same counts, types, reductions
// and roots.
QPMESH_API int qpmesh_barrier(qpmesh_communicator* world);
// Every rank gets the root's data.
QPMESH_API int qpmesh_broadcast(qpmesh_communicator* world, void* data, size_t count,
                                qpmesh_type type, int root);
// out has size() blocks of count elements; block r is rank r's in. In place: in is this rank's
// block of out.
QPMESH_API int qpmesh_allgather(qpmesh_communicator* world, const void* in, void* out, size_t count,
                                qpmesh_type type);
// out[i] is the reduction of everybody's in[i]. In place: in == out.
QPMESH_API int qpmesh_allreduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                                qpmesh_type type, qpmesh_reduction reduction);
// The same at the root alone; on other ranks out is not touched and may be null.
QPMESH_API int qpmesh_reduce(qpmesh_communicator* world, const void* in, void* out, size_t count,
                             qpmesh_type type, qpmesh_reduction reduction, int root);
// Both have size() blocks of count elements: block r of in goes to rank r, block s of out comes
// from rank s. Never in place.
QPMESH_API int qpmesh_alltoall(qpmesh_communicator* world, const void* in, void* out, size_t count,
                               qpmesh_type type);

// The whole text of this thread's last error, until its next one; "" before the first. Never null.
QPMESH_API const char* qpmesh_error_text(void);

#ifdef __cplusplus
}
#endif

// Something in flight that somebody waits for.
#pragma once

#include "qpmesh/error.hpp"

namespace qpmesh::progress {

struct TaskPromise;

// Several operations awaited together: the waiter is resumed when the last one is done.
struct Join {
  int outstanding = 0;
  TaskPromise* waiter = nullptr;  // set when the coroutine parks; nobody resumes before
};

// Owned by whoever started it, at a fixed address, until done. Trivially
// destructible: it may live in an awaitable.
struct Operation {
  bool done = false;
  const Error* failure =
      nullptr;           // why it failed; owned by the communicator (or context) that failed
  Join* join = nullptr;  // nullptr: somebody polls done
};

}  // namespace qpmesh::progress

// For interpreters: how a wait ends when its user has had enough of it.
#pragma once

#include "qpmesh/export.h"

namespace qpmesh {

// True: the wait is to end.
using InterruptCheck = bool (*)() noexcept;

// From now on waits ask this function, in the thread that waits: when they have lasted 50 ms, and
// every 50 ms from then on. Where it says true a wait ends as at its deadline, but with
// Error{aborted} of this rank: a receive that nothing has come for is taken back, anything else
// breaks its communicator on all ranks. nullptr, as at first: nobody is asked. One function for the
// process; any thread may set it. It may wait for a lock that a thread holds which uses no context
// of that wait, and must not use that context itself. init ends so, too.
QPMESH_API void set_interrupt_check(InterruptCheck check) noexcept;

}  // namespace qpmesh

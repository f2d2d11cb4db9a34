// SPDX-License-Identifier: MIT
// For interpreters: how a wait ends when its user has had enough of it.
#pragma once

#include "qpmesh/export.h"

namespace qpmesh {

// True: the wait is to end.
using InterruptCheck = bool (*)() noexcept;

// Waits that begin from now on ask this function, in the thread that waits: when they have lasted
// 50 ms (at once behind a wait that was interrupted), and every 50 ms from then on. Where it says
// true a wait ends with Error{aborted} of this rank, and leaves what its deadline would: a receive
// that nothing has come for is taken back, probes, wait_any and wait_for change nothing, anything
// else breaks its communicator on all ranks. init asks, too, but while a bootstrap of
// the program's own gathers. A wait that has ended well meanwhile returns: so the function says
// true until its caller has seen that. nullptr, as at first: nobody is asked. One function for the
// process; any thread may set it. It may take a lock whose holder never waits for the context of
// that wait, and must not use that context itself. What was written before the function was set is
// seen where it is called.
QPMESH_API void set_interrupt_check(InterruptCheck check) noexcept;

}  // namespace qpmesh

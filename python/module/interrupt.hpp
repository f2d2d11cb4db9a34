// SPDX-License-Identifier: MIT
// Signals that come while a call of the main thread waits: Python's handlers run meanwhile, and
// what one of them raises, such as KeyboardInterrupt, ends the wait and is what the call raises.
#pragma once

namespace qpmesh::python {

// Of the thread that imports the module, which is the main one as a rule; from then on.
void watch_for_signals() noexcept;

// Has a handler raised something that no call has raised yet? The next one that ends in this thread
// does, also where it has ended well.
bool is_interruption_pending() noexcept;
// Sets that as the error of Python; false: there is nothing.
bool set_interruption() noexcept;
// Throws it.
void throw_interruption();
// Where nothing may be raised: KeyboardInterrupt comes again with the next statement, and what else
// it is goes to sys.unraisablehook.
void hand_interruption_on() noexcept;

}  // namespace qpmesh::python

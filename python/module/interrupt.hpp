// Signals that come while a call of the main thread waits: Python's handlers run meanwhile, and
// what one of them raises, such as KeyboardInterrupt, ends the wait and is what the call raises.
#pragma once

namespace qpmesh::python {

// Of the thread that imports the module, which is the main one as a rule; from then on.
void watch_for_signals() noexcept;

// Sets what a handler has raised as the error of Python; false: nothing. It was for the call that
// waited last, in this thread, whether that has ended or not.
bool set_interruption() noexcept;
// Throws it.
void throw_interruption();

}  // namespace qpmesh::python

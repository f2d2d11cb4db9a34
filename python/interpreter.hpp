// SPDX-License-Identifier: MIT
// Who has Python's interpreter: a thread that lets go of it, and one that takes it.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <utility>

namespace qpmesh::python {

[[noreturn]] inline void sleep_for_ever() noexcept {
  for (;;) pause();
}

// Calls what takes the interpreter, or runs Python, which takes it again and again. Python's end
// (Py_FinalizeEx) ends a daemon thread that does so by pthread_exit, whose unwinding may pass
// neither a destructor nor the library. Such a thread sleeps for ever instead, as Python itself
// has it from 3.14 on.
template <class Take>
auto take_interpreter(Take&& take) noexcept {
  try {
    return std::forward<Take>(take)();
  } catch (...) {  // never left: Python's own code throws nothing
    sleep_for_ever();
  }
}

// Other threads of Python run meanwhile.
class Unlocked {
 public:
  Unlocked() noexcept : thread_{PyEval_SaveThread()} {}
  ~Unlocked() {
    take_interpreter([this] { PyEval_RestoreThread(thread_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* thread_;
};

// A thread that may be without the interpreter has it.
class Locked {
 public:
  Locked() noexcept : before_{take_interpreter([] { return PyGILState_Ensure(); })} {}
  ~Locked() { PyGILState_Release(before_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE before_;
};

}  // namespace qpmesh::python

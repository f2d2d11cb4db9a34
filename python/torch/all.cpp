// The whole extension as one source: torch's headers take most of a minute to read.
#include <Python.h>  // first, as it says itself
// The order matters to nobody.
#include "background.cpp"
#include "errors.cpp"
#include "flight.cpp"
#include "group.cpp"
#include "memory.cpp"
#include "module.cpp"
#include "monitored_barrier.cpp"
#include "sparse.cpp"
#include "tensors.cpp"

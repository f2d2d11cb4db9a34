// SPDX-License-Identifier: MIT
// The whole extension as one source: torch's headers take most of a minute to read.
#include <Python.h>  // first, as it says itself
// In any order.
#include "background.cpp"
#include "flight.cpp"
#include "group.cpp"
#include "module.cpp"
#include "tensors.cpp"

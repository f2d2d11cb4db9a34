// SPDX-License-Identifier: MIT
#pragma once

#include <pybind11/pybind11.h>

#include "qpmesh/error.hpp"

namespace qpmesh::python {

void add_communicator(pybind11::module_& module);
// Sets Python's exception: qpmesh.Error, with the fields of this one.
void raise(const Error& error) noexcept;

}  // namespace qpmesh::python

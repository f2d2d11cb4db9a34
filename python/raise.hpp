// SPDX-License-Identifier: MIT
// An Error of the library as the exception of a Python module: its text, with its fields.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

namespace qpmesh::python {

// Makes the module's class Error, for ever. name: with the module's, for texts of Python.
inline PyObject* add_error(pybind11::module_& module, const char* name) {
  PyObject* const type = PyErr_NewExceptionWithDoc(
      name,
      "What the world or the caller did wrong: code (as 'peer_dead'), peer (the rank that is to "
      "blame, or None), operation, cause, system_error (errno, or 0), hint.",
      PyExc_RuntimeError, nullptr);
  if (type == nullptr) throw pybind11::error_already_set();
  module.attr("Error") = pybind11::handle{type};
  return type;
}

// Sets the error of Python, of this type. error: has the fields of qpmesh::Error; code: its name.
template <class Error>
void raise_as(PyObject* type, const Error& error, std::string_view code) noexcept {
  namespace py = pybind11;
  try {
    const py::object raised = py::handle{type}(error.what());
    raised.attr("code") = code;
    raised.attr("peer") =
        error.peer() < 0 ? py::object{py::none()} : py::object{py::int_(error.peer())};
    raised.attr("operation") = error.operation();
    raised.attr("cause") = error.cause();
    raised.attr("system_error") = error.system_error();
    raised.attr("hint") = error.hint();
    PyErr_SetObject(type, raised.ptr());
  } catch (py::error_already_set& of_python) {  // no memory
    of_python.restore();
  } catch (...) {
    PyErr_NoMemory();
  }
}

}  // namespace qpmesh::python

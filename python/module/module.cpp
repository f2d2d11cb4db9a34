// SPDX-License-Identifier: MIT
// The module qpmesh._library: what Python cannot do itself. qpmesh/__init__.py is what users
// import.
#include "module/module.hpp"

#include <exception>
#include <string>

#include "module/interrupt.hpp"
#include "qpmesh/version.h"
#include "raise.hpp"

namespace qpmesh::python {
namespace {

PyObject* error_type = nullptr;

}  // namespace

void raise(const Error& error) noexcept {
  if (!set_interruption()) raise_as(error_type, error, to_string(error.code()));
}

}  // namespace qpmesh::python

PYBIND11_MODULE(_library, module) {
  using namespace qpmesh;
  python::error_type = python::add_error(module, "qpmesh.Error");
  // NOLINTNEXTLINE(performance-unnecessary-value-param): the type that pybind11 asks for
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      python::raise(error);
    }
  });
  module.attr("__version__") = QPMESH_VERSION;
  python::add_communicator(module);
  python::watch_for_signals();
}

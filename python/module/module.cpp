// The module qpmesh._library: what Python cannot do itself. qpmesh/__init__.py is what users
// import.
#include "module/module.hpp"

#include <exception>
#include <string>

#include "qpmesh/version.h"
#include "raise.hpp"

namespace qpmesh::python {
namespace {

namespace py = pybind11;

PyObject* error_type = nullptr;  // for ever

}  // namespace

void raise(const Error& error) noexcept {
  raise_as(error_type, error, to_string(error.code()));
}

static void add_error(py::module_& module) {
  error_type = PyErr_NewExceptionWithDoc(
      "qpmesh.Error",
      "What the world or the caller did wrong: code (as 'peer_dead'), peer (the rank that is to "
      "blame, or None), operation, cause, system_error (errno, or 0), hint.",
      PyExc_RuntimeError, nullptr);
  if (error_type == nullptr) throw py::error_already_set();
  module.attr("Error") = py::handle{error_type};
}

}  // namespace qpmesh::python

PYBIND11_MODULE(_library, module) {
  using namespace qpmesh;
  python::add_error(module);
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
}

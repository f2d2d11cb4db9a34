// SPDX-License-Identifier: MIT
// The module qpmesh_torch._library. qpmesh_torch/__init__.py is what users import.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "interpreter.hpp"
#include "memory.hpp"
#include "process_group.hpp"
#include "qpmesh/version.h"
#include "raise.hpp"

namespace qpmesh_torch {
namespace {

namespace py = pybind11;

using Handle = c10::intrusive_ptr<c10d::Backend>;

PyObject* error_type = nullptr;

void raise(const Error& error) noexcept {
  qpmesh::python::raise_as(error_type, error, qpmesh_code_name(error.code()));
}

// Null: of another backend.
ProcessGroup* ours(const Handle& handle) { return dynamic_cast<ProcessGroup*>(handle.get()); }

std::shared_ptr<Group> group_of(const Handle& handle) {
  if (ProcessGroup* const group = ours(handle)) return group->group();
  bad_argument({"group", 0, nullptr}, "the process group has another backend",
               "give one of the backend qpmesh");
}

Handle made(std::shared_ptr<Group> group) {
  return c10::make_intrusive<ProcessGroup>(std::move(group));
}

}  // namespace
}  // namespace qpmesh_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using namespace qpmesh_torch;
  using std::chrono::milliseconds;
  error_type = qpmesh::python::add_error(module, "qpmesh_torch.Error");
  // NOLINTNEXTLINE(performance-unnecessary-value-param): the type that pybind11 asks for
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
  module.attr("__version__") = QPMESH_VERSION;
  const py::call_guard<qpmesh::python::Unlocked> unlocked;
  module.def(
      "meet",
      [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& name,
         milliseconds timeout, const std::vector<std::string>& settings) {
        return made(Group::meet(store, rank, size, name, timeout, settings));
      },
      unlocked);
  module.def(
      "subgroup",
      [](const Handle& world, const std::vector<int>& ranks, const std::string& name,
         milliseconds timeout) { return made(group_of(world)->subgroup(ranks, name, timeout)); },
      unlocked);
  module.def("is_ours", [](const Handle& group) { return ours(group) != nullptr; });
  module.def(
      "empty_bytes",
      [](const Handle& group, std::int64_t bytes) { return empty_bytes(group_of(group), bytes); },
      unlocked);
  module.def(
      "set_memory",
      [](const std::optional<Handle>& group, std::int64_t bytes_min) {
        set_memory(group ? group_of(*group) : nullptr, bytes_min);
      },
      unlocked);
  module.def(
      "abort",
      [](const Handle& group, const std::string& reason) {
        const std::shared_ptr<Group> of = group_of(group);
        const Doing doing{"abort", 0, &of->name()};
        require_ok(qpmesh_abort(of->communicator(doing), reason.c_str()), doing);
      },
      unlocked);
  // Torch's C++ calls it; its Python has no name for it (1.13).
  module.def(
      "abort_work", [](const c10::intrusive_ptr<c10d::Work>& work) { work->abort(); }, unlocked);
  module.def(
      "stop", [] { Background::of_process().stop(); }, unlocked);
}

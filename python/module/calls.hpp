// SPDX-License-Identifier: MIT
// Each call in two forms: one that waits, and one that returns a request.
//
// pybind11 takes 250 ns to call a function and 100 more for each argument that has a name; a small
// allreduce takes 130. So these are plain methods of CPython (METH_FASTCALL), which take 40.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "module/interrupt.hpp"
#include "module/operation.hpp"

namespace qpmesh::python {

// A method of CPython: the object, what is given, how many of that by place, names of the rest.
using FastMethod = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

// An argument's name, and what it is where it is not given.
struct Parameter {
  const char* name;
  py::object without{};  // null: it must be given
};

// Of one method.
struct Signature {
  std::string name;
  std::string text;  // as inspect reads it
  std::vector<py::object> names;
  std::vector<py::object> without;
  PyMethodDef method{};

  Signature(std::string of, const char* says, std::span<const Parameter> parameters,
            FastMethod function);
  // Into `values`, borrowed, as many as there are names; the last two by name alone. Throws
  // py::type_error.
  void sort(PyObject* const* given, Py_ssize_t count, PyObject* keywords, PyObject** values) const;
};

// What a method throws becomes Python's exception.
void set_exception() noexcept;

// The object is one of that class: its method was called.
inline Communicator& communicator_of(PyObject* self) noexcept {
  auto* const object = reinterpret_cast<py::detail::instance*>(self);
  return *static_cast<Communicator*>(object->simple_value_holder[0]);
}

template <class T>
T converted(PyObject* value);
template <>
inline py::handle converted<py::handle>(PyObject* value) {
  return value;
}
template <>
int converted<int>(PyObject* value);

struct CallArguments {
  TimeLimit timeout;
  std::string algorithm;

  CallArguments(py::handle timeout_s, py::handle name) : timeout{time_limit(timeout_s)} {
    if (!name.is_none()) algorithm = name.cast<std::string>();
  }
  CallOptions options() const { return {.timeout = timeout, .algorithm = algorithm}; }
};

void add_method(py::handle type, const Signature& signature);

// prepare(world, operation, arguments…) returns start(mode, options), which makes the call: where
// mode is true the _async one, which returns a Request.
template <auto prepare>
struct Call;
template <class Start, class... Arguments,
          Start (*prepare)(Communicator&, Operation&, Arguments...)>
struct Call<prepare> {
  static constexpr std::size_t own = sizeof...(Arguments);
  using Values = std::array<PyObject*, own + 2>;

  // As name and name_async, for ever.
  static void add_to(py::handle type, const std::string& name, const char* text,
                     const std::vector<Parameter>& parameters) {
    waits_ = new Signature{name, text, parameters, &now};
    starts_ = new Signature{name + "_async", text, parameters, &later};
    add_method(type, *waits_);
    add_method(type, *starts_);
  }

 private:
  static Start prepared(Communicator& world, Operation& operation, const Values& values) {
    const Start start = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return prepare(world, operation, converted<Arguments>(values[i])...);
    }(std::make_index_sequence<own>{});
    operation.check_types();
    return start;
  }

  static PyObject* now(PyObject* self, PyObject* const* given, Py_ssize_t count,
                       PyObject* keywords) noexcept {
    try {
      Values values;
      waits_->sort(given, count, keywords, values.data());
      Operation operation;
      const Start start = prepared(communicator_of(self), operation, values);
      const CallArguments how{values[own], values[own + 1]};
      {
        const Unlocked unlocked;
        if constexpr (std::is_void_v<decltype(start(std::false_type{}, how.options()))>)
          start(std::false_type{}, how.options());
        else operation.status = start(std::false_type{}, how.options());
      }
      throw_interruption();
      return operation.result().release().ptr();
    } catch (const abi::__forced_unwind&) {  // Python has ended while it converted an argument
      sleep_for_ever();
    } catch (...) {
      set_exception();
      return nullptr;
    }
  }

  // It may begin the operation, and waits for nobody.
  static PyObject* later(PyObject* self, PyObject* const* given, Py_ssize_t count,
                         PyObject* keywords) noexcept {
    try {
      Values values;
      starts_->sort(given, count, keywords, values.data());
      auto operation = std::make_unique<Operation>();
      const Start start = prepared(communicator_of(self), *operation, values);
      const CallArguments how{values[own], values[own + 1]};
      Request request;
      {
        const Unlocked unlocked;  // another thread may be in its turn, and want the interpreter
        request = start(std::true_type{}, how.options());
      }
      return py::cast(std::make_unique<PendingCall>(py::reinterpret_borrow<py::object>(self),
                                                    std::move(operation), std::move(request)))
          .release()
          .ptr();
    } catch (const abi::__forced_unwind&) {  // Python has ended while it converted an argument
      sleep_for_ever();
    } catch (...) {
      set_exception();
      return nullptr;
    }
  }

  static inline const Signature* waits_ = nullptr;
  static inline const Signature* starts_ = nullptr;
};

// name and name_async, with these arguments and those that every call has.
template <auto prepare>
void define(py::handle type, const std::string& name, const char* text,
            std::vector<Parameter> parameters) {
  for (const char* const common : {"timeout", "algorithm"})
    parameters.push_back({common, py::none()});
  Call<prepare>::add_to(type, name, text, parameters);
}

}  // namespace qpmesh::python

// SPDX-License-Identifier: MIT
#include "module/calls.hpp"

#include <climits>
#include <new>

#include "module/module.hpp"

namespace qpmesh::python {

Signature::Signature(std::string of, const char* says, std::span<const Parameter> parameters,
                     FastMethod function)
    : name{std::move(of)}, text{name + "($self"} {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& each = parameters[i];
    names.push_back(py::reinterpret_steal<py::object>(PyUnicode_InternFromString(each.name)));
    without.push_back(each.without);
    text += i + 2 == parameters.size() ? ", *, " : ", ";
    text += each.name;
    if (each.without) text += "=" + py::repr(each.without).cast<std::string>();
  }
  text += std::string{")\n--\n\n"} + says;
  method = {name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
            METH_FASTCALL | METH_KEYWORDS, text.c_str()};
}

void Signature::sort(PyObject* const* given, Py_ssize_t count, PyObject* keywords,
                     PyObject** values) const {
  const auto places = static_cast<std::size_t>(count);
  if (places + 2 > names.size())
    throw py::type_error(name + "() takes at most " + std::to_string(names.size() - 2) +
                         " arguments without a name");
  for (std::size_t i = 0; i < names.size(); ++i) values[i] = i < places ? given[i] : nullptr;
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject* const keyword = PyTuple_GET_ITEM(keywords, k);
    std::size_t i = 0;
    while (i < names.size() && names[i].ptr() != keyword) ++i;
    for (std::size_t j = 0; i == names.size() && j < names.size(); ++j)
      if (PyUnicode_Compare(names[j].ptr(), keyword) == 0) i = j;
    if (i == names.size() || values[i] != nullptr) {
      throw py::type_error(name + "(): '" + py::handle{keyword}.cast<std::string>() +
                           (i == names.size() ? "' is no argument" : "' is given twice"));
    }
    values[i] = given[count + k];
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (values[i] == nullptr) values[i] = without[i].ptr();
    if (values[i] == nullptr)
      throw py::type_error(name + "(): '" + names[i].cast<std::string>() + "' is missing");
  }
}

template <>
int converted<int>(PyObject* value) {
  const long number = PyLong_AsLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (number < INT_MIN || number > INT_MAX)
    throw py::value_error(std::to_string(number) + " is no rank, tag or root");
  return static_cast<int>(number);
}

void set_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    raise(error);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::cast_error&) {
    PyErr_SetString(PyExc_TypeError,
                    "an argument, or an element of a list, is of the wrong kind or out of range");
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception of no known type");
  }
}

void add_method(py::handle type, const Signature& signature) {
  const auto method = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()),
                        const_cast<PyMethodDef*>(&signature.method)));  // it is only read
  if (!method) throw py::error_already_set();
  py::setattr(type, signature.name.c_str(), method);
}

}  // namespace qpmesh::python

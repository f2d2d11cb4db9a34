// SPDX-License-Identifier: MIT
// What Python gives as data: an array in memory, or a number by itself.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "qpmesh/any.hpp"

namespace qpmesh::python {

namespace py = pybind11;

// What elements are to a reduction. The library knows numbers by their ElementType.
enum class Kind : std::uint8_t { number, boolean, complex, long_double, other };

struct ElementFormat {
  ElementType type = ElementType::none;
  Kind kind = Kind::other;
  std::size_t bytes = 0;

  bool operator==(const ElementFormat&) const = default;
};

// Keeps its owner's memory where it is, and as long, until it goes. Used, made and destroyed while
// the interpreter is locked.
class Array {
 public:
  enum class Use : std::uint8_t { read, write };

  Array() noexcept = default;  // nothing
  Array(py::handle object, Use use) { take(object, use); }
  ~Array();
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  // Once, into nothing. A contiguous array by the buffer protocol (numpy, array.array, bytes,
  // memoryview) or by DLPack (a tensor in the host's memory), or an int, float, complex or bool, of
  // Python's or of numpy's: an array of one. Throws py::error_already_set, py::type_error,
  // py::buffer_error.
  void take(py::handle object, Use use);

  bool is_number() const noexcept { return is_number_; }
  std::size_t count() const noexcept { return count_; }
  const ElementFormat& format() const noexcept { return format_; }
  void* data() const noexcept { return data_; }

  // As calls take it.
  AnyElements elements() const noexcept { return elements(0, count_); }
  AnyElements elements(std::size_t first, std::size_t count) const noexcept;

  // Of a number: what it is now, as the kind of object that it was.
  py::object number() const;

 private:
  bool take_number(PyObject* object, bool exactly);
  bool take_scalar(PyObject* object);
  bool take_numpy(PyObject* object, Use use);
  bool take_buffer(PyObject* object, Use use);
  void take_tensor(py::handle object);

  Py_buffer view_{};  // where it has an obj: of the buffer protocol
  py::object owner_;  // a numpy array, DLPack's capsule, or the type of a number of numpy's
  alignas(16) std::array<std::byte, 16> number_{};
  void* data_ = nullptr;
  std::size_t count_ = 0;
  ElementFormat format_{};
  bool is_number_ = false;
};

}  // namespace qpmesh::python

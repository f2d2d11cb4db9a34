// SPDX-License-Identifier: MIT
#include "module/array.hpp"

#include <pybind11/numpy.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace qpmesh::python {
namespace {

constexpr ElementFormat of_integer(bool is_signed, std::size_t bytes) noexcept {
  using enum ElementType;
  switch (bytes) {
    case 1: return {is_signed ? int8 : uint8, Kind::number, 1};
    case 2: return {is_signed ? int16 : uint16, Kind::number, 2};
    case 4: return {is_signed ? int32 : uint32, Kind::number, 4};
    case 8: return {is_signed ? int64 : uint64, Kind::number, 8};
    default: return {none, Kind::other, bytes};
  }
}

constexpr ElementFormat of_floating(std::size_t bytes) noexcept {
  using enum ElementType;
  switch (bytes) {
    case 2: return {float16, Kind::number, 2};
    case 4: return {float32, Kind::number, 4};
    case 8: return {float64, Kind::number, 8};
    case sizeof(long double): return {none, Kind::long_double, bytes};
    default: return {none, Kind::other, bytes};
  }
}

constexpr ElementFormat of_complex(std::size_t bytes) noexcept {
  return {ElementType::none, bytes == 8 || bytes == 16 ? Kind::complex : Kind::other, bytes};
}

// Names of fields stand between colons.
bool has_objects(std::string_view format) noexcept {
  bool is_name = false;
  for (const char letter : format) {
    if (letter == ':') is_name = !is_name;
    if (letter == 'O' && !is_name) return true;
  }
  return false;
}

// As the struct module and numpy write it.
ElementFormat format_of(const char* text, std::size_t bytes) {
  std::string_view format = text == nullptr ? "B" : text;
  if (format.starts_with('@') || format.starts_with('=') || format.starts_with('<'))
    format.remove_prefix(1);
  if (format.starts_with('>') || format.starts_with('!'))
    throw py::type_error("elements in the other byte order: convert the array first");
  if (has_objects(format))
    throw py::type_error(
        "an array of Python objects means nothing to another process: see send_object and its "
        "like");
  if (format == "?") return {ElementType::none, Kind::boolean, 1};
  if (format.size() == 1 && std::string_view{"bhilqn"}.find(format[0]) != format.npos)
    return of_integer(true, bytes);
  if (format.size() == 1 && std::string_view{"BHILQNc"}.find(format[0]) != format.npos)
    return of_integer(false, bytes);
  if (format == "e" || format == "f" || format == "d" || format == "g") return of_floating(bytes);
  if (format == "Zf" || format == "Zd") return of_complex(bytes);
  return {ElementType::none, Kind::other, bytes};
}

// DLPack's structs, as its specification lays them out (dmlc.github.io/dlpack, version 0).
struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t dimensions;
  std::uint8_t type_code;
  std::uint8_t type_bits;
  std::uint16_t type_lanes;
  const std::int64_t* shape;
  const std::int64_t* strides;  // null: row by row
  std::uint64_t byte_offset;
};
constexpr std::int32_t device_host = 1;
constexpr std::int32_t device_pinned = 3;

ElementFormat format_of(const Tensor& tensor) {
  const std::size_t bytes = tensor.type_bits / 8U * tensor.type_lanes;
  if (tensor.type_lanes != 1) return {ElementType::none, Kind::other, bytes};
  switch (tensor.type_code) {
    case 0: return of_integer(true, bytes);
    case 1: return of_integer(false, bytes);
    case 2: return of_floating(bytes);
    case 4: return {ElementType::bfloat16, Kind::number, bytes};
    case 5: return of_complex(bytes);
    case 6: return {ElementType::none, Kind::boolean, bytes};
    default: return {ElementType::none, Kind::other, bytes};
  }
}

std::size_t count_of(const Tensor& tensor) {
  const std::span lengths{tensor.shape, static_cast<std::size_t>(tensor.dimensions)};
  if (std::ranges::find(lengths, 0) != lengths.end()) return 0;  // whatever its strides
  std::int64_t count = 1;
  for (std::int32_t i = tensor.dimensions; i-- > 0;) {
    if (tensor.strides != nullptr && tensor.shape[i] > 1 && tensor.strides[i] != count)
      throw py::buffer_error("the tensor is not contiguous: give tensor.contiguous()");
    count *= tensor.shape[i];
  }
  return static_cast<std::size_t>(count);
}

}  // namespace

void Array::take(py::handle object, Use use) {
  if (take_number(object.ptr(), true)) return;
  if (take_numpy(object.ptr(), use)) return;
  if (take_scalar(object.ptr())) return;
  if (take_number(object.ptr(), false)) return;
  if (!take_buffer(object.ptr(), use)) take_tensor(object);
}

Array::~Array() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

// exactly: not of a type that was made of one of Python's, as numpy's float64 is.
bool Array::take_number(PyObject* object, bool exactly) {
  const auto keep = [&](auto value, const ElementFormat& format) {
    std::memcpy(number_.data(), &value, sizeof value);
    data_ = number_.data();
    count_ = 1;
    format_ = format;
    return is_number_ = true;
  };
  if (exactly ? PyFloat_CheckExact(object) : PyFloat_Check(object))
    return keep(PyFloat_AS_DOUBLE(object), of_floating(8));
  if (PyBool_Check(object)) return keep(object == Py_True, {ElementType::none, Kind::boolean, 1});
  if (exactly ? PyLong_CheckExact(object) : PyLong_Check(object)) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return keep(value, of_integer(true, 8));
  }
  if (exactly ? PyComplex_CheckExact(object) : PyComplex_Check(object))
    return keep(PyComplex_AsCComplex(object), of_complex(16));
  return false;
}

// A number of numpy's is a buffer that cannot be written.
bool Array::take_scalar(PyObject* object) {
  if (PyObject_CheckBuffer(object) == 0 ||
      !std::string_view{Py_TYPE(object)->tp_name}.starts_with("numpy.") ||
      !py::isinstance(object, py::module_::import("numpy").attr("generic")))
    return false;
  Py_buffer view{};
  if (PyObject_GetBuffer(object, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0)
    throw py::error_already_set();
  format_ = format_of(view.format, static_cast<std::size_t>(view.itemsize));
  const bool fits = format_.kind != Kind::other && format_.bytes <= number_.size();
  if (fits) std::memcpy(number_.data(), view.buf, format_.bytes);
  PyBuffer_Release(&view);
  if (!fits) return false;
  data_ = number_.data();
  count_ = 1;
  owner_ = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  return is_number_ = true;
}

// The buffer protocol of a numpy array builds a text for its elements: 300 ns.
bool Array::take_numpy(PyObject* object, Use use) {
  if (std::strcmp(Py_TYPE(object)->tp_name, "numpy.ndarray") != 0) return false;
#if PYBIND11_VERSION_HEX < 0x020C0000
  // Older pybind11 reads an element type with the struct of numpy 1.
  static const bool is_known =
      py::module_::import("numpy").attr("__version__").cast<std::string>().starts_with("1.");
  if (!is_known) return false;
#endif
  const auto* const array = py::detail::array_proxy(object);
  const auto element = py::reinterpret_borrow<py::dtype>(array->descr);
  constexpr int contiguous = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_;
  constexpr int writeable = py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  const auto bytes = static_cast<std::size_t>(element.itemsize());
  const bool is_plain = (array->flags & contiguous) != 0 && element.byteorder() != '>' &&
                        (use == Use::read || (array->flags & writeable) != 0);
  if (!is_plain) return false;  // the protocol says what is wrong
  switch (element.kind()) {
    case 'b': format_ = {ElementType::none, Kind::boolean, 1}; break;
    case 'i': format_ = of_integer(true, bytes); break;
    case 'u': format_ = of_integer(false, bytes); break;
    case 'f': format_ = of_floating(bytes); break;
    case 'c': format_ = of_complex(bytes); break;
    default: return false;
  }
  count_ = 1;
  for (int i = 0; i < array->nd; ++i) count_ *= static_cast<std::size_t>(array->dimensions[i]);
  data_ = array->data;
  owner_ = py::reinterpret_borrow<py::object>(object);
  return true;
}

bool Array::take_buffer(PyObject* object, Use use) {
  if (PyObject_CheckBuffer(object) == 0) return false;
  const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (use == Use::write ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &view_, flags) != 0) throw py::error_already_set();
  format_ = format_of(view_.format, static_cast<std::size_t>(view_.itemsize));
  data_ = view_.buf;
  count_ = view_.itemsize == 0 ? 0 : static_cast<std::size_t>(view_.len / view_.itemsize);
  return true;
}

// DLPack does not say what may be written.
void Array::take_tensor(py::handle object) {
  const py::object give = py::getattr(object, "__dlpack__", py::none());
  if (give.is_none()) {
    throw py::type_error("a " + std::string{Py_TYPE(object.ptr())->tp_name} +
                         " is neither an array (buffer protocol or DLPack) nor a number");
  }
  owner_ = give();  // its destructor takes back what nobody has taken over
  const auto* const tensor =
      static_cast<const Tensor*>(PyCapsule_GetPointer(owner_.ptr(), "dltensor"));
  if (tensor == nullptr) throw py::error_already_set();
  if (tensor->device_type != device_host && tensor->device_type != device_pinned)
    throw py::type_error("the tensor is not in the memory of the host: give tensor.cpu()");
  format_ = format_of(*tensor);
  count_ = count_of(*tensor);
  data_ = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
}

AnyElements Array::elements(std::size_t first, std::size_t count) const noexcept {
  void* const from = static_cast<std::byte*>(data_) + first * format_.bytes;
  if (format_.type == ElementType::none) return {from, count, format_.bytes};
  return {from, count, format_.type};
}

py::object Array::number() const {
  if (owner_) {  // as numpy has it
    const py::bytes value{static_cast<const char*>(data_), format_.bytes};
    return py::module_::import("numpy").attr("frombuffer")(value, owner_)[py::int_(0)];
  }
  const auto get = [&]<class T>(T value) {
    std::memcpy(&value, data_, sizeof value);
    return value;
  };
  switch (format_.kind) {
    case Kind::boolean: return py::bool_(get(false));
    case Kind::complex: {
      const Py_complex value = get(Py_complex{});
      return py::reinterpret_steal<py::object>(PyComplex_FromCComplex(value));
    }
    default: break;
  }
  if (format_.type == ElementType::float64) return py::float_(get(0.0));
  return py::int_(get(std::int64_t{}));
}

}  // namespace qpmesh::python

// SPDX-License-Identifier: MIT
#include "module/operation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "module/interrupt.hpp"

namespace qpmesh::python {
namespace {

struct Named {
  std::string_view name;
  Reduction reduction;
};
constexpr std::array reductions{Named{"sum", sum},
                                Named{"product", product},
                                Named{"min", min},
                                Named{"max", max},
                                Named{"average", average},
                                Named{"bit_and", bit_and},
                                Named{"bit_or", bit_or},
                                Named{"bit_xor", bit_xor},
                                Named{"logical_and", logical_and},
                                Named{"logical_or", logical_or},
                                Named{"logical_xor", logical_xor}};

// What numpy takes for a text are bytes.
py::object array_of(py::handle data) {
  if (PyBytes_Check(data.ptr()) != 0 || PyByteArray_Check(data.ptr()) != 0)
    return numpy("frombuffer")(data, "uint8");
  return numpy("asarray")(data);
}
py::object element_type_of(py::handle data) { return array_of(data).attr("dtype"); }

py::object view_of(const void* data, std::size_t bytes, py::handle element_type) {
  const auto memory =
      py::memoryview::from_memory(const_cast<void*>(data), static_cast<py::ssize_t>(bytes), false);
  return numpy("frombuffer")(memory, element_type);
}

}  // namespace

py::object numpy(const char* name) { return py::module_::import("numpy").attr(name); }

py::object new_array(py::handle data, const std::function<py::tuple(const py::tuple&)>& shape_of) {
  py::object array;
  try {
    array = array_of(data);
  } catch (const py::error_already_set& error) {
    // A tensor of what numpy has no type for, or of a torch that knows another numpy.
    const bool is_no_array = error.matches(PyExc_TypeError) || error.matches(PyExc_RuntimeError);
    if (!is_no_array || !py::hasattr(data, "new_empty")) throw;
    return data.attr("new_empty")(shape_of(py::tuple{data.attr("shape")}));
  }
  return numpy("empty")(shape_of(array.attr("shape")), array.attr("dtype"));
}

void PythonFunction::operator()(const void* left, void* inout, std::size_t count) const {
  if (count == 0) return;
  const Locked locked;
  const py::object into = view_of(inout, count * element_bytes, element_type);
  const py::object from = view_of(left, count * element_bytes, element_type);
  // Copies: a function may write its arguments, and keep them; the operands are others' and
  // short-lived. In C, where a daemon thread that does not come back leaves nothing to destroy.
  const bool is_done = take_interpreter([&] {
    PyObject* const first = PyObject_CallMethod(from.ptr(), "copy", nullptr);
    if (first == nullptr) return false;
    PyObject* const second = PyObject_CallMethod(into.ptr(), "copy", nullptr);
    if (second == nullptr) return Py_DECREF(first), false;
    PyObject* const combined = PyObject_CallFunction(function.ptr(), "NN", first, second);
    if (combined == Py_None)
      PyErr_SetString(PyExc_TypeError, "the reduction returned None instead of an array");
    const bool is_stored = combined != nullptr && combined != Py_None &&
                           PyObject_SetItem(into.ptr(), Py_Ellipsis, combined) == 0;
    Py_XDECREF(combined);
    return is_stored;
  });
  if (!is_done) throw py::error_already_set{};
}

void Operation::take_in(py::handle data) { in.take(data, Array::Use::read); }
void Operation::take_out(py::handle data) { take_target(out, data); }

void Operation::give(py::handle what) {
  object = py::reinterpret_borrow<py::object>(what);
  gives = Gives::object;
}

void Operation::take(py::handle data, py::handle into, Array::Use in_place) {
  is_in_place_ = into.is_none();
  in.take(data, is_in_place_ ? in_place : Array::Use::read);
  if (!is_in_place_) take_out(into);
  if (is_in_place_ && in.is_number()) gives = Gives::number;
  else give(is_in_place_ ? data : into);
}

void Operation::take_gathered(py::handle data, py::handle into, int times) {
  take_in(data);
  if (!into.is_none()) {
    take_out(into);
    return give(into);
  }
  give(new_array(data, [&](const py::tuple& shape) { return py::make_tuple(times) + shape; }));
  take_out(object);
  if (in.is_number()) gives = Gives::list;
}

void Operation::reduce_by(py::handle reduction, py::handle like) {
  if (PyUnicode_Check(reduction.ptr()) != 0) {
    Py_ssize_t length = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(reduction.ptr(), &length);
    if (text == nullptr) throw py::error_already_set();
    const std::string_view name{text, static_cast<std::size_t>(length)};
    const auto* const found = std::ranges::find(reductions, name, &Named::name);
    if (found == reductions.end())
      throw py::value_error("there is no reduction '" + std::string{name} +
                            "'; there are sum, product, min, max, average, bit_and, bit_or, "
                            "bit_xor, logical_and, logical_or, logical_xor, and functions");
    reduction_ = found->reduction;
    return;
  }
  if (PyCallable_Check(reduction.ptr()) == 0)
    throw py::type_error("a reduction is a name, as 'sum', or a function of two arrays");
  function_ = py::reinterpret_borrow<py::object>(reduction);
  element_type_ = element_type_of(like);
  commutative_ = py::getattr(reduction, "commutative", py::bool_(false)).cast<bool>();
}

namespace {

void require_array(const Array& target) {
  if (target.is_number())
    throw py::type_error("a number cannot take what comes: give an array to put it in");
}

}  // namespace

bool Operation::take_blocks(py::handle data, py::handle counts, Array::Use use, BlockList& into) {
  if (data.is_none()) return false;
  if (is_list(data)) {
    for (const py::handle each : data) {
      into.arrays.push_back(std::make_unique<Array>(each, use));
      if (use == Array::Use::write) require_array(*into.arrays.back());
    }
  } else {
    if (counts.is_none()) return false;
    into.arrays.push_back(std::make_unique<Array>(data, use));
    for (const py::handle count : counts) into.counts.push_back(count.cast<std::size_t>());
  }
  if (into.arrays.empty()) throw py::value_error("there is no block");
  block_format_ = into.arrays.front()->format();
  return true;
}
bool Operation::take_blocks_in(py::handle data, py::handle counts) {
  return take_blocks(data, counts, Array::Use::read, in_blocks_);
}
bool Operation::take_blocks_out(py::handle data, py::handle counts) {
  return take_blocks(data, counts, Array::Use::write, out_blocks_);
}

void Operation::check_types() const {
  if (may_differ) return;
  const ElementFormat* first = nullptr;
  const auto check = [&](const Array& array) {
    const ElementFormat& format = array.format();
    if (format.bytes == 0) return;  // there is none
    if (first == nullptr) first = &format;
    if (format != *first) throw py::type_error("the arrays of a call have elements of one type");
  };
  check(in);
  check(out);
  for (const BlockList* const list : {&in_blocks_, &out_blocks_})
    for (const auto& each : list->arrays) check(*each);
}

py::object Operation::result() const {
  switch (gives) {
    case Gives::object: return object;
    case Gives::number: return target().number();
    case Gives::list: return object.attr("tolist")();
    case Gives::status: return py::cast(status);
    case Gives::nothing: break;
  }
  return py::none();
}

void take_target(Array& array, py::handle data) {
  array.take(data, Array::Use::write);
  require_array(array);
}

namespace {

// What a function of the program has raised stays with its request, which tells it whenever it is
// asked; but pybind11 gives one exception to Python once, and ends the process at the second time.
template <class Call>
auto raising_anew(Call&& call) {
  try {
    return call();
  } catch (const py::error_already_set& raised) {
    PyErr_Restore(py::object{raised.type()}.release().ptr(),
                  py::object{raised.value()}.release().ptr(),
                  py::object{raised.trace()}.release().ptr());
    throw py::error_already_set{};
  }
}

}  // namespace

namespace {

double seconds_of(py::handle timeout_s) {
  const double seconds = PyFloat_AsDouble(timeout_s.ptr());
  if (seconds != -1 || PyErr_Occurred() == nullptr) return seconds;
  PyErr_Clear();
  throw py::type_error("the timeout is of the wrong kind or out of range: it is seconds, or None");
}

}  // namespace

TimeLimit time_limit(py::handle timeout_s) {
  if (timeout_s.is_none()) return {};
  const double seconds = seconds_of(timeout_s);
  if (std::isnan(seconds)) throw py::value_error("the timeout is not a number of seconds");
  if (std::isinf(seconds) && seconds > 0) return no_limit;
  return std::chrono::duration<double>{seconds};
}

// A request in flight waits for its end, and the arrays are its own until then. One that has ended
// may wait for the turn of a thread that wants the interpreter. Where a call of its context is
// under way, as when the collector of garbage runs in a handler, a reduction or another thread, it
// cannot be waited for: then it and its arrays stay for ever, which is better than freed memory
// that a message still comes to.
PendingCall::~PendingCall() {
  {
    const Unlocked unlocked;
    bool is_refused = false;
    try {
      if (request_.is_in_flight()) test_all({&request_, 1});
    } catch (const std::exception&) {
      is_refused = request_.is_in_flight();
    }
    if (is_refused) {  // it has an operation: it has not ended
      operation_->endless = std::move(request_);
      [[maybe_unused]] const auto* const operation = operation_.release();
    } else {
      request_ = Request{};
    }
  }
  hand_interruption_on();
}

py::object PendingCall::result() {
  if (operation_ == nullptr) return result_;
  result_ = operation_->result();
  operation_.reset();
  return result_;
}

bool PendingCall::test() {
  return raising_anew([&] {
    const Unlocked unlocked;
    return request_.test();
  });
}

py::object PendingCall::wait(const py::object& timeout_s) {
  const bool has_limit = !timeout_s.is_none();
  const double seconds = has_limit ? seconds_of(timeout_s) : 0;
  const bool is_endless = std::isinf(seconds) && seconds > 0;
  const std::int64_t ms = is_endless ? 0 : time_limit(timeout_s).ms_or(0);
  Status status;
  const auto waited = [&] {
    const Unlocked unlocked;
    if (is_endless) {
      while (!request_.wait_for(std::chrono::hours{1})) {}
    } else if (has_limit &&
               !(ms == 0 ? request_.test() : request_.wait_for(std::chrono::milliseconds{ms}))) {
      return false;
    }
    status = request_.wait();
    return true;
  };
  bool is_over = false;
  try {
    is_over = raising_anew(waited);
  } catch (...) {
    if (!request_.is_in_flight()) operation_.reset();  // what has failed uses the arrays no more
    throw;
  }
  throw_interruption();
  if (!is_over) {
    PyErr_SetString(PyExc_TimeoutError, "the operation has not ended yet");
    throw py::error_already_set();
  }
  if (operation_ != nullptr) operation_->status = status;
  return result();
}

bool PendingCall::receives() const noexcept {
  return operation_ != nullptr && operation_->gives == Operation::Gives::status &&
         operation_->in.data() == nullptr;
}

bool PendingCall::cancel() {
  const Unlocked unlocked;
  const bool is_taken_back = request_.cancel();
  if (is_taken_back) is_cancelled_ = true;
  return is_taken_back;
}

}  // namespace qpmesh::python

// SPDX-License-Identifier: MIT
// A call of Python's while it runs: the arrays that it keeps, and what it returns.
#pragma once

#include <pybind11/pybind11.h>

#include <complex>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "interpreter.hpp"
#include "module/array.hpp"
#include "qpmesh/qpmesh.hpp"

namespace qpmesh::python {

// A reduction that Python gives: a function of two numpy arrays that returns one. It is the
// operation's; the library has copies of this.
struct PythonFunction {
  py::handle function;
  py::handle element_type;  // numpy's
  std::size_t element_bytes = 0;

  void operator()(const void* left, void* inout, std::size_t count) const;
};

// Used, made and destroyed while the interpreter is locked.
class Operation {
 public:
  enum class Gives : std::uint8_t { nothing, object, number, list, status };

  Array in;
  Array out;          // of a call in place: nothing, and the result is in `in`
  Status status{};    // of a receive
  Request endless{};  // of one that stays for ever, with its arrays
  Gives gives = Gives::nothing;
  py::object object{};  // that it gives

  const Array& target() const noexcept { return is_in_place_ ? in : out; }
  // data is reduced or moved in place, or into `into` where that is not None; and given. Where
  // nothing comes in place data is only read.
  void take(py::handle data, py::handle into, Array::Use in_place = Array::Use::write);
  // What comes from every rank goes into `into`, or a new array of so many times data's shape.
  void take_gathered(py::handle data, py::handle into, int times);
  void take_in(py::handle data);
  void take_out(py::handle data);
  void give(py::handle what);

  // A name, or a function: of elements like those of `like`.
  void reduce_by(py::handle reduction, py::handle like);

  // A list of arrays is one of blocks, and so is an array with counts.
  bool take_blocks_in(py::handle data, py::handle counts);
  bool take_blocks_out(py::handle data, py::handle counts);

  // What goes in and what comes out has elements of one type. Throws py::type_error. Not of a
  // sendrecv, whose two messages have nothing in common.
  void check_types() const;
  bool may_differ = false;

  py::object result() const;

  // call(make, reduction): make(array) is what a call takes as a range; the types follow from the
  // elements.
  template <class Call>
  auto with_reduction(const Array& like, Call&& call) const {
    const auto any = [](const Array& array) { return array.elements(); };
    if (!function_.is_none()) {
      const PythonFunction by{function_, element_type_, like.format().bytes};
      return call(any, UserReduction<PythonFunction>{by, commutative_});
    }
    switch (like.format().kind) {
      case Kind::boolean: return call(typed<bool>, reduction_);
      case Kind::long_double: return call(typed<long double>, reduction_);
      case Kind::complex:
        return like.format().bytes == 8 ? call(typed<std::complex<float>>, reduction_)
                                        : call(typed<std::complex<double>>, reduction_);
      default: return call(any, reduction_);
    }
  }
  // call(of), where of() names the type of elements that are cut into blocks.
  template <class Call>
  static auto with_type(const ElementFormat& format, Call&& call);

  template <class T>
  Blocks<const T> blocks_in() const {
    return blocks_of<const T>(in_blocks_);
  }
  template <class T>
  Blocks<T> blocks_out() const {
    return blocks_of<T>(out_blocks_);
  }
  // Of blocks: a name.
  Reduction named_reduction() const {
    if (!function_.is_none())
      throw py::type_error("blocks of a reduce_scatter are reduced by a name, as 'sum'");
    return reduction_;
  }
  const ElementFormat& block_format() const noexcept { return block_format_; }
  template <class T>
  static std::span<T> typed(const Array& array) {
    return {static_cast<T*>(array.data()), array.count()};
  }

 private:
  struct BlockList {
    std::vector<std::unique_ptr<Array>> arrays;  // one for each rank, or one for all
    std::vector<std::size_t> counts;             // of one for all
  };
  template <class T>
  static Blocks<T> blocks_of(const BlockList& list) {
    if (!list.counts.empty()) return blocks(typed<T>(*list.arrays.front()), list.counts);
    std::vector<std::span<T>> ranges;
    for (const auto& each : list.arrays) ranges.push_back(typed<T>(*each));
    return Blocks<T>{std::span<const std::span<T>>{ranges}};
  }
  bool take_blocks(py::handle data, py::handle counts, Array::Use use, BlockList& into);

  bool is_in_place_ = false;
  Reduction reduction_ = sum;
  py::object function_ = py::none();
  py::object element_type_ = py::none();
  bool commutative_ = false;
  BlockList in_blocks_;
  BlockList out_blocks_;
  ElementFormat block_format_{};
};

template <class Call>
auto Operation::with_type(const ElementFormat& format, Call&& call) {
  using enum ElementType;
  switch (format.type) {
    case int8: return call(std::type_identity<std::int8_t>{});
    case int16: return call(std::type_identity<std::int16_t>{});
    case int32: return call(std::type_identity<std::int32_t>{});
    case int64: return call(std::type_identity<std::int64_t>{});
    case uint8: return call(std::type_identity<std::uint8_t>{});
    case uint16: return call(std::type_identity<std::uint16_t>{});
    case uint32: return call(std::type_identity<std::uint32_t>{});
    case uint64: return call(std::type_identity<std::uint64_t>{});
    case float32: return call(std::type_identity<float>{});
    case float64: return call(std::type_identity<double>{});
    case float16: return call(std::type_identity<qpmesh::float16>{});
    case bfloat16: return call(std::type_identity<qpmesh::bfloat16>{});
    case none: break;
  }
  if (format.kind == Kind::boolean) return call(std::type_identity<bool>{});
  if (format.kind == Kind::long_double) return call(std::type_identity<long double>{});
  if (format.kind == Kind::complex && format.bytes == 8)
    return call(std::type_identity<std::complex<float>>{});
  if (format.kind == Kind::complex) return call(std::type_identity<std::complex<double>>{});
  throw py::type_error("blocks are of numbers");
}

// Of what comes: throws TypeError for a number, which nobody would see again.
void take_target(Array& array, py::handle data);

// A call that was started.
class PendingCall {
 public:
  PendingCall(py::object communicator, std::unique_ptr<Operation> operation, Request request)
      : communicator_{std::move(communicator)},
        operation_{std::move(operation)},
        request_{std::move(request)} {}
  ~PendingCall();
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  bool test();
  // Throws TimeoutError, and nothing has changed.
  py::object wait(const py::object& timeout_s);
  bool cancel();
  // Is it a receive, that has not ended as far as was asked?
  bool receives() const noexcept;
  bool is_in_flight() const noexcept { return request_.is_in_flight(); }
  bool is_cancelled() const noexcept { return is_cancelled_; }
  const py::object& communicator() const noexcept { return communicator_; }

 private:
  py::object result();

  py::object communicator_;
  std::unique_ptr<Operation> operation_;  // until it has ended
  Request request_;
  bool is_cancelled_ = false;
  py::object result_ = py::none();
};

// Seconds; None: that of the options; math.inf: none.
TimeLimit time_limit(py::handle timeout_s);

py::object numpy(const char* name);  // of its module
// A new array of elements like those of data. shape_of(data's shape) is its shape.
py::object new_array(py::handle data, const std::function<py::tuple(const py::tuple&)>& shape_of);

// A list of arrays, one for each rank.
inline bool is_list(py::handle object) {
  return py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object);
}

}  // namespace qpmesh::python

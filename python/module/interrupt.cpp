// SPDX-License-Identifier: MIT
#include "module/interrupt.hpp"

#include <pybind11/pybind11.h>

#include <optional>
#include <thread>

#include "interpreter.hpp"
#include "qpmesh/interrupt.hpp"

namespace qpmesh::python {
namespace {

std::thread::id main_thread;  // written once, before any call

// Of the main thread. It lives until it is raised.
std::optional<pybind11::error_already_set>& interruption() {
  static auto* const raised = new std::optional<pybind11::error_already_set>;
  return *raised;
}

// Only Python's main thread runs handlers: no other one needs the interpreter for that.
bool is_interrupted() noexcept {
  if (std::this_thread::get_id() != main_thread) return false;
  if (interruption()) return true;  // until that is raised
  const Locked locked;
  if (PyErr_CheckSignals() == 0) return false;
  interruption().emplace();
  return true;
}

}  // namespace

void watch_for_signals() noexcept {
  main_thread = std::this_thread::get_id();
  set_interrupt_check(&is_interrupted);
}

bool is_interruption_pending() noexcept {
  return std::this_thread::get_id() == main_thread && interruption();
}

bool set_interruption() noexcept {
  if (!is_interruption_pending()) return false;
  interruption()->restore();
  interruption().reset();
  return true;
}

void throw_interruption() {
  if (set_interruption()) throw pybind11::error_already_set{};
}

void hand_interruption_on() noexcept {
  if (!is_interruption_pending()) return;
  if (interruption()->matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
  else interruption()->discard_as_unraisable("a Request");
  interruption().reset();
}

}  // namespace qpmesh::python

// SPDX-License-Identifier: MIT
// What goes wrong, as torch's users see it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "qpmesh/qpmesh.h"

namespace qpmesh_torch {

// A RuntimeError of Python's, with the parts of qpmesh::Error.
class Error : public std::runtime_error {
 public:
  // The text begins with what was being done.
  Error(const std::string& doing, const qpmesh_error& error)
      : std::runtime_error{doing + ": " + error.text},
        code_{static_cast<qpmesh_code>(error.code)},
        peer_{error.peer},
        system_error_{error.system_error},
        operation_{error.operation},
        cause_{error.cause},
        hint_{error.hint} {}

  qpmesh_code code() const noexcept { return code_; }
  int peer() const noexcept { return peer_; }  // -1: nobody in particular
  int system_error() const noexcept { return system_error_; }
  const std::string& operation() const noexcept { return operation_; }
  const std::string& cause() const noexcept { return cause_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  qpmesh_code code_;
  int peer_;
  int system_error_;
  std::string operation_;
  std::string cause_;
  std::string hint_;
};

// One call of a group, for texts: "allreduce (number 17 of group 'default_pg')".
struct Doing {
  const char* operation;     // lasts for ever
  std::uint64_t number;      // of the group's calls, from 1 on; 0: not one of those
  const std::string* group;  // its name; lasts as long as the group
  std::string text() const {
    if (group == nullptr) return operation;
    const std::string of = "group '" + *group + "')";
    return operation +
           (number == 0 ? " (" + of : " (number " + std::to_string(number) + " of " + of);
  }
};

// Throws what the last failed call of this thread met.
[[noreturn]] inline void throw_last_error(const Doing& doing) {
  throw Error{doing.text(), *qpmesh_last_error()};
}
inline void require_ok(int code, const Doing& doing) {
  if (code != QPMESH_OK) throw_last_error(doing);
}
[[noreturn]] inline void throw_error(const Doing& doing, qpmesh_code code, const std::string& cause,
                                     const std::string& hint, int peer = -1) {
  // As the library's own.
  const std::string text = std::string{"qpmesh: "} + qpmesh_code_name(code) + " in " +
                           doing.operation + ": " + cause +
                           (hint.empty() ? "" : " [hint: " + hint + "]");
  throw Error{doing.text(),
              {code, peer, 0, doing.operation, cause.c_str(), hint.c_str(), text.c_str()}};
}
[[noreturn]] inline void bad_argument(const Doing& doing, const std::string& cause,
                                      const std::string& hint) {
  throw_error(doing, QPMESH_BAD_ARGUMENT, cause, hint);
}

}  // namespace qpmesh_torch

#include "errors.hpp"

namespace qpmesh_torch {

Error::Error(const std::string& doing, const qpmesh_error& error)
    : std::runtime_error{doing + ": " + error.text},
      code_{static_cast<qpmesh_code>(error.code)},
      peer_{error.peer},
      system_error_{error.system_error},
      operation_{error.operation},
      cause_{error.cause},
      hint_{error.hint} {}

std::string Doing::text() const {
  std::string text = operation;
  if (number != 0) text += " (number " + std::to_string(number) + " of group '" + *group + "')";
  else if (group != nullptr) text += " (group '" + *group + "')";
  return text;
}

void throw_last_error(const Doing& doing) { throw Error{doing.text(), *qpmesh_last_error()}; }

void throw_error(const Doing& doing, qpmesh_code code, const std::string& cause,
                 const std::string& hint, int peer) {
  // As the library's own.
  const std::string text = std::string{"qpmesh: "} + qpmesh_code_name(code) + " in " +
                           doing.operation + ": " + cause +
                           (hint.empty() ? "" : " [hint: " + hint + "]");
  throw Error{doing.text(),
              {.code = code,
               .peer = peer,
               .system_error = 0,
               .operation = doing.operation,
               .cause = cause.c_str(),
               .hint = hint.c_str(),
               .text = text.c_str()}};
}

}  // namespace qpmesh_torch

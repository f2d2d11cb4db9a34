#include "torch/errors.hpp"

namespace qpmesh_torch {

Error::Error(const std::string& doing, const qpmesh_error& error)
    : std::runtime_error{doing + ": " + error.text},
      code_{static_cast<qpmesh_code>(error.code)},
      peer_{error.peer},
      system_error_{error.system_error},
      operation_{error.operation},
      cause_{error.cause},
      hint_{error.hint} {}

const char* name_of(qpmesh_code code) noexcept {
  switch (code) {
    case QPMESH_OK: return "ok";
    case QPMESH_BAD_ARGUMENT: return "bad_argument";
    case QPMESH_BAD_CONFIG: return "bad_config";
    case QPMESH_NO_RESOURCE: return "no_resource";
    case QPMESH_AUTHENTICATION: return "authentication";
    case QPMESH_MISMATCH: return "mismatch";
    case QPMESH_TIMEOUT: return "timeout";
    case QPMESH_PEER_DEAD: return "peer_dead";
    case QPMESH_LINK_FAILED: return "link_failed";
    case QPMESH_TRUNCATED: return "truncated";
    case QPMESH_ABORTED: return "aborted";
    case QPMESH_CORRUPT: return "corrupt";
    case QPMESH_INTERNAL: return "internal";
  }
  return "unknown";
}

std::string Doing::text() const {
  std::string text = operation;
  if (number != 0) text += " (number " + std::to_string(number) + " of group '" + *group + "')";
  else if (group != nullptr) text += " (group '" + *group + "')";
  return text;
}

void throw_last_error(const Doing& doing) { throw Error{doing.text(), *qpmesh_last_error()}; }

void throw_error(const Doing& doing, qpmesh_code code, const std::string& cause,
                 const std::string& hint) {
  // As the library's own.
  const std::string text = std::string{"qpmesh: "} + name_of(code) + " in " + doing.operation +
                           ": " + cause + (hint.empty() ? "" : " [hint: " + hint + "]");
  throw Error{doing.text(),
              {.code = code,
               .peer = -1,
               .system_error = 0,
               .operation = doing.operation,
               .cause = cause.c_str(),
               .hint = hint.c_str(),
               .text = text.c_str()}};
}

}  // namespace qpmesh_torch

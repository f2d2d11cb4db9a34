// SPDX-License-Identifier: MIT
// Errors for C, and how a call is made.
#include "face/c_interface.hpp"

namespace qpmesh::face {
namespace {

// The enumerations of C are those of C++, in the same order; codes follow QPMESH_OK.
constexpr int code_of(ErrorCode code) noexcept { return static_cast<int>(code) + 1; }
static_assert(code_of(ErrorCode::bad_argument) == QPMESH_BAD_ARGUMENT);
static_assert(code_of(ErrorCode::truncated) == QPMESH_TRUNCATED);
static_assert(code_of(ErrorCode::internal) == QPMESH_INTERNAL);
static_assert(static_cast<int>(ElementType::none) == QPMESH_BYTE);
static_assert(static_cast<int>(ElementType::uint64) == QPMESH_UINT64);
static_assert(static_cast<int>(ElementType::bfloat16) == QPMESH_BFLOAT16);
static_assert(no_peer == -1);

// This thread's last error, and what C sees of it.
thread_local std::optional<Error> last;
thread_local qpmesh_error shown{QPMESH_OK, no_peer, 0, "", "", "", ""};

}  // namespace

int failed(const Error& error) noexcept {
  last = error;  // shares its texts
  shown = {
      code_of(last->code()), last->peer(),         last->system_error(), last->operation().c_str(),
      last->cause().c_str(), last->hint().c_str(), last->what()};
  return shown.code;
}

int failed_without_memory() noexcept {
  shown = {QPMESH_NO_RESOURCE, no_peer, 0, "", "no memory", "", "qpmesh: no_resource: no memory"};
  return shown.code;
}

int failed(std::string_view operation, const char* cause) noexcept {
  try {
    return failed(
        Error{{.code = ErrorCode::internal, .operation = std::string{operation}, .cause = cause}});
  } catch (const std::bad_alloc&) {
    return failed_without_memory();
  }
}

Asked read_unusual_call(const qpmesh_call& call, std::string_view operation) {
  if (call.struct_bytes < sizeof call.struct_bytes || call.struct_bytes > sizeof call) {
    bad_argument(operation,
                 "set struct_bytes to sizeof(qpmesh_call), and all that is not used to 0",
                 "a qpmesh_call of {} bytes; here it has {}", call.struct_bytes, sizeof call);
  }
  qpmesh_call own{};
  std::memcpy(&own, &call, call.struct_bytes);
  if (own.timeout_ms < QPMESH_NO_TIMEOUT) {
    bad_argument(operation, "1 or more, 0 for QPMESH_TIMEOUT_MS, or QPMESH_NO_TIMEOUT",
                 "a timeout of {} ms", own.timeout_ms);
  }
  Asked asked = read_members(own);
  if (own.timeout_ms == QPMESH_NO_TIMEOUT) asked.options.timeout = no_limit;
  else if (own.timeout_ms != 0) asked.options.timeout = std::chrono::milliseconds{own.timeout_ms};
  return asked;
}

Asked read_blocking_call(const qpmesh_call& call, std::string_view operation) {
  const Asked asked = read_call(&call, operation);
  if (asked.prepared) {
    bad_argument(operation, "prepare a call that ends in _async",
                 "a call that is prepared, and would wait");
  }
  return asked;
}

AnElement checked_element_of(qpmesh_type type, std::string_view operation) {
  if (type > QPMESH_STRUCT)
    return {static_cast<std::size_t>(type) - QPMESH_STRUCT, ElementType::none};
  const auto index = static_cast<std::size_t>(type);
  if (index > QPMESH_BFLOAT16)
    bad_argument(operation, "take QPMESH_FLOAT32 or one of its like", "type {} does not exist",
                 type);
  const auto named = static_cast<ElementType>(type);
  return {named == ElementType::none ? 1 : bytes_of(named), named};
}

}  // namespace qpmesh::face

// The names of C++ are literals: they end with a zero.
const char* qpmesh_code_name(int code) {
  if (code == QPMESH_OK) return "ok";
  if (code < QPMESH_OK || code > QPMESH_INTERNAL) return "unknown";
  return qpmesh::to_string(static_cast<qpmesh::ErrorCode>(code - 1)).data();
}

const qpmesh_error* qpmesh_last_error(void) { return &qpmesh::face::shown; }
const char* qpmesh_error_text(void) { return qpmesh::face::shown.text; }

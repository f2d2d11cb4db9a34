#include "arguments.hpp"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

namespace qpmesh::detail {
namespace {

[[noreturn]] void bad_argument(std::string_view operation, std::string cause, std::string hint,
                               int peer = no_peer) {
  throw Error{{.code = ErrorCode::bad_argument,
               .peer = peer,
               .operation = std::string{operation},
               .cause = std::move(cause),
               .hint = std::move(hint)}};
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const std::less<> before;  // of unrelated pointers
  const auto* const first = static_cast<const std::byte*>(a);
  const auto* const second = static_cast<const std::byte*>(b);
  return a_bytes > 0 && b_bytes > 0 && before(first, second + b_bytes) && before(second, first + a_bytes);
}

}  // namespace

void bad_count(std::size_t element_count, std::size_t element_bytes, std::string_view operation) {
  bad_argument(
      operation,
      fmt::format("{} elements of {} bytes are more than memory can hold", element_count, element_bytes),
      "a negative count, turned unsigned, looks like this");
}

void bad_null(std::size_t element_count, std::string_view operation) {
  bad_argument(operation, fmt::format("null with a count of {}", element_count),
               "a range without memory has a count of 0");
}

void bad_peer(int peer, int size, std::string_view operation, std::string_view what) {
  bad_argument(operation, fmt::format("{} {} is not a rank of this communicator", what, peer),
               fmt::format("ranks here are 0 to {}", size - 1), peer);
}

void bad_tag(int tag, std::string_view operation) {
  bad_argument(operation, fmt::format("tag {} is negative", tag), "tags are 0 to 2147483647");
}

void bad_timeout(Call call, std::string_view operation) {
  bad_argument(
      operation, fmt::format("a timeout of {} ms", call.timeout_ms),
      fmt::format("1 to {} ms, 0 for ever, or leave it out for QPMESH_TIMEOUT_MS", Call::timeout_ms_max));
}

void bad_reduction(Reduction reduction, std::string_view operation) {
  if (reduction.kind > ReductionKind::logical_xor) {
    bad_argument(operation, fmt::format("reduction {} does not exist", static_cast<int>(reduction.kind)),
                 "take qpmesh::sum or one of its like");
  }
  bad_argument(operation, "a bitwise reduction of a floating type has no meaning",
               "bit_and, bit_or and bit_xor take integers");
}

void check_disjoint(const ConstElements& out, const Elements& in, std::string_view operation) {
  const std::size_t out_bytes = checked_bytes(out, operation);
  const std::size_t in_bytes = checked_bytes(in, operation);
  if (!overlap(out.data, out_bytes, in.data, in_bytes)) return;
  bad_argument(
      operation,
      fmt::format("the {} bytes to send and the {} bytes to receive into overlap", out_bytes, in_bytes),
      "send from one range and receive into another");
}

void check_pair(const ConstElements& in, const Elements& out, std::string_view operation) {
  const std::size_t bytes = checked_bytes(in, operation);
  checked_bytes(out, operation);
  if (in.element_count != out.element_count) {
    bad_argument(operation,
                 fmt::format("in has {} elements, out has {}", in.element_count, out.element_count),
                 "give in and out equal counts");
  }
  if (in.data == out.data || !overlap(in.data, bytes, out.data, bytes)) return;
  bad_argument(operation, fmt::format("in and out overlap without being the same {} bytes", bytes),
               "use one range in place, or two that do not touch");
}

}  // namespace qpmesh::detail

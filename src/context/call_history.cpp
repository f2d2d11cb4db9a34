// SPDX-License-Identifier: MIT
#include "context/call_history.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qpmesh::context {
namespace {

constexpr std::array<std::string_view, 13> type_names{
    "bytes",  "int8",   "int16",   "int32",   "int64",   "uint8",   "uint16",
    "uint32", "uint64", "float32", "float64", "float16", "bfloat16"};
static_assert(type_names.size() == static_cast<std::size_t>(ElementType::bfloat16) + 1);
constexpr std::array<std::string_view, 11> reduction_names{
    "sum",    "product", "min",         "max",        "average",    "bit_and",
    "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor"};
static_assert(reduction_names.size() == static_cast<std::size_t>(ReductionKind::logical_xor) + 1);

}  // namespace

std::string describe_elements(ElementType type, std::size_t element_bytes) {
  if (type == ElementType::none) return fmt::format("elements of {} bytes", element_bytes);
  return std::string{type_names[static_cast<std::size_t>(type)]};
}

std::string CollectiveCall::describe() const {
  std::string arguments;
  if (element_bytes > 0) {
    const std::string what = describe_elements(type, element_bytes);
    arguments = has_layout
                    ? fmt::format("blocks of {}{}", what, lies_apart ? " that lie apart" : "")
                    : fmt::format("{} {}", element_count, what);
  }
  if (reduction < reduction_names.size())
    arguments += fmt::format(", {}", reduction_names[reduction]);
  if (reduction == commutative_function) arguments += ", a commutative function";
  if (reduction == ordered_function) arguments += ", an ordered function";
  if (root >= 0) arguments += fmt::format(", root {}", root);
  if (algorithm_asked_for) arguments += fmt::format(", by {}", algorithm->name);
  if (layout_hash != 0)
    arguments += fmt::format(", layout {:08x}", static_cast<std::uint32_t>(layout_hash));
  return fmt::format("{}({})", operation.text, arguments);
}

std::string OperationLog::describe() const {
  std::string text;
  for (std::uint64_t i = count_ - std::min<std::uint64_t>(count_, entries_.size()); i < count_;
       ++i) {
    const Entry& entry = entries_[i % entries_.size()];
    text += fmt::format("{}#{} {}", text.empty() ? "" : ", ", i + 1, entry.operation);
    if (entry.bytes > 0) text += fmt::format(" {} bytes", entry.bytes);
    if (entry.peer >= 0) text += fmt::format(" with {}", entry.peer);
    if (entry.tag >= 0) text += fmt::format(" tag {}", entry.tag);
  }
  return text.empty() ? "none" : text;
}

std::string CallHistory::describe(std::uint32_t operation) const {
  if (!has_begun(operation)) return "a call not made yet";
  if (!remembers(operation)) return "a call long past";
  return calls_[remembered(operation).call % remembered_max].describe();
}

CallHistory::Signatures CallHistory::signatures() const {
  Signatures last{.first_operation = next_operation_};
  while (remembers(last.first_operation - 1)) --last.first_operation;
  for (std::uint32_t i = last.first_operation; i != next_operation_; ++i)
    last.values.push_back(remembered(i).signature);
  return last;
}

std::optional<std::uint32_t> CallHistory::first_difference(const Signatures& peers,
                                                           bool peer_saw_one) const noexcept {
  bool is_one_remembered = false;
  std::uint32_t operation = peers.first_operation;
  for (const std::uint32_t signature : peers.values) {
    if (!agrees(operation, signature)) return operation;
    is_one_remembered |= remembers(operation);
    ++operation;
  }
  // Signatures that agree stand for all calls before them, too. Then what the peer saw was left by
  // a call of 2^32 calls ago, which had the same number: memory that nobody has written since.
  if (is_one_remembered || !peer_saw_one) return std::nullopt;
  return peers.first_operation;
}

}  // namespace qpmesh::context

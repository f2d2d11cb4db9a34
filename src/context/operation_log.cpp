#include "context/operation_log.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qpmesh::context {

std::string OperationLog::describe(std::size_t count_max) const {
  std::string text;
  const std::size_t count = std::min({count_max, entries_.size(), static_cast<std::size_t>(next_)});
  for (std::uint64_t i = next_ - count; i < next_; ++i) {
    const Entry& entry = entries_[i % entries_.size()];
    text += fmt::format("{}#{} {}", text.empty() ? "" : ", ", entry.number, entry.operation);
    if (entry.bytes > 0) text += fmt::format(" {} bytes", entry.bytes);
    if (entry.peer >= 0) text += fmt::format(" with {}", entry.peer);
    if (entry.tag >= 0) text += fmt::format(" tag {}", entry.tag);
  }
  return text.empty() ? "none" : text;
}

}  // namespace qpmesh::context

#include "messaging/matching.hpp"

namespace qpmesh::messaging {
Unexpected& Matching::new_message() {
  if (free_ == nullptr) {
    constexpr std::size_t chunk = 64;
    chunks_.push_back(std::make_unique<Unexpected[]>(chunk));
    for (std::size_t i = 0; i < chunk; ++i) {
      chunks_.back()[i].next = free_;
      free_ = &chunks_.back()[i];
    }
  }
  Unexpected& message = *free_;
  free_ = message.next;
  message.next = message.previous = message.next_pinned = nullptr;
  ++in_use_;
  return message;
}

void Matching::free_message(Unexpected& message) noexcept {
  message.copy.reset();
  message.ring_payload = nullptr;
  message.next = free_;
  free_ = &message;
  --in_use_;
}

}  // namespace qpmesh::messaging

#include "messaging/matching.hpp"

namespace qpmesh::messaging {
namespace {

bool matches(const ReceiveOperation& receive, const Envelope& envelope) noexcept {
  return receive.communicator == envelope.communicator && (receive.any_tag || receive.key == envelope.key) &&
         (receive.source == any_peer || receive.source == envelope.source);
}

}  // namespace

ReceiveOperation* Matching::take_posted(const Envelope& envelope) noexcept {
  List<ReceiveOperation>& list = posted_[index(envelope.key)];
  for (ReceiveOperation* receive = list.first(); receive != nullptr; receive = receive->next) {
    if (!matches(*receive, envelope)) continue;
    list.remove(*receive);
    return receive;
  }
  return nullptr;
}

Unexpected* Matching::find_unexpected(const ReceiveOperation& receive) const noexcept {
  for (Unexpected* message = unexpected_[index(receive.key)].first(); message != nullptr; message = message->next) {
    if (matches(receive, message->envelope)) return message;
  }
  return nullptr;
}

void Matching::post(ReceiveOperation& receive) noexcept { posted_[index(receive.key)].push_back(receive); }
void Matching::unpost(ReceiveOperation& receive) noexcept { posted_[index(receive.key)].remove(receive); }

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

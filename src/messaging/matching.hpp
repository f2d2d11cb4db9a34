// SPDX-License-Identifier: MIT
// Who gets which message: posted receives and unexpected messages, both in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "messaging/elements.hpp"
#include "messaging/operations.hpp"
#include "messaging/rings/credits.hpp"
#include "messaging/rings/record.hpp"

namespace qpmesh::messaging {

struct Envelope {
  std::uint64_t communicator = 0;
  std::uint64_t key = 0;
  int source = -1;  // rank in the context
  std::size_t bytes = 0;
  std::uint32_t signature = 0;
};

// The receive learns what its message is. False: it cannot take that, and knows why.
inline bool take_envelope(ReceiveOperation& receive, const Envelope& envelope) noexcept {
  receive.message_source = envelope.source;
  receive.message_key = envelope.key;
  receive.message_bytes = envelope.bytes;
  receive.message_signature = envelope.signature;
  receive.mistyped =
      !is_collective(envelope.key) && !elements_agree(envelope.signature, receive.signature);
  receive.truncated = !receive.mistyped && envelope.bytes > receive.capacity_bytes;
  if (receive.truncated && receive.takes_head) [[unlikely]]
    receive.truncated = !take_whole(receive, envelope.bytes);
  return !receive.mistyped && !receive.truncated;
}

struct Unexpected;

// A message that somebody took out of the line, to receive it later. It is there as long as its
// number is, which no other message ever has.
struct HeldMessage {
  Unexpected* message = nullptr;
  std::uint64_t number = 0;
  Envelope envelope{};
};

// A message that came before its receive. Its payload is here, or is still at the sender (offer).
struct Unexpected {
  Envelope envelope;
  RecordKind kind = RecordKind::eager_inline;
  std::uint8_t flags = 0;
  OfferBody offer{};
  const std::byte* ring_payload = nullptr;  // eager_payload: in the payload ring, which it pins
  PayloadCursor::Place place{};
  std::unique_ptr<std::byte[]> copy;  // eager_payload: moved out of the ring
  std::uint64_t held_number = 0;      // 0: in line
  std::uint64_t arrival = 0;          // numbers in the order in which messages came
  std::byte inline_payload[inline_bytes_max];
  Unexpected* previous = nullptr;
  Unexpected* next = nullptr;
  Unexpected* next_pinned = nullptr;  // of the same peer, in ring order

  const std::byte* payload() const noexcept {
    if (kind == RecordKind::eager_inline) return inline_payload;
    return copy ? copy.get() : ring_payload;
  }
};

// Receives are kept by their source: what comes from a rank is looked for among few. Those of any
// source have a list of their own, and of two that fit the one that was posted first is taken.
class Matching {
 public:
  explicit Matching(int rank_count)
      : posted_{Posted{static_cast<std::size_t>(rank_count)},
                Posted{static_cast<std::size_t>(rank_count)}} {}

  // The first posted receive that takes this message, removed from its list; nullptr: none.
  ReceiveOperation* take_posted(const Envelope& envelope) noexcept {
    Posted& posted = posted_[index(envelope.key)];
    List<ReceiveOperation>* list = &posted.of(envelope.source);
    ReceiveOperation* receive = first_match(*list, envelope);
    if (!posted.of_any.empty()) [[unlikely]] {
      ReceiveOperation* const any = first_match(posted.of_any, envelope);
      if (any != nullptr && (receive == nullptr || any->order < receive->order)) {
        receive = any;
        list = &posted.of_any;
      }
    }
    if (receive != nullptr) list->remove(*receive);
    return receive;
  }
  // The first message in line for the receive, left in line; nullptr: none.
  Unexpected* find_unexpected(const ReceiveOperation& receive) const noexcept {
    for (Unexpected* message = unexpected_[index(receive.key)].first(); message != nullptr;
         message = message->next) {
      if (matches(receive, message->envelope)) return message;
    }
    return nullptr;
  }

  void post(ReceiveOperation& receive) noexcept {
    receive.order = ++posts_;
    posted_[index(receive.key)].of(receive.source).push_back(receive);
  }
  void unpost(ReceiveOperation& receive) noexcept {
    posted_[index(receive.key)].of(receive.source).remove(receive);
  }
  void add(Unexpected& message) noexcept {
    message.arrival = ++arrivals_;
    unexpected_[index(message.envelope.key)].push_back(message);
  }
  void remove(Unexpected& message) noexcept { list_of(message).remove(message); }

  HeldMessage hold(Unexpected& message) noexcept {
    remove(message);
    message.held_number = ++holds_;
    held_.push_back(message);
    return {&message, holds_, message.envelope};
  }
  // nullptr: it was received, or discarded.
  Unexpected* find_held(const HeldMessage& held) const noexcept {
    return held.message->held_number == held.number ? held.message : nullptr;
  }
  // Where it was: before all that came after it.
  void put_back(Unexpected& message) noexcept {
    remove(message);
    message.held_number = 0;
    List<Unexpected>& list = list_of(message);
    Unexpected* following = list.first();
    while (following != nullptr && following->arrival < message.arrival)
      following = following->next;
    if (following == nullptr) list.push_back(message);
    else list.insert_before(message, *following);
  }

  // The receive of a communicator that was posted first, of those that name their source; nullptr:
  // none.
  const ReceiveOperation* first_posted(std::uint64_t communicator) noexcept {
    const ReceiveOperation* first = nullptr;
    for_each_posted([&](const ReceiveOperation& receive) {
      const bool is_awaited = receive.communicator == communicator && receive.source != any_peer;
      if (is_awaited && (first == nullptr || receive.order < first->order)) first = &receive;
    });
    return first;
  }
  template <class F>
  void for_each_posted(F&& f) {
    for (Posted& posted : posted_) {
      posted.of_any.for_each(f);
      for (auto& list : posted.by_source) list.for_each(f);
    }
  }
  template <class F>
  void for_each_unexpected(F&& f) {
    for (auto& list : unexpected_) list.for_each(f);
    held_.for_each(f);
  }

  bool has_unexpected_collectives() const noexcept { return !unexpected_[1].empty(); }
  template <class F>
  void for_each_unexpected_collective(F&& f) {
    unexpected_[1].for_each(f);
  }

  // Kept between messages: small ones soon allocate nothing. Throws std::bad_alloc.
  Unexpected& new_message() {
    if (free_.empty()) free_.push_back(messages_.emplace_back());
    Unexpected& message = *free_.first();
    free_.remove(message);
    ++in_use_;
    return message;
  }
  void free_message(Unexpected& message) noexcept {
    message.copy.reset();
    message.held_number = 0;
    message.ring_payload = nullptr;
    free_.push_front(message);
    --in_use_;
  }
  std::size_t messages_in_use() const noexcept { return in_use_; }

 private:
  static bool matches(const ReceiveOperation& receive, const Envelope& envelope) noexcept {
    return receive.communicator == envelope.communicator &&
           (receive.any_tag || receive.key == envelope.key) &&
           (receive.source == any_peer || receive.source == envelope.source);
  }
  static std::size_t index(std::uint64_t key) noexcept { return is_collective(key) ? 1 : 0; }
  List<Unexpected>& list_of(const Unexpected& message) noexcept {
    return message.held_number != 0 ? held_ : unexpected_[index(message.envelope.key)];
  }

  struct Posted {
    explicit Posted(std::size_t rank_count) : by_source(rank_count) {}
    List<ReceiveOperation>& of(int source) noexcept {
      return source == any_peer ? of_any : by_source[static_cast<std::size_t>(source)];
    }
    std::vector<List<ReceiveOperation>> by_source;
    List<ReceiveOperation> of_any;
  };
  static ReceiveOperation* first_match(const List<ReceiveOperation>& list,
                                       const Envelope& envelope) noexcept {
    ReceiveOperation* receive = list.first();
    while (receive != nullptr && !matches(*receive, envelope)) receive = receive->next;
    return receive;
  }

  // Point-to-point, collective: neither is searched for the other.
  Posted posted_[2];
  std::uint64_t posts_ = 0;
  List<Unexpected> unexpected_[2];
  List<Unexpected> held_;
  std::uint64_t holds_ = 0;
  std::uint64_t arrivals_ = 0;
  std::deque<Unexpected> messages_;
  List<Unexpected> free_;
  std::size_t in_use_ = 0;
};

}  // namespace qpmesh::messaging

// SPDX-License-Identifier: MIT
// A send and a receive in flight. Owned by the caller, at a fixed address from start until done;
// messaging links them into its lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/cpu_copy.hpp"
#include "messaging/rendezvous/states.hpp"
#include "progress/task.hpp"
#include "qpmesh/deadline.hpp"
#include "transport/transport.hpp"

namespace qpmesh::messaging {

// What matching compares within a communicator. Point-to-point: the tag, ordered per (source, tag).
// Collectives: the number of the operation, and of the piece of it where it runs in several at the
// same time; first in first out per (operation, piece, source). Their receives know exactly what
// comes.
inline constexpr std::uint64_t collective_key_bit = std::uint64_t{1} << 63;
constexpr std::uint64_t tag_key(int tag) noexcept { return static_cast<std::uint32_t>(tag); }
constexpr std::uint64_t collective_key(std::uint32_t operation, std::uint32_t piece = 0) noexcept {
  return collective_key_bit | std::uint64_t{piece} << 32 | operation;
}
constexpr bool is_collective(std::uint64_t key) noexcept { return (key & collective_key_bit) != 0; }
constexpr std::uint32_t operation_of(std::uint64_t key) noexcept {
  return static_cast<std::uint32_t>(key);
}

inline constexpr int any_peer = -1;

// A list that costs no allocation: its members carry the links.
template <class T>
class List {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  T* first() const noexcept { return first_; }
  void push_back(T& item) noexcept {
    item.previous = last_;
    item.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &item;
    last_ = &item;
  }
  void push_front(T& item) noexcept {
    item.previous = nullptr;
    item.next = first_;
    (first_ != nullptr ? first_->previous : last_) = &item;
    first_ = &item;
  }
  void insert_before(T& item, T& following) noexcept {
    if (following.previous == nullptr) return push_front(item);
    item.previous = following.previous;
    item.next = &following;
    item.previous->next = following.previous = &item;
  }
  void remove(T& item) noexcept {
    (item.previous != nullptr ? item.previous->next : first_) = item.next;
    (item.next != nullptr ? item.next->previous : last_) = item.previous;
    item.previous = item.next = nullptr;
  }
  // f may remove the item it is given.
  template <class F>
  void for_each(F&& f) {
    for (T* item = first_; item != nullptr;) {
      T* const following = item->next;
      f(*item);
      item = following;
    }
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

// What is sent, and to whom.
struct Outgoing {
  std::uint64_t communicator = 0;
  std::uint64_t key = 0;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  int target = -1;              // rank in the context
  std::uint32_t signature = 0;  // of the collective call, or of the elements (elements.hpp)
  bool synchronous = false;     // never eager: it ends when its receive has it
};

struct SendOperation : progress::Operation, Outgoing {
  using State = SendState;

  State state = State::idle;
  std::uint32_t number = 0;  // ours, of the rendezvous
  std::uint32_t receiver_number = 0;
  std::size_t moved_bytes = 0;
  transport::RemoteAddress destination{};
  std::uint64_t completion = 0;  // of the last piece posted
  bool staged = false;           // the source is copied before the device reads it
  bool taken_back = false;       // the peer waits for the last piece to have its target back
  std::optional<transport::RemoteAddress> opened{};  // registered for this operation alone
  SendOperation* previous = nullptr;
  SendOperation* next = nullptr;
};

// How arriving bytes become part of the target where they are not just copied:
// target[i] = operand[i] op arrived[i].
using Combine = void (*)(std::byte* target, const std::byte* operand, const std::byte* arrived,
                         std::size_t bytes, const void* context);

struct ReceiveOperation : progress::Operation {
  using State = ReceiveState;
  static constexpr std::uint8_t not_timed = 0xff;

  std::uint64_t communicator = 0;
  std::uint64_t key = 0;
  std::byte* data = nullptr;
  std::size_t capacity_bytes = 0;
  int source = any_peer;  // rank in the context
  bool any_tag = false;
  Combine combine = nullptr;
  const std::byte* operand = nullptr;
  const void* context = nullptr;
  std::uint32_t signature = 0;  // of the collective call, or of the elements (elements.hpp)

  State state = State::idle;
  std::uint64_t order = 0;  // among all that were posted
  // Of a message that is longer than the buffer its head is taken. The whole comes to memory of its
  // own, which `data` is then, and `head` is where its first bytes belong.
  bool takes_head = false;
  std::byte* head = nullptr;
  std::size_t head_bytes = 0;
  // Done, but the message is still first in line: it is too long, or of elements of another type.
  bool truncated = false;
  bool mistyped = false;
  int message_source = -1;
  std::uint64_t message_key = 0;
  std::size_t message_bytes = 0;
  std::uint32_t message_signature = 0;
  std::size_t moved_bytes = 0;
  std::uint32_t number = 0;
  std::optional<transport::RemoteAddress> opened{};  // registered for this operation alone
  std::uint32_t sender_number = 0;                   // while our device reads
  std::uint64_t completion = 0;                      // of the last piece posted
  transport::RemoteAddress origin{};
  // Of a private message that another rank of the node offered: when it was, if that is timed.
  Deadline begun{};
  std::uint8_t timed_way = not_timed;
  ReceiveOperation* previous = nullptr;
  ReceiveOperation* next = nullptr;
};
static_assert(std::is_trivially_destructible_v<SendOperation> &&
              std::is_trivially_destructible_v<ReceiveOperation>);

// False: there is no memory for the whole.
inline bool take_whole(ReceiveOperation& receive, std::size_t bytes) noexcept {
  auto* const whole = new (std::nothrow) std::byte[bytes];
  if (whole == nullptr) return false;
  receive.head = std::exchange(receive.data, whole);
  receive.head_bytes = std::exchange(receive.capacity_bytes, bytes);
  return true;
}
// It has ended: the head goes where it belongs, where it has come, and the memory back.
inline void land_head(ReceiveOperation& receive) noexcept {
  if (receive.head == nullptr) return;
  if (receive.failure == nullptr && receive.head_bytes > 0)
    base::copy_bytes(receive.head, receive.data, receive.head_bytes);
  delete[] std::exchange(receive.data, std::exchange(receive.head, nullptr));
}

// Bytes of the message, from one of them on, become part of the target.
inline void deliver_part(const ReceiveOperation& receive, std::size_t from,
                         std::span<const std::byte> bytes) {
  std::byte* const target = receive.data + from;
  const std::byte* const operand = receive.operand == nullptr ? nullptr : receive.operand + from;
  if (receive.combine == nullptr) base::copy_bytes(target, bytes.data(), bytes.size());
  else receive.combine(target, operand, bytes.data(), bytes.size(), receive.context);
}

}  // namespace qpmesh::messaging

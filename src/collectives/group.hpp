// What an algorithm sees of the world: ordered ranks, and sends and receives that it awaits.
//
// Everything awaited here is trivially destructible and made by functions (the law of tasks). Operations live
// in the coroutine's frame, which cannot go away while one of them is registered.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "messaging/messaging.hpp"
#include "messaging/operations.hpp"
#include "progress/task.hpp"

namespace qpmesh::collectives {

using progress::Task;

// The ranks that run one lane of one operation.
class Group {
 public:
  struct Members {
    messaging::Messaging* messaging;
    progress::FramePool* pool;
    const int* context_ranks;  // by rank here; outlives the operation
    int size;
    int rank;
    std::uint64_t communicator;
  };

  Group(const Members& members, std::uint32_t operation, std::uint32_t signature,
        std::uint8_t lane = 0) noexcept
      : members_{members}, operation_{operation}, signature_{signature}, lane_{lane} {}

  int size() const noexcept { return members_.size; }
  int rank() const noexcept { return members_.rank; }
  int plus(int distance) const noexcept { return (members_.rank + distance) % members_.size; }
  int minus(int distance) const noexcept {
    return (members_.rank + members_.size - distance % members_.size) % members_.size;
  }
  int next() const noexcept { return plus(1); }
  int previous() const noexcept { return minus(1); }
  int rank_of(int context_rank) const noexcept {  // for messages to people
    return static_cast<int>(
        std::find(members_.context_ranks, members_.context_ranks + members_.size, context_rank) -
        members_.context_ranks);
  }
  progress::FramePool& pool() const noexcept { return *members_.pool; }
  messaging::Messaging& messaging() const noexcept { return *members_.messaging; }

  messaging::SendOperation send_operation(int to, std::span<const std::byte> data) const noexcept {
    messaging::SendOperation send;
    send.communicator = members_.communicator;
    send.key = messaging::collective_key(operation_, lane_);
    send.data = data.data();
    send.bytes = data.size();
    send.target = members_.context_ranks[to];
    send.signature = signature_;
    return send;
  }
  messaging::ReceiveOperation receive_operation(int from, std::span<std::byte> data) const noexcept {
    messaging::ReceiveOperation receive;
    receive.communicator = members_.communicator;
    receive.key = messaging::collective_key(operation_, lane_);
    receive.data = data.data();
    receive.capacity_bytes = data.size();
    receive.source = members_.context_ranks[from];
    receive.signature = signature_;
    return receive;
  }

 private:
  Members members_;
  std::uint32_t operation_;
  std::uint32_t signature_;
  std::uint8_t lane_;
};
static_assert(std::is_trivially_destructible_v<Group>);

// Throws what ended an operation. A collective knows exactly how long each
// message is: another length is a peer's fault.
void rethrow_failure(const messaging::SendOperation& send);
void rethrow_failure(const Group& group, const messaging::ReceiveOperation& receive);

// Up to `capacity` sends and receives that run together; `co_await round` starts those added since the last
// await, resumes when all have ended, and throws the first failure. A local variable of the algorithm.
template <int capacity>
class Round {
 public:
  explicit Round(const Group& group) noexcept : group_{group} {}

  void send(int to, std::span<const std::byte> data) noexcept {
    assert(send_count_ < capacity);
    std::construct_at(&sends_[index(send_count_++)], group_.send_operation(to, data));
  }
  void receive(int from, std::span<std::byte> data) noexcept {
    assert(receive_count_ < capacity);
    std::construct_at(&receives_[index(receive_count_++)], group_.receive_operation(from, data));
  }
  // data[i] = operand[i] op arrived[i]; data and operand may be the same memory.
  void receive_combine(int from, std::span<std::byte> data, const std::byte* operand,
                       messaging::Combine combine, const void* context) noexcept {
    receive(from, data);
    messaging::ReceiveOperation& receive = receives_[index(receive_count_ - 1)];
    receive.combine = combine;
    receive.operand = operand;
    receive.context = context;
  }

  class Awaiter {
   public:
    explicit Awaiter(Round& round) noexcept : round_{round} {}
    bool await_ready() { return round_.start(); }
    void await_suspend(Task::Handle waiter) noexcept { round_.join_.waiter = &waiter.promise(); }
    void await_resume() { round_.finish(); }

   private:
    Round& round_;
  };
  Awaiter operator co_await() noexcept { return Awaiter{*this}; }

 private:
  static constexpr std::size_t index(int i) noexcept { return static_cast<std::size_t>(i); }

  // Sends first: the peer can work while we post. True: all have ended already.
  bool start() {
    join_.outstanding = send_count_ + receive_count_;
    for (int i = 0; i < send_count_; ++i) start(sends_[index(i)]);
    for (int i = 0; i < receive_count_; ++i) start(receives_[index(i)]);
    return join_.outstanding == 0;
  }
  template <class Operation>
  void start(Operation& operation) {
    operation.join = &join_;
    group_.messaging().start(operation);
  }
  void finish() {
    const int sends = send_count_;
    const int receives = receive_count_;
    send_count_ = receive_count_ = 0;
    for (int i = 0; i < sends; ++i) rethrow_failure(sends_[index(i)]);
    for (int i = 0; i < receives; ++i) rethrow_failure(group_, receives_[index(i)]);
  }

  Group group_;
  progress::Join join_;
  int send_count_ = 0;
  int receive_count_ = 0;
  // Unions: only the operations that are used are ever constructed; clearing
  // all of them cost more than a small barrier.
  union {
    messaging::SendOperation sends_[index(capacity)];  // NOLINT(readability-identifier-naming): private
  };
  union {
    messaging::ReceiveOperation receives_[index(capacity)];  // NOLINT(readability-identifier-naming): private
  };
};
static_assert(std::is_trivially_destructible_v<Round<1>> &&
              std::is_trivially_destructible_v<Round<1>::Awaiter>);

}  // namespace qpmesh::collectives

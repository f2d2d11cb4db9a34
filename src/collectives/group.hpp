// SPDX-License-Identifier: MIT
// What an algorithm sees of the world: ordered ranks, and sends and receives that it awaits.
//
// Everything awaited here is trivially destructible and made by functions (the law of tasks).
// Operations live in the coroutine's frame, which cannot go away while one of them is registered.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "collectives/kernels/reduce.hpp"
#include "messaging/operations.hpp"
#include "progress/frame_pool.hpp"
#include "progress/task.hpp"

namespace qpmesh::collectives {

using progress::Task;

class Hierarchy;
class NodeMemory;

// What does an algorithm's steps: the library's messaging and this processor, or a model of both
// (bench/scale). An algorithm touches memory through it alone, so that its text runs at sizes whose
// vectors no machine could hold.
class Machine {
 public:
  virtual ~Machine() = default;

  // May end the operation before it returns.
  virtual void start(messaging::SendOperation& send) noexcept = 0;
  virtual void start(messaging::ReceiveOperation& receive) noexcept = 0;
  // Does such a message come in one piece? Of others segments can be combined while more are on
  // their way.
  virtual bool comes_whole(const messaging::ReceiveOperation& /*receive*/) const noexcept {
    return false;
  }

  // 16-byte aligned, uninitialised. Throws std::bad_alloc.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void free(std::byte* memory) noexcept = 0;
  virtual void copy(std::byte* target, const std::byte* source, std::size_t bytes) = 0;
  // The same past this core's caches, where the processor can (base/cpu_copy.hpp).
  virtual void copy_streaming(std::byte* target, const std::byte* source, std::size_t bytes) {
    copy(target, source, bytes);
  }
  virtual void reduce(const Reducer& reducer, std::byte* target,
                      std::span<const std::byte* const> sources, std::size_t bytes) = 0;
};

// The ranks that run one operation. Two words: it is copied into every task's frame.
class Group {
 public:
  struct Members {  // outlives the operation
    Machine* machine;
    NodeMemory* node = nullptr;  // where all ranks share memory
    const int* context_ranks;    // by rank here; outlives the operation, too
    int size;
    int rank;
    std::uint64_t communicator;
    Hierarchy* hierarchy = nullptr;  // where there are levels (CallShape)
    const Members* whole = nullptr;  // of a part of them: the communicator's; errors name its ranks
    std::uint32_t piece = 0;         // of a call that runs in several pieces at the same time
    std::uint32_t lane = 0;          // of several that run the same over the links of their nodes
  };

  Group(const Members& members, std::uint32_t operation, std::uint32_t signature) noexcept
      : members_{&members}, operation_{operation}, signature_{signature} {}

  int size() const noexcept { return members_->size; }
  int rank() const noexcept { return members_->rank; }
  int plus(int distance) const noexcept { return (members_->rank + distance) % members_->size; }
  int minus(int distance) const noexcept {
    return (members_->rank + members_->size - distance % members_->size) % members_->size;
  }
  int after(int rank) const noexcept { return (rank + 1) % members_->size; }
  int next() const noexcept { return after(rank()); }
  int previous() const noexcept { return minus(1); }
  int rank_of(int context_rank) const noexcept {  // for messages to people
    const Members& all = members_->whole != nullptr ? *members_->whole : *members_;
    return static_cast<int>(
        std::find(all.context_ranks, all.context_ranks + all.size, context_rank) -
        all.context_ranks);
  }
  int context_rank_of(int rank) const noexcept { return members_->context_ranks[rank]; }
  Machine& machine() const noexcept { return *members_->machine; }
  NodeMemory& node() const noexcept { return *members_->node; }
  Hierarchy& hierarchy() const noexcept { return *members_->hierarchy; }
  std::uint32_t piece() const noexcept { return members_->piece; }
  bool is_piece() const noexcept { return piece() > 0; }
  std::uint32_t lane() const noexcept { return members_->lane; }
  std::uint32_t operation() const noexcept { return operation_; }
  std::uint32_t signature() const noexcept { return signature_; }
  // What this rank does by itself.
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) const {
    members_->machine->copy(target, source, bytes);
  }
  void copy_streaming(std::byte* target, const std::byte* source, std::size_t bytes) const {
    members_->machine->copy_streaming(target, source, bytes);
  }
  // target = sources[0] op sources[1] op …; target may be one of them. Throws UserFailure.
  void reduce(const Reducer& reducer, std::byte* target, std::span<const std::byte* const> sources,
              std::size_t bytes) const {
    members_->machine->reduce(reducer, target, sources, bytes);
  }
  // target = before op target.
  void reduce_behind(const std::byte* before, const Reducer& reducer, std::byte* target,
                     std::size_t bytes) const {
    const std::array<const std::byte*, 2> sources{before, target};
    reduce(reducer, target, sources, bytes);
  }

  messaging::SendOperation send_operation(int to, std::span<const std::byte> data) const noexcept {
    messaging::SendOperation send;
    send.communicator = members_->communicator;
    send.key = messaging::collective_key(operation_, members_->piece);
    send.data = data.data();
    send.bytes = data.size();
    send.target = members_->context_ranks[to];
    send.signature = signature_;
    return send;
  }
  messaging::ReceiveOperation receive_operation(int from,
                                                std::span<std::byte> data) const noexcept {
    messaging::ReceiveOperation receive;
    receive.communicator = members_->communicator;
    receive.key = messaging::collective_key(operation_, members_->piece);
    receive.data = data.data();
    receive.capacity_bytes = data.size();
    receive.source = members_->context_ranks[from];
    receive.signature = signature_;
    return receive;
  }

 private:
  const Members* members_;
  std::uint32_t operation_;
  std::uint32_t signature_;
};
static_assert(std::is_trivially_destructible_v<Group>);

// Throws what ended an operation. A collective knows exactly how long each message is: another
// length is Error{mismatch}.
void rethrow_failure(const messaging::SendOperation& send);
void rethrow_failure(const Group& group, const messaging::ReceiveOperation& receive);

// Uninitialised memory for the length of a scope, 16-byte aligned; of 0 bytes: none.
class Scratch {
 public:
  Scratch(const Group& group, std::size_t bytes)
      : machine_{group.machine()}, data_{bytes == 0 ? nullptr : machine_.allocate(bytes)} {}
  ~Scratch() {
    if (data_ != nullptr) machine_.free(data_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::byte* data() const noexcept { return data_; }

 private:
  Machine& machine_;
  std::byte* data_;
};

// A list that a task keeps for itself, in memory of its frame's pool: real where that of vectors is
// not (bench/scale).
template <class T>
class Numbers {
 public:
  explicit Numbers(std::size_t count)
      : data_{count == 0
                  ? nullptr
                  : static_cast<T*>(progress::FramePool::allocate_frame(count * sizeof(T)))} {}
  ~Numbers() {
    if (data_ != nullptr) progress::FramePool::free(data_);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  T* data() const noexcept { return data_; }  // uninitialised; nullptr: none

 private:
  T* data_;
};

// On which side of the operand that is here already the arriving one stands.
enum class Arriving : std::uint8_t { left, right };

// messaging::Combine of a Reducer, which is the context.
template <Arriving side>
void combine(std::byte* target, const std::byte* operand, const std::byte* arrived,
             std::size_t bytes, const void* context) {
  std::array sources{operand, arrived};
  if (side == Arriving::left) std::swap(sources[0], sources[1]);
  (*static_cast<const Reducer*>(context))(target, sources, bytes);
}

// Up to `capacity` sends and receives that run together; `co_await round` starts those added since
// the last await, resumes when all have ended, and throws the first failure. A local variable of
// the algorithm.
template <int capacity>
class Round {
 public:
  explicit Round(const Group& group) noexcept : group_{group} {}
  ~Round() { free_kept(); }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  bool full() const noexcept { return send_count_ == capacity || receive_count_ == capacity; }

  void send(int to, std::span<const std::byte> data) noexcept {
    assert(send_count_ < capacity);
    std::construct_at(&sends_[index(send_count_++)], group_.send_operation(to, data));
  }
  void receive(int from, std::span<std::byte> data) noexcept {
    assert(receive_count_ < capacity);
    std::construct_at(&receives_[index(receive_count_++)], group_.receive_operation(from, data));
  }
  // data[i] = operand[i] op arrived[i], or the other way round; data and operand may be the same
  // memory. What comes in segments is combined as they arrive, if the reducer streams; all else
  // when the round ends: until then it is kept where the result will be, unless that is the
  // operand. The reducer outlives the round.
  void receive_reduce(int from, std::span<std::byte> data, const std::byte* operand,
                      const Reducer& reducer, Arriving side = Arriving::right) {
    receive(from, data);
    const std::size_t last = index(receive_count_ - 1);
    messaging::ReceiveOperation& receive = receives_[last];
    receive.operand = operand;
    receive.context = &reducer;
    if (reducer.streams() && !group_.machine().comes_whole(receive)) {
      receive.combine =
          side == Arriving::right ? combine<Arriving::right> : combine<Arriving::left>;
      return;
    }
    is_kept_ = true;
    targets_[last] = data.data();
    sides_[last] = side;
    if (operand == data.data()) receive.data = group_.machine().allocate(data.size());
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
    group_.machine().start(operation);
  }
  void finish() {
    for (int i = 0; i < send_count_; ++i) rethrow_failure(sends_[index(i)]);
    for (int i = 0; i < receive_count_; ++i) rethrow_failure(group_, receives_[index(i)]);
    if (is_kept_) {
      reduce_kept();
      free_kept();
    }
    send_count_ = receive_count_ = 0;
  }

  static bool is_kept(const messaging::ReceiveOperation& receive) noexcept {
    return receive.context != nullptr && receive.combine == nullptr;
  }
  void reduce_kept() const {
    for (int i = 0; i < receive_count_; ++i) {
      const messaging::ReceiveOperation& receive = receives_[index(i)];
      if (!is_kept(receive)) continue;
      const bool right = sides_[index(i)] == Arriving::right;
      const std::array<const std::byte*, 2> sources{right ? receive.operand : receive.data,
                                                    right ? receive.data : receive.operand};
      group_.reduce(*static_cast<const Reducer*>(receive.context), targets_[index(i)], sources,
                    receive.capacity_bytes);
    }
  }
  void free_kept() noexcept {
    if (!is_kept_) return;
    is_kept_ = false;
    for (int i = 0; i < receive_count_; ++i) {
      const messaging::ReceiveOperation& receive = receives_[index(i)];
      if (is_kept(receive) && receive.data != targets_[index(i)])
        group_.machine().free(receive.data);
    }
  }

  Group group_;
  progress::Join join_;
  int send_count_ = 0;
  int receive_count_ = 0;
  bool is_kept_ = false;  // what some receive of this round gets is combined when it ends
  std::array<std::byte*, index(capacity)> targets_;  // of those receives only
  std::array<Arriving, index(capacity)> sides_;      // the same
  // Unions: only the operations that are used are ever constructed; clearing all of them cost more
  // than a small barrier.
  // NOLINTBEGIN(readability-identifier-naming): private
  union {
    messaging::SendOperation sends_[index(capacity)];
  };
  union {
    messaging::ReceiveOperation receives_[index(capacity)];
  };
  // NOLINTEND(readability-identifier-naming)
};
static_assert(std::is_trivially_destructible_v<Round<1>::Awaiter>);

}  // namespace qpmesh::collectives

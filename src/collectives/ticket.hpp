// SPDX-License-Identifier: MIT
// An order in which calls go on with something, one after another.
#pragma once

#include <type_traits>

#include "messaging/operations.hpp"
#include "progress/task.hpp"

namespace qpmesh::collectives {

// Calls wait here in the order in which they came.
class Ticket;
class TicketQueue {
 public:
  bool free() const noexcept { return waiting_.empty(); }

 private:
  friend class Ticket;
  messaging::List<Ticket> waiting_;
};

// One call's place among them. A local variable of its task: the next one comes when this one
// leaves, or ends.
class Ticket {
 public:
  Ticket(TicketQueue& queue, progress::Engine& engine) noexcept : queue_{queue}, engine_{engine} {
    queue_.waiting_.push_back(*this);
  }
  ~Ticket() { leave(); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // The next one runs behind what this task does until it waits the next time: what it begins now
  // has begun then.
  void leave() noexcept {
    if (has_left_) return;
    has_left_ = true;
    const bool was_first = is_first();
    queue_.waiting_.remove(*this);
    if (was_first && !queue_.free()) engine_.complete(queue_.waiting_.first()->come_);
  }

  class Awaiter {
   public:
    Awaiter(Ticket& ticket, bool leaves) noexcept : ticket_{ticket}, leaves_{leaves} {}
    bool await_ready() const noexcept { return ticket_.is_first(); }
    void await_suspend(progress::Task::Handle waiter) noexcept {
      join_ = {.outstanding = 1, .waiter = &waiter.promise()};
      ticket_.come_.join = &join_;
    }
    void await_resume() const noexcept {
      if (leaves_) ticket_.leave();
    }

   private:
    Ticket& ticket_;
    bool leaves_;
    progress::Join join_;
  };
  // Until all before it have left.
  Awaiter come() noexcept { return {*this, false}; }
  // The same, and leaves.
  Awaiter pass() noexcept { return {*this, true}; }

 private:
  friend class messaging::List<Ticket>;
  bool is_first() const noexcept { return queue_.waiting_.first() == this; }

  TicketQueue& queue_;
  progress::Engine& engine_;
  progress::Operation come_;
  bool has_left_ = false;
  Ticket* previous = nullptr;  // NOLINT(readability-identifier-naming): of a List
  Ticket* next = nullptr;      // NOLINT(readability-identifier-naming): of a List
};
static_assert(std::is_trivially_destructible_v<Ticket::Awaiter>);

}  // namespace qpmesh::collectives

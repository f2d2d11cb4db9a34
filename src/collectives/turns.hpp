// An order in which calls go on with something, one after another.
#pragma once

#include <type_traits>

#include "messaging/operations.hpp"
#include "progress/task.hpp"

namespace qpmesh::collectives {

// Calls wait here in the order in which they came.
class Turn;
class Turns {
 public:
  bool free() const noexcept { return waiting_.empty(); }

 private:
  friend class Turn;
  messaging::List<Turn> waiting_;
};

// One call's place among them. A local variable of its task: the next one's turn comes when it
// leaves, or goes.
class Turn {
 public:
  Turn(Turns& turns, progress::Engine& engine) noexcept : turns_{turns}, engine_{engine} {
    turns_.waiting_.push_back(*this);
  }
  ~Turn() { leave(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // The next one runs behind what this task does until it waits the next time: what it begins now
  // has begun then.
  void leave() noexcept {
    if (has_left_) return;
    has_left_ = true;
    const bool was_first = is_first();
    turns_.waiting_.remove(*this);
    if (was_first && !turns_.free()) engine_.complete(turns_.waiting_.first()->come_);
  }

  class Awaiter {
   public:
    explicit Awaiter(Turn& turn) noexcept : turn_{turn} {}
    bool await_ready() const noexcept { return turn_.is_first(); }
    void await_suspend(progress::Task::Handle waiter) noexcept {
      join_ = {.outstanding = 1, .waiter = &waiter.promise()};
      turn_.come_.join = &join_;
    }
    void await_resume() const noexcept {}

   private:
    Turn& turn_;
    progress::Join join_;
  };
  Awaiter come() noexcept { return Awaiter{*this}; }

 private:
  friend class messaging::List<Turn>;
  bool is_first() const noexcept { return turns_.waiting_.first() == this; }

  Turns& turns_;
  progress::Engine& engine_;
  progress::Operation come_;
  bool has_left_ = false;
  Turn* previous = nullptr;  // NOLINT(readability-identifier-naming): of a List
  Turn* next = nullptr;      // NOLINT(readability-identifier-naming): of a List
};
static_assert(std::is_trivially_destructible_v<Turn::Awaiter>);

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
#include "progress/engine.hpp"

#include <algorithm>
#include <cassert>

namespace qpmesh::progress {

Engine::~Engine() { assert(tasks_in_flight_ == 0); }

void Engine::ready(TaskPromise& promise) noexcept {
  promise.next_ready = nullptr;
  if (last_ready_ != nullptr) {
    last_ready_->next_ready = &promise;
  } else {
    first_ready_ = &promise;
  }
  last_ready_ = &promise;
}

void Engine::start_task(TaskOperation& operation, Task task) {
  TaskPromise& promise = task.release().promise();
  promise.engine = this;
  promise.root = &operation;
  ++tasks_in_flight_;
  if (running_) return ready(promise);  // by a task: the loop will come to it
  run_next(promise);
  run_all();
}

bool Engine::run_ready() {
  if (first_ready_ == nullptr) return false;
  const FramePool::Scope scope{pool_};
  run_all();
  return true;
}

void Engine::run_all() {
  assert(!running_);
  running_ = true;
  while (next_ != nullptr || first_ready_ != nullptr) {
    TaskPromise* promise = std::exchange(next_, nullptr);
    if (promise == nullptr) {
      promise = first_ready_;
      first_ready_ = promise->next_ready;
      if (first_ready_ == nullptr) last_ready_ = nullptr;
    }
    Task::Handle::from_promise(*promise).resume();
    if (ended_root_ != nullptr) {
      TaskPromise& ended = *std::exchange(ended_root_, nullptr);
      TaskOperation& operation = *ended.root;
      if (ended.error) {
        operation.error = std::move(ended.error);
        ++failed_tasks_;
      }
      Task::Handle::from_promise(ended).destroy();
      --tasks_in_flight_;
      complete(operation);
    }
  }
  running_ = false;
}

bool Engine::poll_fast() {
  bool worked = fast_ != nullptr && fast_->poll();
  // A source may leave while it is polled: from the last to the first, none is skipped.
  for (std::size_t i = more_.size(); i-- > 0;) {
    if (i < more_.size() && more_[i]->poll()) worked = true;
  }
  return worked;
}

bool Engine::step() {
  bool worked = poll_fast();
  if (run_ready()) worked = true;
  idle_steps_ = worked ? 0 : idle_steps_ + 1;
  if (idle_steps_ >= slow_idle_steps || ++steps_since_slow_ >= slow_steps_max) poll_slow();
  return std::exchange(completions_told_, completions_) != completions_ || worked;
}

void Engine::poll_slow() {
  idle_steps_ = 0;
  steps_since_slow_ = 0;
  if (slow_ != nullptr && slow_->poll()) run_ready();
  for (Pollable* const source : more_) source->poll_costly();
}

std::chrono::microseconds Engine::request_notification() noexcept {
  auto longest =
      slow_ != nullptr ? slow_->request_notification() : std::chrono::microseconds::max();
  for (Pollable* const source : more_) longest = std::min(longest, source->request_notification());
  return longest;
}

void Engine::end_notification() noexcept {
  if (slow_ != nullptr) slow_->end_notification();
  for (Pollable* const source : more_) source->end_notification();
}

}  // namespace qpmesh::progress

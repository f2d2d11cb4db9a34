// SPDX-License-Identifier: MIT
#include <Python.h>  // first, as it says itself

#include "flight.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "interpreter.hpp"

namespace qpmesh_torch {
namespace {

using std::chrono::milliseconds;

// A future is complete when it is handed out, if the operation ends so soon: where ranks compute
// alike, which they do in a backward pass. Telling another thread takes two wake-ups, and four
// ranks on two cores took 1.2 to 1.5 times as long for a step that way.
constexpr int future_wait_ms = 10;

// Longer ones are cut: a clock cannot count them.
constexpr milliseconds limit_max{INT_MAX};

// At least one: what is left of a limit that has just passed is a look.
int ms_to(std::chrono::steady_clock::time_point deadline) noexcept {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 1, INT_MAX));
}

}  // namespace

Flight::~Flight() {
  // What is left was never started, or nobody can be told of its end any more: its memory is kept.
  for (qpmesh_request* request : requests_) {
    if (request != nullptr) qpmesh_request_free(request);
  }
}

void Flight::begins() {
  has_begun_ = true;
  group_->operation_begins();
  // Its next step is what other ranks wait for, and nobody here may wait.
  if (next_ != nullptr) watch();
}

void Flight::end_here() {
  conclude();
  if (error_) std::rethrow_exception(error_);
}

float Flight::ms() const {
  if (!ended_.load(std::memory_order_acquire))
    bad_argument(doing_, "it has not ended, and has no duration", "wait for it first");
  return std::chrono::duration<float, std::milli>(end_ - begin_).count();
}

void Flight::take_error(int code) {
  if (code == QPMESH_OK || error_) return;
  group_->failed(code);
  try {
    throw_last_error(doing_);
  } catch (...) {
    error_ = std::current_exception();
  }
}

Flight::Kept Flight::conclude() {
  if (!error_ && bytes_expected_ >= 0 && status_.source >= 0 &&
      status_.bytes != static_cast<std::size_t>(bytes_expected_)) {
    try {
      throw_error(doing_, QPMESH_MISMATCH,
                  "the message from rank " + std::to_string(status_.source) + " has " +
                      std::to_string(status_.bytes) + " bytes, the tensor " +
                      std::to_string(bytes_expected_),
                  "receive into a tensor of the shape that was sent");
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  if (!error_ && !copies_.empty()) {
    try {
      const c10::AutoGradMode no_gradient{false};
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      for (const Copy& copy : copies_) copy.to.copy_(copy.from);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  Kept kept{std::move(kept_), std::move(copies_)};
  if (has_begun_) group_->operation_ends();
  end_ = Clock::now();
  ended_.store(true, std::memory_order_release);
  return kept;
}

bool Flight::take_next_step() {
  if (error_ || next_ == nullptr) return false;
  const auto step = std::exchange(next_, nullptr);
  try {
    step(*this);
  } catch (...) {
    error_ = std::current_exception();
  }
  return true;
}

bool Flight::wait_for_requests(Clock::time_point deadline) {
  const Group::Waiting waiting{*group_};
  do {
    for (qpmesh_request*& request : requests_) {
      if (request == nullptr) continue;
      int done = 1;
      const int code = deadline == Clock::time_point::max()
                           ? qpmesh_wait(request, &status_)
                           : qpmesh_wait_for(request, ms_to(deadline), &done, &status_);
      if (code == QPMESH_OK && done == 0) return false;
      take_error(code);
      qpmesh_request_free(std::exchange(request, nullptr));
    }
  } while (take_next_step());
  return true;
}

bool Flight::test_requests() {
  do {
    for (qpmesh_request*& request : requests_) {
      if (request == nullptr) continue;
      int done = 1;
      const int code = qpmesh_test(request, &done, &status_);
      if (code == QPMESH_OK && done == 0) return false;
      take_error(code);
      qpmesh_request_free(std::exchange(request, nullptr));
    }
  } while (take_next_step());
  return true;
}

void Flight::go_on() {
  {
    Kept kept;
    const std::lock_guard lock{ending_};
    watched_ = false;
    if (!ended_) {
      if (!test_requests()) {
        begin_watch();
        return;
      }
      kept = conclude();
    }
  }
  complete_future();
}

bool Flight::test() {
  if (ended_.load(std::memory_order_acquire)) return true;
  {
    Kept kept;
    std::unique_lock lock{ending_, std::try_to_lock};
    if (!lock) return false;  // somebody waits
    if (ended_) return true;
    if (!test_requests()) {
      lock.unlock();
      watch_if_wanted();
      return false;
    }
    kept = conclude();
  }
  complete_future();
  return true;
}

bool Flight::wait(milliseconds limit) {
  if (ended_.load(std::memory_order_acquire)) return true;
  {
    Kept kept;
    std::unique_lock lock{ending_, std::defer_lock};
    // One for whoever has ending_ now, and all requests of all steps.
    const auto deadline =
        limit.count() <= 0 ? Clock::time_point::max() : Clock::now() + std::min(limit, limit_max);
    if (limit.count() <= 0) lock.lock();
    else if (!lock.try_lock_until(deadline)) return false;
    if (!ended_) {
      if (!wait_for_requests(deadline)) {
        lock.unlock();
        watch_if_wanted();
        return false;
      }
      kept = conclude();
    }
  }
  complete_future();
  return true;
}

std::exception_ptr Flight::error() const {
  return ended_.load(std::memory_order_acquire) ? error_ : nullptr;
}

// What hangs on a future runs here, without a lock of ours.
void Flight::complete_future() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock{future_mutex_};
    if (!future_ || future_is_told_) return;
    future_is_told_ = true;
    future = future_;
  }
  if (error_) future->setError(error_);
  else future->markCompleted(c10::IValue{results_});
}

c10::intrusive_ptr<c10::ivalue::Future> Flight::future() {
  {
    const std::lock_guard lock{future_mutex_};
    if (future_) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  }
  bool has_ended = false;
  {
    // Python's other threads run meanwhile. torch does not see to that everywhere.
    std::optional<qpmesh::python::Unlocked> meanwhile;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) meanwhile.emplace();
    has_ended = wait(milliseconds{future_wait_ms});
  }
  if (has_ended) complete_future();
  else watch();
  return future_;
}

void Flight::leave_alone() {
  if (has_begun_ && !ended_.load(std::memory_order_acquire) && !test()) watch();
}

void Flight::watch() {
  watches_wanted_.fetch_add(1);
  watch_if_wanted();
}

// Either who wants it finds ending_ free, or whoever has that finds, once it is released, that it
// is wanted. Both change one variable, so the later one sees what the earlier one did before.
void Flight::watch_if_wanted() {
  if (watches_wanted_.fetch_add(0) == 0) return;
  const std::unique_lock lock{ending_, std::try_to_lock};
  if (lock && !ended_ && !watched_) begin_watch();
}

void Flight::begin_watch() {
  watched_ = true;
  if (watch_until_ == Clock::time_point{}) watch_until_ = Clock::now() + milliseconds{timeout_ms_};
  group_->background().watch(shared_from_this(), watch_until_);
  in_flight_ = static_cast<std::size_t>(
      std::ranges::count_if(requests_, [](auto* request) { return request != nullptr; }));
  for (qpmesh_request* request : requests_) {
    if (request == nullptr) continue;
    // Inside a call of the library, or here where it has ended already.
    const auto at_end = [](void* context) {
      const std::unique_ptr<std::shared_ptr<Flight>> held{
          static_cast<std::shared_ptr<Flight>*>(context)};
      Flight& flight = **held;
      if (flight.in_flight_.fetch_sub(1) == 1) flight.group_->background().ended(std::move(*held));
    };
    auto held = std::make_unique<std::shared_ptr<Flight>>(shared_from_this());
    if (qpmesh_on_end(request, at_end, held.get()) == QPMESH_OK)
      static_cast<void>(held.release());  // at_end has it
  }
}

std::vector<at::Tensor> Work::result() { return flight_->results(); }

bool Work::wait(milliseconds timeout) {
  if (!flight_->wait(timeout)) {
    throw_error(flight_->doing(), QPMESH_TIMEOUT,
                "it has not ended after " + std::to_string(timeout.count()) + " ms of wait",
                "wait again: it goes on until the group's timeout");
  }
  if (const std::exception_ptr error = flight_->error()) std::rethrow_exception(error);
  return true;
}

void Work::abort() {
  const Doing& doing = flight_->doing();
  require_ok(qpmesh_abort(flight_->group().communicator(doing), doing.text().c_str()), doing);
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() { return flight_->future(); }

}  // namespace qpmesh_torch

// SPDX-License-Identifier: MIT
// An operation in flight, and what torch holds of it.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "group.hpp"

namespace qpmesh_torch {

// Messages of the backend's own have tags from here on, one for each operation that may be in
// flight. number: the same on all ranks.
constexpr int own_tag_min = 0x7fff'0000;
enum class OwnTags : int { of_collectives = own_tag_min, of_monitored_barriers = 0x7fff'8000 };
constexpr int own_tag(OwnTags kind, std::uint64_t number) noexcept {
  return static_cast<int>(kind) + static_cast<int>(number & 0x7fff);
}

// The requests of one operation, and what they need. Any thread; whoever finds the end settles it.
class Flight : public std::enable_shared_from_this<Flight> {
 public:
  Flight(std::shared_ptr<Group> group, const char* operation, std::uint64_t number, int timeout_ms)
      : group_{std::move(group)},
        doing_{operation, number, &group_->name()},
        timeout_ms_{timeout_ms} {}
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight();

  // ---- before it is shared ----
  const Doing& doing() const noexcept { return doing_; }
  Group& group() const noexcept { return *group_; }
  int timeout_ms() const noexcept { return timeout_ms_; }
  int own_tag() const noexcept {
    return qpmesh_torch::own_tag(OwnTags::of_collectives, doing_.number);
  }
  // For an _async call to store its request in.
  qpmesh_request** request() { return &requests_.emplace_back(nullptr); }
  // Memory that the requests use.
  void keep(const at::Tensor& tensor) { kept_.push_back(tensor); }
  // from, which was kept, is what to is to hold at the end.
  void copy_back(const at::Tensor& to, const at::Tensor& from) { copies_.push_back({to, from}); }
  // A receive takes a message of just so many bytes.
  void expect(std::size_t bytes) noexcept { bytes_expected_ = static_cast<std::int64_t>(bytes); }
  void set_results(std::vector<at::Tensor> results) { results_ = std::move(results); }
  // What follows when all requests have ended well, in whichever thread sees that, holding ending_:
  // it may begin more of them, and say what follows those. A step holds the tensors that it uses,
  // or calls keep(): nobody else holds them.
  void then(std::function<void(Flight&)> step) { next_ = std::move(step); }

  // Marks the operation as in flight: the background thread may watch it from here on.
  void begins();
  // Ends an operation that a blocking call has completed: copies its results. Throws if that fails.
  void end_here();

  // ---- from here on, any thread ----
  // One look.
  bool test();
  // Until it has ended, or so long, where limit is positive; whether it has ended.
  bool wait(std::chrono::milliseconds limit);
  // wait() without a limit.
  void settle() { wait(std::chrono::milliseconds::zero()); }
  // How long it took; Error: it has not ended.
  float ms() const;
  // Null, or what it failed with, when it has ended.
  std::exception_ptr error() const;
  const std::vector<at::Tensor>& results() const noexcept { return results_; }
  int source() const noexcept { return status_.source; }
  c10::intrusive_ptr<c10::ivalue::Future> future();
  // Nobody is going to wait for it.
  void leave_alone();
  // The background settles it, from now on or from when whoever has ending_ gives up. Blocks
  // nobody: the caller may hold Python's lock.
  void watch();
  // For the background, when it was told that the requests have ended: a step that follows is begun
  // and watched in turn. Waits for nobody but who has ending_.
  void go_on();

 private:
  using Clock = std::chrono::steady_clock;
  struct Copy {
    at::Tensor to;
    at::Tensor from;
  };
  // Holding ending_: whether all have ended. The largest deadline is none; the other one looks
  // once.
  bool wait_for_requests(Clock::time_point deadline);
  bool test_requests();
  void take_error(int code);
  // What the requests used. It is let go without ending_: the last user of a tensor that Python
  // made takes Python's lock, and whoever has that may come here.
  struct Kept {
    std::vector<at::Tensor> tensors;
    std::vector<Copy> copies;
  };
  Kept conclude();
  void complete_future();
  // Holding ending_, when all requests have ended: whether a step followed.
  bool take_next_step();
  void watch_if_wanted();
  void begin_watch();  // holding ending_

  const std::shared_ptr<Group> group_;
  const Doing doing_;
  const int timeout_ms_;
  std::vector<qpmesh_request*> requests_;  // null: has ended
  std::function<void(Flight&)> next_;
  std::vector<at::Tensor> kept_;
  std::vector<Copy> copies_;
  std::vector<at::Tensor> results_;
  std::int64_t bytes_expected_ = -1;
  bool has_begun_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point end_;
  qpmesh_status status_{.source = -1, .tag = 0, .bytes = 0};

  std::timed_mutex ending_;          // a request belongs to one thread at a time
  std::atomic<bool> ended_ = false;  // written under ending_; all below is readable then
  std::exception_ptr error_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // by future_mutex_, as is:
  bool future_is_told_ = false;
  std::atomic<std::size_t> in_flight_ = 0;  // of the requests, where the background watches
  std::atomic<unsigned> watches_wanted_ = 0;
  bool watched_ = false;             // under ending_, as is:
  Clock::time_point watch_until_{};  // one for all steps
};

// A Flight as torch asks for it.
class Work final : public c10d::Work {
 public:
  Work(std::shared_ptr<Flight> flight, int rank, c10d::OpType type, const char* title,
       const std::vector<at::Tensor>& inputs)
      : c10d::Work{rank, type, title, inputs}, flight_{std::move(flight)} {}
  ~Work() override { flight_->leave_alone(); }

  bool isCompleted() override { return flight_->test(); }
  bool isSuccess() const override { return flight_->test() && !flight_->error(); }
  std::exception_ptr exception() const override { return flight_->error(); }
  int sourceRank() const override { return flight_->source(); }
  std::vector<at::Tensor> result() override;
  void synchronize() override {}
  float getDuration() const override { return flight_->ms(); }
  // Returns the number of this collective in its group; a message has the number of the last
  // collective before it.
  uint64_t getSequencenumber() const override { return flight_->doing().number; }
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::shared_ptr<Flight> flight_;
};

}  // namespace qpmesh_torch

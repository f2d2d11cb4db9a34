// SPDX-License-Identifier: MIT
// Ranks that have met.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "background.hpp"
#include "errors.hpp"
#include "qpmesh/qpmesh.h"

namespace qpmesh_torch {

// A communicator, shared by its process group, its flights and its memory.
class Group {
 public:
  // Owns the communicator.
  static std::shared_ptr<Group> make(std::string name, qpmesh_communicator* communicator,
                                     std::chrono::milliseconds timeout);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();

  // Ranks 0 to size - 1 of the store find each other there. settings: "NAME=value" of
  // docs/options.md. Error; whatever is missing when the timeout has passed is named.
  static std::shared_ptr<Group> meet(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                     int size, const std::string& name,
                                     std::chrono::milliseconds timeout,
                                     const std::vector<std::string>& settings);
  // These ranks of this group, all of which call it.
  std::shared_ptr<Group> subgroup(const std::vector<int>& ranks, const std::string& name,
                                  std::chrono::milliseconds timeout) const;

  const std::string& name() const noexcept { return name_; }
  // Error when the group was left.
  qpmesh_communicator* communicator(const Doing& doing) const;
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  // Of one call; what is not positive is the group's own.
  int timeout_ms(std::chrono::milliseconds limit) const noexcept;
  std::chrono::milliseconds timeout() const noexcept { return timeout_.load(); }
  void set_timeout(std::chrono::milliseconds timeout);
  // Counts the collectives that have begun.
  std::atomic<std::uint64_t> collectives = 0;
  // Records that a call failed with this qpmesh_code.
  void failed(int code) noexcept;
  // As c10d::ErrorType counts: 0 none, 1 timeout, 2 of the connection, 3 of another rank.
  int last_failure() const noexcept { return last_failure_.load(); }
  // Null when the group was left.
  qpmesh_communicator* handle() const noexcept { return communicator_; }

  // ---- what is in flight ----
  Background& background() const noexcept { return background_; }
  void operation_begins() noexcept {
    begun_.fetch_add(1);
    in_flight_.fetch_add(1);
    background_.began();
  }
  void operation_ends() noexcept { in_flight_.fetch_sub(1); }
  // In a call of the library that goes on until an operation has ended.
  struct Waiting {
    explicit Waiting(Group& of) noexcept : group{of} { group.waiting_.fetch_add(1); }
    ~Waiting() { group.waiting_.fetch_sub(1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    Group& group;
  };
  std::uint64_t begun() const noexcept { return begun_.load(); }
  bool is_busy() const noexcept { return in_flight_.load() > 0; }
  // Something is in flight, and nobody waits.
  bool is_left_alone() const noexcept { return is_busy() && waiting_.load() == 0; }

  // Local: says goodbye, and calls on it are errors from then on; or nothing, while tensors lie in
  // its memory.
  void leave() noexcept;
  void memory_begins() noexcept { pieces_.fetch_add(1); }
  void memory_ends() noexcept { pieces_.fetch_sub(1); }

 private:
  Group(std::string name, qpmesh_communicator* communicator, std::chrono::milliseconds timeout);

  const std::string name_;
  qpmesh_communicator* communicator_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<int> last_failure_ = 0;
  const int rank_;
  const int size_;
  Background& background_;
  std::atomic<std::uint64_t> begun_ = 0;
  std::atomic<int> in_flight_ = 0;
  std::atomic<int> waiting_ = 0;
  std::atomic<int> pieces_ = 0;  // of memory, which each hold the group
};

}  // namespace qpmesh_torch

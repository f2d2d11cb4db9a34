// SPDX-License-Identifier: MIT
// Ranks as threads of one process: a Bootstrap that gathers through memory, and a way to run a
// function on every rank.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::test {

// Where the ranks of one job meet; outlives their ThreadBootstraps. Gathers are complete or fail
// for all: after a deadline passed the gathering is broken for good.
class ThreadGathering {
 public:
  explicit ThreadGathering(int size) : arrived_(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(arrived_.size()); }

  std::vector<Blob> all_gather(int rank, BlobView mine, Deadline deadline) {
    std::unique_lock lock{mutex_};
    const std::size_t generation = generation_;
    if (!error_) {
      arrived_[static_cast<std::size_t>(rank)] = Blob(mine.begin(), mine.end());
      if (std::all_of(arrived_.begin(), arrived_.end(),
                      [](const auto& blob) { return blob.has_value(); }))
        complete();
    }
    const auto done = [&] { return generation_ != generation || error_; };
    if (deadline == no_deadline) {
      changed_.wait(lock, done);
    } else if (!changed_.wait_until(lock, deadline, done)) {
      give_up();
    }
    // The next generation cannot complete, and overwrite the result, before this rank takes part in
    // it.
    if (generation_ != generation) return gathered_;
    throw Error{*error_};
  }

 private:
  void complete() {
    gathered_.clear();
    for (auto& blob : arrived_) {
      gathered_.push_back(std::move(*blob));
      blob.reset();
    }
    ++generation_;
    changed_.notify_all();
  }
  void give_up() {
    ErrorDetail detail{.code = ErrorCode::timeout,
                       .peer = no_peer,
                       .operation = "init",
                       .cause = "missing ranks:",
                       .system_error = 0,
                       .hint = {}};
    for (int rank = 0; rank < size(); ++rank) {
      if (arrived_[static_cast<std::size_t>(rank)]) continue;
      if (detail.peer == no_peer) detail.peer = rank;
      detail.cause.append(1, ' ').append(std::to_string(rank));
    }
    error_.emplace(detail);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Blob>> arrived_;
  std::vector<Blob> gathered_;
  std::size_t generation_ = 0;
  std::optional<Error> error_;
};

// One rank's view.
class ThreadBootstrap : public Bootstrap {
 public:
  ThreadBootstrap(ThreadGathering& gathering, int rank) : gathering_{gathering}, rank_{rank} {}

  int rank() const override { return rank_; }
  int size() const override { return gathering_.size(); }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    return gathering_.all_gather(rank_, mine, deadline);
  }

 private:
  ThreadGathering& gathering_;
  int rank_;
};

// Runs function(rank) on a thread per rank; returns each rank's Error, nothing where it returned.
// Any other exception of a rank, lowest first, is thrown here after all have ended.
template <class Function>
std::vector<std::optional<Error>> run_ranks(int size, Function&& function) {
  std::vector<std::optional<Error>> errors(static_cast<std::size_t>(size));
  std::vector<std::exception_ptr> surprises(errors.size());
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto place = static_cast<std::size_t>(rank);
      try {
        function(rank);
      } catch (const Error& error) {
        errors[place] = error;
      } catch (...) {
        surprises[place] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& surprise : surprises) {
    if (surprise) std::rethrow_exception(surprise);
  }
  return errors;
}

}  // namespace qpmesh::test

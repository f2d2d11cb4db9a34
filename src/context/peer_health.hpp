// SPDX-License-Identifier: MIT
// What this rank knows of how the ranks of its context fare: every death, goodbye and failed link,
// and the abort of all. One table; what follows for communicators is the context's to do.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "qpmesh/deadline.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::context {

// How a rank left, as it says itself. Ranks in it are those of the context.
struct Farewell {
  enum class Reason : std::uint8_t {
    closed,    // its communicators are gone, and their last call was no finish()
    unwound,   // an exception unwound through them
    finished,  // finish() has returned
  };
  Reason reason = Reason::closed;
  // That ended an operation or a communicator there; without a cause: none.
  ErrorDetail last_error{};
};

// What ends a communicator, as this rank learns of it.
struct CommunicatorFailure {
  std::uint64_t communicator;
  int teller;          // who told it; this rank: it found it, and the others have not heard of it
  ErrorDetail detail;  // its peer is a rank of the communicator; of the context where it is ours
  bool says_who_saw = false;
};

class PeerHealth {
 public:
  enum class State : std::uint8_t {
    here,
    left,  // after a goodbye
    lost,  // dead or out of reach
  };
  struct Peer {
    State state = State::here;
    std::optional<Farewell> farewell{};  // said before it left
    ErrorDetail cause{};                 // lost: the first one; here: of its verdict
    Deadline verdict = no_deadline;      // here: when it is lost, as its link failed
  };

  explicit PeerHealth(int size) : peers_(static_cast<std::size_t>(size)) {}

  const Peer& at(int rank) const noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  bool has_left(int rank) const noexcept { return at(rank).state == State::left; }
  bool any_left() const noexcept { return any_left_; }

  void says_farewell(int rank, Farewell farewell) { peer(rank).farewell = std::move(farewell); }
  // Also one whose link failed: nobody answers for a rank that has left, and what waits for it
  // learns that.
  void leaves(int rank) noexcept;
  // A process that ends after finish() has left, whatever the kernel saw of its end.
  bool may_end(int rank) const noexcept {
    return at(rank).farewell && at(rank).farewell->reason == Farewell::Reason::finished;
  }
  // Its link failed: it is lost at the verdict. Its death may still show, and would be the better
  // name for it.
  void doubts(ErrorDetail cause, Deadline verdict);
  void loses(ErrorDetail cause);
  // The causes of those whose time is over, and when to ask again.
  std::vector<ErrorDetail> verdicts(Deadline now);
  Deadline next_verdict() const noexcept { return next_verdict_; }

  // The error that this rank would say it left after. The newest counts: it is what the caller saw.
  // One that broke nothing passes when the caller makes another call.
  void remember(ErrorDetail last_error) {
    last_error_ = std::move(last_error);
    passes_behind_.reset();
  }
  void remember_passing(ErrorDetail last_error, std::uint64_t calls_made) {
    passing_error_ = std::move(last_error);
    passes_behind_ = calls_made;
  }
  const ErrorDetail& last_error(std::uint64_t calls_made) const noexcept {
    return passes_behind_ == calls_made ? passing_error_ : last_error_;
  }

  // Of communicators that do not exist here yet.
  void keep_early(CommunicatorFailure failure);
  std::optional<CommunicatorFailure> take_early(std::uint64_t communicator);

  // ---- abort: begun by any thread, once; taken by the one that uses the context ----

  bool begin_abort(ErrorDetail detail);  // detail.peer: who aborts. False: one is under way already
  bool aborting() const noexcept { return aborting_.load(std::memory_order_acquire); }
  bool abort_waits() const noexcept { return aborting() && !abort_taken_; }
  ErrorDetail take_abort();

 private:
  Peer& peer(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }

  std::vector<Peer> peers_;
  bool any_left_ = false;
  Deadline next_verdict_ = no_deadline;  // none is due before
  ErrorDetail last_error_;
  ErrorDetail passing_error_;
  std::optional<std::uint64_t> passes_behind_;  // so many calls; nothing: another one is newer
  std::vector<CommunicatorFailure> early_failures_;

  std::once_flag abort_begins_;
  std::atomic<bool> aborting_{false};  // released after abort_ is written
  bool abort_taken_ = false;
  ErrorDetail abort_;  // written once
};

}  // namespace qpmesh::context

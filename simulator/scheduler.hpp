// SPDX-License-Identifier: MIT
// Virtual time: what will happen when, which ranks want to be stepped, and the trace of it all.
#pragma once

#include <cstdint>
#include <vector>

#include "qpmesh/deadline.hpp"
#include "simulator/config.hpp"
#include "simulator/random.hpp"

namespace qpmesh::simulator {

// Each with its subject and its argument.
enum class EventKind : std::uint8_t {
  piece,           // of endpoint, write      some bytes of a write are placed
  fence,           // of endpoint, write      its flag is stored, its immediate delivered
  completion,      // of endpoint, write      the sender learns that it is done
  retransmission,  // of endpoint, write      its bytes are placed again
  link_down,       // of endpoint             it notices that its peer is gone
  control,         // of receiver, sender     the pair's next control event is delivered
  wake,            // of rank, 1 if it is the rank's one pending soft wake
  action,          // of index                a test's own doing
};

struct Event {
  std::int64_t time_ns = 0;
  // Seeded: events of one instant come in any order, but the same one in every run.
  std::uint64_t tie = 0;
  std::uint64_t argument = 0;
  std::uint32_t subject = 0;
  EventKind kind = EventKind::wake;
};

class Scheduler {
 public:
  explicit Scheduler(const NetworkConfig& config);

  std::int64_t now_ns() const noexcept { return now_ns_; }
  Deadline now() const noexcept { return Deadline{std::chrono::nanoseconds{now_ns_}}; }
  Random& random() noexcept { return random_; }

  void at(std::int64_t time_ns, EventKind kind, std::uint32_t subject, std::uint64_t argument = 0);
  bool empty() const noexcept { return heap_.empty(); }
  std::size_t pending() const noexcept { return heap_.size(); }
  std::int64_t next_ns() const noexcept { return heap_.front().time_ns; }  // not when empty
  Event pop();                                                             // time moves to it
  void advance_to(std::int64_t time_ns) noexcept;                          // never backwards

  // A touched rank is stepped before time moves on.
  void touch(int rank);
  int take_touched() noexcept;  // -1: none
  // A soft wake: the rank is stepped in about delay_ns; further ones are dropped until then.
  void wake_soon(int rank, std::int64_t delay_ns);
  void woken(const Event& event);
  // The rank met busy. It is stepped again soon, and less and less soon while
  // nothing else it posts gets through.
  void met_busy(int rank);
  void met_success(int rank) noexcept { ranks_[static_cast<std::size_t>(rank)].busy_delay_ns = 0; }

  void note(std::uint64_t a, std::uint64_t b = 0) noexcept;  // into the trace
  std::uint64_t trace_hash() const noexcept { return trace_; }
  std::uint64_t events() const noexcept { return events_; }

 private:
  struct Rank {
    std::int64_t busy_delay_ns = 0;
    bool touched = false;
    bool wake_pending = false;
  };

  const NetworkConfig& config_;
  Random random_;
  std::int64_t now_ns_ = 1'000'000'000;  // not zero, so that "no time yet" and the beginning differ
  std::vector<Event> heap_;
  std::vector<Rank> ranks_;
  std::vector<int> touched_;
  std::uint64_t trace_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace qpmesh::simulator

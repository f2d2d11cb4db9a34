// SPDX-License-Identifier: MIT
// A whole network in one process and one thread, in virtual time: what the
// simulation harness builds ranks on.
//
// Give every rank its system, transport and control channel, tell how to step it, and drive:
//   Network network{polled_network(4, seed)};
//   auto transport = network.make_transport(rank);  …
//   network.set_step(rank, [&] { return engine.step(); });
//   EXPECT_TRUE(network.run_until([&] { return all_done; }, network.after_ms(1'000))) <<
//   network.describe();
// The same seed, configuration and steps give the same trace_hash(). What make_…
// returns must be gone before the network is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/control_channel.hpp"
#include "base/system.hpp"
#include "simulator/control_channel.hpp"
#include "simulator/fabric.hpp"
#include "simulator/scheduler.hpp"
#include "simulator/system.hpp"
#include "simulator/transport.hpp"

namespace qpmesh::simulator {

class Network {
 public:
  // Takes one turn of the rank's engine and says whether it did anything; never blocks.
  using Step = std::function<bool()>;

  explicit Network(const NetworkConfig& config);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const NetworkConfig& config() const noexcept { return config_; }
  int rank_count() const noexcept { return config_.rank_count; }

  // What a rank stands on. A rank may have several transports (one a context),
  // and one control channel at a time.
  System& system(int rank) noexcept { return *rank_at(rank).system; }
  std::unique_ptr<Transport> make_transport(int rank);
  std::unique_ptr<base::ControlChannel> make_control_channel(int rank);

  // Driving. A rank is stepped when something touches it (bytes, immediate, completion, control
  // event, fault), soon after it met busy, when a rank whose memory it loads did something, and
  // every tick; and again as long as its step reports work.
  void set_step(int rank, Step step);
  // Steps every rank once, then lets events happen until the predicate holds (it is asked after
  // every event: keep it cheap), or virtual time reaches the deadline, or a rank reports work
  // without end. Returns whether the predicate holds; describe() says why not.
  bool run_until(const std::function<bool()>& predicate, Deadline deadline);
  bool run_for(std::int64_t duration_ns);  // false when a rank reports work without end
  // Steps the rank at that time, or soon.
  void wake_at(int rank, Deadline time);
  void wake(int rank) { scheduler_.wake_soon(rank, config_.delay_min_ns); }
  // Does something at that time, in the middle of whatever goes on.
  void at(Deadline time, std::function<void()> action);

  // Faults, at this moment; also from within a step.
  void fail_link(int from, int to) { fabric_.fail_link(from, to); }  // both directions
  // One end of one of the rails that join them: the other end learns of it by nothing.
  void fail_rail(int from, int to, int rail) { fabric_.fail_rail(from, to, rail); }
  // The rank is stepped no more; a part of its pending writes still lands; peers learn later, link
  // and control channel each in its own time. Its objects may be destroyed at once, or with the
  // network.
  void kill(int rank);
  // It says goodbye and is stepped no more.
  void leave(int rank);
  void freeze(int rank);  // not stepped, while its memory and its writes go on: a stopped process
  void thaw(int rank);
  bool alive(int rank) const noexcept { return ranks_[static_cast<std::size_t>(rank)].alive; }

  Deadline now() const noexcept { return scheduler_.now(); }
  Deadline after_ms(std::int64_t timeout_ms) const noexcept {
    return now() + std::chrono::milliseconds{timeout_ms};
  }
  std::uint64_t trace_hash() const noexcept { return scheduler_.trace_hash(); }
  std::uint64_t events() const noexcept { return scheduler_.events(); }
  std::uint64_t steps() const noexcept { return steps_; }
  Random& random() noexcept { return scheduler_.random(); }
  // What is outstanding, for people.
  std::string describe() const;

 private:
  static constexpr int steps_in_a_row_max = 100'000;

  struct Rank {
    Step step;
    std::unique_ptr<System> system;
    bool alive = true;
    bool frozen = false;
    std::uint64_t steps = 0;
  };

  Rank& rank_at(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  void step(int rank);
  void step_touched();
  void step_all();
  void handle(const Event& event);
  void tick();

  NetworkConfig config_;
  Scheduler scheduler_;
  Fabric fabric_;
  ControlPlane control_;
  std::vector<Rank> ranks_;
  std::vector<int> order_;  // in which step_all steps
  std::vector<std::function<void()>> actions_;
  std::int64_t tick_ns_;  // the present interval
  std::int64_t next_tick_ns_;
  std::uint64_t events_at_tick_ = 0;
  std::uint64_t steps_ = 0;
  int endless_rank_ = -1;
};

}  // namespace qpmesh::simulator

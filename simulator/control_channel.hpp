// SPDX-License-Identifier: MIT
// The simulated control channel: frames of each pair in order, each after a delay; a
// goodbye or a death is a pair's last event.
#pragma once

#include <deque>
#include <unordered_map>

#include "base/control_channel.hpp"
#include "simulator/scheduler.hpp"

namespace qpmesh::simulator {

class ControlPlane {
 public:
  ControlPlane(const NetworkConfig& config, Scheduler& scheduler);

  void send(int from, int to, BlobView frame);
  void say_goodbye(int from);
  // The rank's process is gone: whatever it had sent still arrives, then its
  // death, unless it had said goodbye.
  void end(int rank, const std::string& detail);
  std::vector<base::ControlEvent> poll(int rank) noexcept;
  void handle(const Event& event);

 private:
  struct Pair {
    std::deque<base::ControlEvent> on_the_way;
    std::int64_t last_ns = 0;
    bool finished = false;  // its last event is on the way or has come
  };
  struct Rank {
    std::vector<base::ControlEvent> inbox;
    bool gone = false;
  };

  void push(int from, int to, base::ControlEvent event, std::int64_t delay_min_ns,
            std::int64_t delay_max_ns);

  const NetworkConfig& config_;
  Scheduler& scheduler_;
  std::unordered_map<std::uint64_t, Pair>
      pairs_;  // never iterated: its order is not the same everywhere
  std::vector<Rank> ranks_;
};

class ControlChannel final : public base::ControlChannel {
 public:
  ControlChannel(ControlPlane& plane, int rank) noexcept : plane_{plane}, rank_{rank} {}
  // Without a goodbye the peers see a death, as they see a socket that closes.
  ~ControlChannel() override;
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  void send(int peer, BlobView frame) override { plane_.send(rank_, peer, frame); }
  std::vector<base::ControlEvent> poll() override { return plane_.poll(rank_); }
  void say_goodbye(Deadline) noexcept override { plane_.say_goodbye(rank_); }
  int wake_descriptor() const noexcept override { return -1; }

 private:
  ControlPlane& plane_;
  int rank_;
};

}  // namespace qpmesh::simulator

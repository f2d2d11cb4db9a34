// SPDX-License-Identifier: MIT
// Another library's way of making the same calls, on the same buffers and in the same processes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "bench/harness/cut.hpp"
#include "qpmesh/collective.hpp"

namespace qpmesh {
class Communicator;
}

namespace qpmesh::bench {

enum class Waiting { together, in_turn };

class Baseline {
 public:
  struct Outgoing {
    std::span<const std::byte> data;
    int destination;
  };
  struct Incoming {
    std::span<std::byte> data;
    int source;
  };
  // A collective on floats; reductions sum. A broadcast has only out.
  struct Operation {
    Collective collective;
    std::span<const float> in{};
    std::span<float> out{};
    int root = 0;
    const Cut* cut = nullptr;  // into blocks, where it has blocks
    bool polled = false;       // an allreduce: started, and asked until it is done
    bool waited = false;       // started, and waited for
  };

  virtual ~Baseline() = default;
  virtual std::string name() const = 0;  // with its version: "Open MPI 4.1.4"
  // Whether messages end up in the receiver's buffers; a probe of the machine only takes their
  // time.
  virtual bool delivers() const { return true; }

  virtual void collective(const Operation& operation) = 0;
  virtual void send(Outgoing message) = 0;
  virtual void receive(Incoming message) = 0;
  // Starts every receive and send, then waits for all together, or for each in turn.
  virtual void send_and_receive(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                                Waiting waiting = Waiting::together) = 0;
};

// What --baseline accepts. make is called once on every rank of the job; where the other library
// counts ranks too, they must be the world's. Throws Error{bad_config} where it cannot run.
struct BaselineKind {
  std::string_view name;
  std::unique_ptr<Baseline> (*make)(Communicator& world);
};

// Those that this build has; bench/baselines defines it.
std::span<const BaselineKind> baselines() noexcept;

}  // namespace qpmesh::bench

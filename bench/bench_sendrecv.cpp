// SPDX-License-Identifier: MIT
// Point to point between neighbours 0-1, 2-3, …: the time one message takes on its way (half a
// round trip), and what a window of messages in flight carries, in one direction and in both at
// once: each out of memory of its own (bandwidth), or all out of the same (rate). An odd last rank
// only takes part in the agreement.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/harness.hpp"
#include "bench/harness/memory.hpp"
#include "bench/harness/patterns.hpp"
#include "bench/harness/verify.hpp"
#include "qpmesh/qpmesh.hpp"

namespace {

using namespace qpmesh::bench;
using Word = std::uint32_t;

// So many messages' memory in each direction: what has memory of its own can be checked.
class Pair : public Case {
 public:
  Pair(qpmesh::Communicator& world, Buffers buffers, std::size_t bytes, std::size_t messages)
      : world_{world},
        words_{bytes / sizeof(Word)},
        messages_{messages},
        out_{world, buffers.kind, words_ * messages},
        in_{world, buffers.kind, words_ * messages, buffers.offset_bytes},
        rank_{world.rank()},
        paired_{peer() < world.size()} {}

  void prepare(std::uint64_t seed) override {
    fill_inputs(out_.span(), seed, rank_);
    poison(in_.span());
  }
  std::size_t wrong(std::uint64_t seed) override {
    if (!receives()) return 0;
    return count_wrong(in_.view(), [seed, this](std::size_t index) {
      return input_value<Word>(seed, peer(), index);
    });
  }
  std::span<std::byte> output() override {
    return receives() ? in_.bytes() : std::span<std::byte>{};
  }

 protected:
  virtual bool receives() const { return paired(); }

  int peer() const noexcept { return rank_ ^ 1; }
  bool paired() const noexcept { return paired_; }
  bool leads() const noexcept { return rank_ < peer(); }
  std::span<const Word> outgoing(std::size_t message) const {
    return out_.view().subspan(message % messages_ * words_, words_);
  }
  std::span<Word> incoming(std::size_t message) const {
    return in_.span().subspan(message % messages_ * words_, words_);
  }
  Baseline::Outgoing baseline_outgoing(std::size_t message) const {
    return {std::as_bytes(outgoing(message)), peer()};
  }
  Baseline::Incoming baseline_incoming(std::size_t message) const {
    return {std::as_writable_bytes(incoming(message)), peer()};
  }

  qpmesh::Communicator& world_;
  std::size_t words_;
  std::size_t messages_;
  Array<Word> out_;
  Array<Word> in_;

 private:
  int rank_;
  bool paired_;
};

class Latency final : public Pair {
 public:
  Latency(qpmesh::Communicator& world, Buffers buffers, std::size_t bytes)
      : Pair{world, buffers, bytes, 1} {}

  void run() override {
    if (!paired()) return;
    if (leads()) world_.send(outgoing(0), peer());
    world_.receive(incoming(0), peer(), 0);
    if (!leads()) world_.send(outgoing(0), peer());
  }
  void run_baseline(Baseline& baseline) override {
    if (!paired()) return;
    if (leads()) baseline.send(baseline_outgoing(0));
    baseline.receive(baseline_incoming(0));
    if (!leads()) baseline.send(baseline_outgoing(0));
  }
  double operations_per_run() const override { return 2; }
};

// All at once; a rank that only receives answers with one word, so that the
// window is over when it has arrived.
class Window final : public Pair {
 public:
  enum class Memory { each, same };

  Window(qpmesh::Communicator& world, Buffers buffers, std::size_t bytes, Memory memory,
         bool both_ways)
      : Pair{world, buffers, bytes, memory == Memory::each ? window_of(bytes) : 1},
        both_ways_{both_ways},
        window_{window_of(bytes)} {
    requests_.reserve(2 * window_);
    sends_.reserve(window_);
    receives_.reserve(window_);
    for (std::size_t i = 0; i < window_; ++i) {
      if (sends()) sends_.push_back(baseline_outgoing(i));
      if (receives()) receives_.push_back(baseline_incoming(i));
    }
  }

  void run() override {
    if (!paired()) return;
    requests_.clear();
    for (std::size_t i = 0; receives() && i < window_; ++i)
      requests_.push_back(world_.receive_async(incoming(i), peer(), 0));
    for (std::size_t i = 0; sends() && i < window_; ++i)
      requests_.push_back(world_.send_async(outgoing(i), peer(), 0));
    qpmesh::wait_all(requests_);
    if (both_ways_) return;
    if (sends()) {
      world_.receive(answer_, peer(), answer_tag);
    } else {
      world_.send(answer_, peer(), answer_tag);
    }
  }
  void run_baseline(Baseline& baseline) override {
    if (!paired()) return;
    baseline.send_and_receive(sends_, receives_);
    if (both_ways_) return;
    if (sends()) {
      baseline.receive({std::as_writable_bytes(std::span{answer_}), peer()});
    } else {
      baseline.send({std::as_bytes(std::span{answer_}), peer()});
    }
  }
  double operations_per_run() const override { return static_cast<double>(window_); }

 private:
  static constexpr int answer_tag = 1;

  bool sends() const noexcept { return paired() && (both_ways_ || leads()); }
  bool receives() const override { return paired() && (both_ways_ || !leads()); }

  bool both_ways_;
  std::size_t window_;
  std::vector<qpmesh::Request> requests_;
  std::vector<Baseline::Outgoing> sends_;
  std::vector<Baseline::Incoming> receives_;
  std::array<Word, 1> answer_{};
};

Series latency_series() {
  return {.name = "latency",
          .element_bytes = sizeof(Word),
          .limit = LimitKind::one_way,
          .bus_factor = [](int) { return 1.0; },
          .make = [](auto& world, auto buffers,
                     auto bytes) { return std::make_unique<Latency>(world, buffers, bytes); }};
}

Series window_series(std::string name, Window::Memory memory, bool both_ways) {
  return {.name = std::move(name),
          .element_bytes = sizeof(Word),
          .limit = LimitKind::streaming,
          .bus_factor = [both_ways](int) { return both_ways ? 2.0 : 1.0; },
          .make =
              [=](auto& world, auto buffers, auto bytes) {
                return std::make_unique<Window>(world, buffers, bytes, memory, both_ways);
              }};
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      {.name = "sendrecv",
       .ranks_min = 2,
       .series = {latency_series(), window_series("bandwidth", Window::Memory::each, false),
                  window_series("both_ways", Window::Memory::each, true),
                  window_series("rate", Window::Memory::same, false),
                  window_series("rate_both_ways", Window::Memory::same, true)}},
      argc, argv);
}

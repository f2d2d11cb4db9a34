// SPDX-License-Identifier: MIT
// Which algorithm runs a call. On one node that is measured while the program runs: the members of
// a communicator try the rows that give the same bits, and agree on the fastest
// (docs/decisions/0021). Elsewhere so are collectives that only move data; reductions are
// predicted (docs/decisions/0024).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/system.hpp"
#include "collectives/forced.hpp"
#include "collectives/network_trials.hpp"
#include "collectives/registry.hpp"
#include "collectives/ticket.hpp"
#include "collectives/trials.hpp"
#include "progress/engine.hpp"

namespace qpmesh::collectives {

// Calls of one collective whose vectors have more than 2^i and up to 2^(i+1) bytes: limits of
// algorithms are powers of two, and so are most lengths.
struct SizeClass {
  // Looked at first: a call of as many bytes as the last one.
  std::size_t bytes = 0;
  const Algorithm* row = nullptr;    // runs calls of so many bytes
  const Algorithm* named = nullptr;  // the same where all ranks name it in their call's signature
  std::uint32_t calls_left = 0;      // of this leg, that need nothing but `row`

  // What is measured where members share no memory.
  std::unique_ptr<NetworkTrials> network;

  // What is measured where they do.
  static constexpr std::uint32_t not_measured = ~0U;
  std::uint32_t index = not_measured;  // in NodeSlab::choices
  std::uint32_t position = 0;          // in the round, of the call behind this leg
  std::uint64_t round = 0;
  std::uint64_t rounds_judged = 0;  // by rank 0
  std::uint32_t stamped = 0;        // bits of this rank's stamps of this round
  std::uint64_t begin_ns = 0;       // of the stamp that has begun; 0: not yet
  Collective collective{};
  Leg leg;
  Decision decision;
  std::unique_ptr<Judge> judge;  // at rank 0

  bool is_measured() const noexcept { return network != nullptr || index != not_measured; }
};

// What was decided of a call, when it was called.
struct Choice {
  const Algorithm* row = nullptr;    // nullptr: that is known when its ticket is called
  const Algorithm* named = nullptr;  // for the call's signature
  SizeClass* measured = nullptr;     // where one of the following, or its row is not known yet
  bool waits = false;                // until all others have called, before it begins
  int begins = -1;                   // a stamp, by its number
  int ends = -1;
};

// Where algorithms are measured: the members' memory, who wakes their tasks, and their clock.
struct Measuring {
  NodeMemory* node = nullptr;
  bool by_messages = false;  // without a node: rows are timed, too; false: they are predicted
  progress::Engine* engine = nullptr;
  const base::System* system = nullptr;
};

class Selector {
 public:
  explicit Selector(const TopologyParams& topology, const Forced* forced = nullptr,
                    Measuring measuring = {}) noexcept
      : predictions_{topology}, forced_{forced}, measuring_{measuring} {}

  // For a call that is counted now, on ranks that know the same. wanted: by this call, or empty.
  // operation: for errors. Throws Error{bad_argument} where what is forced is unknown or does not
  // apply; then nothing is counted.
  Choice select(const CallShape& shape, Collective collective, std::string_view wanted,
                std::string_view operation = {}) {
    SizeClass* const of = found(shape, collective);
    const bool usual = wanted.empty() && !is_unusual(shape) && queue_.free() && of != nullptr &&
                       of->bytes == shape.bytes && of->calls_left > 0;
    if (!usual) [[unlikely]]
      return decide(shape, collective, wanted, operation);
    --of->calls_left;
    return {.row = of->row, .named = of->named};
  }
  // Throws what select() would throw.
  void check(const CallShape& shape, Collective collective, std::string_view wanted,
             std::string_view operation) const {
    forced(shape, collective, wanted, operation);
  }
  // Does the call begin now, and with nothing around its algorithm?
  bool is_plain(const Choice& choice) const noexcept {
    return choice.measured == nullptr && queue_.free();
  }
  // One that does not.
  Task run(Group group, const Arguments& arguments, CallShape shape, Choice choice);

  // The row that would run, and what is known of all: nothing is counted.
  const Algorithm& expected(const CallShape& shape, Collective collective,
                            std::string_view operation = {}) const;
  Figure figure(const CallShape& shape, const Algorithm& row) const noexcept;
  double predicted_s(const CallShape& shape, const Algorithm& row) const noexcept {
    return row.cost(shape, predictions_.topology().model(shape)).time_s;
  }
  const Algorithm& cheapest(const CallShape& shape, Collective collective) const noexcept {
    return collectives::cheapest(predictions_.topology(), shape, collective);
  }

 private:
  static constexpr std::size_t size_class_count = 64;  // by the bit width of the bytes less one

  // What is decided for one element up to this long is right for all of them.
  static constexpr std::size_t usual_element_bytes_max = 16;
  static bool is_unusual(const CallShape& shape) noexcept {
    return shape.ordered || shape.element_bytes > usual_element_bytes_max;
  }
  // One for all v-forms whose lengths only some know: it is not measured.
  static std::size_t size_class(const CallShape& shape) noexcept {
    const std::size_t bytes = shape.bytes;
    const auto width = static_cast<std::size_t>(std::bit_width(bytes - (bytes > 0 ? 1 : 0)));
    return shape.uneven ? size_class_count - 1 : std::min(width, size_class_count - 2);
  }
  SizeClass* found(const CallShape& shape, Collective collective) const noexcept {
    return classes_[static_cast<std::size_t>(collective)][size_class(shape)];
  }
  const Algorithm* forced(const CallShape& shape, Collective collective, std::string_view wanted,
                          std::string_view operation) const;
  Choice decide(const CallShape& shape, Collective collective, std::string_view wanted,
                std::string_view operation);
  SizeClass& make_class(const CallShape& shape, Collective collective);
  std::vector<RowIndex> candidates(const CallShape& shape, Collective collective) const;
  Choice take_call(SizeClass& of, const CallShape& shape) noexcept;
  bool begin_leg(SizeClass& of) noexcept;
  static bool begin_network_leg(SizeClass& of) noexcept;
  // Until all members have judged the last lap.
  static Task judge_together(Group group, SizeClass& of);
  bool judge(SizeClass& of) noexcept;
  bool begin_round(SizeClass& of) noexcept;
  void note(SizeClass& of, std::uint64_t round, int stamp, Span span) noexcept;
  std::uint64_t now_ns() const noexcept;

  Predictions predictions_;
  const Forced* forced_;  // nullptr: nothing
  Measuring measuring_;
  // Calls wait here in their order for one whose row is not known yet. The operations of a node are
  // numbered when they begin, and in the same order at every member.
  TicketQueue queue_;
  std::vector<std::unique_ptr<SizeClass>> owned_;
  std::array<std::array<SizeClass*, size_class_count>, collective_count> classes_{};
};

}  // namespace qpmesh::collectives

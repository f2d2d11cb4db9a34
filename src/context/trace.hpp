// SPDX-License-Identifier: MIT
// What others see of this rank's calls: a timeline, in a file for ui.perfetto.dev and qpmesh-trace
// (QPMESH_TRACE), and what it does now, for qpmesh-run --states.
//
// A call costs two looks at the clock and a record in memory. Records go to the file when there are
// many, when a second has passed, and at the end: a rank that is killed has lost what is younger
// than its last call of the second before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/rank_state.hpp"
#include "base/system.hpp"

namespace qpmesh::context {

// What is known of a call. Texts are literals, or names of algorithms.
struct TracedCall {
  std::uint64_t begin_ns = 0;
  std::string_view operation{};
  std::uint64_t bytes = 0;
  int peer = -1;  // rank in the communicator
  int tag = -1;
  bool is_collective = false;
  std::uint64_t communicator = 0;  // of a collective, as is its number there
  std::uint32_t number = 0;
  std::string_view algorithm{};  // empty: not known when the call began
  bool noted = false;            // more than that it began
};

// Its calls come from the thread whose turn it is, but for begin.
class Trace {
 public:
  // Writes path.RANK.json, and path.RANK.2.json for what this process's second init has made; where
  // that cannot be written a warning says why. nullptr: nothing is written, nor told to a launcher.
  static std::unique_ptr<Trace> open(const std::string& path, const std::string& state_place,
                                     int rank, const base::System& system, const base::Log& log);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  std::uint64_t now_ns() const noexcept;

  // This thread's call begins, and ends. Calls of several contexts may lie within each other.
  void begin(std::string_view operation, std::uint64_t begin_ns) noexcept;
  void end() noexcept;
  // What this thread's call is, and its algorithm.
  void note(const TracedCall& call) noexcept;
  void note_algorithm(std::string_view name) noexcept;

  // A request is made by this thread's call: what is noted from now on is noted in it, too.
  void begin_request(TracedCall& request) noexcept;
  // It was told that it has ended.
  void end_request(const TracedCall& request) noexcept;

 private:
  struct Record {
    TracedCall call;
    std::uint64_t end_ns;
    long thread;  // 0: of a request
  };

  Trace(base::UniqueFd file, base::OwnRankState state, int rank, const base::System& system,
        const base::Log& log);
  void write_header() noexcept;
  void add(const Record& record) noexcept;
  void write_out() noexcept;
  void write_all(std::string_view text) noexcept;

  void tell(const TracedCall& call) const noexcept;

  base::UniqueFd file_;  // none: it is not asked for, or could not be written
  base::OwnRankState state_;
  int rank_;
  const base::System& system_;
  const base::Log& log_;
  std::vector<Record> records_{};
  std::uint64_t written_ns_ = 0;  // when
  std::uint64_t requests_ = 0;    // that have ended
};

}  // namespace qpmesh::context

// SPDX-License-Identifier: MIT
// The calls of a job's ranks on one clock, who came late to them, and their pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace qpmesh::trace {

// Several processes may be one rank: of a job that was started again.
struct RankTrace {
  int rank = 0;
  std::string host{};
  long process = 0;
  bool whole = false;   // its end is there: the rank was not killed
  double added_us = 0;  // to its times, to bring them to the first rank's clock
  double error_us = 0;  // by which that may be wrong
  bool aligned = true;  // false: it has no collective in common with the first rank's host
};

struct Bar {
  int rank = 0;
  std::size_t host = 0;  // in Timeline::hosts
  long process = 0;
  long thread = 0;
  std::string operation{};
  double begin_us = 0;
  double end_us = 0;
  std::uint64_t bytes = 0;
  int peer = -1;
  int tag = -1;
  bool is_request = false;  // an asynchronous operation, from its call until its end was told
  bool is_collective = false;
  std::string communicator{};
  std::uint32_t number = 0;
  std::string algorithm{};
};

// A collective to which one rank came last.
struct Late {
  std::string operation{};
  std::string communicator{};
  std::uint32_t number = 0;
  int rank = 0;
  double begin_us = 0;   // when it came
  double late_us = 0;    // behind the last of all others
  double spread_us = 0;  // behind the first
};

struct Timeline {
  std::vector<RankTrace> ranks{};  // ascending
  std::vector<Bar> bars{};         // by rank and begin
  std::vector<std::string> hosts{};
};

// What a rank wrote, in one of its inits; without its end if the rank was killed. Throws
// std::runtime_error with the name and the line where it is something else.
void read(Timeline& timeline, std::istream& file, const std::string& name);

// Brings the clocks of all hosts to that of the first rank's. A rank leaves a collective that waits
// for everybody (barrier, allreduce, allgather, alltoall, finish) after all have come: each bounds
// how far two clocks are apart, from both sides, and half of what is left is the error.
void align(Timeline& timeline);

// Of collectives that at least two ranks called, by lateness.
std::vector<Late> late_ranks(const Timeline& timeline);

// What there is, how long each rank was in which calls, and who was late.
std::string to_text(const Timeline& timeline, const std::vector<Late>& late);
// Of Chrome's and Perfetto's form, with a mark where a rank is late.
std::string to_json(const Timeline& timeline, const std::vector<Late>& late);
// A row for each rank; what is asynchronous lies below its calls.
std::string to_svg(const Timeline& timeline, const std::vector<Late>& late);

}  // namespace qpmesh::trace

// SPDX-License-Identifier: MIT
// Lines of many ranks on one stream: each whole, each with the rank in front.
#pragma once

#include <poll.h>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned.hpp"
#include "tools/run/outlet.hpp"

namespace qpmesh::run {

// One of our own streams and the ranks' pipes that end in it. Never waits by itself: the job polls
// what it asks for.
class PrefixedOutput {
 public:
  explicit PrefixedOutput(int stream) : outlet_{stream} {}

  void add(int rank, base::UniqueFd pipe);

  // What to poll for now. While the stream does not take what it has, the pipes are left alone, and
  // so the ranks wait.
  void ask(std::vector<pollfd>& polled) const;
  // Does what can be done without waiting. False: its stream took nothing.
  bool step();
  // The ranks have ended: what their pipes hold now, and a line without an end, is the last of
  // them. Nobody waits for the end of a pipe: a process that a rank left behind may have it.
  void end_sources();
  // All of it was written.
  bool is_done() const;

 private:
  struct Source {
    base::UniqueFd pipe;
    std::string prefix;
    std::string begun;                                                 // a line without its end
    std::size_t left_bytes = std::numeric_limits<std::size_t>::max();  // that are still to be read
  };

  void read(Source& source);
  void take(Source& source, std::string_view text);
  void end_line(Source& source);
  void end(Source& source);

  static constexpr std::size_t line_bytes_max = std::size_t{64} << 10;  // longer lines are broken
  static constexpr std::size_t turn_bytes_max = std::size_t{16} << 10;  // of a source, in a step

  Outlet outlet_;
  std::vector<Source> sources_;
};

}  // namespace qpmesh::run

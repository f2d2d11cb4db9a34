// Lines of many ranks on one stream: each whole, each with the rank in front.
#pragma once

#include <poll.h>

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
  // Does what can be done without waiting.
  void step();
  // Everything the pipes still hold, and lines without an end. Waits for the stream.
  void finish();

 private:
  struct Source {
    base::UniqueFd pipe;
    std::string prefix;
    std::string begun;  // a line without its end
  };

  bool read(Source& source);  // false: nothing there now
  void take(Source& source, std::string_view text);
  void end_line(Source& source);

  static constexpr std::size_t line_bytes_max = std::size_t{64} << 10;  // longer lines are broken

  Outlet outlet_;
  std::vector<Source> sources_;
};

}  // namespace qpmesh::run

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
  // What the pipes hold now, and lines without an end. Waits for the stream, and not for the end of
  // a pipe: a process that a rank left behind may have it.
  void finish();

 private:
  struct Source {
    base::UniqueFd pipe;
    std::string prefix;
    std::string begun;  // a line without its end
  };

  std::size_t read(Source& source, std::size_t bytes_max);  // 0: nothing there now
  void take(Source& source, std::string_view text);
  void end_line(Source& source);

  static constexpr std::size_t line_bytes_max = std::size_t{64} << 10;  // longer lines are broken
  static constexpr std::size_t turn_bytes_max = std::size_t{16} << 10;  // of a source, in step()

  Outlet outlet_;
  std::vector<Source> sources_;
};

}  // namespace qpmesh::run

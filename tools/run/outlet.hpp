// What is still to go to one of our own streams.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

namespace qpmesh::run {

// Never waits by itself, but for finish(): the job polls what it asks for.
class Outlet {
 public:
  explicit Outlet(int stream) : stream_{stream} {}

  void put(std::string_view text) { pending_ += text; }
  // The stream does not take what it has: put no more for now.
  bool is_full() const { return pending_.size() >= pending_bytes_max; }
  // Nobody will ever read it; what is put is dropped.
  bool is_broken() const { return broken_; }

  void ask(std::vector<pollfd>& polled) const;
  void step();    // what can be done without waiting
  void finish();  // all; waits for the stream
  void write_some();

 private:
  static constexpr std::size_t pending_bytes_max = std::size_t{64} << 10;

  int stream_;
  std::string pending_;
  bool broken_ = false;
};

}  // namespace qpmesh::run

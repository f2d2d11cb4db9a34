// SPDX-License-Identifier: MIT
// What is still to go to one of our own streams.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

namespace qpmesh::run {

// Never waits by itself: the job polls what it asks for.
class Outlet {
 public:
  explicit Outlet(int stream) : stream_{stream} {}

  void put(std::string_view text) {
    if (!given_up_) pending_ += text;
  }
  // The stream does not take what it has: put no more for now.
  bool is_full() const { return pending_.size() >= pending_bytes_max; }
  bool is_empty() const { return pending_.empty(); }
  // Nobody will ever read it; what is put is dropped.
  bool is_broken() const { return broken_; }

  // Drops what it has, and what it is given from here on.
  void give_up() {
    given_up_ = true;
    pending_.clear();
  }

  void ask(std::vector<pollfd>& polled) const;
  bool step();  // what can be done without waiting; false: nothing

 private:
  void write_some();

  static constexpr std::size_t pending_bytes_max = std::size_t{64} << 10;

  int stream_;
  std::string pending_;
  bool broken_ = false;
  bool given_up_ = false;
};

}  // namespace qpmesh::run

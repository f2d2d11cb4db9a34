// SPDX-License-Identifier: MIT
#include "tools/run/outlet.hpp"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace qpmesh::run {
namespace {

bool is_ready(int descriptor, short events) {
  pollfd polled{.fd = descriptor, .events = events, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

}  // namespace

void Outlet::ask(std::vector<pollfd>& polled) const {
  if (!pending_.empty()) polled.push_back({.fd = stream_, .events = POLLOUT, .revents = 0});
}

bool Outlet::step() {
  bool worked = false;
  while (!pending_.empty() && is_ready(stream_, POLLOUT)) {
    write_some();
    worked = true;
  }
  return worked;
}

// A pipe that is ready takes PIPE_BUF bytes without waiting.
void Outlet::write_some() {
  const ssize_t count =
      ::write(stream_, pending_.data(), std::min<std::size_t>(pending_.size(), PIPE_BUF));
  if (count >= 0) {
    pending_.erase(0, static_cast<std::size_t>(count));
  } else if (errno != EAGAIN && errno != EINTR) {  // EAGAIN: who shares it made it non-blocking
    broken_ = broken_ || errno == EPIPE;
    pending_.clear();  // a full disk must not end the job
  }
}

}  // namespace qpmesh::run

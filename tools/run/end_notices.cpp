// SPDX-License-Identifier: MIT
#include "tools/run/end_notices.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <span>

namespace qpmesh::run {

void EndNotices::ask(std::vector<pollfd>& polled) const {
  if (listener_) polled.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const base::UniqueFd& rank : ranks_)
    polled.push_back({.fd = rank.get(), .events = POLLIN, .revents = 0});
}

void EndNotices::step() {
  // Ranks say nothing: what can be read is their end.
  std::erase_if(ranks_, [](const base::UniqueFd& rank) {
    char byte = 0;
    return ::recv(rank.get(), &byte, 1, MSG_DONTWAIT) >= 0;
  });
  while (listener_) {
    base::UniqueFd rank{::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!rank) {
      // Out of descriptors: who is waiting in the queue would keep poll awake for ever.
      if (errno == EMFILE || errno == ENFILE) listener_.reset();
      return;
    }
    if (!bootstrap::reject_reason(system_, rank.get()).empty()) continue;
    for (const bootstrap::EndedRank& ended : ended_) send(rank, ended);
    ranks_.push_back(std::move(rank));
  }
}

void EndNotices::tell(const bootstrap::EndedRank& ended) {
  ended_.push_back(ended);
  for (const base::UniqueFd& rank : ranks_) send(rank, ended);
}

// A rank that does not read is not starting up: it needs no news.
void EndNotices::send(const base::UniqueFd& rank, const bootstrap::EndedRank& ended) const {
  bootstrap::send(system_, rank.get(), std::as_bytes(std::span{&ended, 1}));
}

}  // namespace qpmesh::run

// SPDX-License-Identifier: MIT
#include "context/peer_health.hpp"

#include <algorithm>
#include <utility>

namespace qpmesh::context {
namespace {

constexpr std::size_t early_failures_max = 256;

}  // namespace

void PeerHealth::leaves(int rank) noexcept {
  peer(rank).state = State::left;
  peer(rank).verdict = no_deadline;
  any_left_ = true;
}

void PeerHealth::doubts(ErrorDetail cause, Deadline verdict) {
  Peer& doubted = peer(cause.peer);
  if (doubted.state != State::here || doubted.verdict != no_deadline) return;
  doubted.cause = std::move(cause);
  doubted.verdict = verdict;
  next_verdict_ = std::min(next_verdict_, verdict);
}

void PeerHealth::loses(ErrorDetail cause) {
  Peer& lost = peer(cause.peer);
  lost.state = State::lost;
  lost.verdict = no_deadline;
  lost.cause = std::move(cause);
}

std::vector<ErrorDetail> PeerHealth::verdicts(Deadline now) {
  std::vector<ErrorDetail> due;
  if (now < next_verdict_) return due;
  for (const Peer& each : peers_) {
    if (each.verdict <= now) due.push_back(each.cause);
  }
  // Of those that are due, too: who is not lost by then, because memory was missing, is asked for
  // again.
  next_verdict_ = no_deadline;
  for (const Peer& each : peers_) next_verdict_ = std::min(next_verdict_, each.verdict);
  return due;
}

// The newest are kept: what comes for communicators that are gone here already would fill any list.
void PeerHealth::keep_early(CommunicatorFailure failure) {
  const auto known =
      std::ranges::find(early_failures_, failure.communicator, &CommunicatorFailure::communicator);
  if (known != early_failures_.end()) return;
  if (early_failures_.size() == early_failures_max) early_failures_.erase(early_failures_.begin());
  early_failures_.push_back(std::move(failure));
}

std::optional<CommunicatorFailure> PeerHealth::take_early(std::uint64_t communicator) {
  const auto early =
      std::ranges::find(early_failures_, communicator, &CommunicatorFailure::communicator);
  if (early == early_failures_.end()) return std::nullopt;
  CommunicatorFailure failure = std::move(*early);
  early_failures_.erase(early);
  return failure;
}

bool PeerHealth::begin_abort(ErrorDetail detail) {
  bool begins = false;
  std::call_once(abort_begins_, [&] {
    abort_ = std::move(detail);
    aborting_.store(true, std::memory_order_release);
    begins = true;
  });
  return begins;
}

ErrorDetail PeerHealth::take_abort() {
  abort_taken_ = true;
  return abort_;
}

}  // namespace qpmesh::context

#include "context/peer_health.hpp"

#include <algorithm>
#include <utility>

namespace qpmesh::context {
namespace {

constexpr std::size_t early_failures_max = 256;

}  // namespace

const PeerHealth::Peer* PeerHealth::first_lost(const std::vector<int>& ranks) const noexcept {
  const auto lost =
      std::ranges::find_if(ranks, [&](int rank) { return at(rank).state == State::lost; });
  return lost == ranks.end() ? nullptr : &at(*lost);
}

void PeerHealth::leaves(int rank) noexcept {
  forget_doubt(rank);
  peer(rank).state = State::left;
  any_left_ = true;
}

void PeerHealth::doubts(ErrorDetail cause, Deadline verdict) {
  if (at(cause.peer).state == State::here) doubts_.push_back({std::move(cause), verdict});
}

void PeerHealth::forget_doubt(int rank) noexcept {
  std::erase_if(doubts_, [&](const Doubt& doubt) { return doubt.cause.peer == rank; });
}

void PeerHealth::loses(ErrorDetail cause) {
  forget_doubt(cause.peer);
  Peer& lost = peer(cause.peer);
  lost.state = State::lost;
  lost.cause = std::move(cause);
}

std::vector<ErrorDetail> PeerHealth::verdicts(Deadline now) const {
  std::vector<ErrorDetail> due;
  for (const Doubt& doubt : doubts_) {
    if (doubt.verdict <= now) due.push_back(doubt.cause);
  }
  return due;
}

Deadline PeerHealth::next_verdict() const noexcept {
  Deadline next = no_deadline;
  for (const Doubt& doubt : doubts_) next = std::min(next, doubt.verdict);
  return next;
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
  const std::lock_guard lock{abort_mutex_};
  if (aborting_.load(std::memory_order_relaxed)) return false;
  abort_ = std::move(detail);
  aborting_.store(true, std::memory_order_release);
  return true;
}

ErrorDetail PeerHealth::take_abort() {
  abort_taken_ = true;
  const std::lock_guard lock{abort_mutex_};
  return abort_;
}

}  // namespace qpmesh::context

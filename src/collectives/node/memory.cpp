// SPDX-License-Identifier: MIT
#include "collectives/node/memory.hpp"

#include <algorithm>
#include <cerrno>

#include "base/errors.hpp"
#include "messaging/messaging.hpp"
#include "messaging/operations.hpp"
#include "transport/memory.hpp"

namespace qpmesh::collectives {
namespace {

// Members of a node do not ring when they end an operation or a copy: it would cost each of them
// more than this one's looks.
constexpr std::chrono::microseconds unrung_sleep_max{1'000};

}  // namespace

NodeMemory::NodeMemory(Setup setup, progress::Engine& engine, messaging::CallChecker& calls)
    : engine_{engine},
      calls_{calls},
      size_{static_cast<int>(setup.members.size())},
      rank_{setup.rank},
      communicator_{setup.communicator},
      fills_together_{setup.cooperative_copies && setup.cma &&
                      base::ProcessMemory::stores_in_order},
      broadcast_share_{static_cast<int>(setup.members.size()) - 1},
      shares_cores_{setup.spins_max == 0},
      spins_max_{std::max(setup.spins_max, 1)},
      staging_{setup.spins_max > 0 && size_ <= populated_members_max ? node_staging_bytes : 0},
      cma_{setup.cma} {
  for (std::size_t i = 0; i < setup.members.size(); ++i) {
    const transport::Neighbour& member = *setup.members[i];
    const std::uint64_t offset = setup.offsets[i];
    std::byte* const slab = member.at(offset, sizeof(NodeSlab));
    if (slab == nullptr || offset % alignof(NodeSlab) != 0) {
      base::throw_error({ErrorCode::corrupt, setup.named[i]}, "", "",
                        "its node slab at {} does not lie in its arena of {} bytes", offset,
                        member.arena_bytes());
    }
    peers_.push_back(
        {.words = MemberNodeWords<base::ProcessAtomics>{*reinterpret_cast<NodeSlab*>(slab)},
         .memory = &member,
         .context_rank = setup.context_ranks[i],
         .named = setup.named[i]});
  }
  own_ = OwnNodeWords<base::ProcessAtomics>{peer(rank_).words.words()};
  own_.enter(communicator_);
}

NodeMemory::~NodeMemory() {
  if (waits_ != nullptr) engine_.poll_no_longer(*this);
}

std::optional<std::uint64_t> NodeMemory::offset_in_arena(const void* data,
                                                         std::size_t bytes) const noexcept {
  return peer(rank_).memory->offset_of(data, bytes);
}

std::byte* NodeMemory::data(int rank, std::uint64_t offset, std::size_t bytes) const {
  const transport::Neighbour& member = *peer(rank).memory;
  std::byte* const found = member.at(offset, bytes);
  if (found == nullptr) [[unlikely]] {
    base::throw_error({ErrorCode::corrupt, peer(rank).named}, "", "",
                      "{} bytes at {} do not lie in its arena of {} bytes", bytes, offset,
                      member.arena_bytes());
  }
  return found;
}

void NodeMemory::throw_outside_staging(int rank, std::uint64_t begin, std::size_t bytes) const {
  base::throw_error({ErrorCode::corrupt, peer(rank).named}, "", "",
                    "{} bytes at {} lie neither in its slot nor in its staging of {} bytes", bytes,
                    begin, node_staging_bytes);
}

bool NodeMemory::copy_private(int rank, std::byte* target, std::uint64_t address,
                              std::size_t bytes) const {
  const int error = peer(rank).memory->copy_private(target, address, bytes);
  // Revoked memory need not even be there.
  if (is_revoked(rank) || error == ESRCH) return false;
  if (error == 0) return true;
  base::throw_error(
      {.code = ErrorCode::no_resource, .peer = peer(rank).named, .system_error = error}, "",
      error == EFAULT ? "set QPMESH_CMA=no where vectors lie in a device's memory"
                      : "set QPMESH_CMA=no where processes change their credentials "
                        "while they run",
      "{} bytes of its private memory could not be read, although others could at start", bytes);
}

// Those that a failure ends are not counted: there may be more of them than fit, and nobody may go
// on because of them.
void NodeMemory::end(std::uint64_t number) noexcept {
  if (failure_ == nullptr) own_.end(number);
}

void NodeMemory::publish(NodeSlot& slot, std::uint64_t stage) noexcept {
  // Loaded before the stage is stored: every load behind that waits until other cores can see it.
  const std::span members{peers_};
  const Peer* const own = &peer(rank_);
  own_.publish(slot, stage);
  for (const Peer& member : members) {
    if (&member != own) member.memory->wake_if_asleep();
  }
}

// Another call than ours: the error comes through the control channel, and ends the wait.
void NodeMemory::report(const Peer& member, std::uint64_t call) noexcept {
  if (reported_) return;
  reported_ = !calls_.agrees(member.context_rank, communicator_, static_cast<std::uint32_t>(call),
                             static_cast<std::uint32_t>(call >> 32));
}

bool NodeMemory::has_made(const Peer& member, std::uint64_t own) const noexcept {
  for (const SlotBank bank : {SlotBank::ahead, SlotBank::together}) {
    std::uint64_t call = 0;
    if (member.words.has_called(member.words.words().slot(next_number_ - 1, bank), call) &&
        call == own)
      return true;
  }
  return false;
}

void NodeMemory::look_at_calls(const Peer& member) noexcept {
  const std::uint64_t window = node_slot_count - 1;
  const std::uint64_t first = std::max(agreed_count_, std::max(next_number_, window) - window);
  for (std::uint64_t number = first; number <= next_number_; ++number) {
    for (const SlotBank bank : {SlotBank::ahead, SlotBank::together}) {
      std::uint64_t call = 0;
      if (member.words.has_called(member.words.words().slot(number, bank), call))
        report(member, call);
    }
  }
}

bool NodeMemory::check_calls(std::uint64_t own) noexcept {
  if (agreed_call_ == own) return true;
  bool all_agree = true;
  for (Peer& member : peers_) {
    if (&member == &peer(rank_) || has_made(member, own)) continue;
    // Asked before its slots are looked at: what it has published for these operations is seen.
    const bool has_ended = newest_call_ == own && member.words.is_done(next_number_, own_.done());
    look_at_calls(member);
    all_agree &= has_ended;
  }
  if (!all_agree) return false;
  agreed_call_ = own;
  agreed_count_ = next_number_;
  return true;
}

bool NodeMemory::enlist(NodeWait& wait) noexcept {
  wait.failure = failure_;
  if (failure_ != nullptr && wait.what != NodeWait::For::fill) return true;
  if (waits_ == nullptr) engine_.poll_also(*this);
  wait.previous_wait = nullptr;
  wait.next_wait = waits_;
  if (waits_ != nullptr) waits_->previous_wait = &wait;
  waits_ = &wait;
  return false;
}

void NodeMemory::remove(NodeWait& wait) noexcept {
  (wait.previous_wait != nullptr ? wait.previous_wait->next_wait : waits_) = wait.next_wait;
  if (wait.next_wait != nullptr) wait.next_wait->previous_wait = wait.previous_wait;
  if (waits_ == nullptr) engine_.poll_no_longer(*this);
}

bool NodeMemory::poll() {
  bool worked = false;
  for (NodeWait* wait = waits_; wait != nullptr;) {
    NodeWait* const following = wait->next_wait;
    if (look(*wait)) {
      remove(*wait);
      engine_.complete(*wait, wait->failure);
      worked = true;
    }
    wait = following;
  }
  return worked;
}

void NodeMemory::fail(const Error& failure) noexcept {
  failure_ = &failure;
  own_slab().revocations.revoke();  // before its owner writes what others may read
  for (NodeWait* wait = waits_; wait != nullptr;) {
    NodeWait* const following = wait->next_wait;
    if (wait->what == NodeWait::For::fill) {
      wait->failure = &failure;
    } else {
      remove(*wait);
      engine_.complete(*wait, &failure);
    }
    wait = following;
  }
}

std::optional<int> NodeMemory::awaited() const noexcept {
  // Others may wait for this rank itself, which has to end its oldest wait first.
  const NodeWait* oldest = waits_;
  while (oldest != nullptr && oldest->next_wait != nullptr) oldest = oldest->next_wait;
  if (oldest == nullptr) return std::nullopt;
  return oldest->next;
}

bool NodeMemory::waits_for(int rank) noexcept {
  poll();
  for (NodeWait* wait = waits_; wait != nullptr; wait = wait->next_wait) {
    const bool concerned = rank >= wait->next && rank < wait->end;
    if (concerned && !has_come(rank, *wait)) return true;
  }
  return false;
}

std::chrono::microseconds NodeMemory::request_notification() noexcept {
  for (const NodeWait* wait = waits_; wait != nullptr; wait = wait->next_wait) {
    if (wait->what != NodeWait::For::stage && wait->what != NodeWait::For::stage_or_end)
      return unrung_sleep_max;
  }
  return std::chrono::microseconds::max();
}

std::optional<int> NodeMemory::filler() const noexcept {
  for (const NodeWait* wait = waits_; wait != nullptr; wait = wait->next_wait) {
    if (wait->what == NodeWait::For::fill) return wait->next;
  }
  return std::nullopt;
}

void NodeMemory::poll_costly() noexcept {
  for (NodeWait* wait = waits_; wait != nullptr; wait = wait->next_wait) {
    if (wait->what != NodeWait::For::fill) continue;
    transport::FillGuard& guard = own_slab().slots[wait->slot].guard;
    const bool gone = peer(wait->next).memory->has_ended();
    if (gone && guard.phase_of(wait->stage) == transport::FillGuard::begun)
      guard.give_up(wait->stage);
  }
}

void NodeMemory::populate(std::size_t vector_bytes) noexcept {
  const std::size_t bytes = StagingRing::round_bytes(vector_bytes);
  if (size_ > populated_members_max || bytes <= populated_bytes_) return;
  for (int rank = 0; rank < size_; ++rank) {
    transport::populate(reinterpret_cast<std::byte*>(&slab(rank)),
                        sizeof(NodeWords<base::ProcessAtomics>));
  }
  populate_staging(bytes);
}

void NodeMemory::populate_staging(std::size_t bytes) noexcept {
  // Its own first: members that take the same pages at the same time wait for each other.
  for (int i = 0; i < size_; ++i) {
    const int rank = (rank_ + i) % size_;
    transport::populate(slab(rank).staging + populated_bytes_, bytes - populated_bytes_);
  }
  populated_bytes_ = bytes;
}

void NodeMemory::warm_staging(std::size_t begin) noexcept {
  const std::size_t bytes = populated_bytes_ - begin;
  prefetch_for_write(slab(rank_).staging + begin, bytes);
  for (int i = 1; i < size_; ++i) {
    const std::byte* const staging = slab((rank_ + i) % size_).staging + begin;
    for (std::size_t offset = 0; offset < bytes; offset += base::cache_line_bytes)
      base::prefetch(staging + offset);
  }
}

bool NodeMemory::everybody_has_left() const noexcept {
  return std::ranges::all_of(peers_,
                             [&](const Peer& each) { return each.words.has_left(communicator_); });
}

}  // namespace qpmesh::collectives

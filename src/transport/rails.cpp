// SPDX-License-Identifier: MIT
#include "transport/rails.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/atomics.hpp"
#include "base/errors.hpp"

namespace qpmesh::transport {
namespace {

constexpr std::size_t word_bytes = sizeof(RailNoticeWord<base::ProcessAtomics>);
constexpr std::string_view given_up = "the peer has given it up";

}  // namespace

// ---- both transports ----

RailedTransport::RailedTransport(const base::System& system, const base::Log& log,
                                 std::unique_ptr<Transport> first,
                                 std::unique_ptr<Transport> second)
    : log_{log}, first_{std::move(first)}, second_{std::move(second)} {
  if (first_->wake_descriptor() < 0) return;
  wake_.reset(system.call("epoll_create1", [] { return ::epoll_create1(EPOLL_CLOEXEC); }));
  bool watched = static_cast<bool>(wake_);
  for (const Transport* const rail : {first_.get(), second_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = rail->wake_descriptor()}};
    watched = watched && ::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, event.data.fd, &event) == 0;
  }
  if (!watched) {
    const int error = errno;
    base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init",
                      base::hint_for_descriptors(error), "no descriptor wakes for two devices");
  }
}

RemoteAddress RailedTransport::register_memory(std::span<const std::byte> memory, RegionKind kind) {
  regions_.reserve(regions_.size() + 1);  // nothing below throws once the first has it
  RemoteAddress address = first_->register_memory(memory, kind);
  try {
    try {
      address.second_region = second_->register_memory(memory, kind).region;
      regions_.push_back({address.region, address.second_region});
    } catch (const Error& error) {
      if (!std::exchange(warned_, true))
        log_.warning("{}; one device alone moves such messages", error.what());
    }
  } catch (const std::bad_alloc&) {}
  return address;
}

bool RailedTransport::deregister_memory(std::uint32_t region) noexcept {
  bool second_closed = true;
  if (const std::uint32_t second = second_of(region); second != 0) {
    second_closed = second_->deregister_memory(second);
    std::erase_if(regions_, [=](const Region& each) { return each.first == region; });
  }
  return first_->deregister_memory(region) && second_closed;
}

std::optional<RemoteAddress> RailedTransport::address_of(
    std::span<const std::byte> memory) const noexcept {
  auto address = first_->address_of(memory);
  if (address) address->second_region = second_of(address->region);
  return address;
}

// Few: the rings, Buffers, and buffers of large messages on their way.
std::uint32_t RailedTransport::second_of(std::uint32_t region) const noexcept {
  const auto found = std::ranges::find(regions_, region, &Region::first);
  return found == regions_.end() ? 0 : found->second;
}

void RailedTransport::progress() noexcept {
  first_->progress();
  second_->progress();
  if (waiting_ == 0) return;
  for (RailedConnection* const connection : connections_) connection->go_on();
}

std::chrono::microseconds RailedTransport::request_notification() noexcept {
  return std::min(first_->request_notification(), second_->request_notification());
}

void RailedTransport::end_notification() noexcept {
  first_->end_notification();
  second_->end_notification();
}

void RailedTransport::poll_async_events() noexcept {
  first_->poll_async_events();
  second_->poll_async_events();
  for (RailedConnection* const connection : connections_) connection->look();
}

// ---- one peer ----

RailedConnection::RailedConnection(Parts parts)
    : parts_{std::move(parts)},
      capabilities_{parts_.first->capabilities()},
      posted_{parts_.first->completed(), parts_.second->completed()},
      messages_(parts_.messages_max) {
  // Either may have to carry everything.
  const Capabilities& second = parts_.second->capabilities();
  capabilities_.rails = 2;
  capabilities_.write_bytes_max =
      std::min({capabilities_.write_bytes_max, second.write_bytes_max, piece_bytes_max});
  capabilities_.inline_bytes_max =
      std::min(capabilities_.inline_bytes_max, second.inline_bytes_max);
  capabilities_.bytes_in_order &= second.bytes_in_order;
  capabilities_.ordered_flag &= second.ordered_flag;
  capabilities_.small = std::max(capabilities_.small, second.small);
  capabilities_.medium = std::max(capabilities_.medium, second.medium);
  parts_.transport->connections_.push_back(this);
}

RailedConnection::~RailedConnection() {
  if (waits_) --parts_.transport->waiting_;
  std::erase(parts_.transport->connections_, this);
}

Post RailedConnection::post(std::span<const Write> chain) noexcept {
  if (fault_) return Post::failed;
  const auto tells =
      static_cast<std::size_t>(std::ranges::count_if(chain, [](const Write& w) { return w.tell; }));
  if (!has_room(tells)) return Post::busy;
  if (chain.size() == 1 && chain.front().unordered) return post_anywhere(chain.front(), {});
  if (!lane_ready_) return Post::busy;
  const Post result = post_in_lane(chain);
  if (result == Post::failed) return after_failure();
  if (result != Post::posted) return result;
  for (const Write& write : chain) {
    if (write.tell) note(lane(), write, {});
  }
  remember(chain);
  return result;
}

Post RailedConnection::post_in_lane(std::span<const Write> chain) noexcept {
  if (lane() == Rail::first) return parts_.first->post(chain);
  assert(chain.size() <= chain_max);
  std::array<Write, chain_max> here;
  std::ranges::copy(chain, here.begin());
  for (Write& write : here) write.target = as_of(Rail::second, write.target);
  return parts_.second->post({here.data(), chain.size()});
}

Post RailedConnection::read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
                            RemoteAddress source) noexcept {
  if (fault_) return Post::failed;
  if (!has_room(1)) return Post::busy;
  return post_anywhere({.source_region = target_region, .target = source, .tell = true}, target);
}

// By the rail with less under way, or by the other one where that is full.
Post RailedConnection::post_anywhere(const Write& write, std::span<std::byte> into) noexcept {
  assert(write.tell && !write.immediate);
  const auto under_way = [&](Rail rail) { return posted_on(rail) - on(rail).completed(); };
  const auto on_first = under_way(Rail::first);
  const auto on_second = under_way(Rail::second);
  const bool second_first = on_second < on_first || (on_second == on_first && next_told_ % 2 != 0);
  const Rail best = second_first ? Rail::second : Rail::first;
  bool failed = false;
  bool reachable = false;
  for (const Rail rail : {best, other(best)}) {
    if (!may_go_on(rail, write, into)) continue;
    const Post result = post_on(rail, write, into);
    if (result == Post::posted) return result;
    reachable = true;
    failed |= result == Post::failed;
  }
  if (!reachable) {
    end_for_want_of("what it cannot reach had to be moved");
    return Post::failed;
  }
  return failed ? after_failure() : Post::busy;
}

bool RailedConnection::may_go_on(Rail rail, const Write& write,
                                 std::span<std::byte> into) const noexcept {
  if (loss_ != Loss::none && rail == down_) return false;
  if (rail == Rail::first) return true;
  if (write.target.second_region == 0) return false;
  const Capabilities& second = parts_.second->capabilities();
  const bool copied = write.head.size() + write.body.size() <= second.inline_bytes_max;
  if (!second.registered_sources || (into.empty() && copied)) return true;
  const RailedTransport& transport = *parts_.transport;
  if (write.source_region) return transport.second_of(*write.source_region) != 0;
  const auto lasting = [&](std::span<const std::byte> memory) {
    return memory.empty() || transport.second_->address_of(memory);
  };
  return lasting(into) && lasting(write.head) && lasting(write.body);
}

Post RailedConnection::post_raw(Rail rail, const Write& write, std::span<std::byte> into) noexcept {
  Write here = write;
  here.target = as_of(rail, write.target);
  if (rail == Rail::second && write.source_region)
    here.source_region = parts_.transport->second_of(*write.source_region);
  return into.empty() ? on(rail).post({&here, 1})
                      : on(rail).read(into, here.source_region, here.target);
}

Post RailedConnection::post_on(Rail rail, const Write& write, std::span<std::byte> into) noexcept {
  const Post result = post_raw(rail, write, into);
  if (result == Post::posted) note(rail, write, into);
  return result;
}

// A rail that has just failed is severed by the next look; until then nobody hears of it.
Post RailedConnection::after_failure() noexcept {
  const bool one_is_left = loss_ == Loss::none &&
                           (parts_.first->fault() == nullptr || parts_.second->fault() == nullptr);
  if (one_is_left) return Post::busy;
  look();
  return Post::failed;
}

void RailedConnection::note(Rail rail, const Write& write, std::span<std::byte> into) noexcept {
  told_[next_told_++ % told_max] = {.rail = rail,
                                    .ordered = !write.unordered && into.empty(),
                                    .number = ++posted_on(rail),
                                    .write = write,
                                    .into = into};
  if (rail == lane() || !into.empty()) return;
  last_write_ = posted_on(rail);
  go_on();
}

// Once a rail has failed nothing is taken over any more.
void RailedConnection::remember(std::span<const Write> chain) noexcept {
  if (loss_ != Loss::none || std::ranges::none_of(chain, &Write::message)) return;
  assert(chain.size() <= chain_max && !messages_.empty());
  Message& message = messages_[next_message_++ % messages_.size()];
  message.writes = chain.size();
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Write& write = chain[i];
    const std::uint64_t offset = write.target.offset - parts_.places.offset;
    const std::size_t bytes = write.head.size() + write.body.size();
    assert(offset <= parts_.mirror.size() && bytes <= parts_.mirror.size() - offset);
    message.chain[i] = {.offset = static_cast<std::uint32_t>(offset),
                        .bytes = static_cast<std::uint32_t>(bytes),
                        .flag_offset = write.flag_offset,
                        .flag_bytes = write.flag_bytes,
                        .immediate = write.immediate};
    std::byte* const copy = parts_.mirror.data() + offset;
    if (!write.head.empty()) std::memcpy(copy, write.head.data(), write.head.size());
    if (!write.body.empty())
      std::memcpy(copy + write.head.size(), write.body.data(), write.body.size());
  }
}

std::uint64_t RailedConnection::completed() const noexcept {
  while (first_told_ < next_told_ && is_done(told_[first_told_ % told_max])) ++first_told_;
  return first_told_;
}

bool RailedConnection::delivered() noexcept {
  if (fault_) return true;
  const bool takes_over = !lane_ready_ || (loss_ != Loss::none && !peer_knows_);
  return !takes_over && on(lane()).fault() == nullptr && on(lane()).delivered();
}

void RailedConnection::tear_down() noexcept {
  parts_.first->tear_down();
  parts_.second->tear_down();
  if (fault_) return;
  const ErrorDetail* const fault = on(lane()).fault();
  end(fault != nullptr ? std::string_view{fault->cause} : "torn down", {});
}

// ---- the failure of a rail ----

void RailedConnection::look() noexcept {
  if (fault_) return;
  const auto notice = peer_notice();
  const auto why_down = [&](Rail rail) -> std::optional<std::string_view> {
    if (loss_ != Loss::none && rail == down_) return why_down_;
    if (const ErrorDetail* const fault = on(rail).fault()) {
      const ErrorDetail* const doubt = on(rail).doubt();  // nearer to the cause
      return doubt != nullptr ? doubt->cause : fault->cause;
    }
    if (notice && notice->severed == rail) return given_up;
    return std::nullopt;
  };
  auto first = why_down(Rail::first);
  auto second = why_down(Rail::second);
  if (first && second) return end(*first, *second);
  if (loss_ == Loss::none) {
    // A port that is down may come back. There is no need to wait for it, where the other one's
    // is up.
    if (!first && !second) {
      const ErrorDetail* const first_doubt = parts_.first->doubt();
      const ErrorDetail* const second_doubt = parts_.second->doubt();
      if (first_doubt != nullptr && second_doubt == nullptr) first = first_doubt->cause;
      if (second_doubt != nullptr && first_doubt == nullptr) second = second_doubt->cause;
    }
    if (!first && !second) return;
    first ? sever(Rail::first, *first) : sever(Rail::second, *second);
  }
  go_on();
}

void RailedConnection::sever(Rail rail, std::string_view why) noexcept {
  try {
    why_down_ = why;
  } catch (const std::bad_alloc&) {}
  on(rail).tear_down();
  loss_ = Loss::severed;
  down_ = rail;
  lane_ready_ = rail == Rail::second;
}

// Both are down, and this is the end of the link.
void RailedConnection::end(std::string_view why_first, std::string_view why_second) noexcept {
  const ErrorDetail* const last = on(loss_ == Loss::none ? Rail::first : other(down_)).fault();
  ErrorDetail& fault = fault_.emplace();
  fault.code = ErrorCode::link_failed;
  fault.peer = parts_.peer;
  fault.system_error = last != nullptr ? last->system_error : 0;
  try {
    fault.cause = why_second.empty() ? std::string{why_first}
                                     : fmt::format("{}: {}; {}: {}", name_of(Rail::first),
                                                   why_first, name_of(Rail::second), why_second);
    if (last != nullptr) fault.hint = last->hint;
  } catch (const std::bad_alloc&) {
    fault.cause = base::no_memory;
  }
}

void RailedConnection::end_for_want_of(std::string_view what) noexcept {
  try {
    const std::string cannot = fmt::format("alone, and {}", what);
    down_ == Rail::first ? end(why_down_, cannot) : end(cannot, why_down_);
  } catch (const std::bad_alloc&) {
    end(what, {});
  }
}

void RailedConnection::tell_taken(std::uint32_t messages) noexcept {
  taken_ = messages & RailNotice::taken_mask;
  go_on();
}

void RailedConnection::go_on() noexcept {
  if (!fault_ && loss_ != Loss::none) {
    tell_peer();
    hear_peer();
  }
  if (!fault_) {
    recover();
    replay();
    post_fence();
  }
  const bool unfenced = loss_ == Loss::none && last_write_ > fence_;
  const bool takes_over = loss_ != Loss::none && (loss_ == Loss::severed || !peer_knows_ ||
                                                  recovered_ < lost_end_ || !lane_ready_);
  const bool waits = !fault_ && (unfenced || takes_over);
  if (waits == waits_) return;
  waits_ = waits;
  parts_.transport->waiting_ += waits ? 1 : -1;
}

// One at a time: it stands for all writes before it.
void RailedConnection::post_fence() noexcept {
  if (loss_ != Loss::none || last_write_ <= fence_ || parts_.second->completed() < fence_) return;
  const RemoteAddress word = as_of(Rail::second, parts_.peer_notice);
  if (parts_.second->read({parts_.notice + 2 * word_bytes, word_bytes}, {}, word) != Post::posted)
    return;
  fence_before_ = fence_;
  fence_ = ++posted_on(Rail::second);
}

// The word stays where it is posted from: it may be too long to leave inline.
void RailedConnection::tell_peer() noexcept {
  if (peer_knows_ || (down_ == Rail::first && !taken_)) return;
  std::byte* const word = parts_.notice + word_bytes;
  reinterpret_cast<NoticeWord*>(word)->write({.severed = down_, .taken = taken_.value_or(0)});
  const Write write{.head = {word, word_bytes}, .target = parts_.peer_notice};
  peer_knows_ = post_raw(other(down_), write, {}) == Post::posted;
}

void RailedConnection::hear_peer() noexcept {
  if (loss_ != Loss::severed) return;
  const auto notice = peer_notice();
  if (!notice || notice->severed != down_) return;
  if (down_ == Rail::first) {
    const std::uint64_t lost = (next_message_ - notice->taken) & RailNotice::taken_mask;
    if (lost > std::min<std::uint64_t>(next_message_, messages_.size()))
      return end_for_want_of("it has taken more messages than there were");
    next_replayed_ = next_message_ - lost;
  }
  loss_ = Loss::agreed;
  parts_.transport->log_.warning("peer {}: {} is down, the other device carries on alone: {}",
                                 parts_.peer, name_of(down_), why_down_);
  recovered_ = completed();
  lost_end_ = next_told_;
}

// What had completed is posted again with the rest where something before it had not: nobody has
// been told of it.
void RailedConnection::recover() noexcept {
  for (; recovered_ < lost_end_; ++recovered_) {
    Told& lost = told_[recovered_ % told_max];
    if (lost.rail != down_ || is_done(lost)) continue;
    const Rail up = other(down_);
    if (!may_go_on(up, lost.write, lost.into))
      return end_for_want_of("what it cannot reach was under way");
    if (post_raw(up, lost.write, lost.into) != Post::posted) return;
    lost.rail = up;
    lost.number = ++posted_on(up);
  }
}

// New messages wait until the device has read these: they lie where the peer is done with old ones.
void RailedConnection::replay() noexcept {
  if (lane_ready_ || loss_ != Loss::agreed) return;
  for (; next_replayed_ < next_message_; ++next_replayed_) {
    const Message& message = messages_[next_replayed_ % messages_.size()];
    std::array<Write, chain_max> chain;
    for (std::size_t i = 0; i < chain_max; ++i) {
      const Mirrored& mirrored = message.chain[i];
      chain[i] = {.head = parts_.mirror.subspan(mirrored.offset, mirrored.bytes),
                  .target = as_of(Rail::second, parts_.places + mirrored.offset),
                  .flag_offset = mirrored.flag_offset,
                  .flag_bytes = mirrored.flag_bytes,
                  .immediate = mirrored.immediate,
                  .tell = i + 1 == message.writes};
    }
    if (parts_.second->post({chain.data(), message.writes}) != Post::posted) return;
    replay_end_ = ++posted_on(Rail::second);
  }
  lane_ready_ = parts_.second->completed() >= replay_end_;
}

}  // namespace qpmesh::transport

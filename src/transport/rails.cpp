#include "transport/rails.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <new>
#include <utility>

#include "base/atomics.hpp"
#include "base/errors.hpp"

namespace qpmesh::transport {
namespace {

// "severed!". No byte of it is zero: one that has come in part is another word.
constexpr std::uint64_t severed_word = 0x2164'6572'6576'6573;
constexpr std::size_t word_bytes = sizeof severed_word;

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
    base::throw_error({.code = ErrorCode::no_resource, .system_error = errno}, "init",
                      "raise the limit of open files (ulimit -n)",
                      "no descriptor wakes for two devices");
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

void RailedTransport::deregister_memory(std::uint32_t region) noexcept {
  if (const std::uint32_t second = second_of(region); second != 0) {
    second_->deregister_memory(second);
    std::erase_if(regions_, [=](const Region& each) { return each.first == region; });
  }
  first_->deregister_memory(region);
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
      posted_{parts_.first->completed(), parts_.second->completed()} {
  const Capabilities& second = parts_.second->capabilities();
  capabilities_.rails = 2;
  capabilities_.write_bytes_max =
      std::min({capabilities_.write_bytes_max, second.write_bytes_max, piece_bytes_max});
  parts_.transport->connections_.push_back(this);
}

RailedConnection::~RailedConnection() {
  if (waits_) --parts_.transport->waiting_;
  std::erase(parts_.transport->connections_, this);
}

Post RailedConnection::post(std::span<const Write> chain) noexcept {
  const auto tells =
      static_cast<std::size_t>(std::ranges::count_if(chain, [](const Write& w) { return w.tell; }));
  if (!has_room(tells)) return Post::busy;
  if (chain.size() == 1 && chain.front().unordered) return post_anywhere(chain.front(), {});
  const Post result = parts_.first->post(chain);
  if (result != Post::posted) return result;
  for (const Write& write : chain) {
    if (write.tell) note(Rail::first, write, {});
  }
  return result;
}

Post RailedConnection::read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
                            RemoteAddress source) noexcept {
  if (!has_room(1)) return Post::busy;
  return post_anywhere({.source_region = target_region, .target = source, .tell = true}, target);
}

// By the rail with less under way, or by the other one where that is full.
Post RailedConnection::post_anywhere(const Write& write, std::span<std::byte> into) noexcept {
  assert(write.tell && !write.immediate);
  const auto under_way = [&](Rail rail) {
    return posted_[static_cast<std::size_t>(rail)] - on(rail).completed();
  };
  const auto on_first = under_way(Rail::first);
  const auto on_second = under_way(Rail::second);
  const bool second_first = on_second < on_first || (on_second == on_first && next_told_ % 2 != 0);
  const bool second = may_go_on_second(write, into);
  if (second && second_first && post_on(Rail::second, write, into) == Post::posted)
    return Post::posted;
  const Post result = post_on(Rail::first, write, into);
  if (second && !second_first && result == Post::busy &&
      post_on(Rail::second, write, into) == Post::posted)
    return Post::posted;
  return result;
}

bool RailedConnection::may_go_on_second(const Write& write,
                                        std::span<std::byte> into) const noexcept {
  if (second_ != Second::up || write.target.second_region == 0) return false;
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

Post RailedConnection::post_on(Rail rail, Write write, std::span<std::byte> into) noexcept {
  Write here = write;
  if (rail == Rail::second) {
    here.target.region = write.target.second_region;
    if (write.source_region) here.source_region = parts_.transport->second_of(*write.source_region);
  }
  const Post result = into.empty() ? on(rail).post({&here, 1})
                                   : on(rail).read(into, here.source_region, here.target);
  if (result == Post::posted) note(rail, write, into);
  return result;
}

void RailedConnection::note(Rail rail, const Write& write, std::span<std::byte> into) noexcept {
  told_[next_told_++ % told_max] = {.rail = rail,
                                    .number = ++posted_[static_cast<std::size_t>(rail)],
                                    .write = write,
                                    .into = into};
  if (rail == Rail::first || !into.empty()) return;
  last_write_ = posted_.back();
  go_on();
}

std::uint64_t RailedConnection::completed() const noexcept {
  while (first_told_ < next_told_ && is_done(told_[first_told_ % told_max])) ++first_told_;
  return first_told_;
}

void RailedConnection::tear_down() noexcept {
  parts_.first->tear_down();
  parts_.second->tear_down();
}

void RailedConnection::look() noexcept {
  if (fault() != nullptr) return;
  const bool peer_severed = base::ProcessAtomics::load_acquire(
                                base::word_at<std::uint64_t>(parts_.notice)) == severed_word;
  if (second_ == Second::up) {
    const ErrorDetail* const fault = parts_.second->fault();
    if (fault == nullptr && !peer_severed) return;
    try {
      why_severed_ = fault != nullptr ? fault->cause : "the peer has given it up";
    } catch (const std::bad_alloc&) {}
    parts_.second->tear_down();
    second_ = Second::severed;
  }
  if (!peer_knows_) tell_peer();
  if (second_ != Second::severed || !peer_severed) return;
  second_ = Second::lost;
  parts_.transport->log_.warning("peer {}: {} is down, the other device carries on alone: {}",
                                 parts_.peer, parts_.second_name, why_severed_);
  recovered_ = completed();
  lost_end_ = next_told_;
  go_on();
}

void RailedConnection::go_on() noexcept {
  recover();
  post_fence();
  const bool unfenced = second_ == Second::up && last_write_ > fence_;
  const bool waits = recovered_ < lost_end_ || unfenced;
  if (waits == waits_) return;
  waits_ = waits;
  parts_.transport->waiting_ += waits ? 1 : -1;
}

// One at a time: it stands for all writes before it.
void RailedConnection::post_fence() noexcept {
  if (second_ != Second::up || last_write_ <= fence_ || parts_.second->completed() < fence_) return;
  const RemoteAddress word{parts_.peer_notice.second_region, parts_.peer_notice.offset};
  if (parts_.second->read({parts_.notice + 2 * word_bytes, word_bytes}, {}, word) != Post::posted)
    return;
  fence_before_ = fence_;
  fence_ = ++posted_.back();
}

// The word stays where it is posted from: it may be too long to leave inline.
void RailedConnection::tell_peer() noexcept {
  std::byte* const word = parts_.notice + word_bytes;
  *base::word_at<std::uint64_t>(word) = severed_word;
  const Write write{.head = {word, sizeof severed_word}, .target = parts_.peer_notice};
  peer_knows_ = parts_.first->post({&write, 1}) == Post::posted;
}

// What had completed on the second rail is posted again with the rest where something before it had
// not: nobody has been told of it.
void RailedConnection::recover() noexcept {
  for (; recovered_ < lost_end_; ++recovered_) {
    Told& lost = told_[recovered_ % told_max];
    if (lost.rail == Rail::first || is_done(lost)) continue;
    const Post result = lost.into.empty() ? parts_.first->post({&lost.write, 1})
                                          : parts_.first->read(lost.into, lost.write.source_region,
                                                               lost.write.target);
    if (result != Post::posted) return;
    lost.rail = Rail::first;
    lost.number = ++posted_.front();
  }
}

}  // namespace qpmesh::transport

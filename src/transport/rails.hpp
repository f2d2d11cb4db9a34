// SPDX-License-Identifier: MIT
// Two connections to one peer used as one: over two devices of a host, or two ports.
//
// One rail is the lane: all writes but unordered ones go there, in order. It is the first one, as
// long as that works. Unordered writes and reads go on whichever rail has less under way. A peer
// without a second rail is joined by the first connection alone.
//
// Beside the lane a write counts as complete when a read posted behind it has come back. Its own
// completion says that the peer's device has acknowledged it: the bytes may still be on their way
// into the memory, and a record that another device writes may be there before them. A read is
// answered out of the memory.
//
// When a rail fails, or its other end, the other one carries on alone and nothing is lost. An end
// whose rail is down severs it, so that nothing of the peer lands through it any more: a packet
// that is late meets nothing. Then it says so by a word that it writes on the other rail. An end
// that has said it and read it posts again on the other rail
//   - unordered writes and reads that had not completed: their targets are still open, because the
//     peer has not been told of them;
//   - if it was the lane, the messages that the peer has not taken. Only the peer's messaging knows
//     which those are (Connection::asks_taken): the word says how many it has taken. For that every
//     message of the lane is copied, when it is posted, into a mirror of what we write at the peer.
//     Its bytes stay there as long as the peer's ring keeps theirs: until it has returned the
//     credit, and so has taken it. The lane is the other rail from then on.
// A rail that is left behind does not come back, and the failure of the other one is the end.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
#include "transport/rail_notice.hpp"
#include "transport/transport.hpp"

namespace qpmesh::transport {

class RailedConnection;

// Of two transports whose addresses count from the same byte. Memory is registered with both; where
// the second cannot, it is reached by the first alone.
class RailedTransport final : public Transport {
 public:
  // Throws Error{no_resource}.
  RailedTransport(const base::System& system, const base::Log& log,
                  std::unique_ptr<Transport> first, std::unique_ptr<Transport> second);

  RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind kind) override;
  bool deregister_memory(std::uint32_t region) noexcept override;
  std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept override;
  void progress() noexcept override;
  int wake_descriptor() const noexcept override { return wake_.get(); }
  std::chrono::microseconds request_notification() noexcept override;
  void end_notification() noexcept override;
  void poll_async_events() noexcept override;

 private:
  friend class RailedConnection;
  struct Region {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };
  // The region by which the second rail reaches what the first one does by this; 0: it does not.
  std::uint32_t second_of(std::uint32_t region) const noexcept;

  base::Log log_;
  std::unique_ptr<Transport> first_;
  std::unique_ptr<Transport> second_;
  base::UniqueFd wake_;
  std::vector<Region> regions_;
  std::vector<RailedConnection*> connections_;
  int waiting_ = 0;      // connections that have something to post by themselves
  bool warned_ = false;  // that the second registers no more
};

class RailedConnection final : public Connection {
 public:
  // Of a piece: both rails share in a message of twice as many bytes.
  static constexpr std::size_t piece_bytes_max = std::size_t{128} << 10;
  static constexpr std::size_t chain_max = 2;  // of ordered writes

  struct Parts {
    RailedTransport* transport = nullptr;
    int peer = -1;
    std::unique_ptr<Connection> first;  // of the transport's, too
    std::unique_ptr<Connection> second;
    std::array<std::string, 2> names;  // for the log: "rxe1 port 1"
    std::byte* notice = nullptr;       // ours
    RemoteAddress peer_notice;
    // Of all places that messages are written to, from `places` on. Lasting memory of ours.
    std::span<std::byte> mirror;
    RemoteAddress places;
    std::size_t messages_max = 0;  // that may be posted and not taken
  };
  explicit RailedConnection(Parts parts);
  ~RailedConnection() override;
  RailedConnection(const RailedConnection&) = delete;
  RailedConnection& operator=(const RailedConnection&) = delete;

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Post post(std::span<const Write> chain) noexcept override;
  Post read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
            RemoteAddress source) noexcept override;
  std::uint64_t completed() const noexcept override;
  bool delivered() noexcept override;
  // What the lane had brought when it failed stays there until it is told what was taken; what is
  // not taken then comes again.
  std::optional<std::uint32_t> poll_immediate() noexcept override {
    return on(taken_ ? Rail::second : Rail::first).poll_immediate();
  }
  const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept override {
    return on(lane()).load(as_of(lane(), source), bytes);
  }
  bool asks_taken() const noexcept override { return lane() == Rail::second && !taken_ && !fault_; }
  void tell_taken(std::uint32_t messages) noexcept override;
  void tear_down() noexcept override;
  const ErrorDetail* fault() const noexcept override { return fault_ ? &*fault_ : nullptr; }

  // Now and then: is a rail down, here or at the peer?
  void look() noexcept;
  // What can be done of what the failure of a rail has left to do, and the read behind what the
  // second one carries.
  void go_on() noexcept;

 private:
  static constexpr Rail other(Rail rail) noexcept {
    return rail == Rail::first ? Rail::second : Rail::first;
  }
  enum class Loss : std::uint8_t {
    none,     // both rails are up
    severed,  // ours is; what it had under way waits for the peer's word
    agreed,   // the peer's, too: what it had under way is posted on the other one
  };
  // The first word is the peer's, the second ours.
  using NoticeWord = RailNoticeWord<base::ProcessAtomics>;
  std::optional<RailNotice> peer_notice() const noexcept {
    return reinterpret_cast<const NoticeWord*>(parts_.notice)->read();
  }
  // A write that tells, or a read, that was posted.
  struct Told {
    Rail rail = Rail::first;
    bool ordered = false;
    std::uint64_t number = 0;     // as its rail counts in completed()
    Write write{};                // of a read: target is its source, source_region its target's
    std::span<std::byte> into{};  // of a read
  };
  static constexpr std::size_t told_max = 128;  // not known to be complete, in the order of posting
  // A write of a message, whose bytes lie in the mirror.
  struct Mirrored {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t flag_offset = Write::no_flag;
    std::uint32_t flag_bytes = 0;
    std::optional<std::uint32_t> immediate;
  };
  struct Message {
    std::size_t writes = 0;
    std::array<Mirrored, chain_max> chain{};
  };

  Connection& on(Rail rail) const noexcept {
    return rail == Rail::first ? *parts_.first : *parts_.second;
  }
  std::uint64_t& posted_on(Rail rail) noexcept { return posted_[static_cast<std::size_t>(rail)]; }
  const std::string& name_of(Rail rail) const noexcept {
    return parts_.names[static_cast<std::size_t>(rail)];
  }
  static RemoteAddress as_of(Rail rail, RemoteAddress address) noexcept {
    if (rail == Rail::second) address.region = address.second_region;
    return address;
  }
  // Where ordered writes go: on the first rail until that is severed.
  Rail lane() const noexcept {
    return loss_ != Loss::none && down_ == Rail::first ? Rail::second : Rail::first;
  }
  bool is_done(const Told& told) const noexcept {
    // The bytes of an ordered write are in the mirror, and nobody reads its sources any more.
    if (told.ordered && loss_ != Loss::none && told.rail == down_) return true;
    const bool fenced = told.rail != lane() && told.rail == Rail::second && told.into.empty();
    return told.number <= (fenced ? fenced_until() : on(told.rail).completed());
  }
  std::uint64_t fenced_until() const noexcept {
    return parts_.second->completed() >= fence_ ? fence_ : fence_before_;
  }
  bool has_room(std::size_t more) const noexcept {
    return next_told_ - completed() + more <= told_max;
  }
  bool may_go_on(Rail rail, const Write& write, std::span<std::byte> into) const noexcept;
  // A write, or where into is not empty a read, as that rail names memory.
  Post post_raw(Rail rail, const Write& write, std::span<std::byte> into) noexcept;
  Post post_in_lane(std::span<const Write> chain) noexcept;
  // An unordered write, or where into is not empty a read.
  Post post_on(Rail rail, const Write& write, std::span<std::byte> into) noexcept;
  Post post_anywhere(const Write& write, std::span<std::byte> into) noexcept;
  Post after_failure() noexcept;
  void note(Rail rail, const Write& write, std::span<std::byte> into) noexcept;
  void remember(std::span<const Write> chain) noexcept;
  void sever(Rail rail, std::string_view why) noexcept;
  void end(std::string_view why_first, std::string_view why_second) noexcept;
  void end_for_want_of(std::string_view what) noexcept;
  void tell_peer() noexcept;
  void hear_peer() noexcept;
  void recover() noexcept;
  void replay() noexcept;
  void post_fence() noexcept;

  Parts parts_;
  Capabilities capabilities_;
  std::optional<ErrorDetail> fault_;
  // Of the rail that has failed, if one has.
  Loss loss_ = Loss::none;
  Rail down_ = Rail::second;
  bool peer_knows_ = false;  // that ours is severed
  std::string why_down_;
  std::optional<std::uint32_t> taken_;     // by messaging, of the lane that is down
  std::array<std::uint64_t, 2> posted_{};  // of each rail, as it counts in completed()
  // Of the second rail: its last write, the last read behind writes, and the one before that, which
  // has come back.
  std::uint64_t last_write_ = 0;
  std::uint64_t fence_ = 0;
  std::uint64_t fence_before_ = 0;
  bool waits_ = false;  // counted in the transport
  std::uint64_t next_told_ = 0;
  // Where the loss is agreed: those between may have to be posted again.
  std::uint64_t recovered_ = 0;
  std::uint64_t lost_end_ = 0;
  // Before it all have completed: found when somebody asks.
  mutable std::uint64_t first_told_ = 0;
  std::array<Told, told_max> told_{};
  std::vector<Message> messages_;  // by number, the last ones
  std::uint64_t next_message_ = 0;
  // Where the first rail is lost: before it all are posted again; and the last completion of these.
  std::uint64_t next_replayed_ = 0;
  std::uint64_t replay_end_ = 0;
  bool lane_ready_ = true;
};

}  // namespace qpmesh::transport

// Two connections to one peer used as one: over two devices of a host, or two ports.
//
// The first rail is the lane: all writes but unordered ones go there, in order. Unordered writes
// and reads go on whichever rail has less under way. A peer without a second rail is joined by the
// first connection alone.
//
// A write on the second rail counts as complete when a read posted behind it has come back. Its own
// completion says that the peer's device has acknowledged it: the bytes may still be on their way
// into the memory, and a record that another device writes may be there before them. A read is
// answered out of the memory.
//
// When the second rail fails, or its other end, the first carries on alone and nothing is lost: an
// end whose rail is down severs it, so that nothing of the peer lands through it any more, and says
// so by a word that it writes on the first rail. When both have said it, what had not completed is
// posted again on the first. Its target is still open: the peer has not been told of it. A packet
// of the dead rail that is late meets nothing. A first rail that fails is the end of both.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/system.hpp"
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
  void deregister_memory(std::uint32_t region) noexcept override;
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
  // What either end keeps for the other in memory that it has registered: three words of zeroes.
  // The peer writes the first one, the second is what we write there, reads fill the third.
  // Aligned.
  static constexpr std::size_t notice_bytes = 24;
  // Of a piece: both rails share in a message of twice as many bytes.
  static constexpr std::size_t piece_bytes_max = std::size_t{128} << 10;

  struct Parts {
    RailedTransport* transport = nullptr;
    int peer = -1;
    std::unique_ptr<Connection> first;  // of the transport's, too
    std::unique_ptr<Connection> second;
    std::string second_name;      // for the log: "rxe1 port 1"
    std::byte* notice = nullptr;  // ours
    RemoteAddress peer_notice;
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
  // What goes on the second rail is known to be complete before anybody is told of it.
  bool delivered() noexcept override { return parts_.first->delivered(); }
  std::optional<std::uint32_t> poll_immediate() noexcept override {
    return parts_.first->poll_immediate();
  }
  std::byte* map(RemoteAddress target, std::size_t bytes) noexcept override {
    return parts_.first->map(target, bytes);
  }
  Post publish(std::byte* flag, std::uint32_t value) noexcept override {
    return parts_.first->publish(flag, value);
  }
  const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept override {
    return parts_.first->load(source, bytes);
  }
  void tear_down() noexcept override;
  const ErrorDetail* fault() const noexcept override { return parts_.first->fault(); }

  // Now and then: is the second rail down, here or at the peer?
  void look() noexcept;
  // Posts again what the second rail has lost, and the read behind what it carries.
  void go_on() noexcept;

 private:
  enum class Rail : std::uint8_t { first, second };
  enum class Second : std::uint8_t {
    up,
    severed,  // ours; what it had under way waits for the peer's word
    lost,     // the peer's, too: what it had under way is posted on the first
  };
  // A write that tells, or a read, that was posted.
  struct Told {
    Rail rail = Rail::first;
    std::uint64_t number = 0;     // as its rail counts in completed()
    Write write{};                // of a read: target is its source, source_region its target's
    std::span<std::byte> into{};  // of a read
  };
  static constexpr std::size_t told_max = 128;  // not known to be complete, in the order of posting

  Connection& on(Rail rail) const noexcept {
    return rail == Rail::first ? *parts_.first : *parts_.second;
  }
  bool is_done(const Told& told) const noexcept {
    const bool fenced = told.rail == Rail::second && told.into.empty();
    return told.number <= (fenced ? fenced_until() : on(told.rail).completed());
  }
  std::uint64_t fenced_until() const noexcept {
    return parts_.second->completed() >= fence_ ? fence_ : fence_before_;
  }
  bool has_room(std::size_t more) const noexcept {
    return next_told_ - completed() + more <= told_max;
  }
  bool may_go_on_second(const Write& write, std::span<std::byte> into) const noexcept;
  // An unordered write, or where into is not empty a read.
  Post post_on(Rail rail, Write write, std::span<std::byte> into) noexcept;
  Post post_anywhere(const Write& write, std::span<std::byte> into) noexcept;
  void note(Rail rail, const Write& write, std::span<std::byte> into) noexcept;
  void tell_peer() noexcept;
  void recover() noexcept;
  void post_fence() noexcept;

  Parts parts_;
  Capabilities capabilities_;
  Second second_ = Second::up;
  bool peer_knows_ = false;  // that ours is severed
  std::string why_severed_;
  std::array<std::uint64_t, 2> posted_{};  // of each rail, as it counts in completed()
  // Of the second rail: its last write, the last read behind writes, and the one before that, which
  // has come back.
  std::uint64_t last_write_ = 0;
  std::uint64_t fence_ = 0;
  std::uint64_t fence_before_ = 0;
  bool waits_ = false;  // counted in the transport
  std::uint64_t next_told_ = 0;
  // Where the second is lost: those between may have to be posted again.
  std::uint64_t recovered_ = 0;
  std::uint64_t lost_end_ = 0;
  // Before it all have completed: found when somebody asks.
  mutable std::uint64_t first_told_ = 0;
  std::array<Told, told_max> told_{};
};

}  // namespace qpmesh::transport

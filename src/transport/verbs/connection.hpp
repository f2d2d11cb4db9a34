// SPDX-License-Identifier: MIT
// Data path of a reliable-connected queue pair: RDMA writes into memory that the peer registered,
// and reads from it.
//
// Nothing here allocates or locks; what a post costs is the provider's affair (rxe: one system
// call). Bytes that fit are inline. Others the device reads until they complete, perhaps twice.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/diagnosis/statuses.hpp"
#include "transport/verbs/handles.hpp"

namespace qpmesh::transport::verbs {

// Work requests of one queue pair that may be posted and not yet known to be complete.
inline constexpr std::uint32_t send_depth = 64;
// Every so many writes one asks for a completion, so that the send queue is known to drain.
inline constexpr std::uint32_t signal_every = send_depth / 4;
static_assert(signal_every * 2 <= send_depth);

// Only writes with an immediate take a receive request. A queue pair has as many posted as there
// may be such writes of its peer under way, by its credits: none where both ends look for records
// in memory. They go back in batches of so many, because a post costs more than a request; and so
// many less one are posted besides, for those that are not back when credits return. An empty queue
// is met only by a peer that breaks the protocol. Its device is refused (RNR NAK), asks again
// rnr_retry times and then fails the link at its end; our memory is not at stake.
inline constexpr std::uint32_t repost_batch = 16;
inline constexpr std::uint32_t receives_not_back_max = repost_batch - 1;

class VerbsTransport;

// What a work request's 64 bits of identity hold.
struct WorkId {
  std::uint32_t connection = 0;  // of the transport, 16 bits
  std::uint64_t number = 0;      // of the write or read in its connection, 46 bits
  bool tell = false;
  bool read = false;
};
constexpr std::uint64_t encode(WorkId id) noexcept {
  return std::uint64_t{id.connection} << 48 | (id.number & 0x3fff'ffff'ffffU) << 2 |
         std::uint64_t{id.read} << 1 | std::uint64_t{id.tell};
}
constexpr WorkId decode_work_id(std::uint64_t word) noexcept {
  return {static_cast<std::uint32_t>(word >> 48), word >> 2 & 0x3fff'ffff'ffffU, (word & 1) != 0,
          (word & 2) != 0};
}

class VerbsConnection final : public Connection {
 public:
  struct Parts {
    VerbsTransport* transport = nullptr;
    int peer = -1;
    std::uint32_t index = 0;  // of the connection in its transport
    QueuePair queue_pair;     // none: it is made when the connection is first used
    Capabilities capabilities;
    diagnosis::LinkDescription link;
    std::uint32_t receives = 0;  // receive requests, as said above
  };
  // Where there is a queue pair its receives are posted, and nothing is posted before it is in RTS.
  // Throws Error{no_resource}.
  explicit VerbsConnection(Parts parts);
  ~VerbsConnection() override;
  VerbsConnection(const VerbsConnection&) = delete;
  VerbsConnection& operator=(const VerbsConnection&) = delete;

  const Capabilities& capabilities() const noexcept override { return parts_.capabilities; }
  Post post(std::span<const Write> chain) noexcept override;
  Post read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
            RemoteAddress source) noexcept override;
  std::uint64_t completed() const noexcept override { return told_; }
  bool delivered() noexcept override;
  std::optional<std::uint32_t> poll_immediate() noexcept override;
  const std::byte* load(RemoteAddress, std::size_t) noexcept override { return nullptr; }
  void tear_down() noexcept override;
  const ErrorDetail* fault() const noexcept override { return failed_ ? &fault_ : nullptr; }
  const ErrorDetail* doubt() const noexcept override;

  const diagnosis::LinkDescription& link() const noexcept { return parts_.link; }
  ibv_qp* queue_pair() const noexcept { return parts_.queue_pair.get(); }
  int peer() const noexcept { return parts_.peer; }

  // Of one that is made when it is first used. Here is its queue pair, in RTS: the peer may write
  // from here on. Posts the receives. Throws Error{no_resource}.
  void join(QueuePair queue_pair, diagnosis::LinkDescription link);
  // The peer has joined, too: from here on it posts.
  void open() noexcept { may_post_ = !failed_; }
  // It cannot be made. The first cause stays.
  void give_up(const ErrorDetail& why) noexcept;

  // The first requests: a marker, then a write of the longest packet into memory of the peer that
  // nobody uses, and a marker. Only packets show a firewall, a wrong route or an MTU that the path
  // does not carry: where the first comes back and the second does not, the fault says so. Over
  // iWARP, where TCP finds out what the path carries, the first marker is left out.
  // marker_target: memory of ours that nobody uses, and the peer may probe with.
  void probe(std::span<const std::byte> longest, RemoteAddress into,
             std::span<std::byte> marker_target) noexcept;
  bool is_probed() const noexcept { return probes_ && retired_ >= probe_end_; }

  // From the transport's completion queues.
  void on_sent(const ibv_wc& completion) noexcept;
  void on_arrival(const ibv_wc& completion) noexcept;
  diagnosis::Explanation on_link(std::string_view what) const;
  // The first cause stays. explain() returns the Explanation, and may find no memory.
  template <class Explain>
  void fail(Explain&& explain, int system_error = 0) noexcept;
  // Now and then, after the completion queue was emptied: counts how long the peer's device owes an
  // answer, gives up where our device never does, and asks on an idle link.
  void watch(std::chrono::milliseconds passed) noexcept;

 private:
  static constexpr std::uint64_t short_probe_end = 1;  // of probe(): the first marker
  static constexpr std::size_t marker_bytes = 8;

  void listen();
  Post refuse() noexcept;
  Post hand_over(std::size_t count, std::uint64_t signalled, bool is_acknowledged) noexcept;
  // Writes wait until it has completed, so that completions come in the order of the requests: siw
  // completes a write that was posted behind a read before that. IBV_SEND_FENCE does not help: two
  // ends that both wait behind it answer each other's reads no more (siw_init_rresp).
  bool awaits_read() const noexcept { return is_iwarp_ && last_read_ > retired_; }
  bool has_room() const noexcept { return posted_ - retired_ < send_depth; }
  // Asks whether the peer's device is there, and has all that was posted.
  void post_marker() noexcept;
  Post post_read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
                 RemoteAddress source, bool tell) noexcept;
  // A port of ours that is down is nearer to the cause than what the queue pair shows of it.
  diagnosis::Explanation with_port(diagnosis::Explanation symptom) const;
  int post_receives(std::uint32_t count) noexcept;  // 0, or the errno
  bool awaits_completion() const noexcept { return signalled_ > retired_; }
  bool short_probe_alone() const noexcept {
    return probes_ && !is_iwarp_ && retired_ == short_probe_end;
  }

  Parts parts_;
  QueuePair torn_down_;  // in RESET; parts_ has none then
  // Reused by every post: the largest chain, each write in at most two pieces.
  std::vector<ibv_send_wr> requests_;
  std::vector<ibv_sge> pieces_;
  std::uint64_t posted_ = 0;     // writes and reads, cumulative
  std::uint64_t signalled_ = 0;  // up to which of them a completion was asked for
  std::uint64_t retired_ = 0;    // up to which of them the device has done with our memory
  // Up to which of them the peer's device is to acknowledge, or has; and up to which it has. A
  // completed write of iWARP says that our memory may be written again, and nothing of the peer; a
  // read does, whose bytes are loaded behind all earlier writes (RFC 5040, section 5.5).
  std::uint64_t to_acknowledge_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t last_read_ = 0;  // the number of the newest read
  std::uint64_t probe_end_ = 0;  // and of the last request of probe()
  RemoteAddress marker_source_;  // of iWARP, whose markers are reads
  std::span<std::byte> marker_target_;
  std::uint64_t told_ = 0;
  std::uint64_t acknowledged_at_last_watch_ = 0;
  // Since the peer's device last answered, or since it was asked.
  std::chrono::milliseconds silence_{0};
  // Immediates that arrived and were not taken: there is room for those of all receives.
  std::vector<std::uint32_t> arrivals_;
  std::uint64_t arrived_ = 0;  // cumulative
  std::uint64_t taken_ = 0;    // cumulative
  std::uint64_t reposted_ = 0;
  bool may_post_ = false;  // open, and not failed
  bool is_iwarp_ = false;
  bool asked_ = false;   // for its queue pair
  bool probes_ = false;  // its first writes are those of probe()
  bool failed_ = false;
  ErrorDetail fault_;
};

// Responder and requester both stop: no write of the peer lands here any more.
template <class Explain>
void VerbsConnection::fail(Explain&& explain, int system_error) noexcept {
  if (failed_) return;
  failed_ = true;
  may_post_ = false;
  fault_.system_error = system_error;
  try {
    diagnosis::Explanation explanation = with_port(explain());
    fault_.cause = std::move(explanation.cause);
    fault_.hint = std::move(explanation.hint);
  } catch (const std::bad_alloc&) {
    fault_.cause = base::no_memory;
  }
  if (!parts_.queue_pair) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(parts_.queue_pair.get(), &attributes, IBV_QP_STATE);
}

}  // namespace qpmesh::transport::verbs

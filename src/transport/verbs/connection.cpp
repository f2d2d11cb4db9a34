// SPDX-License-Identifier: MIT
#include "transport/verbs/connection.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "base/errors.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::transport::verbs {

VerbsConnection::VerbsConnection(Parts parts) : parts_{std::move(parts)} {
  fault_.code = ErrorCode::link_failed;
  fault_.peer = parts_.peer;
  if (!parts_.queue_pair) return;
  listen();
  open();
}

void VerbsConnection::join(QueuePair queue_pair, diagnosis::LinkDescription link) {
  if (failed_) return;
  parts_.queue_pair = std::move(queue_pair);
  parts_.link = std::move(link);
  listen();
}

void VerbsConnection::listen() {
  is_iwarp_ = parts_.link.local.endpoint.is_iwarp();
  requests_.resize(send_depth);
  pieces_.resize(2 * std::size_t{send_depth});
  arrivals_.resize(parts_.receives);
  if (const int error = post_receives(parts_.receives); error != 0) {
    base::throw_error({.code = ErrorCode::no_resource, .peer = parts_.peer, .system_error = error},
                      "connect", "", "{} receive requests could not be posted on {}",
                      parts_.receives, to_string(parts_.link));
  }
  parts_.transport->connections_[parts_.index] = this;
}

VerbsConnection::~VerbsConnection() {
  parts_.transport->forget(parts_.index);
  if (awaits_completion()) --parts_.transport->awaiting_;
}

// Where it cannot post now: it has failed, or nobody has asked for its queue pair yet, or its ends
// are being connected.
Post VerbsConnection::refuse() noexcept {
  if (!failed_ && !std::exchange(asked_, true)) parts_.transport->want(*this);
  return failed_ ? Post::failed : Post::busy;
}

// Who has not been connected yet has nothing under way that could be lost.
const ErrorDetail* VerbsConnection::doubt() const noexcept {
  return parts_.queue_pair ? parts_.transport->port_fault() : nullptr;
}

void VerbsConnection::give_up(const ErrorDetail& why) noexcept {
  fail([&] { return diagnosis::Explanation{.cause = why.cause, .hint = why.hint}; },
       why.system_error);
}

Post VerbsConnection::post(std::span<const Write> chain) noexcept {
  if (!may_post_) [[unlikely]]
    return refuse();
  assert(!chain.empty() && chain.size() <= send_depth);
  if (posted_ - retired_ + chain.size() > send_depth || awaits_read()) return Post::busy;
  ibv_sge* piece = pieces_.data();
  std::uint64_t signalled = signalled_;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Write& write = chain[i];
    const std::uint64_t number = posted_ + i + 1;
    const bool is_inline =
        write.head.size() + write.body.size() <= parts_.capabilities.inline_bytes_max;
    ibv_send_wr& request = requests_[i];
    request = {};
    request.sg_list = piece;
    for (const std::span<const std::byte> bytes : {write.head, write.body}) {
      if (bytes.empty()) continue;
      const auto key = is_inline ? std::optional{0U}
                                 : parts_.transport->regions_.local_key(bytes, write.source_region);
      assert(key);  // Capabilities::registered_sources
      *piece++ = {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()),
                  .length = static_cast<std::uint32_t>(bytes.size()),
                  .lkey = key.value_or(0)};
      ++request.num_sge;
    }
    const bool signal = write.tell || number - signalled >= signal_every;
    if (signal) signalled = number;
    request.wr_id = encode({.connection = parts_.index, .number = number, .tell = write.tell});
    request.send_flags =
        (signal ? unsigned{IBV_SEND_SIGNALED} : 0U) | (is_inline ? unsigned{IBV_SEND_INLINE} : 0U);
    request.opcode = write.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    request.imm_data = htonl(write.immediate.value_or(0));
    request.wr.rdma.remote_addr = write.target.offset;
    request.wr.rdma.rkey = write.target.region;
    request.next = i + 1 < chain.size() ? &requests_[i + 1] : nullptr;
  }
  return hand_over(chain.size(), signalled, !is_iwarp_);
}

Post VerbsConnection::read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
                           RemoteAddress source) noexcept {
  if (!may_post_) [[unlikely]]
    return refuse();
  if (!has_room()) return Post::busy;
  return post_read(target, target_region, source, true);
}

Post VerbsConnection::post_read(std::span<std::byte> target,
                                std::optional<std::uint32_t> target_region, RemoteAddress source,
                                bool tell) noexcept {
  const std::uint64_t number = posted_ + 1;
  const auto key = parts_.transport->regions_.local_key(target, target_region);
  assert(key);
  pieces_.front() = {.addr = reinterpret_cast<std::uintptr_t>(target.data()),
                     .length = static_cast<std::uint32_t>(target.size()),
                     .lkey = key.value_or(0)};
  ibv_send_wr& request = requests_.front();
  request = {};
  request.sg_list = pieces_.data();
  request.num_sge = 1;
  request.wr_id =
      encode({.connection = parts_.index, .number = number, .tell = tell, .read = true});
  request.send_flags = IBV_SEND_SIGNALED;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = source.offset;
  request.wr.rdma.rkey = source.region;
  const Post posted = hand_over(1, number, true);
  if (posted == Post::posted) last_read_ = number;
  return posted;
}

// Posts the first `count` of requests_; signalled: the last one that asks for a completion.
// is_acknowledged: the completion is the peer's acknowledgement.
Post VerbsConnection::hand_over(std::size_t count, std::uint64_t signalled,
                                bool is_acknowledged) noexcept {
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(parts_.queue_pair.get(), requests_.data(), &refused);
      error != 0) {
    // Room was counted, so this is a broken queue pair.
    fail([&] { return on_link("ibv_post_send failed"); }, error);
    return Post::failed;
  }
  posted_ += count;
  if (!awaits_completion() && signalled > retired_) {
    ++parts_.transport->awaiting_;
    silence_ = {};
  }
  signalled_ = signalled;
  if (is_acknowledged) to_acknowledge_ = signalled;
  return Post::posted;
}

void VerbsConnection::on_sent(const ibv_wc& completion) noexcept {
  if (!parts_.queue_pair) return;  // torn down: the queue still holds what it had completed
  const WorkId id = decode_work_id(completion.wr_id);
  const bool awaited = awaits_completion();
  const bool cut = completion.status == IBV_WC_RETRY_EXC_ERR && short_probe_alone();
  // Completions of one queue pair come in order (awaits_read), and cover what was posted before.
  assert(id.number > retired_);
  retired_ = id.number;
  if (id.read || !is_iwarp_) acknowledged_ = id.number;
  if (awaited && !awaits_completion()) --parts_.transport->awaiting_;
  if (completion.status == IBV_WC_SUCCESS) {
    if (id.tell) ++told_;
    return;
  }
  // A flush follows another error, which comes first or from the receive side.
  if (completion.status == IBV_WC_WR_FLUSH_ERR && failed_) return;
  fail([&] {
    diagnosis::Explanation what = describe(completion.status, completion.vendor_err,
                                           id.read ? "RDMA read" : "RDMA write", parts_.link);
    return cut ? describe_cut_path(parts_.link, std::move(what)) : what;
  });
}

void VerbsConnection::on_arrival(const ibv_wc& completion) noexcept {
  if (completion.status != IBV_WC_SUCCESS) {
    if (completion.status == IBV_WC_WR_FLUSH_ERR) return;
    return fail(
        [&] { return describe(completion.status, completion.vendor_err, "receive", parts_.link); });
  }
  assert(arrived_ - taken_ < arrivals_.size());
  arrivals_[arrived_++ % arrivals_.size()] = ntohl(completion.imm_data);
}

std::optional<std::uint32_t> VerbsConnection::poll_immediate() noexcept {
  if (taken_ == arrived_) return std::nullopt;
  const std::uint32_t immediate = arrivals_[taken_++ % arrivals_.size()];
  if (taken_ - reposted_ >= repost_batch && !failed_) {
    if (const int error = post_receives(static_cast<std::uint32_t>(taken_ - reposted_)); error != 0)
      fail([&] { return on_link("ibv_post_recv failed"); }, error);
    reposted_ = taken_;
  }
  return immediate;
}

int VerbsConnection::post_receives(std::uint32_t count) noexcept {
  std::array<ibv_recv_wr, repost_batch> requests{};
  while (count > 0) {
    const std::uint32_t batch = std::min(count, repost_batch);
    for (std::uint32_t i = 0; i < batch; ++i) {
      requests[i].wr_id = encode({.connection = parts_.index});
      requests[i].next = i + 1 < batch ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr* refused = nullptr;
    if (const int error = ibv_post_recv(parts_.queue_pair.get(), requests.data(), &refused);
        error != 0)
      return error;
    count -= batch;
  }
  return 0;
}

diagnosis::Explanation VerbsConnection::on_link(std::string_view what) const {
  return {.cause = fmt::format("{} on {}", what, to_string(parts_.link))};
}

diagnosis::Explanation VerbsConnection::with_port(diagnosis::Explanation symptom) const {
  parts_.transport->read_events();
  const ErrorDetail* const fault = doubt();
  if (fault == nullptr) return symptom;
  return {.cause = fmt::format("{}; {}", fault->cause, symptom.cause), .hint = fault->hint};
}

// An empty write: it names no memory, and completes when all before it has been acknowledged. Over
// iWARP, where a completed write says nothing of the peer, it is a read.
void VerbsConnection::post_marker() noexcept {
  if (!may_post_) return;
  if (is_iwarp_) {
    post_read(marker_target_, std::nullopt, marker_source_, false);
    return;
  }
  ibv_send_wr& request = requests_.front();
  request = {};
  request.wr_id = encode({.connection = parts_.index, .number = posted_ + 1});
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  hand_over(1, posted_ + 1, true);
}

void VerbsConnection::probe(std::span<const std::byte> longest, RemoteAddress into,
                            std::span<std::byte> marker_target) noexcept {
  const Write write{.head = {}, .body = longest, .target = into};
  probes_ = true;
  marker_source_ = into;
  marker_target_ = marker_target.first(marker_bytes);
  if (!is_iwarp_) post_marker();
  post({&write, 1});
  post_marker();
  probe_end_ = posted_;
}

// The last writes may have asked for no acknowledgement.
bool VerbsConnection::delivered() noexcept {
  if (failed_ || acknowledged_ == posted_) return true;
  if (to_acknowledge_ != posted_ && has_room()) post_marker();
  return false;
}

void VerbsConnection::watch(std::chrono::milliseconds passed) noexcept {
  if (!may_post_ || posted_ == 0) return;  // probe() comes first
  if (acknowledged_ != acknowledged_at_last_watch_) {
    acknowledged_at_last_watch_ = acknowledged_;
    silence_ = {};
    return;
  }
  silence_ += passed;
  const selection::Timers& timers = parts_.link.timers;
  const bool is_asked = to_acknowledge_ > acknowledged_;
  if (!is_asked && has_room()) {
    if (silence_.count() >= heartbeat_ms(timers)) post_marker();
  } else if (timers.silence_ms_max != 0 && silence_.count() >= timers.silence_ms_max) {
    fail([&] {
      diagnosis::Explanation what = describe_silence(
          fmt::format("RDMA requests were repeated for {} ms", silence_.count()), parts_.link);
      return short_probe_alone() ? describe_cut_path(parts_.link, std::move(what)) : what;
    });
  }
}

// A queue pair in RESET touches no memory any more, no target here and no source, as one that is
// destroyed (InfiniBand specification, volume 1, section 10.3.1). It is destroyed with the
// connection, which may take a minute: rxe waits for the packets that an interface keeps while it
// is down. Where a device does not reset it is destroyed here: so with iWARP, where some say that
// they have, and have not.
void VerbsConnection::tear_down() noexcept {
  fail([&] {
    diagnosis::Explanation what =
        on_link("torn down here, to give memory back that was open to the peer,");
    what.hint =
        "look at the error before this one: a long message to or from that rank was under way when "
        "its limit passed or an exception ended it";
    return what;
  });
  if (awaits_completion()) --parts_.transport->awaiting_;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  if (parts_.queue_pair && !is_iwarp_ &&
      ibv_modify_qp(parts_.queue_pair.get(), &attributes, IBV_QP_STATE) == 0)
    torn_down_ = std::move(parts_.queue_pair);
  parts_.queue_pair.reset();
  signalled_ = retired_ = to_acknowledge_ = acknowledged_ = posted_;
}

}  // namespace qpmesh::transport::verbs

#include "transport/verbs/self_test.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/log.hpp"
#include "qpmesh/error.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::transport::verbs {
namespace {

constexpr std::uint32_t records_max = 256;
constexpr std::int64_t time_max_ms = 100;
constexpr std::size_t record_words = 54;     // of four bytes: 216, the longest record
constexpr std::size_t payload_words = 1024;  // 4 KiB: one packet on most networks
constexpr std::int64_t link_timeout_ms = 100;

using Word = std::uint32_t;

struct Memory {
  alignas(128) std::array<Word, record_words> record{};
  alignas(128) std::array<Word, payload_words> payload{};
};

Word look(const Word& word) noexcept {
  return std::atomic_ref{const_cast<Word&>(word)}.load(std::memory_order_acquire);
}

template <std::size_t count>
bool all_are(const std::array<Word, count>& words, Word value) noexcept {
  return std::all_of(words.begin(), words.end(),
                     [=](const Word& word) { return look(word) == value; });
}

// Two queue pairs of a device, joined to each other.
class Loop {
 public:
  Loop(const base::System& system, const selection::Endpoint& endpoint)
      : transport_{system,
                   base::Log{base::LogLevel::off},  // these links are nobody's news
                   {.host = "self-test",
                    .port = {endpoint.device, endpoint.port},
                    .peers = 2,
                    .receives = 1,
                    .link_timeout_ms = link_timeout_ms,
                    .notifications = {Notification::poll, Notification::poll, "self-test"}}} {
    const PeerPaths paths{.peer_host = "self-test", .choices = {{endpoint, endpoint}}};
    const Blob sender = transport_.address_for(1, paths);
    const Blob receiver = transport_.address_for(0, paths);
    sender_ = transport_.connect(1, receiver);
    receiver_ = transport_.connect(0, sender);
    transport_.register_memory(std::as_bytes(std::span{&outgoing, 1}), RegionKind::lasting);
    target_ =
        transport_.register_memory(std::as_bytes(std::span{&incoming, 1}), RegionKind::lasting);
  }

  Memory outgoing;
  Memory incoming;

  bool vouched_in_order() const {
    auto* const queue_pair = static_cast<const VerbsConnection&>(*receiver_).queue_pair();
    return ibv_query_qp_data_in_order != nullptr &&
           ibv_query_qp_data_in_order(queue_pair, IBV_WR_RDMA_WRITE, 0) != 0;
  }
  // Payload, then the record, as a polled message travels. False: the link failed.
  bool send() {
    const auto payload = std::as_bytes(std::span{outgoing.payload});
    const auto record = std::as_bytes(std::span{outgoing.record});
    const std::array chain{
        Write{.body = payload, .target = at(offsetof(Memory, payload))},
        Write{.head = record, .target = at(offsetof(Memory, record)), .tell = true}};
    ++told_;
    return sender_->post(chain) == Post::posted;
  }
  bool done() {
    transport_.progress();
    return sender_->completed() == told_;
  }
  bool failed() const { return sender_->fault() != nullptr; }

 private:
  RemoteAddress at(std::size_t offset) const { return {target_.region, target_.offset + offset}; }

  VerbsTransport transport_;
  std::unique_ptr<Connection> sender_;
  std::unique_ptr<Connection> receiver_;
  RemoteAddress target_;
  std::uint64_t told_ = 0;
};

// Watches one record land. False: it did not come in time.
bool watch(Loop& loop, const base::System& system, Word value, Placement& seen, Deadline deadline) {
  const Memory& memory = loop.incoming;
  while (look(memory.record.front()) != value && look(memory.record.back()) != value) {
    if (loop.failed() || system.now() > deadline) return false;
    ::sched_yield();  // a software device needs the processor
  }
  const bool last_first = look(memory.record.back()) == value && !all_are(memory.record, value);
  seen.out_of_order += last_first ? 1U : 0U;
  bool whole = all_are(memory.record, value);
  seen.partial += whole ? 0U : 1U;
  while (!whole) {
    if (loop.failed() || system.now() > deadline) return false;
    whole = all_are(memory.record, value);
  }
  seen.overtaken += all_are(memory.payload, value) ? 0U : 1U;
  ++seen.records;
  return true;
}

}  // namespace

Placement test_placement(const base::System& system, const selection::Endpoint& endpoint) {
  Placement seen;
  try {
    const auto loop = std::make_unique<Loop>(system, endpoint);
    seen.vouched_in_order = loop->vouched_in_order();
    const Deadline deadline = base::after_ms(system, time_max_ms);
    for (Word value = 1; value <= records_max; ++value) {
      loop->outgoing.record.fill(value);
      loop->outgoing.payload.fill(value);
      if (!loop->send() || !watch(*loop, system, value, seen, deadline)) break;
      while (!loop->done() && !loop->failed() && system.now() <= deadline) ::sched_yield();
      if (!loop->done()) break;
    }
    if (seen.records == 0) seen.failure = "no record came back";
  } catch (const Error& error) {
    seen.failure = error.what();
  }
  return seen;
}

Blob encode(const Placement& seen) {
  base::ByteWriter out;
  out.put_fields(seen.records, seen.partial, seen.out_of_order, seen.overtaken,
                 seen.vouched_in_order);
  return std::move(out).blob();
}

Placement decode_placement(BlobView bytes, int rank) {
  base::ByteReader in{bytes};
  Placement seen;
  in.get_fields(seen.records, seen.partial, seen.out_of_order, seen.overtaken,
                seen.vouched_in_order);
  if (in.finished()) return seen;
  base::throw_error({ErrorCode::corrupt, rank}, "init", "",
                    "{} bytes do not say what the self-test of its device saw", bytes.size());
}

selection::Notifications judge_placement(selection::Notifications believed,
                                         const Placement& seen) noexcept {
  if (seen.overtaken > 0)
    believed = {Notification::immediate, Notification::immediate,
                "self-test: a record overtook its payload"};
  believed.bytes_in_order = seen.vouched_in_order && seen.records > 0 && seen.out_of_order == 0;
  return believed;
}

}  // namespace qpmesh::transport::verbs

// SPDX-License-Identifier: MIT
#include "transport/verbs/self_test.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/log.hpp"
#include "qpmesh/error.hpp"
#include "transport/verbs/connection.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::transport::verbs {
namespace {

// A device in hardware is done with all in a millisecond or two. All ranks wait, so a slow one is
// asked for less.
constexpr std::uint32_t records_max = 256;
constexpr std::uint32_t records_min = 16;
constexpr std::int64_t time_enough_ms = 2;
constexpr std::int64_t time_max_ms = 100;
constexpr std::size_t record_words = 54;     // of four bytes: 216, the longest record
constexpr std::size_t payload_words = 1024;  // 4 KiB: one packet on most networks
constexpr std::int64_t link_timeout_ms = 100;
constexpr std::size_t timed_records = 31;  // of each way
constexpr std::size_t timed_words = 16;    // 64 bytes: most records

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

// Two links of a device to itself: one whose receiver polls, one whose receiver gets immediates.
class Loop {
 public:
  Loop(const base::System& system, const selection::Endpoint& endpoint)
      : transport_{system,
                   base::Log{base::LogLevel::off},  // these links are nobody's news
                   {.host = "self-test",
                    .port = {endpoint.device, endpoint.port},
                    .peers = 4,
                    .immediates_max = [](const Capabilities&) -> std::uint32_t {
                      return timed_records + 1;
                    },
                    .link_timeout_ms = link_timeout_ms}} {
    transport_.rely_on(by(Notification::poll), by(Notification::immediate));
    polled_ = join(endpoint, 0, Notification::poll);
    immediate_ = join(endpoint, 2, Notification::immediate);
    transport_.register_memory(std::as_bytes(std::span{&outgoing, 1}), RegionKind::lasting);
    target_ =
        transport_.register_memory(std::as_bytes(std::span{&incoming, 1}), RegionKind::lasting);
  }

  Memory outgoing;
  Memory incoming;

  bool vouched_in_order() const {
    auto* const queue_pair = static_cast<const VerbsConnection&>(*polled_.receiver).queue_pair();
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
    ++polled_.told;
    return polled_.sender->post(chain) == Post::posted;
  }
  // A record alone. False: the link failed.
  bool send_short(Notification notification) {
    Link& link = of(notification);
    Write write{.head = std::as_bytes(std::span{outgoing.record}.first<timed_words>()),
                .target = at(offsetof(Memory, record)),
                .tell = true};
    if (notification == Notification::immediate) write.immediate = 1;
    ++link.told;
    return link.sender->post({&write, 1}) == Post::posted;
  }
  bool immediate_came() {
    transport_.progress();
    return immediate_.receiver->poll_immediate().has_value();
  }
  bool done() {
    transport_.progress();
    return polled_.is_done() && immediate_.is_done();
  }
  bool failed() const {
    return polled_.sender->fault() != nullptr || immediate_.sender->fault() != nullptr;
  }

 private:
  struct Link {
    std::unique_ptr<Connection> sender;
    std::unique_ptr<Connection> receiver;
    std::uint64_t told = 0;
    bool is_done() const { return sender->completed() == told; }
  };
  static selection::Notifications by(Notification notification) {
    return {notification, notification, "self-test"};
  }
  Link& of(Notification notification) {
    return notification == Notification::poll ? polled_ : immediate_;
  }
  // first_end: it is known to the other one as this rank, and that one as the next.
  Link join(const selection::Endpoint& endpoint, int first_end, Notification notification) {
    const PeerPaths paths{
        .peer_host = "self-test", .theirs = by(notification), .choices = {{endpoint, endpoint}}};
    const Blob sender = transport_.address_for(first_end + 1, paths);
    const Blob receiver = transport_.address_for(first_end, paths);
    return {transport_.connect(first_end + 1, receiver), transport_.connect(first_end, sender)};
  }
  RemoteAddress at(std::size_t offset) const { return {target_.region, target_.offset + offset}; }

  VerbsTransport transport_;
  Link polled_;
  Link immediate_;
  RemoteAddress target_;
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

// Until everything that was posted is complete. False: that took too long, or a link failed.
bool settle(Loop& loop, const base::System& system, Deadline deadline) {
  while (!loop.done()) {
    if (loop.failed() || system.now() > deadline) return false;
    ::sched_yield();
  }
  return true;
}

// One record's way; nothing where it did not come in time.
std::optional<std::uint32_t> time_record(Loop& loop, const base::System& system,
                                         Notification notification, Word value, Deadline deadline) {
  const Memory& memory = loop.incoming;
  const auto came = [&] {
    return notification == Notification::poll ? look(memory.record[timed_words - 1]) == value
                                              : loop.immediate_came();
  };
  loop.outgoing.record.fill(value);
  const auto begin = system.now();
  if (!loop.send_short(notification)) return std::nullopt;
  while (!came()) {
    if (loop.failed() || system.now() > deadline) return std::nullopt;
    ::sched_yield();
  }
  const auto passed = std::chrono::nanoseconds{system.now() - begin};
  if (!settle(loop, system, deadline)) return std::nullopt;
  return static_cast<std::uint32_t>(std::max<std::int64_t>(passed.count(), 1));
}

// In turn, so that what disturbs the one disturbs the other.
void time_ways(Loop& loop, const base::System& system, Word value, Placement& seen,
               Deadline deadline) {
  using Times = std::array<std::uint32_t, timed_records>;
  Times polled{};
  Times immediate{};
  for (std::size_t i = 0; i < timed_records; ++i) {
    for (const Notification way : {Notification::poll, Notification::immediate}) {
      const auto time_ns = time_record(loop, system, way, ++value, deadline);
      if (!time_ns) return;
      (way == Notification::poll ? polled : immediate)[i] = *time_ns;
    }
  }
  const auto median = [](Times& times) {
    std::ranges::nth_element(times, times.begin() + timed_records / 2);
    return times[timed_records / 2];
  };
  seen.polled_ns = median(polled);
  seen.immediate_ns = median(immediate);
}

}  // namespace

Placement test_placement(const base::System& system, const selection::Endpoint& endpoint) {
  Placement seen;
  try {
    const auto loop = std::make_unique<Loop>(system, endpoint);
    seen.vouched_in_order = loop->vouched_in_order();
    const Deadline enough = base::after_ms(system, time_enough_ms);
    const Deadline deadline = base::after_ms(system, time_max_ms);
    for (Word value = 1; value <= records_max; ++value) {
      if (value > records_min && system.now() > enough) break;
      loop->outgoing.record.fill(value);
      loop->outgoing.payload.fill(value);
      if (!loop->send() || !watch(*loop, system, value, seen, deadline) ||
          !settle(*loop, system, deadline))
        break;
    }
    if (seen.records == 0) seen.failure = "no record came back";
    else time_ways(*loop, system, records_max, seen, base::after_ms(system, time_max_ms));
  } catch (const Error& error) {
    seen.failure = error.what();
  }
  return seen;
}

Blob encode(const Placement& seen) {
  base::ByteWriter out;
  out.put_fields(seen.records, seen.partial, seen.out_of_order, seen.overtaken,
                 seen.vouched_in_order, seen.polled_ns, seen.immediate_ns);
  return std::move(out).blob();
}

Placement decode_placement(BlobView bytes, int rank) {
  base::ByteReader in{bytes};
  Placement seen;
  in.get_fields(seen.records, seen.partial, seen.out_of_order, seen.overtaken,
                seen.vouched_in_order, seen.polled_ns, seen.immediate_ns);
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

selection::Notifications prefer_sooner(selection::Notifications allowed,
                                       const Placement& seen) noexcept {
  // A tenth: what medians of so few differ by when nothing does.
  const bool clearly = std::uint64_t{seen.immediate_ns} * 10 < std::uint64_t{seen.polled_ns} * 9;
  if (allowed.small == Notification::immediate || seen.immediate_ns == 0 || !clearly)
    return allowed;
  allowed.small = allowed.medium = Notification::immediate;
  allowed.reason = "self-test: immediates came sooner";
  return allowed;
}

}  // namespace qpmesh::transport::verbs

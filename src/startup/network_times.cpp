// SPDX-License-Identifier: MIT
#include "startup/network_times.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/run_delay.hpp"
#include "bootstrap/agreement.hpp"
#include "calls/pending_operation.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/group.hpp"
#include "context/communicator_state.hpp"

namespace qpmesh::startup {
namespace {

using collectives::Arguments;
using collectives::Group;
using collectives::NetworkTimes;
using collectives::Round;
using collectives::Scratch;
using collectives::Task;

// One of two ranks asks, and sends so many messages behind; the other one takes them and answers
// with as many bytes as one of them has, while a single one comes. An answer begins with the ns
// that its rank has waited for a core, before this question came. {0, 0} ends it.
struct Question {
  std::uint32_t messages = 0;
  std::uint32_t bytes = 0;
};
// A question alone, a burst, and two lengths, whose difference is free of what a long message
// costs beside its bytes. These go both ways at once, as in most steps of collectives: where
// processors move the bytes both ways cost one of them as much as two.
constexpr std::uint32_t burst_messages = 16;
constexpr std::uint32_t bytes_min = 8;
struct Lengths {
  std::uint32_t shorter;
  std::uint32_t longer;
};
constexpr Lengths lengths{.shorter = std::uint32_t{128} << 10, .longer = std::uint32_t{1} << 20};
// These come first. Where the shorter one takes so long five of the longest would take 16 ms, for
// which all ranks wait, and these tell the same.
constexpr Lengths slow_lengths{.shorter = std::uint32_t{32} << 10,
                               .longer = std::uint32_t{64} << 10};
constexpr double slow_shorter_s = 100e-6;
constexpr int exchanges_enough = 20;  // of each question
constexpr int exchanges_min = 5;
constexpr std::chrono::milliseconds measuring_enough{2};
// Where messages take this long all ranks wait for it: two exchanges are enough, of which the
// second finds rings and registrations warm.
constexpr int slow_exchanges_min = 2;
constexpr std::chrono::milliseconds measuring_max{50};
// An exchange counts where its ranks waited for cores no longer than for the kernel's own threads,
// or so small a part of it: times are rounded by more. A neighbour keeps a core a hundred times so
// long.
constexpr double delayed_s_max = 20e-6;
constexpr double delayed_share_max = 0.125;

Task send(Group group, std::span<const std::byte> bytes) {
  Round<1> round{group};
  round.send(1 - group.rank(), bytes);
  co_await round;
}
Task receive(Group group, std::span<std::byte> bytes) {
  Round<1> round{group};
  round.receive(1 - group.rank(), bytes);
  co_await round;
}

constexpr NetworkTimes nothing{.latency_s = 0, .overhead_s = 0, .byte_s = 0};
constexpr std::array fields{&NetworkTimes::latency_s, &NetworkTimes::overhead_s,
                            &NetworkTimes::byte_s};

struct Asker {
  const base::System* system;
  bool shares_cores;
  NetworkTimes found;
};

using DelayNs = std::uint64_t;

// Says of each exchange how long its ranks waited for cores: of the other one the next answer
// tells, because to look takes time.
class Delays {
 public:
  explicit Delays(bool counts_all) noexcept : counts_all_{counts_all} {}

  // Judges the one before, and remembers this one; nullptr: it does not count.
  void end_of(ExchangeTimes* exchange, const std::byte* answer) noexcept {
    DelayNs there_ns = 0;
    std::memcpy(&there_ns, answer, sizeof there_ns);
    if (last_ != nullptr) {
      const DelayNs delayed_ns = last_here_ns_ + (there_ns - there_ns_);
      last_->judge(counts_all_ ? 0 : static_cast<double>(delayed_ns) * 1e-9);
    }
    const DelayNs here_ns = delay_ns(own_);
    last_ = exchange;
    last_here_ns_ = here_ns - here_ns_;
    here_ns_ = here_ns;
    there_ns_ = there_ns;
  }

  static DelayNs delay_ns(const base::RunDelay& delay) noexcept {
    return static_cast<DelayNs>(delay.total().count());
  }

 private:
  base::RunDelay own_;
  bool counts_all_;
  ExchangeTimes* last_ = nullptr;
  DelayNs last_here_ns_ = 0;
  DelayNs here_ns_ = delay_ns(own_);
  DelayNs there_ns_ = 0;
};

// What goes out and, behind it, what comes in: written before it is timed, as far as it is used.
class Memory {
 public:
  explicit Memory(const Group& group) : scratch_{group, 2 * std::size_t{lengths.longer}} {}
  std::byte* of(std::uint32_t bytes) {
    const std::size_t used = 2 * std::size_t{bytes};
    if (used > written_) std::fill(scratch_.data() + written_, scratch_.data() + used, std::byte{});
    written_ = std::max(written_, used);
    return scratch_.data();
  }

 private:
  Scratch scratch_;
  std::size_t written_ = 0;
};

// Of a question with one message: out and in, which are as long as each other.
Task exchange(Group group, std::span<const std::byte> out, std::span<std::byte> in) {
  Round<1> round{group};
  round.receive(1 - group.rank(), in);
  round.send(1 - group.rank(), out);
  co_await round;
}

// Sends from memory, and takes answers behind what goes.
Task put(Group group, Question question, std::byte* memory) {
  co_await send(group, std::as_bytes(std::span{&question, 1}));
  const std::span out{memory, question.bytes};
  const std::span in{memory + question.bytes, question.bytes};
  if (question.messages == 1) co_return co_await exchange(group, out, in);
  for (std::uint32_t i = 0; i < question.messages; ++i) co_await send(group, out);
  if (question.messages > 0) co_await receive(group, in);
}

Task repeat(Group group, const base::System& system, Question question, Memory& memory,
            Delays& delays, ExchangeTimes& times) {
  std::byte* const bytes = memory.of(question.bytes);
  while (times.wants_more()) {
    const Deadline begin = system.now();
    co_await put(group, question, bytes);
    const std::chrono::duration<double> taken = system.now() - begin;
    delays.end_of(&times, bytes + question.bytes);
    times.add(taken.count());
  }
}

Task ask(Group group, Asker& asker) {
  Memory memory{group};
  const base::System& system = *asker.system;
  Delays delays{asker.shares_cores};
  ExchangeTimes round_trip{exchanges_enough};
  ExchangeTimes burst{exchanges_enough};
  ExchangeTimes slow_shorter{exchanges_enough};
  ExchangeTimes shorter{exchanges_enough};
  ExchangeTimes longer{exchanges_enough};
  Question question{.messages = 1, .bytes = bytes_min};
  co_await repeat(group, system, question, memory, delays, round_trip);
  // All ranks wait, and the others would find no better.
  if (!round_trip.undelayed_s()) co_return co_await put(group, {}, nullptr);
  question.messages = 1 + burst_messages;
  co_await repeat(group, system, question, memory, delays, burst);
  question = {.messages = 1, .bytes = slow_lengths.shorter};
  co_await repeat(group, system, question, memory, delays, slow_shorter);
  const bool is_slow = slow_shorter.least_s() >= slow_shorter_s;
  const Lengths asked = is_slow ? slow_lengths : lengths;
  question.bytes = asked.shorter;
  if (!is_slow) co_await repeat(group, system, question, memory, delays, shorter);
  question.bytes = asked.longer;
  co_await repeat(group, system, question, memory, delays, longer);
  question.bytes = bytes_min;
  co_await put(group, question, memory.of(bytes_min));
  delays.end_of(nullptr, memory.of(bytes_min) + bytes_min);
  co_await put(group, {}, nullptr);
  const std::optional<double> shorter_s = (is_slow ? slow_shorter : shorter).undelayed_s();
  if (!burst.undelayed_s() || !shorter_s || !longer.undelayed_s()) co_return;
  asker.found = {.latency_s = *round_trip.undelayed_s() / 2,
                 .overhead_s = (*burst.undelayed_s() - *round_trip.undelayed_s()) / burst_messages,
                 .byte_s = (*longer.undelayed_s() - *shorter_s) / (asked.longer - asked.shorter)};
}

Task answer(Group group) {
  Memory memory{group};
  const base::RunDelay delay;
  for (;;) {
    const DelayNs delay_ns = Delays::delay_ns(delay);
    Question question;
    co_await receive(group, std::as_writable_bytes(std::span{&question, 1}));
    if (question.messages == 0) co_return;
    if (question.bytes < bytes_min || question.bytes > lengths.longer) {
      base::throw_error({ErrorCode::corrupt, 1 - group.rank()}, "init", "",
                        "a question that no rank of this version sends");
    }
    std::byte* const bytes = memory.of(question.bytes);
    std::memcpy(bytes, &delay_ns, sizeof delay_ns);
    const std::span out{bytes, question.bytes};
    const std::span in{bytes + question.bytes, question.bytes};
    if (question.messages == 1) {
      co_await exchange(group, out, in);
      continue;
    }
    for (std::uint32_t i = 0; i < question.messages; ++i) co_await receive(group, in);
    co_await send(group, out);
  }
}

// arguments.out: the Asker.
Task measure(Group group, const Arguments& arguments) {
  if (group.rank() == 0) co_await ask(group, *reinterpret_cast<Asker*>(arguments.out));
  else co_await answer(group);
}
constexpr collectives::Algorithm measuring{.collective = Collective::barrier,
                                           .name = "network_times",
                                           .applies = collectives::always,
                                           .cost = nullptr,
                                           .run = measure};

NetworkTimes measure_between(const std::shared_ptr<context::Context>& context,
                             std::uint64_t communicator, std::pair<int, int> pair,
                             bool shares_cores, Deadline deadline) {
  context::CommunicatorState two{context, communicator, {pair.first, pair.second}};
  Asker asker{.system = &context->system(), .shares_cores = shares_cores, .found = nothing};
  Arguments arguments{collectives::no_arguments};
  arguments.out = reinterpret_cast<std::byte*>(&asker);
  const CallOptions options{.timeout = calls::limit_until(context->system(), deadline)};
  calls::PendingOperation request{two, "init", options};
  calls::start_algorithm(request, two.begin({.operation = "init"}), measuring, arguments);
  try {
    calls::finish_waiting(request);
  } catch (const Error& error) {
    throw Error{two.in_context(error.detail())};
  }
  return asker.found;
}

}  // namespace

std::vector<std::pair<int, int>> measuring_pairs(std::span<const int> nodes) {
  std::vector<int> firsts;
  std::set<int> known;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (known.insert(nodes[rank]).second) firsts.push_back(static_cast<int>(rank));
  }
  if (firsts.size() == 1 && nodes.size() > 1) firsts.push_back(1);
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t i = 0; i + 1 < firsts.size(); i += 2)
    pairs.emplace_back(firsts[i], firsts[i + 1]);
  return pairs;
}

double rounded(double seconds) noexcept {
  return seconds <= 0 ? 0 : std::exp2(std::round(2 * std::log2(seconds)) / 2);
}

bool ExchangeTimes::wants_more() const noexcept {
  const std::chrono::duration<double> taken{all_s_};
  if (taken >= measuring_max) return exchanges_ < slow_exchanges_min;
  if (exchanges_ < std::min(exchanges_min, exchanges_enough_)) return true;
  if (exchanges_enough_ > exchanges_min && !undelayed_s_) return true;
  return exchanges_ < exchanges_enough_ && taken < measuring_enough;
}

void ExchangeTimes::add(double taken_s) noexcept {
  ++exchanges_;
  all_s_ += taken_s;
  last_s_ = taken_s;
  least_s_ = std::min(least_s_, taken_s);
}

void ExchangeTimes::judge(double delayed_s) noexcept {
  if (delayed_s <= std::max(delayed_s_max, delayed_share_max * last_s_))
    undelayed_s_ = std::min(last_s_, undelayed_s_.value_or(last_s_));
}

std::optional<NetworkTimes> measure_network(Bootstrap& bootstrap,
                                            const std::shared_ptr<context::Context>& context,
                                            std::uint64_t communicator, bool shares_cores,
                                            Deadline deadline) {
  NetworkTimes found = nothing;
  std::vector<int> nodes;
  nodes.reserve(static_cast<std::size_t>(context->size()));
  for (int rank = 0; rank < context->size(); ++rank) nodes.push_back(context->node_of(rank));
  const auto measured = [&] {
    const Deadline end = bootstrap::leaving_time_to_agree(context->system(), deadline);
    for (const std::pair<int, int>& pair : measuring_pairs(nodes)) {
      if (pair.first == context->rank() || pair.second == context->rank())
        found = measure_between(context, communicator, pair, shares_cores, end);
    }
    base::ByteWriter out;
    for (double NetworkTimes::*const time : fields)
      out.put(std::bit_cast<std::uint64_t>(found.*time));
    return out.blob();
  };
  const std::vector<Blob> blobs = bootstrap::agree(bootstrap, deadline, measured);
  NetworkTimes slowest = nothing;
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    base::ByteReader in{blobs[rank]};
    for (double NetworkTimes::*const time : fields)
      slowest.*time =
          std::max(slowest.*time, rounded(std::bit_cast<double>(in.get<std::uint64_t>())));
    if (!in.finished())
      base::throw_error({ErrorCode::corrupt, static_cast<int>(rank)}, "init", "",
                        "measured times that no rank of this version sends");
  }
  if (slowest.latency_s <= 0) return std::nullopt;
  // A difference of two times may be nothing on a busy machine.
  for (double NetworkTimes::*const time : fields) {
    if (slowest.*time <= 0) slowest.*time = NetworkTimes{}.*time;
  }
  return slowest;
}

}  // namespace qpmesh::startup

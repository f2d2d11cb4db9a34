#include "startup/network_times.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "base/bytes.hpp"
#include "base/errors.hpp"
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
// with as many bytes as one of them has, while a single one comes. {0, 0} ends it.
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
// Where one of those takes so long shorter ones, of which the bytes are still the larger part, tell
// the same: all ranks wait.
constexpr double slow_long_s = 2e-3;
constexpr Lengths slow_lengths{.shorter = std::uint32_t{32} << 10,
                               .longer = std::uint32_t{64} << 10};
constexpr int samples_max = 20;  // of each question
constexpr int samples_min = 5;
constexpr std::chrono::milliseconds measuring_enough{5};
// Where messages take this long all ranks wait for it: two samples are enough, of which the second
// finds rings and registrations warm.
constexpr int slow_samples_min = 2;
constexpr std::chrono::milliseconds measuring_max{50};

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
  NetworkTimes found;
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

bool goes_on(int samples, std::chrono::nanoseconds taken) noexcept {
  if (taken >= measuring_max) return samples < slow_samples_min;
  return samples < samples_min || (samples < samples_max && taken < measuring_enough);
}

// The shortest of its samples: what else runs on these hosts makes others longer.
Task shortest(Group group, const base::System& system, Question question, Memory& memory,
              int samples, double& least_s) {
  std::byte* const bytes = memory.of(question.bytes);
  least_s = std::numeric_limits<double>::max();
  Deadline begin = system.now();
  const Deadline asked_at = begin;
  for (int sample = 0; sample < samples && goes_on(sample, begin - asked_at); ++sample) {
    co_await put(group, question, bytes);
    const Deadline end = system.now();
    least_s = std::min(least_s, std::chrono::duration<double>(end - begin).count());
    begin = end;
  }
}

Task ask(Group group, Asker& asker) {
  Memory memory{group};
  const base::System& system = *asker.system;
  double round_trip_s = 0;
  double burst_s = 0;
  double shorter_s = 0;
  double longer_s = 0;
  Question question{.messages = 1, .bytes = bytes_min};
  co_await shortest(group, system, question, memory, samples_max, round_trip_s);
  question.messages = 1 + burst_messages;
  co_await shortest(group, system, question, memory, samples_max, burst_s);
  question = {.messages = 1, .bytes = lengths.shorter};
  co_await shortest(group, system, question, memory, slow_samples_min, shorter_s);
  const Lengths asked = shorter_s < slow_long_s ? lengths : slow_lengths;
  question.bytes = asked.shorter;
  co_await shortest(group, system, question, memory, samples_max, shorter_s);
  question.bytes = asked.longer;
  co_await shortest(group, system, question, memory, samples_max, longer_s);
  co_await put(group, {}, nullptr);
  asker.found = {.latency_s = round_trip_s / 2,
                 .overhead_s = (burst_s - round_trip_s) / burst_messages,
                 .byte_s = (longer_s - shorter_s) / (asked.longer - asked.shorter)};
}

Task answer(Group group) {
  Memory memory{group};
  for (;;) {
    Question question;
    co_await receive(group, std::as_writable_bytes(std::span{&question, 1}));
    if (question.messages == 0) co_return;
    if (question.bytes > lengths.longer) {
      base::throw_error({ErrorCode::corrupt, 1 - group.rank()}, "init", "",
                        "a question that no rank of this version sends");
    }
    std::byte* const bytes = memory.of(question.bytes);
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
                             Deadline deadline) {
  context::CommunicatorState two{context, communicator, {pair.first, pair.second}};
  Asker asker{.system = &context->system(), .found = nothing};
  Arguments arguments{collectives::no_arguments};
  arguments.out = reinterpret_cast<std::byte*>(&asker);
  const CallOptions options{.timeout = calls::limit_until(context->system(), deadline)};
  calls::PendingOperation request{two, "init", options};
  calls::start_algorithm(request, two.begin({.operation = "init"}), measuring, arguments);
  calls::finish_waiting(request);
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

NetworkTimes measure_network(Bootstrap& bootstrap, const std::shared_ptr<context::Context>& context,
                             std::uint64_t communicator, Deadline deadline) {
  NetworkTimes found = nothing;
  std::vector<int> nodes;
  nodes.reserve(static_cast<std::size_t>(context->size()));
  for (int rank = 0; rank < context->size(); ++rank) nodes.push_back(context->node_of(rank));
  const auto measured = [&] {
    for (const std::pair<int, int>& pair : measuring_pairs(nodes)) {
      if (pair.first == context->rank() || pair.second == context->rank())
        found = measure_between(context, communicator, pair, deadline);
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
  // A difference of two times may be nothing on a busy machine.
  for (double NetworkTimes::*const time : fields) {
    if (slowest.*time <= 0) slowest.*time = NetworkTimes{}.*time;
  }
  return slowest;
}

}  // namespace qpmesh::startup

// SPDX-License-Identifier: MIT
// Random messages against a model of MPI's order.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/bytes.hpp"
#include "messaging/rings/record.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

using simulator::Random;

// By what the receives of a communicator choose their messages. One way each, so that any order of
// receives finds them all.
enum class Choice : std::uint8_t { source_and_tag, source, tag, nothing };
constexpr int choices = 4;
constexpr int tags = 3;
constexpr std::byte poison{0xa5};

struct Message {
  int source;
  int target;
  int choice;
  int tag;
  std::size_t bytes;
  std::uint64_t content;  // seed of its bytes
};

struct Pattern {
  int choice;
  int source;
  int tag;
};

using Stream =
    std::tuple<int, int, int, int>;  // target, choice, source, tag where the choice has one

struct Plan {
  Traffic traffic;
  std::vector<std::vector<Message>> sends;         // by source, in order
  std::vector<std::vector<Pattern>> receives;      // by target, in order
  std::map<Stream, std::vector<Message>> streams;  // what must come, in order
};

bool names_tag(int choice) {
  return choice == static_cast<int>(Choice::source_and_tag) ||
         choice == static_cast<int>(Choice::tag);
}
bool names_source(int choice) {
  return choice == static_cast<int>(Choice::source_and_tag) ||
         choice == static_cast<int>(Choice::source);
}
Stream stream_of(int target, int choice, int source, int tag) {
  return {target, choice, source, names_tag(choice) ? tag : -1};
}

void fill(std::span<std::byte> out, std::uint64_t content) {
  for (std::size_t i = 0; i < out.size(); i += 8) {
    const std::uint64_t word = base::mix64(content + i);
    std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, out.size() - i));
  }
}

bool holds(std::span<const std::byte> bytes, std::uint64_t content) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = base::mix64(content + i);
    if (std::memcmp(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i)) != 0)
      return false;
  }
  return true;
}

std::size_t random_bytes(Random& random, std::size_t bytes_max) {
  // Around every boundary of the way a message goes: lines of a record, inline, eager, segments,
  // rings.
  static constexpr std::array<std::size_t, 40> edges{0,
                                                     0,
                                                     1,
                                                     8,
                                                     8,
                                                     16,
                                                     17,
                                                     20,
                                                     21,
                                                     80,
                                                     84,
                                                     85,
                                                     144,
                                                     148,
                                                     149,
                                                     messaging::inline_bytes_max - 1,
                                                     messaging::inline_bytes_max,
                                                     messaging::inline_bytes_max + 1,
                                                     212,
                                                     216,
                                                     220,
                                                     221,
                                                     255,
                                                     256,
                                                     512,
                                                     960,
                                                     1000,
                                                     1023,
                                                     1024,
                                                     1025,
                                                     1500,
                                                     2047,
                                                     2048,
                                                     2049,
                                                     4095,
                                                     4096,
                                                     4097,
                                                     8192,
                                                     12'293,
                                                     20'000};
  std::size_t bytes = 0;
  do {
    bytes = edges[random.below(edges.size())];
  } while (bytes > bytes_max);
  return bytes;
}

Plan make_plan(const Traffic& traffic) {
  Random random{traffic.network.seed ^ 0x7472616666696300U};
  const auto size = static_cast<std::size_t>(traffic.network.rank_count);
  Plan plan{.traffic = traffic,
            .sends = std::vector<std::vector<Message>>(size),
            .receives = std::vector<std::vector<Pattern>>(size),
            .streams = {}};
  for (std::size_t source = 0; source < size; ++source) {
    for (int i = 0; i < traffic.messages_per_rank; ++i) {
      const Message message{.source = static_cast<int>(source),
                            .target = static_cast<int>(random.below(size)),
                            .choice = static_cast<int>(random.below(choices)),
                            .tag = static_cast<int>(random.below(tags)),
                            .bytes = random_bytes(random, traffic.bytes_max),
                            .content = random.next()};
      plan.sends[source].push_back(message);
      plan.streams[stream_of(message.target, message.choice, message.source, message.tag)]
          .push_back(message);
      plan.receives[static_cast<std::size_t>(message.target)].push_back(
          {message.choice, message.source, message.tag});
    }
  }
  for (auto& receives : plan.receives) random.shuffle(std::span{receives});
  return plan;
}

// Memory in the arena, which peers can load and write, while there is some; else of the heap.
struct Memory {
  Memory(SimulatedJob& job, int rank, std::size_t bytes, bool in_arena) {
    std::byte* const shared =
        in_arena ? job.arena_memory(rank, std::max<std::size_t>(bytes, 1)) : nullptr;
    if (shared == nullptr) own = std::make_unique<std::byte[]>(bytes);
    data = {shared != nullptr ? shared : own.get(), bytes};
  }
  std::unique_ptr<std::byte[]> own;
  std::span<std::byte> data;
};

using Communicators = std::vector<Communicator>;

Script sends(SimulatedJob* job, const Plan* plan, Communicators* communicators, int rank) {
  Random random{plan->traffic.network.seed * 31 + static_cast<std::uint64_t>(rank)};
  const auto& messages = plan->sends[static_cast<std::size_t>(rank)];
  std::vector<Memory> sources;
  std::vector<Request> requests;
  const EndsOperations ends{*job, rank};
  sources.reserve(messages.size());
  const auto reuse = [&](std::size_t i) {
    std::fill(sources[i].data.begin(), sources[i].data.end(), poison);
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    sources.emplace_back(*job, rank, message.bytes, random.chance(0.5));
    fill(sources[i].data, message.content);
    Communicator& communicator = (*communicators)[static_cast<std::size_t>(message.choice)];
    requests.push_back(communicator.send_async(sources[i].data, message.target, message.tag));
    if (is_over(requests[i])) reuse(i);
    if (plan->traffic.send_pause_max_ns > 0 && random.chance(0.5)) {
      const std::int64_t pause_ns = random.between(1, plan->traffic.send_pause_max_ns);
      co_await job->until_after(rank, pause_ns);
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    co_await until(requests[i]);
    requests[i].wait();
    reuse(i);
  }
}

Script receives(SimulatedJob* job, const Plan* plan, Communicators* communicators, int rank) {
  Random random{plan->traffic.network.seed * 37 + static_cast<std::uint64_t>(rank)};
  if (plan->traffic.receive_after_ns > 0)
    co_await job->until_after(rank, plan->traffic.receive_after_ns);
  const auto& patterns = plan->receives[static_cast<std::size_t>(rank)];
  std::vector<Memory> targets;
  std::vector<Request> requests;
  const EndsOperations ends{*job, rank};
  targets.reserve(patterns.size());
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const Pattern& pattern = patterns[i];
    targets.emplace_back(*job, rank, plan->traffic.bytes_max, random.chance(0.5));
    std::fill(targets[i].data.begin(), targets[i].data.end(), poison);
    const int source = names_source(pattern.choice) ? pattern.source : any_source;
    const int tag = names_tag(pattern.choice) ? pattern.tag : any_tag;
    Communicator& communicator = (*communicators)[static_cast<std::size_t>(pattern.choice)];
    requests.push_back(communicator.receive_async(targets[i].data, source, tag));
    if (random.chance(0.2)) co_await until(requests[random.below(requests.size())]);
  }
  co_await until_all(requests);
  std::map<Stream, std::size_t> next;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Status status = requests[i].wait();
    const Stream stream = stream_of(rank, patterns[i].choice, status.source, status.tag);
    const auto sent = plan->streams.find(stream);
    const std::size_t n = next[stream]++;
    if (sent == plan->streams.end() || n >= sent->second.size()) {
      throw std::runtime_error(fmt::format("a message from {} with tag {} that was never sent",
                                           status.source, status.tag));
    }
    const Message& expected = sent->second[n];
    const auto got = targets[i].data.first(std::min(status.bytes, targets[i].data.size()));
    if (status.bytes != expected.bytes || status.tag != expected.tag ||
        !holds(got, expected.content)) {
      throw std::runtime_error(fmt::format(
          "message {} from {}: {} bytes with tag {} instead of {} with {}, or other bytes", n,
          status.source, status.bytes, status.tag, expected.bytes, expected.tag));
    }
    const auto rest = targets[i].data.subspan(status.bytes);
    if (std::any_of(rest.begin(), rest.end(), [](std::byte value) { return value != poison; })) {
      throw std::runtime_error(
          fmt::format("something was written behind message {} from {}", n, status.source));
    }
  }
}

// A stopped process: its writes go on, and what comes to it piles up.
void stop_now_and_then(SimulatedJob& job, const Traffic& traffic) {
  Random random{traffic.network.seed * 41};
  simulator::Network& network = job.network();
  for (int i = 0; i < traffic.stops; ++i) {
    const int rank = static_cast<int>(random.below(static_cast<std::uint64_t>(job.size())));
    const Deadline begin = network.now() + std::chrono::nanoseconds{random.between(0, 500'000)};
    const Deadline end = begin + std::chrono::nanoseconds{random.between(1'000, 50'000)};
    network.at(begin, [&network, rank] { network.freeze(rank); });
    network.at(end, [&network, rank] { network.thaw(rank); });
  }
}

}  // namespace

Outcome random_traffic(const Traffic& traffic) {
  const Plan plan = make_plan(traffic);
  const int size = traffic.network.rank_count;
  std::vector<int> members(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
  std::vector<Communicators> communicators(static_cast<std::size_t>(size));
  Outcome outcome;
  {
    SimulatedJob job{traffic.network};
    for (int rank = 0; rank < size; ++rank) {
      Communicators& mine = communicators[static_cast<std::size_t>(rank)];
      for (int choice = 0; choice < choices; ++choice) {
        mine.push_back(job.communicator(rank, 100 + static_cast<std::uint64_t>(choice), members));
      }
      job.start(rank, sends(&job, &plan, &mine, rank));
      job.start(rank, receives(&job, &plan, &mine, rank));
    }
    stop_now_and_then(job, traffic);
    for (const RailFailure& failure : traffic.rail_failures) {
      const Deadline time = job.network().now() + std::chrono::nanoseconds{failure.after_ns};
      job.network().at(time, [&job, failure] {
        job.network().fail_rail(failure.from, failure.to, failure.rail);
      });
    }
    job.run();
    outcome.counters = job.counters();
    outcome.trace = job.network().trace_hash();
    outcome.wrong = job.close();
    communicators.clear();  // before the network, which their contexts stand on
  }
  if (!outcome.wrong.empty())
    outcome.wrong = fmt::format("seed {}: {}", traffic.network.seed, outcome.wrong);
  return outcome;
}

}  // namespace qpmesh::test

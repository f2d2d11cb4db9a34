// SPDX-License-Identifier: MIT
// Scenarios that are led to one place where a protocol like this goes wrong.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>

#include "messaging/operations.hpp"
#include "messaging/rings/record.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {

using messaging::line_bytes;
using messaging::record_body_offset;
using messaging::record_ring_lines;

NetworkConfig ordered_bytes_network(int rank_count, std::uint64_t seed) {
  NetworkConfig config = simulator::polled_network(rank_count, seed);
  config.bytes_in_order = true;
  return config;
}

NetworkConfig mixed_network(int rank_count, std::uint64_t seed) {
  NetworkConfig config = simulator::polled_network(rank_count, seed);
  config.medium = transport::Notification::immediate;
  config.registered_sources = true;
  return config;
}

NetworkConfig pipelined_network(int rank_count, std::uint64_t seed) {
  NetworkConfig config = simulator::polled_network(rank_count, seed);
  config.registers_user_memory = false;
  config.inline_bytes_max = 0;
  return config;
}

NetworkConfig reading_network(int rank_count, std::uint64_t seed) {
  NetworkConfig config = simulator::immediate_network(rank_count, seed);
  config.rendezvous_reads = true;
  config.registered_sources = true;
  config.write_bytes_max = 3'000;  // a message is several reads
  return config;
}

namespace {

template <NetworkConfig (*network)(int, std::uint64_t)>
NetworkConfig two_of(int rank_count, std::uint64_t seed) {
  NetworkConfig config = network(rank_count, seed);
  config.rails = 2;
  config.write_bytes_max = 1'500;  // a message is several writes
  return config;
}

}  // namespace

NetworkConfig two_rails_network(int rank_count, std::uint64_t seed) {
  return two_of<mixed_network>(rank_count, seed);
}

// How records and payloads are noticed, how large messages go, and what post copies.
const std::vector<Flavour>& flavours_of_rails() {
  static const std::vector<Flavour> all{{"polled", two_of<simulator::polled_network>},
                                        {"ordered_bytes", two_of<ordered_bytes_network>},
                                        {"mixed", two_of<mixed_network>},
                                        {"immediate", two_of<simulator::immediate_network>},
                                        {"reading", two_of<reading_network>},
                                        {"pipelined", two_of<pipelined_network>}};
  return all;
}

NetworkConfig private_copies_network(int rank_count, std::uint64_t seed) {
  NetworkConfig config = simulator::shared_memory_network(rank_count, seed);
  config.copies_private_memory = true;
  return config;
}

const std::vector<Flavour>& flavours() {
  static const std::vector<Flavour> all{{"shared_memory", simulator::shared_memory_network},
                                        {"private_copies", private_copies_network},
                                        {"polled", simulator::polled_network},
                                        {"ordered_bytes", ordered_bytes_network},
                                        {"mixed", mixed_network},
                                        {"immediate", simulator::immediate_network},
                                        {"pipelined", pipelined_network},
                                        {"reading", reading_network},
                                        {"two_rails", two_rails_network}};
  return all;
}

namespace {

// ---- imitated records ----

constexpr int records_per_lap = static_cast<int>(record_ring_lines / messaging::record_lines_max);
constexpr int messages = records_per_lap + static_cast<int>(record_ring_lines);

// The first lap: records of four lines. Message m lies in lines 4m … 4m+3. The second lap: records
// of one line, message 16+k in line k. So when line 4m+j is looked at again, message 16+4m+j is due
// there: the first lap's payload says so at the start of that line.
std::vector<std::byte> imitation(int m, std::uint64_t communicator) {
  std::vector<std::byte> payload(messaging::inline_bytes_max);
  for (int j = 1; j < static_cast<int>(messaging::record_lines_max); ++j) {
    const std::uint32_t sequence =
        messaging::sequence_word(static_cast<std::uint32_t>(records_per_lap + 4 * m + j));
    messaging::Record record;
    messaging::start_record(record, {.kind = messaging::RecordKind::eager_inline,
                                     .inline_bytes = 4,
                                     .body_bytes = 4,
                                     .communicator = communicator,
                                     .key = messaging::tag_key(0),
                                     .total_bytes = 4});
    record.header().sequence = sequence;
    record.header().checksum = 0;
    const std::uint32_t tail = ~sequence;
    std::memcpy(record.bytes + record.length() - sizeof tail, &tail, sizeof tail);
    const std::size_t at = static_cast<std::size_t>(j) * line_bytes - record_body_offset;
    if (at < payload.size()) {
      std::memcpy(payload.data() + at, record.bytes,
                  std::min(record.length(), payload.size() - at));
    }
  }
  return payload;
}

std::vector<std::byte> message_bytes(int n, std::uint64_t communicator) {
  if (n < records_per_lap) return imitation(n, communicator);
  return std::vector<std::byte>(4, static_cast<std::byte>(n));
}

// One at a time, so that every line is looked at before its next record is there.
Script sends_imitations(SimulatedJob* job, const int* received) {
  for (int n = 0; n < messages; ++n) {
    const std::vector<std::byte> bytes = message_bytes(n, Access::state(job->world(0))->id());
    Request request = job->world(0).send_async(bytes, 1, 0);
    co_await until(request);
    request.wait();
    while (*received <= n) co_await job->until_after(0, 5'000);
  }
}

Script receives_imitations(SimulatedJob* job, int* received) {
  for (int n = 0; n < messages; ++n) {
    std::vector<std::byte> bytes(messaging::inline_bytes_max);
    Request request = job->world(1).receive_async(bytes, 0, 0);
    co_await until(request);
    const Status status = request.wait();
    bytes.resize(status.bytes);
    if (bytes != message_bytes(n, Access::state(job->world(1))->id())) {
      throw std::runtime_error(
          fmt::format("message {} is not what was sent: {} bytes", n, status.bytes));
    }
    *received = n + 1;
  }
}

// ---- the reserve ----

constexpr int data_messages = static_cast<int>(record_ring_lines * 3 / 2);

Script offers_and_drains(SimulatedJob* job, const std::vector<std::byte>* large) {
  Request offer = job->world(1).send_async(*large, 0, 1);
  const EndsOperations ends{*job, 1};
  std::vector<std::byte> word(8);
  for (int i = 0; i < data_messages; ++i) {
    Request request = job->world(1).receive_async(word, 0, 0);
    co_await until(request);
    request.wait();
  }
  co_await until(offer);
  offer.wait();
}

Script fills_the_ring_then_answers(SimulatedJob* job, const std::vector<std::byte>* large) {
  while (!job->world(0).try_probe(1, 1)) co_await job->until_after(0, 10'000);
  job->network().freeze(1);
  const std::vector<std::byte> word(8);
  std::vector<std::byte> target(large->size());
  std::vector<Request> requests;
  const EndsOperations ends{*job, 0};
  for (int i = 0; i < data_messages; ++i) {
    requests.push_back(job->world(0).send_async(word, 1, 0));
    if (i % 8 == 7) co_await job->until_after(0, 50'000);
  }
  requests.push_back(job->world(0).receive_async(target, 1, 1));
  co_await job->until_after(0, 100'000);
  if (job->context(0).messaging().counters().control_waits != 0) {
    throw std::runtime_error(
        "the answer to a rendezvous found no line, because data had taken them all");
  }
  job->network().thaw(1);
  co_await until_all(requests);
  for (Request& request : requests) request.wait();
  if (target != *large) throw std::runtime_error("the large message is not what was sent");
}

// ---- a large message behind unmatched ones ----

constexpr int unmatched = 4;

Script sends_small_then_large(SimulatedJob* job, const std::vector<std::byte>* large) {
  std::vector<Request> requests;
  const std::vector<std::byte> small(1000, std::byte{7});
  const EndsOperations ends{*job, 0};
  requests.reserve(unmatched + 1);
  for (int i = 0; i < unmatched; ++i) requests.push_back(job->world(0).send_async(small, 1, 1));
  requests.push_back(job->world(0).send_async(*large, 1, 2));
  co_await until_all(requests);
  for (Request& request : requests) request.wait();
}

Script receives_large_then_small(SimulatedJob* job, const std::vector<std::byte>* large) {
  while (!job->world(1).try_probe(0, 2)) co_await job->until_after(1, 10'000);
  std::vector<std::byte> target(large->size());
  Request receive = job->world(1).receive_async(target, 0, 2);
  co_await until(receive);
  receive.wait();
  if (target != *large) throw std::runtime_error("the large message is not what was sent");
  const std::vector<std::byte> expected(1000, std::byte{7});
  for (int i = 0; i < unmatched; ++i) {
    std::vector<std::byte> small(1000);
    Request request = job->world(1).receive_async(small, 0, 1);
    co_await until(request);
    request.wait();
    if (small != expected) throw std::runtime_error("an unmatched message changed while it waited");
  }
}

// ---- an answer among long messages ----

constexpr int long_messages = 64;

Script sends_long_messages(SimulatedJob* job, const std::vector<std::byte>* large) {
  std::vector<std::byte> target(large->size());
  std::vector<Request> requests;
  const EndsOperations ends{*job, 0};
  requests.push_back(job->world(0).receive_async(target, 1, 1));
  for (int i = 0; i < long_messages; ++i)
    requests.push_back(job->world(0).send_async(*large, 1, 0));
  co_await until_all(requests);
  for (Request& request : requests) request.wait();
  if (target != *large) throw std::runtime_error("the message that went back is not what was sent");
}

// Sends one back when the first has come. arrived: how many have when that one is over.
Script sends_one_back(SimulatedJob* job, const std::vector<std::byte>* large, int* arrived) {
  std::vector<std::vector<std::byte>> targets(long_messages);
  std::vector<Request> requests;
  const EndsOperations ends{*job, 1};
  for (std::vector<std::byte>& target : targets) {
    target.resize(large->size());
    requests.push_back(job->world(1).receive_async(target, 0, 0));
  }
  co_await until(requests.front());
  Request back = job->world(1).send_async(*large, 0, 1);
  co_await until(back);
  back.wait();
  for (Request& request : requests) *arrived += request.test() ? 1 : 0;
  co_await until_all(requests);
  for (Request& request : requests) request.wait();
  for (const std::vector<std::byte>& target : targets) {
    if (target != *large) throw std::runtime_error("a long message is not what was sent");
  }
}

// ---- one way ----

constexpr int words = 300;

Script sends_words(SimulatedJob* job) {
  std::vector<std::uint64_t> numbers(words);
  std::vector<Request> requests;
  const EndsOperations ends{*job, 0};
  for (std::size_t i = 0; i < words; ++i) {
    numbers[i] = i;
    requests.push_back(job->world(0).send_async(std::span{&numbers[i], 1}, 1, 0));
  }
  co_await until_all(requests);
  for (Request& request : requests) request.wait();
}

Script receives_words(SimulatedJob* job) {
  std::vector<std::uint64_t> numbers(words, ~std::uint64_t{0});
  std::vector<Request> requests;
  const EndsOperations ends{*job, 1};
  for (std::size_t i = 0; i < words; ++i) {
    requests.push_back(job->world(1).receive_async(std::span{&numbers[i], 1}, 0, 0));
  }
  co_await until_all(requests);
  for (std::size_t i = 0; i < words; ++i) {
    requests[i].wait();
    if (numbers[i] != i) throw std::runtime_error(fmt::format("word {} is {}", i, numbers[i]));
  }
}

// ---- memory that is taken back ----

constexpr std::size_t taken_back_bytes = 50'000;
constexpr std::byte reused{0xa5};
constexpr std::int64_t standstill_ns = 2'000'000 * messaging::revocation_ms_max;

// The transfer has ended, well or not. The memory is used for something else.
void reuse(Request& request, int rank, std::span<std::byte> data,
           const std::vector<std::byte>& large) {
  bool arrived = rank == 1;
  try {
    request.wait();
  } catch (const Error&) {
    arrived = false;
  }
  if (arrived && !std::equal(data.begin(), data.end(), large.begin()))
    throw std::runtime_error("the source was read after it had gone back");
  std::fill(data.begin(), data.end(), reused);
}

void require_untouched(std::span<const std::byte> data) {
  if (std::any_of(data.begin(), data.end(), [](std::byte value) { return value != reused; }))
    throw std::runtime_error("the target was written after it had gone back");
}

// Lets the transfer run for a while, then fails the communicator; what the owner does with its
// memory afterwards must neither change by itself nor show at the peer.
Script transfers(SimulatedJob* job, int rank, std::int64_t fail_after_ns,
                 const std::vector<std::byte>* large) {
  std::byte* const memory = job->arena_memory(rank, taken_back_bytes);
  const std::span<std::byte> data{memory, taken_back_bytes};
  if (rank == 0) std::copy(large->begin(), large->end(), data.begin());
  Request request =
      rank == 0 ? job->world(0).send_async(data, 1, 0) : job->world(1).receive_async(data, 0, 0);
  const EndsOperations ends{*job, rank};
  if (fail_after_ns > 0) {
    co_await job->until_after(rank, fail_after_ns);
    Access::state(job->world(rank))
        ->fail({.code = ErrorCode::aborted, .peer = rank, .cause = "enough"}, true);
  }
  co_await until(request);
  reuse(request, rank, data, *large);
  co_await job->until_after(rank, 1'000'000);
  require_untouched(data);
}

// The same in private memory and beside a communicator that lives on. The peer of the owner stands
// still meanwhile, and longer than the owner waits.
Script transfers_beside(SimulatedJob* job, Communicator* failing, int rank, int owner,
                        std::int64_t fail_after_ns, const std::vector<std::byte>* large) {
  std::vector<std::byte> data{taken_back_bytes, std::byte{}};
  if (rank == 0) data = *large;
  Request request =
      rank == 0 ? failing->send_async(data, 1, 0) : failing->receive_async(data, 0, 0);
  const EndsOperations ends{*job, rank};
  if (rank == owner) {
    co_await job->until_after(rank, fail_after_ns);
    Access::state(*failing)->fail({.code = ErrorCode::aborted, .peer = rank, .cause = "enough"},
                                  true);
  }
  co_await until(request);
  reuse(request, rank, data, *large);
  co_await job->until_after(rank, 3 * standstill_ns);
  require_untouched(data);
  Request more =
      rank == 0 ? job->world(0).send_async(*large, 1, 1) : job->world(1).receive_async(data, 0, 1);
  co_await until(more);
  more.wait();
  if (rank == 1 && data != *large) throw std::runtime_error("the link brings other bytes");
}

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251);
  return all;
}

}  // namespace

std::string memory_taken_back(NetworkConfig network, bool rail_fails) {
  network.rank_count = 2;
  const std::vector<std::byte> large = pattern(taken_back_bytes);
  for (int i = 1; i <= 40; ++i, ++network.seed) {
    const std::int64_t fail_after_ns = 500 * i;
    SimulatedJob job{network};
    job.start(0, transfers(&job, 0, i % 2 == 0 ? fail_after_ns : 0, &large));
    job.start(1, transfers(&job, 1, i % 2 == 1 ? fail_after_ns : 0, &large));
    if (rail_fails) {
      const int end = i / 2 % 2;
      const Deadline time =
          job.network().now() + std::chrono::nanoseconds{fail_after_ns + 300 * (i % 11) - 1'500};
      job.network().at(time, [&job, end] { job.network().fail_rail(end, 1 - end, 0); });
    }
    job.run();
    const std::string wrong = job.close();
    if (!wrong.empty()) return fmt::format("after {} ns: {}", fail_after_ns, wrong);
  }
  return {};
}

std::string memory_closed_to_a_rank_that_stands_still(NetworkConfig network) {
  network.rank_count = 2;
  const std::vector<std::byte> large = pattern(taken_back_bytes);
  for (int i = 1; i <= 60; ++i, ++network.seed) {
    const int owner = i % 2;
    const std::int64_t freeze_after_ns = 500 * i;
    SimulatedJob job{network};
    std::vector<Communicator> failing;
    failing.reserve(2);
    for (int rank = 0; rank < 2; ++rank) failing.push_back(job.communicator(rank, 7, {0, 1}));
    for (int rank = 0; rank < 2; ++rank) {
      job.start(rank, transfers_beside(&job, &failing[static_cast<std::size_t>(rank)], rank, owner,
                                       2 * freeze_after_ns, &large));
    }
    const Deadline begin = job.network().now();
    job.network().at(begin + std::chrono::nanoseconds{freeze_after_ns},
                     [&job, owner] { job.network().freeze(1 - owner); });
    job.network().at(begin + std::chrono::nanoseconds{standstill_ns},
                     [&job, owner] { job.network().thaw(1 - owner); });
    job.run();
    const std::string wrong = job.close();
    failing.clear();
    if (!wrong.empty()) return fmt::format("still after {} ns: {}", freeze_after_ns, wrong);
  }
  return {};
}

std::string first_rail_lost_one_way(NetworkConfig network) {
  for (int i = 1; i <= 100; ++i, ++network.seed) {
    SimulatedJob job{network};
    job.start(0, sends_words(&job));
    job.start(1, receives_words(&job));
    const std::int64_t after_ns = 3'700 * i;
    const Deadline time = job.network().now() + std::chrono::nanoseconds{after_ns};
    const int end = i % 2;
    job.network().at(time, [&job, end] { job.network().fail_rail(end, 1 - end, 0); });
    job.run();
    const std::string wrong = job.close();
    if (!wrong.empty()) return fmt::format("after {} ns: {}", after_ns, wrong);
  }
  return {};
}

std::string imitated_records(NetworkConfig network) {
  network.rank_count = 2;
  int received = 0;
  SimulatedJob job{network};
  job.start(0, sends_imitations(&job, &received));
  job.start(1, receives_imitations(&job, &received));
  job.run();
  return job.close();
}

std::string control_while_data_fills_the_ring(NetworkConfig network) {
  network.rank_count = 2;
  network.busy_probability = 0;  // a busy connection would be another reason to wait
  network.depth = 1'000;
  const std::vector<std::byte> large = pattern(20'000);
  SimulatedJob job{network};
  job.start(0, fills_the_ring_then_answers(&job, &large));
  job.start(1, offers_and_drains(&job, &large));
  job.run();
  return job.close();
}

std::string answer_among_long_messages(NetworkConfig network) {
  network.rank_count = 2;
  network.busy_probability = network.retransmission_probability = 0;
  network.depth = 1'000;
  network.gap_max_ns = 20'000;  // the bytes take the time
  const std::vector<std::byte> large(100'000, std::byte{7});
  int arrived = 0;
  SimulatedJob job{network};
  job.start(0, sends_long_messages(&job, &large));
  job.start(1, sends_one_back(&job, &large, &arrived));
  job.run();
  std::string wrong = job.close();
  // A receiver that copies by itself needs no answer, and has all of them when it sends.
  if (wrong.empty() && !network.copies_private_memory && arrived > long_messages / 4)
    wrong = fmt::format("{} of {} messages came before an answer did", arrived, long_messages);
  return wrong;
}

std::string one_way_to_a_stopped_rank(NetworkConfig network) {
  network.rank_count = 2;
  network.busy_probability = 0.5;
  SimulatedJob job{network};
  job.start(0, sends_words(&job));
  job.start(1, receives_words(&job));
  for (int i = 0; i < 6; ++i) {
    const Deadline begin = job.network().now() + std::chrono::microseconds{10 + 200 * i};
    job.network().at(begin, [&job] { job.network().freeze(1); });
    job.network().at(begin + std::chrono::microseconds{150}, [&job] { job.network().thaw(1); });
  }
  job.run();
  return job.close();
}

std::string large_message_behind_unmatched_ones(NetworkConfig network, Outcome& outcome) {
  network.rank_count = 2;
  const std::vector<std::byte> large = pattern(50'000);
  SimulatedJob job{network};
  job.start(0, sends_small_then_large(&job, &large));
  job.start(1, receives_large_then_small(&job, &large));
  job.run();
  outcome.counters = job.counters();
  return job.close();
}

}  // namespace qpmesh::test

// The machine's limits, by the shortest code that reaches them.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "base/owned.hpp"
#include "bench/harness/flag_probe.hpp"
#include "bench/micro/probe.hpp"
#include "bench/micro/threads.hpp"

namespace qpmesh::bench {
namespace {

constexpr unsigned looks_per_yield = 4096;

double flag_allreduce_ns(CorePair cores) {
  constexpr std::uint32_t rounds = 2000;
  FlagLine lines[2];
  const auto rank = [&](int self) {
    return [&lines, self] {
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        flag_allreduce(lines, self, 2, round, round, looks_per_yield);
      }
    };
  };
  return run_pair_ns(cores, rank(0), rank(1)) / rounds;
}

double yield_alone_ns(CorePair cores) {
  constexpr int yields = 500;
  pin_to(cores.first);
  return elapsed_ns([] {
           for (int i = 0; i < yields; ++i) ::sched_yield();
         }) /
         yields;
}

// There and back: the peer gets the core and yields it again.
double yield_to_peer_ns(CorePair cores) {
  constexpr int yields = 200;
  std::atomic<bool> stop{false};
  const CorePair one_core{.first = cores.first, .second = cores.first};
  return run_pair_ns(
             one_core,
             [&] {
               for (int i = 0; i < yields; ++i) ::sched_yield();
               stop.store(true, std::memory_order_relaxed);
             },
             [&] {
               while (!stop.load(std::memory_order_relaxed)) ::sched_yield();
             }) /
         yields;
}

double clock_read_ns() {
  constexpr int reads = 1000;
  return elapsed_ns([] {
           for (int i = 0; i < reads; ++i) static_cast<void>(std::chrono::steady_clock::now());
         }) /
         reads;
}

// One way: a sleeps until b writes, then the other way round.
double eventfd_wake_ns(CorePair cores) {
  constexpr int round_trips = 200;
  const base::UniqueFd ping{::eventfd(0, EFD_CLOEXEC)};
  const base::UniqueFd pong{::eventfd(0, EFD_CLOEXEC)};
  const auto wake = [](const base::UniqueFd& fd) {
    const std::uint64_t one = 1;
    if (::write(fd.get(), &one, sizeof one) != sizeof one)
      throw std::system_error(errno, std::generic_category(), "write");
  };
  const auto sleep = [](const base::UniqueFd& fd) {
    std::uint64_t count = 0;
    if (::read(fd.get(), &count, sizeof count) != sizeof count) {
      throw std::system_error(errno, std::generic_category(), "read");
    }
  };
  return run_pair_ns(
             cores,
             [&] {
               for (int i = 0; i < round_trips; ++i) wake(ping), sleep(pong);
             },
             [&] {
               for (int i = 0; i < round_trips; ++i) sleep(ping), wake(pong);
             }) /
         (2 * round_trips);
}

// Source and target stay the same from sample to sample, so that a size that fits a cache is measured in it.
Probe copy_probe(const std::string& size_name, std::size_t bytes) {
  const auto from = std::make_shared<std::vector<std::byte>>(bytes, std::byte{1});
  const auto to = std::make_shared<std::vector<std::byte>>(bytes, std::byte{2});
  const int copies = bytes < (std::size_t{1} << 20) ? 16 : 1;
  const auto sample = [from, to, copies] {
    return elapsed_ns([&] {
             for (int i = 0; i < copies; ++i) {
               std::memcpy(to->data(), from->data(), from->size());
               asm volatile(""
                            :
                            : "r"(to->data())
                            : "memory");  // the copy has a reader, as far as the compiler knows
             }
           }) /
           copies;
  };
  return {.name = "machine/memcpy/" + size_name, .sample_ns = sample, .bytes = static_cast<double>(bytes)};
}

}  // namespace

double flag_exchange_ns(CorePair cores) {
  constexpr std::uint32_t rounds = 2000;
  FlagLine lines[2];
  const auto side = [&](bool speaks_first) {
    return [&lines, speaks_first] {
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        flag_ping_pong(lines[speaks_first ? 0 : 1], lines[speaks_first ? 1 : 0], speaks_first, round,
                       looks_per_yield);
      }
    };
  };
  return run_pair_ns(cores, side(true), side(false)) / (2 * rounds);
}

std::vector<Probe> machine_probes(CorePair cores) {
  const CorePair one_core{.first = cores.first, .second = cores.first};
  std::vector<Probe> probes{
      {.name = "machine/clock_read", .sample_ns = clock_read_ns},
      {.name = "machine/yield/alone", .sample_ns = [cores] { return yield_alone_ns(cores); }},
      {.name = "machine/yield/to_peer", .sample_ns = [cores] { return yield_to_peer_ns(cores); }},
      {.name = "machine/eventfd_wake/one_core",
       .sample_ns = [one_core] { return eventfd_wake_ns(one_core); }},
      copy_probe("64KiB", std::size_t{64} << 10),
      copy_probe("1MiB", std::size_t{1} << 20),
      copy_probe("16MiB", std::size_t{16} << 20)};
  if (cores.distinct()) {
    probes.push_back(
        {.name = "machine/eventfd_wake/two_cores", .sample_ns = [cores] { return eventfd_wake_ns(cores); }});
    probes.push_back(
        {.name = "machine/flag_exchange", .sample_ns = [cores] { return flag_exchange_ns(cores); }});
    probes.push_back(
        {.name = "machine/flag_allreduce/2", .sample_ns = [cores] { return flag_allreduce_ns(cores); }});
  }
  return probes;
}

}  // namespace qpmesh::bench

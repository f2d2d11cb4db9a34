// SPDX-License-Identifier: MIT
// The machine's limits, by the shortest code that reaches them.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "base/owned.hpp"
#include "bench/harness/flag_probe.hpp"
#include "bench/harness/slice_probe.hpp"
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

Probe copy_probe(const std::string& size_name, std::size_t bytes) {
  return {.name = "machine/memcpy/" + size_name,
          .sample_ns = copy_sampler(std::make_shared<CopiedVectors>(bytes), copy_by_libc),
          .bytes = static_cast<double>(bytes)};
}

// Two ranks, both in this process.
Probe slices_probe(CorePair cores, const std::string& size_name, std::size_t bytes) {
  static constexpr int ranks = 2;
  const std::size_t count = bytes / sizeof(float);
  const std::size_t shared_bytes = SliceProbe::shared_bytes(ranks, count);
  void* const zeroes =
      ::mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (zeroes == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  const auto shared = std::make_shared<base::Mapping>(zeroes, shared_bytes);
  const int runs = bytes < (std::size_t{1} << 20) ? 64 : 4;
  const auto end = [shared, count, runs](int rank) {
    const auto probe =
        std::make_shared<SliceProbe>(shared->data(), rank, ranks, count, looks_per_yield);
    return [shared, probe, runs] {
      for (int i = 0; i < runs; ++i) probe->run();
    };
  };
  const auto sample = [cores, runs, first = end(0), second = end(1)] {
    return run_pair_ns(cores, first, second) / runs;
  };
  return {.name = "machine/slices/2/" + size_name,
          .sample_ns = sample,
          .bytes = static_cast<double>(bytes)};
}

}  // namespace

double flag_exchange_ns(CorePair cores) {
  constexpr std::uint32_t rounds = 2000;
  FlagLine lines[2];
  const auto side = [&](bool speaks_first) {
    return [&lines, speaks_first] {
      for (std::uint32_t round = 1; round <= rounds; ++round) {
        flag_ping_pong(lines[speaks_first ? 0 : 1], lines[speaks_first ? 1 : 0], speaks_first,
                       round, looks_per_yield);
      }
    };
  };
  return run_pair_ns(cores, side(true), side(false)) / (2 * rounds);
}

void copy_by_libc(CopiedVectors& vectors) {
  std::memcpy(vectors.to.data(), vectors.from.data(), vectors.from.size());
  // The copy has a reader, as far as the compiler knows.
  asm volatile("" : : "r"(vectors.to.data()) : "memory");
}

std::function<double()> copy_sampler(std::shared_ptr<CopiedVectors> vectors, Copy copy) {
  const int copies = vectors->from.size() < (std::size_t{1} << 20) ? 16 : 1;
  return [vectors = std::move(vectors), copy = std::move(copy), copies] {
    return elapsed_ns([&] {
             for (int i = 0; i < copies; ++i) copy(*vectors);
           }) /
           copies;
  };
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
    probes.push_back({.name = "machine/eventfd_wake/two_cores",
                      .sample_ns = [cores] { return eventfd_wake_ns(cores); }});
    probes.push_back({.name = "machine/flag_exchange",
                      .sample_ns = [cores] { return flag_exchange_ns(cores); }});
    probes.push_back(slices_probe(cores, "64KiB", std::size_t{64} << 10));
    probes.push_back(slices_probe(cores, "1MiB", std::size_t{1} << 20));
    probes.push_back({.name = "machine/flag_allreduce/2",
                      .sample_ns = [cores] { return flag_allreduce_ns(cores); }});
  }
  return probes;
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
#include "bench/harness/limits.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/owned.hpp"
#include "bench/harness/flag_probe.hpp"
#include "bench/harness/idle_gap.hpp"
#include "bench/harness/slice_probe.hpp"
#include "topology/cores.hpp"

namespace qpmesh::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double max_over_ranks(Communicator& world, double value) {
  world.allreduce(std::span{&value, 1}, qpmesh::max);
  return value;
}

// Of all ranks of the node together: a launcher may have bound each to one core.
int count_usable_cores(Communicator& node) {
  const topology::UsableCores mine = topology::usable_cores();
  std::array<std::uint64_t, CPU_SETSIZE / 64> mask{};
  for (const int core : mine.cores) {
    const auto bit = static_cast<std::size_t>(core);
    if (bit < CPU_SETSIZE) mask[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  constexpr std::int32_t no_quota = std::numeric_limits<std::int32_t>::max();
  std::int32_t quota = mine.quota == 0 ? no_quota : mine.quota;
  // What --algorithm forces may be for several nodes.
  const CallOptions any{.algorithm = "recursive_multiplying"};
  node.allreduce(mask, qpmesh::bit_or, any);
  node.allreduce(std::span{&quota, 1}, qpmesh::min, any);

  topology::UsableCores all{.cores = {}, .quota = quota == no_quota ? 0 : quota};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    const auto bit = static_cast<std::size_t>(core);
    if ((mask[bit / 64] >> (bit % 64) & 1) != 0) all.cores.push_back(core);
  }
  return std::max(topology::usable_core_count({&all, 1}), 1);
}

// Zeroed memory that all ranks of the node map; empty on every rank alike when one of them could
// not map it.
base::Mapping share_memory(Communicator& world, std::size_t bytes) {
  const auto name_by = [](std::int64_t maker) { return "/qpmesh-bench-" + std::to_string(maker); };
  const std::int64_t self = ::getpid();
  std::int64_t maker = 0;
  base::UniqueFd file;
  if (world.rank() == 0) {
    file = base::UniqueFd{::shm_open(name_by(self).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600)};
    maker = file && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 ? self : -1;
  }
  world.allreduce(
      std::span{&maker, 1},
      qpmesh::sum);  // only rank 0 gives something; the file exists once anyone has the sum
  if (maker > 0 && world.rank() != 0)
    file = base::UniqueFd{::shm_open(name_by(maker).c_str(), O_RDWR, 0600)};

  base::Mapping mapping;
  if (maker > 0 && file) {
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory != MAP_FAILED) mapping = base::Mapping{memory, bytes};
  }
  std::int32_t mapped_by_all = mapping ? 1 : 0;
  world.allreduce(std::span{&mapped_by_all, 1}, qpmesh::min);
  if (world.rank() == 0 && file) ::shm_unlink(name_by(self).c_str());
  return mapped_by_all == 1 ? std::move(mapping) : base::Mapping{};
}

// The least over batches of the seconds of one round on the slowest rank: a limit is what the
// machine allows, not what its neighbours leave. A batch lasts some milliseconds at most: beside a
// busy neighbour one round may cost a whole slice.
template <class Round>
double least_round_s(Communicator& world, std::uint32_t& round, Round&& one_round) {
  constexpr int batches = 11;
  constexpr double batch_s_max = 5e-3;
  constexpr double rounds_per_batch_max = 500;
  const auto time_rounds = [&](int rounds) {
    world.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) one_round(++round);
    return seconds_since(start) / rounds;
  };
  const double first_s = max_over_ranks(world, time_rounds(4));
  const int rounds = static_cast<int>(std::clamp(batch_s_max / first_s, 1.0, rounds_per_batch_max));
  std::array<double, batches> batch_s{};
  for (double& seconds : batch_s) seconds = time_rounds(rounds);
  world.allreduce(batch_s, qpmesh::max);
  return *std::ranges::min_element(batch_s);
}

}  // namespace

Limits::Limits(Communicator& world) : world_{world} {
  Communicator node = world.split_node();
  usable_cores_ = count_usable_cores(node);
  node_rank_ = node.rank();
  std::int32_t whole = node.size() == world.size() ? 1 : 0;
  world.allreduce(std::span{&whole, 1}, qpmesh::min);
  one_node_ = whole == 1;
}

double Limits::idle_gap_s() {
  constexpr std::chrono::milliseconds length{5};
  world_.barrier();
  if (node_rank_ < usable_cores_)
    return max_over_ranks(world_, idle_gap(length, std::chrono::steady_clock::now).count());
  std::this_thread::sleep_for(
      length);  // a rank that waited in the library would look like a neighbour
  return max_over_ranks(world_, 0);
}

void Limits::measure_flags() {
  flags_measured_ = true;
  if (!one_node_ || world_.size() < 2) return;
  lines_ = share_memory(world_, static_cast<std::size_t>(world_.size()) * sizeof(FlagLine));
  if (!lines_) return;
  auto* const lines =
      reinterpret_cast<FlagLine*>(lines_.data());  // zeroes: a line that has seen no round
  const int rank = world_.rank();
  const int size = world_.size();
  // How long to look before yielding depends on who shares the core; the best of a few is the
  // limit.
  const std::vector<unsigned> looks =
      crowded() ? std::vector<unsigned>{1, 32, 512} : std::vector<unsigned>{4096};
  for (const unsigned looks_per_yield : looks) {
    const double mutual_s = least_round_s(world_, round_, [&](std::uint32_t now) {
      flag_allreduce(lines, rank, size, now, static_cast<std::uint32_t>(rank), looks_per_yield);
    });
    if (!mutual_s_ || mutual_s < *mutual_s_) {
      mutual_s_ = mutual_s;
      looks_per_yield_ = looks_per_yield;
    }
    const int peer = rank ^ 1;
    const double one_way_s =
        0.5 * least_round_s(world_, round_, [&](std::uint32_t now) {
          if (peer < size)
            flag_ping_pong(lines[rank], lines[peer], rank < peer, now, looks_per_yield);
        });
    one_way_s_ = std::min(one_way_s_.value_or(one_way_s), one_way_s);
  }
}

bool Limits::flags_work() {
  if (!flags_measured_) measure_flags();
  return static_cast<bool>(lines_);
}

std::function<void()> Limits::probe(LimitKind kind, Buffers buffers, std::size_t bytes) {
  constexpr std::size_t flag_bytes_max = 64;  // of data that travel beside their flag
  constexpr std::size_t sliced_bytes_min = std::size_t{64} << 10;
  constexpr int sliced_ranks_max = 64;
  const bool is_mutual = kind == LimitKind::mutual || kind == LimitKind::sliced;
  if (!is_mutual || !flags_work()) return {};
  if (bytes <= flag_bytes_max) {
    return [this] {
      flag_allreduce(reinterpret_cast<FlagLine*>(lines_.data()), world_.rank(), world_.size(),
                     ++round_, 1, looks_per_yield_);
    };
  }
  if (kind != LimitKind::sliced || buffers.kind != BufferKind::allocated ||
      bytes < sliced_bytes_min || world_.size() > sliced_ranks_max)
    return {};
  struct Sliced {
    base::Mapping memory;
    SliceProbe probe;
  };
  const std::size_t count = bytes / sizeof(float);
  base::Mapping memory = share_memory(world_, SliceProbe::shared_bytes(world_.size(), count));
  if (!memory) return {};
  const SliceProbe slices{memory.data(), world_.rank(), world_.size(), count, looks_per_yield_};
  const auto sliced = std::make_shared<Sliced>(Sliced{std::move(memory), slices});
  return [sliced] { sliced->probe.run(); };
}

// The least time of a copy of so many bytes, all ranks copying at once, scaled by how many ranks
// share a core: each must get its turn, which one rank's short copies between two ticks do not
// show.
double Limits::copy_s(std::size_t bytes) {
  constexpr double batch_s_min = 20e-6;
  constexpr int batches = 11;
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  std::array<double, batches> samples{};
  std::size_t copies = 1;
  for (int i = 0; i < batches;) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t c = 0; c < copies; ++c) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile(""
                   :
                   : "r"(to.data())
                   : "memory");  // the copy has a reader, as far as the compiler knows
    }
    const double seconds = seconds_since(start);
    if (seconds < batch_s_min) {
      copies *= 2;
      continue;
    }
    samples[static_cast<std::size_t>(i++)] = seconds / static_cast<double>(copies);
  }
  const double ranks_per_core = static_cast<double>(world_.size()) / usable_cores_;
  return max_over_ranks(world_, *std::ranges::min_element(samples)) * std::max(1.0, ranks_per_core);
}

std::optional<double> Limits::least_s(LimitKind kind, std::size_t bytes) {
  if (!flags_work()) return std::nullopt;
  const bool one_way = kind == LimitKind::one_way || kind == LimitKind::streaming;
  const auto flag_s = one_way ? one_way_s_ : mutual_s_;
  if (!flag_s) return std::nullopt;
  if (kind == LimitKind::streaming) {
    constexpr std::size_t copying_bytes_min =
        4096;  // below, the cost of a message is not that of its bytes
    return bytes < copying_bytes_min ? std::nullopt : std::optional{copy_s(bytes)};
  }
  return bytes == 0 ? *flag_s : std::max(*flag_s, copy_s(bytes));
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
#include "bench/harness/slice_probe.hpp"

#include <algorithm>
#include <cstring>

namespace qpmesh::bench {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr int sources_max = 64;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}
std::size_t lines_bytes(int ranks) {
  return whole_pages(static_cast<std::size_t>(ranks) * sizeof(FlagLine));
}

// Two and four sources in one pass without a loop over them; others in blocks that stay in the
// first cache.
[[gnu::always_inline]] inline void add(float* __restrict to, const float* const* from, int sources,
                                       std::size_t count) {
  const float* const a = from[0];
  const float* const b = from[1];
  if (sources == 2) {
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
    return;
  }
  if (sources == 4) {
    const float* const c = from[2];
    const float* const d = from[3];
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i] + c[i] + d[i];
    return;
  }
  constexpr std::size_t block = 2048;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t end = std::min(begin + block, count);
    for (std::size_t i = begin; i < end; ++i) to[i] = a[i] + b[i];
    for (int source = 2; source < sources; ++source) {
      const float* const next = from[source];
      for (std::size_t i = begin; i < end; ++i) to[i] += next[i];
    }
  }
}

using Add = void (*)(float* to, const float* const* from, int sources, std::size_t count);

void add_anywhere(float* to, const float* const* from, int sources, std::size_t count) {
  add(to, from, sources, count);
}
#ifdef __x86_64__
[[gnu::target("avx2")]] void add_avx2(float* to, const float* const* from, int sources,
                                      std::size_t count) {
  add(to, from, sources, count);
}
[[gnu::target("avx512f")]] void add_avx512(float* to, const float* const* from, int sources,
                                           std::size_t count) {
  add(to, from, sources, count);
}
#endif

Add best_add() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return add_avx512;
  if (__builtin_cpu_supports("avx2")) return add_avx2;
#endif
  return add_anywhere;
}

}  // namespace

std::size_t SliceProbe::shared_bytes(int ranks, std::size_t element_count) noexcept {
  return lines_bytes(ranks) +
         2 * static_cast<std::size_t>(ranks) * whole_pages(element_count * sizeof(float));
}

SliceProbe::SliceProbe(std::byte* shared, int rank, int ranks, std::size_t element_count,
                       unsigned looks_per_yield)
    : shared_{shared},
      lines_{
          reinterpret_cast<FlagLine*>(shared)},  // zeroed memory is a line that has seen no round
      rank_{rank},
      ranks_{ranks},
      element_count_{element_count},
      looks_per_yield_{looks_per_yield} {
  // First touched by its owner.
  std::ranges::fill(vector_of(rank, 0), static_cast<float>(rank + 1));
  std::ranges::fill(vector_of(rank, 1), 0.0F);
}

std::span<float> SliceProbe::vector_of(int rank, int which) const noexcept {
  const std::size_t place = 2 * static_cast<std::size_t>(rank) + static_cast<std::size_t>(which);
  std::byte* const data =
      shared_ + lines_bytes(ranks_) + place * whole_pages(element_count_ * sizeof(float));
  return {reinterpret_cast<float*>(data), element_count_};
}

std::size_t SliceProbe::slice_begin(int rank) const noexcept {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const auto before = static_cast<std::size_t>(rank);
  return before * (element_count_ / ranks) + std::min(before, element_count_ % ranks);
}

std::span<float> SliceProbe::slice(int rank, int vector_of_rank, int which) const noexcept {
  return vector_of(vector_of_rank, which)
      .subspan(slice_begin(rank), slice_begin(rank + 1) - slice_begin(rank));
}

void SliceProbe::add_own_slice() noexcept {
  static const Add best = best_add();
  const std::span<float> to = slice(rank_, rank_, 1);
  const float* from[sources_max];  // no more than a probe needs
  for (int source = 0; source < ranks_; ++source) from[source] = slice(rank_, source, 0).data();
  best(to.data(), from, ranks_, to.size());
}

// Three rounds, as any allreduce on memory that its caller owns needs: inputs are there; slices are
// added; nobody reads any more.
void SliceProbe::run() noexcept {
  publish(lines_[rank_], ++round_, 0);
  for (int peer = 0; peer < ranks_; ++peer) await(peer);
  add_own_slice();
  publish(lines_[rank_], ++round_, 0);
  for (int distance = 1; distance < ranks_; ++distance) {
    const int from = (rank_ + distance) % ranks_;
    await(from);
    const std::span<const float> added = slice(from, from, 1);
    std::memcpy(slice(from, rank_, 1).data(), added.data(), added.size_bytes());
  }
  publish(lines_[rank_], ++round_, 0);
  for (int peer = 0; peer < ranks_; ++peer) await(peer);
}

}  // namespace qpmesh::bench

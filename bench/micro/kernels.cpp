// SPDX-License-Identifier: MIT
// Reductions as this processor does them, each beside the scalar kernel of the same reduction.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "bench/micro/probe.hpp"
#include "bench/micro/threads.hpp"
#include "collectives/kernels/reduce.hpp"

namespace qpmesh::bench {
namespace {

using collectives::ReduceKernel;

struct Reduced {
  std::string name;
  ReductionKind kind;
  ElementType type;
};
// The nearest cache, the core's own, the shared one and memory.
struct Size {
  std::string name;
  std::size_t bytes;
};
const Size sizes[] = {
    {"8B", 8}, {"4KiB", 4U << 10}, {"64KiB", 64U << 10}, {"2MiB", 2U << 20}, {"16MiB", 16U << 20}};
constexpr int source_counts[] = {2, 4};

// Of all probes. Sources and target stay the same from sample to sample, so that a size that fits a
// cache is measured in it.
class Vectors {
 public:
  Vectors() : memory_(vector_count * stride) {}

  double reduce_ns(ReduceKernel kernel, int source_count, std::size_t bytes) {
    constexpr std::size_t sample_bytes = std::size_t{1} << 18;
    const std::size_t passes = std::clamp<std::size_t>(sample_bytes / bytes, 1, 4096);
    std::byte* const target = memory_.data();
    std::array<const std::byte*, vector_count - 1> sources;
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i] = target + (i + 1) * stride;
    return elapsed_ns([&] {
             for (std::size_t i = 0; i < passes; ++i)
               kernel(target, sources.data(), source_count, bytes);
           }) /
           static_cast<double>(passes);
  }

 private:
  static constexpr std::size_t vector_count = 5;
  // Not a power of two: lines of all vectors would meet in the same sets of a cache.
  static constexpr std::size_t stride = (std::size_t{16} << 20) + 4160;
  std::vector<std::byte> memory_;
};

}  // namespace

std::vector<Probe> kernel_probes(CorePair cores) {
  const Reduced reductions[] = {{"float32_sum", ReductionKind::sum, ElementType::float32},
                                {"float32_min", ReductionKind::min, ElementType::float32},
                                {"float16_sum", ReductionKind::sum, ElementType::float16},
                                {"bfloat16_sum", ReductionKind::sum, ElementType::bfloat16}};
  const auto vectors = std::make_shared<Vectors>();
  std::vector<Probe> probes;
  for (const auto& [name, kind, type] : reductions) {
    for (const int source_count : source_counts) {
      for (const Size& size : sizes) {
        const std::size_t bytes = size.bytes;
        const auto sample = [=](ReduceKernel kernel) {
          return [=] {
            pin_to(cores.first);
            return vectors->reduce_ns(kernel, source_count, bytes);
          };
        };
        probes.push_back({.name = fmt::format("kernel/{}/{}/{}", name, source_count, size.name),
                          .sample_ns = sample(collectives::reduce_kernel(kind, type)),
                          .bytes = static_cast<double>(bytes) * (source_count + 1),
                          .reference_ns = sample(collectives::scalar_reduce_kernel(kind, type))});
      }
    }
  }
  return probes;
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
#include "collectives/kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "collectives/kernels/operators.hpp"

namespace qpmesh::collectives {

template <class Operator, class T>
void reduce_scalar(std::byte* target, const std::byte* const* sources, int source_count,
                   std::size_t bytes) {
  using C = Computed<T>;
  const std::size_t element_count = bytes / sizeof(T);
  const auto source = [&](int index) { return reinterpret_cast<const T*>(sources[index]); };
  auto* const t = reinterpret_cast<T*>(target);
  if (source_count == 2) {
    const T* const left = source(0);
    const T* const right = source(1);
    for (std::size_t i = 0; i < element_count; ++i)
      t[i] = static_cast<T>(Operator::apply(static_cast<C>(left[i]), static_cast<C>(right[i])));
    return;
  }
  constexpr std::size_t few = 8;
  if (element_count <= few) {
    for (std::size_t i = 0; i < element_count; ++i) {
      C value = static_cast<C>(source(0)[i]);
      for (int index = 1; index < source_count; ++index)
        value = Operator::apply(value, static_cast<C>(source(index)[i]));
      t[i] = static_cast<T>(value);
    }
    return;
  }
  // Some elements at a time, from all sources before the target is touched: it may be one of them.
  constexpr std::size_t part_max = 64;
  C part[part_max];
  for (std::size_t begin = 0; begin < element_count; begin += part_max) {
    const std::size_t count = std::min(part_max, element_count - begin);
    for (std::size_t i = 0; i < count; ++i) part[i] = static_cast<C>(source(0)[begin + i]);
    for (int index = 1; index < source_count; ++index) {
      const T* const right = source(index) + begin;
      for (std::size_t i = 0; i < count; ++i)
        part[i] = Operator::apply(part[i], static_cast<C>(right[i]));
    }
    for (std::size_t i = 0; i < count; ++i) t[begin + i] = static_cast<T>(part[i]);
  }
}

namespace {

// A divisor may not fit the small integer types: 300 ranks, int8.
template <class T>
void divide(std::byte* data, std::size_t element_count, int divisor) {
  using C = Computed<T>;
  using Wide =
      std::conditional_t<std::floating_point<C>, C,
                         std::conditional_t<std::is_signed_v<C>, std::int64_t, std::uint64_t>>;
  auto* const d = reinterpret_cast<T*>(data);
  for (std::size_t i = 0; i < element_count; ++i)
    d[i] = static_cast<T>(static_cast<Wide>(static_cast<C>(d[i])) / static_cast<Wide>(divisor));
}

template <class T>
ReduceKernel kernel_for(ReductionKind kind) noexcept {
  switch (kind) {
    case ReductionKind::sum:
    case ReductionKind::average: return reduce_scalar<Sum, T>;
    case ReductionKind::product: return reduce_scalar<Product, T>;
    case ReductionKind::min: return reduce_scalar<Min, T>;
    case ReductionKind::max: return reduce_scalar<Max, T>;
    case ReductionKind::logical_and: return reduce_scalar<LogicalAnd, T>;
    case ReductionKind::logical_or: return reduce_scalar<LogicalOr, T>;
    case ReductionKind::logical_xor: return reduce_scalar<LogicalXor, T>;
    default: break;
  }
  if constexpr (std::integral<T>) {
    switch (kind) {
      case ReductionKind::bit_and: return reduce_scalar<BitAnd, T>;
      case ReductionKind::bit_or: return reduce_scalar<BitOr, T>;
      case ReductionKind::bit_xor: return reduce_scalar<BitXor, T>;
      default: break;
    }
  }
  return nullptr;
}

constexpr auto kind_count = static_cast<std::size_t>(ReductionKind::logical_xor) + 1;
constexpr auto type_count = static_cast<std::size_t>(ElementType::bfloat16) + 1;
using FastestKernels = std::array<std::array<ReduceKernel, type_count>, kind_count>;

// On this processor. Not inlined: every call of a reduction would save registers for it.
[[gnu::noinline]] FastestKernels fastest_kernels() noexcept {
  FastestKernels kernels;
  for (std::size_t row = 0; row < kind_count; ++row) {
    for (std::size_t column = 0; column < type_count; ++column) {
      const auto kind = static_cast<ReductionKind>(row);
      const auto type = static_cast<ElementType>(column);
      const ReduceKernel vectors = vector_reduce_kernel(kind, type);
      kernels[row][column] = vectors == nullptr ? scalar_reduce_kernel(kind, type) : vectors;
    }
  }
  return kernels;
}

}  // namespace

ReduceKernel reduce_kernel(ReductionKind kind, ElementType type) noexcept {
  // Chosen once: the choice itself costs more than the reduction of a few elements.
  static const FastestKernels fastest = fastest_kernels();
  const auto row = static_cast<std::size_t>(kind);
  const auto column = static_cast<std::size_t>(type);
  if (row >= kind_count || column >= type_count) return nullptr;  // a caller's cast
  return fastest[row][column];
}

ReduceKernel scalar_reduce_kernel(ReductionKind kind, ElementType type) noexcept {
  return with_type(type, ReduceKernel{nullptr}, [kind]<class T>(T) { return kernel_for<T>(kind); });
}

DivideKernel divide_kernel(ElementType type) noexcept {
  return with_type(type, DivideKernel{nullptr},
                   []<class T>(T) -> DivideKernel { return divide<T>; });
}

// The function overwrites its right operand: the result grows from the last source to the first in
// a buffer of its own, some elements at a time, so that no source is damaged and target may be one
// of them.
void Reducer::apply_function(std::byte* target, std::span<const std::byte* const> sources,
                             std::size_t bytes) const {
  constexpr std::size_t buffer_bytes = 4096;
  alignas(16) std::array<std::byte, buffer_bytes> buffer;
  std::unique_ptr<std::byte[]> large_element;  // uninitialised memory
  std::byte* inout = buffer.data();
  std::size_t part_bytes = buffer_bytes / element_bytes * element_bytes;
  if (part_bytes == 0) {
    large_element = std::make_unique_for_overwrite<std::byte[]>(element_bytes);
    inout = large_element.get();
    part_bytes = element_bytes;
  }
  try {
    for (std::size_t begin = 0; begin < bytes; begin += part_bytes) {
      const std::size_t count_bytes = std::min(part_bytes, bytes - begin);
      std::memcpy(inout, sources.back() + begin, count_bytes);
      for (std::size_t left = sources.size() - 1; left-- > 0;)
        function(context, sources[left] + begin, inout, count_bytes / element_bytes);
      std::memcpy(target + begin, inout, count_bytes);
    }
  } catch (...) {
    throw UserFailure{std::current_exception()};
  }
}

}  // namespace qpmesh::collectives

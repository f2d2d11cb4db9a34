#include "collectives/kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "collectives/kernels/operators.hpp"
#include "collectives/kernels/vectors.hpp"

namespace qpmesh::collectives {

template <class Operator, class T>
void reduce_scalar(std::byte* target, const std::byte* const* sources, int source_count,
                   std::size_t bytes) {
  using C = typename Computed<T>::Type;
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
  using C = typename Computed<T>::Type;
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

// f(T{}) for the C++ type of an element type; otherwise none.
template <class Result, class F>
Result with_type(ElementType type, Result none, F&& f) noexcept {
  switch (type) {
    case ElementType::int8: return f(std::int8_t{});
    case ElementType::int16: return f(std::int16_t{});
    case ElementType::int32: return f(std::int32_t{});
    case ElementType::int64: return f(std::int64_t{});
    case ElementType::uint8: return f(std::uint8_t{});
    case ElementType::uint16: return f(std::uint16_t{});
    case ElementType::uint32: return f(std::uint32_t{});
    case ElementType::uint64: return f(std::uint64_t{});
    case ElementType::float32: return f(float{});
    case ElementType::float64: return f(double{});
    case ElementType::float16: return f(float16{});
    case ElementType::bfloat16: return f(bfloat16{});
    case ElementType::none: break;
  }
  return none;
}

// Chosen once for this processor: the choice itself costs more than the reduction of a few
// elements.
class Kernels {
 public:
  Kernels() noexcept {
    for (std::size_t kind = 0; kind < kind_count; ++kind) {
      for (std::size_t type = 0; type < type_count; ++type)
        kernels_[kind][type] =
            fastest(static_cast<ReductionKind>(kind), static_cast<ElementType>(type));
    }
  }
  ReduceKernel of(ReductionKind kind, ElementType type) const noexcept {
    const auto row = static_cast<std::size_t>(kind);
    const auto column = static_cast<std::size_t>(type);
    return row < kind_count && column < type_count ? kernels_[row][column]
                                                   : nullptr;  // a caller's cast
  }

 private:
  static constexpr std::size_t kind_count =
      static_cast<std::size_t>(ReductionKind::logical_xor) + 1;
  static constexpr std::size_t type_count = static_cast<std::size_t>(ElementType::bfloat16) + 1;

  static ReduceKernel fastest(ReductionKind kind, ElementType type) noexcept {
    const ReduceKernel vectors = vector_reduce_kernel(kind, type);
    return vectors == nullptr ? scalar_reduce_kernel(kind, type) : vectors;
  }

  std::array<std::array<ReduceKernel, type_count>, kind_count> kernels_;
};

}  // namespace

ReduceKernel reduce_kernel(ReductionKind kind, ElementType type) noexcept {
  static const Kernels kernels;
  return kernels.of(kind, type);
}

ReduceKernel scalar_reduce_kernel(ReductionKind kind, ElementType type) noexcept {
  return with_type(type, ReduceKernel{nullptr}, [kind]<class T>(T) { return kernel_for<T>(kind); });
}

DivideKernel divide_kernel(ElementType type) noexcept {
  return with_type(type, DivideKernel{nullptr},
                   []<class T>(T) -> DivideKernel { return divide<T>; });
}

std::size_t element_bytes(ElementType type) noexcept {
  return with_type(type, std::size_t{0}, []<class T>(T) { return sizeof(T); });
}

}  // namespace qpmesh::collectives

// SPDX-License-Identifier: MIT
#include <concepts>
#include <cstdint>

#include "collectives/kernels/operators.hpp"
#include "collectives/kernels/reduce.hpp"

// AVX2, AVX-512 (AVX3 in Highway's words) and NEON. What the compiler makes of scalar code is as
// good as SSE; SVE's vectors have no size that the compiler knows, and cannot be members of a
// struct.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_TARGET_INCLUDE "collectives/kernels/vectors.cpp"
#include <hwy/foreach_target.h>  // includes this file once for each target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace qpmesh::collectives::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE2

ReduceKernel kernel_of(ReductionKind /*kind*/, ElementType /*type*/) { return nullptr; }

#else

namespace hn = hwy::HWY_NAMESPACE;

// One of Highway's functions.
#define QPMESH_VECTOR_OPERATOR(Name, function) \
  struct Vector##Name {                        \
    using Scalar = Name;                       \
    template <class D, class V = hn::Vec<D>>   \
    static V apply(D /*d*/, V left, V right) { \
      return hn::function(left, right);        \
    }                                          \
  };
QPMESH_VECTOR_OPERATOR(Sum, Add)
QPMESH_VECTOR_OPERATOR(Product, Mul)
QPMESH_VECTOR_OPERATOR(BitAnd, And)
QPMESH_VECTOR_OPERATOR(BitOr, Or)
QPMESH_VECTOR_OPERATOR(BitXor, Xor)
#undef QPMESH_VECTOR_OPERATOR

struct VectorMin {
  using Scalar = Min;
  template <class D, class V = hn::Vec<D>>
  static V apply(D /*d*/, V left, V right) {
    if constexpr (std::floating_point<hn::TFromD<D>>) {
      // Highway's Min is not the same on all targets for NaN and -0. Neither is less: both are
      // equal or zeros, of which a set sign stays, or one is NaN, of which all bits that make it
      // one stay.
      const V neither = hn::Or(left, right);
      return hn::IfThenElse(hn::Lt(left, right), left,
                            hn::IfThenElse(hn::Lt(right, left), right, neither));
    } else {
      return hn::Min(left, right);
    }
  }
};
struct VectorMax {
  using Scalar = Max;
  template <class D, class V = hn::Vec<D>>
  static V apply(D d, V left, V right) {
    if constexpr (std::floating_point<hn::TFromD<D>>) {
      // As for min; a sign stays when both have it.
      const V sign = hn::And(hn::Xor(left, right), hn::SignBit(d));
      const V neither = hn::AndNot(sign, hn::Or(left, right));
      return hn::IfThenElse(hn::Lt(right, left), left,
                            hn::IfThenElse(hn::Lt(left, right), right, neither));
    } else {
      return hn::Max(left, right);
    }
  }
};

// How a vector in memory is held while it is computed with. Each has load, store and combine for
// vectors of `bytes`.
template <class T, std::size_t lanes_max>
struct Numbers {
  using Element = T;
  using D = hn::CappedTag<T, lanes_max>;
  using Held = hn::Vec<D>;
  static constexpr std::size_t bytes = hn::MaxLanes(D{}) * sizeof(T);

  static Held load(const std::byte* from) {
    return hn::LoadU(D{}, reinterpret_cast<const T*>(from));
  }
  static void store(const Held& held, std::byte* to) {
    hn::StoreU(held, D{}, reinterpret_cast<T*>(to));
  }
  template <class Operator>
  static Held combine(const Held& left, const Held& right) {
    return Operator::apply(D{}, left, right);
  }
};

// Elements of 16 bits as floats, in two vectors.
template <std::size_t lanes_max>
struct Floats {
  using D = hn::CappedTag<float, lanes_max / 2>;
  struct Held {
    Held() {}  // the implicit one knows nothing of the target
    Held(hn::Vec<D> first, hn::Vec<D> second) : a{first}, b{second} {}
    hn::Vec<D> a;
    hn::Vec<D> b;
  };
  static constexpr std::size_t bytes = hn::MaxLanes(D{}) * sizeof(float);

  template <class Operator>
  static Held combine(const Held& left, const Held& right) {
    return {Operator::apply(D{}, left.a, right.a), Operator::apply(D{}, left.b, right.b)};
  }
};

// a: the first half of the vector, b: the second. These targets have instructions for it that round
// to nearest even.
template <std::size_t lanes_max>
struct Float16s : Floats<lanes_max> {
  using Base = Floats<lanes_max>;
  using typename Base::D;
  using typename Base::Held;
  using Element = float16;
  using D16 = hn::Rebind<hwy::float16_t, D>;

  static Held load(const std::byte* from) {
    const auto* const halves = reinterpret_cast<const hwy::float16_t*>(from);
    return {hn::PromoteTo(D{}, hn::LoadU(D16{}, halves)),
            hn::PromoteTo(D{}, hn::LoadU(D16{}, halves + hn::MaxLanes(D{})))};
  }
  static void store(const Held& held, std::byte* to) {
    auto* const halves = reinterpret_cast<hwy::float16_t*>(to);
    hn::StoreU(hn::DemoteTo(D16{}, held.a), D16{}, halves);
    hn::StoreU(hn::DemoteTo(D16{}, held.b), D16{}, halves + hn::MaxLanes(D{}));
  }
};

// a: elements 0, 2, 4, …, b: elements 1, 3, 5, …, so that nothing changes its place. Highway's own
// conversion truncates.
template <std::size_t lanes_max>
struct Bfloat16s : Floats<lanes_max> {
  using Base = Floats<lanes_max>;
  using typename Base::D;
  using typename Base::Held;
  using Element = bfloat16;
  using D32 = hn::RebindToUnsigned<D>;
  using V32 = hn::Vec<D32>;

  static V32 upper_halves() { return hn::Set(D32{}, 0xffff0000U); }
  static Held load(const std::byte* from) {
    const V32 pairs = hn::LoadU(D32{}, reinterpret_cast<const std::uint32_t*>(from));
    return {hn::BitCast(D{}, hn::ShiftLeft<16>(pairs)),
            hn::BitCast(D{}, hn::And(pairs, upper_halves()))};
  }
  static void store(const Held& held, std::byte* to) {
    const V32 pairs =
        hn::Or(hn::ShiftRight<16>(rounded(held.a)), hn::And(rounded(held.b), upper_halves()));
    hn::StoreU(pairs, D32{}, reinterpret_cast<std::uint32_t*>(to));
  }
  // Its upper half is the nearest bfloat16; the lower one is left over.
  static V32 rounded(hn::Vec<D> value) {
    const V32 word = hn::BitCast(D32{}, value);
    const V32 odd = hn::And(hn::ShiftRight<16>(word), hn::Set(D32{}, 1));
    const V32 nearest = hn::Add(word, hn::Add(odd, hn::Set(D32{}, 0x7fff)));
    const V32 quiet = hn::Or(word, hn::Set(D32{}, 0x400000));
    const auto is_nan = hn::RebindMask(D32{}, hn::Ne(value, value));
    return hn::IfThenElse(is_nan, quiet, nearest);
  }
};

template <class T, std::size_t lanes_max>
using FormatOf = std::conditional_t<
    std::is_same_v<T, float16>, Float16s<lanes_max>,
    std::conditional_t<std::is_same_v<T, bfloat16>, Bfloat16s<lanes_max>, Numbers<T, lanes_max>>>;

// What is left behind the whole vectors is done with one more, which overlaps the last of them.
// Target may be a source: so that one is computed before anything is stored.

// Two sources, at least one vector long.
template <class Operator, class Format>
void reduce_two(std::byte* target, const std::byte* left, const std::byte* right,
                std::size_t bytes) {
  const auto reduced = [=](std::size_t at) {
    return Format::template combine<Operator>(Format::load(left + at), Format::load(right + at));
  };
  const std::size_t last = bytes - Format::bytes;
  const auto last_reduced = reduced(last);
#pragma GCC unroll 4
  for (std::size_t at = 0; at < last; at += Format::bytes) Format::store(reduced(at), target + at);
  Format::store(last_reduced, target + last);
}

// Any number of sources, at least one vector long; blocks of vectors for as long as it lasts.
template <class Operator, class Format, std::size_t block_vectors>
void reduce_many(std::byte* target, const std::byte* const* sources, int source_count,
                 std::size_t bytes) {
  using Held = typename Format::Held;
  const auto reduced = [=](std::size_t at) {
    Held held = Format::load(sources[0] + at);
    for (int index = 1; index < source_count; ++index)
      held = Format::template combine<Operator>(held, Format::load(sources[index] + at));
    return held;
  };
  const std::size_t last = bytes - Format::bytes;
  const Held last_reduced = reduced(last);
  std::size_t at = 0;
  if constexpr (block_vectors > 1) {
    constexpr std::size_t block_bytes = block_vectors * Format::bytes;
    for (; at + block_bytes <= bytes; at += block_bytes) {
      Held held[block_vectors];
      for (std::size_t i = 0; i < block_vectors; ++i)
        held[i] = Format::load(sources[0] + at + i * Format::bytes);
      for (int index = 1; index < source_count; ++index) {
        const std::byte* const source = sources[index] + at;
        for (std::size_t i = 0; i < block_vectors; ++i)
          held[i] =
              Format::template combine<Operator>(held[i], Format::load(source + i * Format::bytes));
      }
      for (std::size_t i = 0; i < block_vectors; ++i)
        Format::store(held[i], target + at + i * Format::bytes);
    }
  }
  for (; at < last; at += Format::bytes) Format::store(reduced(at), target + at);
  Format::store(last_reduced, target + last);
}

template <class Operator, class T>
void reduce(std::byte* target, const std::byte* const* sources, int source_count,
            std::size_t bytes) {
  // Two sources come from memory faster in vectors of half a cache line, more of them in whole
  // lines (measured).
  using Pair = FormatOf<T, 32 / sizeof(T)>;
  using Full = FormatOf<T, 64 / sizeof(T)>;
  using Short = FormatOf<T, 16 / sizeof(T)>;
  if (source_count == 2 && bytes >= Pair::bytes)
    return reduce_two<Operator, Pair>(target, sources[0], sources[1], bytes);
  if (bytes >= Full::bytes)
    return reduce_many<Operator, Full, 4>(target, sources, source_count, bytes);
  if constexpr (Full::bytes > Short::bytes) {
    if (bytes >= Short::bytes)
      return reduce_many<Operator, Short, 1>(target, sources, source_count, bytes);
  }
  reduce_scalar<typename Operator::Scalar, T>(target, sources, source_count, bytes);
}

template <class T>
ReduceKernel float_kernel(ReductionKind kind) noexcept {
  switch (kind) {
    case ReductionKind::sum:
    case ReductionKind::average: return reduce<VectorSum, T>;
    case ReductionKind::product: return reduce<VectorProduct, T>;
    case ReductionKind::min: return reduce<VectorMin, T>;
    case ReductionKind::max: return reduce<VectorMax, T>;
    default: return nullptr;
  }
}

// Only the order of integers knows their sign, and the bits not even their length.
template <class T>
ReduceKernel integer_kernel(ReductionKind kind) noexcept {
  using Unsigned = std::make_unsigned_t<T>;
  switch (kind) {
    case ReductionKind::sum:
    case ReductionKind::average: return reduce<VectorSum, Unsigned>;
    case ReductionKind::product:
      if constexpr (sizeof(T) == 2 || sizeof(T) == 4) return reduce<VectorProduct, Unsigned>;
      else return nullptr;  // no instruction on these targets
    case ReductionKind::min: return reduce<VectorMin, T>;
    case ReductionKind::max: return reduce<VectorMax, T>;
    case ReductionKind::bit_and: return reduce<VectorBitAnd, std::uint8_t>;
    case ReductionKind::bit_or: return reduce<VectorBitOr, std::uint8_t>;
    case ReductionKind::bit_xor: return reduce<VectorBitXor, std::uint8_t>;
    default: return nullptr;
  }
}

ReduceKernel kernel_of(ReductionKind kind, ElementType type) {
  return with_type(type, ReduceKernel{nullptr}, [kind]<class T>(T) {
    if constexpr (std::integral<T>) return integer_kernel<T>(kind);
    else return float_kernel<T>(kind);
  });
}

#endif

}  // namespace qpmesh::collectives::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qpmesh::collectives {

HWY_EXPORT(kernel_of);

ReduceKernel vector_reduce_kernel(ReductionKind kind, ElementType type) noexcept {
  return HWY_DYNAMIC_DISPATCH(kernel_of)(kind, type);
}

}  // namespace qpmesh::collectives
#endif

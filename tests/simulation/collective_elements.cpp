// SPDX-License-Identifier: MIT
// The element types of the generated cases.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/bytes.hpp"
#include "simulation/collective_case.hpp"
#include "support/reference_reduction.hpp"

namespace qpmesh::test {
namespace {

// Maps x -> slope x + offset, twice: composing them is associative and depends on the order. Their
// lengths are no powers of two.
template <class Word>
struct Affine {
  Word slope;
  Word offset;
  Word other_offset;

  static Affine compose(const Affine& first, const Affine& second) noexcept {
    return {static_cast<Word>(first.slope * second.slope),
            static_cast<Word>(second.slope * first.offset + second.offset),
            static_cast<Word>(second.slope * first.other_offset + second.other_offset)};
  }
  static Affine add(const Affine& a, const Affine& b) noexcept {
    return {a.slope + b.slope, a.offset + b.offset, a.other_offset ^ b.other_offset};
  }
};
template <class T>
inline constexpr bool is_affine = false;
template <class Word>
inline constexpr bool is_affine<Affine<Word>> = true;

// What sums and products are exact of, in any order and in every type.
float exact_value(const CollectiveCase& one, int size, int rank, std::size_t i,
                  std::uint64_t word) {
  if (one.reduction.kind == ReductionKind::product) {
    const bool doubles = i % static_cast<std::size_t>(size) == static_cast<std::size_t>(rank);
    return (word & 1 ? 1.0F : -1.0F) * (doubles ? 2.0F : 1.0F);
  }
  if (word % 5 == 0) return word & 8 ? 0.0F : -0.0F;
  const auto most =
      static_cast<std::uint64_t>(size < 40 ? 3 : 1);  // sums that bfloat16 holds: below 256
  return static_cast<float>(static_cast<int>(word % (2 * most + 1)) - static_cast<int>(most));
}

template <class T>
T value(const CollectiveCase& one, int size, int rank, std::size_t i) {
  const std::uint64_t word =
      base::mix64(one.seed ^ base::mix64(static_cast<std::uint64_t>(rank) << 40 ^ i));
  if constexpr (is_affine<T>) {
    using Word = decltype(T::slope);
    return {static_cast<Word>(word | 1), static_cast<Word>(word >> 7),
            static_cast<Word>(word >> 13)};
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(word % 5 == 0 ? 0 : word >> 8);
  } else if (!one.exact) {
    return static_cast<T>(0.5F + static_cast<float>(word >> 40) * 0x1p-24F);
  } else {
    return static_cast<T>(exact_value(one, size, rank, i, word));
  }
}

template <class T>
T element(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}
template <class T>
void set(std::byte* bytes, std::size_t i, T value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

template <class T>
void fill(const CollectiveCase& one, int size, int rank, std::size_t first,
          std::span<std::byte> target) {
  for (std::size_t i = 0; i < target.size() / sizeof(T); ++i)
    set(target.data(), i, value<T>(one, size, rank, first + i));
}

template <class T>
void combine(const CollectiveCase& one, std::span<std::byte> left, const std::byte* right) {
  for (std::size_t i = 0; i < left.size() / sizeof(T); ++i) {
    const T l = element<T>(left.data(), i);
    const T r = element<T>(right, i);
    if constexpr (is_affine<T>)
      set(left.data(), i,
          one.reduction.function == Function::ordered ? T::compose(l, r) : T::add(l, r));
    else set(left.data(), i, reference(one.reduction.kind, l, r));
  }
}

template <class T>
void divide(std::span<std::byte> data, int divisor) {
  if constexpr (!is_affine<T>) {
    for (std::size_t i = 0; i < data.size() / sizeof(T); ++i) {
      const T sum = element<T>(data.data(), i);
      if constexpr (is_half<T>)
        set(data.data(), i, T{static_cast<float>(sum) / static_cast<float>(divisor)});
      else if constexpr (std::floating_point<T>) set(data.data(), i, sum / static_cast<T>(divisor));
      else if constexpr (std::is_signed_v<T>)
        set(data.data(), i, static_cast<T>(static_cast<std::int64_t>(sum) / divisor));
      else
        set(data.data(), i,
            static_cast<T>(static_cast<std::uint64_t>(sum) / static_cast<std::uint64_t>(divisor)));
    }
  }
}

template <class T>
bool near(std::span<const std::byte> a, const std::byte* b, int size) {
  if constexpr (is_half<T> || std::floating_point<T>) {
    // Every addition rounds by half of the last place of a sum of positive numbers.
    const double epsilon = std::same_as<T, bfloat16>  ? 0x1p-7
                           : std::same_as<T, float16> ? 0x1p-10
                           : std::same_as<T, float>   ? 0x1p-23
                                                      : 0x1p-52;
    for (std::size_t i = 0; i < a.size() / sizeof(T); ++i) {
      const auto x = static_cast<double>(
          static_cast<std::conditional_t<is_half<T>, float, T>>(element<T>(a.data(), i)));
      const auto y = static_cast<double>(
          static_cast<std::conditional_t<is_half<T>, float, T>>(element<T>(b, i)));
      if (!(std::abs(x - y) <= epsilon * size * std::abs(y))) return false;
    }
    return true;
  } else {
    return std::memcmp(a.data(), b, a.size()) == 0;
  }
}

// The type's one kind of reduction: the library's, or a function.
template <class T>
auto reduction_of(const CollectiveCase& one) {
  if constexpr (is_affine<T>) {
    using F = void (*)(const T*, T*, std::size_t);
    const bool ordered_one = one.reduction.function == Function::ordered;
    const F composes = [](const T* left, T* inout, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) inout[i] = T::compose(left[i], inout[i]);
    };
    const F adds = [](const T* left, T* inout, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) inout[i] = T::add(left[i], inout[i]);
    };
    return ordered_one ? ordered(composes) : commutative(adds);
  } else {
    return Reduction{one.reduction.kind};
  }
}

template <class T>
Request start(Communicator& communicator, const CollectiveCase& one, const Ranges& ranges) {
  const std::span<const T> in{reinterpret_cast<const T*>(ranges.in.data()),
                              ranges.in.size() / sizeof(T)};
  const std::span<T> out{reinterpret_cast<T*>(ranges.out.data()), ranges.out.size() / sizeof(T)};
  const bool v = one.layout != Layout::none;
  const int root = one.root;
  const auto op = reduction_of<T>(one);
  const CallOptions call{.algorithm = one.row->name};
  switch (one.row->collective) {
    case Collective::barrier: return communicator.barrier_async(call);
    case Collective::broadcast: return communicator.broadcast_async(out, root, call);
    case Collective::reduce: return communicator.reduce_async(in, out, op, root, call);
    case Collective::allreduce: return communicator.allreduce_async(in, out, op, call);
    case Collective::scan: return communicator.scan_async(in, out, op, call);
    case Collective::exscan: return communicator.exscan_async(in, out, op, call);
    case Collective::reduce_scatter:
      return v ? communicator.reduce_scatter_async(blocks(in, ranges.in_layout), out, op, call)
               : communicator.reduce_scatter_async(in, out, op, call);
    case Collective::allgather:
      return v ? communicator.allgather_async(in, blocks(out, ranges.out_layout), call)
               : communicator.allgather_async(in, out, call);
    case Collective::gather:
      return v ? communicator.gather_async(in, blocks(out, ranges.out_layout), root, call)
               : communicator.gather_async(in, out, root, call);
    case Collective::scatter:
      return v ? communicator.scatter_async(blocks(in, ranges.in_layout), out, root, call)
               : communicator.scatter_async(in, out, root, call);
    case Collective::alltoall:
      return v ? communicator.alltoall_async(blocks(in, ranges.in_layout),
                                             blocks(out, ranges.out_layout), call)
               : communicator.alltoall_async(in, out, call);
  }
  return {};
}

template <class T>
constexpr Element element_of(std::string_view name) {
  return {name,       sizeof(T), std::integral<T>, is_affine<T>, fill<T>,
          combine<T>, divide<T>, near<T>,          start<T>};
}

constexpr std::array all{element_of<std::int8_t>("int8"),
                         element_of<std::int16_t>("int16"),
                         element_of<std::int32_t>("int32"),
                         element_of<std::int64_t>("int64"),
                         element_of<std::uint8_t>("uint8"),
                         element_of<std::uint16_t>("uint16"),
                         element_of<std::uint32_t>("uint32"),
                         element_of<std::uint64_t>("uint64"),
                         element_of<float>("float32"),
                         element_of<double>("float64"),
                         element_of<float16>("float16"),
                         element_of<bfloat16>("bfloat16"),
                         element_of<Affine<std::uint32_t>>("12 bytes"),
                         element_of<Affine<std::uint64_t>>("24 bytes")};

}  // namespace

std::span<const Element> elements() { return all; }

}  // namespace qpmesh::test

// SPDX-License-Identifier: MIT
// Vectors that are cut into a block for each rank, of lengths of their own: what makes a v-form.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "qpmesh/collective.hpp"
#include "qpmesh/detail/standard.hpp"
#include "qpmesh/detail/untyped.hpp"
#include "qpmesh/element.hpp"

namespace qpmesh {

// Block r is rank r's. blocks() makes them. The memory is the caller's, as that of any range; the
// lists of counts are read during the call only.
template <class T>
class Blocks {
 public:
  // A vector, and how it is cut.
  Blocks(std::span<T> all, const BlockLayout& layout) noexcept
      : data_{all.data()}, size_{all.size()}, layout_{layout, false} {}
  // A range for each block.
  explicit Blocks(std::span<const std::span<T>> ranges) {
    std::uintptr_t first = UINTPTR_MAX;  // in memory
    for (const std::span<T> range : ranges) {
      if (range.empty() || address_of(range) >= first) continue;
      first = address_of(range);
      data_ = range.data();
    }
    lists_.reserve(2 * ranges.size());
    for (const std::span<T> range : ranges) {
      size_ += range.size();
      lists_.push_back(range.size());
    }
    for (const std::span<T> range : ranges)
      lists_.push_back(range.empty() ? 0 : address_of(range) - first);
    const std::span<const std::size_t> lists{lists_};
    layout_ = {{lists.first(ranges.size()), lists.last(ranges.size())}, true};
  }
  // A vector, and equal blocks of it.
  Blocks(std::span<T> all, const BlockStride& equal)
      : data_{all.data()}, size_{all.size()}, lists_(2 * equal.block_count, equal.block_elements) {
    for (std::size_t block = 0; block < equal.block_count; ++block)
      lists_[equal.block_count + block] = block * equal.stride_elements;
    const std::span<const std::size_t> lists{lists_};
    layout_ = {{lists.first(equal.block_count), lists.last(equal.block_count)}, false};
  }
  // A vector, and lists of other integers that say how it is cut: they are copied.
  template <std::ranges::sized_range C, std::ranges::sized_range D>
  Blocks(std::span<T> all, const C& counts, const D& displacements)
      : data_{all.data()}, size_{all.size()} {
    lists_.reserve(std::ranges::size(counts) + std::ranges::size(displacements));
    for (const auto count : counts) lists_.push_back(static_cast<std::size_t>(count));
    for (const auto begin : displacements) lists_.push_back(static_cast<std::size_t>(begin));
    const std::span<const std::size_t> lists{lists_};
    layout_ = {{lists.first(std::ranges::size(counts)), lists.subspan(std::ranges::size(counts))},
               false};
  }
  Blocks(Blocks&&) noexcept = default;
  Blocks& operator=(Blocks&&) noexcept = default;
  ~Blocks() = default;

  // Where the first one begins in memory, how many elements they have together, and how they lie.
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  const detail::AnyLayout& layout() const noexcept { return layout_; }

 private:
  static std::uintptr_t address_of(std::span<T> range) noexcept {
    return reinterpret_cast<std::uintptr_t>(range.data());
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  detail::AnyLayout layout_{};
  std::vector<std::size_t> lists_{};  // of the layout, where it is not the caller's
};

namespace detail {

template <class R>
inline constexpr bool is_blocks = false;
template <class T>
inline constexpr bool is_blocks<Blocks<T>> = true;

template <class R>
concept BlocksOf = is_blocks<std::remove_cvref_t<R>>;

template <BlocksOf R>
struct ElementOf<R> {
  using reference = decltype(*std::declval<const R&>().data());
  using type = std::remove_cvref_t<reference>;
};

template <class T>
ConstElements const_elements(const Blocks<T>& blocks) {
  using E = std::remove_const_t<T>;
  return {blocks.data(), blocks.size(), sizeof(E), element_type_of<E>()};
}
template <class T>
Elements elements(Blocks<T>& blocks) {
  return {blocks.data(), blocks.size(), sizeof(T), element_type_of<T>()};
}

template <class R>
const AnyLayout* layout_of(const R& data) noexcept {
  if constexpr (is_blocks<R>) return &data.layout();
  else return nullptr;
}

template <class L>
concept CutOf = std::same_as<L, BlockLayout> || std::same_as<L, BlockStride>;

// Of counts or displacements that are no std::size_t, as programs of MPI have them.
template <class L>
concept OtherIntegers = std::ranges::forward_range<L> && std::ranges::sized_range<L> &&
                        std::integral<std::ranges::range_value_t<L>> &&
                        !std::same_as<std::ranges::range_value_t<L>, std::size_t>;

template <class R>
using range_element_t = std::remove_reference_t<std::ranges::range_reference_t<R>>;

}  // namespace detail

// counts[r] elements for rank r, one block behind the other, or each from its displacement on.
template <detail::ElementRange R>
  requires std::ranges::borrowed_range<R>
Blocks<detail::range_element_t<R>> blocks(R&& all, std::span<const std::size_t> counts,
                                          std::span<const std::size_t> displacements = {}) {
  return {std::span<detail::range_element_t<R>>{all}, BlockLayout{counts, displacements}};
}
// The same with lists of int and its like, which are copied. A negative one is as much too large.
template <detail::ElementRange R, detail::OtherIntegers C,
          detail::OtherIntegers D = std::span<const int>>
  requires std::ranges::borrowed_range<R>
Blocks<detail::range_element_t<R>> blocks(R&& all, const C& counts, const D& displacements = {}) {
  return {std::span<detail::range_element_t<R>>{all}, counts, displacements};
}
// As the layout says, or the stride.
template <detail::ElementRange R, detail::CutOf L>
  requires std::ranges::borrowed_range<R>
Blocks<detail::range_element_t<R>> blocks(R&& all, const L& layout) {
  return {std::span<detail::range_element_t<R>>{all}, layout};
}
// A range for each rank, wherever they lie: nobody copies them together. On ranks whose blocks say
// nothing the list may be empty.
template <std::ranges::forward_range L>
  requires detail::ElementRange<std::ranges::range_reference_t<L>>
auto blocks(L&& ranges) {
  using T = detail::range_element_t<std::ranges::range_reference_t<L>>;
  std::vector<std::span<T>> list;
  list.reserve(static_cast<std::size_t>(std::ranges::distance(ranges)));
  for (auto&& range : ranges) list.emplace_back(range);
  return Blocks<T>{std::span<const std::span<T>>{list}};
}

// What a v-form sends, also when the call's expression is over, and what it receives into: blocks,
// or a range of equal ones.
template <class S>
concept BlockSource = Source<S> || detail::BlocksOf<S>;
template <class S>
concept LastingBlockSource = LastingSource<S> || detail::BlocksOf<S>;
template <class T>
concept BlockTarget =
    Target<T> ||
    (detail::BlocksOf<T> &&
     !std::is_const_v<std::remove_reference_t<typename detail::ElementOf<T>::reference>>);

}  // namespace qpmesh

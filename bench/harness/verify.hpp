// SPDX-License-Identifier: MIT
// Reference data. Inputs are a hash of (seed, rank, index), so any rank can compute what any other
// put in, and a byte that went to the wrong place has the wrong value. Outputs are poisoned before
// a checked run, so that a call that does nothing is wrong everywhere.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace qpmesh::bench {

// The finaliser of SplitMix64: every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

constexpr std::uint64_t hash_of(std::uint64_t seed, int rank, std::size_t index) noexcept {
  return mix(mix((seed << 32) + static_cast<std::uint64_t>(rank)) + index * 0x9e3779b97f4a7c15U);
}

// Values that no poison looks like. Floats are whole numbers from -8 to 7: any order
// of summing 2^20 ranks gives the same bits.
template <class T>
constexpr T input_value(std::uint64_t seed, int rank, std::size_t index) noexcept {
  const std::uint64_t hash = hash_of(seed, rank, index);
  if constexpr (std::floating_point<T>) {
    return static_cast<T>(static_cast<int>(hash >> 60) - 8);
  } else {
    static_assert(std::same_as<T, std::uint32_t>);
    return static_cast<T>(((hash >> 32) * 0xffffffffU) >> 32);  // all but the largest
  }
}

template <class T>
void fill_inputs(std::span<T> inputs, std::uint64_t seed, int rank) noexcept {
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = input_value<T>(seed, rank, i);
}

// All bits set: the largest integer, or a NaN; neither is an input nor a sum of inputs.
template <class T>
void poison(std::span<T> outputs) noexcept {
  if (!outputs.empty()) std::memset(static_cast<void*>(outputs.data()), 0xff, outputs.size_bytes());
}

// Elements whose bits differ from expected(index).
template <class T, class Expected>
std::size_t count_wrong(std::span<const T> outputs, Expected expected) noexcept {
  using Bits = std::conditional_t<sizeof(T) == sizeof(std::uint16_t), std::uint16_t, std::uint32_t>;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const T value = expected(i);
    wrong += std::bit_cast<Bits>(outputs[i]) == std::bit_cast<Bits>(value) ? 0U : 1U;
  }
  return wrong;
}

// What the sum over ranks first … last-1 has at this index.
float sum_of_inputs(std::uint64_t seed, int first, int last, std::size_t index) noexcept;

// What --corrupt does: inverts one byte, which one depends on the seed.
void flip_one_byte(std::span<std::byte> output, std::uint64_t seed) noexcept;

}  // namespace qpmesh::bench

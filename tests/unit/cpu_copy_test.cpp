// SPDX-License-Identifier: MIT
// Copies of vectors: every byte, and none beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/cpu_copy.hpp"

namespace {

using namespace qpmesh::base;

constexpr std::size_t area_page_bytes = 4096;
constexpr std::size_t guard_bytes = 64;
constexpr std::byte guard{0xa5};

using Copy = void (*)(void*, const void*, std::size_t) noexcept;

// Two areas that begin on a page, with room around what is copied.
class Areas {
 public:
  explicit Areas(std::size_t bytes_max)
      : room_{bytes_max + 2 * area_page_bytes}, memory_(2 * room_ + area_page_bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    const std::size_t skipped = -begin % area_page_bytes;
    source_ = memory_.data() + skipped;
    // Whole pages apart: offsets are what they are said to be.
    target_ = source_ + room_ / area_page_bytes * area_page_bytes;
    std::uint32_t state = 1;
    std::generate_n(source_, room_ / area_page_bytes * area_page_bytes, [&] {
      state = state * 1664525 + 1013904223;
      return static_cast<std::byte>(state >> 24);
    });
  }

  // How many bytes of the target, or beside it, are not what they must be.
  std::ptrdiff_t wrong(Copy copy, std::size_t source_offset, std::size_t target_offset,
                       std::size_t bytes) {
    const std::byte* const from = source_ + source_offset;
    std::byte* const before = target_ + target_offset;
    std::byte* const to = before + guard_bytes;
    std::fill_n(before, bytes + 2 * guard_bytes, guard);
    copy(to, from, bytes);
    std::ptrdiff_t count = std::count(before, to, guard);
    count += std::count(to + bytes, to + bytes + guard_bytes, guard);
    count = 2 * static_cast<std::ptrdiff_t>(guard_bytes) - count;
    for (std::size_t i = 0; i < bytes; ++i) count += to[i] != from[i] ? 1 : 0;
    return count;
  }

 private:
  std::size_t room_;
  std::vector<std::byte> memory_;
  std::byte* source_;
  std::byte* target_;
};

class CopyOfVectors : public testing::TestWithParam<Copy> {};

INSTANTIATE_TEST_SUITE_P(cpu_copy, CopyOfVectors, testing::Values(&copy_bytes, &copy_streaming),
                         [](const auto& copy) { return copy.index == 0 ? "bytes" : "streaming"; });

TEST_P(CopyOfVectors, moves_every_small_length) {
  Areas areas{1024};
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
    for (std::size_t offset = 0; offset < 65; ++offset)
      ASSERT_EQ(0, areas.wrong(GetParam(), 3, offset, bytes)) << bytes << " at +" << offset;
  }
}

TEST_P(CopyOfVectors, moves_every_length_at_which_the_loop_begins) {
  Areas areas{4096};
  for (std::size_t bytes = copy_loop_bytes_min - 2; bytes < copy_loop_bytes_min + 160; ++bytes) {
    for (const std::size_t source : {0U, 1U, 16U, 31U, 63U}) {
      for (const std::size_t target : {0U, 1U, 15U, 32U, 63U})
        ASSERT_EQ(0, areas.wrong(GetParam(), source, target, bytes))
            << bytes << " from +" << source << " to +" << target;
    }
  }
}

TEST_P(CopyOfVectors, moves_between_any_two_offsets_of_a_line) {
  Areas areas{4096};
  for (std::size_t source = 0; source < 65; ++source) {
    for (std::size_t target = 0; target < 65; ++target)
      ASSERT_EQ(0, areas.wrong(GetParam(), source, target, copy_loop_bytes_min + 777))
          << "from +" << source << " to +" << target;
  }
}

TEST_P(CopyOfVectors, moves_what_is_longer_than_its_loop) {
  Areas areas{copy_loop_bytes_max + area_page_bytes};
  for (const std::size_t bytes : {copy_loop_bytes_max, copy_loop_bytes_max + 1}) {
    for (const std::size_t source : {0U, 32U}) {  // the target is 48, 32, 64 or 80 bytes behind
      for (const std::size_t target : {0U, 16U})
        ASSERT_EQ(0, areas.wrong(GetParam(), source, target, bytes))
            << bytes << " from +" << source << " to +" << target;
    }
  }
}

}  // namespace

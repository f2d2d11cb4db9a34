// SPDX-License-Identifier: MIT
// Libraries that are opened at run time: all of one, or none of it and the reason.
#include "base/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace qpmesh::base {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void* first = nullptr;
void* second = nullptr;

constexpr LibrarySymbol cosine{"cos", [](void* address) noexcept { first = address; }};
constexpr LibrarySymbol unknown{"no_such_function",
                                [](void* address) noexcept { second = address; }};

TEST(a_library, is_opened_with_its_symbols) {
  first = nullptr;
  EXPECT_EQ(open_library("libm.so.6", std::array{cosine}), "");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(first)(0.0), 1.0);
}

TEST(a_library_that_is_not_installed, is_told_by_its_name) {
  first = nullptr;
  EXPECT_THAT(open_library("libno_such_library.so.7", std::array{cosine}),
              HasSubstr("libno_such_library.so.7"));
  EXPECT_EQ(first, nullptr);
}

TEST(a_library_that_lacks_a_symbol, is_told_with_it_and_no_other_symbol_is_set) {
  first = second = nullptr;
  EXPECT_THAT(open_library("libm.so.6", std::array{cosine, unknown}),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("no_such_function")));
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(second, nullptr);
}

TEST(a_library_that_lacks_a_later_symbol, is_opened_without_it) {
  first = nullptr;
  second = &first;
  LibrarySymbol later = unknown;
  later.required = false;
  EXPECT_EQ(open_library("libm.so.6", std::array{cosine, later}), "");
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(second, nullptr);
}

}  // namespace
}  // namespace qpmesh::base

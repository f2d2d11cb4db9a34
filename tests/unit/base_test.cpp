#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace {

using qpmesh::base::ByteReader;
using qpmesh::base::ByteWriter;

TEST(byte_codec, gives_back_what_was_put) {
  const auto blob = ByteWriter{}.put(std::uint32_t{7}).put_text("ring").put(std::int64_t{-3}).blob();
  ByteReader reader{blob};
  EXPECT_EQ(reader.get<std::uint32_t>(), 7U);
  EXPECT_EQ(reader.get_text(), "ring");
  EXPECT_EQ(reader.get<std::int64_t>(), -3);
  EXPECT_TRUE(reader.finished());
}

}  // namespace

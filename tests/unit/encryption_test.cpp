// SPDX-License-Identifier: MIT
// Keys that two ranks agree on, and packets that only their other end opens.
#include "base/encryption.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace qpmesh::base {
namespace {

const System real;

struct TwoEnds {
  KeyPair a = make_key_pair(real);
  KeyPair b = make_key_pair(real);
  ConnectionKeys of_a = *agree_on_keys(a, b.public_key);
  ConnectionKeys of_b = *agree_on_keys(b, a.public_key);
};

std::vector<std::byte> packet_of(Encryptor& encryptor, std::span<const std::byte> plain) {
  std::vector<std::byte> packet(packet_header_bytes + plain.size() + packet_tag_bytes);
  std::ranges::copy(plain, packet.begin() + packet_header_bytes);
  EXPECT_EQ(encryptor.encrypt(packet.data(), plain.size()), packet.size());
  return packet;
}
std::vector<std::byte> plain_bytes(std::size_t count) {
  std::vector<std::byte> plain(count);
  for (std::size_t i = 0; i < count; ++i) plain[i] = static_cast<std::byte>(i * 7 + 1);
  return plain;
}

TEST(keys, are_the_same_at_both_ends_and_differ_between_directions_and_pairs) {
  for (int i = 0; i < 20; ++i) {  // who has the lower public key is chance
    const TwoEnds ends;
    EXPECT_EQ(ends.of_a.send, ends.of_b.receive);
    EXPECT_EQ(ends.of_a.receive, ends.of_b.send);
    EXPECT_NE(ends.of_a.send, ends.of_a.receive);
    const auto with_another = agree_on_keys(ends.a, make_key_pair(real).public_key);
    EXPECT_NE(with_another->send, ends.of_a.send);
  }
}

TEST(keys, are_not_made_with_what_is_no_public_key) {
  EXPECT_FALSE(agree_on_keys(make_key_pair(real), PublicKey{}));
}

TEST(packets, of_every_length_are_opened_in_their_order) {
  const TwoEnds ends;
  Encryptor encryptor{ends.of_a.send};
  Decryptor decryptor{ends.of_b.receive};
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{63}, std::size_t{64},
                                  std::size_t{4096}, packet_plain_bytes_max}) {
    const auto plain = plain_bytes(count);
    auto packet = packet_of(encryptor, plain);
    EXPECT_EQ(Decryptor::packet_bytes(packet), packet.size());
    if (count > 8) {
      // Not the range's search: clang 14, which lints, cannot read what it returns.
      EXPECT_EQ(std::search(packet.begin(), packet.end(), plain.begin(), plain.end()), packet.end())
          << count;
    }
    const auto opened = decryptor.decrypt(packet);
    ASSERT_TRUE(opened) << count;
    EXPECT_TRUE(std::ranges::equal(*opened, plain));
  }
}

TEST(packets, that_are_equal_inside_do_not_look_alike) {
  const TwoEnds ends;
  Encryptor encryptor{ends.of_a.send};
  const auto plain = plain_bytes(100);
  EXPECT_NE(packet_of(encryptor, plain), packet_of(encryptor, plain));
}

TEST(packets, with_any_bit_changed_are_not_opened) {
  const TwoEnds ends;
  for (std::size_t bit = 0; bit < 8 * (packet_header_bytes + 5 + packet_tag_bytes); ++bit) {
    Encryptor encryptor{ends.of_a.send};
    Decryptor decryptor{ends.of_b.receive};
    auto packet = packet_of(encryptor, plain_bytes(5));
    packet[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(decryptor.decrypt(packet)) << bit;
  }
}

TEST(packets, left_out_repeated_or_of_the_other_direction_are_not_opened) {
  const TwoEnds ends;
  Encryptor encryptor{ends.of_a.send};
  const auto first = packet_of(encryptor, plain_bytes(10));
  const auto second = packet_of(encryptor, plain_bytes(10));
  const auto opens = [&](Decryptor& decryptor, std::vector<std::byte> packet) {
    return decryptor.decrypt(packet).has_value();
  };
  Decryptor misses_one{ends.of_b.receive};
  EXPECT_FALSE(opens(misses_one, second));
  Decryptor hears_twice{ends.of_b.receive};
  EXPECT_TRUE(opens(hears_twice, first));
  EXPECT_FALSE(opens(hears_twice, first));
  Decryptor of_sender{ends.of_a.receive};
  EXPECT_FALSE(opens(of_sender, first));
}

TEST(packets, do_not_begin_with_any_length) {
  const auto begins = [](std::uint32_t length) {
    std::array<std::byte, packet_header_bytes> header{};
    std::memcpy(header.data(), &length, sizeof length);
    return Decryptor::packet_bytes(header);
  };
  EXPECT_EQ(Decryptor::packet_bytes(std::array<std::byte, 3>{}), 0U);
  EXPECT_FALSE(begins(0));
  EXPECT_FALSE(begins(packet_tag_bytes));
  EXPECT_EQ(begins(packet_tag_bytes + 1), packet_header_bytes + packet_tag_bytes + 1);
  EXPECT_EQ(begins(packet_plain_bytes_max + packet_tag_bytes), packet_bytes_max);
  EXPECT_FALSE(begins(packet_plain_bytes_max + packet_tag_bytes + 1));
  EXPECT_FALSE(begins(~std::uint32_t{0}));
}

}  // namespace
}  // namespace qpmesh::base

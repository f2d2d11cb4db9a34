// SPDX-License-Identifier: MIT
#include "tests/conformance/transport_conformance.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

namespace qpmesh::test {

using transport::Post;
using transport::RemoteAddress;
using transport::Write;

void TransportSuite::register_sources(int side, std::span<const Write> chain) {
  if (!connection(side).capabilities().registered_sources) return;
  for (const Write& write : chain) {
    if (write.head.size() + write.body.size() <= capabilities().inline_bytes_max) continue;
    for (const auto bytes : {write.head, write.body}) {
      if (!bytes.empty() && !end(side).transport->address_of(bytes))
        end(side).transport->register_memory(bytes, transport::RegionKind::lasting);
    }
  }
}

void TransportSuite::post(int side, std::span<const Write> chain) {
  register_sources(side, chain);
  Post answer = Post::busy;
  for (int i = 0; i < pumps_max && answer == Post::busy; ++i) {
    answer = connection(side).post(chain);
    if (answer == Post::busy) pump();
  }
  ASSERT_EQ(answer, Post::posted) << (connection(side).fault() ? connection(side).fault()->cause
                                                               : "busy for ever");
  for (const Write& write : chain) told(side) += write.tell ? 1U : 0U;
}

void TransportSuite::read(int side, std::span<std::byte> target,
                          std::optional<std::uint32_t> target_region, RemoteAddress source) {
  Post answer = Post::busy;
  for (int i = 0; i < pumps_max && answer == Post::busy; ++i) {
    answer = connection(side).read(target, target_region, source);
    if (answer == Post::busy) pump();
  }
  ASSERT_EQ(answer, Post::posted);
  ++told(side);
}

void TransportSuite::complete(int side) {
  post(side, {.target = at(1 - side, 0), .tell = true});
  wait_for([&] { return connection(side).completed() >= told(side); }, "completion");
  ASSERT_EQ(connection(side).completed(), told(side));
}

namespace {

TEST_P(TransportConformance, places_a_body_right_behind_its_head_and_touches_nothing_else) {
  constexpr std::array<std::size_t, 7> sizes{0, 1, 7, 64, 200, 1000, 5000};
  std::size_t offset = 64;
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::byte> expected(64, std::byte{0});
  for (const std::size_t head : sizes) {
    for (const std::size_t body : sizes) {
      sources.push_back(pattern(head, sources.size()));
      const std::vector<std::byte>& head_bytes = sources.back();
      std::vector<std::byte> body_bytes = pattern(body, sources.size());
      post(0, {.head = head_bytes, .body = body_bytes, .target = at(1, offset), .tell = true});
      expected.insert(expected.end(), head_bytes.begin(), head_bytes.end());
      expected.insert(expected.end(), body_bytes.begin(), body_bytes.end());
      expected.resize(expected.size() + 3, std::byte{0});  // a gap that must stay zero
      offset = expected.size();
      sources.push_back(std::move(body_bytes));  // its bytes stay where they are
    }
  }
  expected.resize(expected.size() + 64, std::byte{0});
  complete(0);
  wait_for([&] { return same(memory(1, 0, expected.size()), expected); },
           "all bytes in their places");
}

TEST_P(TransportConformance, counts_completions_of_those_that_tell_only_and_never_back) {
  const auto source = pattern(32, 1);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    post(0, {.head = source, .target = at(1, 64 * i), .tell = i % 3 == 0});
    const std::uint64_t completed = connection(0).completed();
    ASSERT_GE(completed, seen);
    ASSERT_LE(completed, told(0));
    seen = completed;
    if (i % 5 == 0) pump();
  }
  ASSERT_EQ(told(0), 167U);
  wait_for([&] { return connection(0).completed() >= told(0); }, "every told completion");
  pump(100);
  EXPECT_EQ(connection(0).completed(), told(0));
  EXPECT_EQ(connection(1).completed(), 0U);
}

TEST_P(TransportConformance, is_done_with_a_source_when_it_says_completed) {
  constexpr std::size_t bytes = 3000;
  constexpr std::size_t rounds = 200;
  std::vector<std::byte> source(bytes);
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::uint64_t before = connection(0).completed();
    std::fill(source.begin(), source.end(), value(i + 1));
    // The first part does not tell: it is covered by the one behind it.
    const std::array<Write, 2> chain{
        Write{.head = std::span{source}.first(bytes / 2), .target = at(1, i * bytes)},
        Write{.head = std::span{source}.subspan(bytes / 2),
              .target = at(1, i * bytes + bytes / 2),
              .tell = true}};
    post(0, chain);
    wait_for([&] { return connection(0).completed() > before; }, "completion");
  }
  std::fill(source.begin(), source.end(), std::byte{0xff});
  for (std::size_t i = 0; i < rounds; ++i) {
    wait_for([&] { return all_are(memory(1, i * bytes, bytes), value(i + 1)); },
             "the bytes of before the reuse");
  }
}

TEST_P(TransportConformance, is_done_with_an_inline_source_when_post_returns) {
  const std::size_t bytes = std::min<std::size_t>(capabilities().inline_bytes_max, 1024);
  std::vector<std::byte> head(bytes / 2);
  std::vector<std::byte> body(bytes - bytes / 2);
  const std::size_t rounds = bytes == 0 ? 0 : 300;
  for (std::size_t i = 0; i < rounds; ++i) {
    std::fill(head.begin(), head.end(), value(i + 1));
    std::fill(body.begin(), body.end(), value(i + 1));
    post(0, {.head = head, .body = body, .target = at(1, i * bytes)});
    std::fill(head.begin(), head.end(), std::byte{0xff});
    std::fill(body.begin(), body.end(), std::byte{0xff});
  }
  complete(0);
  for (std::size_t i = 0; i < rounds; ++i) {
    wait_for([&] { return all_are(memory(1, i * bytes, bytes), value(i + 1)); },
             "the bytes of before the reuse");
  }
}

TEST_P(TransportConformance, posts_a_chain_whole_or_not_at_all) {
  constexpr std::size_t bytes = 500;
  constexpr std::size_t chains = 400;
  const std::vector<std::byte> source(bytes, std::byte{1});
  std::vector<bool> posted(chains);
  for (std::size_t i = 0; i < chains; ++i) {
    std::array<Write, 3> chain;
    for (std::size_t part = 0; part < chain.size(); ++part) {
      chain[part] = {.head = source, .target = at(1, (3 * i + part) * bytes), .tell = true};
    }
    register_sources(0, chain);
    const Post answer =
        connection(0).post(chain);  // no pump: the queue fills up where there is one
    ASSERT_NE(answer, Post::failed);
    posted[i] = answer == Post::posted;
    told(0) += posted[i] ? chain.size() : 0;
    if (i % 20 == 19) pump(50);
  }
  ASSERT_GT(told(0), 0U);
  complete(0);
  for (std::size_t i = 0; i < chains; ++i) {
    const auto target = memory(1, 3 * i * bytes, 3 * bytes);
    if (posted[i]) {
      wait_for([&] { return all_are(target, std::byte{1}); }, "a whole chain");
    } else {
      EXPECT_TRUE(all_are(target, std::byte{0}))
          << "chain " << i << " was refused and still landed";
    }
  }
}

TEST_P(TransportConformance, carries_both_directions_at_once) {
  constexpr std::size_t bytes = 700;
  constexpr std::size_t rounds = 500;
  std::array<std::vector<std::byte>, 2> sources{pattern(bytes * rounds, 1),
                                                pattern(bytes * rounds, 2)};
  for (std::size_t i = 0; i < rounds; ++i) {
    for (const int side : {0, 1}) {
      const auto part =
          std::span{sources[static_cast<std::size_t>(side)]}.subspan(i * bytes, bytes);
      post(side, {.head = part.first(i % 50),
                  .body = part.subspan(i % 50),
                  .target = at(1 - side, i * bytes)});
    }
  }
  complete(0);
  complete(1);
  wait_for(
      [&] {
        return same(memory(1, 0, bytes * rounds), sources[0]) &&
               same(memory(0, 0, bytes * rounds), sources[1]);
      },
      "both sides' bytes");
}

TEST_P(TransportConformance, carries_large_writes) {
  const auto source = pattern(ConnectedPair::memory_bytes - 64, 3);
  const std::size_t part = std::min(capabilities().write_bytes_max, source.size());
  for (std::size_t offset = 0; offset < source.size(); offset += part) {
    const auto rest = std::span{source}.subspan(offset, std::min(part, source.size() - offset));
    post(0, {.body = rest, .target = at(1, 64 + offset), .tell = true});
  }
  complete(0);
  wait_for([&] { return same(memory(1, 64, source.size()), source); }, "all bytes");
  EXPECT_TRUE(all_are(memory(1, 0, 64), std::byte{0}));
}

TEST_P(TransportConformance, loads_what_lies_in_a_region_of_the_peer_and_nothing_else) {
  constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  const std::uint32_t region = end(1).address.region;
  const std::uint64_t region_bytes = end(1).region_bytes;
  const bool loads = capabilities().loads_peer_memory;
  memory(1, 1000, 1)[0] = std::byte{42};
  const std::byte* const inside = connection(0).load(at(1, 1000), 8);
  ASSERT_EQ(inside != nullptr, loads);
  if (loads) {
    EXPECT_EQ(*inside, std::byte{42});
    memory(1, 1000, 1)[0] = std::byte{43};
    EXPECT_EQ(*inside, std::byte{43});
  }
  EXPECT_EQ(connection(0).load({region, 0}, region_bytes) != nullptr, loads);
  EXPECT_EQ(connection(0).load({region, region_bytes - 1}, 1) != nullptr, loads);
  EXPECT_EQ(connection(0).load({region, region_bytes - 1}, 2), nullptr);
  EXPECT_EQ(connection(0).load({region, region_bytes + 1}, 0), nullptr);
  EXPECT_EQ(connection(0).load({region, huge}, 2), nullptr);
  EXPECT_EQ(connection(0).load({region, 8}, huge), nullptr);
  EXPECT_EQ(connection(0).load({region + 12'345, 0}, 1), nullptr);
}

TEST_P(TransportConformance, names_memory_that_peers_can_reach_and_no_other) {
  const std::span<const std::byte> all = end(1).memory;
  const auto inside = end(1).transport->address_of(all.subspan(1000, 50));
  ASSERT_TRUE(inside.has_value());
  EXPECT_EQ(inside->region, at(1, 1000).region);
  EXPECT_EQ(inside->offset, at(1, 1000).offset);
  EXPECT_TRUE(end(1).transport->address_of(all).has_value());
  const std::vector<std::byte> elsewhere(100);
  EXPECT_FALSE(end(1).transport->address_of(elsewhere).has_value());
  // Begins inside and is longer than any region: only looked at, never read.
  EXPECT_FALSE(end(1).transport->address_of(
      {all.data() + 1000, static_cast<std::size_t>(end(1).region_bytes)}));
}

TEST_P(TransportConformance, posts_nothing_after_its_own_end_and_says_why) {
  const std::vector<std::byte> source(100, std::byte{1});
  connection(1).tear_down();
  EXPECT_EQ(connection(1).post(std::array{Write{.head = source, .target = at(0, 0)}}),
            Post::failed);
  const ErrorDetail* const fault = connection(1).fault();
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->peer, 0);
  EXPECT_FALSE(fault->cause.empty());
  pump(1000);
  EXPECT_TRUE(all_are(memory(0, 0, source.size()), std::byte{0}));
  connection(1).tear_down();  // again: nothing more to do
  EXPECT_EQ(connection(1).fault(), fault);
}

TEST_P(Fences, let_nothing_of_the_peer_land_after_tear_down) {
  constexpr std::size_t bytes = 4000;
  const std::vector<std::byte> source(bytes, std::byte{1});
  for (std::size_t i = 0; i < 40; ++i) {
    const std::array write{Write{.head = source, .target = at(1, i * bytes)}};
    register_sources(0, write);
    static_cast<void>(connection(0).post(write));
    if (i % 8 == 0) pump(3);
  }
  connection(1).tear_down();
  const auto everything = memory(1, 0, 200 * bytes);
  const std::vector<std::byte> before(everything.begin(), everything.end());
  EXPECT_FALSE(all_are(before, std::byte{1}));
  for (std::size_t i = 40; i < 200; ++i) {
    const std::array write{Write{.head = source, .target = at(1, i * bytes)}};
    register_sources(0, write);
    static_cast<void>(connection(0).post(write));
    pump(10);
  }
  pump(2000);
  EXPECT_TRUE(same(everything, before));
}

TEST_P(OrderedWrites, shows_a_write_only_after_all_of_those_before_it) {
  constexpr std::size_t bytes = 2000;
  std::vector<std::byte> payload(bytes);
  std::vector<std::byte> marker(1);
  for (std::size_t i = 1; i <= 150; ++i) {
    std::fill(payload.begin(), payload.end(), value(i));
    marker[0] = value(i);
    const Write first{.body = payload, .target = at(1, 64)};
    const Write second{.head = marker, .target = at(1, 0), .tell = true};
    if (i % 2 == 0) {
      post(0, std::array{first, second});
    } else {
      post(0, first);
      post(0, second);
    }
    wait_for([&] { return memory(1, 0, 1)[0] == value(i); }, "the second write");
    ASSERT_TRUE(all_are(memory(1, 64, bytes), value(i))) << "round " << i;
    complete(0);
  }
}

TEST_P(OrderedWrites, leaves_the_last_of_several_writes_to_one_place) {
  constexpr std::size_t bytes = 300;
  std::vector<std::vector<std::byte>> sources;
  for (std::size_t i = 0; i < 200; ++i) sources.push_back(std::vector<std::byte>(bytes, value(i)));
  for (const auto& source : sources) post(0, {.head = source, .target = at(1, 0)});
  complete(0);
  wait_for([&] { return all_are(memory(1, 0, bytes), value(199)); }, "the last write");
  pump(200);
  EXPECT_TRUE(all_are(memory(1, 0, bytes), value(199)));
}

// ---- reads ----

TEST_P(Registrations, let_reads_fetch_what_lies_at_the_peer_into_lasting_and_into_lent_memory) {
  ASSERT_TRUE(capabilities().registers_user_memory);
  const auto lent = pattern(70'000, 3);
  const transport::RemoteAddress there =
      end(1).transport->register_memory(lent, transport::RegionKind::source);
  std::vector<std::byte> here(lent.size() + 2, std::byte{0xee});
  const std::uint32_t region =
      end(0).transport->register_memory(here, transport::RegionKind::target).region;
  std::size_t offset = 1;
  for (const std::size_t bytes : {1U, 7U, 4096U, 5000U, 60'000U}) {
    read(0, std::span{here}.subspan(offset, bytes), region,
         {there.region, there.offset + offset - 1});
    offset += bytes;
  }
  const auto placed = pattern(5'000, 4);
  std::ranges::copy(placed, memory(1, 100, placed.size()).begin());
  read(0, memory(0, 200, placed.size()), std::nullopt, at(1, 100));
  wait_for([&] { return connection(0).completed() >= told(0); }, "the last read's completion");
  EXPECT_EQ(connection(0).completed(), told(0)) << "each counts once";
  EXPECT_TRUE(same(std::span{here}.subspan(1, offset - 1), std::span{lent}.first(offset - 1)));
  EXPECT_EQ(here[0], std::byte{0xee});
  EXPECT_TRUE(all_are(std::span{here}.subspan(offset), std::byte{0xee}));
  EXPECT_TRUE(same(memory(0, 200, placed.size()), placed));
  end(0).transport->deregister_memory(region);
  end(1).transport->deregister_memory(there.region);
}

TEST_P(Registrations, have_the_writes_before_a_read_at_the_peer_when_the_read_completes) {
  constexpr std::size_t bytes = 20'000;
  for (std::size_t round = 0; round < 50; ++round) {
    const auto source = pattern(bytes, 100 + round);
    std::ranges::copy(source, memory(0, 0, bytes).begin());
    post(0,
         {.body = memory(0, 0, bytes), .target = at(1, 1'000), .tell = capabilities().rails > 1});
    read(0, memory(0, 100'000, 8), std::nullopt, at(1, 500'000));
    const std::uint64_t due = told(0);
    wait_for([&] { return connection(0).completed() >= due; }, "the read's completion");
    ASSERT_TRUE(same(memory(1, 1'000, bytes), source)) << "round " << round;
  }
}

TEST_P(TransportConformance, has_read_when_it_completes_however_much_is_posted_among_writes) {
  constexpr std::size_t bytes = 3'000;
  constexpr std::size_t rounds = 300;
  const auto source = pattern(bytes, 5);
  std::ranges::copy(source, memory(1, 0, bytes).begin());
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto target = memory(0, 10'000 + i * bytes, bytes);
    read(0, target, std::nullopt, at(1, 0));
    if (i % 3 == 0)
      post(0, {.head = std::span{source}.first(64), .target = at(1, 1'000'000), .tell = true});
    if (i % 10 != 0) continue;
    const std::uint64_t due = told(0);
    wait_for([&] { return connection(0).completed() >= due; }, "completion");
    ASSERT_TRUE(same(target, source)) << "round " << i;
  }
  complete(0);
  for (std::size_t i = 0; i < rounds; ++i)
    ASSERT_TRUE(same(memory(0, 10'000 + i * bytes, bytes), source)) << "round " << i;
}

TEST_P(Registrations, that_are_gone_fail_the_link_of_who_reads_and_say_so) {
  const auto lent = pattern(1'000, 6);
  const transport::RemoteAddress there =
      end(1).transport->register_memory(lent, transport::RegionKind::source);
  end(1).transport->deregister_memory(there.region);
  EXPECT_EQ(connection(0).read(memory(0, 0, 1'000), std::nullopt, there), Post::posted);
  wait_for([&] { return connection(0).fault() != nullptr; }, "the fault");
  const std::string& detail = connection(0).fault()->cause;
  EXPECT_TRUE(detail.find("RDMA read") != std::string::npos ||
              detail.find("a read of") != std::string::npos)
      << detail;
  EXPECT_TRUE(all_are(memory(0, 0, 1'000), std::byte{0}));
  EXPECT_EQ(connection(0).read(memory(0, 0, 8), std::nullopt, at(1, 0)), Post::failed);
}

TEST_P(OrderedFlags, stores_a_flag_after_every_byte_of_its_write_and_of_those_before_it) {
  constexpr std::size_t payload_bytes = 1500;
  constexpr std::size_t head_bytes = 96;
  std::vector<std::byte> payload(payload_bytes);
  std::vector<std::byte> head(head_bytes);
  std::vector<std::byte> body(40);
  std::atomic_ref<std::uint32_t> flag{
      *reinterpret_cast<std::uint32_t*>(memory(1, 4096 + 8, 4).data())};
  for (std::uint32_t i = 1; i <= 200; ++i) {
    std::fill(payload.begin(), payload.end(), value(i));
    std::fill(head.begin(), head.end(), value(i));
    std::fill(body.begin(), body.end(), value(i));
    std::ranges::copy(std::as_bytes(std::span{&i, 1}), head.begin() + 8);
    post(0, std::array{Write{.body = payload, .target = at(1, 8192)}, Write{.head = head,
                                                                            .body = body,
                                                                            .target = at(1, 4096),
                                                                            .flag_offset = 8,
                                                                            .tell = true}});
    wait_for([&] { return flag.load(std::memory_order_acquire) != i - 1; }, "the flag");
    ASSERT_EQ(flag.load(std::memory_order_acquire), i);
    ASSERT_TRUE(all_are(memory(1, 4096, 8), value(i)));
    ASSERT_TRUE(all_are(memory(1, 4096 + 12, head_bytes - 12 + body.size()), value(i)));
    ASSERT_TRUE(all_are(memory(1, 8192, payload_bytes), value(i)));
    complete(0);
  }
}

TEST_P(Immediates, arrive_in_order_after_the_bytes_of_their_write_and_of_all_before_it) {
  constexpr std::size_t bytes = 600;
  constexpr std::size_t slots = 600;  // plain write, write with immediate, in turn
  const auto source = pattern(bytes * slots, 4);
  std::uint32_t next = 0;
  const auto take = [&] {
    while (const auto immediate = connection(1).poll_immediate()) {
      ASSERT_EQ(*immediate, next);
      const std::size_t covered = (std::size_t{next} * 2 + 2) * bytes;
      const std::size_t checked =
          std::min<std::size_t>(covered, 8 * bytes);  // the newest: enough, and linear
      ASSERT_TRUE(same(memory(1, covered - checked, checked),
                       std::span{source}.subspan(covered - checked, checked)));
      ++next;
    }
  };
  for (std::size_t slot = 0; slot < slots; slot += 2) {
    const auto first = std::span{source}.subspan(slot * bytes, bytes);
    const auto second = std::span{source}.subspan((slot + 1) * bytes, bytes);
    post(0, std::array{Write{.head = first, .target = at(1, slot * bytes)},
                       Write{.head = second.first(48),
                             .body = second.subspan(48),
                             .target = at(1, (slot + 1) * bytes),
                             .immediate = static_cast<std::uint32_t>(slot / 2)}});
    take();
  }
  wait_for([&] { return take(), next == slots / 2; }, "every immediate");
  pump(100);
  EXPECT_EQ(connection(1).poll_immediate(), std::nullopt);
  EXPECT_EQ(connection(0).poll_immediate(), std::nullopt);
}

TEST_P(Immediates, need_no_bytes) {
  for (std::uint32_t i = 0; i < 50; ++i) post(0, {.target = at(1, 0), .immediate = ~i});
  for (std::uint32_t i = 0; i < 50; ++i) {
    std::optional<std::uint32_t> immediate;
    wait_for([&] { return (immediate = connection(1).poll_immediate()).has_value(); },
             "an immediate without bytes");
    ASSERT_EQ(immediate, ~i);
  }
}

}  // namespace
}  // namespace qpmesh::test

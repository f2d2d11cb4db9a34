// SPDX-License-Identifier: MIT
// The ground: what every floor stands on.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/process_memory.hpp"
#include "base/run_delay.hpp"
#include "base/system.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/open_descriptors.hpp"
#include "tests/support/page.hpp"
#include "tests/support/reads_process_memory.hpp"
#include "transport/memory.hpp"

namespace {

using namespace qpmesh::base;
using qpmesh::Blob;
using qpmesh::BlobView;
using qpmesh::Deadline;
using qpmesh::Error;
using qpmesh::ErrorCode;
using qpmesh::transport::Arena;

const std::size_t page_bytes = qpmesh::test::page_bytes();

enum class Colour : std::uint16_t { red = 0x1234 };

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

BlobView as_blob(std::string_view text) { return std::as_bytes(std::span{text}); }

// ---- bytes ----

TEST(byte_codec, gives_back_what_was_put) {
  const std::array<std::byte, 3> raw{std::byte{1}, std::byte{0}, std::byte{255}};
  const auto blob = ByteWriter{}
                        .put(std::uint8_t{7})
                        .put(std::int64_t{-3})
                        .put(Colour::red)
                        .put_text("ring")
                        .put_text("")
                        .put_bytes(raw)
                        .blob();
  ByteReader reader{blob};
  EXPECT_EQ(reader.get<std::uint8_t>(), 7);
  EXPECT_EQ(reader.get<std::int64_t>(), -3);
  EXPECT_EQ(reader.get<Colour>(), Colour::red);
  EXPECT_EQ(reader.get_text(), "ring");
  EXPECT_EQ(reader.get_text(), "");
  EXPECT_TRUE(std::ranges::equal(reader.get_bytes(), raw));
  EXPECT_TRUE(reader.finished());
}

TEST(byte_codec, is_little_endian_without_padding) {
  const auto blob =
      ByteWriter{}.put(std::uint8_t{1}).put(std::uint32_t{0x04030201}).put_text("A").blob();
  const std::array<unsigned char, 10> expected{1, 1, 2, 3, 4, 1, 0, 0, 0, 'A'};
  ASSERT_EQ(blob.size(), expected.size());
  EXPECT_EQ(std::memcmp(blob.data(), expected.data(), expected.size()), 0);
}

TEST(byte_reader, of_a_blob_cut_short_anywhere_gives_zeroes_and_says_so) {
  const auto blob =
      ByteWriter{}.put(std::uint32_t{5}).put_text("ring").put(std::uint64_t{9}).blob();
  for (std::size_t bytes = 0; bytes < blob.size(); ++bytes) {
    ByteReader reader{BlobView{blob}.first(bytes)};
    reader.get<std::uint32_t>();
    reader.get_text();
    EXPECT_EQ(reader.get<std::uint64_t>(), 0U) << bytes;
    EXPECT_FALSE(reader.ok()) << bytes;
    EXPECT_FALSE(reader.finished()) << bytes;
  }
}

TEST(byte_reader, does_not_believe_a_foreign_length) {
  const auto blob = ByteWriter{}.put(std::uint32_t{0xffffffff}).put(std::uint32_t{1}).blob();
  ByteReader reader{blob};
  EXPECT_TRUE(reader.get_bytes().empty());
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.get<std::uint32_t>(), 0U)
      << "a value after the first missing one must not be read";
}

TEST(byte_reader, with_bytes_left_over_is_ok_but_not_finished) {
  const auto blob = ByteWriter{}.put(std::uint32_t{1}).put(std::uint8_t{2}).blob();
  ByteReader reader{blob};
  EXPECT_EQ(reader.get<std::uint32_t>(), 1U);
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(reader.finished());
}

TEST(checked_arithmetic, gives_nothing_when_the_result_does_not_fit) {
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(checked_multiply(3, 5), std::size_t{15});
  EXPECT_EQ(checked_multiply(most, 1), most);
  EXPECT_EQ(checked_multiply(most, 0), std::size_t{0});
  EXPECT_EQ(checked_multiply(most / 2 + 1, 2), std::nullopt);
}

TEST(round_up, reaches_the_next_multiple_and_stays_on_one) {
  EXPECT_EQ(round_up(0, 64), 0U);
  EXPECT_EQ(round_up(1, 64), 64U);
  EXPECT_EQ(round_up(64, 64), 64U);
  EXPECT_EQ(round_up(65, 64), 128U);
  EXPECT_EQ(round_up(10, 3), 12U);
}

TEST(mix64, is_the_first_step_of_splitmix64) { EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafU); }

TEST(checksum, is_the_same_on_both_ends_of_a_wire) {
  EXPECT_EQ(checksum(as_blob("123456789abc"), 1), 0xd5b0d31bU);
  EXPECT_EQ(checksum({}, 42U), 42U);
}

TEST(checksum, differs_where_one_bit_does) {
  std::array<std::byte, 204> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  for (std::size_t length = 4; length <= bytes.size(); length += 4) {
    const auto covered = std::span{bytes}.first(length);
    const std::uint32_t whole = checksum(covered, 9);
    EXPECT_NE(whole, checksum(covered, 8));
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      const auto flipped = static_cast<std::byte>(1U << bit % 8);
      bytes[bit / 8] ^= flipped;
      EXPECT_NE(checksum(covered, 9), whole) << "bit " << bit << " of " << length << " bytes";
      bytes[bit / 8] ^= flipped;
    }
  }
}

TEST(checksum, differs_where_words_of_a_copy_are_not_written_yet) {
  std::array<std::uint32_t, 11> words;  // a record of 56 bytes
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i + 1);
  const std::uint32_t whole = checksum(std::as_bytes(std::span{words}), 9);
  for (unsigned missing = 1; missing < 1U << words.size(); ++missing) {
    auto torn = words;
    for (std::size_t i = 0; i < torn.size(); ++i) {
      if ((missing >> i & 1) != 0) torn[i] = 0;
    }
    EXPECT_NE(checksum(std::as_bytes(std::span{torn}), 9), whole) << missing;
  }
}

TEST(checksum, differs_where_last_bytes_of_neighbouring_words_are_not_written_yet) {
  std::array<std::uint32_t, 17> words;  // a record of 80 bytes, of equal floats
  words.fill(0xc0000000U);
  for (std::uint32_t seed = 0; seed < 256; ++seed) {
    const std::uint32_t whole = checksum(std::as_bytes(std::span{words}), seed);
    for (std::size_t first = 0; first < words.size(); ++first) {
      for (unsigned missing = 1; missing < 32; ++missing) {
        auto torn = words;
        for (std::size_t i = 0; first + i < torn.size() && i < 5; ++i) {
          if ((missing >> i & 1) != 0) torn[first + i] = 0;
        }
        if (torn == words) continue;
        EXPECT_NE(checksum(std::as_bytes(std::span{torn}), seed), whole) << first << ' ' << missing;
      }
    }
  }
}

// ---- handles ----

TEST(unique_fd, closes_what_it_owns_once) {
  int fd = -1;
  {
    UniqueFd first{::memfd_create("test", 0)};
    fd = first.get();
    ASSERT_TRUE(first);
    UniqueFd second{std::move(first)};
    EXPECT_EQ(second.get(), fd);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that it owns nothing is what is tested
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(unique_fd, closes_the_old_descriptor_when_it_gets_another) {
  UniqueFd target{::memfd_create("old", 0)};
  UniqueFd source{::memfd_create("new", 0)};
  const int old_fd = target.get();
  const int new_fd = source.get();
  target = std::move(source);
  EXPECT_FALSE(is_open(old_fd));
  EXPECT_EQ(target.get(), new_fd);
  EXPECT_EQ(target.release(), new_fd);
  EXPECT_FALSE(target);
  EXPECT_TRUE(is_open(new_fd));
  target.reset(new_fd);
  target.reset();
  EXPECT_FALSE(is_open(new_fd));
}

TEST(mapping, is_unmapped_when_its_owner_goes_and_not_before) {
  const auto mapped = [](std::byte* data) { return ::msync(data, page_bytes, MS_ASYNC) == 0; };
  std::byte* data = nullptr;
  {
    Mapping first{::mmap(nullptr, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                  page_bytes};
    data = first.data();
    Mapping second;
    second = std::move(first);
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(second.bytes(), page_bytes);
    EXPECT_TRUE(mapped(data));
  }
  EXPECT_FALSE(mapped(data));
}

// ---- system ----

class FixedClock final : public System {
 public:
  Deadline now() const noexcept override { return time; }
  Deadline time{std::chrono::seconds{100}};
};

TEST(deadline, of_zero_milliseconds_is_none) {
  const FixedClock clock;
  EXPECT_EQ(after_ms(clock, 0), qpmesh::no_deadline);
  EXPECT_EQ(after_ms(clock, 30), clock.time + std::chrono::milliseconds{30});
}

TEST(remaining_ms, rounds_up_never_goes_below_zero_and_is_capped) {
  const FixedClock clock;
  using std::chrono::nanoseconds;
  EXPECT_EQ(remaining_ms(clock, clock.time + nanoseconds{1}), 1);
  EXPECT_EQ(remaining_ms(clock, clock.time + nanoseconds{1'000'000}), 1);
  EXPECT_EQ(remaining_ms(clock, clock.time + nanoseconds{1'000'001}), 2);
  EXPECT_EQ(remaining_ms(clock, clock.time), 0);
  EXPECT_EQ(remaining_ms(clock, clock.time - std::chrono::hours{1}), 0);
  EXPECT_EQ(remaining_ms(clock, clock.time + std::chrono::hours{1}, 500), 500);
  EXPECT_EQ(remaining_ms(clock, qpmesh::no_deadline, 500), 500);
}

// ---- memory of other processes ----

struct Child {
  std::span<const std::byte> memory;  // a page, and nothing behind it; as the parent had it
  std::uint64_t proof = 0;
  pid_t process = -1;

  Child() {
    void* const pages =
        ::mmap(nullptr, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const begin = static_cast<std::byte*>(pages);
    ::mprotect(begin + page_bytes, page_bytes, PROT_NONE);
    memory = {begin, page_bytes};
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    process = ::fork();
    if (process == 0) {
      std::memset(begin, 7, page_bytes);
      proof = 42;
      if (::write(ready[1], "r", 1) == 1) ::pause();
      ::_exit(0);
    }
    char letter = 0;
    EXPECT_EQ(::read(ready[0], &letter, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Child() {
    end();
    ::munmap(const_cast<std::byte*>(memory.data()), 2 * page_bytes);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void end() {
    if (process <= 0) return;
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    process = -1;
  }
  ProcessMemory shown(std::uint64_t value = 42) const {
    return {process, {.address = reinterpret_cast<std::uintptr_t>(&proof), .value = value}};
  }
  std::uint64_t at(std::size_t place) const {
    return reinterpret_cast<std::uintptr_t>(memory.data() + place);
  }
};

bool holds_only(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [=](std::byte byte) { return byte == value; });
}

TEST(process_memory, copies_what_another_process_has_in_its_private_memory) {
  if (!qpmesh::test::reads_process_memory())
    GTEST_SKIP() << qpmesh::test::cannot_read_process_memory;
  const Child child;
  std::vector<std::byte> here(page_bytes);
  ASSERT_EQ(child.shown().copy(nullptr, 0, 0), 0) << "not allowed here: " << describe_errno(errno);
  EXPECT_EQ(child.shown().copy(here.data(), child.at(1), page_bytes - 1), 0);
  EXPECT_TRUE(holds_only(std::span{here}.first(page_bytes - 1), std::byte{7}));
  EXPECT_EQ(here.back(), std::byte{0});
}

TEST(process_memory, of_a_process_without_the_proof_or_that_is_gone_is_not_there) {
  if (!qpmesh::test::reads_process_memory())
    GTEST_SKIP() << qpmesh::test::cannot_read_process_memory;
  Child child;
  std::array<std::byte, 8> here{};
  const ProcessMemory memory = child.shown();
  EXPECT_EQ(child.shown(43).copy(here.data(), child.at(0), here.size()), ESRCH);
  const ProcessMemory another{child.process, {.address = child.at(page_bytes), .value = 42}};
  EXPECT_EQ(another.copy(here.data(), child.at(0), here.size()), ESRCH)
      << "nothing is where the proof was";
  EXPECT_EQ(ProcessMemory{}.copy(here.data(), child.at(0), here.size()), ESRCH);
  EXPECT_FALSE(ProcessMemory{}.is_known());
  child.end();
  EXPECT_EQ(memory.copy(here.data(), child.at(0), here.size()), ESRCH);
}

TEST(process_memory, that_ends_in_the_middle_is_an_error) {
  if (!qpmesh::test::reads_process_memory())
    GTEST_SKIP() << qpmesh::test::cannot_read_process_memory;
  const Child child;
  std::vector<std::byte> here(2 * page_bytes);
  EXPECT_EQ(child.shown().copy(here.data(), child.at(0), here.size()), EFAULT);
  EXPECT_EQ(child.shown().copy(here.data(), child.at(page_bytes), 1), EFAULT);
}

TEST(process_memory, tells_a_process_that_has_ended_from_one_that_lives) {
  Child child;
  const ProcessMemory memory = child.shown();
  EXPECT_FALSE(memory.has_ended());
  child.end();
  EXPECT_TRUE(memory.has_ended());
}

TEST(fail_points, fail_the_chosen_call_alone_with_its_error) {
  FailPoints points;
  points.fail_call(1, EMFILE);
  const System system{&points};
  int made = 0;
  const auto call = [&] { return system.call("open", [&] { return ++made; }); };
  EXPECT_EQ(call(), 1);
  EXPECT_FALSE(points.fired());
  errno = 0;
  EXPECT_EQ(call(), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_TRUE(points.fired());
  EXPECT_EQ(points.fired_site(), "open");
  EXPECT_EQ(call(), 2) << "the failed call must not have been made";
  EXPECT_EQ(points.calls(), 3U);
}

TEST(fail_points, make_a_call_that_gives_a_pointer_fail_like_mmap) {
  FailPoints points;
  points.fail_call(0, ENOMEM);
  const System system{&points};
  EXPECT_EQ(system.call("mmap", []() -> void* { return nullptr; }), MAP_FAILED);
}

TEST(random, differs_from_call_to_call) {
  const System system;
  EXPECT_NE(system.random_u64(), system.random_u64());
}

// ---- arena ----

constexpr std::size_t mebibyte = std::size_t{1} << 20;

TEST(arena, gives_aligned_zeroed_disjoint_memory_behind_its_header) {
  const System system;
  auto arena = Arena::create_private(system, mebibyte);
  std::uint64_t end = sizeof(qpmesh::transport::ArenaHeader);
  for (const std::size_t bytes : {1U, 128U, 129U, 5000U, 0U}) {
    const auto offset = arena.allocate(bytes);
    ASSERT_TRUE(offset);
    EXPECT_EQ(*offset % Arena::alignment, 0U);
    EXPECT_GE(*offset, end);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(arena.data()[*offset + i], std::byte{0});
    std::memset(arena.data() + *offset, 0xff, bytes);
    end = *offset + bytes;
  }
}

TEST(arena, knows_before_it_is_made_whether_a_first_piece_has_room) {
  const System system;
  constexpr std::size_t bytes = std::size_t{1} << 20;
  const std::size_t longest = bytes - Arena::first_offset;
  for (const std::size_t wanted :
       {std::size_t{1}, longest - 128, longest - 127, longest, longest + 1, bytes}) {
    Arena arena = Arena::create_private(system, bytes);
    EXPECT_EQ(Arena::has_room(bytes, wanted), arena.allocate(wanted).has_value()) << wanted;
  }
  EXPECT_FALSE(Arena::has_room(Arena::first_offset - 1, 1));
}

TEST(arena, that_is_full_gives_nothing_and_keeps_working) {
  const System system;
  auto arena = Arena::create_private(system, mebibyte);
  EXPECT_FALSE(arena.allocate(mebibyte));
  const auto all = mebibyte - round_up(sizeof(qpmesh::transport::ArenaHeader), Arena::alignment);
  const auto offset = arena.allocate(all);
  ASSERT_TRUE(offset);
  EXPECT_FALSE(arena.allocate(1));
  arena.free(*offset, all);
  EXPECT_EQ(arena.allocate(all), offset);
}

TEST(arena, merges_freed_neighbours_in_every_order) {
  const System system;
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    auto arena = Arena::create_private(system, mebibyte);
    const auto all = mebibyte - round_up(sizeof(qpmesh::transport::ArenaHeader), Arena::alignment);
    const std::array<std::size_t, 3> bytes{4096, 100, all - 4096 - 128};
    std::array<std::uint64_t, 3> offsets{};
    for (std::size_t i = 0; i < 3; ++i) offsets[i] = arena.allocate(bytes[i]).value();
    for (const auto i : order) arena.free(offsets[i], bytes[i]);
    EXPECT_EQ(arena.allocate(all), offsets[0]);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(arena, gives_freed_memory_out_again_as_zeroes) {
  const System system;
  for (const bool shared : {false, true}) {
    auto arena =
        shared ? Arena::create_shared(system, mebibyte) : Arena::create_private(system, mebibyte);
    for (const std::size_t bytes : {100U, 4096U, 20'000U}) {
      const auto offset = arena.allocate(bytes).value();
      std::memset(arena.data() + offset, 0xff, bytes);
      arena.free(offset, bytes);
      ASSERT_EQ(arena.allocate(bytes), offset);
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(arena.data()[offset + i], std::byte{0}) << bytes << ' ' << i;
    }
  }
}

// Advice about part of a page is taken for all of it: a neighbour's memory would be zeroes.
TEST(arena, gives_back_no_page_that_is_not_free_as_a_whole_whatever_pages_the_kernel_has) {
  using qpmesh::transport::whole_pages;
  constexpr std::uint64_t kibibyte = 1024;
  for (const std::uint64_t page : {4 * kibibyte, 16 * kibibyte, 64 * kibibyte}) {
    for (std::uint64_t offset = 128; offset < 3 * page; offset += 1920) {
      for (std::uint64_t bytes = 128; bytes < 3 * page; bytes += 1920) {
        const auto [begin, end] = whole_pages(offset, bytes, page);
        ASSERT_EQ(begin % page, 0U);
        ASSERT_LE(begin, end);
        if (begin == end) {
          ASSERT_LT(bytes, 2 * page);
          continue;
        }
        ASSERT_EQ(end % page, 0U);
        ASSERT_GE(begin, offset);
        ASSERT_LT(begin - offset, page) << "a whole page stays";
        ASSERT_LE(end, offset + bytes);
        ASSERT_LT(offset + bytes - end, page) << "a whole page stays";
      }
    }
  }
  EXPECT_EQ(whole_pages(0, 65'536, 65'536), std::pair(std::uint64_t{0}, std::uint64_t{65'536}));
  EXPECT_EQ(whole_pages(65'536, 8'192, 65'536).first, whole_pages(65'536, 8'192, 65'536).second);
}

TEST(arena, begins_large_memory_with_a_huge_page_while_there_is_room_for_that) {
  const System system;
  auto arena = Arena::create_private(system, 7 * mebibyte);
  EXPECT_EQ(arena.allocate(2 * mebibyte), 2 * mebibyte);
  const auto before_it = arena.allocate(2 * mebibyte - 128);  // one byte more would be a huge page
  ASSERT_TRUE(before_it);
  EXPECT_LT(*before_it, 2 * mebibyte);
  EXPECT_EQ(arena.allocate(2 * mebibyte + 5), 4 * mebibyte);
  arena.free(2 * mebibyte, 2 * mebibyte);
  arena.free(*before_it, 2 * mebibyte - 128);
  const auto crooked = arena.allocate(3 * mebibyte);
  ASSERT_TRUE(crooked);
  EXPECT_NE(*crooked % Arena::huge_page_bytes, 0U);
}

TEST(shared_arena, counts_what_was_given_out_and_not_touched) {
  const System system;
  auto arena = Arena::create_shared(system, 4 * mebibyte);
  const std::uint64_t nothing = arena.untouched_bytes();
  EXPECT_LT(nothing, page_bytes);
  const auto offset = arena.allocate(mebibyte).value();
  // The header's page is touched, and counts for what was given out.
  EXPECT_EQ(arena.untouched_bytes(), mebibyte - page_bytes);
  std::memset(arena.data() + offset, 1, mebibyte / 2);
  EXPECT_NEAR(static_cast<double>(arena.untouched_bytes()), mebibyte / 2.0,
              2.0 * static_cast<double>(page_bytes));
  arena.free(offset, mebibyte);
  EXPECT_EQ(arena.untouched_bytes(), nothing);
}

TEST(arena, knows_which_addresses_are_its_own) {
  const System system;
  const auto arena = Arena::create_private(system, mebibyte);
  EXPECT_TRUE(arena.contains(arena.data(), mebibyte));
  EXPECT_TRUE(arena.contains(arena.data() + mebibyte, 0));
  EXPECT_FALSE(arena.contains(arena.data() + 1, mebibyte));
  EXPECT_FALSE(arena.contains(arena.data() + 1, std::numeric_limits<std::size_t>::max()));
  EXPECT_FALSE(arena.contains(&arena, 1));
  EXPECT_EQ(arena.offset_of(arena.data() + 77), 77U);
}

TEST(shared_arena, is_seen_through_a_second_mapping_and_cannot_be_resized) {
  const System system;
  const auto arena = Arena::create_shared(system, mebibyte);
  const auto peer = qpmesh::transport::map_arena(system, arena.descriptor(), mebibyte);
  ASSERT_NE(peer.data(), arena.data());
  arena.data()[5000] = std::byte{42};
  EXPECT_EQ(peer.data()[5000], std::byte{42});
  EXPECT_EQ(::ftruncate(arena.descriptor(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(arena.descriptor(), 2 * mebibyte), -1);
}

TEST(shared_arena, leaves_nothing_behind_whichever_of_its_calls_fails) {
  const auto descriptors = qpmesh::test::open_descriptors();
  std::vector<std::string> sites;
  for (std::uint64_t index = 0;; ++index) {
    FailPoints points;
    points.fail_call(index, ENFILE);
    const System system{&points};
    try {
      const auto arena = Arena::create_shared(system, mebibyte);
      EXPECT_FALSE(points.fired());
      break;
    } catch (const Error& error) {
      sites.emplace_back(points.fired_site());
      EXPECT_EQ(error.code(), ErrorCode::no_resource);
      EXPECT_EQ(error.operation(), "arena");
      EXPECT_EQ(error.system_error(), ENFILE);
      EXPECT_NE(error.cause().find("1048576"), std::string::npos) << error.cause();
    }
    EXPECT_EQ(qpmesh::test::open_descriptors(), descriptors) << index;
  }
  EXPECT_EQ(sites, (std::vector<std::string>{"memfd_create", "ftruncate", "fcntl", "mmap"}));
}

TEST(shared_arena, beyond_the_file_size_limit_is_an_error_not_a_signal) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const System system;
  try {
    const auto arena = Arena::create_shared(system, mebibyte);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource);
    EXPECT_EQ(error.cause(), "RLIMIT_FSIZE allows 4096 bytes, the arena needs 1048576");
    EXPECT_EQ(error.hint(), "raise it (ulimit -f), or lower QPMESH_ARENA_BYTES_MAX");
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
}

// The VmFlags of the mapping that begins at this address.
std::string flags_of_mapping(const void* address) {
  std::ifstream file{"/proc/self/smaps"};
  const std::string beginning = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(address));
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    found |= line.starts_with(beginning);
    if (found && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

TEST(shared_arena, stays_out_of_core_dumps_where_it_is_made_and_where_it_is_mapped) {
  const System system;
  void* const probe =
      ::mmap(nullptr, mebibyte, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ::madvise(probe, mebibyte, MADV_DONTDUMP);
  const bool is_told = flags_of_mapping(probe).find(" dd") != std::string::npos;
  ::munmap(probe, mebibyte);
  if (!is_told) GTEST_SKIP() << "/proc/self/smaps does not tell what stays out of core dumps";
  const auto arena = Arena::create_shared(system, mebibyte);
  const auto peer = qpmesh::transport::map_arena(system, arena.descriptor(), mebibyte);
  EXPECT_NE(flags_of_mapping(arena.data()).find(" dd"), std::string::npos)
      << flags_of_mapping(arena.data());
  EXPECT_NE(flags_of_mapping(peer.data()).find(" dd"), std::string::npos)
      << flags_of_mapping(peer.data());
}

// ---- words for people ----

TEST(log, writes_one_prefixed_line_for_enabled_levels_only) {
  Log log;
  ::testing::internal::CaptureStderr();
  log.warning("{} of {}", 1, 2);
  log.info("not shown");
  Log{LogLevel::error, 7}.error("broken");
  Log{LogLevel::debug}.debug("detail");
  Log{LogLevel::off}.error("not shown");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "qpmesh warning: 1 of 2\nqpmesh rank 7 error: broken\nqpmesh debug: detail\n");
}

TEST(error, says_every_field_in_one_line_and_keeps_them) {
  const Error error{{.code = ErrorCode::peer_dead,
                     .peer = 3,
                     .operation = "allreduce",
                     .cause = "process 4711 ended",
                     .system_error = ECONNRESET,
                     .hint = "look at its log"}};
  EXPECT_STREQ(error.what(),
               "qpmesh: peer_dead in allreduce, rank 3: process 4711 ended (Connection reset by "
               "peer) [hint: "
               "look at its log]");
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): copying is what is tested
  const Error copy = error;
  EXPECT_EQ(copy.code(), ErrorCode::peer_dead);
  EXPECT_EQ(copy.peer(), 3);
  EXPECT_EQ(copy.operation(), "allreduce");
  EXPECT_EQ(copy.cause(), "process 4711 ended");
  EXPECT_EQ(copy.system_error(), ECONNRESET);
  EXPECT_EQ(copy.hint(), "look at its log");
}

TEST(error, leaves_out_what_is_not_known) {
  const Error error{{.code = ErrorCode::timeout, .cause = "30000 ms passed"}};
  EXPECT_STREQ(error.what(), "qpmesh: timeout: 30000 ms passed");
}

TEST(error, says_once_what_its_cause_says_of_errno) {
  const Error error{{.cause = "10.0.0.1:1 (Connection refused)", .system_error = ECONNREFUSED}};
  EXPECT_STREQ(error.what(), "qpmesh: internal: 10.0.0.1:1 (Connection refused)");
}

TEST(error, gives_the_number_of_an_error_that_the_system_cannot_name) {
  const Error error{{.cause = "odd", .system_error = 99999}};
  EXPECT_STREQ(error.what(), "qpmesh: internal: odd (errno 99999)");
}

TEST(error_code, is_spelt_as_in_the_enum) {
  EXPECT_EQ(to_string(ErrorCode::bad_argument), "bad_argument");
  EXPECT_EQ(to_string(ErrorCode::mismatch), "mismatch");
  EXPECT_EQ(to_string(ErrorCode::truncated), "truncated");
  EXPECT_EQ(to_string(ErrorCode::internal), "internal");
}

TEST(error_code, has_its_section_in_docs_errors_md) {
  std::ifstream page{QPMESH_SOURCE_DIR "/docs/errors.md"};
  std::vector<std::string> sections;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("### `")) sections.push_back(line.substr(5, line.size() - 6));
  }
  std::vector<std::string> codes;
  for (auto code = std::uint8_t{0}; code <= static_cast<std::uint8_t>(ErrorCode::internal);
       ++code) {
    codes.emplace_back(to_string(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(sections, codes);
}

// Two threads that compute on one core take it in turns.
TEST(run_delay, is_how_long_a_thread_waits_for_a_core_that_another_one_has) {
  if (::access("/proc/thread-self/schedstat", R_OK) != 0) {
    EXPECT_EQ(qpmesh::base::RunDelay{}.total(), std::chrono::nanoseconds{0});
    return;
  }
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  const auto cpu_time = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  const auto run = [&](std::chrono::nanoseconds& waited) {
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const qpmesh::base::RunDelay delay;
    const auto begin = std::chrono::steady_clock::now();
    const auto begin_on_core = cpu_time();
    const auto before = delay.total();
    while (cpu_time() - begin_on_core < std::chrono::milliseconds{60}) {}
    waited = delay.total() - before;
    const auto off_core = std::chrono::steady_clock::now() - begin - (cpu_time() - begin_on_core);
    EXPECT_LE(waited, off_core + std::chrono::milliseconds{1});
  };
  std::array<std::chrono::nanoseconds, 2> waited{};
  std::thread other{run, std::ref(waited[1])};
  std::thread{run, std::ref(waited[0])}.join();
  other.join();
  EXPECT_GT(std::max(waited[0], waited[1]), std::chrono::milliseconds{20});
}

}  // namespace

// SPDX-License-Identifier: MIT
// The benchmark harness: a number it prints is only as good as its arithmetic,
// and "wrong = 0" only as good as its checks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/harness/cut.hpp"
#include "bench/harness/idle_gap.hpp"
#include "bench/harness/pages.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/sampling.hpp"
#include "bench/harness/settings.hpp"
#include "bench/harness/sizes.hpp"
#include "bench/harness/slice_probe.hpp"
#include "bench/harness/statistics.hpp"
#include "bench/harness/verify.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/expected_error.hpp"

namespace qpmesh::bench {
namespace {

template <class F>
ErrorDetail error_of(F&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.detail();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(statistics, the_median_of_an_even_number_lies_between_the_two_in_the_middle) {
  const std::array samples{4.0, 1.0, 3.0, 2.0};
  EXPECT_DOUBLE_EQ(quantile(samples, 0.5), 2.5);
  const std::array odd{9.0, 1.0, 5.0};
  EXPECT_DOUBLE_EQ(quantile(odd, 0.5), 5.0);
}

TEST(statistics, quartiles_and_percentiles_interpolate_between_neighbours) {
  std::vector<double> samples;
  for (int i = 100; i >= 0; --i) samples.push_back(i);
  const Quartiles q = quartiles(samples);
  EXPECT_DOUBLE_EQ(q.lower, 25);
  EXPECT_DOUBLE_EQ(q.median, 50);
  EXPECT_DOUBLE_EQ(q.upper, 75);
  EXPECT_DOUBLE_EQ(quantile(samples, 0.99), 99);
  EXPECT_DOUBLE_EQ(quantile(std::array{10.0, 20.0}, 0.99), 19.9);
  EXPECT_DOUBLE_EQ(quantile(std::array{10.0, 20.0}, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(std::array{10.0, 20.0}, 1), 20);
}

TEST(statistics, no_samples_are_an_error_and_not_a_zero) {
  EXPECT_EQ(error_of([] { quantile({}, 0.5); }).code, ErrorCode::bad_argument);
}

TEST(statistics, a_ratio_is_taken_within_its_pair_and_more_than_one_is_faster) {
  // The machine became ten times slower half way: pairs still say that we need half of the
  // baseline's time.
  const std::array ours{1.0, 1.0, 10.0, 10.0};
  const std::array baseline{2.0, 2.0, 20.0, 20.0};
  const Quartiles q = ratios(ours, baseline);
  EXPECT_DOUBLE_EQ(q.lower, 2);
  EXPECT_DOUBLE_EQ(q.median, 2);
  EXPECT_DOUBLE_EQ(q.upper, 2);
}

TEST(sizes, binary_units_are_understood) {
  EXPECT_EQ(parse_bytes("4"), 4U);
  EXPECT_EQ(parse_bytes("64KiB"), 65536U);
  EXPECT_EQ(parse_bytes("16MiB"), std::size_t{16} << 20);
  EXPECT_EQ(parse_bytes("3GiB"), std::size_t{3} << 30);
}

TEST(sizes, what_could_mean_two_things_is_refused_with_the_text_it_came_from) {
  for (const std::string text : {"", "KiB", "-4", "4KB", "4K", "4 KiB", "1.5MiB",
                                 "99999999999999999999", "17179869184GiB"}) {
    const ErrorDetail detail = error_of([&] { parse_bytes(text); });
    EXPECT_EQ(detail.code, ErrorCode::bad_argument) << text;
    EXPECT_NE(detail.cause.find('"' + text + '"'), std::string::npos) << detail.cause;
    EXPECT_NE(detail.hint.find("MiB"), std::string::npos) << detail.hint;
  }
}

TEST(sizes, double_from_the_smallest_and_stop_at_the_largest) {
  EXPECT_EQ(sizes_between(4, 32, 4), (std::vector<std::size_t>{4, 8, 16, 32}));
  EXPECT_EQ(sizes_between(12, 30, 4), (std::vector<std::size_t>{12, 24}));
  EXPECT_EQ(sizes_between(8, 8, 4), (std::vector<std::size_t>{8}));
  EXPECT_EQ(sizes_between(0, 8, 4), (std::vector<std::size_t>{0, 4, 8}));
  EXPECT_EQ(sizes_between(4, 32, 4, 3), (std::vector<std::size_t>{12, 24, 36}));
  EXPECT_EQ(sizes_between(std::size_t{1} << 63, ~std::size_t{0}, 4).size(), 1U);
}

TEST(sizes, a_range_without_a_size_names_both_ends) {
  const ErrorDetail empty = error_of([] { sizes_between(64, 32, 4); });
  EXPECT_EQ(empty.cause, "no size lies between --min-bytes 64 and --max-bytes 32");
  const ErrorDetail part = error_of([] { sizes_between(6, 32, 4); });
  EXPECT_EQ(part.cause, "--min-bytes 6 is not a whole number of elements of 4 bytes");
  EXPECT_EQ(part.hint, "--min-bytes 8");
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& cause,
                    const std::string& hint) {
  const Error error{error_of([&] { parse_arguments("bench_test", arguments); })};
  EXPECT_EQ(
      qpmesh::test::difference(
          error,
          {.code = ErrorCode::bad_argument, .operation = "options", .cause = cause, .hint = hint}),
      "");
}

TEST(settings, everything_has_its_option) {
  const Settings settings = parse_arguments(
      "bench_test",
      {"--min-bytes", "8", "--max-bytes=1MiB", "--corrupt", "--algorithm", "one_shot",
       "--transport", "shm", "--buffers", "allocated", "--baseline", "mpi", "--samples", "21",
       "--offset", "16", "--compute-us=20", "--benchmark_filter=/8/", "--benchmark_out=rows.json"});
  EXPECT_EQ(settings.bytes_min, 8U);
  EXPECT_EQ(settings.bytes_max, std::size_t{1} << 20);
  EXPECT_TRUE(settings.check);
  EXPECT_TRUE(settings.corrupt);
  EXPECT_EQ(settings.algorithm, "one_shot");
  EXPECT_EQ(settings.transport, "shm");
  EXPECT_EQ(settings.buffers.kind, BufferKind::allocated);
  EXPECT_EQ(settings.buffers.offset_bytes, 16U);
  EXPECT_DOUBLE_EQ(settings.compute_s, 20e-6);
  EXPECT_EQ(settings.baseline, "mpi");
  EXPECT_EQ(settings.samples, std::optional<std::size_t>{21});
  EXPECT_EQ(settings.benchmark_flags,
            (std::vector<std::string>{"--benchmark_filter=/8/", "--benchmark_out=rows.json"}));
}

TEST(settings, without_options_four_bytes_to_sixteen_mebibytes_are_checked) {
  const Settings settings = parse_arguments("bench_test", {});
  EXPECT_EQ(settings.bytes_min, 4U);
  EXPECT_EQ(settings.bytes_max, std::size_t{16} << 20);
  EXPECT_TRUE(settings.check);
  EXPECT_FALSE(settings.corrupt);
  EXPECT_EQ(settings.buffers.kind, BufferKind::private_memory);
  EXPECT_FALSE(settings.samples);
  EXPECT_FALSE(parse_arguments("bench_test", {"--no-check"}).check);
}

TEST(settings, an_unknown_option_is_answered_with_the_nearest_one) {
  expect_refused({"--min-byte=4"}, "unknown option --min-byte", "did you mean --min-bytes?");
  expect_refused({"--zzzzzzzzzz"}, "unknown option --zzzzzzzzzz",
                 "bench_test --help lists the options");
  expect_refused({"4"}, "unknown option 4", "bench_test --help lists the options");
}

TEST(settings, what_cannot_work_is_refused_before_anything_runs) {
  const std::string help = "bench_test --help";
  expect_refused({"--buffers", "borrowed"}, "--buffers: borrowed not in {private,allocated}", help);
  expect_refused({"--offset", "3"}, "--offset 3", "a multiple of 4 below 4096");
  expect_refused({"--compute-us", "-1"}, "--compute-us -1", "0 to 1000000");
  expect_refused({"--max-bytes"}, "--max-bytes: 1 required TEXT missing", help);
  expect_refused({"--max-bytes", "16MB"}, "\"16MB\" is not a byte count",
                 "a whole number, alone or with KiB, MiB or GiB: 4, 64KiB, 16MiB");
  for (const std::string samples : {"10", "0", "-3"}) {
    expect_refused({"--samples", samples},
                   "--samples " + samples + " is too few for a median with quartiles",
                   "at least 11");
  }
  expect_refused({"--samples", "1000001"}, "--samples 1000001 is too many", "at most 1000000");
  expect_refused({"--corrupt", "--no-check"},
                 "--corrupt with --no-check: nothing would notice the flipped byte",
                 "leave one of the two out");
  expect_refused(
      {"--benchmark_format=json"}, "--benchmark_format=json is not possible here",
      "rows are printed by this program's own reporter; write a file with --benchmark_out");
  expect_refused({"--benchmark_enable_random_interleaving=true"},
                 "--benchmark_enable_random_interleaving=true is not possible here",
                 "every rank would draw its own order, and ranks in different benchmarks wait for "
                 "each other for ever");
}

TEST(cut, has_a_block_for_every_rank_and_no_element_twice) {
  for (const Cut& cut : {Cut::even(12, 3), Cut::even(2, 3), Cut::uneven(12, 3),
                         Cut::uneven(13, 3, 1), Cut::uneven(0, 3), Cut::uneven(1, 1)}) {
    std::size_t begins = 0;
    for (int rank = 0; rank < static_cast<int>(cut.counts().size()); ++rank) {
      EXPECT_EQ(cut.displacement(rank), begins);
      for (std::size_t i = 0; i < cut.count(rank); ++i) {
        const Cut::Place place = cut.find(begins + i);
        EXPECT_EQ(place.block, rank);
        EXPECT_EQ(place.index, i);
      }
      begins += cut.count(rank);
    }
    EXPECT_EQ(begins, cut.element_count());
  }
}

TEST(cut, of_two_ranks_give_each_other_blocks_of_one_length) {
  constexpr int ranks = 4;
  for (int sender = 0; sender < ranks; ++sender) {
    for (int receiver = 0; receiver < ranks; ++receiver) {
      EXPECT_EQ(Cut::uneven(107, ranks, sender).count(receiver),
                Cut::uneven(107, ranks, receiver).count(sender));
    }
  }
  EXPECT_EQ(Cut::uneven(107, ranks).count(3) - Cut::uneven(107, ranks).count(0),
            37U);  // 10 20 30 47
}

std::size_t count_wrong_sums(const std::vector<float>& sums, std::uint64_t seed, int ranks) {
  return count_wrong(std::span<const float>{sums},
                     [=](std::size_t index) { return sum_of_inputs(seed, 0, ranks, index); });
}

TEST(verification, the_true_sums_are_not_wrong) {
  std::vector<float> sums(1000);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (int rank = 3; rank >= 0; --rank)
      sums[i] += input_value<float>(7, rank, i);  // another order than the check's
  }
  EXPECT_EQ(count_wrong_sums(sums, 7, 4), 0U);
  EXPECT_GT(count_wrong_sums(sums, 8, 4), 800U);
  EXPECT_GT(count_wrong_sums(sums, 7, 3), 800U);
}

TEST(verification, one_flipped_byte_is_one_wrong_element_wherever_it_is) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> sums(33);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = input_value<float>(seed, 0, i);
    ASSERT_EQ(count_wrong_sums(sums, seed, 1), 0U);
    flip_one_byte(std::as_writable_bytes(std::span{sums}), seed);
    ASSERT_EQ(count_wrong_sums(sums, seed, 1), 1U) << "seed " << seed;
  }
}

TEST(verification, a_call_that_does_nothing_is_wrong_in_every_element) {
  std::vector<float> sums(1000);
  poison(std::span{sums});
  EXPECT_EQ(count_wrong_sums(sums, 1, 4), sums.size());
  std::vector<std::uint32_t> words(1000);
  poison(std::span{words});
  EXPECT_EQ(count_wrong(std::span<const std::uint32_t>{words},
                        [](std::size_t index) { return input_value<std::uint32_t>(1, 0, index); }),
            words.size());
}

TEST(verification, elements_of_the_wrong_rank_seed_or_place_differ) {
  std::vector<std::uint32_t> words(1000);
  fill_inputs(std::span{words}, 5, 2);
  const std::span<const std::uint32_t> view{words};
  EXPECT_EQ(
      count_wrong(view, [](std::size_t index) { return input_value<std::uint32_t>(5, 2, index); }),
      0U);
  EXPECT_GT(
      count_wrong(view, [](std::size_t index) { return input_value<std::uint32_t>(5, 1, index); }),
      980U);
  EXPECT_GT(
      count_wrong(view, [](std::size_t index) { return input_value<std::uint32_t>(4, 2, index); }),
      980U);
  EXPECT_GT(
      count_wrong(view,
                  [](std::size_t index) { return input_value<std::uint32_t>(5, 2, index + 1); }),
      980U);
}

// Ranks that run one after another: each time a rank asks for the maximum it gets that of the
// slowest rank.
struct FakeMachine {
  double slowest_call_s;
  std::vector<std::size_t> timed_calls;
  std::size_t alignments = 0;

  Agreement agreement(double own_call_s) {
    return {.align = [this] { ++alignments; },
            .max_over_ranks =
                [this, own_call_s](std::span<double> values) {
                  for (double& value : values) value *= slowest_call_s / own_call_s;
                }};
  }
  TimedBatch timed(double call_s) {
    return [this, call_s](std::size_t calls) {
      timed_calls.push_back(calls);
      return call_s * static_cast<double>(calls);
    };
  }
};

TEST(agreement, a_batch_lasts_twenty_microseconds_on_the_slowest_rank) {
  FakeMachine machine{.slowest_call_s = 1.5e-6, .timed_calls = {}};
  const Batch batch = agree_batch(machine.timed(0.5e-6), machine.agreement(0.5e-6));
  EXPECT_EQ(batch.calls, 16U);  // 8 calls would last 12 us
  EXPECT_DOUBLE_EQ(batch.sample_s, 24e-6);
}

TEST(agreement, fast_and_slow_ranks_make_the_same_number_of_calls) {
  FakeMachine slow{.slowest_call_s = 3e-7, .timed_calls = {}};
  FakeMachine fast{.slowest_call_s = 3e-7, .timed_calls = {}};
  const Batch of_slow = agree_batch(slow.timed(3e-7), slow.agreement(3e-7));
  const Batch of_fast = agree_batch(fast.timed(1e-8), fast.agreement(1e-8));
  EXPECT_EQ(of_slow.calls, of_fast.calls);
  EXPECT_EQ(slow.timed_calls, fast.timed_calls);
  EXPECT_EQ(slow.alignments, slow.timed_calls.size());
}

TEST(agreement, one_preempted_trial_does_not_shorten_the_batch) {
  FakeMachine machine{.slowest_call_s = 1e-6, .timed_calls = {}};
  bool preempted = false;
  const TimedBatch timed = [&](std::size_t calls) {
    const double stolen_s = preempted ? 0 : 4e-3;
    preempted = true;
    return 1e-6 * static_cast<double>(calls) + stolen_s;
  };
  EXPECT_EQ(agree_batch(timed, machine.agreement(1e-6)).calls, 32U);
}

TEST(agreement, a_call_of_a_second_is_a_batch_of_its_own_and_a_free_one_ends_too) {
  FakeMachine machine{.slowest_call_s = 1, .timed_calls = {}};
  EXPECT_EQ(agree_batch(machine.timed(1), machine.agreement(1)).calls, 1U);
  EXPECT_EQ(agree_batch(machine.timed(0), machine.agreement(1)).calls, std::size_t{1} << 20);
}

TEST(samples, are_as_many_as_the_time_allows_and_never_too_few_for_quartiles) {
  EXPECT_EQ(sample_count(30e-6, std::nullopt), samples_default);
  EXPECT_EQ(sample_count(10e-3, std::nullopt), 25U);
  EXPECT_EQ(sample_count(5, std::nullopt), pairs_min);
  EXPECT_EQ(sample_count(5, 33), 33U);
}

TEST(samples, alternate_with_the_baseline_as_abba_with_one_batch_for_both) {
  FakeMachine machine{.slowest_call_s = 1, .timed_calls = {}};
  std::string order;
  const auto recorded = [&order](char name, double call_s) {
    return [&order, name, call_s](std::size_t calls) {
      order += name;
      return call_s * static_cast<double>(calls);
    };
  };
  const Times times = take_samples({.ours = recorded('A', 20e-6), .baseline = recorded('B', 5e-6)},
                                   12, machine.agreement(1));
  EXPECT_EQ(order.substr(order.size() - 24), "ABBAABBAABBAABBAABBAABBA");
  EXPECT_EQ(times.batch_calls, 4U);
  ASSERT_EQ(times.ours_s.size(), 12U);
  ASSERT_EQ(times.baseline_s.size(), 12U);
  for (const double call_s : times.ours_s) EXPECT_DOUBLE_EQ(call_s, 20e-6);
  for (const double call_s : times.baseline_s) EXPECT_DOUBLE_EQ(call_s, 5e-6);
}

TEST(samples, of_ours_the_baseline_and_the_limit_go_back_the_way_they_came) {
  FakeMachine machine{.slowest_call_s = 1, .timed_calls = {}};
  std::string order;
  const auto recorded = [&order](char name, double call_s) {
    return [&order, name, call_s](std::size_t calls) {
      order += name;
      return call_s * static_cast<double>(calls);
    };
  };
  const Sides sides{.ours = recorded('A', 20e-6),
                    .baseline = recorded('B', 40e-6),
                    .limit = recorded('C', 10e-6)};
  const Times times = take_samples(sides, 11, machine.agreement(1));
  EXPECT_EQ(order.substr(order.size() - 33), "ABCCBAABCCBAABCCBAABCCBAABCCBAABC");
  EXPECT_EQ(times.limit_s.size(), 11U);
  EXPECT_DOUBLE_EQ(ratios(times.ours_s, times.limit_s).median, 0.5);  // the share of the limit
  const Times alone = take_samples({.ours = recorded('A', 20e-6)}, 11, machine.agreement(1));
  EXPECT_TRUE(alone.baseline_s.empty() && alone.limit_s.empty());
}

TEST(idle_gap, is_the_largest_one_and_that_which_ends_the_probe_counts_too) {
  const auto gap_us = [](const std::vector<int>& readings_us) {
    std::size_t next = 0;
    const auto now = [&] {
      return std::chrono::steady_clock::time_point{
          std::chrono::microseconds{readings_us.at(next++)}};
    };
    return 1e6 * idle_gap(std::chrono::microseconds{100}, now).count();
  };
  EXPECT_DOUBLE_EQ(gap_us({7, 8, 50, 60, 90, 107}), 42);
  EXPECT_DOUBLE_EQ(gap_us({0, 10, 5000}), 4990);
}

TEST(a_row, is_disturbed_by_a_gap_that_makes_a_sample_ten_times_as_long_or_is_a_slice) {
  Row row;
  row.sample_us = 20;
  row.idle_gap_us = 180;
  EXPECT_FALSE(row.disturbed());
  EXPECT_EQ(format_row(row).find("disturbed"), std::string::npos);
  row.idle_gap_us = 181;
  EXPECT_TRUE(row.disturbed());
  row.sample_us = 1000;
  EXPECT_FALSE(row.disturbed());
  row.idle_gap_us = 3000;
  EXPECT_TRUE(row.disturbed());
  EXPECT_TRUE(format_row(row).ends_with("  disturbed: others had a core for 3000 us"))
      << format_row(row);
}

TEST(a_row, says_which_algorithm_is_the_best_and_what_the_measurement_cannot_tell) {
  Row row;
  row.baseline = Comparison{.ratio = {.median = 0.8}, .name = "direct", .itself = 0.98};
  EXPECT_TRUE(format_row(row).ends_with(" no direct (itself 0.98)")) << format_row(row);
  row.baseline->itself.reset();
  EXPECT_TRUE(format_row(row).ends_with(" no direct")) << format_row(row);
}

TEST(slice_probe, adds_up_what_every_rank_has_again_and_again) {
  for (const int ranks : {2, 3, 4}) {
    constexpr std::size_t count = 10'007;
    const std::size_t bytes = SliceProbe::shared_bytes(ranks, count);
    const auto shared = make_pages<std::byte>(bytes);
    std::memset(shared.get(), 0, bytes);
    std::vector<std::size_t> wrong(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        SliceProbe probe{shared.get(), rank, ranks, count, 8};
        for (std::uint64_t seed = 1; seed <= 3; ++seed) {
          fill_inputs(probe.in(), seed, rank);
          probe.run();
          wrong[static_cast<std::size_t>(rank)] += count_wrong(
              probe.out(), [&](std::size_t index) { return sum_of_inputs(seed, 0, ranks, index); });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<std::size_t>(static_cast<std::size_t>(ranks)))
        << ranks << " ranks";
  }
}

}  // namespace
}  // namespace qpmesh::bench

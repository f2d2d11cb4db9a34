// SPDX-License-Identifier: MIT
// The grammar of QPMESH_ALGORITHMS.
#include "collectives/forced.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "collectives/registry.hpp"
#include "support/expected_error.hpp"

namespace {

using namespace qpmesh;
using namespace qpmesh::collectives;

const Algorithm* row(Collective collective, std::string_view name) {
  return find_algorithm(collective, name);
}

std::string refusal(const std::string& text, const std::string& cause, const std::string& hint) {
  try {
    parse_forced(text);
  } catch (const Error& error) {
    return test::difference(error, {ErrorCode::bad_config, no_peer, "init",
                                    "algorithms (QPMESH_ALGORITHMS)" + cause, hint});
  }
  return "no error";
}

TEST(parse_forced, takes_any_number_of_entries_and_the_last_word_on_a_collective) {
  EXPECT_EQ(parse_forced(""), Forced{});
  Forced expected{};
  expected.rules[static_cast<std::size_t>(Collective::alltoall)] = {
      {.row = row(Collective::alltoall, "bruck")}};
  EXPECT_EQ(parse_forced("alltoall=bruck"), expected);
  EXPECT_EQ(parse_forced("alltoall=all_pairs,alltoall=bruck"), expected);
  EXPECT_EQ(parse_forced("alltoall=one_shot:<8KiB,all_pairs,alltoall=bruck"), expected);
  expected.rules[static_cast<std::size_t>(Collective::scan)] = {
      {.row = row(Collective::scan, "doubling")}};
  EXPECT_EQ(parse_forced("alltoall=bruck,scan=doubling"), expected);
}

TEST(parse_forced, takes_rows_by_size_and_finds_the_one_of_each_size) {
  const Forced forced = parse_forced(
      "broadcast=chain,allreduce=one_shot:<4096,direct:<1MiB,cma,barrier=dissemination");
  const auto of = [&](std::size_t bytes) {
    return forced.find(Collective::allreduce, bytes)->name;
  };
  EXPECT_EQ(of(0), "one_shot");
  EXPECT_EQ(of(4095), "one_shot");
  EXPECT_EQ(of(4096), "direct");
  EXPECT_EQ(of((1 << 20) - 1), "direct");
  EXPECT_EQ(of(1 << 20), "cma");
  EXPECT_EQ(of(~std::size_t{0}), "cma");
  EXPECT_EQ(forced.find(Collective::broadcast, 1)->name, "chain");
  EXPECT_EQ(forced.find(Collective::barrier, 0)->name, "dissemination");
  EXPECT_EQ(forced.find(Collective::scan, 1), nullptr);
}

TEST(parse_forced, names_what_is_no_entry_and_what_would_be_one) {
  for (const std::string entry : {"sort=quick", "=ring", " allreduce=ring", "Allreduce=ring"}) {
    EXPECT_EQ(
        refusal("barrier=dissemination," + entry,
                " has '" + entry + "', which names no algorithm of a collective",
                "write collective=algorithm, separated by commas; collectives: barrier, "
                "broadcast, reduce, "
                "allgather, reduce_scatter, allreduce, gather, scatter, alltoall, scan, exscan"),
        "");
  }
  EXPECT_EQ(refusal("allreduce", " has 'allreduce', which names no algorithm of a collective",
                    "write collective=algorithm, separated by commas; collectives: *"),
            "");
  for (const std::string name : {"", "RING", "ring ", "all_pairs=ring"}) {
    EXPECT_EQ(
        refusal("allreduce=" + name, ": '" + name + "' is no algorithm of allreduce",
                "known: recursive_multiplying, recursive_doubling, butterfly, circulant, ring, *"),
        "");
  }
  EXPECT_EQ(
      refusal("allreduce=ring,allgather", ": 'allgather' is no algorithm of allreduce", "known: *"),
      "");
}

TEST(parse_forced, refuses_sizes_that_are_none_and_vectors_that_have_no_row) {
  const std::string hint = "write collective=row:<SIZE,row: sizes rise, and the last row has none";
  for (const std::string size : {":", ":<", ":8KiB", ":<0", ":<-1", ":<8KB", ":<8KiB ", ":>8KiB"}) {
    EXPECT_EQ(refusal(fmt::format("allreduce=one_shot{},direct", size),
                      fmt::format(" has 'one_shot{}', whose '{}' is no size", size, size), hint),
              "");
  }
  EXPECT_EQ(refusal("allreduce=one_shot:<8KiB",
                    ": no row of allreduce for vectors from 8192 bytes on", hint),
            "");
  EXPECT_EQ(refusal("allreduce=one_shot:<8KiB,direct:<8KiB,cma",
                    ": 'direct' of allreduce has no vectors left", hint),
            "");
  EXPECT_EQ(refusal("allreduce=one_shot:<8KiB,direct:<4KiB,cma",
                    ": 'direct' of allreduce has no vectors left", hint),
            "");
  EXPECT_EQ(refusal("allreduce=ring,direct", ": 'direct' of allreduce has no vectors left", hint),
            "");
}

}  // namespace

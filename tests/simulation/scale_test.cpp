// The closed forms beside the algorithms against the algorithms themselves, in the simulator for
// scale.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/scale/simulator.hpp"

namespace qpmesh::test {
namespace {

using bench::Prediction;
using collectives::Algorithm;
using collectives::CallShape;
using collectives::Cost;

// Where subtrees are not full, or skips odd, not every overhead is on the longest way. Powers of
// two are exact but for overheads that two ways have at different rounds.
constexpr double percent_max_of_powers_of_two = 1;
constexpr double percent_max = 4;

double percent_off(double closed, double simulated) {
  return closed == simulated ? 0 : 100 * std::abs(closed / simulated - 1);
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, costs_what_its_closed_form_says) {
  const Algorithm& algorithm = GetParam();
  constexpr double messages_max = 300'000;  // of a case
  int cases = 0;
  for (const int size :
       {2, 3, 4, 5, 7, 8, 12, 16, 17, 18, 27, 32, 33, 64, 100, 127, 256, 300, 1000, 1024}) {
    for (const std::size_t block_bytes :
         std::initializer_list<std::size_t>{0, 1, 64, 1024, 16'384, 262'144}) {
      const CallShape shape{.size = size, .bytes = block_bytes * static_cast<std::size_t>(size)};
      if (!algorithm.applies(shape)) continue;
      const Cost closed = algorithm.cost(shape, bench::reference_network);
      if (closed.messages * size > messages_max) continue;
      ++cases;
      const Cost simulated = bench::simulate(algorithm, shape, bench::reference_network).cost;
      const std::string what = fmt::format("{} ranks, blocks of {} bytes", size, block_bytes);
      const bool power_of_two = (size & (size - 1)) == 0;
      EXPECT_LE(percent_off(closed.time_s, simulated.time_s),
                power_of_two ? percent_max_of_powers_of_two : percent_max)
          << what << fmt::format(": {} s, simulated {} s", closed.time_s, simulated.time_s);
      EXPECT_EQ(closed.messages, simulated.messages) << what;
      EXPECT_NEAR(closed.bytes, simulated.bytes, 1e-9 * simulated.bytes) << what;
    }
  }
  EXPECT_GE(cases, 60);
}

// Those that send messages: the others apply to ranks that share memory alone, and their costs are
// not of LogGP.
std::vector<Algorithm> algorithms_of_messages() {
  std::vector<Algorithm> rows;
  for (const Algorithm* const row : collectives::algorithms()) {
    if (row->applies({.size = 64, .bytes = 4096})) rows.push_back(*row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(all, EveryAlgorithm, testing::ValuesIn(algorithms_of_messages()),
                         [](const auto& row) {
                           return fmt::format("{}_{}", name_of(row.param.collective),
                                              row.param.name);
                         });

}  // namespace
}  // namespace qpmesh::test

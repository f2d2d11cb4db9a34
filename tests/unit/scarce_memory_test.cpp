// SPDX-License-Identifier: MIT
// Memory that runs out in the middle of a call: the call ends with an error, and what it had begun
// ends with it.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "qpmesh/qpmesh.hpp"
#include "support/heap.hpp"

namespace {

using namespace qpmesh;

enum class Outcome : std::uint8_t { well, refused, broken };

// A large message to ourselves before its receive: an offer, an answer, and the bytes.
Outcome exchange_with_ourselves(Communicator& world, std::uint64_t failing_allocation) {
  const std::vector<int> out(100'000, 7);
  std::vector<int> in(out.size());
  const test::FailingAllocation failing{failing_allocation};
  try {
    Request sent = world.send_async(out, 0, 1);
    world.receive(in, 0, 1);
    sent.wait();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource) << error.what();
    return Outcome::broken;
  } catch (const std::bad_alloc&) {
    return Outcome::refused;  // before anything had begun
  }
  EXPECT_EQ(in, out);
  return Outcome::well;
}

TEST(an_exchange_that_runs_out_of_memory,
     wherever_it_does_ends_and_is_the_end_of_its_communicator_or_never_was) {
  bool fired = true;
  std::uint64_t index = 0;
  for (; fired; ++index) {
    SCOPED_TRACE(index);
    Communicator world = init();
    const Outcome outcome = exchange_with_ourselves(world, index);
    fired = test::FailingAllocation::fired();
    if (outcome == Outcome::broken) {
      EXPECT_THROW(world.barrier(), Error) << "the same error again";
    } else {
      EXPECT_EQ(exchange_with_ourselves(world, ~std::uint64_t{0} >> 1), Outcome::well);
    }
  }
  EXPECT_GT(index, 1U);
}

TEST(a_warning_that_finds_no_memory, ends_the_receive_that_waited_and_does_not_leave_it_behind) {
  Options options;
  options.stall_warning_ms = 1;
  Communicator world = init(options);
  int in = 0;
  try {
    const test::FailingAllocation failing{0};
    world.receive(std::span{&in, 1}, 0, 1, {.timeout = std::chrono::seconds{10}});
    FAIL() << "nobody has sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_resource) << error.what();
    EXPECT_EQ(error.operation(), "receive");
  }
  EXPECT_TRUE(test::FailingAllocation::fired());
}

}  // namespace

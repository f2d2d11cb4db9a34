// SPDX-License-Identifier: MIT
// What calls through qpmesh.h allocate.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "qpmesh/qpmesh.h"
#include "support/heap.hpp"

namespace {

constexpr std::size_t pairs_in_flight = 8;

// To ourselves, and every handle freed.
void exchange(qpmesh_communicator* world) {
  std::array<std::int32_t, pairs_in_flight> out{1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::int32_t, pairs_in_flight> in{};
  std::array<qpmesh_request*, 2 * pairs_in_flight> requests{};
  for (std::size_t i = 0; i < pairs_in_flight; ++i) {
    const int tag = static_cast<int>(i);
    ASSERT_EQ(qpmesh_receive_async(world, &in[i], 1, QPMESH_INT32, 0, tag, nullptr, &requests[i]),
              QPMESH_OK);
    ASSERT_EQ(qpmesh_send_async(world, &out[i], 1, QPMESH_INT32, 0, tag, nullptr,
                                &requests[pairs_in_flight + i]),
              QPMESH_OK);
  }
  ASSERT_EQ(qpmesh_wait_all(requests.data(), requests.size()), QPMESH_OK);
  for (qpmesh_request* const request : requests) qpmesh_request_free(request);
  ASSERT_EQ(in, out);
}

TEST(requests_for_c, are_made_waited_for_and_freed_without_an_allocation_once_as_many_were_there) {
  qpmesh_communicator* world = nullptr;
  ASSERT_EQ(qpmesh_init(&world), QPMESH_OK);
  exchange(world);
  const std::uint64_t before = qpmesh::test::heap_allocations();
  for (int i = 0; i < 100; ++i) exchange(world);
  EXPECT_EQ(qpmesh::test::heap_allocations() - before, 0U);
  EXPECT_EQ(qpmesh_finalize(world, nullptr), QPMESH_OK);
}

TEST(several_vectors, are_reduced_again_and_again_without_an_allocation_once_it_has_been_done) {
  qpmesh_communicator* world = nullptr;
  ASSERT_EQ(qpmesh_init(&world), QPMESH_OK);
  std::vector<double> vector(20'000, 2);
  std::array<double, 3> few{1, 2, 3};
  const std::array<void*, 2> vectors{vector.data(), few.data()};
  const std::array<std::size_t, 2> counts{vector.size(), few.size()};
  qpmesh_call prepared{};
  prepared.struct_bytes = sizeof prepared;
  prepared.prepared = 1;
  qpmesh_request* step = nullptr;
  ASSERT_EQ(qpmesh_allreduce_each_async(world, vectors.data(), counts.data(), 2, QPMESH_FLOAT64,
                                        QPMESH_AVERAGE, &prepared, &step),
            QPMESH_OK);
  const auto run = [step] {
    ASSERT_EQ(qpmesh_start(step), QPMESH_OK);
    ASSERT_EQ(qpmesh_wait(step, nullptr), QPMESH_OK);
  };
  run();
  run();  // the first one's request is there until the second one has been made
  const std::uint64_t before = qpmesh::test::heap_allocations();
  for (int i = 0; i < 100; ++i) run();
  EXPECT_EQ(qpmesh::test::heap_allocations() - before, 0U);
  EXPECT_EQ(vector.back(), 2);
  EXPECT_EQ(qpmesh_request_free(step), QPMESH_OK);
  EXPECT_EQ(qpmesh_finalize(world, nullptr), QPMESH_OK);
}

}  // namespace

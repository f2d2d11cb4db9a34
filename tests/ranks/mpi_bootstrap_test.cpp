// SPDX-License-Identifier: MIT
// Run by mpirun. One program, in order: before MPI_Init, while MPI runs, after MPI_Finalize.
#include <gtest/gtest.h>

#include <chrono>

#include "qpmesh/error.hpp"
#include "qpmesh/mpi.hpp"
#include "tests/support/expected_error.hpp"

namespace qpmesh {
namespace {

using namespace std::chrono_literals;

Blob blob_of(int rank, std::size_t bytes) { return Blob(bytes, static_cast<std::byte>(rank + 1)); }

void expect_bad_argument(MPI_Comm communicator, const std::string& cause, const std::string& hint) {
  try {
    const MpiBootstrap bootstrap{communicator};
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(
            error,
            {.code = ErrorCode::bad_argument, .operation = "init", .cause = cause, .hint = hint}),
        "");
  }
}

TEST(mpi_bootstrap, refuses_an_mpi_that_is_not_initialised) {
  expect_bad_argument(MPI_COMM_WORLD, "MPI is not initialised", "call MPI_Init first");
}

TEST(mpi_bootstrap, refuses_a_null_communicator) {
  ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
  expect_bad_argument(MPI_COMM_NULL, "the communicator is MPI_COMM_NULL",
                      "only its members may start from it");
}

TEST(mpi_bootstrap, gathers_blobs_of_any_length_in_rank_order) {
  MpiBootstrap bootstrap{MPI_COMM_WORLD};
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ASSERT_GT(size, 1) << "to be run by mpirun";
  EXPECT_EQ(bootstrap.size(), size);
  const auto bytes = [&](int rank) {
    return rank == 1 ? std::size_t{64} * 1024 : static_cast<std::size_t>(rank) * 100;
  };
  const auto blobs =
      bootstrap.all_gather(blob_of(bootstrap.rank(), bytes(bootstrap.rank())), no_deadline);
  ASSERT_EQ(blobs.size(), static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(blobs[static_cast<std::size_t>(rank)], blob_of(rank, bytes(rank)));
}

TEST(mpi_bootstrap, numbers_the_ranks_of_the_communicator_that_it_was_given) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &reversed);
  {
    MpiBootstrap bootstrap{reversed};
    EXPECT_EQ(bootstrap.rank(), size - 1 - rank);
    const auto blobs = bootstrap.all_gather(blob_of(bootstrap.rank(), 3), no_deadline);
    EXPECT_EQ(blobs.front(), blob_of(0, 3));
  }
  MPI_Comm_free(&reversed);
}

TEST(mpi_bootstrap, tells_every_rank_whose_blob_is_too_long) {
  MpiBootstrap bootstrap{MPI_COMM_WORLD};
  const bool me = bootstrap.rank() == 1;
  try {
    bootstrap.all_gather(blob_of(0, me ? 65'537 : 1), no_deadline);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(error, {.code = ErrorCode::bad_argument,
                                 .peer = 1,
                                 .operation = "init",
                                 .cause = me ? "a blob of 65537 bytes; at most 65536 are allowed"
                                             : "rank 1's blob is longer than 65536 bytes",
                                 .hint = "all_gather is for addresses and keys, not for data"}),
        "");
  }
  EXPECT_EQ(bootstrap.all_gather(blob_of(0, 1), no_deadline).size(),
            static_cast<std::size_t>(bootstrap.size()));
}

TEST(mpi_bootstrap, gives_up_at_the_deadline_and_names_who_has_not_come) {
  MpiBootstrap bootstrap{MPI_COMM_WORLD};
  const auto gather = [&] {
    bootstrap.all_gather(blob_of(0, 1), std::chrono::steady_clock::now() + 200ms);
  };
  const bool am_missing = bootstrap.rank() == 1;
  if (!am_missing) {
    for (const std::string cause : {bootstrap.rank() == 0 ? "rank 1 of 3 missing after"
                                                          : "MPI_Iallgather has not ended after",
                                    "an all_gather before did not end in time"}) {
      try {
        gather();
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::timeout);
        EXPECT_NE(error.detail().cause.find(cause), std::string::npos) << error.what();
      }
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(mpi_bootstrap, refuses_an_mpi_that_is_finalised) {
  ASSERT_EQ(MPI_Finalize(), MPI_SUCCESS);
  expect_bad_argument(MPI_COMM_WORLD, "MPI is finalised already", "call MPI_Finalize after init");
}

}  // namespace
}  // namespace qpmesh

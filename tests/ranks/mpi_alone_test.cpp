// Run by a launcher that is not of the MPI which this program is linked with: to its MPI every process is alone.
#include <gtest/gtest.h>

#include "qpmesh/error.hpp"
#include "qpmesh/mpi.hpp"
#include "qpmesh/qpmesh.hpp"
#include "tests/support/expected_error.hpp"

namespace qpmesh {
namespace {

TEST(mpi_bootstrap, refuses_to_be_a_world_of_one_where_the_launcher_says_many) {
  ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ASSERT_EQ(size, 1) << "to be run by another launcher";
  try {
    const MpiBootstrap bootstrap{MPI_COMM_WORLD};
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(test::difference(
                  error, {.code = ErrorCode::bad_config,
                          .operation = "init",
                          .cause = "QPMESH_SIZE says 2 ranks, but to *MPI* this process is alone",
                          .hint = "start the program with the mpirun of the MPI that it is linked with"}),
              "");
  }
  MpiBootstrap self{MPI_COMM_SELF};  // meant to be alone
  Communicator world = init(self, Options{});
  world.barrier();
  world.finish();
  MPI_Finalize();
}

}  // namespace
}  // namespace qpmesh

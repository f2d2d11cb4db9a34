// SPDX-License-Identifier: MIT
// Run by a launcher that is not of the MPI which this program is linked with: to its MPI every
// process is alone.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "qpmesh/error.hpp"
#include "qpmesh/mpi.hpp"
#include "qpmesh/qpmesh.hpp"
#include "tests/support/expected_error.hpp"

namespace qpmesh {
namespace {

// Open MPI's processes of one user share a folder, and fail now and then when two make it at once.
// qpmesh-run keeps Open MPI's variables from its ranks.
class OwnSession {
 public:
  OwnSession() {
    std::string name =
        (std::filesystem::temp_directory_path() / "qpmesh-mpi-alone-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp failed"};
    folder_ = name;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    ::setenv("OMPI_MCA_orte_tmpdir_base", name.c_str(), 1);
  }
  ~OwnSession() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  OwnSession(const OwnSession&) = delete;
  OwnSession& operator=(const OwnSession&) = delete;

 private:
  std::filesystem::path folder_;
};

TEST(mpi_bootstrap, refuses_to_be_a_world_of_one_where_the_launcher_says_many) {
  const OwnSession session;
  ASSERT_EQ(MPI_Init(nullptr, nullptr), MPI_SUCCESS);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ASSERT_EQ(size, 1) << "to be run by another launcher";
  try {
    const MpiBootstrap bootstrap{MPI_COMM_WORLD};
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(
        test::difference(
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

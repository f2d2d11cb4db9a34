// SPDX-License-Identifier: MIT
// Start from a running MPI: link qpmesh::mpi_bootstrap.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "qpmesh/bootstrap.hpp"

namespace qpmesh {

// All-gathers over a duplicate of the communicator, which must not be freed before init returns.
// MPI must be initialised and not finalised (Error{bad_argument} otherwise); it is not used after
// init. Past the deadline Error{timeout}, at rank 0 with the ranks that are missing; MPI cannot
// take back what it was asked, so all_gather fails at once from then on, and MPI_Finalize may wait
// for the ranks that did not come. Error{bad_config} when MPI_COMM_WORLD is this process alone
// although the launcher's environment says that there are many: the launcher was another MPI's.
class MpiBootstrap final : public Bootstrap {
 public:
  // Collective over the communicator; waits for all of its ranks without a limit.
  explicit MpiBootstrap(MPI_Comm communicator);
  ~MpiBootstrap() override;
  MpiBootstrap(const MpiBootstrap&) = delete;
  MpiBootstrap& operator=(const MpiBootstrap&) = delete;

  int rank() const override;
  int size() const override;
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override;

 private:
  void wait_for_ranks(Deadline deadline);
  [[noreturn]] void fail_timeout(const std::string& cause);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  bool is_under_way_ = false;  // an all_gather: then no other begins, and nothing is freed
};

}  // namespace qpmesh

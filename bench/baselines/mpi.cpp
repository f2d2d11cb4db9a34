// SPDX-License-Identifier: MIT
#include "bench/baselines/mpi.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "bench/baselines/mpi_calls.hpp"
#include "bootstrap/launcher.hpp"
#include "qpmesh/communicator.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bench {
namespace {

[[noreturn]] void refuse(ErrorCode code, std::string cause, std::string hint) {
  throw Error({.code = code,
               .operation = "baseline mpi",
               .cause = std::move(cause),
               .hint = std::move(hint)});
}

// What MPI implementations' launchers give each rank. Without one of them
// MPI_Init makes every process a world of one.
bool started_by_mpi_launcher() {
  constexpr std::array variables{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_FD"};
  const auto environment = bootstrap::process_environment();
  return std::ranges::any_of(variables,
                             [&](const char* name) { return environment(name).has_value(); });
}

class Mpi final : public Baseline {
 public:
  Mpi(int rank, int size) {
    MPI_Init(nullptr, nullptr);
    int mpi_rank = -1;
    int mpi_size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
    if (mpi_rank == rank && mpi_size == size) return;
    MPI_Finalize();
    refuse(ErrorCode::bad_config,
           fmt::format("this process is rank {} of {} to {}, but rank {} of {} to qpmesh", mpi_rank,
                       mpi_size, mpi_library_version(), rank, size),
           "start it with the mpirun of the MPI it was built with");
  }
  // An exception on its way means that other ranks may never reach MPI_Finalize, which waits for
  // them.
  ~Mpi() override {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  std::string name() const override { return mpi_library_version(); }

  void collective(const Operation& operation) override { mpi_collective(operation); }
  void send(Outgoing message) override { mpi_send(message); }
  void receive(Incoming message) override { mpi_receive(message); }
  void send_and_receive(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                        Waiting waiting) override {
    mpi_send_and_receive(sends, receives, waiting, requests_);
  }

 private:
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Baseline> make_mpi_baseline(Communicator& world) {
  if (!started_by_mpi_launcher()) {
    refuse(ErrorCode::bad_config,
           "no MPI launcher started this process: its environment names no MPI rank",
           "mpirun -np 2 bench_… --baseline mpi");
  }
  return std::make_unique<Mpi>(world.rank(), world.size());
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
// What MPI's functions add to a call: small operations of a rank alone, or of several, through
// MPI_…, the face for C and the face for C++, in turn. Medians of batches, in ns a call; the
// differences are of each turn, with quartiles.
//   bench_mpi_overhead; qpmesh-run -np 2 bench_mpi_overhead
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

#include "qpmesh/qpmesh.h"
#include "qpmesh/qpmesh.hpp"

namespace {

constexpr int turns = 201;
constexpr int calls_per_batch = 2000;

double quantile(std::vector<double> values, double fraction) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
}

template <class Call>
double time_ns(const Call& call) {
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  for (int i = 0; i < calls_per_batch; ++i) call();
  const std::chrono::duration<double, std::nano> took = Clock::now() - begun;
  return took.count() / calls_per_batch;
}

void require(int code) {
  if (code == QPMESH_OK) return;
  std::fprintf(stderr, "%s\n", qpmesh_error_text());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// The three faces have a context each: none of them passes the others' messages.
template <class Mpi, class C, class Cxx>
void compare(const char* name, int rank, const Mpi& mpi, const C& c, const Cxx& cxx) {
  std::array<std::vector<double>, 3> times;
  std::array<std::vector<double>, 2> added;
  for (int turn = -2; turn < turns; ++turn) {
    const std::array<double, 3> now{time_ns(mpi), time_ns(c), time_ns(cxx)};
    if (turn < 0) continue;
    for (std::size_t i = 0; i < now.size(); ++i) times[i].push_back(now[i]);
    added[0].push_back(now[0] - now[2]);
    added[1].push_back(now[0] - now[1]);
  }
  if (rank != 0) return;
  std::printf(
      "%-18s MPI %7.1f ns, C %7.1f, C++ %7.1f; over C++ %6.1f [%.1f %.1f], over C %6.1f [%.1f "
      "%.1f]\n",
      name, quantile(times[0], 0.5), quantile(times[1], 0.5), quantile(times[2], 0.5),
      quantile(added[0], 0.5), quantile(added[0], 0.25), quantile(added[0], 0.75),
      quantile(added[1], 0.5), quantile(added[1], 0.25), quantile(added[1], 0.75));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  qpmesh_communicator* c_world = nullptr;
  require(qpmesh_init(&c_world));
  qpmesh::Communicator world = qpmesh::init();

  std::array<double, 1> in{1.0};
  std::array<double, 1> out{};
  compare(
      "allreduce 8 B", rank,
      [&] { MPI_Allreduce(in.data(), out.data(), 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); },
      [&] {
        require(qpmesh_allreduce(c_world, in.data(), out.data(), 1, QPMESH_FLOAT64, QPMESH_SUM,
                                 nullptr));
      },
      [&] { world.allreduce(in, out, qpmesh::sum); });
  compare(
      "broadcast 8 B", rank, [&] { MPI_Bcast(in.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); },
      [&] { require(qpmesh_broadcast(c_world, in.data(), 1, QPMESH_FLOAT64, 0, nullptr)); },
      [&] { world.broadcast(in, 0); });
  compare(
      "barrier", rank, [&] { MPI_Barrier(MPI_COMM_WORLD); },
      [&] { require(qpmesh_barrier(c_world, nullptr)); }, [&] { world.barrier(); });
  compare(
      "reduce 8 B", rank,
      [&] { MPI_Reduce(in.data(), out.data(), 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); },
      [&] {
        require(qpmesh_reduce(c_world, in.data(), out.data(), 1, QPMESH_FLOAT64, QPMESH_SUM, 0,
                              nullptr));
      },
      [&] { world.reduce(in, out, qpmesh::sum, 0); });
  compare(
      "scan 8 B", rank,
      [&] { MPI_Scan(in.data(), out.data(), 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); },
      [&] {
        require(
            qpmesh_scan(c_world, in.data(), out.data(), 1, QPMESH_FLOAT64, QPMESH_SUM, nullptr));
      },
      [&] { world.scan(in, out, qpmesh::sum); });
  std::vector<double> all(static_cast<std::size_t>(size));
  compare(
      "gather 8 B", rank,
      [&] { MPI_Gather(in.data(), 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); },
      [&] {
        require(qpmesh_gather(c_world, in.data(), all.data(), 1, QPMESH_FLOAT64, 0, nullptr));
      },
      [&] { world.gather(in, all, 0); });
  compare(
      "scatter 8 B", rank,
      [&] { MPI_Scatter(all.data(), 1, MPI_DOUBLE, out.data(), 1, MPI_DOUBLE, 0, MPI_COMM_WORLD); },
      [&] {
        require(qpmesh_scatter(c_world, all.data(), out.data(), 1, QPMESH_FLOAT64, 0, nullptr));
      },
      [&] { world.scatter(all, out, 0); });
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  compare(
      "sendrecv 8 B", rank,
      [&] {
        MPI_Sendrecv(in.data(), 1, MPI_DOUBLE, right, 1, out.data(), 1, MPI_DOUBLE, left, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      },
      [&] {
        require(qpmesh_sendrecv(c_world, in.data(), 1, QPMESH_FLOAT64, right, 1, out.data(), 1,
                                QPMESH_FLOAT64, left, 1, nullptr, nullptr));
      },
      [&] { world.sendrecv(in, right, out, left, 1); });
  world.finish();
  require(qpmesh_finalize(c_world, nullptr));
  MPI_Finalize();
  return 0;
}

#include "bench/baselines/mpi_calls.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace qpmesh::bench {
namespace {

// The blocking function, or the one that begins the same, and waits for it.
template <class Blocking, class Begin, class... Arguments>
void call(const Baseline::Operation& operation, Blocking blocking, Begin begin,
          Arguments... arguments) {
  if (!operation.waited) {
    blocking(arguments...);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  begin(arguments..., &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Blocks of one length: MPI's plain form. count is that of one block.
void equal_blocks(const Baseline::Operation& operation, const void* in, void* out, int count) {
  MPI_Comm world = MPI_COMM_WORLD;
  switch (operation.collective) {
    case Collective::allgather:
      call(operation, MPI_Allgather, MPI_Iallgather, in, count, MPI_FLOAT, out, count, MPI_FLOAT,
           world);
      return;
    case Collective::reduce_scatter:
      call(operation, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, in, out, count,
           MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::gather:
      call(operation, MPI_Gather, MPI_Igather, in, count, MPI_FLOAT, out, count, MPI_FLOAT,
           operation.root, world);
      return;
    case Collective::scatter:
      call(operation, MPI_Scatter, MPI_Iscatter, in, count, MPI_FLOAT, out, count, MPI_FLOAT,
           operation.root, world);
      return;
    case Collective::alltoall:
      call(operation, MPI_Alltoall, MPI_Ialltoall, in, count, MPI_FLOAT, out, count, MPI_FLOAT,
           world);
      return;
    default: throw std::logic_error{"a collective without blocks"};
  }
}

void unequal_blocks(const Baseline::Operation& operation, const void* in, void* out) {
  MPI_Comm world = MPI_COMM_WORLD;
  const int* const counts = operation.cut->mpi_counts();
  const int* const displacements = operation.cut->mpi_displacements();
  const int in_count = mpi_count(operation.in.size());
  const int out_count = mpi_count(operation.out.size());
  switch (operation.collective) {
    case Collective::allgather:
      call(operation, MPI_Allgatherv, MPI_Iallgatherv, in, in_count, MPI_FLOAT, out, counts,
           displacements, MPI_FLOAT, world);
      return;
    case Collective::reduce_scatter:
      call(operation, MPI_Reduce_scatter, MPI_Ireduce_scatter, in, out, counts, MPI_FLOAT, MPI_SUM,
           world);
      return;
    case Collective::gather:
      call(operation, MPI_Gatherv, MPI_Igatherv, in, in_count, MPI_FLOAT, out, counts,
           displacements, MPI_FLOAT, operation.root, world);
      return;
    case Collective::scatter:
      call(operation, MPI_Scatterv, MPI_Iscatterv, in, counts, displacements, MPI_FLOAT, out,
           out_count, MPI_FLOAT, operation.root, world);
      return;
    case Collective::alltoall:
      call(operation, MPI_Alltoallv, MPI_Ialltoallv, in, counts, displacements, MPI_FLOAT, out,
           counts, displacements, MPI_FLOAT, world);
      return;
    default: throw std::logic_error{"a collective without blocks"};
  }
}

void polled_allreduce(const void* in, void* out, int count) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

}  // namespace

// "Open MPI v4.1.4" of "Open MPI v4.1.4, package: …"; "MPICH Version: 4.0.2" of several lines.
std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string version(text.data(), static_cast<std::size_t>(length));
  version.resize(std::min(version.find_first_of(",\n"), version.size()));
  std::ranges::replace(version, '\t', ' ');
  return version;
}

int mpi_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::length_error{std::to_string(count) +
                            " elements, but MPI 3 counts with int [hint: a smaller --max-bytes]"};
  }
  return static_cast<int>(count);
}

void mpi_collective(const Baseline::Operation& operation) {
  const void* const in = operation.in.data();
  void* const out = operation.out.data();
  const auto count = [&operation] { return mpi_count(operation.out.size()); };
  MPI_Comm world = MPI_COMM_WORLD;
  switch (operation.collective) {
    case Collective::barrier: call(operation, MPI_Barrier, MPI_Ibarrier, world); return;
    case Collective::broadcast:
      call(operation, MPI_Bcast, MPI_Ibcast, out, count(), MPI_FLOAT, operation.root, world);
      return;
    case Collective::allreduce:
      if (operation.polled) return polled_allreduce(in, out, count());
      call(operation, MPI_Allreduce, MPI_Iallreduce, in, out, count(), MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::reduce:
      call(operation, MPI_Reduce, MPI_Ireduce, in, out, count(), MPI_FLOAT, MPI_SUM, operation.root,
           world);
      return;
    case Collective::scan:
      call(operation, MPI_Scan, MPI_Iscan, in, out, count(), MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::exscan:
      call(operation, MPI_Exscan, MPI_Iexscan, in, out, count(), MPI_FLOAT, MPI_SUM, world);
      return;
    default: break;
  }
  if (operation.cut->is_even()) {
    equal_blocks(operation, in, out, mpi_count(operation.cut->count(0)));
  } else {
    unequal_blocks(operation, in, out);
  }
}

void mpi_send(Baseline::Outgoing message) {
  MPI_Send(message.data.data(), mpi_count(message.data.size()), MPI_BYTE, message.destination, 0,
           MPI_COMM_WORLD);
}

void mpi_receive(Baseline::Incoming message) {
  MPI_Recv(message.data.data(), mpi_count(message.data.size()), MPI_BYTE, message.source, 0,
           MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void mpi_send_and_receive(std::span<const Baseline::Outgoing> sends,
                          std::span<const Baseline::Incoming> receives, Waiting waiting,
                          std::vector<MPI_Request>& requests) {
  requests.resize(sends.size() + receives.size());
  auto request = requests.begin();
  for (const auto& [data, source] : receives)
    MPI_Irecv(data.data(), mpi_count(data.size()), MPI_BYTE, source, 0, MPI_COMM_WORLD,
              &*request++);
  for (const auto& [data, destination] : sends)
    MPI_Isend(data.data(), mpi_count(data.size()), MPI_BYTE, destination, 0, MPI_COMM_WORLD,
              &*request++);
  if (waiting == Waiting::together) {
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  } else {
    for (MPI_Request& one : requests) MPI_Wait(&one, MPI_STATUS_IGNORE);
  }
}

}  // namespace qpmesh::bench

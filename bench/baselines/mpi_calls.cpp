// SPDX-License-Identifier: MIT
#include "bench/baselines/mpi_calls.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

// Open MPI 4 has the persistent collectives of MPI 4 as an extension.
#if MPI_VERSION >= 4
#define QPMESH_PERSISTENT(name) MPI_##name##_init
#else
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif
#if defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
#define QPMESH_PERSISTENT(name) MPIX_##name##_init
#else
#define QPMESH_PERSISTENT(name) \
  [](auto...) { throw std::logic_error{"this MPI has no persistent collectives"}; }
#endif
#endif

namespace qpmesh::bench {
namespace {

// How a collective is called.
struct Form {
  bool waited;
  MPI_Request* kept;  // of a persistent one
};

// The blocking function, the one that begins the same, which is waited for, or the one that keeps
// the arguments in a request, which is started and waited for each time.
template <class Blocking, class Begin, class Keep, class... Arguments>
void call(const Form& form, Blocking blocking, Begin begin, Keep keep, Arguments... arguments) {
  if (form.kept != nullptr) {
    if (*form.kept == MPI_REQUEST_NULL) keep(arguments..., MPI_INFO_NULL, form.kept);
    MPI_Start(form.kept);
    MPI_Wait(form.kept, MPI_STATUS_IGNORE);
    return;
  }
  if (!form.waited) {
    blocking(arguments...);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  begin(arguments..., &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Blocks of one length: MPI's plain form. count is that of one block.
void equal_blocks(const Baseline::Operation& operation, const Form& form, const void* in, void* out,
                  int count) {
  MPI_Comm world = MPI_COMM_WORLD;
  switch (operation.collective) {
    case Collective::allgather:
      call(form, MPI_Allgather, MPI_Iallgather, QPMESH_PERSISTENT(Allgather), in, count, MPI_FLOAT,
           out, count, MPI_FLOAT, world);
      return;
    case Collective::reduce_scatter:
      call(form, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
           QPMESH_PERSISTENT(Reduce_scatter_block), in, out, count, MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::gather:
      call(form, MPI_Gather, MPI_Igather, QPMESH_PERSISTENT(Gather), in, count, MPI_FLOAT, out,
           count, MPI_FLOAT, operation.root, world);
      return;
    case Collective::scatter:
      call(form, MPI_Scatter, MPI_Iscatter, QPMESH_PERSISTENT(Scatter), in, count, MPI_FLOAT, out,
           count, MPI_FLOAT, operation.root, world);
      return;
    case Collective::alltoall:
      call(form, MPI_Alltoall, MPI_Ialltoall, QPMESH_PERSISTENT(Alltoall), in, count, MPI_FLOAT,
           out, count, MPI_FLOAT, world);
      return;
    default: throw std::logic_error{"a collective without blocks"};
  }
}

void unequal_blocks(const Baseline::Operation& operation, const Form& form, const void* in,
                    void* out) {
  MPI_Comm world = MPI_COMM_WORLD;
  const int* const counts = operation.cut->mpi_counts();
  const int* const displacements = operation.cut->mpi_displacements();
  const int in_count = mpi_count(operation.in.size());
  const int out_count = mpi_count(operation.out.size());
  switch (operation.collective) {
    case Collective::allgather:
      call(form, MPI_Allgatherv, MPI_Iallgatherv, QPMESH_PERSISTENT(Allgatherv), in, in_count,
           MPI_FLOAT, out, counts, displacements, MPI_FLOAT, world);
      return;
    case Collective::reduce_scatter:
      call(form, MPI_Reduce_scatter, MPI_Ireduce_scatter, QPMESH_PERSISTENT(Reduce_scatter), in,
           out, counts, MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::gather:
      call(form, MPI_Gatherv, MPI_Igatherv, QPMESH_PERSISTENT(Gatherv), in, in_count, MPI_FLOAT,
           out, counts, displacements, MPI_FLOAT, operation.root, world);
      return;
    case Collective::scatter:
      call(form, MPI_Scatterv, MPI_Iscatterv, QPMESH_PERSISTENT(Scatterv), in, counts,
           displacements, MPI_FLOAT, out, out_count, MPI_FLOAT, operation.root, world);
      return;
    case Collective::alltoall:
      call(form, MPI_Alltoallv, MPI_Ialltoallv, QPMESH_PERSISTENT(Alltoallv), in, counts,
           displacements, MPI_FLOAT, out, counts, displacements, MPI_FLOAT, world);
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

void mpi_collective(const Baseline::Operation& operation, MPI_Request* kept) {
  const Form form{.waited = operation.waited, .kept = kept};
  const void* const in = operation.in.data();
  void* const out = operation.out.data();
  const auto count = [&operation] { return mpi_count(operation.out.size()); };
  MPI_Comm world = MPI_COMM_WORLD;
  switch (operation.collective) {
    case Collective::barrier:
      call(form, MPI_Barrier, MPI_Ibarrier, QPMESH_PERSISTENT(Barrier), world);
      return;
    case Collective::broadcast:
      call(form, MPI_Bcast, MPI_Ibcast, QPMESH_PERSISTENT(Bcast), out, count(), MPI_FLOAT,
           operation.root, world);
      return;
    case Collective::allreduce:
      if (operation.polled) return polled_allreduce(in, out, count());
      call(form, MPI_Allreduce, MPI_Iallreduce, QPMESH_PERSISTENT(Allreduce), in, out, count(),
           MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::reduce:
      call(form, MPI_Reduce, MPI_Ireduce, QPMESH_PERSISTENT(Reduce), in, out, count(), MPI_FLOAT,
           MPI_SUM, operation.root, world);
      return;
    case Collective::scan:
      call(form, MPI_Scan, MPI_Iscan, QPMESH_PERSISTENT(Scan), in, out, count(), MPI_FLOAT, MPI_SUM,
           world);
      return;
    case Collective::exscan:
      call(form, MPI_Exscan, MPI_Iexscan, QPMESH_PERSISTENT(Exscan), in, out, count(), MPI_FLOAT,
           MPI_SUM, world);
      return;
    default: break;
  }
  if (operation.cut->is_even()) {
    equal_blocks(operation, form, in, out, mpi_count(operation.cut->count(0)));
  } else {
    unequal_blocks(operation, form, in, out);
  }
}

TypedBlocks::TypedBlocks(const Cut& cut) : types(cut.counts().size(), MPI_FLOAT) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    counts.push_back(cut.mpi_counts()[i]);
    const auto displacement = static_cast<std::size_t>(cut.mpi_displacements()[i]);
    displacements_bytes.push_back(mpi_count(displacement * sizeof(float)));
  }
}

void mpi_alltoallw(const Baseline::Operation& operation, const TypedBlocks& blocks,
                   MPI_Request* kept) {
  const void* const in = operation.in.data();
  void* const out = operation.out.data();
  const int* const counts = blocks.counts.data();
  const int* const displacements_bytes = blocks.displacements_bytes.data();
  const MPI_Datatype* const types = blocks.types.data();
  MPI_Comm world = MPI_COMM_WORLD;
  call(Form{.waited = operation.waited, .kept = kept}, MPI_Alltoallw, MPI_Ialltoallw,
       QPMESH_PERSISTENT(Alltoallw), in, counts, displacements_bytes, types, out, counts,
       displacements_bytes, types, world);
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

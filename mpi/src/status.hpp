// SPDX-License-Identifier: MIT
// Statuses: how a receive, or what is none, ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpi.h"
#include "qpmesh/qpmesh.h"

namespace qpmesh::mpi {

// What is ours lies in the internal part: the bytes, and behind them whether it was cancelled.
inline std::size_t bytes_of(const MPI_Status& status) noexcept {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, status.MPI_internal, sizeof bytes);
  return bytes;
}
inline void set_bytes(MPI_Status& status, std::size_t bytes) noexcept {
  const std::uint64_t own = bytes;
  std::memcpy(status.MPI_internal, &own, sizeof own);
}
inline bool is_cancelled(const MPI_Status& status) noexcept { return status.MPI_internal[2] != 0; }
inline void set_cancelled(MPI_Status& status, bool cancelled) noexcept {
  status.MPI_internal[2] = cancelled;
}

// Source and tag as MPI has them.
inline void set_status(MPI_Status* status, int source, int tag, std::size_t bytes,
                       bool cancelled) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = source;
  status->MPI_TAG = tag;
  set_bytes(*status, bytes);
  set_cancelled(*status, cancelled);
}
inline void set_status(MPI_Status* status, const qpmesh_status& got) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  set_status(status, got.source == QPMESH_NO_RANK ? MPI_PROC_NULL : got.source,
             got.tag == QPMESH_ANY_TAG ? MPI_ANY_TAG : got.tag, got.bytes, false);
}
// Of what is no receive, or not in flight.
inline void set_empty_status(MPI_Status* status) noexcept {
  set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
}

}  // namespace qpmesh::mpi

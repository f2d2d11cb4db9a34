// SPDX-License-Identifier: MIT
// How functions of MPI are defined: under PMPI_, and weakly under MPI_, so that a tool may put
// itself in front of them.
//
//   QPMESH_MPI_ENTRY(Comm_rank, (MPI_Comm comm, int* rank)) { … }
//
// Those with counts are defined in a text that is read twice, with int and with MPI_Count
// (counted_entries.inc says how):
//
//   QPMESH_MPI_COUNTED(Send, (const void* buffer, MPI_ABI_COUNT count, …)) { … }
#pragma once

#include "mpi.h"

#define QPMESH_MPI_ENTRY_OF(result, name, parameters)                              \
  extern "C" __attribute__((visibility("default"), weak, alias("PMPI_" #name)))    \
  result MPI_##name parameters;                                                    \
  extern "C" __attribute__((visibility("default"))) result PMPI_##name parameters; \
  result PMPI_##name parameters
#define QPMESH_MPI_ENTRY(name, parameters) QPMESH_MPI_ENTRY_OF(int, name, parameters)

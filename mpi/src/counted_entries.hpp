// Reads a file of entries twice: #define QPMESH_MPI_ENTRIES "messages.inc", then include this. In
// it, MPI_ABI_COUNT, MPI_ABI_DISPLACEMENT and MPI_ABI_ADDRESS are what mpi.h has at that place,
// QPMESH_MPI_COUNTED defines MPI_Send or MPI_Send_c, and QPMESH_MPI_NAME(Send) is its text.
#define MPI_ABI_COUNT int
#define MPI_ABI_DISPLACEMENT int
#define MPI_ABI_ADDRESS MPI_Aint
#define QPMESH_MPI_COUNTED(name, parameters) QPMESH_MPI_ENTRY_OF(int, name, parameters)
#define QPMESH_MPI_NAME(name) "MPI_" #name
#include QPMESH_MPI_ENTRIES
#undef MPI_ABI_COUNT
#undef MPI_ABI_DISPLACEMENT
#undef MPI_ABI_ADDRESS
#undef QPMESH_MPI_COUNTED
#undef QPMESH_MPI_NAME
#define MPI_ABI_COUNT MPI_Count
#define MPI_ABI_DISPLACEMENT MPI_Aint
#define MPI_ABI_ADDRESS MPI_Count
#define QPMESH_MPI_COUNTED(name, parameters) QPMESH_MPI_ENTRY_OF(int, name##_c, parameters)
#define QPMESH_MPI_NAME(name) "MPI_" #name "_c"
#include QPMESH_MPI_ENTRIES
#undef MPI_ABI_COUNT
#undef MPI_ABI_DISPLACEMENT
#undef MPI_ABI_ADDRESS
#undef QPMESH_MPI_COUNTED
#undef QPMESH_MPI_NAME
#undef QPMESH_MPI_ENTRIES

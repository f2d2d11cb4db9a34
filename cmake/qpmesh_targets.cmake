# How every target of this tree is compiled, and the packages it is compiled with.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
find_library(ISAL_LIBRARY isal REQUIRED)   # Debian's libisal-dev ships neither CMake nor pkg-config files that all versions share
if(QPMESH_VERBS)
  pkg_check_modules(IBVERBS IMPORTED_TARGET libibverbs)
  if(NOT IBVERBS_FOUND)
    message(STATUS "The RDMA transport is left out: libibverbs (libibverbs-dev) was not found")
  endif()
endif()
if(QPMESH_MPI)
  enable_language(C)  # FindMPI looks only for languages that are enabled; ours is MPI's C interface, called from C++
  # Debian lets several MPIs live side by side; the benchmarks compare with Open MPI.
  find_program(MPI_C_COMPILER NAMES mpicc.openmpi mpicc DOC "The wrapper of the MPI to use")
  find_package(MPI COMPONENTS C)
endif()

add_library(qpmesh_compile INTERFACE)
target_include_directories(qpmesh_compile INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_compile_options(qpmesh_compile INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -fno-math-errno)
option(QPMESH_WARNINGS_AS_ERRORS "Treat warnings as errors (the presets do)" OFF)
if(QPMESH_WARNINGS_AS_ERRORS)
  target_compile_options(qpmesh_compile INTERFACE -Werror)
endif()
if(QPMESH_SANITIZE)
  target_compile_options(qpmesh_compile INTERFACE -fsanitize=${QPMESH_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(qpmesh_compile INTERFACE -fsanitize=${QPMESH_SANITIZE})
endif()
target_link_libraries(qpmesh_compile INTERFACE Threads::Threads fmt::fmt)

# qpmesh_floor(NAME source… [LINKS target…]): one floor of the house as an object library. A floor sees the headers of
# the whole tree; tests/unit/floors_test reads the includes and fails when one goes up.
function(qpmesh_floor name)
  cmake_parse_arguments(PARSE_ARGV 1 floor "" "" "LINKS")
  add_library(qpmesh_${name} OBJECT ${floor_UNPARSED_ARGUMENTS})
  target_link_libraries(qpmesh_${name} PUBLIC qpmesh_compile ${floor_LINKS})
  set_property(GLOBAL APPEND PROPERTY QPMESH_FLOORS qpmesh_${name})
endfunction()

# SPDX-License-Identifier: MIT
# How every target of this tree is compiled, and the packages it is compiled with.

# What the library cannot do without: all that is missing is told at once, by the names of Debian's packages.
set(missing_packages "")
find_package(PkgConfig QUIET)
if(NOT PkgConfig_FOUND)
  message(FATAL_ERROR "qpmesh needs pkg-config to find other packages (Debian: apt-get install pkg-config)")
endif()
find_package(Threads REQUIRED)
find_package(fmt QUIET)
pkg_check_modules(SODIUM QUIET IMPORTED_TARGET libsodium)
pkg_check_modules(HWLOC QUIET hwloc)   # its headers: it is opened at run time
pkg_check_modules(HWY QUIET IMPORTED_TARGET libhwy)
foreach(needed IN ITEMS fmt_FOUND:libfmt-dev SODIUM_FOUND:libsodium-dev HWLOC_FOUND:libhwloc-dev HWY_FOUND:libhwy-dev)
  string(REPLACE ":" ";" needed ${needed})
  list(GET needed 0 found)
  if(NOT ${found})
    list(GET needed 1 package)
    list(APPEND missing_packages ${package})
  endif()
endforeach()
if(missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "qpmesh needs other packages (Debian: apt-get install ${missing_packages})")
endif()
# What the library is linked with; of Highway not its macros (qpmesh_use_highway).
set(qpmesh_fmt fmt::fmt)
set(qpmesh_sodium PkgConfig::SODIUM)
set(qpmesh_hwy $<LINK_ONLY:PkgConfig::HWY>)
if(QPMESH_STATIC_DEPENDENCIES)
  set(qpmesh_fmt fmt::fmt-header-only)
  foreach(name IN ITEMS sodium hwy)
    find_library(QPMESH_ARCHIVE_${name} NAMES lib${name}.a)
    if(QPMESH_ARCHIVE_${name})
      set(qpmesh_${name} ${QPMESH_ARCHIVE_${name}})
    else()
      message(STATUS "lib${name}.a is not installed: that library stays shared")
    endif()
  endforeach()
endif()
if(QPMESH_VERBS)
  # For their headers: both are opened at run time.
  pkg_check_modules(IBVERBS libibverbs)
  pkg_check_modules(RDMACM librdmacm)
  if(NOT IBVERBS_FOUND OR NOT RDMACM_FOUND)
    set(IBVERBS_FOUND FALSE)
    message(STATUS "The RDMA transport is left out: libibverbs and librdmacm (libibverbs-dev, librdmacm-dev) were not found")
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
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -fno-math-errno)
# In a batch a local name may be that of a constant in a source beside it.
set(in_batches $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
target_compile_options(qpmesh_compile INTERFACE
  $<$<NOT:${in_batches}>:-Wshadow> $<$<AND:${in_batches},$<CXX_COMPILER_ID:GNU>>:-Wshadow=local>)
option(QPMESH_WARNINGS_AS_ERRORS "Treat warnings as errors (the preset gate does)" OFF)
if(QPMESH_WARNINGS_AS_ERRORS)
  target_compile_options(qpmesh_compile INTERFACE -Werror)
endif()
# Libraries and tools speak with the network: checked copies, stack canaries, and tables of addresses that are read-only before main.
# Sanitizers check the same and more. A packager's own level of _FORTIFY_SOURCE wins.
# -fcf-protection is left out: the linker drops its marks if the C runtime or one archive has none, as on Debian 12.
if(NOT QPMESH_SANITIZE)
  target_compile_options(qpmesh_compile INTERFACE -fstack-protector-strong)
  if(NOT "${CMAKE_CXX_FLAGS}" MATCHES "_FORTIFY_SOURCE")
    target_compile_options(qpmesh_compile INTERFACE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
  endif()
  target_link_options(qpmesh_compile INTERFACE -Wl,-z,relro,-z,now)
endif()
if(QPMESH_SANITIZE)
  target_compile_options(qpmesh_compile INTERFACE -fsanitize=${QPMESH_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(qpmesh_compile INTERFACE -fsanitize=${QPMESH_SANITIZE})
endif()
target_link_libraries(qpmesh_compile INTERFACE Threads::Threads ${qpmesh_fmt})

# Half of a build went into reading the same headers again, so they are precompiled, once for each set of flags: a compiler refuses
# headers that were precompiled with other macros, or for another level of optimisation. Every source still includes what it uses:
# scripts/lint reads it without them. ccache does not keep objects that are made with them, so they are off there, unless
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=OFF says otherwise.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND NOT DEFINED CMAKE_DISABLE_PRECOMPILE_HEADERS)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# qpmesh_precompile(NAME header…): precompiles what most sources include, and these headers. A target takes them by
# target_precompile_headers(TARGET REUSE_FROM NAME).
function(qpmesh_precompile name)
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/nothing.cpp)
  target_link_libraries(${name} PRIVATE qpmesh_compile)
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <atomic> <bit> <chrono> <coroutine> <cstdint> <cstring> <deque> <functional> <limits> <map> <memory> <mutex>
    <optional> <ranges> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h> ${ARGN})
endfunction()
qpmesh_precompile(qpmesh_headers)

# qpmesh_optimise_little(): for the targets that this folder makes below. Release compiles them with -Og, in half the time of -O3; they
# take qpmesh_plain_headers, which tools/ makes.
macro(qpmesh_optimise_little)
  string(REPLACE "-O3" "-Og" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
endmacro()

# qpmesh_compile_in_batches(): for the targets that this folder makes below. Sources of a target are compiled eight at a time, because
# most of a compiler's time goes into headers and templates that they share. -D CMAKE_UNITY_BUILD=OFF undoes it, for tools that read
# one file at a time.
macro(qpmesh_compile_in_batches)
  if(NOT DEFINED CMAKE_UNITY_BUILD)
    set(CMAKE_UNITY_BUILD ON)
  endif()
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
endmacro()

# qpmesh_false_alarm(SOURCE WARNING): gcc, in some version, wrongly gives this warning for the source.
function(qpmesh_false_alarm source warning)
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-${warning}>)
endfunction()

# qpmesh_use_highway(SOURCE…): sources that include Highway's headers. The precompiled ones were made without its macros.
function(qpmesh_use_highway)
  set_source_files_properties(${ARGV} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${HWY_CFLAGS}")
endfunction()

# What was stored value by value is loaded value by value. Two that lie side by side, loaded as one just behind, wait until both
# stores, and all before them, have left the core, those of a message to another core among them. So the compiler puts no two loads
# together; what is fast by vectors has loops, or intrinsics.
set(qpmesh_loads_apart -fno-tree-slp-vectorize)

# qpmesh_floor(NAME source… [LINKS target…]): one floor of the house as an object library. A floor sees the headers of
# the whole tree; tests/unit/floors_test reads the includes and fails when one goes up.
function(qpmesh_floor name)
  cmake_parse_arguments(PARSE_ARGV 1 floor "" "" "LINKS")
  add_library(qpmesh_${name} OBJECT ${floor_UNPARSED_ARGUMENTS})
  target_link_libraries(qpmesh_${name} PUBLIC qpmesh_compile ${floor_LINKS})
  target_compile_options(qpmesh_${name} PRIVATE ${qpmesh_loads_apart})
  target_precompile_headers(qpmesh_${name} REUSE_FROM qpmesh_headers)
  set_property(GLOBAL APPEND PROPERTY QPMESH_FLOORS qpmesh_${name})
endfunction()

# Debian packages of the three parts: cpack in the build folder makes them.
#
# libqpmesh0.1    the shared library, named by its soname: before 1.0.0 every minor version has its own, and two may be installed
# libqpmesh-dev   headers, static libraries, what CMake and pkg-config read, the examples
# qpmesh-tools    qpmesh-run, qpmesh-info, qpmesh-doctor, qpmesh-trace
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME qpmesh)
set(CPACK_PACKAGE_VENDOR "qpmesh")
set(QPMESH_PACKAGE_CONTACT "qpmesh maintainers <root@localhost>" CACHE STRING "Who makes the Debian packages: name and mail address")
set(CPACK_PACKAGE_CONTACT "${QPMESH_PACKAGE_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime tools development)
if(NOT TARGET qpmesh-run)
  list(REMOVE_ITEM CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src)  # the tools need our own library from there
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # what is linked with the library learns the package

set(interface_version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libqpmesh${interface_version})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
# Opened at run time, where they are: dpkg-shlibdeps does not see them.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "libibverbs1, librdmacm1, ibverbs-providers, libhwloc15")
set(what_it_is "Point-to-point messages, barrier, broadcast, allreduce and their
relatives between the processes of a job: through shared memory on one
host, RDMA or TCP between hosts.")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${what_it_is}
.
This package has the shared library.")
# ldconfig runs once for all packages of an installation.
file(WRITE ${PROJECT_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/package/triggers)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libqpmesh-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME} (= ${PROJECT_VERSION})")
# Of who links the static library, or starts from MPI.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS
  "libfmt-dev, libsodium-dev, libhwy-dev, libopenmpi-dev")
# Its mpirun is qpmesh-run: without that CMake's FindMPI takes another MPI's, and that one's compilers.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "qpmesh-tools")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${what_it_is}
.
This package has the headers for C++ and C, the static libraries and
the examples.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME qpmesh-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "openssh-client")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "qpmesh-run starts the ranks of a program on one host, or on several
over ssh. qpmesh-info shows what qpmesh finds on a host, qpmesh-doctor
what is wrong with hosts and with the network between them, and
qpmesh-trace puts the timelines of a job's ranks together.")

# What Debian wants of a package, and nobody else: copyright and changelog by the package's name.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_QPMESH_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_QPMESH_VERSION ${PROJECT_VERSION})
include(CPack)

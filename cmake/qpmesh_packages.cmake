# SPDX-License-Identifier: MIT
# Packages of the three parts: cpack in the build folder makes Debian's, cpack -G RPM others'. scripts/packages builds them for many releases.
#
# Debian          RPM
# libqpmesh0.2    libqpmesh0.2   the shared library, named by its soname: before 1.0.0 every minor version has its own, and two may be installed
# libqpmesh-dev   qpmesh-devel   headers, static libraries, what CMake and pkg-config read, the examples
# qpmesh-tools    qpmesh-tools   qpmesh-run, qpmesh-info, qpmesh-doctor, qpmesh-trace
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME qpmesh)
set(CPACK_PACKAGE_VENDOR "qpmesh")
set(QPMESH_PACKAGE_CONTACT "qpmesh maintainers <maintainers@qpmesh.example>" CACHE STRING "Who makes the packages: name and mail address")
set(CPACK_PACKAGE_CONTACT "${QPMESH_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_HOMEPAGE_URL "${PROJECT_HOMEPAGE_URL}")
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
if(CMAKE_LIBRARY_ARCHITECTURE AND CMAKE_INSTALL_LIBDIR MATCHES "${CMAKE_LIBRARY_ARCHITECTURE}$")  # one architecture's beside another's
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_MULTIARCH same)
endif()
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
string(REGEX REPLACE "(lib)?([a-z]+) *" "lib\\2-dev, " suggested "${static_pkg_config}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "pkg-config, ${suggested}libopenmpi-dev")
# Its mpirun is qpmesh-run: without that CMake's FindMPI takes another MPI's, and that one's compilers.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "qpmesh-tools")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "${what_it_is}
.
This package has the headers for C++ and C, the static libraries and
the examples.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME qpmesh-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TOOLS_PACKAGE_MULTIARCH foreign)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "openssh-client")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "qpmesh-run starts the ranks of a program on one host, or on several
over ssh. qpmesh-info shows what qpmesh finds on a host, qpmesh-doctor
what is wrong with hosts and with the network between them, and
qpmesh-trace puts the timelines of a job's ranks together.")

# RPM finds out by itself what each package needs and provides.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
set(CPACK_RPM_PACKAGE_URL "${PROJECT_HOMEPAGE_URL}")
set(CPACK_RPM_RUNTIME_PACKAGE_NAME ${CPACK_DEBIAN_RUNTIME_PACKAGE_NAME})
set(CPACK_RPM_RUNTIME_PACKAGE_SUGGESTS "libibverbs, librdmacm, hwloc-libs")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_NAME qpmesh-devel)
set(CPACK_RPM_DEVELOPMENT_PACKAGE_REQUIRES "${CPACK_RPM_RUNTIME_PACKAGE_NAME} = ${PROJECT_VERSION}")
# Its pkg-config files name what only programs with the static library need: RPM would require it.
set(CPACK_RPM_DEVELOPMENT_PACKAGE_AUTOREQ no)
string(REGEX REPLACE "([a-z]+) *" "pkgconfig(\\1) " suggested "${static_pkg_config}")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_SUGGESTS "${suggested}")
set(CPACK_RPM_TOOLS_PACKAGE_NAME qpmesh-tools)
set(CPACK_RPM_TOOLS_PACKAGE_SUGGESTS openssh-clients)
set(CPACK_RPM_RUNTIME_POST_INSTALL_SCRIPT_FILE ${PROJECT_BINARY_DIR}/package/ldconfig)
set(CPACK_RPM_RUNTIME_POST_UNINSTALL_SCRIPT_FILE ${PROJECT_BINARY_DIR}/package/ldconfig)
file(WRITE ${PROJECT_BINARY_DIR}/package/ldconfig "/sbin/ldconfig\n")
# Folders of the system, which belong to no package of ours.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
  /usr/share/man /usr/share/man/man1 /usr/share/doc /usr/share/bash-completion /usr/share/bash-completion/completions
  /usr/${CMAKE_INSTALL_LIBDIR}/cmake /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What Debian wants of a package, and nobody else: copyright and changelog by the package's name.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_QPMESH_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_QPMESH_VERSION ${PROJECT_VERSION})
include(CPack)

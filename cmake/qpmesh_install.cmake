# SPDX-License-Identifier: MIT
# What is installed, in three parts: runtime (the shared library), tools, development (headers, static libraries, packages, examples).
include(GNUInstallDirs)
# Packagers give absolute folders, too. These are found from the prefix, for the tree may be moved.
foreach(folder BINDIR LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    cmake_path(IS_PREFIX CMAKE_INSTALL_PREFIX "${CMAKE_INSTALL_${folder}}" NORMALIZE in_prefix)
    if(NOT in_prefix)
      message(FATAL_ERROR "CMAKE_INSTALL_${folder} is ${CMAKE_INSTALL_${folder}}, outside of the prefix ${CMAKE_INSTALL_PREFIX}: \
give a folder inside, or one relative to it")
    endif()
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_${folder} BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
  endif()
endforeach()

# qpmesh_install_library(TARGET NAME): the package knows it as qpmesh::NAME, in a file of its own, so that who links one needs
# nothing of the others.
function(qpmesh_install_library target name)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS ${target} EXPORT qpmesh_${name}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT qpmesh_${name} FILE qpmesh_${name}.cmake NAMESPACE qpmesh:: DESTINATION ${package_folder} COMPONENT development)
endfunction()

# qpmesh_install_pkg_config(NAME): cmake/NAME.pc.in.
function(qpmesh_install_pkg_config name)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/install/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/install/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/qpmesh)
# From the folder of the pkg-config files to the prefix: an installed tree may be moved as a whole.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig
  OUTPUT_VARIABLE up_to_prefix)
# What the static library needs of others, as pkg-config names it. With dependencies inside, fmt is; an archive cannot hold the other archives.
set(static_pkg_config fmt libsodium libhwy)
if(QPMESH_STATIC_DEPENDENCIES)
  list(REMOVE_ITEM static_pkg_config fmt)
endif()
list(JOIN static_pkg_config " " static_pkg_config)

qpmesh_install_library(qpmesh_shared shared)
qpmesh_install_library(qpmesh static)
qpmesh_install_pkg_config(qpmesh)
qpmesh_install_pkg_config(qpmesh_static)
if(TARGET qpmesh_mpi_bootstrap)
  qpmesh_install_library(qpmesh_mpi_bootstrap mpi_bootstrap)
  qpmesh_install_pkg_config(qpmesh_mpi_bootstrap)
endif()
if(TARGET qpmesh_mpi)
  qpmesh_install_library(qpmesh_mpi mpi)
  qpmesh_install_pkg_config(qpmesh_mpi)
  install(FILES ${PROJECT_SOURCE_DIR}/mpi/include/mpi.h ${PROJECT_SOURCE_DIR}/mpi/include/mpi_functions.h
    ${PROJECT_SOURCE_DIR}/mpi/include/mpi_counted_functions.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qpmesh-mpi COMPONENT development)
  foreach(wrapper qpmesh-mpicc qpmesh-mpicxx)
    install(PROGRAMS ${PROJECT_BINARY_DIR}/install/${wrapper} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT development)
    install(FILES ${PROJECT_BINARY_DIR}/install/${wrapper}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT development)
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/mpi_home.cmake.in ${PROJECT_BINARY_DIR}/install/mpi_home.cmake @ONLY)
  install(SCRIPT ${PROJECT_BINARY_DIR}/install/mpi_home.cmake COMPONENT development)
endif()
foreach(file qpmeshConfig qpmeshConfigVersion)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${file}.cmake.in ${PROJECT_BINARY_DIR}/install/${file}.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/install/${file}.cmake DESTINATION ${package_folder} COMPONENT development)
endforeach()

set(left_out "")
if(NOT TARGET qpmesh_mpi_bootstrap)
  set(left_out PATTERN mpi.hpp EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/qpmesh DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development ${left_out})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
foreach(tool qpmesh-run qpmesh-info qpmesh-doctor qpmesh-trace)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    if(TARGET ${tool}-pages)
      install(FILES ${PROJECT_BINARY_DIR}/pages/${tool}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
      install(FILES ${PROJECT_BINARY_DIR}/pages/${tool} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
    endif()
  endif()
endforeach()

# SPDX-License-Identifier: MIT
# Run by cpack when it has installed a package's files, before it packs them.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
foreach(component IN ITEMS runtime tools development)
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  if(NOT IS_DIRECTORY ${root})
    continue()
  endif()
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder ${root}/share/doc/${package})
  file(MAKE_DIRECTORY ${folder})
  # The licence and the changes of the plain installation lie here under Debian's names.
  file(READ ${CPACK_QPMESH_SOURCE}/LICENSE licence)
  file(WRITE ${folder}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: qpmesh

${licence}")
  if(component STREQUAL "runtime")
    foreach(name IN ITEMS qpmesh.spdx.json third-party)
      file(RENAME ${root}/share/doc/qpmesh/${name} ${folder}/${name})
    endforeach()
    file(REMOVE_RECURSE ${root}/share/doc/qpmesh)
  endif()
  if(component STREQUAL "development")
    file(RENAME ${root}/share/doc/qpmesh/examples ${folder}/examples)
    file(REMOVE_RECURSE ${root}/share/doc/qpmesh)
  endif()
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  file(WRITE ${folder}/changelog "qpmesh (${CPACK_QPMESH_VERSION}) unstable; urgency=medium

  * CHANGELOG.md of the sources tells what has changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  execute_process(COMMAND gzip -9nf ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages ${root}/share/man/man1/*.1)
  if(pages)
    execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endforeach()

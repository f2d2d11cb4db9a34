# SPDX-License-Identifier: MIT
# The software bill of materials (SPDX 2.3, JSON): what this build is made of, in which versions, and how each part is joined to it. It is installed with the licences of
# what is inside the binaries.
set(sbom ${PROJECT_BINARY_DIR}/sbom/qpmesh.spdx.json)
set(third_party ${PROJECT_BINARY_DIR}/sbom/third-party)
string(TIMESTAMP created UTC)  # SOURCE_DATE_EPOCH, where it is set
string(MD5 build_id "${created} ${PROJECT_BINARY_DIR}")
file(REMOVE_RECURSE ${third_party})
file(MAKE_DIRECTORY ${third_party})

# A string of JSON.
function(qpmesh_json_text value out)
  string(REPLACE "\\" "\\\\" value "${value}")
  string(REPLACE "\"" "\\\"" value "${value}")
  set(${out} "\"${value}\"" PARENT_SCOPE)
endfunction()

set(packages "")
set(relationships "")
# qpmesh_sbom_package(NAME VERSION LICENCE RELATIONSHIP COMMENT [DEBIAN-PACKAGE]): LINK relationships lead from qpmesh to the package, _OF ones back. The licence text of
# what is inside is the Debian package's.
function(qpmesh_sbom_package name version licence relationship comment)
  if(NOT version)
    set(version NOASSERTION)
  endif()
  string(REGEX REPLACE "[^a-zA-Z0-9]" "-" id "SPDXRef-${name}")
  set(package "{}")
  foreach(field IN ITEMS name:name SPDXID:id versionInfo:version licenseDeclared:licence licenseConcluded:licence)
    string(REPLACE ":" ";" field "${field}")
    list(GET field 1 variable)
    list(GET field 0 field)
    qpmesh_json_text("${${variable}}" text)
    string(JSON package SET "${package}" ${field} "${text}")
  endforeach()
  string(JSON package SET "${package}" downloadLocation "\"NOASSERTION\"")
  string(JSON package SET "${package}" filesAnalyzed false)
  list(APPEND packages "${package}")
  set(from SPDXRef-qpmesh)
  set(to ${id})
  if(relationship MATCHES "_OF$")
    set(from ${id})
    set(to SPDXRef-qpmesh)
  endif()
  qpmesh_json_text("${comment}" comment)
  list(APPEND relationships
    "{\"spdxElementId\": \"${from}\", \"relationshipType\": \"${relationship}\", \"relatedSpdxElement\": \"${to}\", \"comment\": ${comment}}")
  set(packages "${packages}" PARENT_SCOPE)
  set(relationships "${relationships}" PARENT_SCOPE)
  set(text "${CMAKE_SYSROOT}/usr/share/doc/${ARGV5}/copyright")
  if(relationship STREQUAL "STATIC_LINK" AND ARGV5 AND EXISTS "${text}")
    configure_file("${text}" "${third_party}/${name}" COPYONLY)
  endif()
endfunction()

set(sodium_link DYNAMIC_LINK)
set(hwy_link DYNAMIC_LINK)
foreach(name IN ITEMS sodium hwy)
  if(QPMESH_STATIC_DEPENDENCIES AND QPMESH_ARCHIVE_${name})
    set(${name}_link STATIC_LINK)
  endif()
endforeach()
if(QPMESH_STATIC_DEPENDENCIES)
  qpmesh_sbom_package(fmt "${fmt_VERSION}" MIT STATIC_LINK "header only" libfmt-dev)
else()
  qpmesh_sbom_package(fmt "${fmt_VERSION}" MIT DYNAMIC_LINK "shared library")
endif()
qpmesh_sbom_package(libsodium "${SODIUM_VERSION}" ISC ${sodium_link} "library" libsodium-dev)
qpmesh_sbom_package(highway "${HWY_VERSION}" "Apache-2.0 OR BSD-3-Clause" ${hwy_link} "headers and library" libhwy-dev)
qpmesh_sbom_package(hwloc "${HWLOC_VERSION}" BSD-3-Clause OPTIONAL_DEPENDENCY_OF "opened at run time, compiled with the headers of this version")
if(IBVERBS_FOUND)
  foreach(name IN ITEMS IBVERBS:libibverbs RDMACM:librdmacm)
    string(REPLACE ":" ";" name ${name})
    list(GET name 0 prefix)
    list(GET name 1 name)
    qpmesh_sbom_package(${name} "${${prefix}_VERSION}" "GPL-2.0-only OR Linux-OpenIB" OPTIONAL_DEPENDENCY_OF
      "opened at run time, compiled with the headers of this version")
  endforeach()
endif()
if(TARGET qpmesh-run)
  get_directory_property(version DIRECTORY ${PROJECT_SOURCE_DIR}/tools DEFINITION CLI11_VERSION)
  qpmesh_sbom_package(CLI11 "${version}" BSD-3-Clause STATIC_LINK "header only, in the tools" libcli11-dev)
endif()
if(TARGET qpmesh-info)
  get_directory_property(version DIRECTORY ${PROJECT_SOURCE_DIR}/tools DEFINITION nlohmann_json_VERSION)
  qpmesh_sbom_package(nlohmann-json "${version}" MIT STATIC_LINK "header only, in the tools" nlohmann-json3-dev)
endif()
if(TARGET qpmesh_python)
  get_directory_property(version DIRECTORY ${PROJECT_SOURCE_DIR}/python DEFINITION pybind11_VERSION)
  qpmesh_sbom_package(pybind11 "${version}" BSD-3-Clause STATIC_LINK "header only, in the Python module" pybind11-dev)
endif()
if(TARGET qpmesh_mpi_bootstrap)
  qpmesh_sbom_package(MPI "${MPI_C_VERSION}" NOASSERTION OPTIONAL_DEPENDENCY_OF "libqpmesh_mpi_bootstrap.a alone, the version is that of the interface")
endif()
qpmesh_sbom_package(${CMAKE_CXX_COMPILER_ID} "${CMAKE_CXX_COMPILER_VERSION}" NOASSERTION BUILD_TOOL_OF "compiler")
qpmesh_sbom_package(CMake "${CMAKE_VERSION}" BSD-3-Clause BUILD_TOOL_OF "build system")

list(JOIN packages ",\n    " packages)
list(JOIN relationships ",\n    " relationships)
file(WRITE ${sbom} "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"qpmesh-${PROJECT_VERSION}\",
  \"documentNamespace\": \"${PROJECT_HOMEPAGE_URL}/spdx/qpmesh-${PROJECT_VERSION}-${build_id}\",
  \"creationInfo\": {\"created\": \"${created}\", \"creators\": [\"Tool: CMake-${CMAKE_VERSION}\", \"Organization: The qpmesh authors\"]},
  \"documentDescribes\": [\"SPDXRef-qpmesh\"],
  \"packages\": [
    {\"name\": \"qpmesh\", \"SPDXID\": \"SPDXRef-qpmesh\", \"versionInfo\": \"${PROJECT_VERSION}\", \"licenseDeclared\": \"MIT\", \"licenseConcluded\": \"MIT\",
     \"copyrightText\": \"Copyright (c) 2026 The qpmesh authors\", \"homepage\": \"${PROJECT_HOMEPAGE_URL}\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false},
    ${packages}
  ],
  \"relationships\": [
    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-qpmesh\"},
    ${relationships}
  ]
}
")
if(QPMESH_INSTALL)
  install(FILES ${sbom} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
  install(DIRECTORY ${third_party} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
endif()
if(TARGET qpmesh_python)
  install(FILES ${sbom} DESTINATION qpmesh/doc COMPONENT python EXCLUDE_FROM_ALL)
  install(DIRECTORY ${third_party} DESTINATION qpmesh/doc COMPONENT python EXCLUDE_FROM_ALL)
endif()

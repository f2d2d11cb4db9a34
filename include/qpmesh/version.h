// SPDX-License-Identifier: MIT
// Which qpmesh this is, for C and C++. The one place where the number stands: CMake reads it here.
#pragma once

#include "qpmesh/export.h"

// Of the headers that a program was compiled with. Before 1.0.0 every minor version has an
// interface of its own.
#define QPMESH_VERSION_MAJOR 0
#define QPMESH_VERSION_MINOR 2
#define QPMESH_VERSION_PATCH 0
#define QPMESH_VERSION "0.2.0"

#ifdef __cplusplus
extern "C" {
#endif

// Of the library that runs: "0.2.0". Any thread, at any time.
QPMESH_API const char* qpmesh_version(void);

#ifdef __cplusplus
}
#endif

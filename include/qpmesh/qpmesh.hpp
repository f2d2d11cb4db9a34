// SPDX-License-Identifier: MIT
// Everything a program needs: #include <qpmesh/qpmesh.hpp>. Apart are the MPI bootstrap, in
// <qpmesh/mpi.hpp>, and ArenaResource, in <qpmesh/arena_resource.hpp>, because <memory_resource> takes long to compile.
#pragma once

#if __cplusplus < 202002L
#error "qpmesh needs C++20: compile with -std=c++20 or later"
#else
#include "qpmesh/blocks.hpp"          // IWYU pragma: export
#include "qpmesh/bootstrap.hpp"       // IWYU pragma: export
#include "qpmesh/buffer.hpp"          // IWYU pragma: export
#include "qpmesh/communicator.hpp"    // IWYU pragma: export
#include "qpmesh/deadline.hpp"        // IWYU pragma: export
#include "qpmesh/element.hpp"         // IWYU pragma: export
#include "qpmesh/error.hpp"           // IWYU pragma: export
#include "qpmesh/grid.hpp"            // IWYU pragma: export
#include "qpmesh/interrupt.hpp"       // IWYU pragma: export
#include "qpmesh/local.hpp"           // IWYU pragma: export
#include "qpmesh/message.hpp"         // IWYU pragma: export
#include "qpmesh/options.hpp"         // IWYU pragma: export
#include "qpmesh/prepared.hpp"        // IWYU pragma: export
#include "qpmesh/reduction.hpp"       // IWYU pragma: export
#include "qpmesh/request.hpp"         // IWYU pragma: export
#include "qpmesh/version.h"           // IWYU pragma: export
#endif

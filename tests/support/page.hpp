// SPDX-License-Identifier: MIT
// The length of the system's pages: 4 KiB on x86-64, up to 64 KiB on arm64.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace qpmesh::test {

inline std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace qpmesh::test

// SPDX-License-Identifier: MIT
// A shared library that is opened while the program runs, for what not every host has.
#pragma once

#include <span>
#include <string>

namespace qpmesh::base {

// A function of it. set keeps its address, which is null only where a symbol that is not required
// is absent: an older version.
struct LibrarySymbol {
  const char* name;
  void (*set)(void* address) noexcept;
  bool required = true;
};

// Opens a library by its soname, for as long as the process lives, and sets every symbol; or sets
// none and tells why, in the dynamic linker's words. Empty: it is open. Any thread; of one library
// one call at a time.
std::string open_library(const char* soname, std::span<const LibrarySymbol> symbols);

}  // namespace qpmesh::base

// SPDX-License-Identifier: MIT
#include "base/library.hpp"

#include <dlfcn.h>

#include <vector>

namespace qpmesh::base {
namespace {

std::string why_not() {
  const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps it by thread
  return text != nullptr ? text : "the dynamic linker does not say why";
}

}  // namespace

std::string open_library(const char* soname, std::span<const LibrarySymbol> symbols) {
  // Local: its names are not taken for those of a program that has a library of its own.
  void* const library = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return why_not();
  std::vector<void*> addresses;
  addresses.reserve(symbols.size());
  for (const LibrarySymbol& symbol : symbols) {
    addresses.push_back(::dlsym(library, symbol.name));
    if (addresses.back() != nullptr || !symbol.required) continue;
    std::string reason = why_not();
    ::dlclose(library);
    return reason;
  }
  for (std::size_t i = 0; i < symbols.size(); ++i) symbols[i].set(addresses[i]);
  return {};
}

}  // namespace qpmesh::base

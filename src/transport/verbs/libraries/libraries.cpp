// SPDX-License-Identifier: MIT
#include "transport/verbs/libraries/libraries.hpp"

#include <array>

#include "base/library.hpp"

namespace qpmesh::transport::verbs {

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is defined has none
#define QPMESH_DEFINE(name) decltype(&::name) name = nullptr;
QPMESH_IBVERBS_FUNCTIONS(QPMESH_DEFINE)
QPMESH_IBVERBS_LATER_FUNCTIONS(QPMESH_DEFINE)
QPMESH_RDMACM_FUNCTIONS(QPMESH_DEFINE)
#undef QPMESH_DEFINE

#define QPMESH_SETTER(name) \
  [](void* address) noexcept { verbs::name = reinterpret_cast<decltype(&::name)>(address); }
#define QPMESH_SYMBOL(name) base::LibrarySymbol{#name, QPMESH_SETTER(name)},
#define QPMESH_LATER_SYMBOL(name) base::LibrarySymbol{#name, QPMESH_SETTER(name), false},

// The numbers are those of the interfaces that the headers declare.
const std::string& ibverbs_missing() {
  static const std::string reason = base::open_library(
      "libibverbs.so.1", std::array{QPMESH_IBVERBS_FUNCTIONS(QPMESH_SYMBOL)
                                        QPMESH_IBVERBS_LATER_FUNCTIONS(QPMESH_LATER_SYMBOL)});
  return reason;
}

const std::string& rdmacm_missing() {
  static const std::string reason =
      base::open_library("librdmacm.so.1", std::array{QPMESH_RDMACM_FUNCTIONS(QPMESH_SYMBOL)});
  return reason;
}

#undef QPMESH_LATER_SYMBOL
#undef QPMESH_SYMBOL
#undef QPMESH_SETTER

}  // namespace qpmesh::transport::verbs

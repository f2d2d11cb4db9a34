// Verbs calls through base::System, so that tests can fail each one. libibverbs has two manners: an
// object or nullptr with errno, and a status that is 0, an errno, or -1 with errno.
#pragma once

#include <cerrno>
#include <string_view>

#include "base/system.hpp"

namespace qpmesh::transport::verbs {

// The object, or nullptr with the reason in errno.
template <class F>
auto call_for_object(const base::System& system, std::string_view site, F&& function) {
  using Pointer = std::invoke_result_t<F>;
  const Pointer object = system.call(site, function);
  return object == reinterpret_cast<Pointer>(std::intptr_t{-1}) ? nullptr : object;
}

// 0, or the errno.
template <class F>
int call_for_status(const base::System& system, std::string_view site, F&& function) {
  const int status = system.call(site, function);
  return status < 0 ? errno : status;
}

}  // namespace qpmesh::transport::verbs

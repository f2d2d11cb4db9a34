// SPDX-License-Identifier: MIT
// Verbs objects that own. Declare members in this order, so that they go in the opposite one:
// device, protection domain, completion queues, then queue pairs and regions.
#pragma once

#include <cerrno>
#include <memory>
#include <string_view>
#include <type_traits>

#include "base/system.hpp"
#include "transport/verbs/libraries/libraries.hpp"

namespace qpmesh::transport::verbs {

// Destruction fails only when the device is gone, and then there is nothing left to free.
struct Destroy {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
  void operator()(ibv_pd* domain) const noexcept { ibv_dealloc_pd(domain); }
  void operator()(ibv_comp_channel* channel) const noexcept { ibv_destroy_comp_channel(channel); }
  void operator()(ibv_cq* queue) const noexcept { ibv_destroy_cq(queue); }
  void operator()(ibv_qp* pair) const noexcept { ibv_destroy_qp(pair); }
  void operator()(ibv_mr* region) const noexcept { ibv_dereg_mr(region); }
  void operator()(ibv_ah* address) const noexcept { ibv_destroy_ah(address); }
};

using DeviceContext = std::unique_ptr<ibv_context, Destroy>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroy>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Destroy>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroy>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroy>;

// Verbs calls through base::System, so that tests can fail each one. libibverbs has two manners: an
// object or nullptr with errno, and a status that is 0, an errno, or -1 with errno.

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

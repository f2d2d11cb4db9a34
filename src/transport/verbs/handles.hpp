// Verbs objects that own: each goes with its owner. A queue pair goes before its completion queues, a region
// and a queue pair before their protection domain, all before the device: declare members in the opposite order.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace qpmesh::transport::verbs {

template <auto destroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const noexcept {
    destroy(object);  // it fails only when the device is gone, and then there is nothing left to free
  }
};

using DeviceContext = std::unique_ptr<ibv_context, Destroy<[](auto* object) { ibv_close_device(object); }>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Destroy<[](auto* object) { ibv_dealloc_pd(object); }>>;
using CompletionChannel =
    std::unique_ptr<ibv_comp_channel, Destroy<[](auto* object) { ibv_destroy_comp_channel(object); }>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<[](auto* object) { ibv_destroy_cq(object); }>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<[](auto* object) { ibv_destroy_qp(object); }>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Destroy<[](auto* object) { ibv_dereg_mr(object); }>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroy<[](auto* object) { ibv_destroy_ah(object); }>>;

}  // namespace qpmesh::transport::verbs

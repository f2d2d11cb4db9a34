// SPDX-License-Identifier: MIT
// libibverbs and librdmacm, opened when they are first needed: a build with verbs also runs where
// they are not installed, without RDMA.
//
// Each function is a pointer of the same name. Inside this namespace a call as in the manual goes
// through it; where this header is not included, the name is the library's, and the link fails.
// Inline functions of verbs.h that only call the device's operations stay what they are.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string>

// Macros around functions that are named below.
#undef ibv_query_port
#undef ibv_reg_mr

#define QPMESH_IBVERBS_FUNCTIONS(FUNCTION) \
  FUNCTION(_ibv_query_gid_table)           \
  FUNCTION(ibv_ack_async_event)            \
  FUNCTION(ibv_ack_cq_events)              \
  FUNCTION(ibv_alloc_pd)                   \
  FUNCTION(ibv_close_device)               \
  FUNCTION(ibv_create_ah)                  \
  FUNCTION(ibv_create_comp_channel)        \
  FUNCTION(ibv_create_cq)                  \
  FUNCTION(ibv_create_qp)                  \
  FUNCTION(ibv_dealloc_pd)                 \
  FUNCTION(ibv_dereg_mr)                   \
  FUNCTION(ibv_destroy_ah)                 \
  FUNCTION(ibv_destroy_comp_channel)       \
  FUNCTION(ibv_destroy_cq)                 \
  FUNCTION(ibv_destroy_qp)                 \
  FUNCTION(ibv_event_type_str)             \
  FUNCTION(ibv_fork_init)                  \
  FUNCTION(ibv_free_device_list)           \
  FUNCTION(ibv_get_async_event)            \
  FUNCTION(ibv_get_cq_event)               \
  FUNCTION(ibv_get_device_guid)            \
  FUNCTION(ibv_get_device_list)            \
  FUNCTION(ibv_get_device_name)            \
  FUNCTION(ibv_is_fork_initialized)        \
  FUNCTION(ibv_modify_qp)                  \
  FUNCTION(ibv_open_device)                \
  FUNCTION(ibv_port_state_str)             \
  FUNCTION(ibv_query_device)               \
  FUNCTION(ibv_query_gid)                  \
  FUNCTION(ibv_query_pkey)                 \
  FUNCTION(ibv_query_port)                 \
  FUNCTION(ibv_reg_mr)                     \
  FUNCTION(ibv_wc_status_str)

// Null where the library is older (rdma-core 31 has ECE, 42 all): ask before the call.
#define QPMESH_IBVERBS_LATER_FUNCTIONS(FUNCTION) \
  FUNCTION(ibv_query_ece)                        \
  FUNCTION(ibv_query_qp_data_in_order)           \
  FUNCTION(ibv_set_ece)

#define QPMESH_RDMACM_FUNCTIONS(FUNCTION) \
  FUNCTION(rdma_accept)                   \
  FUNCTION(rdma_ack_cm_event)             \
  FUNCTION(rdma_bind_addr)                \
  FUNCTION(rdma_connect)                  \
  FUNCTION(rdma_create_event_channel)     \
  FUNCTION(rdma_create_id)                \
  FUNCTION(rdma_destroy_event_channel)    \
  FUNCTION(rdma_destroy_id)               \
  FUNCTION(rdma_establish)                \
  FUNCTION(rdma_event_str)                \
  FUNCTION(rdma_get_cm_event)             \
  FUNCTION(rdma_get_src_port)             \
  FUNCTION(rdma_init_qp_attr)             \
  FUNCTION(rdma_listen)                   \
  FUNCTION(rdma_reject)                   \
  FUNCTION(rdma_resolve_addr)             \
  FUNCTION(rdma_resolve_route)            \
  FUNCTION(rdma_set_option)

namespace qpmesh::transport::verbs {

// Null until its library is open; then never written again.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared stands alone
#define QPMESH_DECLARE(name) extern decltype(&::name) name;
QPMESH_IBVERBS_FUNCTIONS(QPMESH_DECLARE)
QPMESH_IBVERBS_LATER_FUNCTIONS(QPMESH_DECLARE)
QPMESH_RDMACM_FUNCTIONS(QPMESH_DECLARE)
#undef QPMESH_DECLARE

// Opens the library at the first call, which must come before any of its functions. Empty: it is
// open; else why not, for as long as the process lives. Any thread.
const std::string& ibverbs_missing();
const std::string& rdmacm_missing();

}  // namespace qpmesh::transport::verbs

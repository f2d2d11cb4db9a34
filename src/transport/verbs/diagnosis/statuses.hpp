// SPDX-License-Identifier: MIT
// What completion statuses and events mean, what usually causes them, and what to do next.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::transport::verbs::diagnosis {

// One row for every status of what this library uses.
struct StatusRow {
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::string_view name{};     // as in verbs.h, without IBV_WC_
  std::string_view meaning{};  // reads on after "failed with NAME: "
  std::string_view cause{};    // the usual one; reads on after "usually "
  std::string_view hint{};
};
std::span<const StatusRow> status_table() noexcept;

enum class Severity : std::uint8_t {
  harmless,    // to be logged
  suspicious,  // to be warned of: what was chosen from the port's tables may be stale
  connection,  // the queue pair is lost
  context,     // the device is lost, and with it every connection of the context
};
struct EventRow {
  ibv_event_type event = IBV_EVENT_CQ_ERR;
  std::string_view name{};     // as in verbs.h, without IBV_EVENT_
  std::string_view meaning{};  // reads on after "mlx5_0 port 1: "
  std::string_view hint{};
  Severity severity = Severity::harmless;
};
std::span<const EventRow> event_table() noexcept;
// Of an event without a row: suspicious.
Severity severity_of(ibv_event_type event) noexcept;
// The port that an event concerns; 0: none (man ibv_get_async_event).
int port_of(const ibv_async_event& event) noexcept;

struct LinkEnd {
  std::string host{};
  selection::Endpoint endpoint{};
  std::uint32_t qpn = 0;
  std::uint32_t psn = 0;  // 24 bits, random: of this end's first packet
};
// The two ends of a connection, once their endpoints were chosen.
struct LinkDescription {
  LinkEnd local{};
  LinkEnd peer{};
  selection::Timers timers{};
};
// "host a, rxe0 port 1, GID 1 …, MTU 1024, QP 0x11 to host b, …"
std::string to_string(const LinkDescription& link);

using selection::Explanation;
// Of a failed completion, which does not say what was posted: operation does ("RDMA write").
Explanation describe(ibv_wc_status status, std::uint32_t vendor_error, std::string_view operation,
                     const LinkDescription& link);
// Of an event of a device and, where it concerns one, its port (0: none).
Explanation describe(ibv_event_type event, std::string_view device, int port);
// Of a step of bring-up ("RTR", "address handle", "rdma_connect") that failed with an errno.
Explanation describe_bring_up(std::string_view step, int error, const LinkDescription& link);
// Of an answer of the RDMA communication manager that ends the attempt to connect. status: of the
// event: an errno as a negative number, or the reason for which the peer's manager rejected.
Explanation describe(rdma_cm_event_type event, int status, const LinkDescription& link);
// Where the first short write came back and the first long one ended in this fault.
Explanation describe_cut_path(const LinkDescription& link, Explanation fault);
// Where bring-up did not end before its deadline: what stands between the two ends.
Explanation describe_silence(std::string_view step, const LinkDescription& link);

}  // namespace qpmesh::transport::verbs::diagnosis

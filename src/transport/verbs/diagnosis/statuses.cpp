// SPDX-License-Identifier: MIT
#include "transport/verbs/diagnosis/statuses.hpp"

#include <algorithm>
#include <array>

namespace qpmesh::transport::verbs::diagnosis {
namespace {

// Cause and hint of what only a mistake in qpmesh can bring about.
constexpr std::string_view report = "report this as a bug of qpmesh, with this line";

constexpr std::array<StatusRow, 15> statuses{{
    {IBV_WC_LOC_LEN_ERR, "LOC_LEN_ERR", "the local device refused the request's length",
     "a write is longer than the port allows, or a posted receive is too small",
     "report this as a bug of qpmesh, with this line and the message size that ibv_devinfo -v "
     "shows (max_msg_sz)"},
    {IBV_WC_LOC_QP_OP_ERR, "LOC_QP_OP_ERR", "the local queue pair could not carry the request out",
     "the device's address or port went away while it was used; otherwise the request does not fit "
     "the queue pair",
     "look at the device's interface (ip address, rdma link) and for GID_CHANGE in the log; where "
     "nothing changed there report this as a bug of qpmesh, with this line"},
    {IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR", "the local device may not read the request's source",
     "a buffer was freed or unmapped while its operation was in flight, or the process forked "
     "without fork protection",
     "keep buffers alive until their request is done; do not touch qpmesh in a forked child"},
    {IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR",
     "the request was thrown away because the queue pair had failed before",
     "another request of this connection failed first",
     "look at the first error of this connection, on both hosts"},
    {IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR",
     "the peer's device answered with something that fits no request",
     "packets are damaged or of another kind: firmware, a bad cable, or the two ends disagree on "
     "the RoCE version",
     "compare the GID types of both ends in this line; then compare firmware versions "
     "(ibv_devinfo) and error counters (rdma statistic, perfquery)"},
    {IBV_WC_LOC_ACCESS_ERR, "LOC_ACCESS_ERR",
     "the local device may not write where the request points",
     "memory was registered without the right to be written", report},
    {IBV_WC_REM_INV_REQ_ERR, "REM_INV_REQ_ERR", "the peer's device refused the request as invalid",
     "the peer's queue pair does not allow remote writes, or the message is longer than it accepts",
     "does every rank run the same version of qpmesh? Compare its first log lines"},
    {IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR", "the peer's device does not open this memory to us",
     "the peer deregistered the memory or restarted, or the address lies outside its region",
     "look at the peer's own error: it probably failed first"},
    {IBV_WC_REM_OP_ERR, "REM_OP_ERR", "the peer's device could not complete the request",
     "a fault at the peer's end: its memory, its bus or its receive queue",
     "look at the peer's own error and at dmesg on its host"},
    {IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR", "the peer's device did not answer",
     "the peer is gone, or packets do not get through",
     "look whether the peer's process still runs"},
    {IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR",
     "the peer had no receive posted, however often we tried",
     "the peer's process is stopped or stuck: a running one always has receives posted",
     "look at the peer's process (its state in ps, a debugger); if it runs, report this as a bug "
     "of qpmesh"},
    {IBV_WC_REM_ABORT_ERR, "REM_ABORT_ERR", "the peer's side aborted the request",
     "the peer tore its queue pair down while the request was in flight",
     "look at the peer's own error: it gave up first"},
    {IBV_WC_FATAL_ERR, "FATAL_ERR", "the local device failed beyond repair",
     "its firmware or its bus failed",
     "look at dmesg on this host; reset the device (unload and load its driver) or replace it"},
    {IBV_WC_RESP_TIMEOUT_ERR, "RESP_TIMEOUT_ERR",
     "the peer's device took the request and never responded",
     "the path works one way only, or the peer died in between",
     "look whether the peer's process still runs, and whether its packets find the way back"},
    {IBV_WC_GENERAL_ERR, "GENERAL_ERR",
     "the device failed for a reason that verbs have no name for",
     "the driver alone knows: the vendor error in this line is its code",
     "look at dmesg, and for the vendor error at the driver's documentation"},
}};

constexpr std::array<EventRow, 15> events{{
    {IBV_EVENT_CQ_ERR, "CQ_ERR", "a completion queue overran, and what was in it is lost",
     "report this as a bug of qpmesh: its queues are made for all that can be in flight",
     Severity::context},
    {IBV_EVENT_QP_FATAL, "QP_FATAL", "a queue pair failed while it could not report a completion",
     "look at dmesg on both hosts", Severity::connection},
    {IBV_EVENT_QP_REQ_ERR, "QP_REQ_ERR",
     "a peer sent a request that this queue pair could not understand",
     "does every rank run the same version of qpmesh?", Severity::connection},
    {IBV_EVENT_QP_ACCESS_ERR, "QP_ACCESS_ERR",
     "a peer wrote or read where this process had not opened its memory, or had closed it",
     "look at the error of the peer of this queue pair", Severity::connection},
    {IBV_EVENT_COMM_EST, "COMM_EST", "the first packet arrived before the connection was complete",
     "", Severity::harmless},
    {IBV_EVENT_SQ_DRAINED, "SQ_DRAINED", "a send queue ran empty", "", Severity::harmless},
    {IBV_EVENT_DEVICE_FATAL, "DEVICE_FATAL", "the device failed, and all its connections with it",
     "look at dmesg; reset the device (unload and load its driver)", Severity::context},
    {IBV_EVENT_PORT_ACTIVE, "PORT_ACTIVE", "the port is active again", "", Severity::harmless},
    {IBV_EVENT_PORT_ERR, "PORT_ERR",
     "the port went down; connections fail unless it comes back soon",
     "check the cable, the switch, and on Ethernet the interface (ip link)", Severity::suspicious},
    {IBV_EVENT_LID_CHANGE, "LID_CHANGE",
     "the subnet manager gave the port another LID; connections that use the old one will fail",
     "restart the job if links fail; see why the subnet manager swept", Severity::suspicious},
    {IBV_EVENT_PKEY_CHANGE, "PKEY_CHANGE", "the port's partition table changed",
     "restart the job if links fail; ask the fabric's administrator", Severity::suspicious},
    {IBV_EVENT_SM_CHANGE, "SM_CHANGE", "another subnet manager took over",
     "restart the job if links fail", Severity::suspicious},
    {IBV_EVENT_QP_LAST_WQE_REACHED, "QP_LAST_WQE_REACHED",
     "a queue pair took its last receive after it failed", "", Severity::harmless},
    {IBV_EVENT_CLIENT_REREGISTER, "CLIENT_REREGISTER",
     "the subnet manager asks for everything to be registered anew",
     "restart the job if links fail; the subnet manager was restarted", Severity::suspicious},
    {IBV_EVENT_GID_CHANGE, "GID_CHANGE",
     "the port's GID table changed; connections that use a GID that went will fail",
     "did an address or interface change? ip monitor shows; restart the job if links fail",
     Severity::suspicious},
}};

}  // namespace

std::span<const StatusRow> status_table() noexcept { return statuses; }
std::span<const EventRow> event_table() noexcept { return events; }

Severity severity_of(ibv_event_type event) noexcept {
  const auto row = std::ranges::find(events, event, &EventRow::event);
  return row == events.end() ? Severity::suspicious : row->severity;
}

int port_of(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE: return event.element.port_num;
    default: return 0;
  }
}

}  // namespace qpmesh::transport::verbs::diagnosis

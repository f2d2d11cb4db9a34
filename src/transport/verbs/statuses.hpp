// What completion statuses and asynchronous events mean, what usually causes them, and what to do next.
#pragma once

#include <infiniband/verbs.h>

#include <span>
#include <string>
#include <string_view>

#include "transport/verbs/attributes.hpp"

namespace qpmesh::transport::verbs {

struct StatusRow {
  ibv_wc_status status;
  std::string_view name;     // as in verbs.h, without IBV_WC_
  std::string_view meaning;  // a sentence's end: "the peer did not answer"
  std::string_view cause;    // the likely one
  std::string_view hint;
};
std::span<const StatusRow> status_table() noexcept;

enum class Severity : std::uint8_t {
  harmless,    // to be logged
  suspicious,  // to be warned of: what was chosen from the port's tables may be stale
  connection,  // the queue pair is lost
  context,     // the device is lost, and with it every connection of the context
};
struct EventRow {
  ibv_event_type event;
  std::string_view name;  // as in verbs.h, without IBV_EVENT_
  std::string_view meaning;
  std::string_view hint;
  Severity severity;
};
std::span<const EventRow> event_table() noexcept;

struct LinkEnd {
  std::string host;
  Endpoint endpoint;
  std::uint32_t qpn = 0;
};
// The two ends of a connection, for messages.
struct LinkDescription {
  LinkEnd local;
  LinkEnd peer;
  Timers timers;
};
// "host a, rxe0 port 1, GID 1 … , MTU 1024, QP 0x11 -> host b, …"
std::string to_string(const LinkDescription& link);

struct Explanation {
  std::string cause;
  std::string hint;
};
// Of a failed completion. opcode is what was posted ("RDMA write"): a failed completion itself holds none.
Explanation describe(ibv_wc_status status, std::uint32_t vendor_error, std::string_view opcode,
                     const LinkDescription& link);
// Of an event of a device and, where it concerns one, its port (0: none).
Explanation describe(ibv_event_type event, std::string_view device, int port);
// Of a step of bring-up (RESET to INIT, RTR or RTS, address handle) that failed with an errno.
Explanation describe_bring_up(std::string_view step, int error, const LinkDescription& link);
Severity severity_of(ibv_event_type event) noexcept;

}  // namespace qpmesh::transport::verbs

// SPDX-License-Identifier: MIT
// Sentences for people who must find out why a link failed, with the facts of both hosts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/system.hpp"
#include "transport/verbs/diagnosis/statuses.hpp"
#include "transport/verbs/libraries/libraries.hpp"

namespace qpmesh::transport::verbs::diagnosis {
namespace {

std::string to_string(const LinkEnd& end) {
  return fmt::format("host {}, {}, QP {:#x}", end.host, selection::to_string(end.endpoint),
                     end.qpn);
}

// The GID as ping takes it.
std::string address(const LinkEnd& end, const std::string& source_netdev) {
  const auto kind = kind_of(end.endpoint.gid);
  const auto text = address_text(end.endpoint.gid);
  const bool needs_scope =
      kind == selection::AddressKind::ipv6_link_local && !source_netdev.empty();
  return needs_scope ? fmt::format("{}%{}", text, source_netdev) : text;
}

std::string perftest(const LinkEnd& end) {
  const auto& endpoint = end.endpoint;
  if (endpoint.is_iwarp())
    return fmt::format("ib_send_lat -R -d {} -i {}", endpoint.device, endpoint.port);
  auto line = fmt::format("ib_write_lat -d {} -i {}", endpoint.device, endpoint.port);
  if (endpoint.link_layer == selection::LinkLayer::ethernet || endpoint.grh_required)
    line += fmt::format(" -x {}", endpoint.gid_index);
  return line;
}

// What to try when nothing comes back, the likeliest first, ready to be copied.
std::string path_checks(const LinkDescription& link) {
  const auto& local = link.local.endpoint;
  const auto& peer = link.peer.endpoint;
  std::string text;
  if (local.link_layer == selection::LinkLayer::infiniband) {
    text += fmt::format("on host {}: ibportstate -C {} {} {}, iblinkinfo, sminfo", link.local.host,
                        local.device, peer.lid, peer.port);
  } else if (local.is_iwarp()) {
    text += fmt::format(
        "on host {}: ping -c 3{}{} {}; TCP connections must pass the firewalls of both hosts and "
        "the network between them",
        link.local.host, local.netdev.empty() ? "" : " -I ", local.netdev,
        address(link.peer, local.netdev));
  } else {
    // As long a packet as the longest of RoCE v2, which has 32 bytes of headers more than ping.
    constexpr int header_bytes = 32;
    const int ping_bytes = selection::path_mtu_bytes(local, peer) + header_bytes;
    text += fmt::format("on host {}: ping -c 3 -M do -s {}{}{} {}", link.local.host, ping_bytes,
                        local.netdev.empty() ? "" : " -I ", local.netdev,
                        address(link.peer, local.netdev));
    text +=
        local.gid_type == selection::GidType::roce_v2
            ? "; UDP port 4791 must pass the firewalls of both hosts and the network between them"
            : "; RoCE v1 is not routed: both ports must be in one Ethernet segment and VLAN";
  }
  text += fmt::format("; on host {}: {}; then on host {}: {} {}", link.peer.host,
                      perftest(link.peer), link.local.host, perftest(link.local), link.peer.host);
  if (local.link_layer == selection::LinkLayer::ethernet &&
      (kind_of(local.gid) == selection::AddressKind::ipv6_link_local ||
       kind_of(local.gid) == selection::AddressKind::ipv4_link_local))
    text +=
        "; the GIDs are link-local: give both interfaces addresses of one network, or set "
        "QPMESH_GID_INDEX";
  if (local.software || peer.software)
    text +=
        "; a software device answers late on a busy or emulated host: raise "
        "QPMESH_LINK_TIMEOUT_MS";
  return text;
}

std::string mtu_note(const LinkDescription& link) {
  const int local = link.local.endpoint.mtu_bytes;
  const int peer = link.peer.endpoint.mtu_bytes;
  if (local == peer) return {};
  return fmt::format("; the ports' MTUs differ ({} and {}), {} is used", local, peer,
                     std::min(local, peer));
}

bool is_silence(ibv_wc_status status) noexcept {
  return status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RESP_TIMEOUT_ERR;
}

struct BringUpRow {
  int error;
  std::string_view cause;
  std::string_view hint;  // empty: the path checks
};
constexpr std::array bring_up_table{
    BringUpRow{
        EINVAL,
        "the device refuses the addresses: the GID has gone since it was chosen, or has no route "
        "to the peer's",
        "compare qpmesh-info on both hosts with this line; set QPMESH_GID_INDEX or QPMESH_SUBNET"},
    BringUpRow{ENETUNREACH, "the host has no route to the peer's address",
               "ip route get ADDRESS; choose GIDs of one network with QPMESH_SUBNET"},
    BringUpRow{EHOSTUNREACH, "the peer's address does not answer on the network", ""},
    BringUpRow{ETIMEDOUT,
               "the peer's Ethernet address could not be found out (ARP, neighbour discovery)", ""},
    BringUpRow{ENODEV, "the device or its interface is gone", "rdma link; ip link"},
    BringUpRow{ENOMEM, "the device or the host is out of memory for queue pairs",
               "ulimit -l must allow more locked memory; rdma resource show lists what is in use"},
    BringUpRow{EPERM, "this process lacks the right",
               "may it read and write /dev/infiniband/uverbs*? In a container: its capabilities"},
};

struct CmRow {
  rdma_cm_event_type event;
  std::string_view name;
  std::string_view meaning;
  std::string_view hint;  // empty: the path checks
};
constexpr std::array cm_table{
    CmRow{RDMA_CM_EVENT_ADDR_ERROR, "ADDR_ERROR", "the peer's address cannot be resolved", ""},
    CmRow{RDMA_CM_EVENT_ROUTE_ERROR, "ROUTE_ERROR", "there is no route to the peer", ""},
    CmRow{RDMA_CM_EVENT_UNREACHABLE, "UNREACHABLE", "the peer does not answer", ""},
    CmRow{RDMA_CM_EVENT_CONNECT_ERROR, "CONNECT_ERROR", "the connection could not be made", ""},
    CmRow{RDMA_CM_EVENT_REJECTED, "REJECTED", "the peer's side rejected the connection",
          "do two jobs share one address? QPMESH_CONNECT=exchange does without the manager"},
    CmRow{RDMA_CM_EVENT_DISCONNECTED, "DISCONNECTED", "the peer ended the connection again",
          "the peer's own error says more"},
    CmRow{RDMA_CM_EVENT_DEVICE_REMOVAL, "DEVICE_REMOVAL", "the device is gone", "rdma link"},
};

// Reasons that a peer's manager gives (InfiniBand specification, table of REJ reasons).
struct RejectRow {
  int reason;
  std::string_view meaning;
};
constexpr std::array reject_table{
    RejectRow{8, "nobody listens there"},
    RejectRow{10, "it holds an old connection of the same queue pair"},
    RejectRow{28, "the request was not one that this rank of the job waits for"},
};

std::string cm_status(rdma_cm_event_type event, int status) {
  if (status < 0) return base::describe_errno(-status);
  const auto row = std::ranges::find(reject_table, status, &RejectRow::reason);
  if (event == RDMA_CM_EVENT_REJECTED && row != reject_table.end())
    return std::string{row->meaning};
  return "see the driver";
}

}  // namespace

std::string to_string(const LinkDescription& link) {
  return fmt::format("{} to {}", to_string(link.local), to_string(link.peer));
}

Explanation describe(ibv_wc_status status, std::uint32_t vendor_error, std::string_view operation,
                     const LinkDescription& link) {
  const auto table = status_table();
  const auto row = std::ranges::find(table, status, &StatusRow::status);
  if (row == table.end()) {
    return {
        fmt::format("{} failed with status {} ({}), vendor error {:#x}, of something that qpmesh "
                    "does not use or know: a driver is at fault; {}",
                    operation, static_cast<int>(status),
                    ibverbs_missing().empty() ? ibv_wc_status_str(status) : "unknown", vendor_error,
                    to_string(link)),
        "look at dmesg on both hosts; update driver and firmware"};
  }
  auto cause = fmt::format("{} failed with {} (status {}, vendor error {:#x}): {}", operation,
                           row->name, static_cast<int>(status), vendor_error, row->meaning);
  if (status == IBV_WC_RETRY_EXC_ERR) {
    cause += fmt::format(" for about {} ms ({} tries)", selection::give_up_ms(link.timers),
                         link.timers.retry_count + 1);
  }
  cause += fmt::format(", usually because {}; {}", row->cause, to_string(link));
  if (!is_silence(status)) return {std::move(cause), std::string{row->hint}};
  return {cause + mtu_note(link), fmt::format("{}; {}", row->hint, path_checks(link))};
}

Explanation describe(ibv_event_type event, std::string_view device, int port) {
  const auto where = port == 0 ? std::string{device} : fmt::format("{} port {}", device, port);
  const auto table = event_table();
  const auto row = std::ranges::find(table, event, &EventRow::event);
  if (row == table.end()) {
    return {fmt::format("{}: event {} ({}), of something that qpmesh does not use or know", where,
                        static_cast<int>(event),
                        ibverbs_missing().empty() ? ibv_event_type_str(event) : "unknown"),
            "look at dmesg"};
  }
  return {fmt::format("{}: {} (event {})", where, row->meaning, row->name), std::string{row->hint}};
}

Explanation describe_bring_up(std::string_view step, int error, const LinkDescription& link) {
  const auto row = std::ranges::find(bring_up_table, error, &BringUpRow::error);
  const bool known = row != bring_up_table.end();
  auto cause =
      fmt::format("{} failed: {}; {}", step,
                  known ? std::string{row->cause} : base::describe_errno(error), to_string(link));
  std::string hint{known ? row->hint : std::string_view{"look at dmesg on this host"}};
  constexpr std::string_view placeholder = "ADDRESS";
  if (const auto found = hint.find(placeholder); found != std::string::npos)
    hint.replace(found, placeholder.size(), address(link.peer, {}));
  return {std::move(cause), hint.empty() ? path_checks(link) : std::move(hint)};
}

Explanation describe(rdma_cm_event_type event, int status, const LinkDescription& link) {
  const auto row = std::ranges::find(cm_table, event, &CmRow::event);
  const bool known = row != cm_table.end();
  const std::string_view name = known                      ? row->name
                                : rdmacm_missing().empty() ? rdma_event_str(event)
                                                           : "unknown";
  return {fmt::format("RDMA CM: {} ({}, status {}: {}); {}",
                      known ? row->meaning : "an event that was not awaited", name, status,
                      cm_status(event, status), to_string(link)),
          known && !row->hint.empty() ? std::string{row->hint} : path_checks(link)};
}

Explanation describe_cut_path(const LinkDescription& link, Explanation fault) {
  const auto lower = [](const LinkEnd& end) {
    return fmt::format("on host {}: ip link set {} mtu 1500", end.host,
                       end.endpoint.netdev.empty() ? "INTERFACE" : end.endpoint.netdev);
  };
  const int packet_bytes = selection::path_mtu_bytes(link.local.endpoint, link.peer.endpoint);
  fault.cause = fmt::format("a short packet was answered, one of {} bytes was not: {}",
                            packet_bytes, fault.cause);
  if (link.local.endpoint.link_layer == selection::LinkLayer::ethernet)
    fault.hint = fmt::format(
        "something between the hosts carries only shorter packets: raise its MTU, or {}; {}; {}",
        lower(link.local), lower(link.peer), fault.hint);
  return fault;
}

Explanation describe_silence(std::string_view step, const LinkDescription& link) {
  return {fmt::format("{}: the peer's device does not answer; {}{}", step, to_string(link),
                      mtu_note(link)),
          path_checks(link)};
}

}  // namespace qpmesh::transport::verbs::diagnosis

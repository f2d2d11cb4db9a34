// SPDX-License-Identifier: MIT
#include "transport/verbs/selection/choice.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/errors.hpp"
#include "base/text.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

constexpr int ipv4_prefix_bits = 96;  // of ::ffff:0:0/96

// ibv_global_route has 8 bits for it; rxe's table has 1024 entries.
constexpr int gid_index_max = 255;

// UCX's default over RoCE v2: DSCP 26, and ECT(0), so that switches may mark instead of dropping.
constexpr int roce_v2_traffic_class = 106;
// The priority of a VLAN tag has three bits.
constexpr int ethernet_service_level_max = 7;
constexpr std::uint16_t full_membership = 0x8000;  // of a partition key

// Interfaces of container networks: other hosts hold the same addresses, or cannot reach them.
constexpr std::array<std::string_view, 11> overlay_prefixes{"docker",  "br-",    "podman", "cni",
                                                            "flannel", "cali",   "tunl",   "vxlan",
                                                            "weave",   "cilium", "virbr"};

bool owns(const GidFacts& gid, const Gid& address) noexcept {
  if (address == Gid{}) return false;
  return gid.gid == address ||
         std::ranges::count(gid.addresses, address, &InterfaceAddress::address) > 0;
}

// One row of the tables, in context.
struct Entry {
  const DeviceFacts& device;
  const PortFacts& port;
  const GidFacts& gid;
};

// As the hints name it.
std::string_view interface_of(const GidFacts& gid) noexcept {
  return gid.netdev.empty() ? std::string_view{"INTERFACE"} : gid.netdev;
}

struct Verdict {
  Refusal refusal = Refusal::none;
  Explanation why{};
};

// "0 (0xffff), 2 (0x8012)": what QPMESH_PKEY_INDEX may be at a port.
std::string pkeys_text(const PortFacts& port) {
  std::string text;
  for (std::size_t index = 0; index < port.pkeys.size(); ++index) {
    if (port.pkeys[index] == 0) continue;
    text += fmt::format("{}{} ({:#06x})", text.empty() ? "" : ", ", index, port.pkeys[index]);
  }
  return text.empty() ? "0" : text;
}

// Checked last, so that a GID refused here would do with other values: require_port_values counts
// on that.
Verdict check_port_values(const Entry& entry, const Wishes& wishes) {
  const auto& [device, port, gid] = entry;
  if (gid.type != GidType::iwarp && port.link_layer == LinkLayer::ethernet &&
      wishes.service_level > ethernet_service_level_max)
    return {Refusal::no_such_level,
            {fmt::format("QPMESH_SERVICE_LEVEL='{}', allowed: 0 to {} over Ethernet",
                         wishes.service_level, ethernet_service_level_max),
             "over RoCE it is the priority of an Ethernet frame: ask for one that the switches "
             "know"}};
  if (!pkey_index_of(port, wishes.pkey_index))
    return {
        Refusal::no_such_pkey,
        {fmt::format("QPMESH_PKEY_INDEX='{}', allowed: {}", wishes.pkey_index, pkeys_text(port)),
         "qpmesh-info shows the partition keys of each port; a subnet manager sets them"}};
  return {};
}

// Wishes first: what the user did not ask for needs no other reason.
Verdict check_wishes(const Entry& entry, const Wishes& wishes) {
  const auto& [device, port, gid] = entry;
  if (!wishes.device.empty() && device.name != wishes.device)
    return {Refusal::other_device,
            {fmt::format("QPMESH_DEVICE asks for {}", wishes.device), other_device_hint}};
  if (wishes.port != 0 && port.number != wishes.port)
    return {Refusal::other_device,
            {fmt::format("QPMESH_DEVICE asks for port {}", wishes.port), other_device_hint}};
  if (wishes.gid_index >= 0 && gid.index != wishes.gid_index)
    return {Refusal::other_gid_index,
            {fmt::format("QPMESH_GID_INDEX asks for {}", wishes.gid_index),
             "set QPMESH_GID_INDEX to an index that qpmesh-info lists, or unset it: the index is "
             "chosen by address"}};
  if (!wishes.netdev.empty() && gid.netdev != wishes.netdev)
    return {Refusal::other_netdev,
            {fmt::format("QPMESH_NETDEV asks for {}", wishes.netdev),
             "set QPMESH_NETDEV to an interface that qpmesh-info lists, or unset it"}};
  if (wishes.subnet && !contains(*wishes.subnet, gid.gid))
    return {
        Refusal::other_subnet,
        {fmt::format("QPMESH_SUBNET asks for {}", to_string(*wishes.subnet)),
         "set QPMESH_SUBNET to the network of an interface that qpmesh-info lists, or unset it"}};
  return {};
}

Verdict check_health(const Entry& entry, const Wishes& wishes) {
  const auto& [device, port, gid] = entry;
  const bool infiniband = port.link_layer == LinkLayer::infiniband;
  if (device.protocol == DeviceProtocol::other || port.link_layer == LinkLayer::unspecified)
    return {Refusal::wrong_protocol,
            {"neither InfiniBand, RoCE nor iWARP",
             "use another device: QPMESH_DEVICE, or QPMESH_TRANSPORT=tcp"}};
  if (device.protocol == DeviceProtocol::iwarp && !wishes.manager)
    return {Refusal::wrong_protocol,
            {"iWARP is connected by the RDMA communication manager alone",
             "set QPMESH_CONNECT=cm, or use a RoCE or InfiniBand device: QPMESH_DEVICE"}};
  if (port.state != port_active)
    return {Refusal::port_down,
            {fmt::format("the port is {}", port.state_name), port_down_hint(gid.netdev)}};
  if (port.mtu_bytes < 256 || port.mtu_bytes > 4096)
    return {Refusal::no_mtu,
            {fmt::format("the port's active MTU is {}", port.mtu_bytes),
             "bring the port's interface down and up again, then look at ibv_devinfo"}};
  if (infiniband && port.lid == 0 && !port.grh_required)
    return {Refusal::no_lid,
            {"no subnet manager has given the port a LID",
             "start a subnet manager (opensm) on the fabric; sminfo shows whether one is there"}};
  if (gid.index > gid_index_max)
    return {Refusal::index_too_large,
            {fmt::format("a queue pair cannot name entries beyond {}", gid_index_max),
             fmt::format("remove addresses that are not needed from {}, and bring it down and up",
                         interface_of(gid))}};
  if (gid.gid == Gid{})
    return {Refusal::zero_gid,
            {"the entry is zero",
             fmt::format("give the port's interface an address: ip addr add ADDRESS/BITS dev {}",
                         interface_of(gid))}};
  if (infiniband != (gid.type == GidType::infiniband))
    return {Refusal::wrong_gid_type,
            {fmt::format("type {} on {}", to_string(gid.type), to_string(port.link_layer)),
             "set QPMESH_GID_INDEX to an entry of another type"}};
  if (!gid.netdev.empty() && !gid.netdev_up)
    return {Refusal::netdev_down,
            {fmt::format("{} is down", gid.netdev), fmt::format("ip link set {} up", gid.netdev)}};
  const bool asked_for = wishes.netdev == gid.netdev || wishes.gid_index >= 0 || wishes.subnet;
  if (is_overlay(gid.netdev) && !asked_for && !owns(gid, wishes.bootstrap_address))
    return {Refusal::overlay,
            {fmt::format("{} belongs to a container network", gid.netdev),
             "give the device an address on an interface that other hosts reach, or insist with "
             "QPMESH_NETDEV"}};
  return check_port_values(entry, wishes);
}

std::vector<ScoreTerm> score(const Entry& entry, const Wishes& wishes) {
  const auto& [device, port, gid] = entry;
  std::vector<ScoreTerm> terms;
  if (device.software) terms.push_back({"software device", -2000});
  if (port.link_layer == LinkLayer::infiniband) {
    terms.push_back({"InfiniBand", 1400});
  } else {
    if (owns(gid, wishes.bootstrap_address)) terms.push_back({"where the ranks met", 1000});
    if (gid.type == GidType::roce_v2) terms.push_back({"RoCE v2", 200});
    switch (kind_of(gid.gid)) {
      case AddressKind::ipv4: terms.push_back({"IPv4", 100}); break;
      case AddressKind::ipv6: terms.push_back({"IPv6", 60}); break;
      default: terms.push_back({"link-local", -300}); break;
    }
  }
  if (wishes.numa_node >= 0 && device.numa_node == wishes.numa_node)
    terms.push_back({"near this rank's cores", 20});
  return terms;
}

}  // namespace

bool is_overlay(std::string_view netdev) noexcept {
  return std::ranges::any_of(overlay_prefixes,
                             [&](auto prefix) { return netdev.starts_with(prefix); });
}

std::string port_down_hint(std::string_view netdev) {
  return fmt::format(
      "check the cable and the switch; on Ethernet: ip link set {} up; on InfiniBand: is a subnet "
      "manager running?",
      netdev.empty() ? "INTERFACE" : netdev);
}

std::optional<Gid> parse_address(const std::string& text) {
  Gid address;
  auto* const bytes = address.bytes.data();
  if (::inet_pton(AF_INET6, text.c_str(), bytes) == 1) return address;
  if (::inet_pton(AF_INET, text.c_str(), bytes + ipv4_prefix_bits / 8) != 1) return std::nullopt;
  bytes[10] = bytes[11] = 0xff;
  return address;
}

std::optional<Subnet> parse_subnet(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto network = parse_address(std::string{text.substr(0, slash)});
  const auto bits = base::parse_integer(text.substr(slash + 1), false);
  if (!network || !bits) return std::nullopt;
  const int bits_before = is_ipv4(*network) ? ipv4_prefix_bits : 0;
  if (*bits < 0 || *bits > 128 - bits_before) return std::nullopt;
  return Subnet{.network = *network, .prefix_bits = bits_before + static_cast<int>(*bits)};
}

std::string to_string(const Subnet& subnet) {
  const int bits_before = is_ipv4(subnet.network) ? ipv4_prefix_bits : 0;
  return fmt::format("{}/{}", address_text(subnet.network), subnet.prefix_bits - bits_before);
}

bool contains(const Subnet& subnet, const Gid& address) noexcept {
  return prefix_of(subnet.network, subnet.prefix_bits) == prefix_of(address, subnet.prefix_bits);
}

Wishes wishes_of(const Options& options, const std::string& bootstrap_address) {
  const auto refuse = [](std::string_view variable, std::string_view value,
                         std::string_view allowed) {
    base::throw_error({ErrorCode::bad_config}, "options",
                      "qpmesh-info lists devices, ports and GIDs", "{}='{}', allowed: {}", variable,
                      value, allowed);
  };
  Wishes wishes;
  wishes.bootstrap_address = parse_address(bootstrap_address).value_or(Gid{});
  wishes.gid_index = static_cast<int>(options.gid_index);
  wishes.traffic_class = static_cast<int>(options.traffic_class);
  wishes.service_level = static_cast<int>(options.service_level);
  wishes.flow_label = static_cast<int>(options.flow_label);
  wishes.pkey_index = static_cast<int>(options.pkey_index);
  wishes.netdev = options.netdev;
  wishes.manager = options.connect == ConnectBy::cm;
  const auto colon = options.device.find(':');
  wishes.device = options.device.substr(0, colon);
  if (colon != std::string::npos) {
    const auto port =
        base::parse_integer(std::string_view{options.device}.substr(colon + 1), false);
    if (wishes.device.empty() || !port || *port < 1 || *port > 255)
      refuse("QPMESH_DEVICE", options.device, "a device, or device:port with a port from 1");
    wishes.port = static_cast<int>(*port);
  }
  if (!options.subnet.empty()) {
    wishes.subnet = parse_subnet(options.subnet);
    if (!wishes.subnet)
      refuse("QPMESH_SUBNET", options.subnet, "an IPv4 or IPv6 network, as 10.0.0.0/8");
  }
  return wishes;
}

std::uint8_t traffic_class_of(const PortFacts& port, GidType type, int wished) noexcept {
  if (wished >= 0) return static_cast<std::uint8_t>(wished);
  if (type != GidType::roce_v2) return 0;
  return static_cast<std::uint8_t>(port.traffic_class >= 0 ? port.traffic_class
                                                           : roce_v2_traffic_class);
}

std::optional<std::uint16_t> pkey_index_of(const PortFacts& port, int wished) noexcept {
  const auto& pkeys = port.pkeys;
  if (pkeys.empty()) return wished <= 0 ? std::optional<std::uint16_t>{0} : std::nullopt;
  if (wished >= 0) {
    const auto at = static_cast<std::size_t>(wished);
    const bool is_held = at < pkeys.size() && pkeys[at] != 0;
    return is_held ? std::optional{static_cast<std::uint16_t>(wished)} : std::nullopt;
  }
  auto found =
      std::ranges::find_if(pkeys, [](std::uint16_t pkey) { return (pkey & full_membership) != 0; });
  if (found == pkeys.end())
    found = std::ranges::find_if(pkeys, [](std::uint16_t pkey) { return pkey != 0; });
  return found == pkeys.end() ? std::nullopt
                              : std::optional{static_cast<std::uint16_t>(found - pkeys.begin())};
}

void require_port_values(std::span<const DeviceFacts> devices, const Wishes& wishes) {
  const auto all = judge(devices, wishes);
  if (std::ranges::count(all, Refusal::none, &Judgement::refusal) > 0) return;
  const auto refused = std::ranges::find_if(all, [](const Judgement& each) {
    return each.refusal == Refusal::no_such_level || each.refusal == Refusal::no_such_pkey;
  });
  if (refused == all.end()) return;
  const DeviceFacts& device = devices[refused->device];
  base::throw_error({ErrorCode::bad_config}, "options", refused->why_refused.hint,
                    "{} on {} port {}", refused->why_refused.cause, device.name,
                    device.ports[refused->port].number);
}

std::vector<Judgement> judge(std::span<const DeviceFacts> devices, const Wishes& wishes) {
  std::vector<Judgement> all;
  for (std::size_t device = 0; device < devices.size(); ++device) {
    const auto& ports = devices[device].ports;
    for (std::size_t port = 0; port < ports.size(); ++port) {
      for (std::size_t gid = 0; gid < ports[port].gids.size(); ++gid) {
        const Entry entry{devices[device], ports[port], ports[port].gids[gid]};
        auto verdict = check_wishes(entry, wishes);
        if (verdict.refusal == Refusal::none) verdict = check_health(entry, wishes);
        Judgement judgement{.device = device,
                            .port = port,
                            .gid = gid,
                            .refusal = verdict.refusal,
                            .why_refused = std::move(verdict.why)};
        if (judgement.refusal == Refusal::none) judgement.terms = score(entry, wishes);
        for (const auto& term : judgement.terms) judgement.score += term.points;
        all.push_back(std::move(judgement));
      }
    }
  }
  const auto rate = [&](const Judgement& each) {
    return devices[each.device].ports[each.port].rate_mbps;
  };
  std::ranges::stable_sort(all, [&](const Judgement& a, const Judgement& b) {
    const bool a_refused = a.refusal != Refusal::none;
    const bool b_refused = b.refusal != Refusal::none;
    if (a_refused != b_refused) return b_refused;
    if (a_refused) return false;
    return std::pair{a.score, rate(a)} > std::pair{b.score, rate(b)};
  });
  return all;
}

}  // namespace qpmesh::transport::verbs::selection

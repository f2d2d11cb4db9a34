// What a rank offers to others, and why it offers nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

template <class Names>
std::string joined(const Names& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// A device or port that was asked for and is not there; nothing when both are.
std::optional<Explanation> missing_device(std::span<const DeviceFacts> devices,
                                          const Wishes& wishes) {
  if (wishes.device.empty()) return std::nullopt;
  const auto device = std::ranges::find(devices, wishes.device, &DeviceFacts::name);
  if (device == devices.end()) {
    std::vector<std::string_view> names;
    for (const auto& each : devices) names.push_back(each.name);
    return Explanation{
        fmt::format("there is no RDMA device {}; there are: {}", wishes.device, joined(names)),
        std::string{other_device_hint}};
  }
  if (wishes.port == 0 || std::ranges::count(device->ports, wishes.port, &PortFacts::number) > 0)
    return std::nullopt;
  return Explanation{
      fmt::format("{} has no port {}, it has {}", wishes.device, wishes.port, device->ports.size()),
      std::string{other_device_hint}};
}

// What no judgement tells of: devices that cannot be read, ports without a single GID.
std::vector<std::string> bare_devices(std::span<const DeviceFacts> devices, const Wishes& wishes) {
  std::vector<std::string> found;
  for (const auto& device : devices) {
    if (!wishes.device.empty() && device.name != wishes.device) continue;
    if (!device.unreadable.empty())
      found.push_back(fmt::format("{} cannot be read ({})", device.name, device.unreadable));
    for (const auto& port : device.ports) {
      if (port.gids.empty())
        found.push_back(fmt::format("{} port {} is {} and has no GID", device.name, port.number,
                                    port.state_name));
    }
  }
  return found;
}

// Why each entry that got furthest was refused, an interface or a port at a time.
std::vector<std::string> furthest_refusals(std::span<const DeviceFacts> devices,
                                           std::span<const Judgement> judgements,
                                           Refusal furthest) {
  std::vector<std::string> found;
  for (const auto& each : judgements) {
    if (each.refusal != furthest) continue;
    const auto& device = devices[each.device];
    auto text =
        fmt::format("{} port {}: {}", device.name, device.ports[each.port].number, each.refused);
    if (std::ranges::find(found, text) == found.end()) found.push_back(std::move(text));
  }
  return found;
}

// What there would have been instead of a wish that was not met.
std::string alternatives(std::span<const DeviceFacts> devices, const Wishes& wishes,
                         Refusal furthest) {
  std::set<int> indexes;
  std::set<std::string> others;
  for (const auto& device : devices) {
    if (!wishes.device.empty() && device.name != wishes.device) continue;
    for (const auto& port : device.ports) {
      for (const auto& gid : port.gids) {
        indexes.insert(gid.index);
        if (furthest == Refusal::other_netdev && !gid.netdev.empty()) others.insert(gid.netdev);
        if (furthest == Refusal::other_subnet) others.insert(to_string(gid.gid));
      }
    }
  }
  if (furthest == Refusal::other_gid_index) return fmt::format("; there are: {}", joined(indexes));
  return others.empty() ? std::string{} : fmt::format("; there are: {}", joined(others));
}

Explanation why_nothing(std::span<const DeviceFacts> devices, const Wishes& wishes,
                        std::span<const Judgement> judgements) {
  if (devices.empty()) {
    return {"no RDMA device is visible to this process",
            "rdma link lists devices; load the adapter's driver, or set up SoftRoCE as "
            "docs/softroce.md tells; a "
            "container needs /dev/infiniband"};
  }
  if (auto missing = missing_device(devices, wishes)) return *std::move(missing);
  auto reasons = bare_devices(devices, wishes);
  auto furthest = Refusal::none;
  for (const auto& each : judgements) furthest = std::max(furthest, each.refusal);
  for (auto& reason : furthest_refusals(devices, judgements, furthest))
    reasons.push_back(std::move(reason));
  constexpr std::size_t reasons_max = 8;  // a message, not a table
  const auto left_out = reasons.size() > reasons_max ? reasons.size() - reasons_max : 0;
  reasons.resize(reasons.size() - left_out);
  auto cause = fmt::format("no usable GID: {}{}", fmt::join(reasons, "; "),
                           alternatives(devices, wishes, furthest));
  if (left_out != 0) cause += fmt::format("; and {} more", left_out);
  const auto nearest = std::ranges::find(judgements, furthest, &Judgement::refusal);
  if (furthest == Refusal::none) {
    const bool down = std::ranges::any_of(devices, [](const DeviceFacts& device) {
      return std::ranges::any_of(device.ports,
                                 [](const PortFacts& port) { return port.state != port_active; });
    });
    return {std::move(cause), down ? port_down_hint({}) : "may this process use /dev/infiniband?"};
  }
  return {std::move(cause), nearest->hint};
}

Endpoint endpoint_of(const DeviceFacts& device, const PortFacts& port, const GidFacts& gid,
                     int score) {
  Endpoint endpoint{.device = device.name,
                    .node_guid = device.node_guid,
                    .port = port.number,
                    .link_layer = port.link_layer,
                    .lid = port.lid,
                    .grh_required = port.grh_required,
                    .gid_index = gid.index,
                    .gid = gid.gid,
                    .gid_type = gid.type,
                    .netdev = gid.netdev,
                    .mtu_bytes = port.mtu_bytes,
                    .responder_reads_max = device.responder_reads_max,
                    .initiator_reads_max = device.initiator_reads_max,
                    .software = device.software,
                    .score = score};
  if (port.link_layer == LinkLayer::infiniband) {
    endpoint.prefix_bits = 64;
  } else if (const auto kind = kind_of(gid.gid);
             kind == AddressKind::ipv4 || kind == AddressKind::ipv6) {
    const auto own = std::ranges::find(gid.addresses, gid.gid, &InterfaceAddress::address);
    if (own != gid.addresses.end())
      endpoint.prefix_bits = own->prefix_bits + (kind == AddressKind::ipv4 ? 96 : 0);
  }
  return endpoint;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  auto text = fmt::format("{} port {}, ", endpoint.device, endpoint.port);
  if (endpoint.link_layer == LinkLayer::infiniband) text += fmt::format("LID {}, ", endpoint.lid);
  return text + fmt::format("GID {} {} ({}{}{}), MTU {}", endpoint.gid_index,
                            to_string(endpoint.gid), to_string(endpoint.gid_type),
                            endpoint.netdev.empty() ? "" : ", ", endpoint.netdev,
                            endpoint.mtu_bytes);
}

Offer make_offer(std::span<const DeviceFacts> devices, const Wishes& wishes, std::string host) {
  Offer offer{.host = std::move(host)};
  const auto judgements = judge(devices, wishes);
  // An interface with many addresses must not crowd out the other ports.
  std::vector<const Judgement*> first;
  std::vector<const Judgement*> further;
  std::set<std::pair<std::size_t, std::size_t>> ports;
  for (const auto& each : judgements) {
    if (each.refusal != Refusal::none) continue;
    (ports.emplace(each.device, each.port).second ? first : further).push_back(&each);
  }
  first.insert(first.end(), further.begin(), further.end());
  first.resize(std::min(first.size(), endpoints_max));
  std::ranges::sort(first);  // judgements are in their order already
  for (const auto* each : first) {
    const auto& device = devices[each->device];
    const auto& port = device.ports[each->port];
    offer.endpoints.push_back(endpoint_of(device, port, port.gids[each->gid], each->score));
  }
  if (offer.endpoints.empty()) {
    auto [cause, hint] = why_nothing(devices, wishes, judgements);
    offer.cause = std::move(cause);
    offer.hint = std::move(hint);
  }
  return offer;
}

}  // namespace qpmesh::transport::verbs::selection

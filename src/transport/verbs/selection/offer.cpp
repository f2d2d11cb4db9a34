// SPDX-License-Identifier: MIT
// What a rank offers to others, why it offers nothing, and how an offer travels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/system.hpp"
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
        other_device_hint};
  }
  if (wishes.port == 0 || std::ranges::count(device->ports, wishes.port, &PortFacts::number) > 0)
    return std::nullopt;
  return Explanation{
      fmt::format("{} has no port {}, it has {}", wishes.device, wishes.port, device->ports.size()),
      other_device_hint};
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
    auto text = fmt::format("{} port {}: {}", device.name, device.ports[each.port].number,
                            each.why_refused.cause);
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
  if (wishes.descriptors_error != 0) {
    return {fmt::format("RDMA cannot be looked for: {}",
                        base::describe_errno(wishes.descriptors_error)),
            base::hint_for_descriptors(wishes.descriptors_error)};
  }
  if (!wishes.ibverbs_missing.empty()) {
    return {fmt::format("libibverbs cannot be used: {}", wishes.ibverbs_missing),
            rdma_packages_hint};
  }
  if (devices.empty()) {
    return {"no RDMA device is visible to this process",
            "rdma link lists devices; load the adapter's driver, or set up SoftRoCE as "
            "docs/softroce.md tells; a container needs /dev/infiniband"};
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
  return {std::move(cause), nearest->why_refused.hint};
}

constexpr std::uint16_t no_pkey = 0;
constexpr std::uint16_t default_pkey = 0xffff;  // of the default partition, with full membership
constexpr std::uint8_t service_level_max = 15;
constexpr std::uint32_t flow_label_max = 0xfffff;

Endpoint endpoint_of(const DeviceFacts& device, const PortFacts& port, const GidFacts& gid,
                     const Wishes& wishes, int score) {
  const std::uint16_t pkey_index = pkey_index_of(port, wishes.pkey_index).value_or(0);
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
                    .traffic_class = traffic_class_of(port, gid.type, wishes.traffic_class),
                    .service_level = static_cast<std::uint8_t>(wishes.service_level),
                    .flow_label = static_cast<std::uint32_t>(wishes.flow_label),
                    .pkey_index = pkey_index,
                    .pkey = pkey_index < port.pkeys.size() ? port.pkeys[pkey_index] : no_pkey,
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

constexpr std::size_t name_bytes_max = 255;
constexpr std::size_t sentence_bytes_max = 4096;

// All that travels of an endpoint, for writing and reading alike.
void use_fields(auto& of, const auto& use) {
  use(of.device, of.node_guid, of.port, of.link_layer, of.lid, of.grh_required, of.gid_index,
      of.gid.bytes, of.gid_type, of.netdev, of.prefix_bits, of.mtu_bytes, of.responder_reads_max,
      of.initiator_reads_max, of.software, of.traffic_class, of.service_level, of.flow_label,
      of.pkey_index, of.pkey, of.score);
}

// Texts end up in messages for people: nothing in them may steer a terminal.
bool is_text(std::string_view text, std::size_t bytes_max) noexcept {
  return text.size() <= bytes_max &&
         std::ranges::none_of(text, [](unsigned char each) { return each < 0x20 || each == 0x7f; });
}

bool is_within(int value, int least, int most) noexcept { return least <= value && value <= most; }

bool is_sound(const Endpoint& endpoint) noexcept {
  const bool infiniband = endpoint.link_layer == LinkLayer::infiniband;
  return !endpoint.device.empty() && is_text(endpoint.device, name_bytes_max) &&
         is_text(endpoint.netdev, name_bytes_max) && is_within(endpoint.port, 1, 255) &&
         (infiniband || endpoint.link_layer == LinkLayer::ethernet) &&
         endpoint.gid_type <= GidType::iwarp &&
         infiniband == (endpoint.gid_type == GidType::infiniband) && endpoint.gid != Gid{} &&
         is_within(endpoint.gid_index, 0, 255) && is_within(endpoint.prefix_bits, 0, 128) &&
         is_within(endpoint.mtu_bytes, 256, 4096) &&
         std::has_single_bit(static_cast<unsigned>(endpoint.mtu_bytes)) &&
         endpoint.service_level <= service_level_max && endpoint.flow_label <= flow_label_max;
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  auto text = fmt::format("{} port {}, ", endpoint.device, endpoint.port);
  if (endpoint.link_layer == LinkLayer::infiniband) text += fmt::format("LID {}, ", endpoint.lid);
  text += fmt::format("GID {} {} ({}{}{}), MTU {}", endpoint.gid_index, to_string(endpoint.gid),
                      to_string(endpoint.gid_type), endpoint.netdev.empty() ? "" : ", ",
                      endpoint.netdev, endpoint.mtu_bytes);
  if (endpoint.pkey != no_pkey && endpoint.pkey != default_pkey)
    text += fmt::format(", partition key {:#06x}", endpoint.pkey);
  return text;
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
    offer.endpoints.push_back(endpoint_of(device, port, port.gids[each->gid], wishes, each->score));
  }
  if (offer.endpoints.empty()) offer.why_none = why_nothing(devices, wishes, judgements);
  return offer;
}

Blob encode(const Offer& offer) {
  base::ByteWriter out;
  out.put_fields(offer.host.substr(0, name_bytes_max),
                 offer.why_none.cause.substr(0, sentence_bytes_max),
                 offer.why_none.hint.substr(0, sentence_bytes_max),
                 static_cast<std::uint8_t>(offer.endpoints.size()));
  for (const Endpoint& endpoint : offer.endpoints)
    use_fields(endpoint, [&](const auto&... fields) { out.put_fields(fields...); });
  return std::move(out).blob();
}

Offer decode(BlobView blob, int peer) {
  base::ByteReader in{blob};
  Offer offer;
  std::uint8_t count = 0;
  in.get_fields(offer.host, offer.why_none.cause, offer.why_none.hint, count);
  bool sound = count <= endpoints_max && is_text(offer.host, name_bytes_max) &&
               is_text(offer.why_none.cause, sentence_bytes_max) &&
               is_text(offer.why_none.hint, sentence_bytes_max);
  for (int i = 0; i < count && sound && in.ok(); ++i) {
    use_fields(offer.endpoints.emplace_back(), [&](auto&... fields) { in.get_fields(fields...); });
    sound = is_sound(offer.endpoints.back());
  }
  if (in.finished() && sound) return offer;
  base::throw_error(
      {ErrorCode::corrupt, peer}, "init", "does every rank run the same version of qpmesh?",
      "the RDMA endpoints that the rank offers, {} bytes, cannot be read", blob.size());
}

}  // namespace qpmesh::transport::verbs::selection

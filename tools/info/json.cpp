// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/info/facts.hpp"
#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::info {
namespace {

using nlohmann::ordered_json;
using transport::Notification;
using transport::verbs::selection::DeviceFacts;
using transport::verbs::selection::DeviceProtocol;
using transport::verbs::selection::Endpoint;
using transport::verbs::selection::GidFacts;
using transport::verbs::selection::Judgement;
using transport::verbs::selection::PortFacts;

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json{} : ordered_json(text);
}
ordered_json number_or_null(std::int64_t number, std::int64_t unknown) {
  return number == unknown ? ordered_json{} : ordered_json(number);
}

std::string_view word(Notification notification) noexcept {
  return notification == Notification::poll ? "poll" : "immediate";
}
std::string_view word(DeviceProtocol protocol) noexcept {
  switch (protocol) {
    case DeviceProtocol::infiniband: return "InfiniBand";
    case DeviceProtocol::iwarp: return "iWARP";
    case DeviceProtocol::other: return "other";
  }
  return "other";
}

ordered_json describe(const GidFacts& gid, const Judgement& judgement) {
  auto terms = ordered_json::array();
  for (const auto& [name, points] : judgement.terms)
    terms.push_back({{"name", name}, {"points", points}});
  const bool offered = judgement.why_refused.cause.empty();
  return {{"index", gid.index},
          {"gid", to_string(gid.gid)},
          {"type", to_string(gid.type)},
          {"netdev", text_or_null(gid.netdev)},
          {"netdev_up", gid.netdev.empty() ? ordered_json{} : ordered_json(gid.netdev_up)},
          {"usable", offered},
          {"refused", text_or_null(judgement.why_refused.cause)},
          {"score", offered ? ordered_json(judgement.score) : ordered_json{}},
          {"score_terms", std::move(terms)}};
}

ordered_json describe(const DeviceFacts& device, const PortFacts& port) {
  const auto notification = default_notifications(device, port.link_layer);
  auto pkeys = ordered_json::array();
  for (std::size_t index = 0; index < port.pkeys.size(); ++index)
    if (port.pkeys[index] != 0) pkeys.push_back({{"index", index}, {"pkey", port.pkeys[index]}});
  return {{"number", port.number},
          {"state", port.state_name},
          {"link_layer", to_string(port.link_layer)},
          {"mtu_bytes", port.mtu_bytes},
          {"message_bytes_max", port.message_bytes_max},
          {"rate_mbps", number_or_null(port.rate_mbps, 0)},
          {"lid", port.lid},
          {"grh_required", port.grh_required},
          {"traffic_class", number_or_null(port.traffic_class, -1)},
          {"pkeys", std::move(pkeys)},
          {"notification",
           {{"small", word(notification.small)},
            {"medium", word(notification.medium)},
            {"reason", notification.reason}}},
          {"gids", ordered_json::array()}};
}

ordered_json describe(const DeviceFacts& device) {
  return {{"name", device.name},
          {"driver", text_or_null(device.driver)},
          {"protocol", word(device.protocol)},
          {"software", device.software},
          {"vendor_id", device.vendor_id},
          {"part_id", device.part_id},
          {"node_guid", fmt::format("{:016x}", device.node_guid)},
          {"firmware", text_or_null(device.firmware)},
          {"numa_node", number_or_null(device.numa_node, -1)},
          {"unreadable", text_or_null(device.unreadable)},
          {"ece", device.ece.options == 0 ? ordered_json{}
                                          : ordered_json{{"vendor_id", device.ece.vendor_id},
                                                         {"options", device.ece.options}}},
          {"limits",
           {{"queue_pairs_max", device.queue_pairs_max},
            {"work_requests_max", device.work_requests_max},
            {"completions_max", device.completions_max},
            {"gather_max", device.gather_max},
            {"region_bytes_max", device.region_bytes_max},
            {"initiator_reads_max", device.initiator_reads_max},
            {"responder_reads_max", device.responder_reads_max}}},
          {"ports", ordered_json::array()}};
}

ordered_json describe(const Endpoint& endpoint) {
  return {{"device", endpoint.device},
          {"port", endpoint.port},
          {"gid_index", endpoint.gid_index},
          {"gid", to_string(endpoint.gid)},
          {"gid_type", to_string(endpoint.gid_type)},
          {"netdev", text_or_null(endpoint.netdev)},
          {"mtu_bytes", endpoint.mtu_bytes},
          {"traffic_class", endpoint.traffic_class},
          {"service_level", endpoint.service_level},
          {"flow_label", endpoint.flow_label},
          {"pkey_index", endpoint.pkey_index},
          {"pkey", number_or_null(endpoint.pkey, 0)},
          {"score", endpoint.score}};
}

// GIDs are in the order of judgement: the best first.
ordered_json devices(const Facts& facts) {
  auto list = ordered_json::array();
  for (const auto& device : facts.devices) {
    auto entry = describe(device);
    for (const auto& port : device.ports) entry["ports"].push_back(describe(device, port));
    list.push_back(std::move(entry));
  }
  for (const auto& each : judge(facts.devices, facts.wishes)) {
    const auto& gid = facts.devices[each.device].ports[each.port].gids[each.gid];
    list[each.device]["ports"][each.port]["gids"].push_back(describe(gid, each));
  }
  return list;
}

ordered_json describe(const LockedMemory& memory) {
  return {{"limit_bytes", number_or_null(memory.limit_bytes, -1)},
          {"exempt", memory.exempt},
          {"peer_bytes", memory.peer_bytes},
          {"example_peers", LockedMemory::example_peers},
          {"needed_bytes", memory.needed_bytes()},
          {"enough", memory.enough()}};
}

}  // namespace

std::string to_json(const Facts& facts) {
  auto numa_nodes = ordered_json::array();
  for (const auto& node : facts.numa_nodes)
    numa_nodes.push_back({{"number", node.number}, {"cores", node.cores}});
  auto ways = ordered_json::array();
  for (const auto& each : transports(facts))
    ways.push_back({{"name", each.name}, {"usable", each.usable}, {"reason", each.reason}});
  const auto offer = make_offer(facts.devices, facts.wishes, facts.host);
  const ordered_json whole{
      {"host", facts.host},
      {"usable_cores",
       {{"count", topology::usable_core_count(std::span{&facts.cores, 1})},
        {"cores", facts.cores.cores},
        {"quota", number_or_null(facts.cores.quota, 0)}}},
      {"numa_nodes", std::move(numa_nodes)},
      {"locked_memory", describe(facts.locked_memory)},
      {"transports", std::move(ways)},
      {"devices", devices(facts)},
      {"choice", offer.endpoints.empty() ? ordered_json{} : describe(offer.endpoints.front())},
      {"cause", text_or_null(offer.why_none.cause)},
      {"hint", text_or_null(offer.why_none.hint)}};
  return whole.dump(2) + '\n';
}

}  // namespace qpmesh::info

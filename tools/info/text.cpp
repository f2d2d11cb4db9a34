// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/info/facts.hpp"
#include "tools/print.hpp"
#include "transport/verbs/selection/rules.hpp"

namespace qpmesh::info {
namespace {

using transport::Notification;
using transport::verbs::selection::DeviceFacts;
using transport::verbs::selection::GidFacts;
using transport::verbs::selection::GidType;
using transport::verbs::selection::Judgement;
using transport::verbs::selection::PortFacts;
using transport::verbs::selection::Wishes;

std::string bytes(std::int64_t count) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value,
                     value == static_cast<double>(static_cast<std::int64_t>(value)) ? 0 : 1,
                     units[unit]);
}

std::string_view participle(Notification notification) noexcept {
  return notification == Notification::poll ? "polled" : "by immediate";
}

// Columns as wide as their widest cell, two spaces between them, each line indented.
using Row = std::vector<std::string>;
std::string aligned(const std::vector<Row>& rows, std::string_view indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line{indent};
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:<{}}", row[i], i + 1 == row.size() ? 0 : widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string of_host(const Facts& facts) {
  auto text = fmt::format(
      "host {}: {} usable cores ({}){}", facts.host,
      topology::usable_core_count(std::span{&facts.cores, 1}), ranges(facts.cores.cores),
      facts.cores.quota == 0 ? "" : fmt::format(", a quota of {}", facts.cores.quota));
  for (const auto& node : facts.numa_nodes)
    text += fmt::format(", NUMA node {} has cores {}", node.number, ranges(node.cores));
  return text + '\n';
}

std::string of_locked_memory(const LockedMemory& memory) {
  const auto have = memory.limit_bytes < 0 ? std::string{"any amount"} : bytes(memory.limit_bytes);
  auto text = fmt::format("locked memory: have {}{}, need {} a peer: {} for {} of them\n", have,
                          memory.exempt ? " (this process is exempt: CAP_IPC_LOCK)" : "",
                          bytes(memory.peer_bytes), bytes(memory.needed_bytes()),
                          LockedMemory::example_peers);
  if (!memory.enough()) {
    text +=
        "  too little: ulimit -l unlimited; for good: \"* - memlock unlimited\" in "
        "/etc/security/limits.conf, LimitMEMLOCK=infinity in a service, --ulimit memlock=-1 for a "
        "container\n";
  }
  return text;
}

std::string of_transports(const Facts& facts) {
  std::vector<Row> rows;
  for (const auto& each : transports(facts))
    rows.push_back({each.name, each.usable ? "yes" : "no", each.reason});
  return "transports:\n" + aligned(rows, "  ");
}

std::string score_of(const Judgement& judgement) {
  std::string text;
  for (const auto& [name, points] : judgement.terms)
    text += fmt::format("{}{:+} {}", text.empty() ? "" : ", ", points, name);
  return fmt::format("{} = {}", judgement.score, text.empty() ? "0" : text);
}

std::string interface_of(const GidFacts& gid) {
  if (gid.netdev.empty()) return "-";
  return gid.netdev + (gid.netdev_up ? "" : " (down)");
}

std::string of_gids(const Facts& facts, std::span<const Judgement> judgements, std::size_t device,
                    std::size_t port) {
  std::vector<Row> rows{{" ", "GID", "type", "address", "interface", "score"}};
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    const auto& each = judgements[i];
    if (each.device != device || each.port != port) continue;
    const auto& gid = facts.devices[device].ports[port].gids[each.gid];
    const bool chosen = i == 0 && each.why_refused.cause.empty();
    rows.push_back(
        {chosen ? "*" : " ", std::to_string(gid.index), std::string{to_string(gid.type)},
         to_string(gid.gid), interface_of(gid),
         each.why_refused.cause.empty() ? score_of(each) : "no: " + each.why_refused.cause});
  }
  return rows.size() == 1 ? "      no GIDs\n" : aligned(rows, "    ");
}

// Describes the packets of the port's queue pairs, by the options of this process. gid: the port's
// best one.
std::string of_packets(const PortFacts& port, const GidFacts& gid, const Wishes& wishes) {
  const int traffic_class = traffic_class_of(port, gid.type, wishes.traffic_class);
  const bool is_default =
      wishes.traffic_class < 0 && (gid.type != GidType::roce_v2 || port.traffic_class < 0);
  auto text =
      fmt::format("    traffic class {} (DSCP {}; {}), service level {}, flow label {}",
                  traffic_class, traffic_class >> 2,
                  is_default                  ? "the default"
                  : wishes.traffic_class >= 0 ? "QPMESH_TRAFFIC_CLASS"
                                              : "the system's",
                  wishes.service_level,
                  wishes.flow_label == 0 ? "by the device" : std::to_string(wishes.flow_label));
  const auto index = pkey_index_of(port, wishes.pkey_index);
  for (std::size_t i = 0; i < port.pkeys.size(); ++i) {
    if (port.pkeys[i] == 0) continue;
    text += fmt::format("{}{} ({:#06x}{})", text.ends_with(')') ? ", " : ", partition keys ", i,
                        port.pkeys[i], index == i ? ", used" : "");
  }
  return text + '\n';
}

std::string of_port(const Facts& facts, std::span<const Judgement> judgements, std::size_t device,
                    std::size_t index) {
  const auto& port = facts.devices[device].ports[index];
  auto text = fmt::format("  port {}: {}, {}, MTU {}", port.number, port.state_name,
                          to_string(port.link_layer), port.mtu_bytes);
  // SoftRoCE makes a rate up.
  if (port.rate_mbps != 0 && !facts.devices[device].software)
    text += fmt::format(", {:g} Gb/s", static_cast<double>(port.rate_mbps) / 1000);
  if (port.link_layer == transport::verbs::selection::LinkLayer::infiniband)
    text += fmt::format(", LID {}{}", port.lid, port.grh_required ? ", GRH required" : "");
  text += fmt::format(", messages up to {}\n", bytes(port.message_bytes_max));
  const auto notification = default_notifications(facts.devices[device], port.link_layer);
  text += fmt::format("    small messages {}, larger ones {}: {}\n", participle(notification.small),
                      participle(notification.medium), notification.reason);
  const auto best = std::ranges::find_if(judgements, [&](const Judgement& each) {
    return each.device == device && each.port == index;
  });
  if (best != judgements.end() && port.gids[best->gid].type != GidType::iwarp)
    text += of_packets(port, port.gids[best->gid], facts.wishes);
  return text + of_gids(facts, judgements, device, index);
}

std::string of_device(const Facts& facts, std::span<const Judgement> judgements,
                      std::size_t index) {
  const auto& device = facts.devices[index];
  auto text =
      fmt::format("device {}: {}, {}, vendor {:#06x} part {}, firmware {}, node GUID {:016x}",
                  device.name, device.driver.empty() ? "unknown driver" : device.driver,
                  device.software ? "software" : "hardware", device.vendor_id, device.part_id,
                  device.firmware.empty() ? "-" : device.firmware, device.node_guid);
  if (device.numa_node >= 0) text += fmt::format(", NUMA node {}", device.numa_node);
  text += '\n';
  if (!device.unreadable.empty()) text += fmt::format("  cannot be read: {}\n", device.unreadable);
  if (device.ports.empty()) return text;
  text += fmt::format(
      "  at most {} queue pairs, {} requests a queue, {} completions a queue, {} entries a "
      "request, {} reads out and {} in\n",
      device.queue_pairs_max, device.work_requests_max, device.completions_max, device.gather_max,
      device.initiator_reads_max, device.responder_reads_max);
  text += device.ece.options == 0
              ? std::string{"  no enhanced connection establishment (ECE)\n"}
              : fmt::format("  enhanced connection establishment (ECE): {:#x} of vendor {:#x}\n",
                            device.ece.options, device.ece.vendor_id);
  for (std::size_t port = 0; port < device.ports.size(); ++port)
    text += of_port(facts, judgements, index, port);
  return text;
}

}  // namespace

std::string to_text(const Facts& facts) {
  auto text = of_host(facts) + of_locked_memory(facts.locked_memory) + of_transports(facts);
  const auto judgements = judge(facts.devices, facts.wishes);
  for (std::size_t device = 0; device < facts.devices.size(); ++device)
    text += of_device(facts, judgements, device);
  if (!facts.has_verbs) return text;
  const auto offer = make_offer(facts.devices, facts.wishes, facts.host);
  if (offer.endpoints.empty())
    return text + fmt::format("RDMA cannot be used: {}\n  {}\n", offer.why_none.cause,
                              offer.why_none.hint);
  return text + fmt::format("* would be chosen, where the peers can reach it: {}\n",
                            to_string(offer.endpoints[0]));
}

}  // namespace qpmesh::info

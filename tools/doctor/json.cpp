// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/system.hpp"
#include "tools/doctor/report.hpp"

namespace qpmesh::base {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Place, boot_id, uid, pid_namespace, net_namespace,
                                   user_namespace)
}

namespace qpmesh::doctor {
NLOHMANN_JSON_SERIALIZE_ENUM(Severity, {{Severity::problem, "problem"}, {Severity::note, "note"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Arrival, {{Arrival::untried, nullptr},
                                       {Arrival::arrived, "arrived"},
                                       {Arrival::lost, "lost"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, id, severity, what, cost, mend)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostAddress, host, prefix_bits, link_local)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Interface, name, up, carrier, loopback, container, mtu_bytes,
                                   addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, rank, host, place, kernel, container, cores,
                                   interfaces, rdma_devices, findings)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Call, address, netdev, error)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RefusedWay, way, why, hint, by_options)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Datagrams, netdev, sent_bytes_max, arrived_bytes_max, roce)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GidEnd, device, index, gid)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GidPair, low, high, why)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PacketFields, device, traffic_class, service_level, flow_label,
                                   pkey_index, pkey)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Reads, checked_bytes, wrong_bytes, bandwidth_mb_s, why, wished)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairReport, low, high, calls, line, way, refused, gids,
                                   gids_untried, checked_bytes, wrong_bytes, latency_us,
                                   bandwidth_mb_s, back_mb_s, both_mb_s, reads, tcp_latency_us,
                                   from_low, from_high, packets_from_low, packets_from_high,
                                   clock_offset_ms, failure)

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Texts come from other hosts and the kernel: bytes that are no UTF-8 are replaced.
std::string dump(const auto& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

template <class T>
T unpack(const std::string& text, int rank) {
  try {
    return json::parse(text).get<T>();
  } catch (const json::exception& error) {
    base::throw_error({ErrorCode::corrupt, rank}, "qpmesh-doctor",
                      "start the same qpmesh-doctor on every host",
                      "what rank {} found cannot be read: {}", rank, error.what());
  }
}

ordered_json describe(const PairReport& pair) {
  ordered_json one = json(pair);
  const bool served = !pair.way.empty();
  for (const char* const name : {"line", "way", "failure"})
    if (one[name] == "") one[name] = nullptr;
  for (const char* const name :
       {"latency_us", "bandwidth_mb_s", "back_mb_s", "both_mb_s", "checked_bytes", "wrong_bytes"})
    if (!served) one[name] = nullptr;
  if (pair.packets_from_low.device.empty())
    one["packets_from_low"] = one["packets_from_high"] = nullptr;
  if (pair.tcp_latency_us == 0) one["tcp_latency_us"] = nullptr;
  if (pair.reads.why.empty()) one["reads"]["why"] = nullptr;
  if (pair.reads.checked_bytes == 0)
    for (const char* const name : {"checked_bytes", "wrong_bytes", "bandwidth_mb_s"})
      one["reads"][name] = nullptr;
  for (auto& call : one["calls"]) {
    const int error = call["error"];
    call["reason"] = error == 0 ? ordered_json{} : ordered_json(base::describe_errno(error));
  }
  return one;
}

}  // namespace

std::string pack(const RankReport& report) { return dump(json(report)); }
std::string pack(const std::vector<PairReport>& pairs) { return dump(json(pairs)); }
RankReport unpack_rank(const std::string& text, int rank) { return unpack<RankReport>(text, rank); }
std::vector<PairReport> unpack_pairs(const std::string& text, int rank) {
  return unpack<std::vector<PairReport>>(text, rank);
}

std::string to_json(const Report& report) {
  ordered_json whole{{"problems", any_problem(report)},
                     {"ranks", ordered_json::array()},
                     {"pairs", ordered_json::array()},
                     {"findings", json(report.findings)}};
  for (const RankReport& rank : report.ranks) {
    ordered_json one = json(rank);
    if (rank.container.empty()) one["container"] = nullptr;
    whole["ranks"].push_back(std::move(one));
  }
  for (const PairReport& pair : report.pairs) whole["pairs"].push_back(describe(pair));
  return dump(whole, 2) + '\n';
}

}  // namespace qpmesh::doctor

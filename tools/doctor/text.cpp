// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/system.hpp"
#include "tools/doctor/report.hpp"
#include "tools/print.hpp"

namespace qpmesh::doctor {
namespace {

constexpr std::size_t table_ranks_max = 16;
constexpr std::size_t slowest_shown = 8;

struct Palette {
  std::string_view problem{};
  std::string_view note{};
  std::string_view good{};
  std::string_view bold{};
  std::string_view plain{};
};
Palette palette(bool colours) {
  return colours ? Palette{"\033[1;31m", "\033[33m", "\033[32m", "\033[1m", "\033[0m"} : Palette{};
}

std::string of_finding(const Finding& finding, const Palette& colour) {
  const bool problem = finding.severity == Severity::problem;
  return fmt::format("  {}{}{} {}: {}\n      costs  {}\n      mend   {}{}{}\n",
                     problem ? colour.problem : colour.note, problem ? "problem" : "note",
                     colour.plain, finding.id, finding.what, finding.cost, colour.bold,
                     finding.mend, colour.plain);
}

// Problems first.
std::string of_findings(const std::vector<Finding>& findings, const Palette& colour) {
  std::string text;
  for (const auto severity : {Severity::problem, Severity::note})
    for (const Finding& finding : findings)
      if (finding.severity == severity) text += of_finding(finding, colour);
  return text;
}

std::string of_interface(const Interface& each) {
  std::string addresses;
  for (const HostAddress& one : each.addresses)
    if (!one.link_local) addresses += fmt::format(" {}/{}", one.host, one.prefix_bits);
  return fmt::format("{}{}{} (MTU {}{})", each.name, addresses.empty() ? "" : addresses,
                     each.container ? ", of containers" : "", each.mtu_bytes,
                     !each.up        ? ", down"
                     : !each.carrier ? ", no carrier"
                                     : "");
}

std::string of_host(const RankReport& host, const std::vector<int>& ranks, bool several,
                    const Palette& colour) {
  auto text = fmt::format(
      "{}host {}{}{}: {} cores, Linux {}{}{}\n", colour.bold, host.host, colour.plain,
      several ? fmt::format(" (rank{} {})", ranks.size() == 1 ? "" : "s", ranges(ranks)) : "",
      host.cores, host.kernel, host.container.empty() ? "" : ", in ", host.container);
  std::string line;
  for (const Interface& each : host.interfaces) {
    if (each.loopback || (each.addresses.empty() && !each.up)) continue;
    line += (line.empty() ? "" : "; ") + of_interface(each);
  }
  text += fmt::format("  interfaces: {}\n", line.empty() ? "loopback alone" : line);
  line.clear();
  for (const std::string& device : host.rdma_devices) line += (line.empty() ? "" : ", ") + device;
  text += fmt::format("  RDMA devices: {}\n", line.empty() ? "none" : line);
  if (host.findings.empty())
    return text + fmt::format("  {}nothing is wrong{}\n", colour.good, colour.plain);
  return text + of_findings(host.findings, colour);
}

bool alike(const RankReport& a, const RankReport& b) {
  return a.host == b.host && a.place == b.place && a.findings == b.findings;
}

// Ranks of one host that say the same are told once.
std::vector<std::vector<int>> groups(const Report& report) {
  std::vector<std::vector<int>> all;  // of indexes
  for (int i = 0; i < static_cast<int>(report.ranks.size()); ++i) {
    const auto rank = [&](int index) -> const RankReport& {
      return report.ranks[static_cast<std::size_t>(index)];
    };
    const auto known = std::ranges::find_if(
        all, [&](const auto& group) { return alike(rank(group.front()), rank(i)); });
    if (known == all.end()) all.push_back({i});
    else known->push_back(i);
  }
  return all;
}

std::string of_hosts(const Report& report, const Palette& colour) {
  std::string text;
  for (const auto& group : groups(report)) {
    std::vector<int> ranks;
    ranks.reserve(group.size());
    for (const int index : group)
      ranks.push_back(report.ranks[static_cast<std::size_t>(index)].rank);
    text += of_host(report.ranks[static_cast<std::size_t>(group.front())], ranks,
                    report.ranks.size() > 1, colour);
  }
  return text;
}

std::string bandwidth(double mb_s) {
  return mb_s >= 1000 ? fmt::format("{:.2f} GB/s", mb_s / 1000) : fmt::format("{:.0f} MB/s", mb_s);
}

std::string remark(const PairReport& pair) {
  std::string text;
  for (const RefusedWay& each : pair.refused)
    text += fmt::format("{}no {}: {}", text.empty() ? "" : "; ", each.way, each.why);
  if (!pair.failure.empty()) text += (text.empty() ? "" : "; ") + pair.failure;
  if (pair.wrong_bytes > 0)
    text += fmt::format("{}{} of {} bytes came back wrong", text.empty() ? "" : "; ",
                        pair.wrong_bytes, pair.checked_bytes);
  if (pair.reads.wrong_bytes > 0)
    text += fmt::format("{}{} of {} bytes were read wrong", text.empty() ? "" : "; ",
                        pair.reads.wrong_bytes, pair.reads.checked_bytes);
  if (!pair.reads.why.empty())
    text += fmt::format("{}no reads: {}", text.empty() ? "" : "; ", pair.reads.why);
  return text;
}

std::string of_pair_table(const Report& report, const Palette& colour) {
  std::vector<std::array<std::string, 10>> rows{{"ranks", "way", "8 B one way", "1 MiB", "back",
                                                 "both ways", "read", "8 B by tcp", "met at",
                                                 "why not better"}};
  for (const PairReport& pair : report.pairs) {
    const bool served = !pair.way.empty();
    rows.push_back({fmt::format("{} - {}", pair.low, pair.high), served ? pair.way : "none",
                    served ? fmt::format("{:.2f} us", pair.latency_us) : "-",
                    served ? bandwidth(pair.bandwidth_mb_s) : "-",
                    served ? bandwidth(pair.back_mb_s) : "-",
                    served ? bandwidth(pair.both_mb_s) : "-",
                    pair.reads.checked_bytes > 0 ? bandwidth(pair.reads.bandwidth_mb_s) : "-",
                    pair.tcp_latency_us > 0 ? fmt::format("{:.2f} us", pair.tcp_latency_us) : "-",
                    pair.line.empty() ? "-" : pair.line, remark(pair)});
  }
  std::array<std::size_t, 10> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text = fmt::format("{}pairs{}\n", colour.bold, colour.plain);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    std::string line = "  ";
    for (std::size_t i = 0; i < rows[at].size(); ++i)
      line += fmt::format("{:<{}}", rows[at][i], i + 1 == rows[at].size() ? 0 : widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    const bool lost = at > 0 && report.pairs[at - 1].way.empty();
    text += fmt::format("{}{}{}\n", lost ? colour.problem : "", line, lost ? colour.plain : "");
  }
  return text;
}

std::string of_gids(const Report& report) {
  std::string text;
  const auto end = [](const GidEnd& each) {
    return fmt::format("{} GID {} ({})", each.device, each.index, each.gid);
  };
  for (const PairReport& pair : report.pairs) {
    for (const GidPair& each : pair.gids)
      text += fmt::format("  {} - {} by {} and {}: {}\n", pair.low, pair.high, end(each.low),
                          end(each.high), each.why.empty() ? "works" : each.why);
    if (pair.gids_untried > 0)
      text +=
          fmt::format("  {} - {} by {} other pairs of GIDs: not tried, for they take too long\n",
                      pair.low, pair.high, pair.gids_untried);
  }
  return text;
}

// Leaves out pairs whose two directions differ: a finding names these.
std::string of_packets(const Report& report) {
  std::set<std::string> told;
  for (const PairReport& pair : report.pairs) {
    const PacketFields& one = pair.packets_from_low;
    const PacketFields& other = pair.packets_from_high;
    if (pair.way != "verbs" || one.traffic_class != other.traffic_class ||
        one.service_level != other.service_level)
      continue;
    told.insert(
        fmt::format("  RDMA packets: traffic class {} (DSCP {}), service level {}, both ways\n",
                    one.traffic_class, one.traffic_class >> 2, one.service_level));
  }
  std::string text;
  for (const std::string& line : told) text += line;
  return text;
}

std::string of_pair_summary(const Report& report, const Palette& colour) {
  std::map<std::string, std::vector<const PairReport*>> by_way;
  for (const PairReport& pair : report.pairs) by_way[pair.way].push_back(&pair);
  std::string text = fmt::format("{}{} pairs{}\n", colour.bold, report.pairs.size(), colour.plain);
  for (auto& [way, pairs] : by_way) {
    if (way.empty()) {
      text +=
          fmt::format("  {}{} cannot be joined{}\n", colour.problem, pairs.size(), colour.plain);
      continue;
    }
    std::ranges::sort(pairs, {}, &PairReport::latency_us);
    const auto [slowest, fastest] = std::ranges::minmax(pairs, {}, &PairReport::bandwidth_mb_s);
    text += fmt::format(
        "  {} by {}: 8 B one way {:.2f} / {:.2f} / {:.2f} us (least, median, most), 1 MiB {} to "
        "{}\n",
        pairs.size(), way, pairs.front()->latency_us, pairs[pairs.size() / 2]->latency_us,
        pairs.back()->latency_us, bandwidth(slowest->bandwidth_mb_s),
        bandwidth(fastest->bandwidth_mb_s));
    text += "    slowest:";
    for (std::size_t i = 0; i < std::min(slowest_shown, pairs.size()); ++i) {
      const PairReport& pair = *pairs[pairs.size() - 1 - i];
      text += fmt::format("{} {}-{} {:.2f} us", i == 0 ? "" : ",", pair.low, pair.high,
                          pair.latency_us);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_text(const Report& report, bool colours) {
  const Palette colour = palette(colours);
  std::string text = of_hosts(report, colour);
  if (!report.pairs.empty()) {
    text += report.ranks.size() <= table_ranks_max ? of_pair_table(report, colour)
                                                   : of_pair_summary(report, colour);
    text += of_packets(report) + of_gids(report) + of_findings(report.findings, colour);
  }
  std::size_t problems = 0;
  std::size_t notes = 0;
  const auto count = [&](const std::vector<Finding>& findings) {
    for (const Finding& each : findings) ++(each.severity == Severity::problem ? problems : notes);
  };
  for (const auto& group : groups(report))
    count(report.ranks[static_cast<std::size_t>(group.front())].findings);
  count(report.findings);
  return text + fmt::format("{}{} problem{}, {} note{}{}\n",
                            problems > 0 ? colour.problem : colour.good, problems,
                            problems == 1 ? "" : "s", notes, notes == 1 ? "" : "s", colour.plain);
}

}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/system.hpp"
#include "startup/reach.hpp"
#include "tools/doctor/report.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::doctor {
namespace {

using base::describe_errno;
using List = std::vector<Seen>;

const RankReport& rank_of(const Report& report, int rank) {
  return report.ranks[static_cast<std::size_t>(rank)];
}

std::string named(const Report& report, int rank) {
  return fmt::format("rank {} (on {})", rank, rank_of(report, rank).host);
}

bool one_host(const Report& report, const PairReport& pair) {
  return rank_of(report, pair.low).place.boot_id == rank_of(report, pair.high).place.boot_id;
}

// Whom ranks share their network with: containers of one host may have one name.
std::string network_of(const Report& report, int rank) {
  const RankReport& one = rank_of(report, rank);
  return fmt::format("{} {} {}", one.host, one.place.boot_id, one.place.net_namespace);
}

std::string calls_of(const PairReport& pair) {
  std::string text;
  for (const Call& each : pair.calls)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.address,
                        each.error == 0 ? "connected" : describe_errno(each.error));
  return text;
}

const RefusedWay* refused(const PairReport& pair, std::string_view way) {
  const auto found = std::ranges::find_if(
      pair.refused, [&](const RefusedWay& each) { return each.way == way && !each.by_options; });
  return found == pair.refused.end() ? nullptr : &*found;
}

// A network that two hosts share, as QPMESH_SUBNET takes it, where the pair has met over one.
std::string shared_network(const Report& report, const PairReport& pair) {
  namespace selection = transport::verbs::selection;
  for (const Interface& each : rank_of(report, pair.low).interfaces) {
    for (const HostAddress& one : each.addresses) {
      const auto address = selection::parse_address(pair.line);
      if (one.host != pair.line || !address) continue;
      const int bits = one.prefix_bits + (selection::is_ipv4(*address) ? 96 : 0);
      return fmt::format("{}/{}", address_text(selection::prefix_of(*address, bits)),
                         one.prefix_bits);
    }
  }
  return "10.0.0.0/8";
}

std::string host_of(const Call& call) {
  std::string host = call.address.substr(0, call.address.rfind(':'));
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  return host;
}

// What a firewall or a route has against a call.
std::string mend_of_call(const Report& report, const PairReport& pair, const Call& call) {
  const std::string network =
      fmt::format("or let all ranks use a network that their hosts share: export QPMESH_SUBNET={}",
                  shared_network(report, pair));
  if (call.error == ENETUNREACH || call.error == EHOSTUNREACH) {
    return fmt::format(
        "on {}: ip route get {} shows the missing way, ip route add {} via GATEWAY "
        "makes one; {}",
        rank_of(report, pair.high).host, host_of(call), host_of(call), network);
  }
  return fmt::format(
      "on {}: export QPMESH_PORTS=4000-4999 and open them: iptables -I INPUT -p tcp "
      "--dport 4000:4999 -j ACCEPT, or nft insert rule inet filter input tcp dport "
      "4000-4999 accept; {}",
      rank_of(report, pair.low).host, network);
}

// One finding for all pairs of the same two hosts.
template <class Look>
List once_for_hosts(const Report& report, const Look& look) {
  List seen;
  std::set<std::string> told;
  for (const PairReport& pair : report.pairs) {
    const std::optional<Seen> found = look(pair);
    if (!found) continue;
    const std::string key = fmt::format("{}, {}, {}", network_of(report, pair.low),
                                        network_of(report, pair.high), found->mend);
    if (told.insert(key).second) seen.push_back(*found);
  }
  return seen;
}

List unreachable(const Report& report) {
  List seen;
  for (const PairReport& pair : report.pairs) {
    if (!pair.way.empty() || !pair.line.empty() || !pair.failure.empty()) continue;
    const bool addresses = !pair.calls.empty();
    seen.push_back(
        {fmt::format("{} cannot reach {}: {}", named(report, pair.high), named(report, pair.low),
                     addresses ? "tried " + calls_of(pair) : "it has no address for other hosts"),
         addresses ? mend_of_call(report, pair, pair.calls.front())
                   : fmt::format("on {}: ip link set INTERFACE up, ip address add ADDRESS/24 dev "
                                 "INTERFACE",
                                 rank_of(report, pair.low).host)});
  }
  return seen;
}

List not_joined(const Report& report) {
  List seen;
  for (const PairReport& pair : report.pairs) {
    if (!pair.way.empty() || (pair.line.empty() && pair.failure.empty())) continue;
    std::string why = pair.failure;
    std::string mend;
    for (const RefusedWay& each : pair.refused) {
      why += fmt::format("{}no {}: {}", why.empty() ? "" : "; ", each.way, each.why);
      if (!each.hint.empty()) mend = each.hint;
    }
    seen.push_back({fmt::format("{} and {} meet and cannot be joined: {}", named(report, pair.low),
                                named(report, pair.high), why),
                    mend.empty() ? "QPMESH_LOG=debug shows more" : mend});
  }
  return seen;
}

bool is_of_containers(const Report& report, const PairReport& pair, const Call& call) {
  const auto& all = rank_of(report, pair.low).interfaces;
  const auto found = std::ranges::find(all, call.netdev, &Interface::name);
  return found != all.end() && found->container;
}

// Beside others that answer. init goes through them in this order. A network of containers has the
// same addresses on many hosts: that others do not reach it is as it should be.
List unreachable_address(const Report& report) {
  struct Unanswered {
    const PairReport* pair = nullptr;  // the first one
    const Call* call = nullptr;
    int callers = 0;
    bool is_tried = false;  // by one of them, before the one that answers
  };
  std::map<std::string, Unanswered> all;  // by network and address
  for (const PairReport& pair : report.pairs) {
    if (pair.line.empty()) continue;
    bool answered = false;
    for (const Call& each : pair.calls) {
      answered = answered || host_of(each) == pair.line;
      if (each.error == 0 || (answered && is_of_containers(report, pair, each))) continue;
      auto& entry = all[fmt::format("{}, {}", network_of(report, pair.low), host_of(each))];
      if (entry.callers++ == 0) entry.pair = &pair, entry.call = &each;
      entry.is_tried = entry.is_tried || !answered;
    }
  }
  List seen;
  for (const auto& [key, entry] : all) {
    seen.push_back(
        {fmt::format("{} cannot reach {} of {} on {}{}: {}{}", named(report, entry.pair->high),
                     host_of(*entry.call), entry.call->netdev,
                     rank_of(report, entry.pair->low).host,
                     entry.callers == 1 ? "" : fmt::format(" (nor {} others)", entry.callers - 1),
                     describe_errno(entry.call->error),
                     entry.is_tried ? "" : fmt::format("; {} comes first", entry.pair->line)),
         mend_of_call(report, *entry.pair, *entry.call),
         entry.is_tried ? Severity::problem : Severity::note});
  }
  return seen;
}

List apart(const Report& report) {
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    const base::Place& a = rank_of(report, pair.low).place;
    const base::Place& b = rank_of(report, pair.high).place;
    if (a.boot_id != b.boot_id || a == b) return std::nullopt;
    std::string containers;
    if (a.pid_namespace != b.pid_namespace) containers += " --pid=host";
    if (a.net_namespace != b.net_namespace) containers += " --network=host";
    if (a.user_namespace != b.user_namespace) containers += " --userns=host";
    const std::string users =
        a.uid == b.uid ? ""
                       : fmt::format("start all ranks as one user (here {} and {})", a.uid, b.uid);
    return Seen{fmt::format("{} and {} share no memory{}", named(report, pair.low),
                            named(report, pair.high), startup::apart(a, b)),
                containers.empty() ? users
                                   : fmt::format("{}{}containers: docker run{}", users,
                                                 users.empty() ? "" : "; ", containers)};
  });
}

List rdma_pair(const Report& report) {
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    const RefusedWay* const why = refused(pair, "verbs");
    if (why == nullptr || rank_of(report, pair.low).rdma_devices.empty() ||
        rank_of(report, pair.high).rdma_devices.empty())
      return std::nullopt;
    return Seen{fmt::format("{} and {} have RDMA devices and no RDMA: {}", named(report, pair.low),
                            named(report, pair.high), why->why),
                fmt::format("{}{}a firewall in between: iptables -I INPUT -p udp --dport 4791 -j "
                            "ACCEPT, or nft insert rule inet filter input udp dport 4791 accept",
                            why->hint, why->hint.empty() ? "" : "; ")};
  });
}

List gid_pair(const Report& report) {
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    const auto works = std::ranges::find(pair.gids, "", &GidPair::why);
    if (refused(pair, "verbs") == nullptr || works == pair.gids.end()) return std::nullopt;
    return Seen{
        fmt::format("RDMA between {} and {} works by GID {} ({}) and GID {} ({}), which "
                    "are not those that a job would take",
                    named(report, pair.low), named(report, pair.high), works->low.index,
                    works->low.gid, works->high.index, works->high.gid),
        fmt::format("on {}: export QPMESH_DEVICE={} QPMESH_GID_INDEX={}; on {}: export "
                    "QPMESH_DEVICE={} QPMESH_GID_INDEX={}",
                    rank_of(report, pair.low).host, works->low.device, works->low.index,
                    rank_of(report, pair.high).host, works->high.device, works->high.index)};
  });
}

List one_sided_rdma(const Report& report) {
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    const RankReport& low = rank_of(report, pair.low);
    const RankReport& high = rank_of(report, pair.high);
    if (refused(pair, "verbs") == nullptr || low.rdma_devices.empty() == high.rdma_devices.empty())
      return std::nullopt;
    const RankReport& has = low.rdma_devices.empty() ? high : low;
    const RankReport& lacks = low.rdma_devices.empty() ? low : high;
    return Seen{fmt::format("host {} has the RDMA device {}, host {} has none", has.host,
                            has.rdma_devices.front(), lacks.host),
                fmt::format("on {}: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev "
                            "INTERFACE; qpmesh-doctor there says what is missing",
                            lacks.host),
                Severity::note};
  });
}

// Calls look with the datagrams of both directions, and who sent and received them.
template <class Look>
List of_datagrams(const Report& report, const Look& look) {
  List seen;
  std::set<std::string> told;
  for (const PairReport& pair : report.pairs) {
    for (const bool from_high : {false, true}) {
      const int from = from_high ? pair.high : pair.low;
      const int to = from_high ? pair.low : pair.high;
      const std::optional<Seen> found = look(from_high ? pair.from_high : pair.from_low, from, to);
      if (!found) continue;
      const std::string key =
          fmt::format("{}, {}", network_of(report, from), network_of(report, to));
      if (told.insert(key).second) seen.push_back(*found);
    }
  }
  return seen;
}

List path_mtu(const Report& report) {
  return of_datagrams(report, [&](const Datagrams& sent, int from, int to) -> std::optional<Seen> {
    if (sent.arrived_bytes_max == 0 || sent.arrived_bytes_max >= sent.sent_bytes_max)
      return std::nullopt;
    const std::string& host = rank_of(report, from).host;
    const bool known = !sent.netdev.empty();
    return Seen{
        fmt::format("from {} to {}: packets of {} bytes arrive, those of {}, which its "
                    "interface{} takes, do not",
                    named(report, from), named(report, to), sent.arrived_bytes_max,
                    sent.sent_bytes_max, known ? " " + sent.netdev : ""),
        fmt::format("raise the MTU of what lies between them to {}, or on {}: ip link set {} "
                    "mtu {}{}",
                    sent.sent_bytes_max, host, known ? sent.netdev : "INTERFACE",
                    sent.arrived_bytes_max,
                    known ? "" : "; ip route get ADDRESS shows the interface")};
  });
}

List roce_port(const Report& report) {
  return of_datagrams(report, [&](const Datagrams& sent, int from, int to) -> std::optional<Seen> {
    if (sent.roce != Arrival::lost || sent.arrived_bytes_max == 0) return std::nullopt;
    return Seen{fmt::format("from {} to {}: datagrams to UDP port 4791, which RoCE uses, do not "
                            "arrive; others do",
                            named(report, from), named(report, to)),
                fmt::format("on {}: iptables -I INPUT -p udp --dport 4791 -j ACCEPT, or nft insert "
                            "rule inet filter input udp dport 4791 accept",
                            rank_of(report, to).host)};
  });
}

List no_datagrams(const Report& report) {
  return of_datagrams(report, [&](const Datagrams& sent, int from, int to) -> std::optional<Seen> {
    if (sent.sent_bytes_max == 0 || sent.arrived_bytes_max > 0) return std::nullopt;
    return Seen{fmt::format("from {} to {}: no datagram arrives at all", named(report, from),
                            named(report, to)),
                fmt::format("on {}: iptables -I INPUT -p udp -s ADDRESS -j ACCEPT, where RDMA "
                            "is to run",
                            rank_of(report, to).host),
                Severity::note};
  });
}

List wrong_bytes(const Report& report) {
  List seen;
  for (const PairReport& pair : report.pairs) {
    if (pair.wrong_bytes == 0) continue;
    seen.push_back({fmt::format("{} of {} bytes that {} wrote to {} by {} came back wrong",
                                pair.wrong_bytes, pair.checked_bytes, named(report, pair.high),
                                named(report, pair.low), pair.way),
                    "do not use this pair; try QPMESH_TRANSPORT=tcp, another cable and memory, and "
                    "report it"});
  }
  return seen;
}

// By default a job only writes.
List rdma_reads(const Report& report) {
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    const Reads& reads = pair.reads;
    if (reads.why.empty() && reads.wrong_bytes == 0) return std::nullopt;
    return Seen{
        fmt::format("RDMA writes between {} and {} arrive, RDMA reads {}", named(report, pair.low),
                    named(report, pair.high),
                    reads.why.empty() ? fmt::format("bring {} of {} bytes wrong", reads.wrong_bytes,
                                                    reads.checked_bytes)
                                      : fmt::format("fail: {}", reads.why)),
        "export QPMESH_RENDEZVOUS=write; what lies between them drops or spoils reads (RoCE: BTH "
        "opcodes 12 to 16): look at its filters and counters, and at ibv_devinfo -v "
        "(max_qp_rd_atom)",
        reads.wished ? Severity::problem : Severity::note};
  });
}

// Each end's queue pair decides about all that it sends, acknowledgements of the other's data among
// it: so data of one direction and their acknowledgements differ, too.
List traffic_class(const Report& report) {
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    const PacketFields& low = pair.packets_from_low;
    const PacketFields& high = pair.packets_from_high;
    if (low.device.empty() ||
        (low.traffic_class == high.traffic_class && low.service_level == high.service_level))
      return std::nullopt;
    const auto leave = [&](int rank, const PacketFields& packets) {
      return fmt::format("{} by {} with traffic class {} (DSCP {}) and service level {}",
                         named(report, rank), packets.device, packets.traffic_class,
                         packets.traffic_class >> 2, packets.service_level);
    };
    return Seen{
        fmt::format("RDMA data, acknowledgements and answers to reads leave {}, but {}",
                    leave(pair.low, low), leave(pair.high, high)),
        fmt::format("for all ranks: export QPMESH_TRAFFIC_CLASS={} QPMESH_SERVICE_LEVEL={}; or let "
                    "both hosts set one class for their ports: echo {} > "
                    "/sys/class/infiniband/DEVICE/tc/PORT/traffic_class",
                    low.traffic_class, low.service_level, low.traffic_class)};
  });
}

List slow_pair(const Report& report) {
  constexpr double times = 5;
  std::map<std::string, std::vector<double>> by_way;
  for (const PairReport& pair : report.pairs)
    if (!pair.way.empty()) by_way[pair.way].push_back(pair.latency_us);
  List seen;
  for (const PairReport& pair : report.pairs) {
    if (pair.way.empty()) continue;
    auto& all = by_way[pair.way];
    std::ranges::sort(all);
    const double median = all[all.size() / 2];
    if (all.size() < 3 || pair.latency_us < times * median) continue;
    seen.push_back({fmt::format("{} and {} take {:.1f} us by {}, half of all pairs {:.1f} or less",
                                named(report, pair.low), named(report, pair.high), pair.latency_us,
                                pair.way, median),
                    "start qpmesh-doctor again: where the same pair stays slow, look at the load "
                    "(top) and the path (ip route get ADDRESS, ethtool -S INTERFACE) of its hosts",
                    Severity::note});
  }
  return seen;
}

List slow_direction(const Report& report) {
  constexpr double times = 5;
  List seen;
  for (const PairReport& pair : report.pairs) {
    const auto [slow, quick] = std::minmax(pair.bandwidth_mb_s, pair.back_mb_s);
    if (pair.way.empty() || quick < times * slow) continue;
    const bool back = pair.back_mb_s < pair.bandwidth_mb_s;
    seen.push_back({fmt::format("{:.0f} MB/s go from {} to {} by {}, and {:.0f} the other way",
                                slow, named(report, back ? pair.low : pair.high),
                                named(report, back ? pair.high : pair.low), pair.way, quick),
                    "start qpmesh-doctor again: where it stays so, look at errors, duplex and "
                    "limits of the interfaces between them (ethtool -S INTERFACE, ethtool "
                    "INTERFACE, tc qdisc show dev INTERFACE)",
                    Severity::note});
  }
  return seen;
}

List clock_offset(const Report& report) {
  constexpr double large_ms = 100;
  return once_for_hosts(report, [&](const PairReport& pair) -> std::optional<Seen> {
    if (one_host(report, pair) || std::abs(pair.clock_offset_ms) < large_ms) return std::nullopt;
    return Seen{
        fmt::format("the clocks of {} and {} differ by {:.1f} s", rank_of(report, pair.low).host,
                    rank_of(report, pair.high).host, std::abs(pair.clock_offset_ms) / 1000),
        "systemctl enable --now systemd-timesyncd on both, or apt-get install chrony",
        Severity::note};
  });
}

using Row = Check<Report>;
constexpr std::array table{
    Row{"unreachable", "init fails: every rank must reach every other by TCP", unreachable},
    Row{"not_joined", "init fails: nothing joins the two", not_joined},
    Row{"unreachable_address", "init waits for it before it tries the next one",
        unreachable_address},
    Row{"apart", "a socket carries their messages: some ten times the time of shared memory",
        apart},
    Row{"rdma_pair", "tcp carries their messages, or init fails where RDMA was asked for",
        rdma_pair},
    Row{"gid_pair", "tcp carries their messages, or init fails where RDMA was asked for", gid_pair},
    Row{"one_sided_rdma", "tcp carries their messages", one_sided_rdma},
    Row{"path_mtu", "RDMA fails at its first long packet, TCP may hang", path_mtu},
    Row{"roce_port", "RDMA over Ethernet fails: nothing comes back", roce_port},
    Row{"no_datagrams", "RDMA over Ethernet fails: it is made of datagrams", no_datagrams},
    Row{"wrong_bytes", "results are wrong", wrong_bytes},
    Row{"rdma_reads", "a job with QPMESH_RENDEZVOUS=read fails, or its results are wrong",
        rdma_reads},
    Row{"traffic_class",
        "switches queue the two directions apart: where one queue is lossy, data or their "
        "acknowledgements are dropped and sent again, and init fails where the options differ",
        traffic_class},
    Row{"slow_pair", "every collective waits for its slowest pair", slow_pair},
    Row{"slow_direction", "what is exchanged waits for the slower one", slow_direction},
    Row{"clock_offset", "times in the logs of several hosts cannot be compared", clock_offset},
};

}  // namespace

std::span<const Check<Report>> pair_checks() noexcept { return table; }

}  // namespace qpmesh::doctor

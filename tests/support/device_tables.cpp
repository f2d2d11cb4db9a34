// SPDX-License-Identifier: MIT
#include "support/device_tables.hpp"

#include <arpa/inet.h>

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

namespace qpmesh::test {
namespace {

using transport::verbs::selection::DeviceFacts;
using transport::verbs::selection::DeviceProtocol;
using transport::verbs::selection::GidFacts;
using transport::verbs::selection::GidType;
using transport::verbs::selection::InterfaceAddress;
using transport::verbs::selection::LinkLayer;
using transport::verbs::selection::PortFacts;

[[noreturn]] void refuse(const std::string& line) {
  throw std::invalid_argument{"device table: " + line};
}

template <class T>
T look_up(const std::map<std::string, T>& table, const std::string& word) {
  const auto found = table.find(word);
  if (found == table.end()) refuse(word);
  return found->second;
}

// The words of a line behind its fixed ones: "mtu=4096" and "grh" alike.
std::map<std::string, std::string> settings(std::istream& words) {
  std::map<std::string, std::string> found;
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    found[word.substr(0, equals)] = equals == std::string::npos ? "1" : word.substr(equals + 1);
  }
  return found;
}
int number(const std::map<std::string, std::string>& set, const std::string& key, int otherwise) {
  const auto found = set.find(key);
  return found == set.end() ? otherwise : std::stoi(found->second, nullptr, 0);
}

DeviceFacts device(std::istream& words, std::size_t index) {
  DeviceFacts facts;
  words >> facts.name;
  auto set = settings(words);
  facts.driver = set["driver"];
  facts.software = set.contains("software");
  facts.protocol = set.contains("iwarp") ? DeviceProtocol::iwarp : DeviceProtocol::infiniband;
  facts.vendor_id = static_cast<std::uint32_t>(number(set, "vendor", 0));
  facts.part_id = static_cast<std::uint32_t>(number(set, "part", 0));
  facts.node_guid = static_cast<std::uint64_t>(number(set, "guid", static_cast<int>(index) + 1));
  facts.numa_node = number(set, "numa", -1);
  facts.unreadable = set["unreadable"];
  facts.firmware = "1.2.3";
  facts.queue_pairs_max = 65536;
  facts.work_requests_max = 16384;
  facts.completions_max = 32767;
  facts.gather_max = 32;
  facts.region_bytes_max = ~std::uint64_t{0};
  facts.responder_reads_max = number(set, "reads", 16);
  facts.initiator_reads_max = number(set, "reads", 16);
  if (const std::string& ece = set["ece"]; !ece.empty()) {
    const auto colon = ece.find(':');
    facts.ece = {static_cast<std::uint32_t>(std::stoul(ece.substr(0, colon), nullptr, 0)),
                 static_cast<std::uint32_t>(std::stoul(ece.substr(colon + 1), nullptr, 0))};
  }
  return facts;
}

PortFacts port(std::istream& words) {
  // libibverbs' own words.
  const std::map<std::string, int> states{{"down", 1}, {"init", 2}, {"armed", 3}, {"active", 4}};
  const std::map<std::string, LinkLayer> layers{{"ethernet", LinkLayer::ethernet},
                                                {"infiniband", LinkLayer::infiniband}};
  PortFacts facts;
  std::string layer;
  words >> facts.number >> facts.state_name >> layer;
  auto set = settings(words);
  facts.state = look_up(states, facts.state_name);
  facts.link_layer = look_up(layers, layer);
  facts.lid = static_cast<std::uint16_t>(number(set, "lid", 0));
  facts.mtu_bytes = number(set, "mtu", 1024);
  facts.message_bytes_max = std::uint32_t{1} << 30;
  facts.rate_mbps = number(set, "rate", 0);
  facts.grh_required = set.contains("grh");
  facts.traffic_class = number(set, "tclass", -1);
  std::istringstream pkeys{set.contains("pkeys") ? set["pkeys"] : "0xffff"};
  for (std::string pkey; std::getline(pkeys, pkey, ',');)
    facts.pkeys.push_back(static_cast<std::uint16_t>(std::stoi(pkey, nullptr, 0)));
  return facts;
}

GidFacts entry(std::istream& words) {
  const std::map<std::string, GidType> types{{"ib", GidType::infiniband},
                                             {"v1", GidType::roce_v1},
                                             {"v2", GidType::roce_v2},
                                             {"iwarp", GidType::iwarp}};
  GidFacts facts;
  std::string address;
  std::string type;
  words >> facts.index >> address >> type >> facts.netdev;
  facts.gid = gid(address);
  facts.type = look_up(types, type);
  return facts;
}

void describe_interface(std::istream& words, std::vector<DeviceFacts>& all) {
  std::string name;
  std::string state;
  words >> name >> state;
  std::vector<InterfaceAddress> addresses;
  for (std::string word; words >> word;) {
    const auto slash = word.find('/');
    addresses.push_back({gid(word.substr(0, slash)), std::stoi(word.substr(slash + 1))});
  }
  for (auto& each : all) {
    for (auto& its_port : each.ports) {
      for (auto& its_gid : its_port.gids) {
        if (its_gid.netdev != name) continue;
        its_gid.netdev_up = state == "up";
        its_gid.addresses = addresses;
      }
    }
  }
}

}  // namespace

transport::verbs::selection::Gid gid(std::string_view address) {
  transport::verbs::selection::Gid found;
  const std::string text{address};
  if (::inet_pton(AF_INET, text.c_str(), found.bytes.data() + 12) == 1) {
    found.bytes[10] = found.bytes[11] = 0xff;
    return found;
  }
  if (::inet_pton(AF_INET6, text.c_str(), found.bytes.data()) != 1) refuse(text);
  return found;
}

std::vector<DeviceFacts> devices(std::string_view table) {
  std::vector<DeviceFacts> all;
  std::istringstream lines{std::string{table}};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string kind;
    if (!(words >> kind)) continue;
    if (kind == "device") {
      all.push_back(device(words, all.size()));
    } else if (kind == "port") {
      all.back().ports.push_back(port(words));
    } else if (kind == "gid") {
      all.back().ports.back().gids.push_back(entry(words));
    } else if (kind == "netdev") {
      describe_interface(words, all);
    } else {
      refuse(line);
    }
  }
  return all;
}

}  // namespace qpmesh::test

// SPDX-License-Identifier: MIT
#include "tools/run/hosts.hpp"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "base/system.hpp"
#include "base/text.hpp"
#include "tools/run/rank_process.hpp"

namespace qpmesh::run {
namespace {

constexpr int slots_max = 65'536;

// where: "--hosts", or a file and its line.
[[noreturn]] void refuse(std::string_view where, std::string_view what) {
  throw RunError{
      fmt::format("{}: {}; a host is written as a, a:4, user@a:4 or [fd00::1]:4", where, what),
      usage_code};
}

// What ssh could take for an option, or a shell for more than a word, is no name.
bool is_name(std::string_view name) {
  constexpr std::string_view characters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@%-";
  return !name.empty() && name.front() != '-' && name.size() <= 255 &&
         name.find_first_not_of(characters) == name.npos;
}

int parse_slots(std::string_view where, std::string_view digits) {
  const auto slots = base::parse_integer(digits, false);
  if (!slots || *slots < 1 || *slots > slots_max)
    refuse(where, fmt::format("\"{}\" is no number of ranks from 1 to {}", digits, slots_max));
  return static_cast<int>(*slots);
}

HostSlots parse_host(std::string_view where, std::string_view text) {
  HostSlots host;
  std::string_view name = text;
  std::string_view rest;
  if (const auto open = text.find('['); open != text.npos) {
    const auto close = text.find(']');
    if (close == text.npos || close < open)
      refuse(where, fmt::format("the bracket of \"{}\" is not closed", text));
    host.name = fmt::format("{}{}", text.substr(0, open), text.substr(open + 1, close - open - 1));
    name = host.name;
    rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':')
      refuse(where, fmt::format("\"{}\" has something behind its bracket", text));
  } else {
    const auto colon = text.find(':');
    if (colon != text.npos && text.find(':', colon + 1) != text.npos)
      refuse(where, fmt::format("the IPv6 address of \"{}\" is not in brackets", text));
    name = text.substr(0, colon);
    rest = colon == text.npos ? std::string_view{} : text.substr(colon);
  }
  if (!is_name(name)) refuse(where, fmt::format("\"{}\" is no host name", name));
  host.name = name;
  if (!rest.empty()) host.slots = parse_slots(where, rest.substr(1));
  return host;
}

void add(std::vector<HostSlots>& hosts, HostSlots host, std::string_view where) {
  auto known = std::ranges::find(hosts, host.name, &HostSlots::name);
  if (known == hosts.end()) known = hosts.insert(known, {.name = host.name, .slots = 0});
  known->slots += host.slots;
  if (known->slots > slots_max)
    refuse(where, fmt::format("more than {} ranks on {}", slots_max, host.name));
}

}  // namespace

std::vector<HostSlots> parse_hosts(std::string_view list) {
  std::vector<HostSlots> hosts;
  for (;;) {
    const auto comma = list.find(',');
    add(hosts, parse_host("--hosts", list.substr(0, comma)), "--hosts");
    if (comma == list.npos) return hosts;
    list.remove_prefix(comma + 1);
  }
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file{path};
  if (!file) {
    throw RunError{
        fmt::format("the hostfile {} cannot be read: {}", path, base::describe_errno(errno)),
        usage_code};
  }
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string where = fmt::format("{}, line {}", path, ++number);
    std::istringstream words{line.substr(0, line.find('#'))};
    std::string name;
    if (!(words >> name)) continue;
    HostSlots host = parse_host(where, name);
    if (std::string word; words >> word) {
      constexpr std::string_view slots = "slots=";
      if (!word.starts_with(slots) || name.ends_with(fmt::format(":{}", host.slots)))
        refuse(where, fmt::format("\"{}\" behind the name is not understood", word));
      host.slots = parse_slots(where, std::string_view{word}.substr(slots.size()));
      if (words >> word) refuse(where, fmt::format("\"{}\" is too much", word));
    }
    add(hosts, std::move(host), where);
  }
  if (hosts.empty()) refuse(path, "it names no host");
  return hosts;
}

std::vector<HostSlots> take_slots(std::vector<HostSlots> hosts, int size) {
  std::int64_t all = 0;
  for (const HostSlots& host : hosts) all += host.slots;
  if (all > slots_max || size > all) {
    throw RunError{
        size > all ? fmt::format("-np {} asks for more ranks than the {} of the hosts", size, all)
                   : fmt::format("{} ranks are more than {}", all, slots_max),
        usage_code};
  }
  int left = size == 0 ? static_cast<int>(all) : size;
  for (HostSlots& host : hosts) {
    host.slots = std::min(host.slots, left);
    left -= host.slots;
  }
  std::erase_if(hosts, [](const HostSlots& host) { return host.slots == 0; });
  return hosts;
}

bool is_this_host(std::string_view name) {
  std::array<char, HOST_NAME_MAX + 1> text{};
  if (::gethostname(text.data(), text.size() - 1) != 0) text.front() = '\0';
  const std::string_view own{text.data()};
  return name == "localhost" ||
         (!own.empty() && (name == own || name == own.substr(0, own.find('.'))));
}

}  // namespace qpmesh::run

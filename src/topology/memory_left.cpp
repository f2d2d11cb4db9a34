// SPDX-License-Identifier: MIT
#include "topology/memory_left.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>

namespace qpmesh::topology {
namespace {

std::optional<std::uint64_t> leading_number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional{number} : std::nullopt;
}

// The number behind a word that begins a line.
std::optional<std::uint64_t> number_of(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(word)) return leading_number(line.substr(word.size()));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

std::uint64_t less(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }
std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return a + std::min(b, memory_unlimited - a);
}

std::uint64_t machine_left(const ReadFile& read) {
  const std::string text = read("/proc/meminfo");
  const auto bytes_of = [&text](std::string_view word) -> std::optional<std::uint64_t> {
    const auto kib = number_of(text, word);
    return kib ? std::optional{*kib * 1024} : std::nullopt;
  };
  const auto available = bytes_of("MemAvailable:");
  std::uint64_t left =
      available ? sum(*available, bytes_of("SwapFree:").value_or(0)) : memory_unlimited;
  constexpr std::uint64_t never_more_than_there_is = 2;
  if (leading_number(read("/proc/sys/vm/overcommit_memory")) == never_more_than_there_is) {
    if (const auto limit = bytes_of("CommitLimit:"))
      left = std::min(left, less(*limit, bytes_of("Committed_AS:").value_or(0)));
  }
  return left;
}

// The names that the two versions of control groups have for the same things.
struct GroupFiles {
  std::string_view tree;
  std::string_view limit;
  std::string_view usage;
  std::string_view caches[2];  // lines of memory.stat
};
constexpr GroupFiles version_1{"/sys/fs/cgroup/memory",
                               "/memory.limit_in_bytes",
                               "/memory.usage_in_bytes",
                               {"total_active_file ", "total_inactive_file "}};
constexpr GroupFiles version_2{
    "/sys/fs/cgroup", "/memory.max", "/memory.current", {"active_file ", "inactive_file "}};

// The group at path and those above it. In a container the path is "/" and the limit lies in the
// root of the tree.
void look_at_groups(const ReadFile& read, const GroupFiles& files, std::string path,
                    MemoryLeft& left) {
  for (;; path.resize(path.find_last_of('/'))) {
    if (path == "/") path.clear();
    const std::string folder = std::string{files.tree} + path;
    // "max" is no number, and no limit.
    if (const auto limit = leading_number(read(folder + std::string{files.limit}))) {
      const std::uint64_t usage =
          leading_number(read(folder + std::string{files.usage})).value_or(0);
      const std::string statistics = read(folder + "/memory.stat");
      std::uint64_t cached = 0;
      for (const std::string_view cache : files.caches)
        cached += number_of(statistics, cache).value_or(0);
      const std::uint64_t here = less(*limit, less(usage, cached));
      if (here < left.group_bytes) {
        left.group_bytes = here;
        left.group = std::hash<std::string>{}(folder);
      }
    }
    if (path.find('/') == std::string::npos) return;
  }
}

// Where reading fails nothing is thrown: the other ranks wait for what this one sees.
std::string read_file(const std::string& path) {
  const std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

MemoryLeft memory_left(const ReadFile& read) {
  MemoryLeft left{.machine_bytes = machine_left(read)};
  // Lines "4:memory:/path" and "0::/path".
  const std::string groups = read("/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (const std::size_t memory = line.find(":memory:"); memory != std::string_view::npos)
      look_at_groups(read, version_1, std::string{line.substr(memory + 8)}, left);
    if (line.starts_with("0::")) look_at_groups(read, version_2, std::string{line.substr(3)}, left);
  }
  return left;
}

MemoryLeft memory_left() {
  MemoryLeft left = memory_left(read_file);
  // Two containers call their groups alike.
  std::error_code unknown;
  const auto name_space = std::filesystem::read_symlink("/proc/self/ns/cgroup", unknown);
  left.group ^= std::hash<std::string>{}(name_space.string());
  return left;
}

std::optional<MemoryShortage> find_shortage(std::span<const MemoryClaim> claims) {
  using Of = MemoryShortage::Of;
  std::map<std::tuple<Of, int, std::uint64_t>, MemoryShortage> limits;  // by node and group
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const auto& [node, bytes, left] = claims[i];
    const auto count = [&, bytes = bytes, node = node](Of of, std::uint64_t group,
                                                       std::uint64_t left_bytes) {
      const MemoryShortage unclaimed{.of = of, .first = i, .left_bytes = memory_unlimited};
      MemoryShortage& limit = limits.try_emplace({of, node, group}, unclaimed).first->second;
      ++limit.claims;
      limit.need_bytes = sum(limit.need_bytes, bytes);
      limit.left_bytes = std::min(limit.left_bytes, left_bytes);
    };
    count(Of::machine, 0, left.machine_bytes);
    count(Of::control_group, left.group, left.group_bytes);
  }
  for (const auto& [place, limit] : limits) {
    if (limit.need_bytes > limit.left_bytes) return limit;
  }
  return std::nullopt;
}

}  // namespace qpmesh::topology

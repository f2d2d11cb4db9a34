// SPDX-License-Identifier: MIT
#include "tools/run/states.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <vector>

#include "base/rank_state.hpp"
#include "base/system.hpp"
#include "tools/run/rank_process.hpp"

namespace qpmesh::run {
namespace {

// "0-2, 5".
std::string ranges_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += end - i > 1 ? fmt::format("{}-{}", ranks[i], ranks[end - 1]) : std::to_string(ranks[i]);
    i = end;
  }
  return text;
}

}  // namespace

States::States(int rank_count) : file_{::memfd_create("qpmesh-states", MFD_CLOEXEC)} {
  const std::size_t bytes = static_cast<std::size_t>(rank_count) * sizeof(std::uint64_t);
  if (!file_ || ::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0)
    throw RunError{fmt::format("--states: {}", base::describe_errno(errno)), 1};
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED)
    throw RunError{fmt::format("--states: {}", base::describe_errno(errno)), 1};
  words_ = base::Mapping{memory, bytes};
}

std::string States::variable(int index) const {
  return fmt::format("QPMESH_STATES=/proc/{}/fd/{}:{}", ::getpid(), file_.get(), index);
}

std::uint64_t States::word(int index) const noexcept {
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(words_.data())[index].load(
      std::memory_order_relaxed);
}

std::string describe(std::span<const SeenRank> ranks, std::uint64_t now_ms) {
  struct Group {
    std::vector<int> ranks{};
    std::uint64_t longest_ms = 0;
  };
  std::map<std::string, Group> groups;
  for (const SeenRank& seen : ranks) {
    const base::RankState state = base::decode(seen.word);
    std::string what = "outside of calls";
    if (seen.ended) what = "ended";
    else if (state.since_ms == 0) what = "starting";
    else if (!state.call.empty())
      what = fmt::format("in {}{}", state.call,
                         state.peer >= 0 ? fmt::format(" with {}", state.peer) : "");
    Group& group = groups[what];
    group.ranks.push_back(seen.rank);
    if (!seen.ended && state.since_ms > 0 && state.since_ms < now_ms)
      group.longest_ms = std::max(group.longest_ms, now_ms - state.since_ms);
  }
  // The largest group first.
  std::vector<std::pair<std::string, Group>> order{groups.begin(), groups.end()};
  std::ranges::stable_sort(order, std::greater{},
                           [](const auto& each) { return each.second.ranks.size(); });
  std::string text;
  for (const auto& [what, group] : order) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} ({}", group.ranks.size(), what, ranges_of(group.ranks));
    if (group.longest_ms > 0)
      text += fmt::format(": {:.1f} s", static_cast<double>(group.longest_ms) / 1e3);
    text += ")";
  }
  return text;
}

}  // namespace qpmesh::run

// SPDX-License-Identifier: MIT
#include "base/rank_state.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/text.hpp"

namespace qpmesh::base {
namespace {

constexpr std::array<std::string_view, 48> call_names{"another call",
                                                      "barrier",
                                                      "broadcast",
                                                      "reduce",
                                                      "allgather",
                                                      "reduce_scatter",
                                                      "allreduce",
                                                      "gather",
                                                      "scatter",
                                                      "alltoall",
                                                      "scan",
                                                      "exscan",
                                                      "barrier_async",
                                                      "broadcast_async",
                                                      "reduce_async",
                                                      "allgather_async",
                                                      "reduce_scatter_async",
                                                      "allreduce_async",
                                                      "gather_async",
                                                      "scatter_async",
                                                      "alltoall_async",
                                                      "scan_async",
                                                      "exscan_async",
                                                      "send",
                                                      "send_async",
                                                      "receive",
                                                      "receive_async",
                                                      "sendrecv",
                                                      "sendrecv_async",
                                                      "probe",
                                                      "try_probe",
                                                      "match",
                                                      "try_match",
                                                      "wait_all",
                                                      "wait_any",
                                                      "wait_some",
                                                      "test_all",
                                                      "test_any",
                                                      "progress",
                                                      "split",
                                                      "split_node",
                                                      "duplicate",
                                                      "independent",
                                                      "subgroup",
                                                      "allocate",
                                                      "allocate_here",
                                                      "arm_wait",
                                                      "finish"};

// From the top: the call's number and one, or 0 between calls; the peer and one; the time.
constexpr int call_shift = 56;
constexpr int peer_shift = 40;
constexpr std::uint64_t peer_mask = 0xffff;
constexpr std::uint64_t time_mask = (std::uint64_t{1} << peer_shift) - 1;

}  // namespace

std::uint64_t encode(const RankState& state) noexcept {
  std::uint64_t call = 0;
  if (!state.call.empty()) {
    const auto name = std::ranges::find(call_names, state.call);
    call = 1 + static_cast<std::uint64_t>(name == call_names.end() ? 0 : name - call_names.begin());
  }
  const std::uint64_t peer = state.peer >= 0 && state.peer < static_cast<int>(peer_mask)
                                 ? static_cast<std::uint64_t>(state.peer) + 1
                                 : 0;
  return call << call_shift | peer << peer_shift | (state.since_ms & time_mask);
}

RankState decode(std::uint64_t word) noexcept {
  const std::uint64_t call = word >> call_shift;
  RankState state{.peer = static_cast<int>(word >> peer_shift & peer_mask) - 1,
                  .since_ms = word & time_mask};
  if (call > 0) state.call = call <= call_names.size() ? call_names[call - 1] : call_names[0];
  return state;
}

OwnRankState::OwnRankState(std::string_view text) noexcept {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return;
  const auto index = parse_integer(text.substr(colon + 1), false);
  if (!index || *index < 0 || *index > std::numeric_limits<int>::max()) return;
  const UniqueFd file{::open(std::string{text.substr(0, colon)}.c_str(), O_RDWR | O_CLOEXEC)};
  if (!file) return;
  const std::size_t bytes = (static_cast<std::size_t>(*index) + 1) * sizeof(std::uint64_t);
  const off_t length = ::lseek(file.get(), 0, SEEK_END);
  if (length < static_cast<off_t>(bytes)) return;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  page_ = Mapping{memory, bytes};
  word_ = static_cast<std::atomic<std::uint64_t>*>(memory) + *index;
}

}  // namespace qpmesh::base

#include "transport/verbs/selection/timers.hpp"

#include <algorithm>

namespace qpmesh::transport::verbs::selection {
namespace {

constexpr std::uint8_t timeout_max = 31;  // 5 bits

}  // namespace

Timers timers_for(const Endpoint& local, std::int64_t link_timeout_ms) noexcept {
  Timers timers;
  if (local.software) timers.retry_count = 6;
  if (link_timeout_ms == 0) return timers;
  timers.timeout = 1;  // 0 means for ever
  while (timers.timeout < timeout_max && give_up_ms(timers) < link_timeout_ms) ++timers.timeout;
  return timers;
}

std::int64_t give_up_ms(const Timers& timers) noexcept {
  const std::int64_t once_ns = std::int64_t{4096} << timers.timeout;
  return once_ns * (timers.retry_count + 1) / 1'000'000;
}

int path_mtu_bytes(const Endpoint& local, const Endpoint& peer) noexcept {
  return std::min(local.mtu_bytes, peer.mtu_bytes);
}

}  // namespace qpmesh::transport::verbs::selection

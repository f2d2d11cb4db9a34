#include "transport/verbs/selection/timers.hpp"

#include <algorithm>

namespace qpmesh::transport::verbs::selection {
namespace {

constexpr std::uint8_t timeout_max = 31;  // 5 bits
constexpr std::int64_t software_silence_ms_max =
    8'000;  // a pause of 5 s, and time to come back from it

std::int64_t device_gives_up_ms(const Timers& timers) noexcept {
  const std::int64_t once_ns = std::int64_t{4096} << timers.timeout;
  return once_ns * (timers.retry_count + 1) / 1'000'000;
}

}  // namespace

Timers timers_for(const Endpoint& local, std::int64_t link_timeout_ms) noexcept {
  Timers timers;
  if (local.software) {
    timers.silence_ms_max = link_timeout_ms == 0 ? software_silence_ms_max : link_timeout_ms;
    while (timers.timeout > 1 && device_gives_up_ms(timers) > timers.silence_ms_max)
      --timers.timeout;
  } else if (link_timeout_ms != 0) {
    timers.timeout = 1;  // 0 means for ever
    while (timers.timeout < timeout_max && device_gives_up_ms(timers) < link_timeout_ms)
      ++timers.timeout;
  }
  return timers;
}

std::int64_t give_up_ms(const Timers& timers) noexcept {
  return timers.silence_ms_max != 0 ? timers.silence_ms_max : device_gives_up_ms(timers);
}

std::int64_t heartbeat_ms(const Timers& timers) noexcept {
  return std::max<std::int64_t>(give_up_ms(timers) / 8, 1);
}

int path_mtu_bytes(const Endpoint& local, const Endpoint& peer) noexcept {
  return std::min(local.mtu_bytes, peer.mtu_bytes);
}

}  // namespace qpmesh::transport::verbs::selection

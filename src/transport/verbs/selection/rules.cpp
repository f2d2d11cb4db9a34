// SPDX-License-Identifier: MIT
#include "transport/verbs/selection/rules.hpp"

#include <algorithm>
#include <array>

#include "base/errors.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

// Adapters that place the writes of one connection in order, by custom: the applications that rely
// on it are many. Out are those that spread a connection over several paths (ConnectX-8 and later).
struct StrictDevices {
  std::string_view family;
  std::uint32_t vendor_id;
  std::uint32_t part_id_lowest;
  std::uint32_t part_id_highest;
};
constexpr std::uint32_t any_part = ~std::uint32_t{0};
constexpr std::array strict_devices{
    StrictDevices{"ConnectX-3 to ConnectX-7", 0x02c9, 4099, 4130},
    StrictDevices{"BlueField to BlueField-3", 0x02c9, 41682, 41692},
    StrictDevices{"irdma", 0x8086, 0, any_part},
    StrictDevices{"bnxt", 0x14e4, 0, any_part},
    StrictDevices{"qedr", 0x1077, 0, any_part},
    StrictDevices{"hns", 0x19e5, 0, any_part},
};

constexpr std::uint8_t timeout_max = 31;  // 5 bits
// A pause of 5 s, and time to come back from it.
constexpr std::int64_t software_silence_ms_max = 8'000;

std::int64_t device_gives_up_ms(const Timers& timers) noexcept {
  const std::int64_t once_ns = std::int64_t{4096} << timers.timeout;
  return once_ns * (timers.retry_count + 1) / 1'000'000;
}

void require(const DeviceFacts& device, std::string_view queue, std::uint64_t needed,
             int available) {
  if (available <= 0 || needed <= static_cast<std::uint64_t>(available)) return;  // 0: unknown
  base::throw_error({ErrorCode::no_resource}, "init",
                    "lower QPMESH_NETWORK_RING_BYTES: smaller rings hold fewer messages at once",
                    "a {} of {} entries is needed, device {} has at most {}", queue, needed,
                    device.name, available);
}

}  // namespace

Notifications default_notifications(const DeviceFacts& device, LinkLayer link_layer, bool x86) {
  constexpr auto poll = Notification::poll;
  constexpr auto immediate = Notification::immediate;
  if (!x86) return {immediate, immediate, "this processor may see writes out of order"};
  if (device.software) {
    // The driver copies packet by packet in order. A second work request costs as much as a
    // message: medium payloads go with their record in one write.
    if (device.driver == "rdma_rxe") return {poll, immediate, "SoftRoCE copies writes in order"};
    if (device.driver == "siw") return {poll, poll, "siw copies writes in order"};
    return {immediate, immediate, "an unknown software device"};
  }
  // The table below is of RoCE. Of iWARP no order is promised between two writes, and a segment
  // that was lost may be placed behind later ones (RFC 5041, section 5.3).
  if (device.protocol == DeviceProtocol::iwarp)
    return {immediate, immediate, "nobody vouches for the order in which iWARP places writes"};
  if (link_layer == LinkLayer::infiniband)
    return {immediate, immediate,
            "an InfiniBand fabric may route packets of one connection differently"};
  const auto known = std::ranges::any_of(strict_devices, [&](const StrictDevices& row) {
    return row.vendor_id == device.vendor_id && row.part_id_lowest <= device.part_id &&
           device.part_id <= row.part_id_highest;
  });
  if (!known) return {immediate, immediate, "nobody vouches for the order of this device's writes"};
  return {poll, poll, "this family of devices places writes in order"};
}

Notifications less_of(const Notifications& one, const Notifications& other) noexcept {
  const bool other_is_less = std::max(other.small, other.medium) > std::max(one.small, one.medium);
  return {.small = std::max(one.small, other.small),
          .medium = std::max(one.medium, other.medium),
          .reason = other_is_less ? other.reason : one.reason,
          .bytes_in_order = one.bytes_in_order && other.bytes_in_order};
}

Timers timers_for(const Endpoint& local, std::int64_t link_timeout_ms) noexcept {
  Timers timers;
  if (local.software || local.is_iwarp()) {
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

void require_room(const DeviceFacts& device, const QueueNeeds& needs) {
  require(device, "send queue", needs.sends, device.work_requests_max);
  require(device, "receive queue", needs.receives, device.work_requests_max);
  require(device, "completion queue for sends", needs.sends, device.completions_max);
  require(device, "completion queue for receives", needs.receives, device.completions_max);
}

std::uint32_t peers_per_queue(const DeviceFacts& device, const QueueNeeds& needs) noexcept {
  if (device.completions_max <= 0) return std::max(needs.peers, 1U);  // unknown
  const std::uint32_t each = std::max({needs.sends, needs.receives, 1U});
  const auto most = static_cast<std::uint32_t>(device.completions_max) / each;
  return std::clamp(most, 1U, std::max(needs.peers, 1U));
}

}  // namespace qpmesh::transport::verbs::selection

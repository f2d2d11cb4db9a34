#include "transport/verbs/selection/notification.hpp"

#include <algorithm>
#include <array>

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

}  // namespace

DefaultNotification default_notification(const DeviceFacts& device, LinkLayer link_layer,
                                         bool x86) {
  constexpr auto poll = Notification::poll;
  constexpr auto immediate = Notification::immediate;
  if (!x86) return {immediate, immediate, "this processor may see writes out of order"};
  if (device.software) {
    // The driver copies packet by packet in order. A second work request costs as much as a
    // message: medium payloads go with their record in one write.
    if (device.driver == "rdma_rxe") return {poll, immediate, "SoftRoCE copies writes in order"};
    return {immediate, immediate, "an unknown software device"};
  }
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

}  // namespace qpmesh::transport::verbs::selection

#include "transport/verbs/selection/limits.hpp"

#include <fmt/format.h>

#include <string_view>

#include "qpmesh/error.hpp"

namespace qpmesh::transport::verbs::selection {
namespace {

void require(const DeviceFacts& device, std::string_view queue, std::uint64_t needed,
             int available) {
  if (available <= 0 || needed <= static_cast<std::uint64_t>(available)) return;  // 0: unknown
  throw Error{
      {.code = ErrorCode::no_resource,
       .operation = "init",
       .cause = fmt::format("a {} of {} entries is needed, device {} has at most {}", queue, needed,
                            device.name, available),
       .hint = "lower QPMESH_NETWORK_RING_BYTES: smaller rings hold fewer messages at once"}};
}

}  // namespace

void require_room(const DeviceFacts& device, const QueueNeeds& needs) {
  const std::uint64_t peers = needs.peers;
  require(device, "send queue", needs.sends, device.work_requests_max);
  require(device, "receive queue", needs.receives, device.work_requests_max);
  require(device, "completion queue for sends", peers * needs.sends, device.completions_max);
  require(device, "completion queue for receives", peers * needs.receives, device.completions_max);
}

}  // namespace qpmesh::transport::verbs::selection

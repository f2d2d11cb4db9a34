// SPDX-License-Identifier: MIT
// What a request to the RDMA communication manager carries, and where it goes.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "qpmesh/bootstrap.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs {

// The private data of a request, 16 bytes in little-endian.
struct CmRequest {
  std::uint64_t job = 0;  // the job's own, so that no other one's request is believed
  std::int32_t caller = -1;
  std::int32_t called = -1;
  bool operator==(const CmRequest&) const = default;
};
inline constexpr std::size_t cm_request_bytes = 16;
std::array<std::byte, cm_request_bytes> encode(const CmRequest& request);
// What a stranger may have written. Managers pad with zeros: what follows does not count.
std::optional<CmRequest> decode_cm_request(BlobView bytes);

// The address that a RoCE GID was made from. netdev: the interface here by which a link-local one
// is reached.
sockaddr_storage socket_address(const selection::Gid& gid, std::uint16_t port,
                                const std::string& netdev);

}  // namespace qpmesh::transport::verbs

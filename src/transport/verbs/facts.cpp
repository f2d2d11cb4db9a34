#include "transport/verbs/facts.hpp"

#include <arpa/inet.h>

namespace qpmesh::transport::verbs {

std::string_view to_string(GidType type) noexcept {
  switch (type) {
    case GidType::infiniband: return "InfiniBand";
    case GidType::roce_v1: return "RoCE v1";
    case GidType::roce_v2: return "RoCE v2";
  }
  return "unknown";
}

std::string_view to_string(LinkLayer layer) noexcept {
  switch (layer) {
    case LinkLayer::unspecified: return "unspecified";
    case LinkLayer::infiniband: return "InfiniBand";
    case LinkLayer::ethernet: return "Ethernet";
  }
  return "unknown";
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());  // cannot fail: the text fits
  return text.data();
}

}  // namespace qpmesh::transport::verbs

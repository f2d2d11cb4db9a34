#include "base/rank_identity.hpp"

#include <fmt/format.h>

namespace qpmesh::base {

std::string difference(const Place& a, const Place& b) {
  std::string text;
  if (a.boot_id != b.boot_id) return text;
  const auto compare = [&](std::string_view what, std::uint64_t here, std::uint64_t there) {
    if (here == there) return;
    text += fmt::format("{}{} {} and {}", text.empty() ? "" : ", ", what, here, there);
  };
  compare("users", a.uid, b.uid);
  compare("process namespaces", a.pid_namespace, b.pid_namespace);
  compare("network namespaces", a.net_namespace, b.net_namespace);
  compare("user namespaces", a.user_namespace, b.user_namespace);
  return text;
}

}  // namespace qpmesh::base

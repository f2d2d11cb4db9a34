// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "tools/info/facts.hpp"

namespace qpmesh::info {

std::vector<TransportFacts> transports(const Facts& facts) {
  std::vector<TransportFacts> found{{"shm", true, "between the ranks of one host"}};
  TransportFacts verbs{.name = "verbs"};
  if (!facts.has_verbs) {
    verbs.reason = "this build has no RDMA: libibverbs was not found when it was configured";
  } else {
    const auto offer = make_offer(facts.devices, facts.wishes, facts.host);
    verbs.usable = !offer.endpoints.empty();
    verbs.reason = verbs.usable ? to_string(offer.endpoints.front()) : offer.why_none.cause;
  }
  found.push_back(std::move(verbs));
  return found;
}

}  // namespace qpmesh::info

// SPDX-License-Identifier: MIT
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "base/system.hpp"
#include "messaging/rings/layout.hpp"
#include "qpmesh/options.hpp"
#include "tools/info/facts.hpp"
#ifdef QPMESH_HAS_VERBS
#include "transport/verbs/device.hpp"
#endif

namespace qpmesh::info {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// The kernel asks for the capability in the first user namespace, so root of a container's own does
// not have it.
bool may_lock_any_memory() {
  constexpr int cap_ipc_lock = 14;
  std::uint64_t first = 1;
  std::uint64_t outside = 1;
  std::uint64_t count = 0;
  std::ifstream{"/proc/self/uid_map"} >> first >> outside >> count;
  if (first != 0 || outside != 0 || count != ~std::uint32_t{0}) return false;
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("CapEff:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> cap_ipc_lock & 1U) != 0;
  }
  return false;
}

LockedMemory locked_memory(const Options& options) {
  LockedMemory found;
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    found.limit_bytes = static_cast<std::int64_t>(limit.rlim_cur);
  found.exempt = may_lock_any_memory();
  const messaging::RingLayout rings{
      .payload_ring_units = static_cast<std::uint32_t>(
          static_cast<std::size_t>(options.network_ring_bytes) / messaging::unit_bytes)};
  found.peer_bytes = static_cast<std::int64_t>(rings.slot_bytes() + rings.staging_bytes());
  return found;
}

}  // namespace

Facts collect() {
  const auto options = Options::from_environment();
  Facts facts{.host = host_name(),
              .cores = topology::usable_cores(),
              .numa_nodes = topology::numa_nodes(),
              .locked_memory = locked_memory(options),
              .wishes = transport::verbs::selection::wishes_of(options)};
  facts.wishes.numa_node = topology::numa_node_of(facts.cores.cores, facts.numa_nodes);
#ifdef QPMESH_HAS_VERBS
  const base::System system;
  facts.devices = transport::verbs::discover(system);
  for (auto& device : facts.devices)
    device.ece = transport::verbs::offered_ece(system, device.name);
  facts.wishes.ibverbs_missing = transport::verbs::ibverbs_missing();
#else
  facts.has_verbs = false;
#endif
  return facts;
}

}  // namespace qpmesh::info

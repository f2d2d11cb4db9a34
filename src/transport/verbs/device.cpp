// SPDX-License-Identifier: MIT
#include "transport/verbs/device.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>

#include "base/errors.hpp"
#include "base/text.hpp"
#include "transport/verbs/handles.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::transport::verbs {
namespace {

namespace fs = std::filesystem;

// The bytes of an address or netmask in its sockaddr; empty for families that make no GIDs.
std::span<const std::uint8_t> address_bytes(const sockaddr* address, sa_family_t family) noexcept {
  if (address == nullptr) return {};
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(address);
  if (family == AF_INET) return {begin + offsetof(sockaddr_in, sin_addr), sizeof(in_addr)};
  if (family == AF_INET6) return {begin + offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr)};
  return {};
}

void read_ethernet_address(const ifaddrs& entry, Interface& interface) noexcept {
  if (entry.ifa_addr == nullptr || entry.ifa_addr->sa_family != AF_PACKET) return;
  const auto& link = *reinterpret_cast<const sockaddr_ll*>(entry.ifa_addr);
  auto& bytes = interface.ethernet_address;
  if (link.sll_halen == bytes.size()) std::copy_n(link.sll_addr, bytes.size(), bytes.begin());
}

std::optional<selection::InterfaceAddress> read_address(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return std::nullopt;
  const auto family = entry.ifa_addr->sa_family;
  const auto address = address_bytes(entry.ifa_addr, family);
  if (address.empty()) return std::nullopt;
  selection::InterfaceAddress found;
  if (family == AF_INET) found.address.bytes[10] = found.address.bytes[11] = 0xff;
  std::ranges::copy(address,
                    found.address.bytes.end() - static_cast<std::ptrdiff_t>(address.size()));
  for (const auto byte : address_bytes(entry.ifa_netmask, family))
    found.prefix_bits += std::popcount(byte);
  return found;
}

// It was 34 in rdma-core 44.
constexpr int provider_interface_max = 200;

// libibverbs finds the user-space part of a device among those that are loaded, and loads all that
// are installed (17 in Debian) only where some device is left without. So whose devices are all rxe
// loads that one: in each rank of a guest whose files are remote this is most of a second less.
// What does not work out here is left to libibverbs.
void load_software_provider() noexcept try {
  std::size_t devices = 0;
  for (const auto& device : fs::directory_iterator{"/sys/class/infiniband"}) {
    ++devices;
    std::string kind;
    std::getline(std::ifstream{device.path() / "node_type"}, kind);
    // siw has a parent, too, and is no channel adapter.
    if (!fs::exists(device.path() / "parent") || !kind.starts_with("1")) return;
  }
  Dl_info library{};
  if (devices == 0 || ::dladdr(reinterpret_cast<void*>(ibv_free_device_list), &library) == 0)
    return;
  // The number in its name is the version of an interface that this library fits, or it is not
  // loaded: the library has it in the name of the function by which providers make themselves
  // known. To look for the file in its folder takes longer than to load it where files are remote.
  void* const handle = ::dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return;
  for (int version = 1; version <= provider_interface_max; ++version) {
    const std::string name = fmt::format("verbs_register_driver_{}", version);
    if (::dlsym(handle, name.c_str()) == nullptr) continue;
    const fs::path folder = fs::path{library.dli_fname}.parent_path() / "libibverbs";
    // It stays loaded, as those do that libibverbs loads.
    ::dlopen((folder / fmt::format("librxe-rdmav{}.so", version)).c_str(), RTLD_NOW);
    break;
  }
  ::dlclose(handle);
} catch (const std::exception&) {
  return;  // libibverbs says what is wrong, where something is
}

struct DeviceList {
  std::unique_ptr<ibv_device*, decltype(ibv_free_device_list)> owner;
  std::span<ibv_device* const> devices;
};

DeviceList list_devices(const base::System& system) {
  int count = 0;
  auto** const list =
      call_for_object(system, "ibv_get_device_list", [&] { return ibv_get_device_list(&count); });
  DeviceList found{.owner = {list, ibv_free_device_list}, .devices = {}};
  if (list != nullptr) found.devices = {list, static_cast<std::size_t>(count)};
  return found;
}

DeviceContext open(const base::System& system, ibv_device* device) {
  return DeviceContext{
      call_for_object(system, "ibv_open_device", [&] { return ibv_open_device(device); })};
}

// What sysfs knows and libibverbs does not. What it does not say stays unknown.
void read_kind(selection::DeviceFacts& facts) {
  const auto folder = fs::path{"/sys/class/infiniband"} / facts.name;
  std::error_code failure;
  const auto driver = fs::read_symlink(folder / "device/driver", failure);
  if (!failure) facts.driver = driver.filename();
  // A software device names the interface it stands on, and has no bus device of its own.
  const bool on_a_bus = fs::exists(folder / "device", failure);
  const bool has_parent = fs::exists(folder / "parent", failure);
  facts.software = has_parent || (!on_a_bus && fs::exists(folder, failure));
  if (facts.software && facts.driver.empty())
    facts.driver = facts.protocol == selection::DeviceProtocol::iwarp ? "siw" : "rdma_rxe";
  std::ifstream node{folder / "device/numa_node"};
  if (int number = -1; node >> number) facts.numa_node = number;
}

selection::DeviceProtocol protocol_of(const ibv_device& device) noexcept {
  using enum selection::DeviceProtocol;
  if (device.transport_type == IBV_TRANSPORT_IB) return infiniband;
  return device.transport_type == IBV_TRANSPORT_IWARP ? iwarp : other;
}

selection::LinkLayer link_layer_of(const ibv_port_attr& port) noexcept {
  using enum selection::LinkLayer;
  if (port.link_layer == IBV_LINK_LAYER_INFINIBAND) return infiniband;
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? ethernet : unspecified;
}

// Lanes times the rate of one, as the kernel works it out: "100 Gb/sec (4X EDR)".
std::int64_t rate_mbps(const std::string& device, int port) {
  std::ifstream rate{fs::path{"/sys/class/infiniband"} / device / "ports" / std::to_string(port) /
                     "rate"};
  double gbps = 0;
  rate >> gbps;
  return static_cast<std::int64_t>(gbps * 1'000);
}

int traffic_class_of_port(const std::string& device, int port) {
  std::ifstream file{fs::path{"/sys/class/infiniband"} / device / "tc" / std::to_string(port) /
                     "traffic_class"};
  return read_traffic_class(file);
}

// An entry that cannot be read counts as one without a partition. Without those at the end, of
// which an InfiniBand port has a hundred.
std::vector<std::uint16_t> read_pkeys(const base::System& system, ibv_context* context, int port,
                                      int entries) {
  std::vector<std::uint16_t> pkeys;
  for (int index = 0; index < entries; ++index) {
    __be16 pkey = 0;
    const int error = call_for_status(system, "ibv_query_pkey", [&] {
      return ibv_query_pkey(context, static_cast<std::uint8_t>(port), index, &pkey);
    });
    pkeys.push_back(error == 0 ? be16toh(pkey) : std::uint16_t{0});
  }
  while (!pkeys.empty() && pkeys.back() == 0) pkeys.pop_back();
  return pkeys;
}

void name_interface(selection::GidFacts& gid, unsigned index, std::span<const Interface> all) {
  const auto found = std::ranges::find(all, index, &Interface::index);
  if (index == 0 || found == all.end()) return;
  // The index counts in the network namespace of the device. In another one it may name a stranger,
  // which does not hold the IPv4 address that this GID was made from.
  if (is_ipv4(gid.gid) &&
      !std::ranges::count(found->addresses, gid.gid, &selection::InterfaceAddress::address))
    return;
  gid.netdev = found->name;
  gid.netdev_up = found->up;
  gid.addresses = found->addresses;
}

// A port of iWARP has one GID, which begins with the Ethernet address of its interface. Kernels
// before 6.6 do not name the interface. Others have the same address, as a VLAN or a bridge on it:
// where the manager finds no device by their IP addresses it says so when it listens.
void read_addresses(const base::System& system, ibv_context* context, selection::DeviceFacts& facts,
                    selection::PortFacts& port, std::span<const Interface> all) {
  ibv_gid gid{};
  const int error = call_for_status(system, "ibv_query_gid", [&] {
    return ibv_query_gid(context, static_cast<std::uint8_t>(port.number), 0, &gid);
  });
  if (error != 0) {
    facts.unreadable = fmt::format("GID of port {}: {}", port.number, base::describe_errno(error));
    return;
  }
  for (const Interface& each : all) {
    if (each.ethernet_address == decltype(each.ethernet_address){} ||
        !std::equal(each.ethernet_address.begin(), each.ethernet_address.end(), gid.raw))
      continue;
    for (const selection::InterfaceAddress& address : each.addresses) {
      port.gids.push_back({.index = static_cast<int>(port.gids.size()),
                           .gid = address.address,
                           .type = selection::GidType::iwarp,
                           .netdev = each.name,
                           .netdev_up = each.up,
                           .addresses = each.addresses});
    }
  }
}

void read_gids(const base::System& system, ibv_context* context, selection::DeviceFacts& facts,
               std::size_t entries_max) {
  std::vector<ibv_gid_entry> entries(entries_max);
  // One call for all ports, without empty entries; one by one it would be 1024 calls on rxe.
  const auto count = system.call("ibv_query_gid_table", [&] {
    return _ibv_query_gid_table(context, entries.data(), entries.size(), 0,
                                sizeof(entries.front()));
  });
  if (count < 0) {
    // The call passes some errors on as negative numbers.
    const int error = count == -1 ? errno : static_cast<int>(-count);
    facts.unreadable = fmt::format("GID table: {}", base::describe_errno(error));
    return;
  }
  entries.resize(static_cast<std::size_t>(count));
  const auto all = interfaces(system);
  for (const auto& entry : entries) {
    const auto port = std::ranges::find(facts.ports, static_cast<int>(entry.port_num),
                                        &selection::PortFacts::number);
    if (port == facts.ports.end() || entry.gid_type > IBV_GID_TYPE_ROCE_V2) continue;
    selection::GidFacts gid{.index = static_cast<int>(entry.gid_index)};
    std::memcpy(gid.gid.bytes.data(), entry.gid.raw, gid.gid.bytes.size());
    gid.type = static_cast<selection::GidType>(entry.gid_type);
    name_interface(gid, entry.ndev_ifindex, all);
    port->gids.push_back(std::move(gid));
  }
}
static_assert(static_cast<int>(selection::GidType::infiniband) == IBV_GID_TYPE_IB);
static_assert(static_cast<int>(selection::GidType::roce_v1) == IBV_GID_TYPE_ROCE_V1);
static_assert(static_cast<int>(selection::GidType::roce_v2) == IBV_GID_TYPE_ROCE_V2);
static_assert(selection::port_active == IBV_PORT_ACTIVE);

// As the macro of verbs.h, whose other half is a symbol of the library: for devices of old drivers.
int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr& port) {
  const auto* const operations = __extension__ verbs_get_ctx_op(context, query_port);
  if (operations != nullptr) return operations->query_port(context, number, &port, sizeof(port));
  return ibv_query_port(context, number, reinterpret_cast<_compat_ibv_port_attr*>(&port));
}

void read_ports(const base::System& system, ibv_context* context, int port_count,
                selection::DeviceFacts& facts) {
  std::size_t gid_entries = 0;
  for (int number = 1; number <= port_count; ++number) {
    ibv_port_attr port{};
    const int error = call_for_status(system, "ibv_query_port", [&] {
      return query_port(context, static_cast<std::uint8_t>(number), port);
    });
    if (error != 0) {
      facts.unreadable = fmt::format("port {}: {}", number, base::describe_errno(error));
      continue;
    }
    gid_entries += static_cast<std::size_t>(std::max(port.gid_tbl_len, 0));
    facts.ports.push_back({.number = number,
                           .state = port.state,
                           .state_name = ibv_port_state_str(port.state),
                           .link_layer = link_layer_of(port),
                           .lid = port.lid,
                           .mtu_bytes = 128 << port.active_mtu,
                           .message_bytes_max = port.max_msg_sz,
                           .rate_mbps = rate_mbps(facts.name, number),
                           .grh_required = (port.flags & IBV_QPF_GRH_REQUIRED) != 0,
                           .traffic_class = traffic_class_of_port(facts.name, number)});
    if (facts.protocol == selection::DeviceProtocol::infiniband)
      facts.ports.back().pkeys = read_pkeys(system, context, number, port.pkey_tbl_len);
  }
  if (facts.protocol == selection::DeviceProtocol::iwarp) {
    const auto all = interfaces(system);
    for (selection::PortFacts& port : facts.ports)
      read_addresses(system, context, facts, port, all);
  } else if (gid_entries > 0) {
    read_gids(system, context, facts, gid_entries);
  }
}

selection::DeviceFacts read_device(const base::System& system, ibv_device* device) {
  selection::DeviceFacts facts;
  facts.name = ibv_get_device_name(device);
  facts.protocol = protocol_of(*device);
  facts.node_guid = be64toh(ibv_get_device_guid(device));
  read_kind(facts);
  const auto context = open(system, device);
  if (!context) {
    facts.unreadable = fmt::format("ibv_open_device: {}", base::describe_errno(errno));
    return facts;
  }
  ibv_device_attr limits{};
  if (const int error = call_for_status(system, "ibv_query_device",
                                        [&] { return ibv_query_device(context.get(), &limits); });
      error != 0) {
    facts.unreadable = fmt::format("ibv_query_device: {}", base::describe_errno(error));
    return facts;
  }
  facts.vendor_id = limits.vendor_id;
  facts.part_id = limits.vendor_part_id;
  facts.firmware = limits.fw_ver;
  facts.queue_pairs_max = limits.max_qp;
  facts.work_requests_max = limits.max_qp_wr;
  facts.completions_max = limits.max_cqe;
  facts.gather_max = limits.max_sge;
  facts.region_bytes_max = limits.max_mr_size;
  facts.responder_reads_max = limits.max_qp_rd_atom;
  facts.initiator_reads_max = limits.max_qp_init_rd_atom;
  read_ports(system, context.get(), limits.phys_port_cnt, facts);
  return facts;
}

// On kernels before 5.12 a child's first write to a registered page would leave the parent with a
// copy that the device does not know. Must come before any registration of the process: where
// something else in it registered first, nothing can be done any more.
void protect_forks() {
  if (ibv_is_fork_initialized() == IBV_FORK_DISABLED) ibv_fork_init();
}

}  // namespace

std::vector<Interface> interfaces(const base::System& system) {
  ifaddrs* first = nullptr;
  if (system.call("getifaddrs", [&] { return ::getifaddrs(&first); }) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{first, &::freeifaddrs};
  std::vector<Interface> found;
  for (const auto* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::ranges::find(found, std::string_view{entry->ifa_name}, &Interface::name);
    if (known == found.end()) {
      found.push_back({.name = entry->ifa_name,
                       .index = ::if_nametoindex(entry->ifa_name),
                       .up = (entry->ifa_flags & IFF_UP) != 0});
      known = found.end() - 1;
    }
    read_ethernet_address(*entry, *known);
    if (const auto address = read_address(*entry)) known->addresses.push_back(*address);
  }
  return found;
}

std::vector<selection::DeviceFacts> discover(const base::System& system) {
  std::vector<selection::DeviceFacts> found;
  if (!ibverbs_missing().empty()) return found;
  load_software_provider();
  const auto list = list_devices(system);
  for (auto* const device : list.devices) found.push_back(read_device(system, device));
  return found;
}

int read_traffic_class(std::istream& file) {
  constexpr std::string_view key = "Global tclass=";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto number = base::parse_integer(std::string_view{line}.substr(key.size()), false);
    return number && *number >= 0 && *number <= 255 ? static_cast<int>(*number) : -1;
  }
  return -1;
}

selection::Ece query_ece(const base::System& system, ibv_qp& queue_pair) noexcept {
  if (ibv_query_ece == nullptr || ibv_set_ece == nullptr) return {};
  ibv_ece offered{};
  const int error = call_for_status(system, "ibv_query_ece",
                                    [&] { return ibv_query_ece(&queue_pair, &offered); });
  // A field beyond these two would have to be passed on, too.
  if (error != 0 || offered.comp_mask != 0) return {};
  return {.vendor_id = offered.vendor_id, .options = offered.options};
}

int set_ece(const base::System& system, ibv_qp& queue_pair, const selection::Ece& peer) noexcept {
  ibv_ece wanted{.vendor_id = peer.vendor_id, .options = peer.options, .comp_mask = 0};
  return call_for_status(system, "ibv_set_ece", [&] { return ibv_set_ece(&queue_pair, &wanted); });
}

selection::Ece offered_ece(const base::System& system, std::string_view name) {
  if (!ibverbs_missing().empty()) return {};
  const auto list = list_devices(system);
  const auto device = std::ranges::find_if(
      list.devices, [&](ibv_device* each) { return name == ibv_get_device_name(each); });
  if (device == list.devices.end()) return {};
  const DeviceContext context = open(system, *device);
  if (!context) return {};
  const ProtectionDomain domain{
      call_for_object(system, "ibv_alloc_pd", [&] { return ibv_alloc_pd(context.get()); })};
  const CompletionQueue queue{call_for_object(system, "ibv_create_cq", [&] {
    return ibv_create_cq(context.get(), 1, nullptr, nullptr, 0);
  })};
  if (!domain || !queue) return {};
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  const QueuePair pair{call_for_object(system, "ibv_create_qp",
                                       [&] { return ibv_create_qp(domain.get(), &wanted); })};
  return pair ? query_ece(system, *pair) : selection::Ece{};
}

DeviceContext open_device(const base::System& system, std::string_view name) {
  if (const std::string& reason = ibverbs_missing(); !reason.empty()) {
    base::throw_error({ErrorCode::no_resource}, "init", selection::rdma_packages_hint,
                      "the RDMA device {} cannot be opened: {}", name, reason);
  }
  protect_forks();
  const auto list = list_devices(system);
  const auto device = std::ranges::find_if(
      list.devices, [&](ibv_device* each) { return name == ibv_get_device_name(each); });
  if (device == list.devices.end()) {
    base::throw_error({ErrorCode::no_resource}, "init", "qpmesh-info lists the devices",
                      "the RDMA device {} is not there any more", name);
  }
  if (auto context = open(system, *device)) return context;
  const int error = errno;
  std::string hint = base::hint_for_descriptors(error);
  if (hint.empty()) hint = "may this process read and write /dev/infiniband/uverbs*?";
  base::throw_error({.code = ErrorCode::no_resource, .system_error = error}, "init", hint,
                    "the RDMA device {} cannot be opened", name);
}

}  // namespace qpmesh::transport::verbs

// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/system.hpp"
#include "qpmesh/error.hpp"
#include "startup/reach.hpp"
#include "tools/doctor/findings.hpp"
#include "topology/cores.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::doctor {
namespace {

namespace selection = transport::verbs::selection;
using base::describe_errno;
using List = std::vector<Seen>;

constexpr std::int64_t mib = std::int64_t{1} << 20;

// ---- what several checks ask ----

std::string size_text(std::int64_t bytes) {
  if (bytes % mib == 0) return fmt::format("{} MiB", bytes / mib);
  return bytes % 1024 == 0 ? fmt::format("{} KiB", bytes / 1024) : fmt::format("{} bytes", bytes);
}

bool asks_for_rdma(const Options& options) {
  return options.require == Requirement::rdma || options.transport == TransportChoice::verbs ||
         options.transport == TransportChoice::verbs_and_shm || !options.device.empty() ||
         options.gid_index >= 0;
}

bool has_address(const Interface& each) {
  return std::ranges::any_of(each.addresses, [](const auto& one) { return !one.link_local; });
}

// Where other hosts could reach this one.
bool faces_others(const Interface& each) {
  return !each.loopback && !each.container && has_address(each);
}

std::string first_address(const HostFacts& facts) {
  for (const Interface& each : facts.interfaces) {
    if (!faces_others(each) || !each.up) continue;
    for (const HostAddress& one : each.addresses)
      if (!one.link_local) return one.host;
  }
  return {};
}

std::string first_interface(const HostFacts& facts) {
  const auto found = std::ranges::find_if(
      facts.interfaces, [](const Interface& each) { return each.up && faces_others(each); });
  return found == facts.interfaces.end() ? "INTERFACE" : found->name;
}

bool is_loopback(std::string_view host) { return host.starts_with("127.") || host == "::1"; }
bool all_loopback(const Resolved& name) {
  return !name.addresses.empty() && std::ranges::all_of(name.addresses, is_loopback);
}

std::string why_refused(int error, const HostFacts& facts) {
  return fmt::format("{}{}{}", describe_errno(error),
                     facts.filtered ? "; system calls of this process are filtered (seccomp)" : "",
                     facts.container.empty() ? "" : fmt::format(", in {}", facts.container));
}

// ---- limits of the process ----

List memlock(const HostFacts& facts) {
  const info::LockedMemory& memory = facts.info.locked_memory;
  if (memory.enough()) return {};
  const bool matters = !facts.kernel_devices.empty() || asks_for_rdma(facts.options);
  return {{fmt::format("this process may lock {} (RLIMIT_MEMLOCK); RDMA with {} peers needs {}{}",
                       size_text(memory.limit_bytes), info::LockedMemory::example_peers,
                       size_text(memory.needed_bytes()),
                       matters ? "" : ", and here is no RDMA device yet"),
           "ulimit -l unlimited; for good: echo '* - memlock unlimited' >> "
           "/etc/security/limits.conf; a service: LimitMEMLOCK=infinity; a container: --ulimit "
           "memlock=-1",
           matters ? Severity::problem : Severity::note}};
}

List open_files(const HostFacts& facts) {
  constexpr std::int64_t files_per_peer = 4;  // control channel, doorbell, pidfd, data
  constexpr std::int64_t own_files = 32;
  constexpr std::int64_t peers = info::LockedMemory::example_peers;
  constexpr std::int64_t needed = own_files + files_per_peer * peers;
  if (facts.files_max < 0 || facts.files_max >= needed) return {};
  return {{fmt::format("this process may open {} files (RLIMIT_NOFILE); {} peers need about {}",
                       facts.files_max, peers, needed),
           "ulimit -n 65536; for good: echo '* - nofile 65536' >> /etc/security/limits.conf"}};
}

std::string or_smaller_arenas(std::int64_t bytes_max) {
  return fmt::format(", or export QPMESH_ARENA_BYTES_MAX={}", std::max(bytes_max, mib));
}

List file_size(const HostFacts& facts) {
  const std::int64_t needed = facts.options.arena_bytes_max;
  if (facts.file_bytes_max < 0 || facts.file_bytes_max >= needed) return {};
  return {{fmt::format("RLIMIT_FSIZE allows {}, the sparse memory of a rank is {} long",
                       size_text(facts.file_bytes_max), size_text(needed)),
           "ulimit -f unlimited" + or_smaller_arenas(facts.file_bytes_max / 2)}};
}

// A rank maps the memory of every rank of its host. How many these are a launcher says; without one
// there may be as many as cores.
List address_space(const HostFacts& facts) {
  const std::int64_t limit = facts.address_bytes_max;
  const std::int64_t arena = facts.options.arena_bytes_max;
  const auto look = [&](int ranks, const std::string& these, Severity severity) -> List {
    if (limit < 0 || limit / ranks >= arena) return {};
    return {{fmt::format("RLIMIT_AS allows {}; a rank maps {} for each rank of its host{}",
                         size_text(limit), size_text(arena), these),
             "ulimit -v unlimited" + or_smaller_arenas(limit / (ranks + 1)), severity}};
  };
  if (facts.local_size > 0)
    return look(facts.local_size, fmt::format(", and these are {}", facts.local_size),
                Severity::problem);
  const int cores = std::max(topology::usable_core_count(std::span{&facts.info.cores, 1}), 1);
  List alone = look(1, "", Severity::problem);
  return !alone.empty()
             ? alone
             : look(cores, fmt::format(": {} with one on each core", cores), Severity::note);
}

// By all cores of the host and the limit of time alone: a launcher may give each rank a part of the
// cores, and this one knows its own.
List cores(const HostFacts& facts) {
  const int quota = facts.info.cores.quota;
  const int there = quota > 0 ? std::min(quota, facts.online_cores) : facts.online_cores;
  if (there <= 0 || facts.local_size <= there) return {};
  return {{fmt::format("{} ranks of this host share {} {}{}", facts.local_size, there,
                       there == 1 ? "core" : "cores",
                       there == quota ? ", by the limit of its control group" : ""),
           fmt::format("start {} here, or give the rest of them to other hosts: qpmesh-run "
                       "--hosts a:{},b:{}",
                       there, there, facts.local_size - there),
           Severity::note}};
}

// ---- what the kernel or a container's filter allows ----

List memfd(const HostFacts& facts) {
  if (facts.memfd_error == 0) return {};
  return {{fmt::format("memfd_create and seals: {}", why_refused(facts.memfd_error, facts)),
           "a container: docker run --security-opt seccomp=unconfined; a kernel with "
           "vm.memfd_noexec=2: sysctl vm.memfd_noexec=1"}};
}

List neighbour_memory(const HostFacts& facts) {
  if (facts.neighbour_memory_error == 0 || !facts.options.cma) return {};
  const bool yama = facts.ptrace_scope > 0;
  return {
      {fmt::format("process_vm_readv on a process beside this one: {}{}",
                   why_refused(facts.neighbour_memory_error, facts),
                   yama ? fmt::format("; kernel.yama.ptrace_scope is {}", facts.ptrace_scope) : ""),
       yama ? "sysctl -w kernel.yama.ptrace_scope=0; a container also: docker run "
              "--cap-add=SYS_PTRACE"
            : "a container: docker run --cap-add=SYS_PTRACE, or --security-opt "
              "seccomp=unconfined"}};
}

List pidfd(const HostFacts& facts) {
  if (facts.pidfd_error == 0) return {};
  return {{fmt::format("pidfd_open: {}", why_refused(facts.pidfd_error, facts)),
           "a kernel from 5.3 on; a container: docker run --security-opt seccomp=unconfined"}};
}

// ---- interfaces and addresses ----

List loopback_down(const HostFacts& facts) {
  for (const Interface& each : facts.interfaces)
    if (each.loopback && each.up) return {};
  return {{"the interface lo is down: this host cannot call itself", "ip link set lo up"}};
}

// An interface without address is nobody's loss.
List link_down(const HostFacts& facts) {
  List seen;
  for (const Interface& each : facts.interfaces) {
    const bool asked_for = facts.options.netdev == each.name;
    if (!faces_others(each) && !asked_for) continue;
    if (!each.up) {
      seen.push_back({fmt::format("the interface {} is down", each.name),
                      fmt::format("ip link set {} up", each.name)});
    } else if (!each.carrier) {
      seen.push_back(
          {fmt::format("the interface {} is up and has no carrier: no cable, or the "
                       "other end of it is down",
                       each.name),
           fmt::format("ethtool {} shows the link; look at the cable and the switch", each.name)});
    }
  }
  return seen;
}

List no_such_interface(const HostFacts& facts) {
  const std::string& wanted = facts.options.netdev;
  if (wanted.empty() ||
      std::ranges::find(facts.interfaces, wanted, &Interface::name) != facts.interfaces.end())
    return {};
  std::string there;
  for (const Interface& each : facts.interfaces)
    there += fmt::format("{}{}", there.empty() ? "" : ", ", each.name);
  return {{fmt::format("QPMESH_NETDEV is '{}'; there are: {}", wanted, there),
           fmt::format("export QPMESH_NETDEV={}", first_interface(facts))}};
}

List no_such_network(const HostFacts& facts) {
  const auto subnet = selection::wishes_of(facts.options).subnet;
  if (!subnet) return {};
  std::string there;
  for (const Interface& each : facts.interfaces) {
    for (const HostAddress& address : each.addresses) {
      const auto gid = selection::parse_address(address.host);
      if (!each.up) continue;
      if (gid && selection::contains(*subnet, *gid)) return {};
      there += fmt::format("{}{}", there.empty() ? "" : ", ", address.host);
    }
  }
  return {{fmt::format("QPMESH_SUBNET is '{}'; the addresses here are: {}", facts.options.subnet,
                       there),
           "unset QPMESH_SUBNET"}};
}

List no_address(const HostFacts& facts) {
  if (!first_address(facts).empty()) return {};
  return {{"no interface that is up has an address for other hosts",
           fmt::format("ip address add 10.0.0.1/24 dev {} && ip link set {} up",
                       first_interface(facts), first_interface(facts)),
           Severity::note}};
}

List own_address(const HostFacts& facts) {
  List seen;
  for (const Tried& each : facts.own_addresses) {
    if (each.error == 0) continue;
    seen.push_back(
        {fmt::format("TCP to this host's own address {}: {}", each.what,
                     describe_errno(each.error)),
         fmt::format("iptables -I INPUT -d {0} -j ACCEPT, or with nftables: nft insert rule inet "
                     "filter input ip daddr {0} accept; ip route get {0} shows the way",
                     each.what)});
  }
  return seen;
}

List small_mtu(const HostFacts& facts) {
  constexpr int least_bytes = 1280;  // what IPv6 asks of every link
  List seen;
  for (const Interface& each : facts.interfaces) {
    if (!each.up || !faces_others(each) || each.mtu_bytes >= least_bytes) continue;
    seen.push_back(
        {fmt::format("the interface {} has an MTU of {} bytes", each.name, each.mtu_bytes),
         fmt::format("ip link set {} mtu 1500", each.name)});
  }
  return seen;
}

List shared_subnet(const HostFacts& facts) {
  const auto network = [](const HostAddress& each) -> std::string {
    const auto gid = selection::parse_address(each.host);
    if (!gid || each.link_local) return {};
    const int bits = each.prefix_bits + (selection::is_ipv4(*gid) ? 96 : 0);
    if (bits == 128) return {};
    return fmt::format("{}/{}", address_text(selection::prefix_of(*gid, bits)), each.prefix_bits);
  };
  List seen;
  for (auto one = facts.interfaces.begin(); one != facts.interfaces.end(); ++one) {
    for (auto other = one + 1; other != facts.interfaces.end(); ++other) {
      if (!one->up || !other->up || one->loopback || other->loopback) continue;
      for (const HostAddress& a : one->addresses) {
        for (const HostAddress& b : other->addresses) {
          if (network(a).empty() || network(a) != network(b)) continue;
          seen.push_back({fmt::format("{} ({}) and {} ({}) lie in one network, {}: Linux answers "
                                      "for both at either",
                                      one->name, a.host, other->name, b.host, network(a)),
                          "sysctl -w net.ipv4.conf.all.arp_ignore=1 "
                          "net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=2, or give "
                          "each a network of its own",
                          Severity::note});
        }
      }
    }
  }
  return seen;
}

std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

List host_name(const HostFacts& facts) {
  const Resolved& name = facts.host_name;
  const std::string address = first_address(facts);
  const std::string real = address.empty() ? "ADDRESS" : address;
  if (!name.failure.empty()) {
    return {{fmt::format("the host name {} has no address: {}", name.name, name.failure),
             fmt::format("echo '{} {}' >> /etc/hosts", real, name.name), Severity::note}};
  }
  if (!all_loopback(name)) return {};
  return {{fmt::format("the host name {} resolves to {} alone: a job whose QPMESH_ROOT or "
                       "MASTER_ADDR is this name cannot be joined from other hosts",
                       name.name, list(name.addresses)),
           fmt::format("sed -i 's/^127[^ \\t]*\\([ \\t].*\\b{1}\\b\\)/{0}\\1/' /etc/hosts, or name "
                       "the address: export QPMESH_ROOT={0}:29500",
                       real, name.name),
           Severity::note}};
}

List root(const HostFacts& facts) {
  const Resolved& name = facts.root;
  if (name.name.empty()) return {};
  const std::string address = first_address(facts);
  if (!name.failure.empty()) {
    return {
        {fmt::format("ranks shall meet at {}, which has no address: {}", name.name, name.failure),
         fmt::format("echo 'ADDRESS {}' >> /etc/hosts, or export QPMESH_ROOT=ADDRESS:29500",
                     name.name)}};
  }
  if (!all_loopback(name)) return {};
  return {{fmt::format("ranks shall meet at {}, which is {} here: on every host another one",
                       name.name, list(name.addresses)),
           fmt::format("export QPMESH_ROOT={}:29500, an address of rank 0's host",
                       address.empty() ? "ADDRESS" : address),
           Severity::note}};
}

List socket_buffers(const HostFacts& facts) {
  constexpr std::int64_t enough = 4 * mib;
  List seen;
  const auto look = [&](std::string_view name, std::int64_t bytes_max) {
    if (bytes_max < 0 || bytes_max >= enough) return;
    seen.push_back({fmt::format("net.ipv4.{} ends at {}: less than 1 ms of a 40 Gb/s network", name,
                                size_text(bytes_max)),
                    fmt::format("sysctl -w net.ipv4.{}='4096 131072 16777216'", name),
                    Severity::note});
  };
  look("tcp_rmem", facts.receive_buffer_bytes_max);
  look("tcp_wmem", facts.send_buffer_bytes_max);
  return seen;
}

// ---- RDMA ----

std::string softroce_command(const HostFacts& facts) {
  return fmt::format("rdma link add rxe0 type rxe netdev {}", first_interface(facts));
}

// Most hosts have no RDMA and need none.
List rdma_module(const HostFacts& facts) {
  if (!facts.kernel_devices.empty()) return {};
  const auto severity = asks_for_rdma(facts.options) ? Severity::problem : Severity::note;
  const auto module = std::ranges::find(facts.modules, "rdma_rxe", &KernelModule::name);
  const bool loaded = module != facts.modules.end() && module->loaded;
  const bool loadable = module != facts.modules.end() && module->loadable;
  if (loaded) {
    return {{"there is no RDMA device; the module rdma_rxe is loaded and stands over no interface",
             softroce_command(facts), severity}};
  }
  if (loadable) {
    return {{"there is no RDMA device, and the module rdma_rxe is not loaded",
             fmt::format("modprobe rdma_rxe && {}", softroce_command(facts)), severity}};
  }
  const bool inside = !facts.container.empty();
  return {{fmt::format("there is no RDMA device, and kernel {} has no module rdma_rxe{}",
                       facts.kernel, inside ? " that can be seen from this container" : ""),
           fmt::format("{}apt-get install linux-image-amd64 (Ubuntu: linux-modules-extra-{}), then "
                       "modprobe rdma_rxe && {}",
                       inside ? "on the host: " : "", facts.kernel, softroce_command(facts)),
           severity}};
}

bool is_listed(const HostFacts& facts, const std::string& device) {
  return std::ranges::find(facts.info.devices, device, &selection::DeviceFacts::name) !=
         facts.info.devices.end();
}

List rdma_build(const HostFacts& facts) {
  if (facts.info.has_verbs || (facts.kernel_devices.empty() && !asks_for_rdma(facts.options)))
    return {};
  return {{"this build of qpmesh has no verbs: libibverbs was not there when it was configured",
           "apt-get install libibverbs-dev, and configure and build again"}};
}

List rdma_device_file(const HostFacts& facts) {
  List seen;
  for (const Tried& each : facts.device_files) {
    if (each.error == 0) continue;
    const bool absent = each.error == ENOENT;
    seen.push_back(
        {fmt::format("{}: {}{}", each.what, describe_errno(each.error),
                     absent && !facts.container.empty()
                         ? fmt::format(", in {}: the host has the device, the container has not",
                                       facts.container)
                         : ""),
         absent ? "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1; on "
                  "the host itself: modprobe ib_uverbs"
                : fmt::format("chmod a+rw {}, or make the user a member of its group", each.what)});
  }
  return seen;
}

List rdma_manager(const HostFacts& facts) {
  if (facts.options.connect != ConnectBy::cm || facts.connection_manager_error == 0) return {};
  return {
      {fmt::format("QPMESH_CONNECT=cm needs /dev/infiniband/rdma_cm: {}",
                   describe_errno(facts.connection_manager_error)),
       facts.connection_manager_error == ENOENT
           ? "modprobe rdma_ucm; docker run --device=/dev/infiniband; or QPMESH_CONNECT=exchange"
           : "chmod a+rw /dev/infiniband/rdma_cm, or QPMESH_CONNECT=exchange"}};
}

// The kernel has the device, and libibverbs does not, or is not there itself.
List rdma_provider(const HostFacts& facts) {
  if (!facts.info.has_verbs) return {};
  if (const std::string& reason = facts.info.wishes.ibverbs_missing; !reason.empty()) {
    if (facts.kernel_devices.empty() && !asks_for_rdma(facts.options)) return {};
    return {{fmt::format("libibverbs cannot be used: {}", reason), selection::rdma_packages_hint}};
  }
  List seen;
  for (const std::string& device : facts.kernel_devices) {
    if (is_listed(facts, device)) continue;
    seen.push_back({fmt::format("the kernel has the RDMA device {}, libibverbs finds no driver for "
                                "it",
                                device),
                    "apt-get install ibverbs-providers"});
  }
  return seen;
}

List rdma_device(const HostFacts& facts) {
  List seen;
  for (const auto& device : facts.info.devices) {
    if (!device.unreadable.empty()) {
      seen.push_back(
          {fmt::format("RDMA device {} cannot be used: {}", device.name, device.unreadable),
           fmt::format("ibv_devinfo -d {} shows more; rdma link shows its state", device.name)});
    }
  }
  return seen;
}

// Wishes that nothing meets, or ports that are all down.
List rdma_choice(const HostFacts& facts) {
  if (facts.info.devices.empty()) {
    if (facts.options.device.empty()) return {};
    return {
        {fmt::format("QPMESH_DEVICE is '{}', and there is no RDMA device", facts.options.device),
         "unset QPMESH_DEVICE"}};
  }
  const auto offer = make_offer(facts.info.devices, facts.info.wishes, facts.info.host);
  if (!offer.endpoints.empty()) return {};
  return {{fmt::format("RDMA cannot be used: {}", offer.why_none.cause), offer.why_none.hint}};
}

// Beside others that can be used.
List rdma_port(const HostFacts& facts) {
  List seen;
  if (make_offer(facts.info.devices, facts.info.wishes, facts.info.host).endpoints.empty())
    return seen;
  for (const auto& device : facts.info.devices) {
    for (const auto& port : device.ports) {
      if (port.state == selection::port_active) continue;
      const std::string netdev = port.gids.empty() ? "" : port.gids.front().netdev;
      seen.push_back(
          {fmt::format("RDMA device {} port {} is {}{}", device.name, port.number, port.state_name,
                       netdev.empty() ? "" : fmt::format(" (interface {})", netdev)),
           selection::port_down_hint(netdev)});
    }
  }
  return seen;
}

List rdma_mtu(const HostFacts& facts) {
  constexpr int longest_bytes = 4096;
  List seen;
  for (const auto& device : facts.info.devices) {
    for (const auto& port : device.ports) {
      if (port.state != selection::port_active || port.mtu_bytes == 0 ||
          port.mtu_bytes >= longest_bytes || port.link_layer != selection::LinkLayer::ethernet)
        continue;
      const std::string netdev = port.gids.empty() ? "" : port.gids.front().netdev;
      seen.push_back({fmt::format("RDMA device {} port {} sends packets of {} bytes, where {} are "
                                  "possible",
                                  device.name, port.number, port.mtu_bytes, longest_bytes),
                      fmt::format("where all hosts and switches carry it: ip link set {} mtu 9000",
                                  netdev.empty() ? "INTERFACE" : netdev),
                      Severity::note});
    }
  }
  return seen;
}

// ---- the rest ----

List clock_source(const HostFacts& facts) {
  constexpr double slow_ns = 250;  // a system call; tsc takes 20 to 40
  if (facts.clock_read_ns < slow_ns) return {};
  return {{fmt::format("the clock takes {:.0f} ns to read ({})", facts.clock_read_ns,
                       facts.clock_source.empty() ? "source unknown" : facts.clock_source),
           "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, where "
           "available_clocksource lists it"}};
}

List clock_unsynchronised(const HostFacts& facts) {
  if (facts.clock_synchronised) return {};
  return {{"the kernel's clock is not synchronised with a time server",
           "systemctl enable --now systemd-timesyncd, or apt-get install chrony", Severity::note}};
}

List unknown_variable(const HostFacts& facts) {
  List seen;
  for (const std::string& sentence : facts.unknown_variables)
    seen.push_back({sentence, "unset or rename it; qpmesh's docs/options.md has all of them"});
  return seen;
}

List secret(const HostFacts& facts) {
  if (facts.secret_failure.empty()) return {};
  return {{facts.secret_failure,
           "head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE; export "
           "QPMESH_SECRET_FILE=FILE, the same on every host"}};
}

using Row = Check<HostFacts>;
constexpr std::array table{
    Row{"memlock", "init over RDMA fails where its rings cannot be locked", memlock},
    Row{"open_files", "init fails with no_resource from some number of ranks on", open_files},
    Row{"file_size", "init fails with no_resource", file_size},
    Row{"address_space", "init fails with no_resource", address_space},
    Row{"cores",
        "ranks that share a core take turns: small calls take microseconds, not tenths of one",
        cores},
    Row{"memfd", "init fails: ranks of this host have no memory to share", memfd},
    Row{"neighbour_memory",
        "long messages between ranks of this host are copied twice, through shared memory",
        neighbour_memory},
    Row{"pidfd", "the death of a rank is told by its socket alone, which a child of it may hold",
        pidfd},
    Row{"loopback_down", "ranks of this host that share no memory cannot meet", loopback_down},
    Row{"link_down", "nothing goes over this interface, neither TCP nor RDMA", link_down},
    Row{"no_such_interface", "init over TCP or RDMA fails", no_such_interface},
    Row{"no_such_network", "init over TCP fails", no_such_network},
    Row{"no_address", "a job has to stay on this host", no_address},
    Row{"own_address", "a firewall or a route keeps ranks from this address", own_address},
    Row{"small_mtu", "RDMA has no path MTU or a tiny one, TCP sends many small packets", small_mtu},
    Row{"shared_subnet", "answers may come from the other interface: links fail at random",
        shared_subnet},
    Row{"host_name", "who is told to meet there listens at loopback, or nowhere", host_name},
    Row{"root", "ranks of other hosts call themselves instead of rank 0", root},
    Row{"socket_buffers", "TCP over a fast and long network stays below its speed", socket_buffers},
    Row{"rdma_module", "ranks of several hosts use TCP instead of RDMA", rdma_module},
    Row{"rdma_build", "ranks of several hosts use TCP instead of RDMA", rdma_build},
    Row{"rdma_device_file", "the device cannot be opened: TCP is used instead", rdma_device_file},
    Row{"rdma_manager", "queue pairs cannot be connected: TCP is used instead, or init fails",
        rdma_manager},
    Row{"rdma_provider", "the device cannot be used: TCP is used instead", rdma_provider},
    Row{"rdma_device", "the device cannot be used: another one, or TCP", rdma_device},
    Row{"rdma_choice", "TCP is used instead, or init fails where RDMA was asked for", rdma_choice},
    Row{"rdma_port", "the port is left out: another one, or TCP", rdma_port},
    Row{"rdma_mtu", "large messages over RDMA take more packets than they need", rdma_mtu},
    Row{"clock_source",
        "waits that outlast their spins read it, and so does what is measured while it runs: "
        "ranks that share cores are slower",
        clock_source},
    Row{"clock_unsynchronised", "times in the logs of several hosts cannot be compared",
        clock_unsynchronised},
    Row{"unknown_variable", "the variable has no effect", unknown_variable},
    Row{"secret", "init over TCP fails with bad_config", secret},
};

}  // namespace

std::span<const Check<HostFacts>> host_checks() noexcept { return table; }

bool any_problem(std::span<const Finding> findings) noexcept {
  return std::ranges::any_of(
      findings, [](const Finding& each) { return each.severity == Severity::problem; });
}

}  // namespace qpmesh::doctor

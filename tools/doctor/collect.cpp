// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/options_table.hpp"
#include "base/owned.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/listener.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/error.hpp"
#include "startup/init.hpp"
#include "tools/doctor/host.hpp"
#include "transport/verbs/selection/choice.hpp"

namespace qpmesh::doctor {
namespace {

namespace fs = std::filesystem;
using base::UniqueFd;

constexpr int own_call_ms_max = 500;

std::string first_line(const fs::path& path) {
  std::string line;
  std::ifstream file{path};
  std::getline(file, line);
  return line;
}

std::int64_t limit_of(decltype(RLIMIT_NOFILE) which) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

// ---- what the kernel lets this process do ----

int error_of(bool failed) { return failed ? errno : 0; }

int try_memfd() {
  const UniqueFd memory{::memfd_create("qpmesh-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!memory) return errno;
  if (::ftruncate(memory.get(), 4096) != 0) return errno;
  return error_of(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0);
}

// As a rank does with its neighbour, which is no child of it: the child looks into its parent.
int try_neighbour_memory() {
  const std::uint64_t word = 0x6d68736570;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    std::uint64_t seen = 0;
    const iovec here{&seen, sizeof seen};
    const iovec there{const_cast<std::uint64_t*>(&word), sizeof word};
    const bool read = ::process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof seen;
    ::_exit(read ? (seen == word ? 0 : EIO) : errno);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return EIO;
  return WEXITSTATUS(status);
}

int try_pidfd() {
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))};
  return error_of(!process);
}

bool filters_system_calls() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Seccomp:")) return line.find('2') != std::string::npos;
  return false;
}

std::string container() {
  const auto variable = bootstrap::process_environment();
  if (variable("KUBERNETES_SERVICE_HOST")) return "a pod of Kubernetes";
  if (fs::exists("/run/.containerenv")) return "a container of Podman";
  if (fs::exists("/.dockerenv")) return "a container of Docker";
  std::ifstream groups{"/proc/1/cgroup"};
  for (std::string line; std::getline(groups, line);) {
    for (const char* const word : {"docker", "containerd", "kubepods", "lxc"})
      if (line.find(word) != std::string::npos) return fmt::format("a container ({})", word);
  }
  return {};
}

// ---- interfaces and names ----

int mtu_of(const std::string& name) {
  const UniqueFd socket{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  std::memcpy(request.ifr_name, name.data(), std::min<std::size_t>(name.size(), IFNAMSIZ - 1));
  return ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

int ones(const void* bytes, std::size_t count) {
  int bits = 0;
  for (std::size_t i = 0; i < count; ++i)
    bits += std::popcount(static_cast<const unsigned char*>(bytes)[i]);
  return bits;
}

std::optional<HostAddress> read_address(const ifaddrs& each) {
  bootstrap::Address address;
  const auto* const mask = each.ifa_netmask;
  HostAddress read;
  if (each.ifa_addr->sa_family == AF_INET) {
    address.bytes = sizeof(sockaddr_in);
    if (mask != nullptr)
      read.prefix_bits =
          ones(reinterpret_cast<const char*>(mask) + offsetof(sockaddr_in, sin_addr), 4);
  } else if (each.ifa_addr->sa_family == AF_INET6) {
    address.bytes = sizeof(sockaddr_in6);
    if (mask != nullptr)
      read.prefix_bits =
          ones(reinterpret_cast<const char*>(mask) + offsetof(sockaddr_in6, sin6_addr), 16);
  } else {
    return std::nullopt;
  }
  std::memcpy(&address.storage, each.ifa_addr, address.bytes);
  read.host = host_port(address).host;
  read.link_local =
      scope_of(address) == bootstrap::Scope::link_local || read.host.starts_with("169.254.");
  return read;
}

std::vector<Interface> interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{all, &::freeifaddrs};
  std::vector<Interface> found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    auto known = std::ranges::find(found, each->ifa_name, &Interface::name);
    if (known == found.end()) {
      const std::string name = each->ifa_name;
      found.push_back({.name = name,
                       .up = (each->ifa_flags & IFF_UP) != 0,
                       .carrier = (each->ifa_flags & IFF_RUNNING) != 0,
                       .loopback = (each->ifa_flags & IFF_LOOPBACK) != 0,
                       .container = transport::verbs::selection::is_overlay(name),
                       .mtu_bytes = mtu_of(name)});
      known = found.end() - 1;
    }
    if (each->ifa_addr == nullptr) continue;
    if (auto address = read_address(*each)) known->addresses.push_back(*std::move(address));
  }
  return found;
}

int call_own(const base::System& system, const std::string& host) {
  const auto address = bootstrap::numeric({host, 0});
  if (!address) return EINVAL;
  const bootstrap::Opened listener = listen_at(system, *address);
  if (!listener.socket) return listener.error;
  const bootstrap::Opened caller =
      connect_to(system, bootstrap::local_address(listener.socket.get()));
  if (!caller.socket) return caller.error;
  const int late = bootstrap::await(system, caller.socket.get(), POLLOUT,
                                    base::after_ms(system, own_call_ms_max));
  return late != 0 ? late : bootstrap::finish_connecting(system, caller.socket.get());
}

std::vector<Tried> call_own_addresses(const std::vector<Interface>& interfaces) {
  const base::System system;
  std::vector<Tried> tried;
  for (const Interface& each : interfaces) {
    if (!each.up) continue;
    for (const HostAddress& one : each.addresses)
      if (!one.link_local) tried.push_back({one.host, call_own(system, one.host)});
  }
  return tried;
}

Resolved resolve(std::string name) {
  Resolved found{.name = std::move(name)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  const int failure = ::getaddrinfo(found.name.c_str(), nullptr, &hints, &all);
  if (failure != 0) {
    found.failure =
        failure == EAI_SYSTEM ? base::describe_errno(errno) : std::string{::gai_strerror(failure)};
    return found;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{all, &::freeaddrinfo};
  for (const addrinfo* each = all; each != nullptr; each = each->ai_next) {
    bootstrap::Address address;
    address.bytes = each->ai_addrlen;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    const std::string host = host_port(address).host;
    if (std::ranges::find(found.addresses, host) == found.addresses.end())
      found.addresses.push_back(host);
  }
  return found;
}

// "[fd00::1]:4000" and "first:4000" without their ports.
std::string host_part(std::string text) {
  const auto colon = text.rfind(':');
  if (colon != std::string::npos && text.find(']', colon) == std::string::npos) text.resize(colon);
  std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
  return text;
}

Resolved root() {
  const auto variable = bootstrap::process_environment();
  if (const auto text = variable("QPMESH_ROOT")) return resolve(host_part(*text));
  if (auto text = variable("MASTER_ADDR")) return resolve(*std::move(text));
  return {};
}

std::int64_t third_number(const fs::path& path) {
  std::int64_t least = 0;
  std::int64_t usual = 0;
  std::int64_t most = -1;
  std::ifstream{path} >> least >> usual >> most;
  return most;
}

// ---- RDMA ----

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& each : fs::directory_iterator{folder, none})
    names.push_back(each.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<Tried> device_files() {
  std::vector<Tried> tried;
  for (const std::string& name : entries("/sys/class/infiniband_verbs")) {
    if (!name.starts_with("uverbs")) continue;
    const std::string path = "/dev/infiniband/" + name;
    tried.push_back({path, error_of(::access(path.c_str(), R_OK | W_OK) != 0)});
  }
  return tried;
}

std::vector<KernelModule> modules(const std::string& kernel) {
  std::vector<KernelModule> found{{.name = "rdma_rxe"}, {.name = "siw"}};
  std::ifstream list{"/lib/modules/" + kernel + "/modules.dep"};
  for (std::string line; std::getline(list, line);) {
    const std::string_view path = std::string_view{line}.substr(0, line.find(':'));
    for (KernelModule& module : found)
      if (path.find("/" + module.name + ".ko") != std::string_view::npos) module.loadable = true;
  }
  for (KernelModule& module : found) module.loaded = fs::exists("/sys/module/" + module.name);
  return found;
}

// ---- clock, environment ----

double clock_read_ns() {
  using Clock = std::chrono::steady_clock;
  constexpr int reads = 1000;
  double best = 1e9;
  for (int repetition = 0; repetition < 5; ++repetition) {
    const auto begin = Clock::now();
    for (int i = 0; i < reads; ++i) static_cast<void>(Clock::now());
    const std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    best = std::min(best, taken.count() / reads);
  }
  return best;
}

bool clock_synchronised() {
  timex state{};
  return ::adjtimex(&state) != TIME_ERROR;
}

std::string secret_failure() {
  try {
    bootstrap::find_secret(bootstrap::process_environment(), {}, false);
    return {};
  } catch (const Error& error) {
    return error.cause();
  }
}

base::Place place() {
  const base::System system;
  bootstrap::Introduction me;
  look_around(system, me);
  return me.place;
}

}  // namespace

HostFacts collect() {
  HostFacts facts{.options = Options::from_environment(), .info = info::collect()};
  startup::check(facts.options);
  facts.place = place();
  utsname kernel{};
  if (::uname(&kernel) == 0) facts.kernel = kernel.release;
  facts.container = container();

  facts.files_max = limit_of(RLIMIT_NOFILE);
  facts.file_bytes_max = limit_of(RLIMIT_FSIZE);
  facts.address_bytes_max = limit_of(RLIMIT_AS);
  facts.memfd_error = try_memfd();
  facts.neighbour_memory_error = try_neighbour_memory();
  facts.pidfd_error = try_pidfd();
  std::ifstream{"/proc/sys/kernel/yama/ptrace_scope"} >> facts.ptrace_scope;
  facts.filtered = filters_system_calls();

  facts.interfaces = interfaces();
  facts.own_addresses = call_own_addresses(facts.interfaces);
  facts.host_name = resolve(facts.info.host);
  facts.root = root();
  facts.receive_buffer_bytes_max = third_number("/proc/sys/net/ipv4/tcp_rmem");
  facts.send_buffer_bytes_max = third_number("/proc/sys/net/ipv4/tcp_wmem");

  facts.online_cores = static_cast<int>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 0L));
  facts.kernel_devices = entries("/sys/class/infiniband");
  facts.device_files = device_files();
  facts.connection_manager_error = error_of(::access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0);
  facts.modules = modules(facts.kernel);

  facts.clock_synchronised = clock_synchronised();
  facts.clock_source =
      first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts.clock_read_ns = clock_read_ns();
  facts.unknown_variables = base::unknown_variables(base::environment_names());
  facts.secret_failure = secret_failure();
  return facts;
}

}  // namespace qpmesh::doctor

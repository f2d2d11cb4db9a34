// SPDX-License-Identifier: MIT
// What qpmesh-doctor looks at on one host, as plain data: collected from this machine and process,
// or made up by a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/rank_identity.hpp"
#include "qpmesh/options.hpp"
#include "tools/info/facts.hpp"

namespace qpmesh::doctor {

struct HostAddress {
  std::string host{};  // in numbers: "10.0.0.1", "fd00::1"
  int prefix_bits = 0;
  bool link_local = false;
};
struct Interface {
  std::string name{};
  bool up = false;       // by the administrator
  bool carrier = false;  // something is at the other end
  bool loopback = false;
  bool container = false;  // a bridge or cable of a container network on this host
  int mtu_bytes = 0;
  std::vector<HostAddress> addresses{};
};

// A name, and what the resolver makes of it.
struct Resolved {
  std::string name{};
  std::string failure{};  // of the resolver; empty: there are addresses
  std::vector<std::string> addresses{};
};

// Something that was tried with an address or a path: 0, or its errno.
struct Tried {
  std::string what{};
  int error = 0;
};

struct KernelModule {
  std::string name{};
  bool loaded = false;
  bool loadable = false;  // modprobe would find it
};

struct HostFacts {
  Options options{};
  int local_size = 0;    // ranks of this host, as the launcher says; 0: no launcher
  int online_cores = 0;  // of the host, whatever this process may use; 0: unknown
  info::Facts info{};    // cores, locked memory, RDMA devices
  base::Place place{};
  std::string kernel{};     // its release
  std::string container{};  // "docker", "podman", "kubernetes"; empty: none that is known

  // Limits of this process; -1: none.
  std::int64_t files_max = -1;
  std::int64_t file_bytes_max = -1;
  std::int64_t address_bytes_max = -1;
  int memfd_error = 0;             // of a sealed memfd; 0: it can be had
  int neighbour_memory_error = 0;  // of process_vm_readv on a process beside this one
  int pidfd_error = 0;
  int ptrace_scope = -1;  // Yama's; -1: no Yama
  bool filtered = false;  // system calls, by seccomp

  std::vector<Interface> interfaces{};
  std::vector<Tried> own_addresses{};  // connected to from this host itself
  Resolved host_name{};
  Resolved root{};  // the host in QPMESH_ROOT, else MASTER_ADDR; without name: neither is set
  std::int64_t receive_buffer_bytes_max = -1;  // a TCP socket's; -1: unknown
  std::int64_t send_buffer_bytes_max = -1;

  std::vector<std::string> kernel_devices{};  // RDMA devices as the kernel lists them
  std::vector<Tried> device_files{};          // /dev/infiniband/uverbs… of those devices
  int connection_manager_error = 0;           // of /dev/infiniband/rdma_cm
  std::vector<KernelModule> modules{};        // of RDMA in software

  bool clock_synchronised = true;
  std::string clock_source{};  // "tsc"; empty: unknown
  double clock_read_ns = 0;

  std::vector<std::string> unknown_variables{};  // a sentence for each
  std::string secret_failure{};                  // why a job over TCP has no secret; empty: it has
};

// Of this machine and process. Takes a fraction of a second; makes no secret and changes nothing.
// Throws Error{bad_config} where an option cannot be read.
HostFacts collect();

}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
// The RDMA devices of this machine: what they are, and how one is opened.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/system.hpp"
#include "transport/verbs/handles.hpp"
#include "transport/verbs/selection/facts.hpp"

namespace qpmesh::transport::verbs {

// A network interface of this process's network namespace, which GIDs are named after.
struct Interface {
  std::string name{};
  unsigned index = 0;
  bool up = false;
  std::array<std::uint8_t, 6> ethernet_address{};  // zero: none
  std::vector<selection::InterfaceAddress> addresses{};
};
// Empty when they cannot be read.
std::vector<Interface> interfaces(const base::System& system);

// Every device, in libibverbs' order. None, no kernel support, or no libibverbs (ibverbs_missing)
// is an empty list. A device that
// cannot be opened or asked is listed with the reason in `unreadable`; a port or GID that cannot be
// read is left out. Throws nothing but std::bad_alloc.
std::vector<selection::DeviceFacts> discover(const base::System& system);

// Reads a port's traffic class as an administrator sets it: the line "Global tclass=106" of
// /sys/class/infiniband/DEVICE/tc/PORT/traffic_class, which some drivers have. Returns -1 where
// there is none, or none from 0 to 255.
int read_traffic_class(std::istream& file);

// Returns the ECE that the device's queue pairs offer. Opens the device and makes one queue pair
// for it. Returns no options where the device, its driver or libibverbs (before rdma-core 31) knows
// nothing of ECE, or no queue pair can be made. Throws nothing but std::bad_alloc.
selection::Ece offered_ece(const base::System& system, std::string_view name);
// Returns the ECE that this queue pair offers: call it before set_ece.
selection::Ece query_ece(const base::System& system, ibv_qp& queue_pair) noexcept;
// Asks the queue pair, which must be in INIT, for the options that the peer's queue pair offers.
// The device accepts those that it has itself (man ibv_set_ece). The peer does the same, so both
// ends accept the same options. Returns 0, or the errno.
int set_ece(const base::System& system, ibv_qp& queue_pair, const selection::Ece& peer) noexcept;

// Sees to it first that a fork of this process does not take registered memory away from the
// device. Throws Error{no_resource} naming the device.
DeviceContext open_device(const base::System& system, std::string_view name);

}  // namespace qpmesh::transport::verbs

// One documented struct for everything that can be set. Each field has its environment variable;
// docs/options.md is the table with unit, range and default, and tests hold the two together.
#pragma once

#include <cstdint>
#include <string>

#include "qpmesh/export.h"

namespace qpmesh {

// init() without options uses Options::from_environment(); a program that sets fields in code starts
// from it too, or from Options{} to leave the environment out. "(agreed)" fields are compared at
// start; a difference between ranks is an error.
struct Options {
  // QPMESH_TRANSPORT: shm, verbs, verbs+shm; empty = shm on a node, verbs between nodes (agreed)
  std::string transport;
  // QPMESH_REQUIRE: rdma = where verbs was asked for and cannot be had, fail instead of falling back (agreed)
  std::string require;
  // QPMESH_NOTIFICATION: poll, immediate, mixed = records polled and payloads told by immediates; empty = by device (agreed)
  std::string notification;
  // QPMESH_INIT_TIMEOUT_MS
  std::int64_t init_timeout_ms = 30'000;
  // QPMESH_HANDSHAKE_TIMEOUT_MS: a stranger that says nothing is dropped after it
  std::int64_t handshake_timeout_ms = 2'000;
  // QPMESH_TIMEOUT_MS: 0 = none
  std::int64_t operation_timeout_ms = 600'000;
  // QPMESH_STALL_WARNING_MS: 0 = none
  std::int64_t stall_warning_ms = 5'000;
  // QPMESH_ARENA_BYTES_MAX: address space, not memory: pages cost when they are touched
  std::int64_t arena_bytes_max = std::int64_t{64} << 30;
  // QPMESH_PAYLOAD_RING_BYTES: a power of two, per peer and direction (agreed)
  std::int64_t payload_ring_bytes = std::int64_t{256} << 10;
  // QPMESH_NETWORK_RING_BYTES: the same between nodes, where it is registered memory (agreed)
  std::int64_t network_ring_bytes = std::int64_t{32} << 10;
  // QPMESH_REGISTER_BYTES_MIN: private buffers of messages from this size on are registered for the message, between nodes
  std::int64_t register_bytes_min = std::int64_t{256} << 10;
  // QPMESH_RENDEZVOUS: write = the sender of a large message writes it, read = its receiver reads it, where the device can (agreed)
  std::string rendezvous = "write";
  // Ranks of a node copy long data straight out of each other's private memory, where the system lets them:
  // QPMESH_SINGLE_COPY: yes, or no = they go through shared memory (agreed)
  std::string single_copy = "yes";
  // QPMESH_EAGER_BYTES_MAX: larger messages go by rendezvous (agreed)
  std::int64_t eager_bytes_max = std::int64_t{16} << 10;
  // QPMESH_UNEXPECTED_BYTES_MAX: received before their receive was called, per context
  std::int64_t unexpected_bytes_max = std::int64_t{256} << 20;
  // QPMESH_UNEXPECTED_MESSAGES_MAX: the same in messages, per context
  std::int64_t unexpected_messages_max = 1 << 20;
  // QPMESH_SPIN_US: how long a wait spins before it sleeps; -1 = by usable cores
  std::int64_t spin_us = -1;
  // QPMESH_DEVICE: an RDMA device, or device:port; empty = chosen
  std::string device;
  // QPMESH_GID_INDEX: an entry of the port's GID table; -1 = chosen by address
  std::int64_t gid_index = -1;
  // QPMESH_NETDEV: the network interface whose GID is used; empty = chosen
  std::string netdev;
  // QPMESH_SUBNET: the GID's address must lie in it, as 10.0.0.0/8; empty = chosen
  std::string subnet;
  // QPMESH_LINK_TIMEOUT_MS: so long may a peer's device be silent; 0 = about 1 s, 8 s over software
  std::int64_t link_timeout_ms = 0;
  // QPMESH_ALGORITHMS: collective=algorithm, separated by commas; others are chosen by size (agreed)
  std::string algorithms;
  // QPMESH_TUNING: a file of qpmesh-tune, read by rank 0 for all, from which algorithms are chosen; empty = built in
  std::string tuning;
  // QPMESH_LOG: off error warning info debug
  std::string log = "warning";

  // Defaults overridden by QPMESH_… variables. Throws Error{bad_config} naming
  // variable, value and allowed range.
  QPMESH_API static Options from_environment();
};

}  // namespace qpmesh

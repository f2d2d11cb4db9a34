// SPDX-License-Identifier: MIT
// One documented struct for everything that can be set. Each field has its environment variable;
// docs/options.md is the table with unit, range and default, and tests hold the two together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "qpmesh/export.h"

namespace qpmesh {

// How bytes may move. automatic: for each pair shm where they share memory, else verbs, else tcp.
enum class TransportChoice : std::uint8_t { automatic, shm, verbs, verbs_and_shm, tcp };
// What must not be missing where it was asked for.
enum class Requirement : std::uint8_t { nothing, rdma };
// How a receiver learns of RDMA writes. automatic: by device.
enum class NotificationChoice : std::uint8_t { automatic, poll, immediate, mixed };
// How queue pairs become ready to send. exchange: ranks tell each other their addresses over the
// bootstrap. cm: through the RDMA communication manager.
enum class ConnectBy : std::uint8_t { exchange, cm };
// When ranks are connected over tcp and verbs: all pairs in init, or each when it is first used.
enum class ConnectWhen : std::uint8_t { init, first_use };
// Who moves the bytes of a large message between nodes: its sender writes them, or its receiver
// reads them.
enum class RendezvousChoice : std::uint8_t { write, read };
// What algorithms are chosen by, where nobody asks for one.
enum class ChoiceBy : std::uint8_t { measured, predicted };
// How many threads use what one init() has made.
enum class ThreadUse : std::uint8_t { one, several };
// What is logged: this and all more severe.
enum class LogLevel : std::uint8_t { off, error, warning, info, debug };

// init() without options uses Options::from_environment(); a program that sets fields in code
// starts from it too, or from Options{} to leave the environment out. "(agreed)" fields are
// compared at start; a difference between ranks is an error.
struct Options {
  // QPMESH_TRANSPORT (agreed)
  TransportChoice transport = TransportChoice::automatic;
  // QPMESH_REQUIRE: rdma = where verbs was asked for, or ranks share no memory, and it cannot be
  // had, fail instead of falling back (agreed)
  Requirement require = Requirement::nothing;
  // QPMESH_NOTIFICATION: mixed = records polled, payloads told by immediates (agreed)
  NotificationChoice notification = NotificationChoice::automatic;
  // QPMESH_CONNECT: cm = queue pairs are connected by the RDMA communication manager (agreed)
  ConnectBy connect = ConnectBy::exchange;
  // QPMESH_CONNECT_WHEN: first_use = over tcp and verbs a pair is connected when it first exchanges
  // a message, but not by the communication manager (agreed)
  ConnectWhen connect_when = ConnectWhen::init;
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
  // QPMESH_PAYLOAD_RING_BYTES: a power of two, per peer and direction, on one host (agreed)
  std::int64_t payload_ring_bytes = std::int64_t{1} << 20;
  // QPMESH_NETWORK_RING_BYTES: the same over verbs, where it is registered memory (agreed)
  std::int64_t network_ring_bytes = std::int64_t{128} << 10;
  // QPMESH_TCP_RING_BYTES: the same over tcp, where its pages cost when messages lie there (agreed)
  std::int64_t tcp_ring_bytes = std::int64_t{4} << 20;
  // QPMESH_REGISTER_BYTES_MIN: private buffers of messages from this size on are registered for the
  // message, over verbs
  std::int64_t register_bytes_min = std::int64_t{256} << 10;
  // QPMESH_RENDEZVOUS: read where the device can (agreed)
  RendezvousChoice rendezvous = RendezvousChoice::write;
  // QPMESH_CMA: cross memory attach: ranks of a node copy long data straight out of each other's
  // private memory, where the system lets them; otherwise it goes through shared memory (agreed)
  bool cma = true;
  // Who only waits for a neighbour's long copy does a part of it, into the neighbour's memory.
  // QPMESH_COOPERATIVE_COPY: otherwise nobody writes another one's private memory (agreed)
  bool cooperative_copy = true;
  // QPMESH_EAGER_BYTES_MAX: messages longer than this, or than a quarter of the peer's payload
  // ring, go by rendezvous; -1 = 32 KiB, over tcp 256 KiB (agreed)
  std::int64_t eager_bytes_max = -1;
  // QPMESH_UNEXPECTED_BYTES_MAX: not received yet and copied out of the rings, per context
  std::int64_t unexpected_bytes_max = std::int64_t{256} << 20;
  // QPMESH_UNEXPECTED_MESSAGES_MAX: messages received before their receive was called, per
  // context
  std::int64_t unexpected_messages_max = 1 << 20;
  // QPMESH_SPIN_US: how long, about, a wait spins before it offers the core; -1 = by usable cores
  std::int64_t spin_us = -1;
  // QPMESH_DEVICE: an RDMA device, or device:port; empty = chosen
  std::string device;
  // QPMESH_RAILS: devices, or ports, of a host that move a large message over RDMA together
  // (agreed)
  std::int64_t rails = 1;
  // QPMESH_GID_INDEX: an entry of the port's GID table; -1 = chosen by address
  std::int64_t gid_index = -1;
  // QPMESH_TRAFFIC_CLASS: the traffic class of RDMA packets, over IP their DSCP and ECN bits; -1 =
  // the port's own where the system sets one, else 106 over RoCE v2 and 0 elsewhere (agreed)
  std::int64_t traffic_class = -1;
  // QPMESH_SERVICE_LEVEL: the service level of RDMA packets; over RoCE the Ethernet priority, 0 to
  // 7 (agreed)
  std::int64_t service_level = 0;
  // QPMESH_FLOW_LABEL: the flow label of RDMA packets that this rank sends; 0 = the device derives it
  std::int64_t flow_label = 0;
  // QPMESH_PKEY_INDEX: the entry of the port's partition key table; -1 = the first with full
  // membership
  std::int64_t pkey_index = -1;
  // QPMESH_NETDEV: the network interface whose GID, or over tcp address, is used; empty = chosen
  std::string netdev;
  // QPMESH_SUBNET: the address must lie in it, as 10.0.0.0/8; empty = chosen
  std::string subnet;
  // QPMESH_PORTS: where ranks listen for each other over TCP, as 4000-4999; empty = chosen
  std::string ports;
  // QPMESH_ENCRYPT: what goes over a network is encrypted: tcp and control links. Pairs that verbs
  // could join use tcp, too (agreed)
  bool encrypt = false;
  // QPMESH_LINK_TIMEOUT_MS: so long may a peer be silent over RDMA or TCP; 0 = 1 s, in software 8 s
  std::int64_t link_timeout_ms = 0;
  // QPMESH_CHOICE: on a node, and between nodes where data is only moved, algorithms are timed
  // while the program runs, and of those with the same bits the fastest runs; others go by
  // prediction (agreed)
  ChoiceBy choice = ChoiceBy::measured;
  // QPMESH_ALGORITHMS: collective=algorithm, separated by commas; others are chosen (agreed)
  std::string algorithms;
  // QPMESH_TRACE: a timeline of this rank's calls goes to this path with .RANK.json behind it;
  // empty: none
  std::string trace;
  // QPMESH_THREADS: several = any thread may call, and one is inside at a time; with one, a call
  // that another thread's has not ended is Error{bad_argument}
  ThreadUse threads = ThreadUse::one;
  // QPMESH_PROGRESS_THREAD: a thread of the library makes progress while the program computes;
  // threads counts as several
  bool progress_thread = false;
  // QPMESH_PROGRESS_CORE: where that thread runs; -1 = where the process may
  std::int64_t progress_core = -1;
  // QPMESH_LOG
  LogLevel log = LogLevel::warning;

  // Defaults overridden by QPMESH_… variables. Throws Error{bad_config} naming
  // variable, value and allowed range.
  QPMESH_API static Options from_environment();
  // The same, where settings, texts as "QPMESH_TIMEOUT_MS=1000", win over the environment.
  QPMESH_API static Options from_environment(std::span<const std::string_view> settings);
};

}  // namespace qpmesh

// SPDX-License-Identifier: MIT
// What the doctor says: of one host, or of all ranks of a job and of every pair of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/doctor/findings.hpp"
#include "tools/doctor/host.hpp"

namespace qpmesh::doctor {

// One rank and the host it is on.
struct RankReport {
  int rank = 0;
  std::string host{};
  base::Place place{};
  std::string kernel{};
  std::string container{};
  int cores = 0;
  std::vector<Interface> interfaces{};
  std::vector<std::string> rdma_devices{};
  std::vector<Finding> findings{};
};
RankReport report_of(const HostFacts& facts, int rank);

// A call to one of the addresses at which the lower rank listens.
struct Call {
  std::string address{};
  std::string netdev{};  // of the lower rank's host
  int error = 0;         // an errno; 0: connected
};
// A way that would be better than the one that serves, or tcp beside verbs, and why it does not.
struct RefusedWay {
  std::string way{};  // "shm", "verbs", "tcp"
  std::string why{};
  std::string hint{};
  bool by_options = false;  // they exclude it: nothing is wrong
};
enum class Arrival : std::uint8_t { untried, arrived, lost };
// Datagrams that may not be taken apart, from one rank of a pair to the other.
struct Datagrams {
  std::string netdev{};             // that they left by; empty: not known
  int sent_bytes_max = 0;           // of IP packets that the interface takes; 0: not tried
  int arrived_bytes_max = 0;        // 0: none came
  Arrival roce = Arrival::untried;  // UDP port 4791, where no device has it
};

// Two entries of the ranks' GID tables that might talk, and whether they do.
struct GidEnd {
  std::string device{};  // as QPMESH_DEVICE takes it: "rxe0:1"
  int index = 0;
  std::string gid{};
};
struct GidPair {
  GidEnd low{};
  GidEnd high{};
  std::string why{};  // they do not; empty: they do
};

// Fields of a rank's queue pair for its peer. Every packet that the rank sends carries them: data,
// acknowledgements, answers to the peer's reads.
struct PacketFields {
  std::string device{};  // as GidEnd::device; empty: no GIDs of the two can talk
  int traffic_class = 0;
  int service_level = 0;
  int flow_label = 0;
  int pkey_index = 0;
  int pkey = 0;  // the partition key there; 0: unknown
};

// Over verbs, where what is written arrives: the same with long messages read by their receiver.
struct Reads {
  std::int64_t checked_bytes = 0;  // 0: not tried, or they fail
  std::int64_t wrong_bytes = 0;
  double bandwidth_mb_s = 0;  // of 1 MiB messages that the lower rank reads from the higher one
  std::string why{};          // they fail; empty: they do not
  bool wished = false;        // QPMESH_RENDEZVOUS=read
};

struct PairReport {
  int low = 0;  // ranks
  int high = 0;
  std::vector<Call> calls{};          // empty where ranks of one network use a Unix socket
  std::string line{};                 // by what they talked about all this; empty: nothing
  std::string way{};                  // that serves: "shm", "verbs", "tcp"; empty: none
  std::vector<RefusedWay> refused{};  // in the order tried
  std::int64_t checked_bytes = 0;     // written and read back
  std::int64_t wrong_bytes = 0;
  double latency_us = 0;      // of 8 bytes one way: half of a round trip, the median
  double bandwidth_mb_s = 0;  // of 1 MiB messages, from the higher to the lower rank; 10^6 bytes
  double back_mb_s = 0;       // of those from the lower to the higher one
  double both_mb_s = 0;       // of both at once, together
  Reads reads{};
  double tcp_latency_us = 0;    // where verbs joins them: tcp's; 0: not tried, or it fails
  std::vector<GidPair> gids{};  // where verbs was refused, or all were asked for
  int gids_untried = 0;         // pairs of GIDs for which there was no time
  Datagrams from_low{};
  Datagrams from_high{};
  PacketFields packets_from_low{};  // over RDMA, by the GIDs that a job would take
  PacketFields packets_from_high{};
  double clock_offset_ms = 0;  // of the lower rank's clock ahead of the higher's
  std::string failure{};       // what ended the tests early
};

struct Report {
  std::vector<RankReport> ranks{};
  std::vector<PairReport> pairs{};  // empty for one rank
  std::vector<Finding> findings{};  // of pairs
};

// Findings of all ranks together.
std::span<const Check<Report>> pair_checks() noexcept;

bool any_problem(const Report& report) noexcept;

// For people. colours: with the escape sequences of a terminal.
std::string to_text(const Report& report, bool colours);
// For programs: one JSON object, indented; what is unknown is null.
std::string to_json(const Report& report);
// A heat map: a square for each pair, latency above the diagonal, bandwidth below.
std::string to_svg(const Report& report);

// How ranks send each other what they found. Reading throws Error{corrupt} naming the rank.
std::string pack(const RankReport& report);
std::string pack(const std::vector<PairReport>& pairs);
RankReport unpack_rank(const std::string& text, int rank);
std::vector<PairReport> unpack_pairs(const std::string& text, int rank);

}  // namespace qpmesh::doctor

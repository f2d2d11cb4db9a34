// SPDX-License-Identifier: MIT
// All ranks as one of them knows them: what they said of themselves before the first round, and by
// what two of them know each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rank_identity.hpp"
#include "base/system.hpp"
#include "bootstrap/socket.hpp"
#include "qpmesh/bootstrap.hpp"
#include "tools/doctor/host.hpp"

namespace qpmesh::doctor {

using Token = std::array<std::byte, 16>;

// What every rank tells every other before the first round.
struct Guest {
  Token token{};            // a caller proves that it is of this job
  std::string unix_name{};  // empty: none
  std::vector<bootstrap::HostPort> listeners{};
  std::vector<std::string> netdevs{};  // of the listeners
  std::uint16_t datagram_port = 0;
  bool has_roce_port = false;  // it could be bound: no device has it
  std::int32_t cores = 1;
  base::Place place{};
};

Blob encode(const Guest& guest);
Guest decode(BlobView bytes, int rank);  // throws Error{corrupt} naming the rank

// The ranks of the job, seen from one.
struct Ranks {
  int me = 0;
  const HostFacts& facts;  // of this rank's host
  const base::System& system;
  std::vector<Guest> guests{};  // by rank

  const Guest& guest(int rank) const { return guests[static_cast<std::size_t>(rank)]; }
  // For the answer to a word.
  Deadline soon() const { return base::after_ms(system, talk_ms_max); }

  static constexpr std::int64_t talk_ms_max = 5'000;
};

// What a caller begins with, and who is called answers: nobody else could have made it.
struct Greeting {
  std::int32_t rank = 0;
  Token proof{};
};
Greeting greeting(const Ranks& ranks, int from, int to);
// In the datagrams of a pair.
Token datagram_token(const Ranks& ranks, int from, int to);

}  // namespace qpmesh::doctor

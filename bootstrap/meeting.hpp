// SPDX-License-Identifier: MIT
// From "who is there" (a Bootstrap) to ranks that hold each other's memory and know when one dies.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/control_channel.hpp"
#include "base/log.hpp"
#include "base/owned.hpp"
#include "base/process_memory.hpp"
#include "base/rank_identity.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/options.hpp"

namespace qpmesh::bootstrap {

// What this rank gives to every rank of its own host.
struct LocalOffer {
  int arena_fd = -1;  // sealed memfd; its first 8 bytes hold nonce
  std::size_t arena_bytes = 0;
  std::uint64_t nonce = 0;  // proves to the peer that it mapped this memory
  int doorbell_fd = -1;     // eventfd: a peer adds 1 to wake this rank
  // Where the nonce lies in private memory too; 0: nobody is to read that.
  std::uint64_t private_nonce_address = 0;
};

// What this rank brings to a meeting. facts go to every rank as they are.
struct Brought {
  LocalOffer offer{};
  Blob facts{};
};

// What a rank of the same host gave to us. Exists only for peers that proved to share memory.
struct LocalPeer {
  int rank = -1;
  base::UniqueFd arena;
  std::size_t arena_bytes = 0;
  base::UniqueFd doorbell;
  base::ProcessMemory private_memory;  // of nobody where it cannot be read
};

struct Meeting {
  std::vector<base::RankIdentity> ranks;          // in rank order, this one included
  std::vector<LocalPeer> local_peers;             // in rank order, this one left out
  std::unique_ptr<base::ControlChannel> control;  // to every other rank, wherever it is
  std::uint64_t epoch = 0;  // random, the same on every rank, of this incarnation of the job
};

// Throws Error{bad_config} for a rank that is none of the ranks.
void check_place(int rank, int size);

// Collective: two gathers where all ranks are in one place (one kernel, user and namespaces), three
// where they are not. prepare makes what this rank brings; what it throws all ranks throw. Throws
// Error, the same on every rank: mismatch (size, versions: both values), authentication, timeout
// (naming who is missing), link_failed (between which hosts, and every address that was tried),
// no_resource. Nothing is left behind on failure.
Meeting meet(Bootstrap& bootstrap, const Options& options, const base::System& system,
             const base::Log& log, const std::function<Brought()>& prepare, Deadline deadline);

// ---- which ranks share memory ----

// What a rank tells the others of those with whom it shares memory.
struct Neighbours {
  std::vector<int> proved{};  // they hold our memory as we hold theirs; ascending
  bool are_read = false;      // their private memory, of all of them, and there are some
};
Blob encode(const Neighbours& neighbours);
// Of every rank. Throws Error{corrupt} naming the rank whose blob makes no sense.
std::vector<Neighbours> read_neighbours(std::span<const Blob> blobs);

// Node of each rank, by mutual proof; nodes are numbered by their lowest rank. Throws
// Error{mismatch} where rank a proved rank b but not the reverse, or two ranks proved a third but
// not each other.
std::vector<int> number_nodes(std::span<const Neighbours> neighbours);

}  // namespace qpmesh::bootstrap

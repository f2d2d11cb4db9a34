// What every rank tells every rank after it looked for its neighbours: the second blob of a
// meeting, and the last where all ranks are in one place. Where they are not, there is a third of
// the same kind after they looked for the others. A failure of one rank becomes the same Error on
// all.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bootstrap/tcp_socket.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

struct Failure {
  ErrorDetail detail;
  // Somebody else hung up or kept silent: their own report, if there is one, says more.
  bool consequence = false;

  static Failure from_current_exception(int rank);  // inside a catch block
};

struct Outcome {
  std::vector<int> proved;  // ranks of this host that hold our memory as we hold theirs, ascending
  // The private memory of all of these, and there are some; in the second blob only.
  bool reads_neighbours = false;
  std::vector<HostPort> listens_at;  // for ranks that are not of this host; in the second blob only
  std::optional<Failure> failure;

  // Keeps the first report, but a cause in place of a consequence.
  void fail(Failure reported);
  void fail(int peer, ErrorCode code, std::string cause, int error = 0, std::string hint = {},
            bool consequence = false);
};

Blob encode(const Outcome& outcome);

// Throws Error{corrupt} naming the rank whose blob makes no sense.
std::vector<Outcome> read_outcomes(std::span<const Blob> blobs, int size);

// One step of start-up that every rank takes and that may fail on each: gathers what it returned,
// in rank order. Where it threw on some rank, all ranks throw the failure that counts. Collective,
// one all_gather.
std::vector<Blob> agree(Bootstrap& bootstrap, Deadline deadline, const std::function<Blob()>& step);

// Throws the failure that counts, the same on every rank: causes before consequences, then the
// lowest rank's.
void throw_agreed_failure(std::span<const Outcome> outcomes);

// Node of each rank, by mutual proof; nodes are numbered by their lowest rank. Throws
// Error{mismatch} where rank a proved rank b but not the reverse, or two ranks proved a third but
// not each other.
std::vector<int> number_nodes(std::span<const Outcome> outcomes);

}  // namespace qpmesh::bootstrap

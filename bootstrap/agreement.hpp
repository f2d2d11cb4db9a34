// SPDX-License-Identifier: MIT
// What every rank tells every rank after a step of start-up: a failure of one rank becomes the same
// Error on all.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

// As the contract of Bootstrap has it.
inline constexpr std::size_t blob_bytes_max = 64 * 1024;

struct Failure {
  ErrorDetail detail;
  // Somebody else hung up or kept silent: their own report, if there is one, says more.
  bool consequence = false;
};

struct Report {
  Blob result{};
  std::optional<Failure> failure{};

  // Keeps the first failure, but a cause in place of a consequence.
  void fail(ErrorDetail detail, bool consequence = false);
  // Takes a step that can fail alone: its Error is reported as that of the rank, a timeout as a
  // consequence.
  void attempt(int rank, const std::function<void()>& step);
};

// Throws Error{mismatch}: a bootstrap returns one blob per rank.
void require_blob_per_rank(std::span<const Blob> blobs, int size);

Blob encode(const Report& report);

// Throws Error{corrupt} naming the rank whose blob makes no sense.
std::vector<Report> read_reports(std::span<const Blob> blobs, int size);

// Throws the failure that counts, the same on every rank: causes before consequences, then the
// lowest rank's.
void throw_agreed_failure(std::span<const Report> reports);

// Of a step that waits for peers: three quarters of the time. In the rest all ranks agree on the
// outcome, and who waited in vain says for whom.
Deadline leaving_time_to_agree(const base::System& system, Deadline deadline);

// Gathers what all ranks report, in rank order. Where one failed, all ranks throw the failure that
// counts: also a result that is longer than a blob may be. Collective, one all_gather.
std::vector<Blob> agree(Bootstrap& bootstrap, Deadline deadline, const Report& mine);
// The same of one step that every rank takes and that may fail on each.
std::vector<Blob> agree(Bootstrap& bootstrap, Deadline deadline, const std::function<Blob()>& step);

}  // namespace qpmesh::bootstrap

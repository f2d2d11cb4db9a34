// SPDX-License-Identifier: MIT
// A star: rank 0 gathers everyone's blob and gives all of them back. Start-up only; O(N) messages
// at the root, no threads.
//
//   once per all_gather    rank -> root blob, root -> rank everyones (all blobs)
//   instead, either side   failed (an Error): the root's is thrown on all ranks
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/system.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/endpoint.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

struct StarSettings {
  int rank = 0;
  int size = 1;
  int ordinal = 0;                            // which init of this process
  std::string job{};                          // the same on every rank
  std::string ended_ranks_socket{};           // of the qpmesh-run that started us; empty: none
  std::string size_variable = "QPMESH_SIZE";  // for people: who says how many ranks there are
  std::int64_t handshake_timeout_ms = 2'000;  // a silent unauthenticated peer is dropped after it
  std::int64_t progress_ms = 5'000;           // between the root's progress lines; 0 = none
};

// The root listens from construction on; ranks connect in their first all_gather. After an error
// every further all_gather throws the same one. system and log must outlive it.
std::unique_ptr<Bootstrap> make_star(const StarSettings& settings, Endpoint endpoint,
                                     const base::System& system, const base::Log& log);

// What the root's half and a rank's half have in common.
class Star : public Bootstrap {
 public:
  int rank() const final { return settings_.rank; }
  int size() const final { return settings_.size; }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) final;
  void check_ranks() final;

 protected:
  Star(const StarSettings& settings, Endpoint endpoint, const base::System& system,
       const base::Log& log)
      : settings_{settings},
        endpoint_{std::move(endpoint)},
        system_{system},
        log_{log},
        ended_ranks_{connect_to_ended_ranks(system, settings.ended_ranks_socket)} {}

  virtual std::vector<Blob> gather(BlobView mine, Deadline deadline) = 0;
  // Reads what is here between two gathers. Throws where it ends the start.
  virtual void look() = 0;
  // To those who wait for this rank, as far as their sockets take it now.
  virtual void tell(const ErrorDetail& failure) = 0;
  long long elapsed_ms() const;  // of this all_gather

  const StarSettings settings_;
  const Endpoint endpoint_;
  const base::System& system_;
  const base::Log& log_;
  base::UniqueFd ended_ranks_;

 private:
  // Its Error is that of all further calls.
  void keep_error(const std::function<void()>& step);

  Deadline started_;
  std::optional<Error> broken_;
};
std::unique_ptr<Star> make_star_root(const StarSettings&, Endpoint, const base::System&,
                                     const base::Log&);

}  // namespace qpmesh::bootstrap

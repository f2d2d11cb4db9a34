// A star: rank 0 gathers everyone's blob and gives all of them back. Start-up only; O(N) messages
// at the root, no threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/system.hpp"
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

// What a rank should look into whose fellows do not come.
std::string hint_for_missing(const StarSettings& settings, const Endpoint& endpoint);

// The root's half or a rank's half.
class StarHalf {
 public:
  virtual ~StarHalf() = default;
  virtual std::vector<Blob> all_gather(BlobView mine, Deadline deadline) = 0;
  virtual std::string local_address() const = 0;
};
std::unique_ptr<StarHalf> make_star_root(const StarSettings&, Endpoint&, const base::System&,
                                         const base::Log&);
std::unique_ptr<StarHalf> make_star_rank(const StarSettings&, Endpoint&, const base::System&,
                                         const base::Log&);

// The root listens from construction on; ranks connect in their first all_gather. After an error
// every further all_gather throws the same one. system and log must outlive it.
class Star final : public Bootstrap {
 public:
  Star(const StarSettings& settings, std::unique_ptr<Endpoint> endpoint, const base::System& system,
       const base::Log& log);

  int rank() const override { return settings_.rank; }
  int size() const override { return settings_.size; }
  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override;
  // The one by which the root is reached.
  std::string local_address() const override { return half_->local_address(); }

 private:
  StarSettings settings_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<StarHalf> half_;
  std::optional<Error> broken_;
};

}  // namespace qpmesh::bootstrap

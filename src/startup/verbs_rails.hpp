// SPDX-License-Identifier: MIT
// By which devices and ports the ranks are joined over verbs: a first rail, and a second one for
// pairs of ranks that have other ports, too (docs/decisions/0025-two-rails.md). The offers are all
// that is gathered: every rank computes the same from them. Nothing stays open here.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "context/parts.hpp"
#include "qpmesh/bootstrap.hpp"
#include "startup/reach.hpp"
#include "transport/verbs/selection/choice.hpp"
#include "transport/verbs/selection/pairing.hpp"
#include "transport/verbs/self_test.hpp"
#include "transport/verbs/transport.hpp"

namespace qpmesh::startup {

// One device and port of every rank, and what they join. The second rail joins some of the pairs
// that the first one does, or none.
struct RailChoice {
  std::vector<transport::verbs::selection::Offer> offers;      // by rank; restricted to the ports
  std::vector<transport::verbs::selection::PortChoice> ports;  // by rank; empty: nobody looked
  std::vector<int> peers;                                      // of this rank
  // Ranks of one host mostly offer the same. By rank: the first rank with an equal offer.
  std::vector<int> alike;
  // Of two of these: found out once for all ranks that offer the same.
  mutable std::map<std::pair<int, int>, transport::verbs::selection::Pairs> known_pairs;

  // low < high: ranks.
  const transport::verbs::selection::Pairs& pairs_between(int low, int high) const;
  // This rank and that one.
  bool joins(int peer) const;
};

// This rank's device, port and endpoint are asked for on a rail that joins it to some peer, and not
// elsewhere.
class VerbsRails {
 public:
  // rails_max: how many devices or ports of a rank may be used, 1 or 2. The others outlive this.
  VerbsRails(Reach& reach, const context::ContextParts& parts, int rails_max)
      : reach_{reach}, parts_{parts}, rails_max_{rails_max} {}

  // Collective, once, before all else. Pairs that no ports join go another way in reach, or
  // Error{no_resource} is thrown where the options allow none, and Error{bad_config} where no port
  // of a rank has the service level or partition key that it asks for: on all ranks alike, as is
  // what is returned. False: verbs joins no pair.
  bool choose(Bootstrap& bootstrap, Deadline deadline);

  const RailChoice& first() const { return chosen_.front(); }
  const RailChoice& second() const { return chosen_.back(); }
  // Whether the second joins some pair of the job: the same on every rank.
  bool has_second() const { return has_second_; }

  const transport::verbs::selection::DeviceFacts& device_of(const RailChoice& rail) const;
  const transport::verbs::selection::PortChoice& port_of(const RailChoice& rail) const;
  const transport::verbs::selection::Endpoint& endpoint_of(const RailChoice& rail) const;
  // peer: one that the rail joins. theirs: what it relies on.
  transport::verbs::PeerPaths paths_to(
      int peer, const RailChoice& rail,
      const transport::verbs::selection::Notifications& theirs) const;

  // Tests the devices that fall to this rank: of the ranks that use a device one tests it for all,
  // because at the same time they would disturb each other. What is returned goes to all ranks.
  Blob test() const;
  // What that rank relies on, by its devices and options and by what was seen: of two rails no more
  // than both keep, because the second may have to carry records, too. tests: by rank, of test().
  transport::verbs::selection::Notifications relied_on(int rank,
                                                       const std::vector<Blob>& tests) const;

 private:
  struct Tester {
    int rank;
    std::size_t rail;
  };

  int size() const { return static_cast<int>(parts_.identities.size()); }
  const std::string& host(int rank) const;
  transport::verbs::selection::Offer make_own_offer(const std::string& bootstrap_address);
  // all: the offers, by rank. Returns how many pairs it joins.
  int choose_first(const std::vector<transport::verbs::selection::Offer>& all,
                   const std::vector<int>& node_ids);
  void choose_second(std::vector<transport::verbs::selection::Offer> all,
                     const std::vector<int>& node_ids);
  // Of what that rank uses on this rail.
  Tester tester_of(const RailChoice& rail, int user) const;
  bool is_used(const RailChoice& rail, int rank) const;
  transport::verbs::selection::Notifications believed(const RailChoice& rail) const;
  Blob test(const RailChoice& rail) const;

  Reach& reach_;
  const context::ContextParts& parts_;
  int rails_max_;
  bool has_second_ = false;
  std::vector<transport::verbs::selection::DeviceFacts> devices_;  // of this rank
  std::array<RailChoice, 2> chosen_;
};

}  // namespace qpmesh::startup

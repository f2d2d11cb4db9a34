// SPDX-License-Identifier: MIT
// Tells ranks that start up which ranks have ended (bootstrap/ended_ranks.hpp).
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::run {

class EndNotices {
 public:
  // Where the socket cannot be had, nobody is told: ranks wait as they do without qpmesh-run.
  EndNotices(const base::System& system, const std::string& job)
      : system_{system},
        listener_{bootstrap::listen_at(system,
                                       bootstrap::unix_address(bootstrap::ended_ranks_socket(job)))
                      .socket} {}

  // What to poll for now.
  void ask(std::vector<pollfd>& polled) const;
  // Lets ranks in, and those go that have hung up.
  void step();
  // To every rank that listens, and to those that come later.
  void tell(const bootstrap::EndedRank& ended);

 private:
  void send(const base::UniqueFd& rank, const bootstrap::EndedRank& ended) const;

  const base::System& system_;
  base::UniqueFd listener_;
  std::vector<base::UniqueFd> ranks_;
  std::vector<bootstrap::EndedRank> ended_;
};

}  // namespace qpmesh::run

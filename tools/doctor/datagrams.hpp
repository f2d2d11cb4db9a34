// SPDX-License-Identifier: MIT
// Datagrams that may not be taken apart, both ways between the two ranks of a pair: how long ones
// arrive, and whether those to the port of RoCE do.
#pragma once

#include "base/owned.hpp"
#include "tools/doctor/guests.hpp"
#include "tools/doctor/line.hpp"
#include "tools/doctor/report.hpp"

namespace qpmesh::doctor {

class DatagramPorts {
 public:
  DatagramPorts();  // what cannot be bound is not there
  void tell(Guest& mine) const;
  // Both ranks call it; over IP alone. Throws Error as Line does.
  void try_both_ways(const Ranks& ranks, Line& line, PairReport& pair) const;

 private:
  Datagrams receive(const Ranks& ranks, Line& line, int peer) const;

  base::UniqueFd any_;
  base::UniqueFd roce_;
};

}  // namespace qpmesh::doctor

// SPDX-License-Identifier: MIT
// On which hosts the ranks of a job run, and how many on each, as people write it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qpmesh::run {

struct HostSlots {
  std::string name;  // as ssh takes it: "a", "user@a", "10.0.0.1", "fd00::1"
  int slots = 1;

  bool operator==(const HostSlots&) const = default;
};

// "a:4,b:4": names in the order of their ranks; without a number one rank. A name that comes again
// adds to its first place. An IPv6 address stands in brackets. Throws RunError{2} that says what is
// wrong where.
std::vector<HostSlots> parse_hosts(std::string_view list);

// One host a line: "a", "a:4" or "a slots=4"; blank lines, and what follows a '#', are left out.
// Throws RunError{2} naming the file and the line.
std::vector<HostSlots> read_hostfile(const std::string& path);

// The first size slots, in their order: ranks go to the first host until it is full. size 0: all of
// them. Throws RunError{2} where there are not so many.
std::vector<HostSlots> take_slots(std::vector<HostSlots> hosts, int size);

// Whether the name is that of the host where we run: "localhost", or the host's own name with or
// without its domain. Other names, and addresses, are asked over ssh.
bool is_this_host(std::string_view name);

}  // namespace qpmesh::run

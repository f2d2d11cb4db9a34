// Where the ranks of a star meet: all that one host and TCP differ in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/owned.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {

// Where somebody may be found, to be tried in turn; or why nowhere.
struct Resolved {
  std::vector<Address> addresses;
  std::string problem;
  int error = 0;  // errno, where the problem has one
};
// taken: a process of another user has answered at one of the addresses.
using Resolve = std::function<Resolved(bool taken)>;

struct Endpoint {
  std::string name;         // for people, as all texts here: "127.0.0.1:4000"
  std::string terms;        // what ranks must have in common to meet here
  std::string secret_hint;  // where this rank's secret comes from
  Key key{};                // proofs are made with it
  // The root's listening socket. Throws Error{bad_config} when the address is taken or not ours.
  std::function<base::UniqueFd()> listen;
  Resolve resolve;
};

}  // namespace qpmesh::bootstrap

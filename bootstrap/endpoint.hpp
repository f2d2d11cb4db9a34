// SPDX-License-Identifier: MIT
// Where the ranks of a star meet: all that one host and TCP differ in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
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
// From which address of this host a TCP target is called; no address: from none. Empty: the system
// chooses.
using ChooseSource = std::function<Address(const Address& target)>;

struct Endpoint {
  std::string name;         // for people, as all texts here: "127.0.0.1:4000"
  std::string secret_hint;  // where this rank's secret comes from
  // What ranks must have in common to meet here, by what the last listen or resolve found.
  std::function<std::string()> terms;
  Key key{};  // proofs are made with it
  // The root's listening socket. Throws Error{bad_config} when the address is taken or not ours.
  std::function<base::UniqueFd()> listen;
  Resolve resolve;
};

// On one host: an abstract Unix socket. The kernel says whose process is at the other end; no
// secret is needed, unless another user has taken the name.

// Whether a job's name may stand in that of a socket: no odd characters, and 64 at most.
bool is_plain_name(std::string_view job);

// The socket's name behind the leading zero byte. Jobs of another user, other jobs, and other init
// calls have other names. Anybody can know it, and anybody of this host can take it.
std::string one_host_name(uid_t uid, const std::string& job, int ordinal);

// What only those can know, and take, who know the secret.
std::string private_name(std::string_view secret, const std::string& name);

// Where the ranks meet when another user has taken the name. may_make_secret: whether the user's
// secret is made where there is none yet. Empty: there is no secret.
using PrivateName = std::function<std::string(bool may_make_secret)>;

// Ranks try the name and, where they have a secret, the private one.
Endpoint one_host_endpoint(const std::string& name, const PrivateName& private_name,
                           const base::System& system);

// Between hosts: TCP to the root's address. Both ends prove that they know the job's secret.

// "host:port", "[::1]:port". Throws Error{bad_config} naming the variable and the text.
HostPort parse_host_port(std::string_view text, std::string_view variable);

// What proofs are made with: the secret, hashed for this use alone.
Key key_from_secret(std::string_view secret);

// secret_source is for people: where the secret came from.
Endpoint tcp_endpoint(const HostPort& root, std::string_view secret, std::string_view secret_source,
                      const base::System& system);

}  // namespace qpmesh::bootstrap

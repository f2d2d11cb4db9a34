// The star of one host: an abstract Unix socket. The kernel says whose process is at the other end;
// no secret is needed, unless another user has taken the name.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/system.hpp"
#include "bootstrap/endpoint.hpp"

namespace qpmesh::bootstrap {

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

}  // namespace qpmesh::bootstrap

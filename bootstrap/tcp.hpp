// The star between hosts: TCP to the root's address. Both ends prove that they know the job's
// secret.
#pragma once

#include <string>
#include <string_view>

#include "base/system.hpp"
#include "bootstrap/endpoint.hpp"

namespace qpmesh::bootstrap {

// "host:port", "[::1]:port"; port 0 only where the test says so. Throws Error{bad_config} naming
// the variable and the text.
HostPort parse_host_port(std::string_view text, std::string_view variable, bool zero_port = false);

// What proofs are made with: the secret, hashed for this use alone.
Key key_from_secret(std::string_view secret);

// secret_source is for people: where the secret came from.
Endpoint tcp_endpoint(const HostPort& root, std::string_view secret, std::string_view secret_source,
                      const base::System& system);

}  // namespace qpmesh::bootstrap

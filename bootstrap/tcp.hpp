// The star between hosts: TCP to the root's address. Both ends prove that they know the job's
// secret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/system.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/tcp_socket.hpp"

namespace qpmesh::bootstrap {

// "host:port", "[::1]:port"; port 0 only where the test says so. Throws Error{bad_config} naming
// the variable and the text.
HostPort parse_host_port(std::string_view text, std::string_view variable, bool zero_port = false);

// What proofs are made with: the secret, hashed for this use alone.
Key key_from_secret(std::string_view secret);

class TcpEndpoint final : public Endpoint {
 public:
  // secret_source is for people: where the secret came from.
  TcpEndpoint(HostPort root, const Key& key, std::string secret_source,
              std::int64_t attempt_timeout_ms, const base::System& system)
      : root_{std::move(root)},
        key_{key},
        secret_source_{std::move(secret_source)},
        attempt_timeout_ms_{attempt_timeout_ms},
        system_{system} {}

  // Binds the root's address and nothing else; a wildcard only when the address is one.
  base::UniqueFd listen() override;
  Attempt connect(Deadline deadline) override;
  // The kernel knows nothing of the other host: its proof has to do.
  std::optional<std::string> reject_reason(int) const override { return std::nullopt; }
  int prepare(int fd) const override;
  std::string local_address(int fd) const override;
  std::string describe() const override { return to_string(root_); }
  std::string terms() const override {
    return "have the same QPMESH_ROOT, be of one job (QPMESH_JOB) and know its secret";
  }
  const Key& key() const override { return key_; }
  std::string secret_hint() const override;

  // After listen with the real port.
  const HostPort& address() const noexcept { return root_; }
  std::uint16_t port() const noexcept { return root_.port; }

 private:
  HostPort root_;
  Key key_;
  std::string secret_source_;
  std::int64_t attempt_timeout_ms_;
  const base::System& system_;
};

}  // namespace qpmesh::bootstrap

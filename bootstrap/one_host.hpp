// The star of one host: an abstract Unix socket. The kernel says whose process is at the other end;
// no secret is needed.
#pragma once

#include <sys/types.h>
#include <string>

#include "base/system.hpp"
#include "bootstrap/endpoint.hpp"

namespace qpmesh::bootstrap {

// The socket's name behind the leading zero byte. Jobs of another user, other jobs, and other init
// calls have other names.
std::string one_host_name(uid_t uid, const std::string& job, int ordinal);

class OneHostEndpoint final : public Endpoint {
 public:
  OneHostEndpoint(std::string name, const base::System& system) : name_{std::move(name)}, system_{system} {}

  base::UniqueFd listen() override;
  Attempt connect(Deadline deadline) override;
  std::optional<std::string> reject_reason(int fd) const override;
  int prepare(int) const override { return 0; }
  std::string local_address(int) const override { return {}; }
  std::string describe() const override { return "@" + name_; }
  std::string terms() const override;
  const Key& key() const override { return key_; }
  std::string secret_hint() const override { return {}; }

 private:
  std::string name_;
  const base::System& system_;
  Key key_{};  // known to all: proofs only catch confusion here, SO_PEERCRED authenticates
};

}  // namespace qpmesh::bootstrap

// The star of one host: an abstract Unix socket. The kernel says whose process is at the other end;
// no secret is needed, unless another user has taken the name.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/system.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/local_socket.hpp"

namespace qpmesh::bootstrap {

// The socket's name behind the leading zero byte. Jobs of another user, other jobs, and other init
// calls have other names. Anybody can know it, and anybody of this host can take it.
std::string one_host_name(uid_t uid, const std::string& job, int ordinal);

// What only those can know, and take, who know the secret.
std::string private_name(std::string_view secret, const std::string& name);

// Where the ranks meet when another user has taken the name. may_make_secret: whether the user's
// secret is made where there is none yet. Empty: there is no secret.
using PrivateName = std::function<std::string(bool may_make_secret)>;

class OneHostEndpoint final : public Endpoint {
 public:
  OneHostEndpoint(std::string name, PrivateName private_name, const base::System& system)
      : name_{std::move(name)}, private_name_{std::move(private_name)}, system_{system} {}

  base::UniqueFd listen() override;
  // Tries the name, and where another user or nobody listens there, the private one.
  Attempt connect(Deadline deadline) override;
  // For the root these are the credentials at connect, for a rank those at listen: in both cases of
  // whoever made the call.
  std::optional<std::string> reject_reason(int fd) const override;
  int prepare(int) const override { return 0; }
  std::string local_address(int) const override { return {}; }
  std::string describe() const override { return "@" + name_; }
  std::string terms() const override;
  const Key& key() const override { return key_; }
  std::string secret_hint() const override { return {}; }

 private:
  bool taken_by_another_user() const;

  std::string name_;
  PrivateName private_name_;
  std::string second_name_;  // once it is known
  const base::System& system_;
  Key key_{};  // known to all: proofs only catch confusion here, SO_PEERCRED authenticates
};

}  // namespace qpmesh::bootstrap

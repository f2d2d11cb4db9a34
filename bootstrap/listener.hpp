// Where a rank hears the calls of ranks that are not in its place.
#pragma once

#include <poll.h>

#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/system.hpp"
#include "bootstrap/acceptor.hpp"
#include "bootstrap/introduction.hpp"
#include "bootstrap/tcp.hpp"

namespace qpmesh::bootstrap {

// Whether two ranks have the same interfaces, loopback among them.
bool same_network(const Introduction& a, const Introduction& b);

// What calls to this rank are proven with. Made of what every rank put into the first gather: only
// ranks of this meeting know it. Each rank's is another one, so that what was proven to one proves
// nothing to the next.
Key key_of_listener(std::span<const Introduction> everybody, int rank);

// Listens from construction on, at particular addresses and ports that the kernel chooses.
class Listener {
 public:
  struct Settings {
    int rank = 0;
    std::string bootstrap_address{};  // Bootstrap::local_address
    std::int64_t handshake_timeout_ms = 2'000;
  };

  // An address at which this rank cannot listen is left out, with a line in the log. Throws
  // Error{no_resource} where none is left.
  Listener(const Settings& settings, std::span<const Introduction> everybody,
           const base::System& system, const base::Log& log);

  std::vector<HostPort> addresses() const;
  const Key& key() const noexcept { return key_; }

  // As of Acceptor, for all addresses.
  Deadline watch(std::vector<pollfd>& polled, Deadline wake);
  std::vector<AuthenticatedPeer> serve(std::span<const pollfd> entries);
  // Answers an authenticated peer who may not come in, and why.
  void refuse(AuthenticatedPeer caller, const std::string& cause);
  // The errno of the last call that could not be heard for want of descriptors or memory, or 0.
  int accept_error() const noexcept;

 private:
  struct BoundAddress {
    TcpEndpoint endpoint;
    Acceptor acceptor;
    std::size_t watched_entries = 0;  // by the last watch

    BoundAddress(const std::string& host, const Key& key, const AcceptorSettings& settings,
                 const base::System& system, const base::Log& log)
        : endpoint{{host, 0}, key, "this meeting", settings.handshake_timeout_ms, system},
          acceptor{settings, endpoint, system, log} {}
  };

  Key key_;
  std::list<BoundAddress> bound_;  // stay where they are: acceptors refer to their endpoints
};

}  // namespace qpmesh::bootstrap

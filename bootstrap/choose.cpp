#include <fmt/format.h>
#include <unistd.h>

#include "bootstrap/alone.hpp"
#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/environment.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/one_host.hpp"
#include "bootstrap/secret.hpp"
#include "bootstrap/star.hpp"
#include "bootstrap/tcp.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

std::unique_ptr<Bootstrap> make_bootstrap(const Identity& identity, int ordinal,
                                          const Options& options, const base::System& system,
                                          const base::Log& log) {
  if (identity.size == 1) return std::make_unique<Alone>();
  std::unique_ptr<Endpoint> endpoint;
  if (identity.root.empty()) {
    const std::string name = one_host_name(::geteuid(), identity.job, ordinal);
    const auto name_by_secret = [name](bool may_make_secret) -> std::string {
      try {
        const Secret secret = find_secret(process_environment(), {}, may_make_secret);
        return secret.value.empty() ? std::string{} : private_name(secret.value, name);
      } catch (const Error&) {
        return {};
      }
    };
    endpoint = std::make_unique<OneHostEndpoint>(name, name_by_secret, system);
  } else {
    if (identity.secret.empty()) fail_config("a job over TCP needs a secret and has none");
    if (identity.secret_made_now)
      log.warning("made a new secret for jobs over TCP: {}", identity.secret_source);
    endpoint = std::make_unique<TcpEndpoint>(
        parse_host_port(identity.root, "QPMESH_ROOT"), key_from_secret(identity.secret),
        identity.secret_source, options.handshake_timeout_ms, system);
  }
  log.debug("rank {} of {} (launcher {}) meets the others at {}", identity.rank, identity.size,
            identity.launcher, endpoint->describe());
  const StarSettings settings{.rank = identity.rank,
                              .size = identity.size,
                              .ordinal = ordinal,
                              .job = identity.job,
                              .ended_ranks_socket = identity.launcher == "qpmesh"
                                                        ? ended_ranks_socket(identity.job)
                                                        : std::string{},
                              .size_variable = identity.size_variable,
                              .handshake_timeout_ms = options.handshake_timeout_ms,
                              .progress_ms = options.stall_warning_ms};
  return std::make_unique<Star>(settings, std::move(endpoint), system, log);
}

}  // namespace qpmesh::bootstrap

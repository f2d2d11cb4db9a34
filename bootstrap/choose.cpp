// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include "bootstrap/alone.hpp"
#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/star.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {

namespace {

Endpoint on_one_host(const std::string& job, int ordinal, const base::System& system) {
  const std::string name = one_host_name(::geteuid(), job, ordinal);
  const auto name_by_secret = [name](bool may_make_secret) -> std::string {
    try {
      const Secret secret = find_secret(process_environment(), {}, may_make_secret);
      return secret.value.empty() ? std::string{} : private_name(secret.value, name);
    } catch (const Error&) {
      return {};
    }
  };
  return one_host_endpoint(name, name_by_secret, system);
}

Endpoint over_tcp(const Identity& identity, const base::System& system, const base::Log& log) {
  if (identity.secret.value.empty()) fail_config("a job over TCP needs a secret and has none");
  if (identity.secret.made_now)
    log.warning("made a new secret for jobs over TCP: {}{}", identity.secret.source,
                identity.launcher == "open_mpi" ? "; mpirun of Open MPI 5 gives a job no key" : "");
  return tcp_endpoint(parse_host_port(identity.root, "QPMESH_ROOT"), identity.secret.value,
                      identity.secret.source, system);
}

}  // namespace

std::unique_ptr<Bootstrap> make_bootstrap(const Identity& identity, int ordinal,
                                          const Options& options, const base::System& system,
                                          const base::Log& log) {
  if (identity.size == 1) return std::make_unique<Alone>();
  Endpoint endpoint = identity.root.empty() ? on_one_host(identity.job, ordinal, system)
                                            : over_tcp(identity, system, log);
  log.debug("rank {} of {} (launcher {}) meets the others at {}", identity.rank, identity.size,
            identity.launcher, endpoint.name);
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
  return make_star(settings, std::move(endpoint), system, log);
}

}  // namespace qpmesh::bootstrap

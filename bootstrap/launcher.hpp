// SPDX-License-Identifier: MIT
// Who this process is, as its launcher says in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/system.hpp"
#include "qpmesh/bootstrap.hpp"
#include "qpmesh/export.h"
#include "qpmesh/options.hpp"

namespace qpmesh::bootstrap {

// How the environment is read; tests pass a table.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment process_environment();

[[noreturn]] void fail_config(std::string cause, std::string hint = {});
// Of a variable that is not what it must be: names it, its value and what is allowed. The hint says
// where the variable is explained, or who sets it.
[[noreturn]] void fail_variable(std::string_view name, std::string_view value,
                                std::string_view allowed);

// All of text as a decimal number, or nothing. No sign, no blanks, no "0x".
std::optional<std::int64_t> parse_number(std::string_view text) noexcept;

// Of a job over TCP.
struct Secret {
  std::string value;
  std::string source;     // for people, never the value: "the file /home/a/.config/qpmesh/secret"
  bool made_now = false;  // the user's new one, to be copied to hosts without this home
};

// QPMESH_SECRET_FILE, else QPMESH_SECRET, else the launcher's key for this job (launcher_variable,
// where it has one), else ~/.config/qpmesh/secret, which is made at first use. Without may_make the
// value is empty where the file is not there yet. Throws Error{bad_config}.
Secret find_secret(const Environment& environment, std::string_view launcher_variable,
                   bool may_make = true);

struct Identity {
  std::string launcher;       // "open_mpi", "hydra", "srun", "torchrun", "qpmesh", "alone"
  std::string size_variable;  // which variable says how many we are; empty when alone
  int rank = 0;
  int size = 1;
  int local_size = 1;  // ranks of this host, as the launcher says; size when it does not
  std::string job;     // the same on every rank of a job, different between jobs; never secret
  std::string root;    // "host:port" of the TCP bootstrap; empty where one host is enough
  Secret secret;       // wherever it was found (docs/design.md, Identity); empty on one host
};

// Precedence: QPMESH_RANK/SIZE, Open MPI, Hydra, srun, torchrun; none of them: alone. QPMESH_ROOT,
// QPMESH_JOB and the secret's variables hold under every launcher. Ranks of one host meet without
// an address; QPMESH_ROOT forces TCP. Throws Error{bad_config} naming the variable, its value and
// what is allowed; Error{bad_config} too when a launcher says that we are many but nothing says how
// to meet.
Identity identify(const Environment& environment);

// The bootstrap that fits the identity: alone, one host over a Unix socket, or TCP. ordinal counts
// init calls of this process, so that a second init of the same job does not meet the first. system
// and log must outlive the bootstrap.
std::unique_ptr<Bootstrap> make_bootstrap(const Identity& identity, int ordinal,
                                          const Options& options, const base::System& system,
                                          const base::Log& log);

}  // namespace qpmesh::bootstrap

namespace qpmesh::detail {

// How many ranks the launcher's environment claims, and in which variable. Exported for the MPI
// bootstrap, which is a library of its own.
struct ClaimedSize {
  int size;
  std::string variable;
};
QPMESH_API ClaimedSize claimed_size();

}  // namespace qpmesh::detail

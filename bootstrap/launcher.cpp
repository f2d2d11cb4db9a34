// SPDX-License-Identifier: MIT
#include "bootstrap/launcher.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "bootstrap/endpoint.hpp"
#include "bootstrap/init_error.hpp"

// The launcher nearest to the process comes first. Open MPI and Hydra start their daemons through
// srun inside a Slurm allocation, so they come before srun; torchrun's names are the least specific
// and come last.

namespace qpmesh::bootstrap {
namespace {

constexpr std::int64_t ranks_max = 65'536;

// What to do about a variable, by whose it is.
std::string hint_for(std::string_view name) {
  if (name.starts_with("QPMESH_")) return "docs/options.md lists every variable";
  return "the launcher sets it; where QPMESH_RANK and QPMESH_SIZE are set, no launcher is asked";
}

[[noreturn]] void fail_missing(std::string_view name, std::string_view launcher,
                               std::string_view allowed) {
  fail_config(fmt::format("{} is not set, although the environment is that of {}; allowed is {}",
                          name, launcher, allowed),
              name.starts_with("QPMESH_")
                  ? "QPMESH_RANK and QPMESH_SIZE are set together, or neither"
                  : hint_for(name));
}

std::string required_text(const Environment& environment, std::string_view name,
                          std::string_view launcher) {
  if (auto value = environment(name)) return *std::move(value);
  fail_missing(name, launcher, "a word");
}

std::optional<std::int64_t> number(const Environment& environment, std::string_view name,
                                   std::int64_t least, std::int64_t most) {
  const auto value = environment(name);
  if (!value) return std::nullopt;
  const auto parsed = parse_number(*value);
  if (!parsed || *parsed < least || *parsed > most)
    fail_variable(name, *value, fmt::format("a number from {} to {}", least, most));
  return parsed;
}

std::int64_t required_number(const Environment& environment, std::string_view name,
                             std::int64_t least, std::int64_t most, std::string_view launcher) {
  if (const auto value = number(environment, name, least, most)) return *value;
  fail_missing(name, launcher, fmt::format("a number from {} to {}", least, most));
}

// In which variables a launcher says who we are.
struct LauncherVariables {
  std::string_view launcher;
  std::string_view title;  // for people
  std::string_view rank;
  std::string_view size;
  std::string_view local_size{};  // need not be set: then all ranks are of this host
};

// All but the job.
Identity read_identity(const Environment& environment, const LauncherVariables& names) {
  const auto size = required_number(environment, names.size, 1, ranks_max, names.title);
  const auto rank = required_number(environment, names.rank, 0, ranks_max - 1, names.title);
  if (rank >= size) {
    fail_variable(
        names.rank, fmt::format("{}", rank),
        fmt::format("a number from 0 to {}, because {} is {}", size - 1, names.size, size));
  }
  Identity identity;
  identity.launcher = names.launcher;
  identity.size_variable = names.size;
  identity.rank = static_cast<int>(rank);
  identity.size = static_cast<int>(size);
  identity.local_size =
      static_cast<int>(number(environment, names.local_size, 1, size).value_or(size));
  return identity;
}

// QPMESH_RANK, QPMESH_SIZE: set by hand or by qpmesh-run.
std::optional<Identity> from_qpmesh(const Environment& environment) {
  if (!environment("QPMESH_RANK") && !environment("QPMESH_SIZE")) return std::nullopt;
  Identity identity =
      read_identity(environment, {.launcher = "qpmesh",
                                  .title = "a rank started by hand or by qpmesh-run",
                                  .rank = "QPMESH_RANK",
                                  .size = "QPMESH_SIZE",
                                  .local_size = "QPMESH_LOCAL_SIZE"});
  identity.job = "default";
  return identity;
}

std::optional<Identity> from_open_mpi(const Environment& environment) {
  if (!environment("OMPI_COMM_WORLD_RANK") && !environment("OMPI_COMM_WORLD_SIZE"))
    return std::nullopt;
  Identity identity = read_identity(environment, {.launcher = "open_mpi",
                                                  .title = "Open MPI's mpirun",
                                                  .rank = "OMPI_COMM_WORLD_RANK",
                                                  .size = "OMPI_COMM_WORLD_SIZE",
                                                  .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE"});
  identity.job = environment("PMIX_NAMESPACE").value_or("");
  return identity;
}

// Process id and start time: unique on a host until it boots again. Field 22 of stat, counted
// behind the name's last bracket.
std::optional<std::string> process_name(pid_t pid) {
  std::ifstream file{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  std::istringstream fields{text.substr(text.rfind(')') + 1)};
  std::string start;
  for (int field = 3; field <= 22; ++field) fields >> start;
  return fields ? std::optional{fmt::format("{}-{}", pid, start)} : std::nullopt;
}

// Hydra puts no job id into the environment. Asking for it over PMI-1 would make this a process
// that Hydra expects to finalise, and kills the whole job over when it does not (seen with 4.0.2).
// But PMI_FD is one end of a socket pair that this host's proxy made, and the kernel remembers who:
// the proxy's process is the job's name, also through `sh -c './a; ./b'`.
std::string hydra_job(const Environment& environment) {
  const auto fd = number(environment, "PMI_FD", 0, 1 << 20);
  if (!fd) return {};
  const int socket = static_cast<int>(*fd);
  Credentials peer;
  if (local_address(socket).family() != AF_UNIX ||
      read_credentials(base::System{}, socket, peer) != 0 || peer.pid <= 0)
    return {};
  const auto name = process_name(peer.pid);
  return name ? "hydra-" + *name : std::string{};
}

std::optional<Identity> from_hydra(const Environment& environment) {
  if (!environment("PMI_RANK") && !environment("PMI_SIZE")) return std::nullopt;
  // Under srun with a PMI plugin the two are set as well; only Hydra adds the local size.
  if (!environment("MPI_LOCALNRANKS") && environment("SLURM_STEP_ID")) return std::nullopt;
  Identity identity = read_identity(environment, {.launcher = "hydra",
                                                  .title = "Hydra's mpiexec",
                                                  .rank = "PMI_RANK",
                                                  .size = "PMI_SIZE",
                                                  .local_size = "MPI_LOCALNRANKS"});
  identity.job = hydra_job(environment);
  return identity;
}

// Below Linux's range for outgoing connections.
constexpr std::uint64_t ports_first = 10'000;
constexpr std::uint64_t ports_count = 22'768;

// A port that every rank derives alike from what it knows of the job.
std::uint16_t derived_port(std::uint64_t number) {
  return static_cast<std::uint16_t>(ports_first + number % ports_count);
}

// "2,1" or "4(x2),3": tasks of each node of the step.
std::optional<std::int64_t> tasks_of_node(std::string_view list, std::int64_t node) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list = entry.size() < list.size() ? list.substr(entry.size() + 1) : std::string_view{};
    const auto bracket = entry.find("(x");
    const auto tasks = parse_number(entry.substr(0, bracket));
    std::optional<std::int64_t> nodes = 1;
    if (bracket != std::string_view::npos) {
      if (!entry.ends_with(')')) return std::nullopt;
      nodes = parse_number(entry.substr(bracket + 2, entry.size() - bracket - 3));
    }
    if (!tasks || *tasks < 1 || !nodes || *nodes < 1) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

int srun_local_size(const Environment& environment, int size) {
  for (const std::string_view name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const auto list = environment(name);
    if (!list) continue;
    const auto node = number(environment, "SLURM_NODEID", 0, ranks_max).value_or(0);
    const auto tasks = tasks_of_node(*list, node);
    if (!tasks || *tasks > size) {
      fail_variable(
          name, *list,
          fmt::format("a list like 4(x2),3 that gives node {} from 1 to {} tasks", node, size));
    }
    return static_cast<int>(*tasks);
  }
  return static_cast<int>(number(environment, "SLURM_NTASKS_PER_NODE", 1, size).value_or(size));
}

// The first of "node[01-04,7],login2": "node01". Of several brackets each gives its first number.
std::string first_of_hosts(std::string_view list) {
  std::string first;
  bool inside = false;
  bool skipped = false;  // the rest of a bracket
  for (const char c : list) {
    if (c == '[') {
      inside = true;
      skipped = false;
    } else if (c == ']') {
      inside = false;
    } else if (c == ',' && !inside) {
      break;
    } else {
      skipped |= inside && (c == ',' || c == '-');
      if (!inside || !skipped) first += c;
    }
  }
  return first;
}

// Rank 0 is on the first node of the step. Its port is one that Slurm has reserved for the step, or
// follows from the step's number.
std::string srun_root(const Environment& environment, const std::string& job) {
  for (const std::string_view name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const auto list = environment(name);
    if (!list) continue;
    const std::string host = first_of_hosts(*list);
    if (host.empty()) fail_variable(name, *list, "a list of nodes like node[1-4]");
    const auto reserved = environment("SLURM_STEP_RESV_PORTS");
    const std::int64_t first =
        reserved ? parse_number(reserved->substr(0, reserved->find_first_of("-,"))).value_or(0) : 0;
    const bool usable = first >= 1 && first <= 65'535;
    return to_string(HostPort{
        host, usable ? static_cast<std::uint16_t>(first) : derived_port(base::mix64(job))});
  }
  return {};
}

std::optional<Identity> from_srun(const Environment& environment) {
  // A batch script has a SLURM_PROCID too, but is no step of srun's: it is alone. Its step id is
  // missing or a large constant.
  constexpr std::int64_t largest_step = 0xfffffff0 - 1;
  const auto step = environment("SLURM_STEP_ID");
  if (!step || !environment("SLURM_PROCID")) return std::nullopt;
  const auto step_number = required_number(environment, "SLURM_STEP_ID", 0, 0xffffffff, "srun");
  if (step_number > largest_step) return std::nullopt;
  const std::string_view size_name =
      environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Identity identity = read_identity(
      environment,
      {.launcher = "srun", .title = "srun", .rank = "SLURM_PROCID", .size = size_name});
  const std::string job = required_text(environment, "SLURM_JOB_ID", "srun");
  identity.local_size = srun_local_size(environment, identity.size);
  identity.job = fmt::format("slurm-{}.{}", job, step_number);
  if (identity.local_size < identity.size) identity.root = srun_root(environment, identity.job);
  return identity;
}

// torchrun's own store listens on MASTER_PORT, and people number the ports of their jobs in
// sequence: ours is far from it.
std::uint16_t port_beside(std::int64_t master_port) {
  constexpr std::uint64_t shift = 7'919;
  static_assert((ports_first + shift) % ports_count != 0, "no port may be mapped to itself");
  return derived_port(static_cast<std::uint64_t>(master_port) + shift);
}

std::optional<Identity> from_torchrun(const Environment& environment) {
  // RANK alone may be anybody's variable.
  if (!environment("RANK") || !environment("WORLD_SIZE") || !environment("MASTER_ADDR"))
    return std::nullopt;
  Identity identity = read_identity(environment, {.launcher = "torchrun",
                                                  .title = "torchrun",
                                                  .rank = "RANK",
                                                  .size = "WORLD_SIZE",
                                                  .local_size = "LOCAL_WORLD_SIZE"});
  const auto master_port = required_number(environment, "MASTER_PORT", 1, 65'535, "torchrun");
  const std::string address = *environment("MASTER_ADDR");
  identity.job = fmt::format("torchrun-{}-{}-{}-{}", address, master_port,
                             environment("TORCHELASTIC_RUN_ID").value_or("none"),
                             environment("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  // Without a local size nothing says that this is one host; the address holds then, too.
  if (identity.local_size < identity.size || !environment("LOCAL_WORLD_SIZE"))
    identity.root = to_string(HostPort{address, port_beside(master_port)});
  return identity;
}

Identity detect(const Environment& environment) {
  for (const auto read : {from_qpmesh, from_open_mpi, from_hydra, from_srun, from_torchrun}) {
    if (auto identity = read(environment)) return *std::move(identity);
  }
  Identity alone;
  alone.launcher = alone.job = "alone";
  return alone;
}

void apply_own_variables(const Environment& environment, Identity& identity) {
  if (const auto root = environment("QPMESH_ROOT")) {
    identity.root = to_string(parse_host_port(*root, "QPMESH_ROOT"));
  }
  if (const auto job = environment("QPMESH_JOB")) {
    if (job->empty() || !is_plain_name(*job))
      fail_variable("QPMESH_JOB", *job, "1 to 64 characters out of letters, digits and . _ : @ -");
    identity.job = *job;
  }
}

}  // namespace

Environment process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = ::secure_getenv(std::string{name}.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>{value};
  };
}

void fail_config(std::string cause, std::string hint) {
  fail_init(ErrorCode::bad_config, no_peer, std::move(cause), std::move(hint));
}

void fail_variable(std::string_view name, std::string_view value, std::string_view allowed) {
  fail_config(fmt::format("{} is \"{}\"; allowed is {}", name, value.substr(0, 80), allowed),
              hint_for(name));
}

std::optional<std::int64_t> parse_number(std::string_view text) noexcept {
  return text.starts_with('-') ? std::nullopt : base::parse_integer(text, false);
}

Identity identify(const Environment& environment) {
  Identity identity = detect(environment);
  apply_own_variables(environment, identity);
  if (identity.size == 1) {
    identity.root.clear();
    return identity;
  }
  if (identity.root.empty()) {
    if (identity.local_size < identity.size) {
      fail_config(fmt::format("{} says that {} ranks run on several hosts ({} on this one), but "
                              "nothing says how to meet",
                              identity.launcher, identity.size, identity.local_size),
                  "set QPMESH_ROOT=host:port to an address of rank 0's host");
    }
    if (identity.job.empty()) {
      fail_config(fmt::format("{} says that we are one of {} ranks, but nothing names the job",
                              identity.launcher, identity.size),
                  "set QPMESH_JOB to a name of this job, the same on every rank");
    }
    return identity;
  }
  // Over TCP the job must be the same on every host, and Hydra's proxies are one per host.
  if (identity.launcher == "hydra" && !environment("QPMESH_JOB")) identity.job = "hydra";
  identity.secret = find_secret(
      environment, identity.launcher == "open_mpi" ? "OMPI_MCA_orte_precondition_transports" : "");
  return identity;
}

}  // namespace qpmesh::bootstrap

qpmesh::detail::ClaimedSize qpmesh::detail::claimed_size() {
  const bootstrap::Environment environment = bootstrap::process_environment();
  bootstrap::Identity claimed = bootstrap::detect(environment);
  return {claimed.size, std::move(claimed.size_variable)};
}

#include "bootstrap/one_host.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bootstrap/hash.hpp"
#include "bootstrap/limits.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t job_characters_max = 64;  // what fits sun_path with everything around it

constexpr int looks_max = 20;  // a millisecond apart, at a name that is bound

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == ':' || c == '@';
}

// Who has bound the name and does not listen is not one of us: our roots listen at once.
bool taken_by_another_user(const base::System& system, const std::string& name) {
  for (int looks = 0; looks < looks_max; ++looks) {
    const Opened there = connect_to(system, unix_address(name));
    if (there.error == 0) return !reject_reason(system, there.socket.get()).empty();
    ::poll(nullptr, 0, 1);
  }
  return true;
}

base::UniqueFd listen_on_host(std::string name, const PrivateName& private_name,
                              const base::System& system) {
  Opened listening = listen_at(system, unix_address(name));
  if (listening.error == EADDRINUSE && taken_by_another_user(system, name)) {
    const std::string taken = std::exchange(name, private_name(true));
    if (name.empty()) {
      throw Error{
          {.code = ErrorCode::bad_config,
           .peer = 0,
           .operation = "init",
           .cause = fmt::format("another user has taken the socket name @{}", taken),
           .system_error = EADDRINUSE,
           .hint = "set QPMESH_SECRET_FILE on every rank, for a name that others cannot know"}};
    }
    listening = listen_at(system, unix_address(name));
  }
  if (listening.socket) return std::move(listening.socket);
  const bool in_use = listening.error == EADDRINUSE;
  throw Error{{.code = in_use ? ErrorCode::bad_config : ErrorCode::no_resource,
               .peer = 0,
               .operation = "init",
               .cause = in_use
                            ? fmt::format("the socket name @{} is in use: another living job, or a "
                                          "second rank 0 of this one",
                                          name)
                            : fmt::format("rank 0 cannot listen at @{}", name),
               .system_error = listening.error,
               .hint = in_use ? "end the other job, or give each job a QPMESH_JOB of its own"
                              : hint_for_descriptors(listening.error)}};
}

}  // namespace

std::string one_host_name(uid_t uid, const std::string& job, int ordinal) {
  std::string shown = job;
  if (job.size() > job_characters_max || !std::ranges::all_of(job, plain)) {
    shown = "hash:" + hexadecimal(hash<16>(job));
  }
  return fmt::format("qpmesh-{}-{}-{}", uid, shown, ordinal);
}

std::string private_name(std::string_view secret, const std::string& name) {
  const auto key = hash<32>(secret);
  return "qpmesh-private-" +
         hexadecimal(hash<16>(name, {reinterpret_cast<const char*>(key.data()), key.size()}));
}

Endpoint one_host_endpoint(const std::string& name, const PrivateName& private_name,
                           const base::System& system) {
  return {.name = "@" + name,
          .terms = fmt::format("run on one host, as one user (here uid {}), in one job "
                               "(QPMESH_JOB)",
                               ::geteuid()),
          .secret_hint = {},
          .key = {},  // known to all: proofs only catch confusion here, SO_PEERCRED authenticates
          .listen = [=, &system] { return listen_on_host(name, private_name, system); },
          .resolve =
              [=](bool taken) {
                Resolved found{.addresses = {unix_address(name)}, .problem = {}};
                if (const std::string other = private_name(taken); !other.empty())
                  found.addresses.push_back(unix_address(other));
                return found;
              }};
}

}  // namespace qpmesh::bootstrap

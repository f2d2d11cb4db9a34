#include "bootstrap/one_host.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "bootstrap/limits.hpp"
#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t job_characters_max = 64;  // what fits sun_path with everything around it

constexpr int looks_max = 20;  // a millisecond apart, at a name that is bound

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == ':' || c == '@';
}

}  // namespace

std::string one_host_name(uid_t uid, const std::string& job, int ordinal) {
  std::string shown = job;
  if (job.size() > job_characters_max || !std::ranges::all_of(job, plain)) {
    std::array<unsigned char, 16> hash{};
    crypto_generichash(hash.data(), hash.size(), bytes_of(job), job.size(), nullptr, 0);
    shown = "hash:" + hexadecimal(hash);
  }
  return fmt::format("qpmesh-{}-{}-{}", uid, shown, ordinal);
}

std::string private_name(std::string_view secret, const std::string& name) {
  std::array<unsigned char, 32> key{};
  std::array<unsigned char, 16> hash{};
  crypto_generichash(key.data(), key.size(), bytes_of(secret), secret.size(), nullptr, 0);
  crypto_generichash(hash.data(), hash.size(), bytes_of(name), name.size(), key.data(), key.size());
  return "qpmesh-private-" + hexadecimal(hash);
}

base::UniqueFd OneHostEndpoint::listen() {
  local::Listening listening = local::listen_at(system_, name_);
  std::string taken;
  if (listening.error == EADDRINUSE && taken_by_another_user()) {
    taken = std::exchange(name_, private_name_(true));
    if (name_.empty()) {
      throw Error{
          {.code = ErrorCode::bad_config,
           .peer = 0,
           .operation = "init",
           .cause = fmt::format("another user has taken the socket name @{}", taken),
           .system_error = EADDRINUSE,
           .hint = "set QPMESH_SECRET_FILE on every rank, for a name that others cannot know"}};
    }
    listening = local::listen_at(system_, name_);
  }
  if (listening.socket) return std::move(listening.socket);
  const bool in_use = listening.error == EADDRINUSE;
  throw Error{
      {.code = in_use ? ErrorCode::bad_config : ErrorCode::no_resource,
       .peer = 0,
       .operation = "init",
       .cause = in_use ? fmt::format(
                             "the socket name {} is in use: another living job, or a second rank 0 "
                             "of this one",
                             describe())
                       : fmt::format("rank 0 cannot listen at {}", describe()),
       .system_error = listening.error,
       .hint = in_use ? "end the other job, or give each job a QPMESH_JOB of its own"
                      : hint_for_descriptors(listening.error)}};
}

// Who has bound the name and does not listen is not one of us: our roots listen at once.
bool OneHostEndpoint::taken_by_another_user() const {
  for (int looks = 0; looks < looks_max; ++looks) {
    const local::Connecting connecting = local::connect_to(system_, name_);
    if (connecting.error == 0) return reject_reason(connecting.socket.get()).has_value();
    ::poll(nullptr, 0, 1);
  }
  return true;
}

Endpoint::Attempt OneHostEndpoint::connect(Deadline) {
  // A Unix socket connects at once or says EAGAIN when the root's queue is full: both are one
  // attempt.
  local::Connecting connecting = local::connect_to(system_, name_);
  const bool other_user = connecting.socket && reject_reason(connecting.socket.get());
  if (connecting.socket && !other_user) return {std::move(connecting.socket), 0, {}};
  if (connecting.error == EMFILE) return {{}, EMFILE, fmt::format("connect to {}", describe())};
  if (second_name_.empty()) second_name_ = private_name_(other_user);
  if (second_name_.empty())
    return {std::move(connecting.socket), connecting.error,
            fmt::format("connect to {}", describe())};
  local::Connecting privately = local::connect_to(system_, second_name_);
  if (privately.socket) return {std::move(privately.socket), 0, {}};
  return {{},
          privately.error,
          fmt::format("connect to {}{}", describe(),
                      other_user
                          ? fmt::format(", which another user has taken, and to @{}", second_name_)
                          : "")};
}

std::string OneHostEndpoint::terms() const {
  return fmt::format("run on one host, as one user (here uid {}), in one job (QPMESH_JOB)",
                     ::geteuid());
}

std::optional<std::string> OneHostEndpoint::reject_reason(int fd) const {
  local::Credentials there;
  if (const int error = local::read_credentials(system_, fd, there); error != 0)
    return fmt::format("the kernel does not say whose process it is (errno {})", error);
  if (there.uid == ::geteuid()) return std::nullopt;
  return fmt::format("its user is uid {}, ours is uid {} (pid {})", there.uid, ::geteuid(),
                     there.pid);
}

}  // namespace qpmesh::bootstrap

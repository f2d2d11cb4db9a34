#include "bootstrap/one_host.hpp"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "qpmesh/error.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr std::size_t job_characters_max = 64;  // what fits sun_path with everything around it

struct Address {
  sockaddr_un socket{};
  socklen_t bytes = 0;
};

Address address_of(const std::string& name) {
  Address address;
  address.socket.sun_family = AF_UNIX;
  const std::size_t count = std::min(name.size(), sizeof address.socket.sun_path - 1);
  std::copy_n(name.begin(), count, address.socket.sun_path + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  return address;
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.socket); }

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-' || c == ':' || c == '@';
}

}  // namespace

std::string one_host_name(uid_t uid, const std::string& job, int ordinal) {
  std::string shown = job;
  if (job.size() > job_characters_max || !std::ranges::all_of(job, plain)) {
    std::array<unsigned char, 16> hash{};
    crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(job.data()),
                       job.size(), nullptr, 0);
    shown = "hash:";
    for (const unsigned char byte : hash) shown += fmt::format("{:02x}", byte);
  }
  return fmt::format("qpmesh-{}-{}-{}", uid, shown, ordinal);
}

base::UniqueFd OneHostEndpoint::listen() {
  const Address address = address_of(name_);
  base::UniqueFd fd{system_.call(
      "socket", [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); })};
  if (!fd) {
    throw Error{{.code = ErrorCode::no_resource,
                 .peer = 0,
                 .operation = "init",
                 .cause = "no Unix socket for the start-up",
                 .system_error = errno}};
  }
  if (system_.call("bind", [&] { return ::bind(fd.get(), generic(address), address.bytes); }) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      throw Error{{.code = ErrorCode::bad_config,
                   .peer = 0,
                   .operation = "init",
                   .cause = fmt::format(
                       "the socket name {} is in use: another living job, or a second rank 0 of this one",
                       describe()),
                   .system_error = error,
                   .hint = "end the other job, or give each job a QPMESH_JOB of its own"}};
    }
    throw Error{{.code = ErrorCode::no_resource,
                 .peer = 0,
                 .operation = "init",
                 .cause = fmt::format("the socket name {} could not be bound", describe()),
                 .system_error = error}};
  }
  if (system_.call("listen", [&] { return ::listen(fd.get(), SOMAXCONN); }) != 0) {
    throw Error{{.code = ErrorCode::no_resource,
                 .peer = 0,
                 .operation = "init",
                 .cause = fmt::format("listening on {} failed", describe()),
                 .system_error = errno}};
  }
  return fd;
}

Endpoint::Attempt OneHostEndpoint::connect(Deadline) {
  const Address address = address_of(name_);
  base::UniqueFd fd{system_.call(
      "socket", [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); })};
  if (!fd) return {{}, errno, "no Unix socket"};
  // A Unix socket connects at once or says EAGAIN when the root's queue is full: both are one
  // attempt.
  if (system_.call("connect", [&] { return ::connect(fd.get(), generic(address), address.bytes); }) != 0) {
    return {{}, errno, fmt::format("connect to {}", describe())};
  }
  return {std::move(fd), 0, {}};
}

std::string OneHostEndpoint::terms() const {
  return fmt::format("run on one host, as one user (here uid {}), in one job (QPMESH_JOB)", ::geteuid());
}

// For the root these are the credentials at connect, for a rank those at listen: in both cases of
// whoever made the call.
std::optional<std::string> OneHostEndpoint::reject_reason(int fd) const {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (system_.call("getsockopt", [&] { return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes); }) !=
      0) {
    return fmt::format("the kernel does not say whose process it is (errno {})", errno);
  }
  if (peer.uid == ::geteuid()) return std::nullopt;
  return fmt::format("its user is uid {}, ours is uid {} (pid {})", peer.uid, ::geteuid(), peer.pid);
}

}  // namespace qpmesh::bootstrap

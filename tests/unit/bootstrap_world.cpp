// SPDX-License-Identifier: MIT
#include "bootstrap_world.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "bootstrap/endpoint.hpp"

namespace qpmesh::bootstrap {
namespace {

std::string fresh_name() {
  static std::atomic<int> counter{0};  // venues of one test process
  return one_host_name(::geteuid(), fmt::format("test-{}-{}", ::getpid(), counter++), 0);
}

bool read_bytes(int fd, void* bytes, std::size_t count) {
  auto* at = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const auto got = ::recv(fd, at, count, 0);
    if (got <= 0) return false;
    at += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Venue::Venue(Kind kind, const std::string& host) : kind_{kind}, host_{host}, name_{fresh_name()} {
  if (kind_ == Kind::one_host) return;
  const int family = host.find(':') == std::string::npos ? AF_INET : AF_INET6;
  holder_.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(holder_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  Address wanted = address();
  EXPECT_EQ(::bind(holder_.get(), reinterpret_cast<sockaddr*>(&wanted.storage), wanted.bytes), 0);
  ::getsockname(holder_.get(), reinterpret_cast<sockaddr*>(&wanted.storage), &wanted.bytes);
  port_ = ntohs(family == AF_INET ? reinterpret_cast<sockaddr_in*>(&wanted.storage)->sin_port
                                  : reinterpret_cast<sockaddr_in6*>(&wanted.storage)->sin6_port);
}

Venue::Address Venue::address() const {
  Address address;
  if (kind_ == Kind::one_host) {
    auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path + 1, name_.data(), name_.size());
    address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  } else if (host_.find(':') == std::string::npos) {
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port_);
    ::inet_pton(AF_INET, host_.c_str(), &ipv4->sin_addr);
    address.bytes = sizeof *ipv4;
  } else {
    auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(port_);
    ::inet_pton(AF_INET6, host_.c_str(), &ipv6->sin6_addr);
    address.bytes = sizeof *ipv6;
  }
  return address;
}

Key Venue::key(const std::string& secret) const {
  return kind_ == Kind::one_host ? Key{} : key_from_secret(secret);
}

std::string Venue::describe() const {
  return kind_ == Kind::one_host ? "@" + name_ : to_string(HostPort{host_, port_});
}

std::string Venue::terms() const {
  if (kind_ == Kind::tcp) {
    const auto there = numeric({host_, port_});
    const bool loops = host_ == "localhost" || (there && scope_of(*there) == Scope::loopback);
    return "have the same QPMESH_ROOT, be of one job (QPMESH_JOB) and know its secret" +
           (loops
                ? "; ranks of several hosts do not meet at loopback, as " + host_ + " is on host *"
                : std::string{});
  }
  return fmt::format("run on one host, as one user (here uid {}), in one job (QPMESH_JOB)",
                     ::geteuid());
}

std::string Venue::missing_hint(int size) const {
  return fmt::format("QPMESH_SIZE says {} ranks: was every one started? They must {}", size,
                     terms());
}

Endpoint Venue::endpoint(const std::string& secret, const base::System& system) const {
  if (kind_ == Kind::tcp) return tcp_endpoint({host_, port_}, secret, "the test", system);
  const auto by_secret = [secret, name = name_](bool) {
    return secret.empty() ? std::string{} : private_name(secret, name);
  };
  return one_host_endpoint(name_, by_secret, system);
}

std::unique_ptr<Rank> Venue::rank(const RankSettings& settings) const {
  auto system = std::make_unique<base::System>(settings.fail_points);
  Endpoint door = endpoint(settings.secret, *system);
  return std::make_unique<Rank>(settings, std::move(door), std::move(system));
}

base::UniqueFd Venue::connect() const {
  const Address to = address();
  base::UniqueFd fd{::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const timeval limit{.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.bytes) != 0)
    fd.reset();
  return fd;
}

base::UniqueFd Venue::listen_instead() const {
  const Address at = address();
  base::UniqueFd fd{::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.storage), at.bytes), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  return fd;
}

Blob blob_of(int rank, std::size_t bytes) {
  Blob blob(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    blob[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank) * 31);
  return blob;
}

Deadline in_ms(std::int64_t ms) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds{ms};
}

Gathered gather(Bootstrap& star, BlobView mine, std::int64_t deadline_ms) {
  Gathered outcome;
  const auto begin = std::chrono::steady_clock::now();
  try {
    outcome.blobs = star.all_gather(mine, in_ms(deadline_ms));
  } catch (const Error& error) {
    outcome.error = error;
  }
  outcome.elapsed_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::steady_clock::now() - begin)
                           .count();
  return outcome;
}

void expect_error(const Gathered& outcome, test::ExpectedError expected,
                  std::int64_t elapsed_ms_max) {
  ASSERT_TRUE(outcome.error) << "no error, expected \"" << expected.cause << "\"";
  expected.operation = "init";
  EXPECT_EQ(test::difference(*outcome.error, expected), "");
  EXPECT_LT(outcome.elapsed_ms, elapsed_ms_max);
}

std::future<Gathered> start(const Venue& venue, const RankSettings& settings,
                            std::int64_t deadline_ms, int rounds) {
  return std::async(std::launch::async, [&venue, settings, deadline_ms, rounds] {
    Gathered outcome;
    try {
      const auto rank = venue.rank(settings);
      for (int round = 0; round < rounds && !outcome.error; ++round) {
        outcome = gather(rank->star(), blob_of(settings.rank, 10), deadline_ms);
      }
    } catch (const Error& error) {
      outcome.error = error;
    }
    return outcome;
  });
}

std::optional<Challenge> read_challenge(int fd) {
  const auto frame = read_frame(fd);
  if (!frame || frame->kind != FrameKind::challenge || frame->payload.size() != sizeof(Challenge))
    return std::nullopt;
  Challenge challenge;
  std::memcpy(&challenge, frame->payload.data(), sizeof challenge);
  return challenge;
}

Hello hello_for(const Venue& venue, const RankSettings& settings, const Challenge& challenge) {
  Hello hello =
      make_hello(base::System{}, settings.rank, settings.size, settings.ordinal, settings.job);
  hello.proof = prove(venue.key(settings.secret), Role::caller, challenge, hello);
  return hello;
}

bool send_bytes(int fd, const void* bytes, std::size_t count) {
  return ::send(fd, bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

std::optional<Frame> read_frame(int fd) {
  FrameHeader header;
  if (!read_bytes(fd, &header, sizeof header) || header.payload_bytes > 1U << 20)
    return std::nullopt;
  Frame frame{header.kind, Blob(header.payload_bytes)};
  if (!read_bytes(fd, frame.payload.data(), frame.payload.size())) return std::nullopt;
  return frame;
}

bool closed_by_peer(int fd) {
  std::array<char, 4096> rest;
  for (;;) {
    const auto got = ::recv(fd, rest.data(), rest.size(), 0);
    if (got <= 0) return got == 0 || errno == ECONNRESET;
  }
}

int open_descriptors() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {}));
}

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
// Ranks of a bootstrap as threads of one test process, and unauthenticated peers made by hand.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/owned.hpp"
#include "base/system.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/star.hpp"
#include "qpmesh/error.hpp"
#include "tests/support/expected_error.hpp"

namespace qpmesh::bootstrap {

// What a rank that must come may take.
inline constexpr std::int64_t enough_ms = 10'000;

enum class Kind { one_host, tcp };
inline void PrintTo(Kind kind, std::ostream* out) {
  *out << (kind == Kind::one_host ? "one_host" : "tcp");
}

struct RankSettings {
  int rank = 0;
  int size = 2;
  int ordinal = 0;
  std::int64_t handshake_timeout_ms = 2'000;
  std::int64_t progress_ms = 0;
  std::string secret = "the secret of this test";
  base::LogLevel log = base::LogLevel::off;
  base::FailPoints* fail_points = nullptr;
  std::string job = "the job of this test";
  std::string ended_ranks_socket{};
};

// A rank with the world that it needs.
class Rank {
 public:
  Rank(const RankSettings& settings, Endpoint endpoint, std::unique_ptr<base::System> system)
      : log_{settings.log},
        system_{std::move(system)},
        star_{make_star({.rank = settings.rank,
                         .size = settings.size,
                         .ordinal = settings.ordinal,
                         .job = settings.job,
                         .ended_ranks_socket = settings.ended_ranks_socket,
                         .handshake_timeout_ms = settings.handshake_timeout_ms,
                         .progress_ms = settings.progress_ms},
                        std::move(endpoint), *system_, log_)} {}

  Bootstrap& star() { return *star_; }

 private:
  base::Log log_;
  std::unique_ptr<base::System> system_;
  std::unique_ptr<Bootstrap> star_;
};

struct Gathered {
  std::vector<Blob> blobs;
  std::optional<Error> error;
  std::int64_t elapsed_ms = 0;
};

// A meeting place that no other test has. A TCP port is held by a bound socket that does not
// listen: nobody else gets it, the root may have it, and connecting to it is refused before.
class Venue {
 public:
  explicit Venue(Kind kind, const std::string& host = "127.0.0.1");

  Endpoint endpoint(const std::string& secret, const base::System& system) const;
  std::unique_ptr<Rank> rank(const RankSettings& settings) const;
  base::UniqueFd connect() const;  // blocking; invalid when refused
  base::UniqueFd listen_instead() const;
  std::uint16_t port() const { return port_; }
  const std::string& name() const { return name_; }
  std::string describe() const;
  std::string terms() const;  // what an error says that ranks must have in common here
  std::string missing_hint(int size) const;
  Key key(const std::string& secret) const;

 private:
  struct Address {
    sockaddr_storage storage{};
    socklen_t bytes = 0;
  };
  Address address() const;

  Kind kind_;
  std::string host_;
  std::string name_;
  std::uint16_t port_ = 0;
  base::UniqueFd holder_;
};

Blob blob_of(int rank, std::size_t bytes);
Deadline in_ms(std::int64_t ms);

// rounds all_gathers of small blobs in a thread; the last one's result. The rank lives until the
// thread ends.
std::future<Gathered> start(const Venue& venue, const RankSettings& settings,
                            std::int64_t deadline_ms, int rounds = 1);
Gathered gather(Bootstrap& star, BlobView mine, std::int64_t deadline_ms);

// It ended with this error, operation "init", and within the time.
void expect_error(const Gathered& outcome, test::ExpectedError expected,
                  std::int64_t elapsed_ms_max = 2'000);

// What a peer does, with blocking calls that give up after two seconds.
std::optional<Challenge> read_challenge(int fd);
Hello hello_for(const Venue& venue, const RankSettings& settings, const Challenge& challenge);
bool send_bytes(int fd, const void* bytes, std::size_t count);
template <class T>
bool send_frame(int fd, FrameKind kind, const T& payload) {
  const FrameHeader header{kind, sizeof payload};
  return send_bytes(fd, &header, sizeof header) && send_bytes(fd, &payload, sizeof payload);
}
std::optional<Frame> read_frame(int fd);
bool closed_by_peer(int fd);

int open_descriptors();

}  // namespace qpmesh::bootstrap

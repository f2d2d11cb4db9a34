// A rank's half of the star: connect, prove, send the blob, wait for everyone's.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bootstrap/client_handshake.hpp"
#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/limits.hpp"
#include "bootstrap/star.hpp"
#include "bootstrap/stream_socket.hpp"

namespace qpmesh::bootstrap {
namespace {

constexpr int retry_wait_ms_max = 50;

[[noreturn]] void fail(ErrorDetail detail) {
  detail.operation = "init";
  throw Error{std::move(detail)};
}

class StarRank final : public StarHalf {
 public:
  StarRank(const StarSettings& settings, Endpoint& endpoint, const base::System& system,
           const base::Log& log)
      : settings_{settings},
        endpoint_{endpoint},
        system_{system},
        log_{log},
        started_{system.now()},
        ended_ranks_{system, settings.ended_ranks_socket} {}

  std::vector<Blob> all_gather(BlobView mine, Deadline deadline) override {
    if (!root_) join(deadline);
    missing_ = {};
    root_->queue(FrameKind::blob, mine);
    return receive_everyones(deadline);
  }
  std::string local_address() const override {
    return root_ ? endpoint_.local_address(root_->fd()) : std::string{};
  }

 private:
  // What ended an attempt that is worth repeating.
  struct RetryableError {
    int error = 0;
    std::string what;
  };

  void join(Deadline deadline);
  void hear_of_ended_root(Deadline wake);
  std::optional<RetryableError> knock(base::UniqueFd fd, Deadline deadline);
  bool wait_for(int fd, short events, Deadline deadline);
  std::vector<Blob> receive_everyones(Deadline deadline);
  [[noreturn]] void give_up();
  long long elapsed_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(system_.now() - started_).count();
  }

  StarSettings settings_;
  Endpoint& endpoint_;
  const base::System& system_;
  const base::Log& log_;
  Deadline started_;
  EndedRanks ended_ranks_;
  std::optional<FrameStream> root_;  // from the welcome on
  Missing missing_;                  // as the root said last
};

// False when the deadline passed.
bool StarRank::wait_for(int fd, short events, Deadline deadline) {
  const int error = stream::await(system_, fd, events, deadline);
  if (error == 0 || error == ETIMEDOUT) return error == 0;
  fail({.code = ErrorCode::no_resource,
        .cause = "poll failed while waiting for rank 0",
        .system_error = error});
}

void StarRank::join(Deadline deadline) {
  RetryableError last{0, "no attempt was made"};
  int attempts = 0;
  for (int wait_ms = 1; system_.now() < deadline;
       wait_ms = std::min(2 * wait_ms, retry_wait_ms_max)) {
    ++attempts;
    auto attempt = endpoint_.connect(deadline);
    if (attempt.error == EMFILE) {
      fail({.code = ErrorCode::no_resource,
            .peer = settings_.rank,
            .cause =
                fmt::format("rank {} has no descriptor left: {}", settings_.rank, attempt.problem),
            .system_error = attempt.error,
            .hint = hint_for_descriptors(attempt.error)});
    }
    if (!attempt.fd) {
      last = {attempt.error, attempt.problem};
    } else if (auto retryable_error = knock(std::move(attempt.fd), deadline)) {
      last = std::move(*retryable_error);
    } else {
      log_.debug("joined rank 0 at {} after {} attempts", endpoint_.describe(), attempts);
      return;
    }
    const Deadline next = std::min(deadline, system_.now() + std::chrono::milliseconds{wait_ms});
    hear_of_ended_root(next);
  }
  fail({.code = ErrorCode::timeout,
        .peer = 0,
        .cause =
            fmt::format("rank {} did not reach rank 0 at {}: {} attempt{} in {} ms, the last: {}",
                        settings_.rank, endpoint_.describe(), attempts, attempts == 1 ? "" : "s",
                        elapsed_ms(), last.what),
        .system_error = last.error,
        .hint = fmt::format("is rank 0 running? All ranks must {}", endpoint_.terms())});
}

// A pause between two attempts, which a signal may cut short. A root that has ended ends it all.
void StarRank::hear_of_ended_root(Deadline wake) {
  pollfd entry{.fd = ended_ranks_.fd(), .events = POLLIN, .revents = 0};
  ::poll(&entry, 1, base::remaining_ms(system_, wake));
  for (const EndedRank& ended : ended_ranks_.read(system_)) {
    if (ended.rank != 0) continue;
    fail({.code = ErrorCode::peer_dead,
          .peer = 0,
          .cause = to_string(ended),
          .hint = hint_for_ended_rank});
  }
}

// One handshake. Nothing when we are in; a retryable error when it is worth another attempt; throws
// when it is not.
std::optional<StarRank::RetryableError> StarRank::knock(base::UniqueFd fd, Deadline deadline) {
  if (const auto reason = endpoint_.reject_reason(fd.get())) {
    fail({.code = ErrorCode::authentication,
          .peer = 0,
          .cause = fmt::format("what answers at {} is not of this job: {}", endpoint_.describe(),
                               *reason),
          .hint = "somebody else took the name: give the job a QPMESH_JOB of its own"});
  }
  ClientHandshake handshake{
      std::move(fd),
      make_hello(system_, settings_.rank, settings_.size, settings_.ordinal, settings_.job),
      {.rank = 0, .endpoint = endpoint_.describe(), .key = endpoint_.key()},
      std::max(everyones_bytes_max(settings_.size), std::size_t{8192})};
  for (;;) {
    auto end = handshake.step(system_);
    if (!end) {
      if (!wait_for(handshake.fd(), POLLIN, deadline))
        return RetryableError{0, handshake.silence()};
      continue;
    }
    ErrorDetail& detail = end->detail;
    switch (end->kind) {
      case HandshakeEnd::Kind::welcome: root_ = handshake.take(); return std::nullopt;
      case HandshakeEnd::Kind::retryable_error:
        return RetryableError{detail.system_error, std::move(detail.cause)};
      case HandshakeEnd::Kind::other_service:
        detail.hint = "another service uses this address; choose another one with QPMESH_ROOT";
        break;
      case HandshakeEnd::Kind::refusal:
        if (detail.code == ErrorCode::authentication) detail.hint = endpoint_.secret_hint();
        break;
    }
    fail(std::move(detail));
  }
}

std::vector<Blob> StarRank::receive_everyones(Deadline deadline) {
  for (;;) {
    root_->flush(system_);
    root_->fill(system_);
    while (const auto frame = root_->take()) {
      if (frame->kind == FrameKind::everyones) {
        if (auto blobs = decode_everyones(frame->payload, settings_.size)) return std::move(*blobs);
      } else if (frame->kind == FrameKind::waiting) {
        if (auto missing = decode_missing(frame->payload, settings_.size)) {
          missing_ = std::move(*missing);
          root_->fill(system_);
          continue;
        }
      } else if (frame->kind == FrameKind::failed) {
        fail(decode_error(frame->payload, 0));
      }
      fail({.code = ErrorCode::corrupt,
            .peer = 0,
            .cause =
                fmt::format("rank 0 sent a message of kind {} and {} bytes that no rank 0 sends",
                            static_cast<std::uint32_t>(frame->kind), frame->payload.size()),
            .hint = same_library_hint});
    }
    if (root_->oversize()) {
      fail({.code = ErrorCode::corrupt,
            .peer = 0,
            .cause = fmt::format("rank 0 announced a message of {} bytes; at most {} are possible",
                                 root_->claimed_bytes(), everyones_bytes_max(settings_.size)),
            .hint = same_library_hint});
    }
    if (root_->ended()) {
      fail({.code = ErrorCode::peer_dead,
            .peer = 0,
            .cause = fmt::format("rank 0 closed the connection at {} during start-up",
                                 endpoint_.describe()),
            .system_error = root_->error(),
            .hint = "look at what rank 0 said before it ended"});
    }
    const short events = root_->unsent() ? POLLIN | POLLOUT : POLLIN;
    if (!wait_for(root_->fd(), events, deadline)) give_up();
  }
}

// Our deadline passed before the root's: says so to the root, which would take a silent close for a
// death.
void StarRank::give_up() {
  ErrorDetail detail{.code = ErrorCode::timeout, .peer = 0, .operation = "init"};
  if (missing_.count > 0) {
    detail.peer = missing_.named.empty() ? no_peer : missing_.named.front();
    detail.cause = fmt::format("{} of {} missing after {} ms", to_string(missing_), settings_.size,
                               elapsed_ms());
    detail.hint = hint_for_missing(settings_, endpoint_);
  } else {
    detail.cause = fmt::format("rank 0 at {} took no notice for {} ms; it is alive",
                               endpoint_.describe(), elapsed_ms());
    detail.hint = "look at rank 0: it may be stopped, or busy with something else than init";
  }
  root_->queue(FrameKind::failed, encode_error(detail));
  root_->flush(system_);
  fail(std::move(detail));
}

}  // namespace

std::unique_ptr<StarHalf> make_star_rank(const StarSettings& settings, Endpoint& endpoint,
                                         const base::System& system, const base::Log& log) {
  return std::make_unique<StarRank>(settings, endpoint, system, log);
}

}  // namespace qpmesh::bootstrap

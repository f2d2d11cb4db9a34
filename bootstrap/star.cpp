// SPDX-License-Identifier: MIT
#include "bootstrap/star.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/bytes.hpp"
#include "base/interrupt.hpp"
#include "bootstrap/caller.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"

namespace qpmesh::bootstrap {
namespace {

// ---- a rank's half: connect, prove, send the blob, wait for everyone's ----

constexpr std::int64_t answer_ms_max = 500;  // that a root may take to say who is missing

// Every rank's blob, as the root hands them out.
constexpr std::size_t everyones_bytes_max(int size) {
  return static_cast<std::size_t>(size) * (blob_bytes_max + 4);
}
std::optional<std::vector<Blob>> decode_everyones(BlobView payload, int size) {
  base::ByteReader reader{payload};
  std::vector<Blob> blobs;
  blobs.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    const BlobView bytes = reader.get_bytes();
    if (bytes.size() > blob_bytes_max) return std::nullopt;
    blobs.emplace_back(bytes.begin(), bytes.end());
  }
  if (!reader.finished()) return std::nullopt;
  return blobs;
}

class StarRank final : public Star {
 public:
  StarRank(const StarSettings& settings, Endpoint endpoint, const base::System& system,
           const base::Log& log)
      : Star{settings, std::move(endpoint), system, log} {}

  std::string local_address() const override { return root_ ? host_of(root_->fd()) : ""; }

 private:
  std::vector<Blob> gather(BlobView mine, Deadline deadline) override {
    if (!root_) join(deadline);
    root_->queue(FrameKind::blob, mine);
    return receive_everyones(deadline);
  }
  void look() override {
    if (root_) read_root();
  }
  void tell(const ErrorDetail& failure) override {
    if (!root_) return;
    root_->queue(FrameKind::failed, encode_error(failure));
    root_->farewell(system_);
  }
  void join(Deadline deadline);
  void hear_of_ended_ranks();
  [[noreturn]] void fail_refused(ErrorDetail refusal) const;
  std::optional<std::vector<Blob>> read_root();
  std::vector<Blob> receive_everyones(Deadline deadline);

  std::optional<FrameStream> root_;  // from the welcome on
};

void StarRank::join(Deadline deadline) {
  Caller caller{
      {.peer = 0,
       .hello =
           make_hello(system_, settings_.rank, settings_.size, settings_.ordinal, settings_.job),
       .key = endpoint_.key,
       .handshake_timeout_ms = settings_.handshake_timeout_ms,
       .payload_bytes_max = std::max(everyones_bytes_max(settings_.size), std::size_t{8192}),
       .resolve = endpoint_.resolve},
      system_,
      log_};
  while (system_.now() < deadline) {
    Deadline wake = deadline;
    std::array polled{caller.watch(wake),
                      pollfd{.fd = ended_ranks_.get(), .events = POLLIN, .revents = 0}};
    base::poll_in_start(system_, polled, wake);
    hear_of_ended_ranks();
    if (!caller.step(polled[0].revents != 0)) continue;
    if (caller.refusal()) fail_refused(*caller.refusal());
    log_.debug("joined rank 0 at {} after {} attempts", endpoint_.name, caller.attempts());
    root_ = std::move(caller.stream());
    return;
  }
  fail_init(ErrorCode::timeout, 0,
            fmt::format("rank {} did not reach rank 0 at {}: {} attempt{} in {} ms, the last: "
                        "{}",
                        settings_.rank, endpoint_.name, caller.attempts(),
                        caller.attempts() == 1 ? "" : "s", elapsed_ms(), caller.problems()),
            fmt::format("is rank 0 running? All ranks must {}", endpoint_.terms()),
            caller.last_error());
}

void StarRank::fail_refused(ErrorDetail refusal) const {
  if (refusal.code == ErrorCode::authentication && refusal.hint.empty())
    refusal.hint = endpoint_.secret_hint;
  throw Error{std::move(refusal)};
}

// Nobody leaves a start before all have joined it: whoever has ended ends it for who comes late,
// and the first of them is why.
void StarRank::hear_of_ended_ranks() {
  for (const EndedRank& ended : read_ended_ranks(system_, ended_ranks_)) {
    if (ended.rank < 0 || ended.rank >= settings_.size || ended.rank == settings_.rank) continue;
    fail_init(
        ErrorCode::peer_dead, ended.rank,
        fmt::format("{} before rank {} joined the start-up", to_string(ended), settings_.rank),
        hint_for_ended_rank);
  }
}

// Everyone's blobs, where they are here. Throws what ends the start.
std::optional<std::vector<Blob>> StarRank::read_root() {
  if (const auto frame = root_->read(system_)) {
    if (frame->kind == FrameKind::failed) throw Error{decode_error(frame->payload, 0)};
    if (frame->kind == FrameKind::everyones) {
      if (auto blobs = decode_everyones(frame->payload, settings_.size)) return blobs;
    }
    fail_init(ErrorCode::corrupt, 0,
              fmt::format("rank 0 sent a message of kind {} and {} bytes that no rank 0 sends",
                          static_cast<std::uint32_t>(frame->kind), frame->payload.size()),
              same_library_hint);
  }
  if (root_->oversize()) {
    fail_init(ErrorCode::corrupt, 0,
              fmt::format("rank 0 announced a message of {} bytes; at most {} are possible",
                          root_->begun()->payload_bytes, everyones_bytes_max(settings_.size)),
              same_library_hint);
  }
  if (root_->ended()) {
    fail_init(ErrorCode::peer_dead, 0,
              fmt::format("rank 0 closed the connection at {} during start-up", endpoint_.name),
              "look at what rank 0 said before it ended", root_->error());
  }
  return std::nullopt;
}

std::vector<Blob> StarRank::receive_everyones(Deadline deadline) {
  for (bool asked = false;;) {
    root_->flush(system_);
    while (auto blobs = read_root()) {
      if (!asked) return std::move(*blobs);
      // Too late: the root will hear that we failed.
    }
    const short events = root_->unsent() ? POLLIN | POLLOUT : POLLIN;
    const int error = await(system_, root_->fd(), events, deadline);
    if (error == 0) continue;
    if (error != ETIMEDOUT) {
      fail_init(ErrorCode::no_resource, no_peer, "poll failed while waiting for rank 0", {}, error);
    }
    ErrorDetail silence =
        init_error(ErrorCode::timeout, 0,
                   fmt::format("rank 0 at {} took no notice for {} ms; it is alive", endpoint_.name,
                               elapsed_ms()),
                   "look at rank 0: it may be stopped, or busy with something else than init");
    if (asked) throw Error{std::move(silence)};
    // Our deadline passed before the root's, which knows who is missing, and tells all.
    asked = true;
    root_->queue(FrameKind::failed, encode_error(silence));
    deadline = base::after_ms(system_, answer_ms_max);
  }
}

}  // namespace

std::unique_ptr<Bootstrap> make_star(const StarSettings& settings, Endpoint endpoint,
                                     const base::System& system, const base::Log& log) {
  if (settings.rank == 0) return make_star_root(settings, std::move(endpoint), system, log);
  return std::make_unique<StarRank>(settings, std::move(endpoint), system, log);
}

std::vector<Blob> Star::all_gather(BlobView mine, Deadline deadline) {
  if (!broken_ && mine.size() > blob_bytes_max) {
    fail_init(
        ErrorCode::bad_argument, no_peer,
        fmt::format("a blob of {} bytes; at most {} are allowed", mine.size(), blob_bytes_max),
        "all_gather is for addresses and keys, not for data");
  }
  std::vector<Blob> everyones;
  keep_error([&] {
    started_ = system_.now();
    everyones = gather(mine, deadline);
  });
  return everyones;
}

void Star::check_ranks() {
  keep_error([&] { look(); });
}

void Star::keep_error(const std::function<void()>& step) {
  if (broken_) throw Error{*broken_};
  try {
    step();
  } catch (const Error& error) {
    ErrorDetail detail = error.detail();
    const bool is_interrupted = detail.code == ErrorCode::aborted && detail.peer == no_peer;
    if (is_interrupted) detail.peer = settings_.rank;
    broken_ = Error{detail};
    if (is_interrupted) tell(detail);
    throw Error{*broken_};
  }
}

long long Star::elapsed_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_.now() - started_).count();
}

}  // namespace qpmesh::bootstrap

// SPDX-License-Identifier: MIT
// The root's half of the star. One poll over the listening socket, the unauthenticated peers
// (connected, not yet proven) and the members: nobody waits for anybody else's handshake.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "base/errors.hpp"
#include "base/interrupt.hpp"
#include "bootstrap/acceptor.hpp"
#include "bootstrap/ended_ranks.hpp"
#include "bootstrap/frame_stream.hpp"
#include "bootstrap/init_error.hpp"
#include "bootstrap/socket.hpp"
#include "bootstrap/star.hpp"

namespace qpmesh::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t ranks_named_max = 64;
constexpr std::size_t sent_together_max = 16;

std::string name_ranks(std::span<const int> ranks) {  // "ranks 2, 5 and 3 more"
  const auto named = ranks.first(std::min(ranks.size(), ranks_named_max));
  const std::size_t more = ranks.size() - named.size();
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(named, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

struct Member {
  std::optional<FrameStream> stream;
  std::string who;
  std::optional<Blob> blob;  // of this all_gather
};

// Why a rank may not come in, and what to do about it.
struct Refusal {
  std::string cause;
  std::string hint;
};

bool hung_up(int fd) {
  pollfd entry{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

class StarRoot final : public Star {
 public:
  StarRoot(const StarSettings& settings, Endpoint endpoint, const base::System& system,
           const base::Log& log)
      : Star{settings, std::move(endpoint), system, log},
        acceptor_{{.rank = 0,
                   .key = endpoint_.key,
                   .handshake_timeout_ms = settings.handshake_timeout_ms},
                  system,
                  log},
        members_(static_cast<std::size_t>(settings.size)) {
    base::UniqueFd listener = endpoint_.listen();
    host_ = host_of(listener.get());
    acceptor_.listen(std::move(listener));
  }

  std::string local_address() const override { return host_; }

 private:
  std::vector<Blob> gather(BlobView mine, Deadline deadline) override;
  void look() override;
  void tell(const ErrorDetail& failure) override;
  // The loop's steps.
  void turn(Deadline wake);
  void judge(AuthenticatedPeer caller);
  std::optional<Refusal> refusal_of(const Hello& hello) const;
  void read_member(int rank);
  void hear_of_ended_ranks();

  std::vector<int> ranks_for_which(const std::function<bool(const Member&)>& holds) const;
  std::vector<int> missing() const;
  void report_progress();
  void fail_if_given_up();
  std::vector<Blob> hand_out(Deadline deadline);

  [[noreturn]] void fail_everyone(ErrorDetail detail);
  [[noreturn]] void fail_dead(int rank);
  [[noreturn]] void fail_poll(int error);
  [[noreturn]] void fail_timeout(std::span<const int> absent, std::string_view remark);

  Acceptor acceptor_;
  std::string host_;             // at which it listens
  std::vector<Member> members_;  // by rank; the root's own has no stream
  // Whose deadline has passed. That is told when all that is here has been read.
  std::optional<int> gave_up_;
  std::vector<pollfd> polled_;  // acceptor, members, ended ranks: rebuilt each turn
  Deadline progress_due_;
};

std::vector<Blob> StarRoot::gather(BlobView mine, Deadline deadline) {
  progress_due_ = base::after_ms(system_, settings_.progress_ms);  // 0: never
  members_[0].blob = Blob(mine.begin(), mine.end());
  look();  // poll does not tell of what was read already
  fail_if_given_up();

  while (!missing().empty()) {
    if (system_.now() >= deadline) fail_timeout(missing(), "");
    report_progress();
    turn(std::min(deadline, progress_due_));
  }
  return hand_out(deadline);
}

// Whose deadline has passed waits for us: the next gather says so.
void StarRoot::look() {
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    if (members_[rank].stream) read_member(static_cast<int>(rank));
  }
}

// One poll and everything that it found.
void StarRoot::turn(Deadline wake) {
  polled_.clear();
  wake = acceptor_.watch(polled_, wake);
  const std::size_t first_member = polled_.size();
  // Members whose blob is here are read too: they may give up or die. Absent ranks have no entry:
  // poll takes no more entries than the process may have descriptors.
  for (const Member& member : members_) {
    if (member.stream)
      polled_.push_back({.fd = member.stream->fd(), .events = POLLIN, .revents = 0});
  }
  polled_.push_back({.fd = ended_ranks_.get(), .events = POLLIN, .revents = 0});
  const int ready = base::poll_in_start(system_, polled_, wake);
  if (ready < 0 && errno != EINTR) fail_poll(errno);

  for (std::size_t rank = 1, entry = first_member; rank < members_.size(); ++rank) {
    if (members_[rank].stream && polled_[entry++].revents != 0) read_member(static_cast<int>(rank));
  }
  fail_if_given_up();
  for (AuthenticatedPeer& caller : acceptor_.serve(std::span{polled_}.first(first_member)))
    judge(std::move(caller));
  if (acceptor_.is_starved()) {
    fail_everyone(init_error(ErrorCode::no_resource, 0,
                             "rank 0 has no descriptor left to let another rank in",
                             base::hint_for_descriptors(EMFILE), EMFILE));
  }
  if (polled_.back().revents != 0) hear_of_ended_ranks();
}

// The end of a member is told by its connection.
void StarRoot::hear_of_ended_ranks() {
  for (const EndedRank& ended : read_ended_ranks(system_, ended_ranks_)) {
    const bool awaited = ended.rank > 0 && ended.rank < settings_.size &&
                         !members_[static_cast<std::size_t>(ended.rank)].stream;
    if (!awaited) continue;
    fail_everyone(init_error(ErrorCode::peer_dead, ended.rank,
                             to_string(ended) + " before it joined the start-up",
                             hint_for_ended_rank));
  }
}

std::optional<Refusal> StarRoot::refusal_of(const Hello& hello) const {
  const std::string own_rank = "give every process a rank of its own";
  if (hello.size != settings_.size) {
    return {{fmt::format("rank {} was started as one of {}, rank 0 as one of {}", hello.rank,
                         hello.size, settings_.size),
             "start every rank with the same size"}};
  }
  if (hello.job != hash_of_job(settings_.job)) {
    return {{fmt::format("rank {} is not of job \"{}\", which rank 0 at {} starts", hello.rank,
                         settings_.job, endpoint_.name),
             "give each job a root of its own, and every rank of one job the same QPMESH_JOB"}};
  }
  if (hello.rank < 1 || hello.rank >= settings_.size) {
    return {{fmt::format("rank {} is none of the ranks 1 to {} that rank 0 waits for", hello.rank,
                         settings_.size - 1),
             own_rank}};
  }
  if (hello.ordinal < settings_.ordinal) {
    return {{fmt::format("rank {} calls init for the {}. time, rank 0 for the {}.", hello.rank,
                         hello.ordinal + 1, settings_.ordinal + 1),
             "init is collective: every rank calls it equally often"}};
  }
  const Member& member = members_[static_cast<std::size_t>(hello.rank)];
  if (hello.ordinal > settings_.ordinal || !member.stream || hung_up(member.stream->fd()))
    return {};
  return {{fmt::format("rank {} is here already: {}; the second one is {}", hello.rank, member.who,
                       sender_of(hello)),
           own_rank + ", and give each job a QPMESH_JOB of its own"}};
}

// An authenticated peer becomes a member, or learns why not; the root goes on waiting.
void StarRoot::judge(AuthenticatedPeer caller) {
  const Hello hello = caller.hello;
  // It went while we looked elsewhere, and may call again.
  if (hung_up(caller.stream.fd())) return;
  if (const auto refusal = refusal_of(hello))
    return acceptor_.refuse(std::move(caller), refusal->cause, refusal->hint);
  Member& member = members_[static_cast<std::size_t>(hello.rank)];
  // It has left this start already, and we have not; or it is the next program of the same job,
  // faster than we.
  if (hello.ordinal > settings_.ordinal || member.stream)
    return acceptor_.send_away(std::move(caller));
  const Proof proof = acceptor_.welcome(caller);
  member.stream = std::move(caller.stream);
  member.stream->limit(blob_bytes_max);
  member.who = sender_of(hello);
  member.stream->queue(FrameKind::welcome, proof);
  member.stream->flush(system_);
}

void StarRoot::read_member(int rank) {
  Member& member = members_[static_cast<std::size_t>(rank)];
  while (auto frame = member.stream->read(system_)) {
    if (frame->kind == FrameKind::blob && !member.blob) {
      member.blob = std::move(frame->payload);
      continue;
    }
    if (frame->kind == FrameKind::failed) {
      const ErrorDetail theirs = decode_error(frame->payload, rank);
      if (theirs.code == ErrorCode::timeout) {
        member.blob.emplace();  // it is not the one that is missing
        if (!gave_up_) gave_up_ = rank;
        continue;
      }
      fail_everyone(theirs);
    }
    fail_everyone(
        init_error(ErrorCode::corrupt, rank,
                   fmt::format("rank {} ({}) sent a message of kind {} that was not its turn", rank,
                               member.who, static_cast<std::uint32_t>(frame->kind)),
                   same_library_hint));
  }
  if (member.stream->oversize()) {
    fail_everyone(
        init_error(ErrorCode::corrupt, rank,
                   fmt::format("rank {} ({}) announced {} bytes; at most {} are allowed", rank,
                               member.who, member.stream->begun()->payload_bytes, blob_bytes_max),
                   same_library_hint));
  }
  if (member.stream->ended() && gave_up_ != rank) fail_dead(rank);
}

void StarRoot::fail_if_given_up() {
  if (gave_up_) fail_timeout(missing(), fmt::format("rank {}'s deadline passed first", *gave_up_));
}

void StarRoot::fail_dead(int rank) {
  const Member& member = members_[static_cast<std::size_t>(rank)];
  fail_everyone(init_error(
      ErrorCode::peer_dead, rank,
      fmt::format("rank {} ({}) closed its connection during start-up", rank, member.who),
      "look at what that rank said before it ended", member.stream->error()));
}

std::vector<Blob> StarRoot::hand_out(Deadline deadline) {
  std::vector<Blob> blobs;
  for (Member& member : members_) {
    blobs.push_back(std::move(*member.blob));
    member.blob.reset();
  }
  base::ByteWriter writer;
  for (const Blob& blob : blobs) writer.put_bytes(blob);
  const auto unsent = [](const Member& member) {
    return member.stream && member.stream->unsent() && !member.stream->ended();
  };
  // A stream copies what it sends, and of many ranks all blobs together are long: few have a copy
  // at a time.
  std::size_t first_unsent = 0;
  const auto send_until = [&](std::size_t end) {
    for (; first_unsent < end; ++first_unsent) {
      const Member& member = members_[first_unsent];
      while (unsent(member)) {
        const int error = await(system_, member.stream->fd(), POLLOUT, deadline);
        if (error == ETIMEDOUT)
          fail_timeout(ranks_for_which(unsent), "connected, but does not read");
        if (error != 0) fail_poll(error);
        members_[first_unsent].stream->flush(system_);
      }
    }
  };
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    if (rank > sent_together_max) send_until(rank - sent_together_max);
    members_[rank].stream->queue(FrameKind::everyones, writer.blob());
    members_[rank].stream->flush(system_);
  }
  send_until(members_.size());
  return blobs;
}

std::vector<int> StarRoot::ranks_for_which(const std::function<bool(const Member&)>& holds) const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (holds(members_[rank])) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}
std::vector<int> StarRoot::missing() const {
  return ranks_for_which([](const Member& member) { return !member.blob; });
}

void StarRoot::report_progress() {
  if (system_.now() < progress_due_) return;
  progress_due_ += milliseconds{settings_.progress_ms};
  log_.info("start-up at {}: waiting for {} of {} for {} ms", endpoint_.name, name_ranks(missing()),
            settings_.size, elapsed_ms());
}

void StarRoot::tell(const ErrorDetail& failure) {
  const Blob payload = encode_error(failure);
  for (Member& member : members_) {
    if (!member.stream) continue;
    member.stream->queue(FrameKind::failed, payload);
    member.stream->farewell(system_);
  }
  acceptor_.close();
}

void StarRoot::fail_everyone(ErrorDetail detail) {
  tell(detail);
  throw Error{std::move(detail)};
}

void StarRoot::fail_poll(int error) {
  fail_everyone(init_error(ErrorCode::no_resource, 0, "poll failed at rank 0", {}, error));
}

void StarRoot::fail_timeout(std::span<const int> absent, std::string_view remark) {
  std::string cause = absent.empty()
                          ? fmt::format("rank 0 came too late, after {} ms", elapsed_ms())
                          : fmt::format("{} of {} missing after {} ms", name_ranks(absent),
                                        settings_.size, elapsed_ms());
  if (!remark.empty()) cause += fmt::format(" ({})", remark);
  if (!acceptor_.last_refusal().empty()) cause += fmt::format("; {}", acceptor_.last_refusal());
  fail_everyone(
      init_error(ErrorCode::timeout, absent.empty() ? no_peer : absent.front(), std::move(cause),
                 fmt::format("{} says {} ranks: was every one started? They must {}",
                             settings_.size_variable, settings_.size, endpoint_.terms())));
}

}  // namespace

std::unique_ptr<Star> make_star_root(const StarSettings& settings, Endpoint endpoint,
                                     const base::System& system, const base::Log& log) {
  return std::make_unique<StarRoot>(settings, std::move(endpoint), system, log);
}

}  // namespace qpmesh::bootstrap

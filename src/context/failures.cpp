// SPDX-License-Identifier: MIT
// What a context learns of its peers, from the control channel and from messaging, and what follows
// for its communicators.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "context/communicator_state.hpp"
#include "context/context.hpp"
#include "context/control_frames.hpp"

namespace qpmesh::context {
namespace {

constexpr std::int64_t farewell_ms = 2'000;
// So long a failed link may turn out to be its rank's death.
constexpr std::int64_t link_verdict_ms = 100;
constexpr int drain_polls_max = 100'000;  // a peer's rings hold far less

// What to do about a peer that is lost.
const char* hint_for_loss(ErrorCode code) {
  switch (code) {
    case ErrorCode::peer_dead:
      return "look at what that rank said before it ended, and how its launcher saw it end";
    case ErrorCode::link_failed: return "the rank lives: look at what is between the two";
    case ErrorCode::corrupt: return "start every rank with the same build of qpmesh";
    default: return "";
  }
}

constexpr const char* hint_for_silence =
    "is that rank's host up, and the network to it? its process may still run there";

// By Farewell::Reason.
constexpr std::array farewell_words{"it closed its communicators or ended normally",
                                    "an exception unwound through its communicators",
                                    "it has called finish() and ended"};

}  // namespace

// ---- what messaging found ----

bool Context::agrees(int peer, std::uint64_t communicator, std::uint32_t operation,
                     std::uint32_t signature) {
  CommunicatorState* const state = find(communicator);
  if (state == nullptr || state->history().agrees(operation, signature)) return true;
  if (state->failure() != nullptr) return false;
  state->tell_calls(peer, true);  // the error comes when both have said what they called first
  return false;
}

void Context::link_failed(ErrorDetail detail) {
  if (detail.code != ErrorCode::link_failed) return peer_lost(std::move(detail));
  health_.doubts(std::move(detail), base::after_ms(system(), link_verdict_ms));
}

void Context::communicator_failed(std::uint64_t communicator, ErrorDetail detail) {
  if (detail.peer == no_peer) detail.peer = rank();  // nobody else: it is ours
  take_failure({communicator, rank(), std::move(detail)});
}

// The rank that saw it is named, once, however often it is passed on; not where it blames itself.
void Context::take_failure(CommunicatorFailure failure) {
  CommunicatorState* const state = find(failure.communicator);
  if (state == nullptr) return health_.keep_early(std::move(failure));
  ErrorDetail& detail = failure.detail;
  if (failure.teller == rank()) {
    detail.peer = state->rank_of(detail.peer);
    return state->fail(std::move(detail), true);
  }
  if (detail.code == ErrorCode::aborted && detail.peer == no_peer)
    detail.peer = state->rank_of(failure.teller);  // which does not know its number here
  if (!failure.says_who_saw && detail.peer != state->rank_of(failure.teller)) {
    detail.cause += fmt::format(", seen by {}", name_of(failure.teller));
    if (!detail.operation.empty()) detail.cause += fmt::format(" in {}", detail.operation);
    detail.operation.clear();
  }
  // Of calls that differ each side is told by the other, and a third rank's word must not come
  // first.
  const bool pass_on = detail.code != ErrorCode::mismatch;
  state->fail(std::move(detail), pass_on, true);
}

void Context::disown(std::uint64_t communicator, std::span<const int> members) noexcept {
  try {
    const Blob frame = encode(
        {.kind = ControlFrame::Kind::failure,
         .communicator = communicator,
         .detail = {.code = ErrorCode::aborted,
                    .cause = fmt::format("{} is not in this group: its call that makes it has "
                                         "failed there",
                                         name_of(rank())),
                    .hint = "look at what that rank said of it; make the group again on all"},
         .says_who_saw = true});
    for (const int member : members) {
      if (member != rank()) send_control(member, frame);
    }
  } catch (const std::exception& error) {
    log().error("a group is not there, and its members are not told: {}", error.what());
  }
}

void Context::peer_lost(ErrorDetail detail) {
  const int peer = detail.peer;
  if (health_.at(peer).state == PeerHealth::State::lost) return;
  log().info("{}: {}", name_of(peer), detail.cause);
  detail.cause = fmt::format("{}: {}", name_of(peer), detail.cause);
  if (detail.hint.empty()) detail.hint = hint_for_loss(detail.code);
  health_.loses(detail);  // for communicators that are still to be made
  for (const auto& [id, state] : communicators_) {
    detail.peer = state->rank_of(peer);
    if (detail.peer >= 0) state->fail(detail, true);
  }
}

// ---- the control channel ----

void Context::send_control(int peer, BlobView frame) {
  const std::lock_guard lock{control_mutex_};
  parts_.control->send(peer, frame);
}

void Context::send_control_to_all(BlobView frame) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank()) send_control(peer, frame);
  }
}

bool Context::poll() {
  std::vector<base::ControlEvent> events;
  {
    const std::lock_guard lock{control_mutex_};
    events = parts_.control->poll();
  }
  for (const base::ControlEvent& event : events) handle(event);
  if (waiter_.descriptor_lost()) descriptor_lost();
  messaging_.look_at_links();
  check_node_calls();
  if (engine_.failed_tasks() != seen_failed_tasks_) {
    seen_failed_tasks_ = engine_.failed_tasks();
    for (const auto& [id, state] : communicators_) state->fail_by_task_errors();
  }
  for (ErrorDetail& cause : health_.verdicts(system().now())) peer_lost(std::move(cause));
  if (health_.abort_waits()) take_abort();
  end_waits_for_departed();
  return !events.empty();
}

void Context::check_later(CommunicatorState& communicator) noexcept {
  unchecked_.push_back(communicator);
}

void Context::check_node_calls() noexcept {
  unchecked_.for_each([&](CommunicatorState& each) {
    each.check_node_calls();
    if (!each.is_unchecked()) unchecked_.remove(each);
  });
}

std::chrono::microseconds Context::request_notification() noexcept {
  auto longest = messaging_.sleep_max();
  check_node_calls();  // nothing else would wake us for it
  if (const Deadline verdict = health_.next_verdict(); verdict != no_deadline) {
    const auto left = std::chrono::ceil<std::chrono::microseconds>(verdict - system().now());
    longest = std::min(longest, std::max(left, std::chrono::microseconds{0}));
  }
  for (const auto& transport : parts_.transports)
    longest = std::min(longest, transport->request_notification());
  return longest;
}

void Context::end_notification() noexcept {
  for (const auto& transport : parts_.transports) transport->end_notification();
}

void Context::drain() {
  for (int polls = 0; polls < drain_polls_max && engine_.poll_fast(); ++polls) engine_.run_ready();
}

void Context::handle(const base::ControlEvent& event) {
  if (event.kind == base::ControlEvent::Kind::descriptor_lost) return descriptor_lost();
  // What the peer wrote before it spoke, or went, counts.
  parts_.links[static_cast<std::size_t>(event.peer)].connection->receive_all();
  drain();
  if (event.kind == base::ControlEvent::Kind::frame) return handle_frame(event.peer, event.bytes);
  const bool died = event.kind == base::ControlEvent::Kind::death;
  if (died && !health_.may_end(event.peer)) {
    messaging_.give_up(event.peer);
    return peer_lost({.code = ErrorCode::peer_dead,
                      .peer = event.peer,
                      .cause = event.detail,
                      .hint = event.host_is_silent ? hint_for_silence : ""});
  }
  health_.leaves(event.peer);
}

// A rank that left with a goodbye may have done its part of everything; only what still waits for
// it fails.
void Context::end_waits_for_departed() {
  if (!health_.any_left()) return;
  for (const auto& [id, state] : communicators_) {
    if (state->failure() != nullptr) continue;
    // Named again: clang before 16 lets no lambda take parts of a structured binding.
    const auto waits_for = [&, id = id, state = state](int peer) {
      return messaging_.waits_for(id, peer) || state->waits_on_node_for(peer) ||
             state->probes(peer);
    };
    int here = 0;
    for (const int member : state->context_ranks()) {
      if (!health_.has_left(member)) {
        ++here;
      } else if (waits_for(member)) {
        fail_for_departed(*state, member);
        break;
      }
    }
    // Who receives from anybody, and is the last one here, waits for nobody.
    const bool alone = here == 1 && state->size() > 1;
    if (alone && state->failure() == nullptr && waits_for(messaging::any_peer))
      fail_for_departed(*state, state->context_rank(state->rank() == 0 ? 1 : 0));
  }
}

// The other members are told: what they wait for may be ours to send, and we have stopped. Who left
// after an error that another member is to blame for says so, and that one is named.
void Context::fail_for_departed(CommunicatorState& communicator, int member) {
  const Farewell farewell = health_.at(member).farewell.value_or(Farewell{});
  ErrorDetail detail{
      .code = ErrorCode::peer_dead,
      .peer = communicator.rank_of(member),
      .cause = fmt::format("{} has left: {}", name_of(member),
                           farewell_words[static_cast<std::size_t>(farewell.reason)]),
      .hint =
          farewell.reason == Farewell::Reason::unwound
              ? hint_for_loss(ErrorCode::peer_dead)
              : "call finish() on every rank before the first one leaves; where all have called "
                "it, look at what that rank said before it ended"};
  if (const ErrorDetail& error = farewell.last_error; !error.cause.empty()) {
    const int culprit = communicator.rank_of(error.peer);  // no_peer: nobody here
    if (culprit != no_peer && culprit != communicator.rank() && culprit != detail.peer) {
      detail.code = error.code;
      detail.peer = culprit;
      detail.hint = error.hint;
      detail.cause = fmt::format("{}; {}", error.cause, detail.cause);
    } else {
      detail.cause += fmt::format(", after {}: {}", to_string(error.code), error.cause);
    }
  }
  communicator.fail(std::move(detail), true);
}

void Context::handle_frame(int peer, BlobView bytes) {
  const auto frame = decode_control_frame(bytes);
  if (!frame)
    return peer_lost({.code = ErrorCode::corrupt,
                      .peer = peer,
                      .cause = "a control frame that no rank of this version sends"});
  using Kind = ControlFrame::Kind;
  switch (frame->kind) {
    case Kind::failure:
      return take_failure({frame->communicator, peer, frame->detail, frame->says_who_saw});
    case Kind::abort:
      if (health_.begin_abort(frame->detail)) take_abort();
      return;
    case Kind::connect:
      if (const PeerLink& link = parts_.links[static_cast<std::size_t>(peer)];
          link.on_demand != nullptr)
        link.on_demand->told_by(peer, frame->words);
      return;
    case Kind::leaving: return health_.says_farewell(peer, {frame->reason, frame->detail});
    default: break;
  }
  CommunicatorState* const state = find(frame->communicator);
  if (state == nullptr) {
    if (frame->kind == Kind::calls) answer_calls_of_let_go(peer, *frame);
    return;
  }
  if (state->failure() != nullptr) return;
  switch (frame->kind) {
    case Kind::calls: return answer_calls(*state, peer, *frame);
    case Kind::mismatch: return handle_mismatch(*state, peer, *frame);
    case Kind::whom_do_you_await:
      return send_control(peer, encode({.kind = Kind::awaits,
                                        .communicator = state->id(),
                                        .awaited = awaited_beside(*state)}));
    case Kind::awaits: return state->hear_awaited(peer, frame->awaited);
    default: return;
  }
}

// The rank for which an operation of that communicator waits, or else a call of another one that
// keeps this rank from it.
int Context::awaited_beside(const CommunicatorState& asked) const {
  if (const auto awaited = asked.awaited_context_rank()) return *awaited;
  for (const auto& [id, state] : communicators_) {
    if (!state->is_stalled()) continue;
    if (const auto awaited = state->awaited_context_rank()) return *awaited;
  }
  return no_peer;
}

void Context::handle_mismatch(CommunicatorState& state, int peer, const ControlFrame& frame) {
  const std::string call = state.history().describe(frame.operation);
  if (frame.reply_wanted) {
    send_control(peer, encode({.kind = ControlFrame::Kind::mismatch,
                               .communicator = frame.communicator,
                               .operation = frame.operation,
                               .call = call}));
  }
  // Where the first call that differs is not remembered any more, those that are may be the same.
  const std::string cause =
      call == frame.call
          ? fmt::format(
                "calls differ at or before operation {} of the communicator, {} on ranks {} and {}",
                frame.operation, call, state.rank(), state.rank_of(peer))
          : fmt::format("operation {} of the communicator is {} on rank {} and {} on rank {}",
                        frame.operation, call, state.rank(), frame.call, state.rank_of(peer));
  state.fail(
      {.code = ErrorCode::mismatch,
       .peer = state.rank_of(peer),
       .cause = cause,
       .hint =
           "every rank must call the same collectives with the same arguments in the same order"},
      true);
}

// The first difference is what both ranks are told of: this one says its call, and wants to hear
// the peer's.
void Context::answer_calls(CommunicatorState& state, int peer, const ControlFrame& frame) {
  const auto operation = state.history().first_difference(frame.signatures, frame.reply_wanted);
  if (!operation) return;
  send_control(peer, encode({.kind = ControlFrame::Kind::mismatch,
                             .communicator = state.id(),
                             .operation = *operation,
                             .reply_wanted = true,
                             .call = state.history().describe(*operation)}));
}

// Whoever waits for a call that this rank has not made waits in vain, too.
void Context::answer_calls_of_let_go(int peer, const ControlFrame& frame) {
  const auto found = std::ranges::find(let_go_, frame.communicator, &LetGo::communicator);
  if (found == let_go_.end() || found->history == nullptr) return;
  const CallHistory& history = *found->history;
  const CallHistory::Signatures& theirs = frame.signatures;
  const auto theirs_count = static_cast<std::uint32_t>(theirs.values.size());
  const auto difference = history.first_difference(theirs, frame.reply_wanted);
  const std::uint32_t next = history.last() ? history.last()->operation + 1 : 0;
  const std::uint32_t behind_theirs = theirs.first_operation + theirs_count;
  if (!difference && static_cast<std::int32_t>(behind_theirs - next) <= 0) return;
  send_control(peer, encode({.kind = ControlFrame::Kind::mismatch,
                             .communicator = frame.communicator,
                             .operation = difference.value_or(next),
                             .call = difference ? history.describe(*difference)
                                                : "none, for it was let go,"}));
}

// ---- abort ----

void Context::abort(std::string_view reason) noexcept {
  if (is_inherited()) return;
  try {
    abort_with({.code = ErrorCode::aborted,
                .peer = rank(),
                .operation = "abort",
                .cause = std::string{reason}});
  } catch (const std::exception& error) {
    log().error("abort could not reach the peers: {}", error.what());
  }
}

// Nobody else is to blame, and nobody can be waited for any more.
void Context::descriptor_lost() {
  abort_with({.code = ErrorCode::no_resource,
              .peer = rank(),
              .cause = fmt::format("a descriptor of qpmesh was closed by the application in {}",
                                   name_of(rank())),
              .system_error = EBADF,
              .hint = "close only what the program itself has opened: no closefrom, no close of a "
                      "number twice"});
}

void Context::abort_with(const ErrorDetail& detail) {
  if (!health_.begin_abort(detail)) return;
  send_control_to_all(encode({.kind = ControlFrame::Kind::abort, .detail = detail}));
  if (parts_.doorbell) transport::Neighbour::ring(parts_.doorbell.get());
}

// This rank's share of an abort, on the thread that uses the context. It is passed on before
// anything ends: the caller may leave at once, and no peer may see that before it hears of the
// abort.
void Context::take_abort() {
  ErrorDetail detail = health_.take_abort();
  send_control_to_all(encode({.kind = ControlFrame::Kind::abort, .detail = detail}));
  const int aborter = detail.peer;
  for (const auto& [id, state] : communicators_) {
    detail.peer = state->rank_of(aborter);
    state->fail(detail, false);
    messaging_.end_closing(id);  // nobody needs a link any more
  }
  engine_.run_ready_soon();  // who is told of an end is told by this call
}

// ---- leaving ----

// Who has finished its world may end as it likes, whatever other handles it has left; one that has
// finished another communicator goes on.
void Context::finished(const CommunicatorState& communicator) {
  const auto is_finished = [](const auto& each) { return each.second->finished(); };
  if (std::ranges::all_of(communicators_, is_finished)) return leave(Farewell::Reason::finished);
  if (communicator.id() != world_id(parts_.epoch) || std::exchange(told_finished_, true)) return;
  tell_farewell(Farewell::Reason::finished);
}

void Context::tell_farewell(Farewell::Reason reason) {
  send_control_to_all(encode({.kind = ControlFrame::Kind::leaving,
                              .detail = health_.last_error(calls_made()),
                              .reason = reason}));
}

// Whatever the peers still need from us leaves first (an answer that waits for a line), and has
// arrived: what a network loses when the queue pair has gone is lost for good. Then the goodbye.
void Context::leave(Farewell::Reason reason) noexcept {
  if (std::exchange(has_left_, true)) return;
  try {
    const auto is_there = [&](int peer) { return peer != rank() && !health_.has_left(peer); };
    const auto all_gone = [&] { return messaging_.flush() && messaging_.delivered(is_there); };
    waiter_.wait_until(all_gone, {.timeout_ms = farewell_ms});
    const auto sent = messaging_.counters();
    log().info("sent {} records, {} payload segments, {} credit writes, {} zero-copy messages",
               sent.records_sent, sent.segments_sent, sent.credit_writes, sent.zero_copy_sends);
    tell_farewell(reason);
  } catch (const std::exception& error) {
    log().error("while leaving: {}", error.what());
  }
  const std::lock_guard lock{control_mutex_};
  parts_.control->say_goodbye(base::after_ms(system(), farewell_ms));
}

}  // namespace qpmesh::context

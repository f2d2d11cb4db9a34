// Large messages that the receiver copies by itself out of where the sender has them: memory that it can load, or the sender's private
// memory.
//
// Both ends wait for the same message, and each may have a core that could copy. The receiver opens a guard for the last part of where
// the bytes go, and asks. The sender, if it comes to that while it polls, copies that part by one call of the system. What it has not begun
// when the receiver has the first part the receiver copies too, and what it has begun is waited for: nobody writes a buffer which its owner
// has back.
#include <cstring>
#include <optional>

#include "base/cpu.hpp"
#include "base/fill_guard.hpp"
#include "messaging/failure.hpp"
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

bool copy_source(transport::Connection& connection, const RendezvousBody& offered, std::uint8_t flags,
                 std::size_t begin, std::span<std::byte> target) noexcept {
  if ((flags & flag_source_private) != 0)
    return connection.copy_private(target.data(), offered.offset + begin, target.size());
  const std::byte* const source = connection.load({offered.region, offered.offset + begin}, target.size());
  if (source == nullptr) return false;
  std::memcpy(target.data(), source, target.size());
  return true;
}

// The peer's count of revocations, or nothing where it cannot be loaded.
std::optional<std::uint32_t> revocations_of(Peer& peer) {
  const std::byte* const counter = peer.connection.load(peer.remote_revocations, sizeof(std::uint32_t));
  if (counter == nullptr) return std::nullopt;
  return ProcessAtomics::load_acquire(base::word_at<std::uint32_t>(counter));
}

bool wants_help(Core& core, const Peer& peer, std::size_t bytes) noexcept {
  const bool copies_itself = !peer.offered.empty();  // what we have offered to it
  return peer.capabilities.fills_private_memory && core.config.own_core && !copies_itself &&
         peer.control.empty() && bytes >= base::filled_bytes_min && bytes <= base::filled_bytes_max;
}

void ask_for_help(Core& core, Peer& peer, std::uint32_t sender_operation, std::size_t begin,
                  std::span<std::byte> target) {
  const HelpBody body{.sender_operation = sender_operation,
                      .number = ++peer.helps,
                      .address = reinterpret_cast<std::uintptr_t>(target.data()),
                      .guard_address = reinterpret_cast<std::uintptr_t>(&peer.guard),
                      .begin = begin,
                      .bytes = target.size()};
  peer.guard.open_for(body.number);
  Record record;
  start_record(record, {.kind = RecordKind::help, .body_bytes = sizeof body});
  std::memcpy(record.body(), &body, sizeof body);
  post(core, peer, record, {}, Ring::Priority::control);  // or not: then nobody begins
}

// After it the peer does not write our memory any more. True: it has copied what it was asked for.
bool was_helped(Core& core, Peer& peer) {
  const base::FillGuard::Settled settled =
      peer.guard.settle(peer.helps, [&] { return peer.connection.process_ends_soon(); });
  peer.help_share.learn(settled);
  if (settled == base::FillGuard::Settled::not_filled) return false;
  ++core.counters.helped_pulls;
  return true;
}

bool copy_with_help(Core& core, Peer& peer, const RendezvousBody& offered, std::uint8_t flags,
                    std::span<std::byte> target) {
  if (!wants_help(core, peer, target.size())) return copy_source(peer.connection, offered, flags, 0, target);
  const std::size_t first = peer.help_share.first_bytes(target.size());
  const std::span<std::byte> rest = target.subspan(first);
  ask_for_help(core, peer, offered.sender_operation, first, rest);
  const bool copied = copy_source(peer.connection, offered, flags, 0, target.first(first));
  if (was_helped(core, peer)) return copied;
  return copied && copy_source(peer.connection, offered, flags, first, rest);
}

// The message, at once. False: it cannot be reached. What is combined does not come out of private memory: a reduction works on what is in
// the cache, as it comes through the ring.
bool take_source(Core& core, Peer& peer, const ReceiveOperation& receive, const RendezvousBody& offered,
                 std::uint8_t flags) {
  const std::size_t bytes = receive.message_bytes;
  const bool is_private = (flags & flag_source_private) != 0;
  if (is_private && (!peer.capabilities.copies_private_memory || receive.combine != nullptr)) return false;
  if (receive.combine == nullptr) return copy_with_help(core, peer, offered, flags, {receive.data, bytes});
  const std::byte* const source = peer.connection.load({offered.region, offered.offset}, bytes);
  if (source == nullptr) return false;
  receive.combine(receive.data, receive.operand, source, bytes, receive.context);
  return true;
}

}  // namespace

// False: answer the offer in another way. The sender may take its source back (its communicator failed) at any moment; it
// raises its count before, so a count that is still the offer's after the copy says that the copy is the message.
bool pull(Core& core, Peer& peer, ReceiveOperation& receive, const RendezvousBody& offered,
          std::uint8_t flags) {
  if (!peer.capabilities.loads_peer_memory || revocations_of(peer) != offered.place) return false;
  const std::uint64_t communicator = receive.communicator;
  if (!take_source(core, peer, receive, offered, flags)) return false;
  base::order_loads();  // the count is looked at after the last byte of the source
  if (revocations_of(peer) != offered.place) {
    if (receive.combine == nullptr) return false;
    const Error failure{
        {.code = ErrorCode::aborted, .peer = peer.rank, .cause = "the peer took back what it was sending"}};
    core.matching.post(receive);  // where the failing communicator finds it
    core.listener.communicator_failed(communicator, failure.detail());
    return true;
  }
  ++core.counters.pulls;
  core.engine.complete(receive);
  send_control(core, peer, finished_record(communicator), {.sender_operation = offered.sender_operation});
  return true;
}

void handle_help(Core& core, Peer& peer, const HelpBody& body) {
  const SendOperation* const send = core.sends.find(body.sender_operation);
  const bool offered =
      send != nullptr && send->target == peer.rank && send->state == SendOperation::State::offered;
  if (!offered) return count_stale(core);
  if (body.begin > send->bytes || body.bytes > send->bytes - body.begin)
    return link_failed(core, peer, ErrorCode::corrupt, "it asks for more of a message than there is");
  peer.connection.fill_private({.address = body.address,
                                .guard = peer.remote_guard,
                                .guard_address = body.guard_address,
                                .number = body.number},
                               {send->data + body.begin, body.bytes});
}

}  // namespace qpmesh::messaging

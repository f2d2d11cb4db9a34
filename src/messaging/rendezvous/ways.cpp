// SPDX-License-Identifier: MIT
// How the private memory of a rank of the node comes: copied by the receiver through the system,
// with the sender's help or without it, or streamed through the payload ring. Which is fastest
// depends on where the cores are, on who else needs them, and on whether the sender looks. The
// receiver finds it: by timing, for each length and placement.
#include "messaging/rendezvous/rendezvous.hpp"

namespace qpmesh::messaging {

namespace {

// In the order of FastestWay: what is predicted comes first.
enum class Way : std::size_t { pull, stream, pull_alone };

// Where a target lies so many bytes behind its source modulo a page the system's copy crawls, or is
// a little slower, or neither (base/cpu_copy.hpp).
std::size_t placement_of(const ReceiveOperation& receive, const OfferBody& offered) noexcept {
  const auto behind = (reinterpret_cast<std::uintptr_t>(receive.data) - offered.offset) % 4096;
  if (behind == 0 || behind >= base::cache_line_bytes) return 0;
  return behind >= 16 ? 1 : 2;
}

}  // namespace

bool take_fastest_way(Core& core, Peer& peer, ReceiveOperation& receive, const OfferBody& offered) {
  receive.timed_way = ReceiveOperation::not_timed;
  // A reduction works on what is in the cache, as it comes through the ring.
  if (receive.combine != nullptr) return false;
  if (!core.config.measures) return pull(core, peer, receive, offered, true);
  // Of some KiB: as a rule its sender knew that this receive stands ready.
  if (receive.message_bytes > ready_bytes_min && receive.message_bytes <= ready_bytes_max &&
      receive.message_bytes <= peer.eager.max(receive.message_key)) {
    peer.was_pulled_from = true;
    return pull(core, peer, receive, offered, true, Help::not_wanted);
  }
  const std::size_t placement = placement_of(receive, offered);
  // Who has long messages for us while we have some for it makes copies of its own meanwhile: to
  // stream is to make two of each.
  if (placement == 0 && sends_long(peer)) return pull(core, peer, receive, offered, true);
  const bool may_be_helped =
      core.config.cooperative_copies && receive.message_bytes >= base::filled_bytes_min;
  const FastestWay::Use use =
      peer.long_ways[placement].of(receive.message_bytes).next(may_be_helped ? 3 : 2);
  if (use.timed) {
    ++peer.long_timed;
    receive.timed_way = static_cast<std::uint8_t>(placement * FastestWay::ways_max + use.way);
    receive.begun = core.system.now();
  }
  const auto way = static_cast<Way>(use.way);
  if (way == Way::stream) return false;
  const Help help = way == Way::pull ? Help::wanted : Help::not_wanted;
  if (pull(core, peer, receive, offered, true, help)) return true;
  forget_time(peer, receive);
  return false;
}

void forget_time(Peer& peer, ReceiveOperation& receive) noexcept {
  if (receive.timed_way == ReceiveOperation::not_timed) return;
  --peer.long_timed;
  receive.timed_way = ReceiveOperation::not_timed;
}

// The time of one begins with the end of the one before, where several are under way at once.
void note_long_end(Core& core, Peer& peer, ReceiveOperation& receive) noexcept {
  const Deadline now = core.system.now();
  const std::size_t timed = receive.timed_way;
  if (timed != ReceiveOperation::not_timed) {
    forget_time(peer, receive);
    const Deadline begin = std::max(receive.begun, peer.long_ended);
    peer.long_ways[timed / FastestWay::ways_max]
        .of(receive.message_bytes)
        .took(timed % FastestWay::ways_max, nanoseconds(now - begin));
  }
  peer.long_ended = now;
}

}  // namespace qpmesh::messaging

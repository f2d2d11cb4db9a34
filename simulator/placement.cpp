// SPDX-License-Identifier: MIT
// The way of a write, and of a read: posted → pieces placed, one event each → fence (flag stored,
// immediate delivered) → retired → completed. Strict order begins a write when the one before it
// has retired; relaxed order begins it when it is posted. Retiring and completing follow the order
// of posting in both.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "simulator/fabric.hpp"

namespace qpmesh::simulator {
namespace {

template <class Flights>
auto find(Flights& flights, std::uint64_t sequence) noexcept -> decltype(flights.data()) {
  if (flights.empty() || sequence < flights.front().sequence) return nullptr;
  const std::uint64_t index = sequence - flights.front().sequence;
  return index < flights.size() ? &flights[index] : nullptr;
}

}  // namespace

void Fabric::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::piece: return place_piece(event.subject, event.argument);
    case EventKind::fence: return retire(event.subject, event.argument);
    case EventKind::completion: return complete(event.subject, event.argument);
    case EventKind::retransmission: return retransmit(event.subject, event.argument);
    case EventKind::link_down: return link_down(event.subject);
    case EventKind::control:
    case EventKind::wake:
    case EventKind::action: break;
  }
  assert(false && "not an event of the fabric");
}

std::byte* Fabric::resolve(const Endpoint& target, RemoteAddress address,
                           std::size_t bytes) const noexcept {
  const auto& regions = ports_[target.port].regions;
  const auto region = regions.find(address.region);
  if (region == regions.end()) return nullptr;
  const auto memory = region->second.memory;
  if (address.offset > memory.size() || bytes > memory.size() - address.offset) return nullptr;
  return memory.data() + address.offset;
}

std::string Fabric::why_unresolved(const Endpoint& target, const Flight& flight) const {
  const auto& regions = ports_[target.port].regions;
  const auto region = regions.find(flight.target.region);
  if (region == regions.end()) {
    return fmt::format("a {} of {} bytes names region {:#x}, which is not registered at rank {}",
                       flight.is_read() ? "read" : "write", flight.bytes(), flight.target.region,
                       target.rank);
  }
  return fmt::format(
      "a {} of {} bytes at offset {} is outside region {:#x} of rank {}, which has {} bytes",
      flight.is_read() ? "read" : "write", flight.bytes(), flight.target.offset,
      flight.target.region, target.rank, region->second.memory.size());
}

// What no correct caller posts; a device would refuse it or corrupt memory.
std::optional<std::string> Fabric::unusable(std::uint32_t port, const Write& write) const {
  const std::size_t bytes = write.head.size() + write.body.size();
  if (bytes > config_.write_bytes_max) {
    return fmt::format("a write of {} bytes was posted, write_bytes_max is {}", bytes,
                       config_.write_bytes_max);
  }
  if (config_.registered_sources && bytes > config_.inline_bytes_max) {
    for (const auto source : {write.head, write.body}) {
      if (!source.empty() && !region_of(port, source, write.source_region))
        return fmt::format("a write of {} bytes from memory that is not registered", bytes);
    }
  }
  if (write.flag_offset == Write::no_flag) return std::nullopt;
  if (write.flag_offset > write.head.size() ||
      write.head.size() - write.flag_offset < write.flag_bytes) {
    return fmt::format("a flag at {} does not lie in a head of {} bytes", write.flag_offset,
                       write.head.size());
  }
  if ((write.target.offset + write.flag_offset) % write.flag_bytes != 0) {
    return fmt::format("a flag at {} of a write to offset {} is not aligned", write.flag_offset,
                       write.target.offset);
  }
  return std::nullopt;
}

Post Fabric::post(std::uint32_t endpoint, std::span<const Write> chain) {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.fault) return Post::failed;
  for (const Write& write : chain) {
    if (auto why = unusable(mine.port, write)) {
      break_pair(endpoint, *why, EINVAL);
      return Post::failed;
    }
  }
  if (!admits(mine, chain.size())) return Post::busy;
  for (const Write& write : chain) take_off(endpoint, flight_of(mine.port, write));
  return Post::posted;
}

Post Fabric::read(std::uint32_t endpoint, std::span<std::byte> target,
                  std::optional<std::uint32_t> target_region, RemoteAddress source) {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.fault) return Post::failed;
  Flight flight;
  flight.into = target;
  flight.own_region = region_of(mine.port, target, target_region);
  flight.target = source;
  flight.tell = true;
  if (!flight.own_region || target.size() > config_.write_bytes_max) {
    break_pair(
        endpoint,
        fmt::format("a read of {} bytes, write_bytes_max is {}, into memory that is {}registered",
                    target.size(), config_.write_bytes_max, flight.own_region ? "" : "not "),
        EINVAL);
    return Post::failed;
  }
  if (!admits(mine, 1)) return Post::busy;
  take_off(endpoint, std::move(flight));
  return Post::posted;
}

bool Fabric::admits(Endpoint& mine, std::size_t count) {
  const auto depth = static_cast<std::size_t>(config_.depth);
  // A chain longer than the queue would never fit: it may have the empty queue for itself.
  const bool full = !mine.flights.empty() && mine.flights.size() + count > depth;
  if (full || scheduler_.random().chance(config_.busy_probability)) {
    scheduler_.met_busy(mine.rank);
    return false;
  }
  scheduler_.met_success(mine.rank);
  return true;
}

void Fabric::take_off(std::uint32_t endpoint, Flight flight) {
  Endpoint& mine = endpoints_[endpoint];
  flight.sequence = mine.next_sequence++;
  flight.ready_ns = scheduler_.now_ns() + delay();
  const bool first = mine.flights.empty() || mine.flights.back().retired;
  Flight& last = mine.flights.emplace_back(std::move(flight));
  if (!mine.peer_dead && (first || config_.write_order == WriteOrder::relaxed))
    begin(endpoint, last);
}

Flight Fabric::flight_of(std::uint32_t port, const Write& write) const {
  Flight flight;
  flight.head = write.head;
  flight.body = write.body;
  if (flight.bytes() <= config_.inline_bytes_max) {
    flight.copied.assign(write.head.begin(), write.head.end());
    flight.copied.insert(flight.copied.end(), write.body.begin(), write.body.end());
  } else if (config_.registered_sources) {
    const auto source = write.body.empty() ? write.head : write.body;
    flight.own_region = region_of(port, source, write.source_region);
  }
  flight.target = write.target;
  if (config_.ordered_flag) flight.flag_offset = write.flag_offset;
  flight.flag_bytes = write.flag_bytes;
  flight.immediate = write.immediate;
  flight.tell = write.tell;
  return flight;
}

void Fabric::begin(std::uint32_t endpoint, Flight& flight) {
  flight.began = true;
  flight.cut(config_.pieces_max, config_.bytes_in_order, scheduler_.random());
  const std::int64_t first = std::max(flight.ready_ns, scheduler_.now_ns() + 1);
  if (flight.pieces.empty()) {
    flight.ready_ns = first;
    bytes_placed(endpoint, flight);
  } else if (config_.write_order == WriteOrder::strict) {
    scheduler_.at(first, EventKind::piece, endpoint, flight.sequence);
  } else {
    for (std::size_t i = 0; i < flight.pieces.size(); ++i) {
      scheduler_.at(first + scheduler_.random().between(0, config_.delay_max_ns), EventKind::piece,
                    endpoint, flight.sequence);
    }
  }
}

void Fabric::place_piece(std::uint32_t endpoint, std::uint64_t sequence) {
  Endpoint& mine = endpoints_[endpoint];
  Flight* const flight = find(mine.flights, sequence);
  if (flight == nullptr || mine.peer_dead)
    return;  // to the dead nothing moves, until link_down tells
  const Piece piece = flight->pieces[flight->placed];
  if (!place(endpoint, *flight, piece)) return;
  ++flight->placed;
  scheduler_.note(piece.offset, piece.bytes);
  if (flight->all_placed()) {
    scheduler_.touch(mine.peer);
    may_retransmit(endpoint, *flight);
    return bytes_placed(endpoint, *flight);
  }
  if (scheduler_.random().chance(config_.peek_probability)) scheduler_.touch(mine.peer);
  if (config_.write_order == WriteOrder::strict) {
    scheduler_.at(scheduler_.now_ns() + gap(), EventKind::piece, endpoint, sequence);
  }
}

bool Fabric::place(std::uint32_t endpoint, Flight& flight, Piece piece) {
  const Endpoint& mine = endpoints_[endpoint];
  const Endpoint& target = endpoints_[mine.peer_endpoint];
  if (target.closed) {
    link_down(endpoint);
    return false;
  }
  if (flight.own_region && !ports_[mine.port].regions.contains(*flight.own_region)) {
    break_pair(endpoint, fmt::format("rank {} closed memory that its device still uses", mine.rank),
               EFAULT);
    return false;
  }
  std::byte* const memory = resolve(target, flight.target, flight.bytes());
  if (memory == nullptr) {
    break_pair(endpoint, why_unresolved(target, flight), EFAULT);
    return false;
  }
  if (flight.is_read()) {
    if (piece.bytes > 0)
      std::memcpy(flight.into.data() + piece.offset, memory + piece.offset, piece.bytes);
  } else {
    flight.read(piece.offset, {memory + piece.offset, piece.bytes});
  }
  return true;
}

void Fabric::may_retransmit(std::uint32_t endpoint, const Flight& flight) {
  if (!scheduler_.random().chance(config_.retransmission_probability)) return;
  scheduler_.at(scheduler_.now_ns() + delay(), EventKind::retransmission, endpoint,
                flight.sequence);
}

void Fabric::retransmit(std::uint32_t endpoint, std::uint64_t sequence) {
  Endpoint& mine = endpoints_[endpoint];
  Flight* const flight = find(mine.flights, sequence);
  if (flight == nullptr || flight->settled()) return;
  if (const Flight* const next = find(mine.flights, sequence + 1); next != nullptr) {
    if (config_.write_order == WriteOrder::strict ? next->placed > 0 : next->retired) return;
  }
  // Memory that was closed since has its bytes: only the acknowledgement was lost.
  const Endpoint& target = endpoints_[mine.peer_endpoint];
  if (target.closed || resolve(target, flight->target, flight->bytes()) == nullptr) return;
  for (const Piece& piece : flight->pieces) place(endpoint, *flight, piece);
  scheduler_.touch(mine.peer);
}

// The fence is an event of its own, so that the receiver can be stepped between the last byte and
// the flag.
void Fabric::bytes_placed(std::uint32_t endpoint, Flight& flight) {
  Endpoint& mine = endpoints_[endpoint];
  const Flight* const previous = find(mine.flights, flight.sequence - 1);
  if (previous != nullptr && !previous->retired) return;  // its retirement goes on with us
  const std::int64_t earliest = flight.pieces.empty() ? flight.ready_ns : scheduler_.now_ns();
  scheduler_.at(std::max(earliest, scheduler_.now_ns()) + gap(), EventKind::fence, endpoint,
                flight.sequence);
}

bool Fabric::store_flag(std::uint32_t endpoint, Flight& flight) {
  if (flight.flag_offset == Write::no_flag) return true;
  if (!place(endpoint, flight, {0, 0}))
    return false;  // the target may have gone since the last piece
  std::byte* const memory =
      resolve(endpoints_[endpoints_[endpoint].peer_endpoint], flight.target, flight.bytes());
  const auto store = [&]<class Word>(Word flag) {
    flight.read(flight.flag_offset, std::as_writable_bytes(std::span{&flag, 1}));
    auto* const where = reinterpret_cast<Word*>(memory + flight.flag_offset);
    assert(reinterpret_cast<std::uintptr_t>(where) % std::atomic_ref<Word>::required_alignment ==
           0);
    std::atomic_ref<Word>{*where}.store(flag, std::memory_order_release);
  };
  if (flight.flag_bytes == sizeof(std::uint64_t)) store(std::uint64_t{0});
  else store(std::uint32_t{0});
  return true;
}

void Fabric::retire(std::uint32_t endpoint, std::uint64_t sequence) {
  Endpoint& mine = endpoints_[endpoint];
  Flight* const flight = find(mine.flights, sequence);
  if (flight == nullptr || mine.peer_dead) return;
  if (endpoints_[mine.peer_endpoint].closed) return link_down(endpoint);
  if (!store_flag(endpoint, *flight)) return;
  if (flight->immediate && !deliver(mine.peer_endpoint, *flight->immediate))
    return break_pair(endpoint, "the peer had no receive request posted for an immediate", 0);
  if (flight->flag_offset != Write::no_flag) scheduler_.touch(mine.peer);
  flight->retired = true;
  // Completions come in order: never at or before the previous one's time.
  mine.last_completion_ns = std::max(scheduler_.now_ns() + delay(), mine.last_completion_ns + 1);
  scheduler_.at(mine.last_completion_ns, EventKind::completion, endpoint, sequence);
  Flight* const next = find(mine.flights, sequence + 1);
  if (next == nullptr) return;
  if (!next->began) {
    begin(endpoint, *next);
  } else if (next->all_placed()) {
    bytes_placed(endpoint, *next);
  }
}

void Fabric::complete(std::uint32_t endpoint, std::uint64_t sequence) {
  Endpoint& mine = endpoints_[endpoint];
  if (mine.flights.empty() || mine.flights.front().sequence != sequence) return;
  const bool tell = mine.flights.front().tell;
  mine.flights.erase(mine.flights.begin());
  if (!tell) return;
  ++mine.completed;
  mark_changed(endpoint);
}

}  // namespace qpmesh::simulator

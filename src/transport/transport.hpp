// SPDX-License-Identifier: MIT
// THE WAIST: what messaging asks of a way to move bytes. A transport writes into memory that the
// peer opened to us, in order, and tells when a source may be reused; some can also read it.
// Everything else (records, credits, matching, rendezvous) is written once, above.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "qpmesh/error.hpp"

namespace qpmesh::transport {

// Peer memory, as its owner named it: the key of a region that it registered, and where in it.
// Where the offset counts from is the transport's affair: over verbs the key is the rkey and the
// offset the owner's virtual address, elsewhere the region's first byte is 0. It is only added to.
struct RemoteAddress {
  std::uint32_t region = 0;
  std::uint64_t offset = 0;
  // The key of the same memory on the second rail; 0: it is not open there (rails.hpp).
  std::uint32_t second_region = 0;

  constexpr RemoteAddress operator+(std::uint64_t bytes) const noexcept {
    return {region, offset + bytes, second_region};
  }
};

// How a receiver learns that a write has arrived.
enum class Notification : std::uint8_t {
  // A flag inside the written memory. Relies on the connection's order of writes.
  poll,
  // The write carries a 32-bit immediate; the receiver's completion is the flag. Relies on nothing.
  immediate,
};

// What a connection can do; the same on both of its ends.
struct Capabilities {
  std::string_view name;  // "shm": folder, option value, log field
  // The flag of a write is stored last, atomically, with release, after every byte of this and
  // earlier writes. Where it does not hold, bytes inside a write appear in any order and a
  // polled record must prove itself by its checksum.
  bool ordered_flag = false;
  // The bytes of one write appear in address order (ibv_query_qp_data_in_order says so of some
  // devices): a record is complete when its tail is there, and needs no checksum.
  bool bytes_in_order = false;
  bool loads_peer_memory = false;  // Connection::load works on what the peer registered
  // Any memory of a process can be registered, for the peer's writes and reads.
  bool registers_user_memory = false;
  bool registers_for_nothing = false;  // so it pays for messages of any length
  // The receiver's process places what the peer writes: behind deregister_memory nothing lands
  // there any more, and what still comes is dropped.
  bool receiver_places = false;
  // A device reads sources beyond inline_bytes_max: they must lie in memory that is registered.
  bool registered_sources = false;
  Notification small = Notification::poll;   // records without payload behind them
  Notification medium = Notification::poll;  // records with payload behind them
  std::size_t inline_bytes_max = 0;          // such sources may be reused as soon as post returns
  std::size_t write_bytes_max = 0;           // of one write or read
  // On which unordered writes, and reads, go side by side.
  int rails = 1;
  // Up to here a copy more costs less than asking where the message may go.
  std::size_t eager_bytes_max = std::size_t{32} << 10;
  // The same of a step of a collective, for which its receiver waits; 0: as of any message.
  std::size_t eager_step_bytes_max = 0;
};

// One write. Its bytes are head, then body gathered right behind it. Sources must stay untouched
// until the write is covered by completed(), unless head and body together fit inline_bytes_max.
struct Write {
  static constexpr std::uint32_t no_flag = ~std::uint32_t{0};

  std::span<const std::byte> head = {};
  std::span<const std::byte> body = {};
  // Where registered_sources and neither inline nor in lasting memory: the region of all its bytes.
  std::optional<std::uint32_t> source_region = {};
  RemoteAddress target = {};
  // Of aligned bytes inside head, which the receiver polls: stored at once where flags are ordered.
  std::uint32_t flag_offset = no_flag;
  std::uint32_t flag_bytes = 4;                 // or 8
  std::optional<std::uint32_t> immediate = {};  // delivered by poll_immediate at the other end
  bool tell = false;  // counts in completed() once its sources, and all earlier ones, may be reused
  // Where there are several rails it may be placed behind later writes. It tells, and who posts it
  // lets the peer know of it when it counts in completed(): over rails its bytes are there then.
  bool unordered = false;
  // By it the peer learns of a message, whose bytes are those of its chain. Over rails these are
  // posted again where they may be lost (Connection::asks_taken). Other ordered writes tell counts.
  bool message = false;
};

enum class Post : std::uint8_t { posted, busy, failed };

// One peer, one ordered lane of writes. Used by one thread at a time, like its context.
class Connection {
 public:
  virtual ~Connection() = default;

  virtual const Capabilities& capabilities() const noexcept = 0;

  // The whole chain or nothing; never blocks. Writes of a chain and of successive posts are placed
  // in order (an immediate is never delivered before all earlier bytes are visible). busy: try
  // again after progress. failed: fault() says why.
  virtual Post post(std::span<const Write> chain) noexcept = 0;

  // Fetches bytes that the peer registered, at most write_bytes_max of them, into target. That lies
  // in lasting memory or in target_region, and stays untouched until the read counts in
  // completed(): then all bytes are there and visible, and at the peer, where there is one rail,
  // those of all writes posted before it. Later writes may pass it. Never blocks; busy and failed
  // as with post.
  virtual Post read(std::span<std::byte> target, std::optional<std::uint32_t> target_region,
                    RemoteAddress source) noexcept = 0;

  // How many writes with tell, and reads, have completed, in order, since the beginning.
  virtual std::uint64_t completed() const noexcept = 0;

  // Has everything that was posted arrived? For a rank's last words: what a network loses after the
  // connection has gone is not sent again. May post a marker to learn it; true where nothing can be
  // lost, and after a failure.
  virtual bool delivered() noexcept { return true; }

  // The next immediate of the peer's writes, in order; all bytes up to its write are visible.
  virtual std::optional<std::uint32_t> poll_immediate() noexcept = 0;

  // Where this process stores by itself what post would write, into memory that the peer
  // registered; nullptr where it cannot. What it stored is written by publish.
  virtual std::byte* map(RemoteAddress, std::size_t) noexcept { return nullptr; }
  // As a write of four aligned bytes at a place that map gave, with everything that was stored
  // before. Never busy.
  virtual Post publish(std::byte* flag, std::uint32_t value) noexcept;

  // Where this process can load the peer's registered memory [source, source + bytes); nullptr
  // where it cannot. Total: what does not lie in a region of the peer is nullptr too.
  virtual const std::byte* load(RemoteAddress source, std::size_t bytes) noexcept = 0;

  // What had come to this host of the peer is placed when it returns. Before the last words of the
  // peer count: they come another way, and bytes that wait for a look were written before them.
  virtual void receive_all() noexcept {}  // memory is written without us

  // Over rails the one that had the ordered writes has failed, and another one has them from here
  // on. Which messages of the peer are lost knows who takes them: it takes what is here whole,
  // drops what came in part, and tells how many it has taken since the beginning, in the low 31
  // bits. The peer posts the later ones again. Counts it posts again by itself: the newest of them
  // may be lost. Until both ends have told, ordered writes are busy.
  virtual bool asks_taken() const noexcept { return false; }
  virtual void tell_taken(std::uint32_t) noexcept {}

  // After it returns, no write of the peer lands here any more, and none of ours starts. Before
  // memory that was open to the peer goes back to its owner with an error.
  virtual void tear_down() noexcept = 0;

  // The first cause of its failure, a link_failed that never changes; nullptr while healthy.
  virtual const ErrorDetail* fault() const noexcept = 0;
  // Why it may have failed, though it may also go on in a while: its port is down, or without the
  // link's address. nullptr: no doubt. Who has another way need not wait.
  virtual const ErrorDetail* doubt() const noexcept { return nullptr; }
};

inline Post Connection::publish(std::byte*, std::uint32_t) noexcept {
  return Post::failed;  // of what maps nothing
}

// What registered memory is for.
enum class RegionKind : std::uint8_t {
  lasting,  // peers write, read and load it; our own writes and reads use it
  target,   // of one message: peers write it, or our reads fill it
  source,   // of one message: our writes send it, or peers read it, and nobody writes
};

// Set-up: may allocate, call the system, and throw Error. How two ends connect is each transport's
// own; nothing is posted before every rank has connected.
class Transport {
 public:
  virtual ~Transport() = default;

  // Returns how peers name the first byte. Regions may overlap. Throws Error{no_resource}.
  virtual RemoteAddress register_memory(std::span<const std::byte> memory, RegionKind kind) = 0;
  // True: nothing that a peer posts reaches the memory by this region any more. A write that still
  // comes for it is dropped where the receiver places, and breaks its connection elsewhere. False:
  // peers may reach it yet, or get what waits to be sent, until their connections are torn down.
  // A later region may have the same key.
  virtual bool deregister_memory(std::uint32_t region) noexcept = 0;
  // How a peer names this memory; nothing where it is not lasting. A region of one message is that
  // message's alone: another one of the same memory may outlast it.
  virtual std::optional<RemoteAddress> address_of(
      std::span<const std::byte> memory) const noexcept = 0;

  virtual void progress() noexcept = 0;  // polls completions; never blocks
  // Readable when progress has something to do; -1: none.
  virtual int wake_descriptor() const noexcept = 0;
  // Before this thread sleeps on the descriptor: news from here on make it readable; progress looks
  // once more for what came before. Returns how long a sleep may last: memory wakes nobody.
  virtual std::chrono::microseconds request_notification() noexcept {
    return std::chrono::microseconds::max();
  }
  // The sleep is over, or there was none.
  virtual void end_notification() noexcept {}
  // News that are rare and cost a system call: device events. Called now and then.
  virtual void poll_async_events() noexcept {}
};

}  // namespace qpmesh::transport

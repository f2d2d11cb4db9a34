// SPDX-License-Identifier: MIT
// Memory as C++ promises it, for a few threads that run in turns: what each load may return, and
// who knows of what.
//
// The model is RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: "Repairing sequential consistency in
// C/C++11", PLDI 2017), which C++20 adopted for sequentially consistent operations. Every word has
// its stores in modification order. What a thread knows is how far it has seen each word, and how
// far it has synchronised with each thread; a release hands that over, and an acquire joins it. A
// load may return every store that is not older than what its thread has seen. Two accesses of
// which one is plain, and which nothing orders, are a data race.
//
// Modification order is here the order in which stores run. A word that one thread writes, or that
// others change by read-modify-writes only, loses nothing by that. As RC11, the model has no loads
// that return what is stored later in their future.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/place.hpp"

namespace qpmesh::explore {

using test::file_name;
using test::Place;

inline constexpr std::size_t threads_max = 4;
inline constexpr std::size_t words_max = 160;
using Time = std::uint16_t;

enum class Order : std::uint8_t { relaxed, acquire, release, acq_rel, seq_cst };
constexpr bool acquires(Order order) noexcept {
  return order != Order::relaxed && order != Order::release;
}
constexpr bool releases(Order order) noexcept {
  return order != Order::relaxed && order != Order::acquire;
}

struct Knowledge {
  std::array<Time, threads_max> synchronised{};  // with each thread, up to this event of it
  std::array<Time, words_max> seen{};            // of each word, the newest store

  void join(const Knowledge& other, std::size_t words) noexcept {
    for (std::size_t i = 0; i < threads_max; ++i)
      synchronised[i] = std::max(synchronised[i], other.synchronised[i]);
    for (std::size_t i = 0; i < words; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  }
};

enum class Access : std::uint8_t { load, store, exchange, fence };

struct Event {
  Access access;
  bool seq_cst;
  std::uint8_t thread;
  std::uint16_t word;  // of Memory; none for a fence
  Time time;           // in its thread
  Time read;           // positions in the word's modification order
  Time written;
  std::uint64_t value;
  std::array<Time, threads_max> synchronised;
  Place at;
};

class Memory {
 public:
  // The threads share this memory and nothing else: what lies elsewhere is their own.
  Memory(std::byte* shared, std::size_t bytes);

  void restart(std::size_t threads);  // as it is now, known to all

  bool is_shared(const void* at) const noexcept {
    return static_cast<const std::byte*>(at) >= shared_ &&
           static_cast<const std::byte*>(at) < shared_ + bytes_;
  }

  using Word = std::uint16_t;
  // The word that lies there. All accesses of a word have one size.
  Word word_at(const void* at, unsigned bytes);
  unsigned word_bytes_at(
      const void* at);  // as it is accessed; 8 where it is not yet and may be, else 4
  Time oldest(std::size_t thread, Word word) const noexcept {
    return threads_[thread].now.seen[word];
  }
  Time newest(Word word) const noexcept {
    return static_cast<Time>(words_[word].stores.size() - 1);
  }
  std::uint64_t value(Word word, Time position) const noexcept {
    return words_[word].stores[position].value;
  }
  std::size_t offset_of(Word word) const noexcept { return words_[word].granule * granule_bytes; }
  std::size_t offset_of(const void* at) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(at) - shared_);
  }

  std::uint64_t load(std::size_t thread, Word word, Time position, Order order, Place at);
  void store(std::size_t thread, Word word, std::uint64_t value, Order order, Place at);
  // Reads the newest store.
  std::uint64_t exchange(std::size_t thread, Word word, std::uint64_t value, Order order, Place at);
  void fence(std::size_t thread, Order order, Place at);
  void read_plain(std::size_t thread, const void* at, std::size_t bytes, Place where);
  void write_plain(std::size_t thread, void* at, const void* from, std::size_t bytes, Place where);

  // The first race: what and where; empty while there is none.
  const std::string& race() const noexcept { return race_; }
  const std::vector<Event>& events() const noexcept { return events_; }
  // Do the sequentially consistent operations have a total order that C++ allows? If not, this
  // execution does not exist.
  bool is_consistent() const;

 private:
  static constexpr std::size_t granule_bytes = 4;
  static constexpr std::uint16_t no_word = 0xffff;
  static constexpr std::uint8_t nobody = 0xff;

  struct Store {
    std::uint64_t value = 0;
    std::uint8_t thread = nobody;  // nobody: there from the beginning
    Knowledge released{};
  };
  struct SharedWord {
    std::size_t granule = 0;
    unsigned bytes = 0;
    std::vector<Store> stores;
    std::array<Time, threads_max> loaded{};  // when each thread touched it last as a word
    std::array<Time, threads_max> stored{};
  };
  struct Granule {
    std::uint32_t epoch = 0;  // of another execution: as at the beginning
    std::uint16_t word = no_word;
    std::uint8_t writer = nobody;
    Time written = 0;
    std::array<Time, threads_max> read{};
    unsigned written_line = 0;
  };
  struct Thread {
    Knowledge now;       // what an acquire has joined
    Knowledge loaded;    // what relaxed loads have met, for an acquire fence
    Knowledge released;  // what a release fence has handed to relaxed stores
    Time time = 1;
  };

  Granule& granule(std::size_t index) noexcept;
  std::size_t granule_of(const void* at) const noexcept { return offset_of(at) / granule_bytes; }
  bool knows(std::size_t thread, std::size_t other, Time time) const noexcept {
    return thread == other || threads_[thread].now.synchronised[other] >= time;
  }
  void check_against_plain(std::size_t thread, const Granule& granule, bool writes,
                           const char* what, std::size_t index, Place where);
  void report_race(const char* what, std::size_t thread, std::size_t other, std::size_t index,
                   unsigned other_line, Place where);
  void record(Access access, Order order, std::size_t thread, Word word, Time read, Time written,
              std::uint64_t value, Place at);
  void read_from(Thread& thread, const Store& store, Order order);
  void append(std::size_t thread, Word word, std::uint64_t value, Order order,
              const Knowledge* continued);
  void set_memory(const SharedWord& word, std::uint64_t value) noexcept;

  std::byte* shared_;
  std::size_t bytes_;
  std::vector<Granule> granules_;
  std::uint32_t epoch_ = 0;
  std::vector<SharedWord> words_;  // the first word_count_ are in use
  std::size_t word_count_ = 0;
  std::array<Thread, threads_max> threads_;
  std::size_t thread_count_ = 0;
  std::vector<Event> events_;
  std::string race_;
};

}  // namespace qpmesh::explore

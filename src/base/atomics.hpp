// SPDX-License-Identifier: MIT
// The words that two ranks share, and how they are loaded and stored.
//
// Code that shares words is a template over a policy with these functions. The library instantiates
// it with ProcessAtomics, where each function is the instruction that it names. tests/explore
// instantiates the same code with a policy that runs all interleavings of its threads, and lets
// every load return all that its order allows. A word is a plain integer that nothing touches but
// the policy.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cpu.hpp"
#include "base/cpu_copy.hpp"

namespace qpmesh::base {

template <class T>
concept SharedWord = std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>;

// A word that lies in raw memory, on a multiple of its size.
template <SharedWord Word>
Word* word_at(std::byte* memory) noexcept {
  return reinterpret_cast<Word*>(memory);
}
template <SharedWord Word>
const Word* word_at(const std::byte* memory) noexcept {
  return reinterpret_cast<const Word*>(memory);
}

// Memory that another process writes while we look.
struct ProcessAtomics {
  template <SharedWord Word>
  static Word load_relaxed(const Word* word) noexcept {
    return load(word, std::memory_order_relaxed);
  }
  // What was written before the release of the value that it returns is visible after it.
  template <SharedWord Word>
  static Word load_acquire(const Word* word) noexcept {
    return load(word, std::memory_order_acquire);
  }
  template <SharedWord Word>
  static Word load_seq_cst(const Word* word) noexcept {
    return load(word, std::memory_order_seq_cst);
  }
  template <SharedWord Word>
  static void store_relaxed(Word* word, Word value) noexcept {
    std::atomic_ref{*word}.store(value, std::memory_order_relaxed);
  }
  template <SharedWord Word>
  static void store_release(Word* word, Word value) noexcept {
    std::atomic_ref{*word}.store(value, std::memory_order_release);
  }
  template <SharedWord Word>
  static void store_seq_cst(Word* word, Word value) noexcept {
    std::atomic_ref{*word}.store(value, std::memory_order_seq_cst);
  }
  // False: expected becomes what the word holds.
  template <SharedWord Word>
  static bool compare_exchange_acq_rel(Word* word, Word& expected, Word desired) noexcept {
    return std::atomic_ref{*word}.compare_exchange_strong(expected, desired,
                                                          std::memory_order_acq_rel);
  }

  // Relaxed loads before this acquire; relaxed stores after this release.
  static void order_loads() noexcept { base::order_loads(); }
  static void order_stores() noexcept { base::order_stores(); }
  // Of two threads that each store a word, call this, and load the other's word, one sees the
  // other's store.
  static void order_all() noexcept {
#if defined(__SANITIZE_THREAD__)
    std::atomic<bool> any{false};  // no fence, but on x86 as good
    any.exchange(true, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  // Memory that nobody else touches meanwhile: who may is told by a word.
  template <class Value>
  static Value load_plain(const Value* value) noexcept {
    return *value;
  }
  template <class Value>
  static void store_plain(Value* place, Value value) noexcept {
    *place = value;
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    copy_bytes(to, from, bytes);
  }
  // For what this core does not read again (cpu_copy.hpp).
  static void copy_streaming(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    base::copy_streaming(to, from, bytes);
  }
  // Whole words of eight bytes: what was built from words just now, and wider loads would wait
  // until those stores have left the core. Volatile, or the compiler makes a memcpy of it.
  static void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      *reinterpret_cast<volatile std::uint64_t*>(to + at) =
          *reinterpret_cast<const volatile std::uint64_t*>(from + at);
    }
  }
  static void clear(std::byte* at, std::size_t bytes) noexcept { std::memset(at, 0, bytes); }
  // Memory that a device or a peer may write meanwhile: its words are of any age until something
  // proves them.
  static void copy_unproven(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::memcpy(to, from, bytes);
  }
  static void clear_unproven(std::byte* at, std::size_t bytes) noexcept {
    std::memset(at, 0, bytes);
  }

 private:
  template <SharedWord Word>
  static Word load(const Word* word, std::memory_order order) noexcept {
    // C++20 has no atomic_ref<const Word>.
    return std::atomic_ref{*const_cast<Word*>(word)}.load(order);
  }
};

// How nobody sleeps while there is something for it: a word in which a rank says that it sleeps,
// for those who publish something to look at.
//
// Lies in memory that both share. The owner sets it, looks at everything once more, and sleeps only
// if there was nothing. A publisher stores its flag by store_seq_cst, then asks is_set(), and
// wakes the owner. Of a store and a load on either side one must see the other: hence the fence of
// the owner, and the two sequentially consistent operations of the publisher. An exchange of the
// owner's would order its looks by no rule of C++, and by none of arm64 where an acquire load may
// pass an earlier release.
template <class Atomics>
struct AsleepWord {
  std::uint32_t word;

  void set() noexcept {
    Atomics::store_relaxed(&word, 1U);
    Atomics::order_all();
  }
  void clear() noexcept { Atomics::store_relaxed(&word, 0U); }
  bool is_set() const noexcept { return Atomics::load_seq_cst(&word) != 0; }
};
using Asleep = AsleepWord<ProcessAtomics>;

// How the owner of memory takes back what others may load, without waiting for them: a count that
// it raises before anybody writes that memory again. Who has copied looks at the count afterwards.
//
// Lies in memory that both share; the owner alone writes it. What is copied meanwhile may be of any
// age: it is thrown away when the count has changed. A copy that has met what was written after
// revoke() sees the count of that revoke(): the two fences pair.
template <class Atomics>
struct RevocationCount {
  std::uint32_t word;

  // The owner's. Memory that it offers carries this count with it.
  std::uint32_t current() const noexcept { return Atomics::load_relaxed(&word); }
  void revoke() noexcept {
    Atomics::store_relaxed(&word, Atomics::load_relaxed(&word) + 1);
    Atomics::order_stores();
  }
  // The reader's, behind its last load of what was offered with that count.
  bool has_changed_since(std::uint32_t offered) const noexcept {
    Atomics::order_loads();
    return Atomics::load_relaxed(&word) != offered;
  }
};
using Revocations = RevocationCount<ProcessAtomics>;

}  // namespace qpmesh::base

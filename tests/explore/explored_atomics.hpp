// SPDX-License-Identifier: MIT
// The policy of base/atomics.hpp under which shipped code is explored.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/atomics.hpp"
#include "explore/explorer.hpp"

namespace qpmesh::explore {

struct ExploredAtomics {
  using Where = Place;

  template <base::SharedWord Word>
  static Word load_relaxed(const Word* word, Where where = Where::current()) {
    return static_cast<Word>(load(word, sizeof(Word), Order::relaxed, where));
  }
  template <base::SharedWord Word>
  static Word load_acquire(const Word* word, Where where = Where::current()) {
    return static_cast<Word>(load(word, sizeof(Word), Order::acquire, where));
  }
  template <base::SharedWord Word>
  static Word load_seq_cst(const Word* word, Where where = Where::current()) {
    return static_cast<Word>(load(word, sizeof(Word), Order::seq_cst, where));
  }
  template <base::SharedWord Word>
  static void store_relaxed(Word* word, std::type_identity_t<Word> value,
                            Where where = Where::current()) {
    store(word, sizeof(Word), value, Order::relaxed, where);
  }
  template <base::SharedWord Word>
  static void store_release(Word* word, std::type_identity_t<Word> value,
                            Where where = Where::current()) {
    store(word, sizeof(Word), value, Order::release, where);
  }
  template <base::SharedWord Word>
  static void store_seq_cst(Word* word, std::type_identity_t<Word> value,
                            Where where = Where::current()) {
    store(word, sizeof(Word), value, Order::seq_cst, where);
  }
  template <base::SharedWord Word>
  static Word exchange_seq_cst(Word* word, std::type_identity_t<Word> value,
                               Where where = Where::current()) {
    return static_cast<Word>(exchange(word, sizeof(Word), value, Order::seq_cst, where));
  }
  template <base::SharedWord Word>
  static bool compare_exchange_acq_rel(Word* word, Word& expected,
                                       std::type_identity_t<Word> desired,
                                       Where where = Where::current()) {
    std::uint64_t found = expected;
    const bool done = compare_exchange(word, sizeof(Word), found, desired, Order::acq_rel, where);
    expected = static_cast<Word>(found);
    return done;
  }

  static void order_loads(Where where = Where::current()) { fence(Order::acquire, where); }
  static void order_stores(Where where = Where::current()) { fence(Order::release, where); }
  static void order_all(Where where = Where::current()) { fence(Order::seq_cst, where); }

  template <class Value>
  static Value load_plain(const Value* value, Where where = Where::current()) {
    read_plain(value, sizeof *value, where);
    return *value;
  }
  template <class Value>
  static void store_plain(Value* place, std::type_identity_t<Value> value,
                          Where where = Where::current()) {
    write_plain(place, &value, sizeof value, where);
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes,
                   Where where = Where::current()) {
    read_plain(from, bytes, where);
    write_plain(to, from, bytes, where);
  }
  static void copy_streaming(std::byte* to, const std::byte* from, std::size_t bytes,
                             Where where = Where::current()) {
    copy(to, from, bytes, where);
  }
  static void copy_words(std::byte* to, const std::byte* from, std::size_t bytes,
                         Where where = Where::current()) {
    copy(to, from, bytes, where);
  }
  static void clear(std::byte* at, std::size_t bytes, Where where = Where::current()) {
    write_plain(at, nullptr, bytes, where);
  }
  static void clear_unproven(std::byte* at, std::size_t bytes, Where where = Where::current()) {
    for (std::size_t done = 0; done < bytes;) {
      const unsigned word_bytes = word_bytes_at(at + done);
      store(at + done, word_bytes, 0, Order::relaxed, where);
      done += word_bytes;
    }
  }
  static void copy_unproven(std::byte* to, const std::byte* from, std::size_t bytes,
                            Where where = Where::current()) {
    for (std::size_t done = 0; done < bytes;) {
      const unsigned word_bytes = word_bytes_at(from + done);
      const std::uint64_t word = load(from + done, word_bytes, Order::relaxed, where);
      std::memcpy(to + done, &word, std::min<std::size_t>(word_bytes, bytes - done));
      done += word_bytes;
    }
  }
};

}  // namespace qpmesh::explore

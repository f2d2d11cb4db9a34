// SPDX-License-Identifier: MIT
#include "explore/memory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace qpmesh::explore {
namespace {

[[noreturn]] void misused(const char* what) {
  fmt::print(stderr, "explorer: {}\n", what);
  std::abort();
}

}  // namespace

Memory::Memory(std::byte* shared, std::size_t bytes)
    : shared_{shared}, bytes_{bytes}, granules_(bytes / granule_bytes + 1), words_(words_max) {}

void Memory::restart(std::size_t threads) {
  ++epoch_;
  word_count_ = 0;
  thread_count_ = threads;
  threads_ = {};
  events_.clear();
  race_.clear();
}

Memory::Granule& Memory::granule(std::size_t index) noexcept {
  Granule& granule = granules_[index];
  if (granule.epoch != epoch_) granule = {.epoch = epoch_};
  return granule;
}

Memory::Word Memory::word_at(const void* at, unsigned bytes) {
  const std::size_t first = granule_of(at);
  Granule& known = granule(first);
  if (known.word != no_word) {
    const SharedWord& word = words_[known.word];
    if (word.granule != first || word.bytes != bytes) misused("a word is accessed in two sizes");
    return known.word;
  }
  if (word_count_ == words_max) misused("more words than words_max");
  const auto index = static_cast<Word>(word_count_++);
  SharedWord& word = words_[index];
  word.granule = first;
  word.bytes = bytes;
  word.loaded = word.stored = {};
  word.stores.clear();
  Store initial;
  std::memcpy(&initial.value, at, bytes);
  for (std::size_t part = 0; part < bytes / granule_bytes; ++part) {
    Granule& each = granule(first + part);
    if (each.word != no_word) misused("a word is accessed in two sizes");
    each.word = index;
    initial.thread = each.writer;
  }
  word.stores.push_back(initial);
  return index;
}

unsigned Memory::word_bytes_at(const void* at) {
  const std::size_t first = granule_of(at);
  if (const std::uint16_t word = granule(first).word; word != no_word) return words_[word].bytes;
  const bool whole = first % 2 == 0 && granule(first + 1).word == no_word;
  return static_cast<unsigned>(whole ? 2 * granule_bytes : granule_bytes);
}

void Memory::report_race(const char* what, std::size_t thread, std::size_t other, std::size_t index,
                         unsigned other_line, Place where) {
  if (!race_.empty()) return;
  race_ = fmt::format(
      "data race: thread {} {} at offset {} ({}:{}), and nothing orders it with thread {}{}",
      thread, what, index * granule_bytes, file_name(where), where.line(), other,
      other_line != 0 ? fmt::format(" (line {})", other_line) : "");
}

void Memory::check_against_plain(std::size_t thread, const Granule& granule, bool writes,
                                 const char* what, std::size_t index, Place where) {
  if (granule.writer != nobody && !knows(thread, granule.writer, granule.written))
    report_race(what, thread, granule.writer, index, granule.written_line, where);
  if (!writes) return;
  for (std::size_t other = 0; other < thread_count_; ++other) {
    if (!knows(thread, other, granule.read[other]))
      report_race(what, thread, other, index, 0, where);
  }
}

void Memory::record(Access access, Order order, std::size_t thread, Word word, Time read,
                    Time written, std::uint64_t value, Place at) {
  Thread& self = threads_[thread];
  events_.push_back({.access = access,
                     .seq_cst = order == Order::seq_cst,
                     .thread = static_cast<std::uint8_t>(thread),
                     .word = word,
                     .time = self.time,
                     .read = read,
                     .written = written,
                     .value = value,
                     .synchronised = self.now.synchronised,
                     .at = at});
  self.now.synchronised[thread] = self.time++;
}

void Memory::read_from(Thread& thread, const Store& store, Order order) {
  (acquires(order) ? thread.now : thread.loaded).join(store.released, word_count_);
}

std::uint64_t Memory::load(std::size_t thread, Word index, Time position, Order order, Place at) {
  SharedWord& word = words_[index];
  for (std::size_t part = 0; part < word.bytes / granule_bytes; ++part)
    check_against_plain(thread, granule(word.granule + part), false, "loads", word.granule + part,
                        at);
  Thread& self = threads_[thread];
  const Store& store = word.stores[position];
  read_from(self, store, order);
  self.now.seen[index] = std::max(self.now.seen[index], position);
  word.loaded[thread] = self.time;
  record(Access::load, order, thread, index, position, 0, store.value, at);
  return store.value;
}

void Memory::set_memory(const SharedWord& word, std::uint64_t value) noexcept {
  std::memcpy(shared_ + word.granule * granule_bytes, &value, word.bytes);
}

void Memory::append(std::size_t thread, Word index, std::uint64_t value, Order order,
                    const Knowledge* continued) {
  SharedWord& word = words_[index];
  Thread& self = threads_[thread];
  const auto position = static_cast<Time>(word.stores.size());
  self.now.seen[index] = position;
  Store store{
      .value = value, .thread = static_cast<std::uint8_t>(thread), .released = self.released};
  if (releases(order)) {
    store.released = self.now;
    store.released.synchronised[thread] = self.time;
  }
  if (continued != nullptr) store.released.join(*continued, word_count_);
  store.released.seen[index] = position;
  word.stores.push_back(store);
  word.stored[thread] = self.time;
  set_memory(word, value);
}

void Memory::store(std::size_t thread, Word index, std::uint64_t value, Order order, Place at) {
  SharedWord& word = words_[index];
  for (std::size_t part = 0; part < word.bytes / granule_bytes; ++part)
    check_against_plain(thread, granule(word.granule + part), true, "stores", word.granule + part,
                        at);
  append(thread, index, value, order, nullptr);
  record(Access::store, order, thread, index, 0, newest(index), value, at);
}

std::uint64_t Memory::exchange(std::size_t thread, Word index, std::uint64_t value, Order order,
                               Place at) {
  SharedWord& word = words_[index];
  for (std::size_t part = 0; part < word.bytes / granule_bytes; ++part)
    check_against_plain(thread, granule(word.granule + part), true, "exchanges",
                        word.granule + part, at);
  const Time position = newest(index);
  const std::uint64_t old = word.stores[position].value;
  const Knowledge continued =
      word.stores[position].released;  // a release sequence goes on through it
  read_from(threads_[thread], word.stores[position], order);
  append(thread, index, value, order, &continued);
  word.loaded[thread] = threads_[thread].time;
  record(Access::exchange, order, thread, index, position, newest(index), value, at);
  return old;
}

void Memory::fence(std::size_t thread, Order order, Place at) {
  Thread& self = threads_[thread];
  if (acquires(order)) self.now.join(self.loaded, word_count_);
  record(Access::fence, order, thread, no_word, 0, 0, 0, at);
  if (releases(order)) self.released = self.now;
}

void Memory::read_plain(std::size_t thread, const void* at, std::size_t bytes, Place where) {
  if (bytes == 0) return;
  const std::size_t end = granule_of(static_cast<const std::byte*>(at) + bytes - 1);
  for (std::size_t index = granule_of(at); index <= end; ++index) {
    Granule& each = granule(index);
    check_against_plain(thread, each, false, "reads", index, where);
    each.read[thread] = threads_[thread].time;
    if (each.word == no_word) continue;
    for (std::size_t other = 0; other < thread_count_; ++other) {
      if (!knows(thread, other, words_[each.word].stored[other]))
        report_race("reads a word", thread, other, index, 0, where);
    }
  }
}

void Memory::write_plain(std::size_t thread, void* at, const void* from, std::size_t bytes,
                         Place where) {
  if (bytes == 0) return;
  if (from != nullptr) std::memmove(at, from, bytes);
  else std::memset(at, 0, bytes);
  const std::size_t end = granule_of(static_cast<std::byte*>(at) + bytes - 1);
  for (std::size_t index = granule_of(at); index <= end; ++index) {
    Granule& each = granule(index);
    check_against_plain(thread, each, true, "writes", index, where);
    each.writer = static_cast<std::uint8_t>(thread);
    each.written = threads_[thread].time;
    each.written_line = where.line();
    if (each.word == no_word) continue;
    SharedWord& word = words_[each.word];
    for (std::size_t other = 0; other < thread_count_; ++other) {
      if (!knows(thread, other, std::max(word.stored[other], word.loaded[other])))
        report_race("writes a word", thread, other, index, 0, where);
    }
    if (index != word.granule && index != granule_of(at)) continue;  // once for each word
    std::uint64_t value = 0;
    std::memcpy(&value, shared_ + word.granule * granule_bytes, word.bytes);
    word.stores.push_back({.value = value, .thread = static_cast<std::uint8_t>(thread)});
    threads_[thread].now.seen[each.word] = newest(each.word);
  }
}

// RC11's condition psc, over the sequentially consistent events of this execution: acyclic.
bool Memory::is_consistent() const {
  std::vector<std::size_t> strong;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (events_[i].seq_cst) strong.push_back(i);
  }
  if (strong.size() < 2) return true;

  const auto before = [&](const Event& a, const Event& b) {  // happens-before
    return a.thread == b.thread ? a.time < b.time : b.synchronised[a.thread] >= a.time;
  };
  const auto reads = [](const Event& e) {
    return e.access == Access::load || e.access == Access::exchange;
  };
  const auto writes = [](const Event& e) {
    return e.access == Access::store || e.access == Access::exchange;
  };
  // Modification order, and reads-before: from a load to the stores behind the one that it
  // returned.
  const auto overtaken = [&](const Event& a, const Event& b) {
    if (&a == &b || a.word == no_word || a.word != b.word || !writes(b)) return false;
    return (writes(a) && a.written < b.written) || (reads(a) && a.read < b.written);
  };
  const auto coherent = [&](const Event& a,
                            const Event& b) {  // the same and reads-from, and one behind the other
    if (a.word == no_word || a.word != b.word) return false;
    if (overtaken(a, b) || (writes(a) && reads(b) && a.written == b.read)) return true;
    return reads(b) && !writes(b) &&
           ((writes(a) && a.written < b.read) || (reads(a) && a.read < b.read));
  };
  const auto same_word = [](const Event& a, const Event& b) {
    return a.word != no_word && a.word == b.word;
  };
  const auto scb = [&](const Event& a, const Event& b) {
    if (overtaken(a, b)) return true;
    if (a.thread == b.thread) return a.time < b.time;
    if (!before(a, b)) return false;
    if (same_word(a, b)) return true;
    // Another word's event behind a, that happens before another word's event in front of b.
    const Event* first = nullptr;
    const Event* last = nullptr;
    for (const Event& e : events_) {
      if (e.thread == a.thread && e.time > a.time && !same_word(e, a) && first == nullptr)
        first = &e;
      if (e.thread == b.thread && e.time < b.time && !same_word(e, b)) last = &e;
    }
    return first != nullptr && last != nullptr && before(*first, *last);
  };

  std::vector<std::vector<std::size_t>> edges(strong.size());
  for (std::size_t i = 0; i < strong.size(); ++i) {
    const Event& a = events_[strong[i]];
    for (std::size_t j = 0; j < strong.size(); ++j) {
      if (i == j) continue;
      const Event& b = events_[strong[j]];
      const bool a_fence = a.access == Access::fence;
      const bool b_fence = b.access == Access::fence;
      bool edge = scb(a, b) || (a_fence && b_fence && before(a, b));
      for (const Event& x : events_) {
        if (edge) break;
        const bool from = &x == &a || (a_fence && before(a, x));
        if (!from) continue;
        for (const Event& y : events_) {
          const bool to = &y == &b || (b_fence && before(y, b));
          if (!to || &x == &y) continue;
          if (scb(x, y) || (a_fence && b_fence && coherent(x, y))) {
            edge = true;
            break;
          }
        }
      }
      if (edge) edges[i].push_back(j);
    }
  }
  // A cycle?
  std::vector<std::uint8_t> colour(strong.size(), 0);
  const auto cyclic = [&](const auto& self, std::size_t node) -> bool {
    colour[node] = 1;
    for (const std::size_t next : edges[node]) {
      if (colour[next] == 1 || (colour[next] == 0 && self(self, next))) return true;
    }
    colour[node] = 2;
    return false;
  };
  for (std::size_t i = 0; i < strong.size(); ++i) {
    if (colour[i] == 0 && cyclic(cyclic, i)) return false;
  }
  return true;
}

}  // namespace qpmesh::explore

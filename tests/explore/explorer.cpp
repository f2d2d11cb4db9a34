// SPDX-License-Identifier: MIT
#include "explore/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "explore/fiber.hpp"

namespace qpmesh::explore {
namespace {

constexpr std::size_t events_max = 20'000;  // of one execution: beyond, it does not end
constexpr std::size_t events_told = 80;

bool same_place(const Place& a, const Place& b) noexcept {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string_view function_name(const Place& at) {
  std::string_view name = at.function_name();
  name = name.substr(0, name.find('('));
  return name.substr(name.find_last_of(" :") + 1);
}

std::string_view name_of(Damage damage) {
  switch (damage) {
    case Damage::none: return "nothing";
    case Damage::no_acquire: return "no acquire";
    case Damage::no_release: return "no release";
    case Damage::no_order: return "not sequentially consistent";
    case Damage::late: return "written late";
  }
  return {};
}

std::string_view name_of(Access access) {
  switch (access) {
    case Access::load: return "load";
    case Access::store: return "store";
    case Access::exchange: return "exchange";
    case Access::fence: return "fence";
  }
  return {};
}

// Which of several ways each decision takes, and which come next.
class Decisions {
 public:
  void restart() noexcept { next_ = 0; }
  // One of so many ways; the first time the first.
  std::uint32_t decide(std::uint32_t ways) {
    if (next_ == taken_.size()) taken_.push_back({0, ways});
    Decision& decision = taken_[next_++];
    if (decision.ways != ways) {
      fmt::print(stderr, "explorer: the scenario does not repeat itself\n");
      std::abort();
    }
    return decision.way;
  }
  bool is_new() const noexcept { return next_ >= taken_.size(); }
  // False: all have been taken.
  bool advance() {
    while (!taken_.empty() && taken_.back().way + 1 == taken_.back().ways) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().way;
    return true;
  }
  void forget() noexcept { taken_.clear(); }

 private:
  struct Decision {
    std::uint32_t way;
    std::uint32_t ways;
  };
  std::vector<Decision> taken_;
  std::size_t next_ = 0;
};

class Explorer {
 public:
  Explorer(const Threads& threads, const Mutant& mutant)
      : threads_{threads},
        mutant_{mutant},
        shared_{static_cast<std::byte*>(::operator new(threads.bytes, std::align_val_t{4096}))},
        memory_{shared_, threads.bytes},
        runners_(threads.count) {
    std::memset(shared_, 0, threads.bytes);
    for (Runner& runner : runners_) runner.fiber = std::make_unique<Fiber>();
  }
  ~Explorer() { ::operator delete(shared_, std::align_val_t{4096}); }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  Explored run(std::uint64_t executions_max);

  // Of the thread that runs.
  std::uint64_t load(const void* at, unsigned bytes, Order order, Place where);
  void store(void* at, unsigned bytes, std::uint64_t value, Order order, Place where);
  std::uint64_t exchange(void* at, unsigned bytes, std::uint64_t value, Order order, Place where);
  bool compare_exchange(void* at, unsigned bytes, std::uint64_t& expected, std::uint64_t desired,
                        Order order, Place where);
  void fence(Order order, Place where);
  void read_plain(const void* at, std::size_t bytes, Place where);
  void write_plain(void* at, const void* from, std::size_t bytes, Place where);
  unsigned word_bytes_at(const void* at) { return memory_.word_bytes_at(at); }
  void wait_for_news();
  void require(bool holds, const char* what, Place where);
  bool either() { return decisions_.decide(2) != 0; }
  bool is_running() const noexcept { return running_; }
  bool shares(const void* at) const noexcept { return running_ && memory_.is_shared(at); }

 private:
  using Word = Memory::Word;
  struct Look {
    Word word;
    Time position;
    bool operator==(const Look&) const = default;
  };
  enum class State : std::uint8_t { ready, waits_for_store, waits_for_news, ended };
  struct Runner {
    std::unique_ptr<Fiber> fiber;
    State state = State::ended;
    Word word = 0;                 // waits_for_store: of this word …
    Time position = 0;             // … this one or a newer one
    std::vector<Look> looks;       // since the last wait
    std::vector<Look> last_looks;  // before it
    bool acted = false;            // since then: stored something
    struct Late {
      std::byte* at = nullptr;
      std::vector<std::byte> bytes;
      Place where;
    } late;
  };
  enum class End : std::uint8_t { none, complete, dead_end, finding };

  Runner& self() noexcept { return runners_[current_]; }
  void execute();
  Runner* next_runner();
  bool has_news(const Runner& runner) const;
  void end_with(End end, std::string text = {});
  [[noreturn]] void abandon();
  void judge_waiting();
  void after_step();
  std::string story() const;

  Word word(const void* at, unsigned bytes) { return memory_.word_at(at, bytes); }
  bool others_may_store(Word word) const;
  void learn_store(Word word, Time newest);
  void wait_for_store(Word word, Time position);
  Time choose_store(Word word, const std::uint64_t* unless);
  void choose_turn(Word word);
  Order damaged(Order order, Place where, bool loads, bool stores);
  void offer(Damage damage, Place where);
  void write_what_is_late();

  const Threads& threads_;
  const Mutant& mutant_;
  std::byte* shared_;
  Memory memory_;
  std::vector<Runner> runners_;
  std::size_t current_ = 0;
  bool running_ = false;
  Decisions decisions_;
  End end_ = End::none;
  Explored explored_;
  // By the word's place: which threads write it, and the most stores that it has had. Learnt while
  // exploring: what was explored with less knowledge is explored again. What never comes need not
  // be waited for.
  struct Stores {
    std::uint32_t threads = 0;
    Time newest = 0;
  };
  std::map<std::size_t, Stores> stores_;
  bool learnt_ = false;
};

Explorer* explorer = nullptr;

// --- one execution

void Explorer::execute() {
  memory_.restart(threads_.count);
  decisions_.restart();
  end_ = End::none;
  threads_.make(shared_);
  running_ = true;
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    Runner& runner = runners_[i];
    runner.state = State::ready;
    runner.looks.clear();
    runner.last_looks.clear();
    runner.acted = false;
    runner.late.at = nullptr;
    runner.fiber->start([this, i] { threads_.run(shared_, i); });
  }
  while (end_ == End::none) {
    Runner* const runner = next_runner();
    if (runner == nullptr) {
      judge_waiting();
      break;
    }
    current_ = static_cast<std::size_t>(runner - runners_.data());
    runner->state = State::ready;
    runner->fiber->resume();
    if (end_ == End::none && runner->fiber->has_ended()) {
      runner->state = State::ended;
      write_what_is_late();
    }
  }
  running_ = false;
  if (end_ == End::complete) {
    threads_.check(shared_);  // may turn it into a finding
  }
  threads_.destroy(shared_);
}

Explorer::Runner* Explorer::next_runner() {
  for (Runner& runner : runners_) {
    switch (runner.state) {
      case State::ready: return &runner;
      case State::waits_for_store:
        if (memory_.newest(runner.word) >= runner.position) return &runner;
        break;
      case State::waits_for_news:
        if (has_news(runner)) return &runner;
        break;
      case State::ended: break;
    }
  }
  return nullptr;
}

bool Explorer::has_news(const Runner& runner) const {
  return std::ranges::any_of(runner.last_looks, [&](const Look& look) {
    return memory_.newest(look.word) > look.position;
  });
}

// Nobody can go on.
void Explorer::judge_waiting() {
  bool all_ended = true;
  for (const Runner& runner : runners_) {
    if (runner.state == State::waits_for_store) return end_with(End::dead_end);
    all_ended = all_ended && runner.state == State::ended;
  }
  if (all_ended) return end_with(End::complete);
  std::string who;
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    if (runners_[i].state != State::ended) who += fmt::format(" {}", i);
  }
  end_with(End::finding, fmt::format("wait for ever: thread{}", who));
}

void Explorer::end_with(End end, std::string text) {
  const bool exists = end == End::dead_end || memory_.is_consistent();
  end_ = exists ? end : End::dead_end;
  if (end_ == End::finding && explored_.finding.empty())
    explored_.finding = std::move(text) + story();
}

void Explorer::abandon() {
  for (;;) self().fiber->yield();  // never resumed
}

void Explorer::after_step() {
  if (decisions_.is_new()) ++explored_.states;
  if (!memory_.race().empty()) {
    end_with(End::finding, memory_.race());
    abandon();
  }
  if (memory_.events().size() > events_max) {
    end_with(End::finding, "does not end");
    abandon();
  }
}

std::string Explorer::story() const {
  const std::vector<Event>& events = memory_.events();
  std::string text;
  for (std::size_t i = events.size() > events_told ? events.size() - events_told : 0;
       i < events.size(); ++i) {
    const Event& event = events[i];
    text += fmt::format("\n  {:{}}thread {} {}", "", 4 * event.thread, event.thread,
                        name_of(event.access));
    if (event.access != Access::fence) text += fmt::format(" [{}]", memory_.offset_of(event.word));
    if (event.access == Access::load || event.access == Access::exchange)
      text +=
          fmt::format(" -> {:#x} (store {})", memory_.value(event.word, event.read), event.read);
    if (event.access == Access::store || event.access == Access::exchange)
      text += fmt::format(" := {:#x}", event.value);
    text +=
        fmt::format("  {}:{} {}", file_name(event.at), event.at.line(), function_name(event.at));
  }
  return text;
}

// --- all executions

Explored Explorer::run(std::uint64_t executions_max) {
  for (;;) {
    execute();
    if (end_ == End::finding) return std::move(explored_);
    ++(end_ == End::complete ? explored_.executions : explored_.dead_ends);
    if (explored_.executions + explored_.dead_ends > executions_max) {
      explored_.finding = fmt::format("more than {} executions", executions_max);
      return std::move(explored_);
    }
    if (learnt_) {
      learnt_ = false;
      decisions_.forget();
      explored_.executions = explored_.dead_ends = explored_.states = 0;
    } else if (!decisions_.advance()) {
      return std::move(explored_);
    }
  }
}

// --- what the threads do

bool Explorer::others_may_store(Word word) const {
  const auto known = stores_.find(memory_.offset_of(word));
  if (known == stores_.end() || memory_.newest(word) >= known->second.newest) return false;
  for (std::size_t other = 0; other < runners_.size(); ++other) {
    const bool stores = (known->second.threads >> other & 1) != 0;
    if (other != current_ && stores && runners_[other].state != State::ended) return true;
  }
  return false;
}

// newest: the store's place in modification order, or the place that a compare and exchange would
// have had, had it come earlier and succeeded.
void Explorer::learn_store(Word word, Time newest) {
  Stores& known = stores_[memory_.offset_of(word)];
  if ((known.threads >> current_ & 1) != 0 && newest <= known.newest) return;
  known.threads |= 1U << current_;
  known.newest = std::max(known.newest, newest);
  learnt_ = true;
}

void Explorer::wait_for_store(Word word, Time position) {
  Runner& runner = self();
  runner.state = State::waits_for_store;
  runner.word = word;
  runner.position = position;
  runner.fiber->yield();
}

// Which store a load returns. unless: a compare and exchange that finds this value succeeds, and
// that needs the newest store.
Time Explorer::choose_store(Word word, const std::uint64_t* unless) {
  Runner& runner = self();
  Time first = memory_.oldest(current_, word);
  // The last look of a round that has seen nothing new: it does, or the round was in vain.
  const std::size_t looked = runner.looks.size();
  const std::vector<Look>& last = runner.last_looks;
  if (!runner.acted && looked + 1 == last.size() && last[looked].word == word &&
      std::equal(runner.looks.begin(), runner.looks.end(), last.begin()))
    first = std::max(first, static_cast<Time>(last[looked].position + 1));
  for (;;) {
    const Time newest = memory_.newest(word);
    std::array<Time, 64> ways{};
    std::uint32_t count = 0;
    for (Time position = first; position <= newest; ++position) {
      if (unless != nullptr && position != newest && memory_.value(word, position) == *unless)
        continue;
      if (count < ways.size()) ways[count++] = position;
    }
    const bool waits = others_may_store(word);
    if (count + (waits ? 1 : 0) == 0) {
      end_with(End::dead_end);
      abandon();
    }
    const std::uint32_t way =
        count + (waits ? 1 : 0) == 1 ? 0 : decisions_.decide(count + (waits ? 1 : 0));
    if (way < count) {
      runner.looks.push_back({word, ways[way]});
      return ways[way];
    }
    first = static_cast<Time>(newest + 1);
    wait_for_store(word, first);
  }
}

// When a store comes, of a word that others store, too: now, or behind another one.
void Explorer::choose_turn(Word word) {
  while (others_may_store(word) && decisions_.decide(2) != 0)
    wait_for_store(word, static_cast<Time>(memory_.newest(word) + 1));
}

std::uint64_t Explorer::load(const void* at, unsigned bytes, Order order, Place where) {
  write_what_is_late();
  order = damaged(order, where, true, false);
  const Word index = word(at, bytes);
  const Time position = choose_store(index, nullptr);
  const std::uint64_t value = memory_.load(current_, index, position, order, where);
  after_step();
  return value;
}

void Explorer::store(void* at, unsigned bytes, std::uint64_t value, Order order, Place where) {
  order = damaged(order, where, false, true);
  const Word index = word(at, bytes);
  choose_turn(index);
  self().acted = true;
  memory_.store(current_, index, value, order, where);
  learn_store(index, memory_.newest(index));
  after_step();
}

std::uint64_t Explorer::exchange(void* at, unsigned bytes, std::uint64_t value, Order order,
                                 Place where) {
  order = damaged(order, where, true, true);
  const Word index = word(at, bytes);
  choose_turn(index);
  self().acted = true;
  const std::uint64_t old = memory_.exchange(current_, index, value, order, where);
  learn_store(index, memory_.newest(index));
  after_step();
  return old;
}

bool Explorer::compare_exchange(void* at, unsigned bytes, std::uint64_t& expected,
                                std::uint64_t desired, Order order, Place where) {
  order = damaged(order, where, true, true);
  const Word index = word(at, bytes);
  learn_store(index, static_cast<Time>(memory_.newest(index) + 1));
  const Time position = choose_store(index, &expected);
  const bool succeeds = memory_.value(index, position) == expected;
  if (succeeds) {
    self().acted = true;
    memory_.exchange(current_, index, desired, order, where);
  } else {
    const Order failed = order == Order::release   ? Order::relaxed
                         : order == Order::acq_rel ? Order::acquire
                                                   : order;
    expected = memory_.load(current_, index, position, failed, where);
  }
  after_step();
  return succeeds;
}

void Explorer::fence(Order order, Place where) {
  const bool loads = acquires(order);
  order = damaged(order, where, loads, releases(order));
  memory_.fence(current_, order, where);
  after_step();
}

void Explorer::read_plain(const void* at, std::size_t bytes, Place where) {
  memory_.read_plain(current_, at, bytes, where);
  after_step();
}

void Explorer::write_plain(void* at, const void* from, std::size_t bytes, Place where) {
  offer(Damage::late, where);
  self().acted = true;
  if (mutant_.damage == Damage::late && same_place(mutant_.at, where)) {
    write_what_is_late();
    explored_.damaged = true;
    auto& late = self().late;
    late.at = static_cast<std::byte*>(at);
    late.where = where;
    late.bytes.assign(bytes, std::byte{0});
    if (from != nullptr) std::memcpy(late.bytes.data(), from, bytes);
    return;
  }
  memory_.write_plain(current_, at, from, bytes, where);
  after_step();
}

void Explorer::write_what_is_late() {
  auto& late = self().late;
  if (late.at == nullptr) return;
  memory_.write_plain(current_, std::exchange(late.at, nullptr), late.bytes.data(),
                      late.bytes.size(), late.where);
}

void Explorer::wait_for_news() {
  write_what_is_late();
  Runner& runner = self();
  if (!runner.acted && !runner.last_looks.empty() && runner.looks == runner.last_looks) {
    end_with(End::dead_end);
    abandon();
  }
  runner.last_looks.swap(runner.looks);
  runner.looks.clear();
  runner.acted = false;
  runner.state = State::waits_for_news;
  runner.fiber->yield();
}

void Explorer::require(bool holds, const char* what, Place where) {
  if (holds) return;
  end_with(End::finding, fmt::format("{} ({}:{})", what, file_name(where), where.line()));
  if (running_) abandon();
}

// --- mutants

void Explorer::offer(Damage damage, Place where) {
  if (mutant_.damage != Damage::none) return;
  const bool known = std::ranges::any_of(explored_.mutants, [&](const Mutant& mutant) {
    return mutant.damage == damage && same_place(mutant.at, where);
  });
  if (!known) explored_.mutants.push_back({damage, where});
}

Order Explorer::damaged(Order order, Place where, bool loads, bool stores) {
  const bool takes = loads && acquires(order);
  const bool gives = stores && releases(order);
  if (mutant_.damage == Damage::none) {
    if (takes) offer(Damage::no_acquire, where);
    if (gives) offer(Damage::no_release, where);
    if (order == Order::seq_cst) offer(Damage::no_order, where);
    return order;
  }
  if (!same_place(mutant_.at, where)) return order;
  switch (mutant_.damage) {
    case Damage::no_acquire:
      explored_.damaged = true;
      return gives ? Order::release : Order::relaxed;
    case Damage::no_release:
      explored_.damaged = true;
      return takes ? Order::acquire : Order::relaxed;
    case Damage::no_order:
      explored_.damaged = true;
      return takes && gives ? Order::acq_rel : takes ? Order::acquire : Order::release;
    case Damage::late:
    case Damage::none: break;
  }
  return order;
}

// Setting up and checking, where one thread alone touches memory, and a thread's own memory.
bool is_explored(const void* at) { return explorer != nullptr && explorer->shares(at); }

}  // namespace

std::uint64_t load(const void* at, unsigned bytes, Order order, Place where) {
  if (is_explored(at)) return explorer->load(at, bytes, order, where);
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

void store(void* at, unsigned bytes, std::uint64_t value, Order order, Place where) {
  if (is_explored(at)) return explorer->store(at, bytes, value, order, where);
  std::memcpy(at, &value, bytes);
}

std::uint64_t exchange(void* at, unsigned bytes, std::uint64_t value, Order order, Place where) {
  if (is_explored(at)) return explorer->exchange(at, bytes, value, order, where);
  std::uint64_t old = 0;
  std::memcpy(&old, at, bytes);
  std::memcpy(at, &value, bytes);
  return old;
}

bool compare_exchange(void* at, unsigned bytes, std::uint64_t& expected, std::uint64_t desired,
                      Order order, Place where) {
  if (is_explored(at))
    return explorer->compare_exchange(at, bytes, expected, desired, order, where);
  std::uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  const bool succeeds = value == expected;
  if (succeeds) std::memcpy(at, &desired, bytes);
  else expected = value;
  return succeeds;
}

void fence(Order order, Place where) {
  if (explorer != nullptr && explorer->is_running()) explorer->fence(order, where);
}

void read_plain(const void* at, std::size_t bytes, Place where) {
  if (is_explored(at)) explorer->read_plain(at, bytes, where);
}

void write_plain(void* at, const void* from, std::size_t bytes, Place where) {
  if (is_explored(at)) return explorer->write_plain(at, from, bytes, where);
  if (from != nullptr) std::memmove(at, from, bytes);
  else std::memset(at, 0, bytes);
}

unsigned word_bytes_at(const void* at) {
  return is_explored(at) ? explorer->word_bytes_at(at) : sizeof(std::uint32_t);
}

void wait_for_news() { explorer->wait_for_news(); }
void require(bool holds, const char* what, Place where) { explorer->require(holds, what, where); }
bool either() { return explorer->either(); }

std::string_view Mutant::function() const { return function_name(at); }

std::string Mutant::name() const {
  return fmt::format("{} at {}:{} {}", name_of(damage), file_name(at), at.line(),
                     function_name(at));
}

Explored explore(const Threads& threads, const Mutant& mutant, std::uint64_t executions_max) {
  Explorer one{threads, mutant};
  explorer = &one;
  Explored explored = one.run(executions_max);
  explorer = nullptr;
  return explored;
}

}  // namespace qpmesh::explore

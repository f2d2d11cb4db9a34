// SPDX-License-Identifier: MIT
// Runs a scenario in every way in which its threads and its memory can behave, each once.
//
// An execution is decided by which store every load returns, and by the order of the stores of
// words that several threads write. That is what the explorer branches over (as RCMC:
// Kokologiannakis, Lahav, Sagonas, Vafeiadis, "Effective stateless model checking for C/C++
// concurrency", POPL 2018): a load returns one of the stores that are there, or waits for one that
// is still to come. Interleavings that differ in nothing else are one execution; no thread's steps
// are cut short. A polling loop says so by wait_for_news(): it goes on when a word that it has
// looked at changes. What a thread has looked at in vain twice is not looked at a third time.
//
// Found are: data races, broken requirements, threads that all wait, and loops without end. An
// execution that ends without is followed by Scenario::check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "explore/memory.hpp"

namespace qpmesh::explore {

// What the threads call: the operations of a policy, in setting up as well, where one thread alone
// touches memory.
std::uint64_t load(const void* at, unsigned bytes, Order order, Place where);
void store(void* at, unsigned bytes, std::uint64_t value, Order order, Place where);
std::uint64_t exchange(void* at, unsigned bytes, std::uint64_t value, Order order, Place where);
bool compare_exchange(void* at, unsigned bytes, std::uint64_t& expected, std::uint64_t desired,
                      Order order, Place where);
void fence(Order order, Place where);
void read_plain(const void* at, std::size_t bytes, Place where);
void write_plain(void* at, const void* from, std::size_t bytes,
                 Place where);  // from nullptr: zeroes

// Of the word that lies there, or could: 4 or 8.
unsigned word_bytes_at(const void* at);

// The loop that calls this has done nothing, and does nothing again until a word that it has read
// changes.
void wait_for_news();
// Ends the execution with a finding when it is false.
void require(bool holds, const char* what, Place where = Place::current());
// True on one of the ways from here, false on another.
bool either();

// What a mutant takes away at one place of the code.
enum class Damage : std::uint8_t {
  none,
  no_acquire,  // of a load, a read-modify-write or a fence
  no_release,
  no_order,  // sequentially consistent becomes acquire and release
  late,      // a plain write comes behind the stores that follow it, up to the next load
};
struct Mutant {
  Damage damage = Damage::none;
  Place at{};

  std::string name() const;
  std::string_view function() const;  // without what it belongs to
};

struct Threads {
  std::size_t count = 0;
  std::size_t bytes = 0;  // of the scenario, which all threads share
  std::function<void(std::byte*)> make;
  std::function<void(std::byte*, std::size_t)> run;
  std::function<void(std::byte*)> check;
  std::function<void(std::byte*)> destroy;
};

struct Explored {
  std::string finding;           // empty: none
  std::uint64_t executions = 0;  // that ended
  // That wait for a store which never comes. Other executions return what is there.
  std::uint64_t dead_ends = 0;
  std::uint64_t states = 0;     // steps of which no other execution had the same past
  std::vector<Mutant> mutants;  // that can be made of it
  bool damaged = false;         // the mutant's place was passed
};

// mutant: one of those that an exploration returned. executions_max: beyond it there is a finding
// that says so.
Explored explore(const Threads& threads, const Mutant& mutant, std::uint64_t executions_max);

// A scenario is a class: static constexpr std::size_t threads; a constructor, which runs alone;
// run(thread); check(), when all have ended. Its memory is what the threads share.
template <class Scenario>
Explored explore(const Mutant& mutant = {}, std::uint64_t executions_max = 100'000'000) {
  return explore({.count = Scenario::threads,
                  .bytes = sizeof(Scenario),
                  .make = [](std::byte* at) { new (at) Scenario; },
                  .run = [](std::byte* at,
                            std::size_t thread) { reinterpret_cast<Scenario*>(at)->run(thread); },
                  .check = [](std::byte* at) { reinterpret_cast<Scenario*>(at)->check(); },
                  .destroy = [](std::byte* at) { reinterpret_cast<Scenario*>(at)->~Scenario(); }},
                 mutant, executions_max);
}

}  // namespace qpmesh::explore

// SPDX-License-Identifier: MIT
// Groups and memory: split, duplicate, split_node, independent, allocate.
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

void check_group(Communicator& group) {
  std::vector<std::int64_t> data = addends(group.rank(), 100);
  group.allreduce(data, sum);
  check_sum(data, group.size());
}

// Five ranks: even ones in reverse order, odd ones by equal keys, rank 4 nowhere.
void split_by_color_and_key(Communicator& world, Arguments) {
  const int me = world.rank();
  const int color = me == 4 ? no_color : me % 2 * 1'000'000;
  auto group = world.split(color, me % 2 == 0 ? -me : 7);
  check_equal(group.has_value(), me != 4);
  if (group) {
    check_equal(group->size(), 2);
    check_equal(group->rank(), me % 2 == 0 ? (me == 2 ? 0 : 1) : me / 2);
    check_group(*group);
    // Ranks of the group number its messages' sources.
    std::vector<int> other(1);
    const int partner = 1 - group->rank();
    check_status(group->sendrecv(std::vector<int>{me}, partner, other, partner), partner, 0,
                 sizeof(int));
    check_equal(other[0], (me + 2) % 4);
  }
  auto nobody = world.split(no_color);
  check(!nobody.has_value(), "nobody joined");
  check_group(world);
}

void groups_know_their_ranks_in_each_other(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  // Backwards, without the last one.
  auto group = world.split(me == size - 1 ? no_color : 0, -me);
  std::vector<int> outer(static_cast<std::size_t>(size), no_rank);
  for (int rank = 0; rank < size; ++rank) outer[static_cast<std::size_t>(rank)] = rank;
  check(world.ranks_in(world) == outer, "each is itself");
  if (group) {
    std::vector<int> expected;
    for (int rank = size - 2; rank >= 0; --rank) expected.push_back(rank);
    check(group->ranks_in(world) == expected, "of the group in the world");
    expected.push_back(no_rank);
    check(world.ranks_in(*group) == expected, "of the world in the group");
    check(group->ranks_in(group->duplicate()) == group->ranks_in(*group), "of a duplicate");
  }
  const Communicator apart = world.independent();
  expect_error([&] { world.ranks_in(apart); }, {ErrorCode::bad_argument, no_peer, "ranks_in",
                                                "the two communicators have no context in common",
                                                "ask of its parent, its children, and theirs"});
}

void split_of_a_split_of_a_split(Communicator& world, Arguments) {
  std::optional<Communicator> group = world.duplicate();
  while (group->size() > 1) {
    const int half = (group->size() + 1) / 2;
    const int below = group->rank() < half ? 0 : 1;
    const int expected_size = below == 0 ? half : group->size() - half;
    const int expected_rank = group->rank() - below * half;
    group = group->split(below);  // the parent goes while the child lives
    check_equal(group->size(), expected_size);
    check_equal(group->rank(), expected_rank);
    check_group(*group);
  }
}

void groups_do_not_hear_each_other(Communicator& world, Arguments) {
  Communicator twin = world.duplicate();
  Communicator backwards = world.split_node(-world.rank());
  check_equal(backwards.rank(), world.size() - 1 - world.rank());
  Communicator node = world.split_node();
  check_equal(node.size(), world.size());
  check_equal(node.rank(), world.rank());
  check_equal(twin.rank(), world.rank());
  check_group(node);
  if (world.rank() == 0) {
    for (Communicator* const group : {&twin, &node, &world})
      group->send(std::vector<int>{group == &world ? 3 : group == &node ? 2 : 1}, 1, 1);
  } else if (world.rank() == 1) {
    std::vector<int> value(1);
    world.receive(value, any_source, 1);
    check_equal(value[0], 3);
    check(!world.try_probe().has_value(), "what the others sent is not ours");
    node.receive(value, any_source, 1);
    check_equal(value[0], 2);
    twin.receive(value, any_source, 1);
    check_equal(value[0], 1);
  }
  // In another order on every rank: matched by communicator, not by time.
  std::vector<std::int64_t> a = addends(world.rank(), 10);
  std::vector<std::int64_t> b = addends(world.rank(), 20'000);
  Communicator* first = world.rank() % 2 == 0 ? &twin : &node;
  Communicator* second = world.rank() % 2 == 0 ? &node : &twin;
  auto& first_data = first == &twin ? a : b;
  auto& second_data = first == &twin ? b : a;
  Request one = first->allreduce_async(first_data, sum);
  Request two = second->allreduce_async(second_data, sum);
  two.wait();
  one.wait();
  check_sum(a, world.size());
  check_sum(b, world.size());
  twin.finish();
  check_group(world);
}

// Two threads, a context each, at the same time.
void a_second_thread_has_its_own_context(Communicator& world, Arguments) {
  Communicator other = world.independent();
  check_equal(other.size(), world.size());
  check_equal(other.rank(), world.rank());
  std::exception_ptr failure;
  std::thread second{[&] {
    try {
      for (int i = 0; i < 300; ++i) check_group(other);
      std::vector<std::int64_t> data = addends(other.rank(), 100'000);
      other.allreduce(data, sum);
      check_sum(data, other.size());
      other.finish();
    } catch (...) {
      failure = std::current_exception();
    }
  }};
  for (int i = 0; i < 300; ++i) check_group(world);
  second.join();
  if (failure) std::rethrow_exception(failure);
  check_group(world);
}

void buffers_in_every_call(Communicator& world, Arguments) {
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    auto out = world.allocate<std::int64_t>(count);
    auto in = world.allocate<std::int64_t>(count);
    check_equal(out.size(), count);
    check(std::all_of(out.begin(), out.end(), [](auto value) { return value == 0; }),
          "new memory is zero");
    check_equal(reinterpret_cast<std::uintptr_t>(out.data()) % 128, 0U);
    const auto mine = addends(world.rank(), count);
    std::copy(mine.begin(), mine.end(), out.begin());
    check_status(world.sendrecv(out, next, in, previous, 1), previous, 1,
                 count * sizeof(std::int64_t));
    check(std::equal(in.begin(), in.end(), addends(previous, count).begin()),
          "the neighbour's data");
    world.allreduce(out, in, sum);
    check_sum(in, world.size());
    world.allreduce(out, sum);
    check_sum(out, world.size());
  }
}

void a_buffer_may_go_while_it_is_used(Communicator& world, Arguments) {
  constexpr std::size_t count = 200'000;
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::int64_t> result(count);
    std::vector<std::int64_t> from(count);
    Request reduction;
    Request send;
    Request receive;
    {
      auto in = world.allocate<std::int64_t>(count);
      const auto mine = addends(world.rank(), count);
      std::copy(mine.begin(), mine.end(), in.begin());
      reduction = world.allreduce_async(in, result, sum);
      send = world.send_async(in, next, 1);
    }
    // Whoever takes memory that was not free would overwrite it now.
    auto other = world.allocate<std::int64_t>(count);
    std::fill(other.begin(), other.end(), -1);
    receive = world.receive_async(from, previous, 1);
    receive.wait();
    send.wait();
    reduction.wait();
    check_sum(result, world.size());
    check(from == addends(previous, count), "the neighbour's data");
  }
}

Expected no_memory(int peer, std::size_t bytes, std::size_t arena_bytes) {
  return {.code = ErrorCode::no_resource,
          .peer = peer,
          .operation = "allocate",
          .cause = "the arena of that rank has no " + std::to_string(bytes) +
                   " bytes left in one piece, of " + std::to_string(arena_bytes) + " in all",
          .hint = "raise QPMESH_ARENA_BYTES_MAX"};
}

// With QPMESH_ARENA_BYTES_MAX of 64 MiB.
void too_much_memory_is_refused_on_all_alike(Communicator& world, Arguments) {
  const std::size_t large = 40 << 20;
  const auto first = world.allocate<std::uint8_t>(large);
  constexpr auto largest = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  for (const std::size_t bytes : {large, largest}) {
    expect_error([&] { world.allocate<std::uint8_t>(bytes); }, no_memory(0, bytes, 64 << 20));
    check_group(world);
  }
}

// Only one rank cannot serve it, whose arena is smaller; nothing may stay behind on the others.
void one_rank_without_memory_is_named_on_all(Communicator& world, Arguments) {
  const std::size_t large = 40 << 20;
  const int last_rank = world.size() - 1;
  Communicator last = *world.split(world.rank() == last_rank ? 1 : 0);
  std::optional<Buffer<std::uint8_t>> mine;
  if (world.rank() == last_rank) mine = last.allocate<std::uint8_t>(large);
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { world.allocate<std::uint8_t>(large); },
                 no_memory(last_rank, large, 63 << 20));
  }
  mine.reset();
  const auto now = world.allocate<std::uint8_t>(large);  // freed everywhere
  check_equal(now.size(), large);
  check_group(world);
}

// Three times half of what the machine has: for each rank alone there may be enough.
void more_than_the_machine_has_is_refused_on_all_alike(Communicator& world, Arguments) {
  struct sysinfo machine {};
  check(::sysinfo(&machine) == 0, "sysinfo");
  const std::size_t half = (machine.totalram + machine.totalswap) / 2 * machine.mem_unit;
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { world.allocate<std::uint8_t>(half); },
                 {.code = ErrorCode::no_resource,
                  .peer = 0,
                  .operation = "allocate",
                  .cause = "with " + std::to_string(half) +
                           " bytes each, 3 ranks of that * may touch * bytes more, and * are left",
                  .hint = "ask for less, or *"});
    check_group(world);
  }
  const auto enough = world.allocate<std::int64_t>(1'000'000);
  world.allreduce(enough, sum);
}

void memory_is_given_back(Communicator& world, Arguments) {
  for (int i = 0; i < 20; ++i) {
    auto buffer = world.allocate<std::uint8_t>(40 << 20);
    check(buffer[0] == 0 && buffer[buffer.size() - 1] == 0, "zero again");
    buffer[0] = buffer[buffer.size() - 1] = 1;
  }
  auto survivor = world.allocate<std::int64_t>(10);
  world.barrier();
}

// Its members alone call it: the others do other things meanwhile.
void subgroups_are_made_by_their_members_alone(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  std::vector<int> even;
  for (int rank = 0; rank < size; rank += 2) even.push_back(rank);
  std::ranges::reverse(even);
  if (me % 2 == 0) {
    Communicator group = world.subgroup(even);
    check_equal(group.size(), static_cast<int>(even.size()));
    check_equal(even[static_cast<std::size_t>(group.rank())], me);
    check(group.ranks_in(world) == even, "in the order of the list");
    check_group(group);
    check(shares_memory(group) == (group.size() > 1 && shares_memory(world)), "with node memory");
    // The same list once more, and with another tag in another order.
    Communicator again = world.subgroup(even);
    Communicator first = world.subgroup(even, 1);
    check_group(again);
    check_group(first);
    std::vector<int> pair{even.front(), even.back()};
    if (even.size() > 1 && (me == pair[0] || me == pair[1])) {
      Communicator two = world.subgroup(pair, 3);
      check_group(two);
      Communicator turned = two.subgroup(std::vector<int>{1, 0});
      check_group(turned);
    }
  }
  check_group(world);

  Communicator own = world.self();
  check_equal(own.size(), 1);
  check_equal(own.rank(), 0);
  check_group(own);
  Communicator other = world.self();
  const Request sent = own.send_async(me, 0, 4);
  check(!other.try_probe().has_value(), "selves do not hear each other");
  check_equal(own.receive<int>(0, 4).at(0), me);

  const auto refused = [&](const std::vector<int>& ranks, int peer, const std::string& cause,
                           const std::string& hint) {
    expect_error([&] { world.subgroup(ranks); },
                 {ErrorCode::bad_argument, peer, "subgroup", cause, hint});
  };
  refused({me, size}, size, "rank * is not a rank of this communicator", "ranks here are 0 to *");
  refused({me, me}, no_peer, "rank * is there twice", "name each rank once");
  refused({}, no_peer, "rank *, which calls it, is not one of the ranks",
          "its members alone call it");
  expect_error([&] { world.subgroup(std::vector<int>{me}, -1); },
               {ErrorCode::bad_argument, no_peer, "subgroup", "tag -1 is negative", "*"});
  world.barrier();
}

void a_member_that_does_not_come_is_named(Communicator& world, Arguments) {
  const std::vector<int> all{1, 0};
  if (world.rank() == 0) {
    expect_error([&] { world.subgroup(all, 0, {.timeout = 300ms}); },
                 {ErrorCode::timeout, 1, "subgroup", "rank 1 (*", "last operations of rank 0: *"});
  }
  world.barrier();  // lives on
}

// Far more communicators than the arena has room for at once, ended in every way; in each of them
// the words that ranks share begin anew.
void memory_of_communicators_is_used_again(Communicator& world, Arguments) {
  const int size = world.size();
  std::optional<Communicator> held;
  for (int i = 0; i < 300; ++i) {
    Communicator group = world.duplicate();
    check(shares_memory(group), "no room for communicator " + std::to_string(i));
    for (int call = 0; call < i % 6; ++call) {
      std::vector<int> data{world.rank() + i + call};
      group.allreduce(data, sum);
      check_equal(data[0], size * (i + call) + size * (size - 1) / 2);
    }
    std::optional<Communicator> half = group.split(world.rank() == 0 ? 0 : 1);
    if (i % 3 == 0) group.finish();
    if (i % 5 == 0) half->barrier();
    if (i % 100 == 50) held = std::move(half);  // and outlives its parent
  }
  held->barrier();
}

std::size_t shared_pages_kib() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssShmem:")) return std::stoul(line.substr(line.find(':') + 1));
  }
  fail("no RssShmem", Place::current());
}

// Who waits looks for calls that differ: there are none where nobody has called anything, or where
// all have called the same.
void who_waits_reads_nothing_of_idle_communicators(Communicator& world, Arguments) {
  constexpr int count = 50;
  std::vector<Communicator> groups;
  for (int i = 0; i < count; ++i) {
    groups.push_back(world.duplicate());
    if (i % 2 == 0) check_group(groups.back());
  }
  world.barrier();
  const std::size_t before_kib = shared_pages_kib();
  std::vector<int> nothing(1);
  for (int i = 0; i < 2; ++i) {
    expect_error([&] { world.receive(nothing, any_source, 1, {.timeout = 100ms}); },
                 {ErrorCode::timeout, no_peer, "receive", "*", "*"});
  }
  const std::size_t after_kib = shared_pages_kib();
  check(after_kib < before_kib + 1024,
        std::to_string(before_kib) + " KiB became " + std::to_string(after_kib));
  world.barrier();
}

// Rank 0 does not wait long for the others. Is true on those that have made the group then.
template <class Make>
bool is_made_without_rank_0(Communicator& world, Communicator& beside, const Make& make) {
  Communicator parent = world.duplicate();
  bool is_made = false;
  if (world.rank() == 0) {
    try {
      make(parent, {.timeout = 50ms});
      throw std::runtime_error{"the group was made without the others"};
    } catch (const Error& error) {
      check(error.code() == ErrorCode::timeout, error.what());
    }
    for (int rank = 1; rank < world.size(); ++rank) beside.send(0, rank, 1);
  } else {
    beside.receive<int>(0, 1);
    const auto begin = std::chrono::steady_clock::now();
    try {
      Communicator group = make(parent, {});
      is_made = true;
      group.barrier({.timeout = 20'000ms});
      throw std::runtime_error{"a barrier without rank 0"};
    } catch (const Error& error) {  // of the parent, or of the group where it was made
      check(std::chrono::steady_clock::now() - begin < 10s, error.what());
      const bool names_another = error.peer() != world.rank();  // which may have no group, either
      if (is_made) check(error.code() == ErrorCode::aborted && names_another, error.what());
    }
  }
  world.barrier();
  return is_made;
}

void a_group_that_one_rank_gave_up_fails_on_all(Communicator& world, Arguments) {
  std::vector<int> everybody(static_cast<std::size_t>(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  Communicator beside = world.independent();  // who waits in it learns nothing of the others
  const auto duplicate = [](Communicator& parent, const CallOptions& options) {
    return parent.duplicate(options);
  };
  const auto split = [](Communicator& parent, const CallOptions& options) {
    return *parent.split(0, 0, options);
  };
  const auto subgroup = [&](Communicator& parent, const CallOptions& options) {
    return parent.subgroup(everybody, 7, options);
  };
  is_made_without_rank_0(world, beside, subgroup);
  // Of two ranks that share memory the other one finds there what it needs, unless it happens to
  // look for news while it makes the group.
  const bool can_be_made = world.size() == 2 && shares_memory(world);
  const auto is_made_once = [&](const auto& make) {
    int made = 0;
    for (int round = 0; made == 0 && round < (can_be_made ? 20 : 1); ++round)
      made = world.allreduce(is_made_without_rank_0(world, beside, make) ? 1 : 0, max);
    return made == 1;
  };
  check(is_made_once(duplicate) || !can_be_made, "no duplicate was made");
  check(is_made_once(split) || !can_be_made, "no part was made");
}

// A call of every collective is under way, of lengths whose rows are still tried.
void groups_are_made_behind_calls_that_try_rows(Communicator& world, Arguments) {
  const auto size = static_cast<std::size_t>(world.size());
  for (int round = 0; round < 60; ++round) {
    for (const std::size_t count : {200U, 2'379U}) {
      std::vector<std::int64_t> in(count * size, 1);
      std::vector<std::int64_t> out(count * size);
      const auto block = std::span{in}.first(count);
      const auto begin = [&](int which) {
        switch (which) {
          case 0: return world.reduce_async(block, std::span{out}.first(count), sum, 0);
          case 1: return world.broadcast_async(out, 0);
          case 2: return world.gather_async(block, out, 0);
          case 3: return world.scatter_async(in, std::span{out}.first(count), 0);
          case 4: return world.scan_async(block, std::span{out}.first(count), sum);
          case 5: return world.reduce_scatter_async(in, std::span{out}.first(count), sum);
          default: return world.alltoall_async(in, out);
        }
      };
      for (int which = 0; which < 7; ++which) {
        Request request = begin(which);
        Communicator group = which % 2 == 0 ? world.duplicate() : *world.split(0);
        request.wait();
        group.barrier();
      }
    }
  }
}

// Several at once, with messages and collectives between their beginnings.
void groups_are_made_while_others_go_on(Communicator& world, Arguments) {
  const int me = world.rank();
  const int size = world.size();
  std::optional<Communicator> halves;
  std::optional<Communicator> backwards;
  std::optional<Communicator> copy;
  std::optional<Communicator> odd{world.self()};  // what it was is gone
  for (int round = 0; round < 10; ++round) {
    std::vector<Request> requests;
    std::vector<std::int64_t> sums = addends(me, 400);
    requests.push_back(world.split_async(halves, me % 2));
    requests.push_back(world.allreduce_async(sums, sum));
    requests.push_back(world.split_async(backwards, 0, -me));
    requests.push_back(world.duplicate_async(copy));
    requests.push_back(world.split_async(odd, me % 2 == 1 ? 5 : no_color));
    Communicator blocking = world.duplicate();
    blocking.barrier();
    wait_all(requests);
    check_sum(sums, size);
    check_equal(halves->rank(), me / 2);
    check_equal(halves->size(), (size + 1 - me % 2) / 2);
    check_equal(backwards->rank(), size - 1 - me);
    check_equal(copy->rank(), me);
    check_equal(odd.has_value(), me % 2 == 1);
    for (Communicator* const group : {&*halves, &*backwards, &*copy}) {
      std::vector<std::int64_t> ones(2000, 1);
      group->allreduce(ones, sum);
      check_equal(ones.back(), std::int64_t{group->size()});
    }
    if (odd) odd->barrier();
  }
  // Left to itself.
  std::optional<Communicator> left;
  std::atomic<bool> is_made = false;  // a progress thread may make it
  Request making = world.duplicate_async(left);
  making.on_end([&] { is_made = true; });
  making.detach();
  while (!is_made) world.progress();
  left->barrier();
  expect_error([&] { auto request = world.split_async(halves, -2); },
               {ErrorCode::bad_argument, no_peer, "split_async", "color -2 is negative", "*"});
  world.barrier();
}

// Says which processes are the ranks, and what each was started with (arguments[0]); what they
// compute is right for these.
void tells_who_is_here(Communicator& world, Arguments arguments) {
  const std::array<std::int64_t, 2> mine{::getpid(), std::stoll(arguments[0])};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(world.size()));
  world.allgather(mine, all);
  std::string line = "here:";
  std::int64_t expected = 0;
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank) {
    line += " " + std::to_string(all[2 * rank]) + "=" + std::to_string(all[2 * rank + 1]);
    expected += all[2 * rank];
  }
  for (const std::size_t count : {1U, 1'000U, 100'000U}) {
    std::vector<std::int64_t> sums(count, mine[0]);
    world.allreduce(sums, sum);
    check(sums == std::vector<std::int64_t>(count, expected), "somebody else's data came in");
  }
  say(line);
}

}  // namespace

std::vector<Scenario> group_scenarios() {
  return {
      in_world("tells_who_is_here", tells_who_is_here),
      in_world("split_by_color_and_key", split_by_color_and_key),
      in_world("split_of_a_split_of_a_split", split_of_a_split_of_a_split),
      in_world("groups_know_their_ranks_in_each_other", groups_know_their_ranks_in_each_other),
      in_world("subgroups_are_made_by_their_members_alone",
               subgroups_are_made_by_their_members_alone),
      in_world("a_member_that_does_not_come_is_named", a_member_that_does_not_come_is_named),
      in_world("groups_do_not_hear_each_other", groups_do_not_hear_each_other),
      in_world("groups_are_made_while_others_go_on", groups_are_made_while_others_go_on),
      in_world("a_group_that_one_rank_gave_up_fails_on_all",
               a_group_that_one_rank_gave_up_fails_on_all),
      in_world("groups_are_made_behind_calls_that_try_rows",
               groups_are_made_behind_calls_that_try_rows),
      in_world("a_second_thread_has_its_own_context", a_second_thread_has_its_own_context),
      in_world("buffers_in_every_call", buffers_in_every_call),
      in_world("a_buffer_may_go_while_it_is_used", a_buffer_may_go_while_it_is_used),
      in_world("too_much_memory_is_refused_on_all_alike", too_much_memory_is_refused_on_all_alike),
      in_world("one_rank_without_memory_is_named_on_all", one_rank_without_memory_is_named_on_all),
      in_world("more_than_the_machine_has_is_refused_on_all_alike",
               more_than_the_machine_has_is_refused_on_all_alike),
      in_world("memory_is_given_back", memory_is_given_back),
      in_world("memory_of_communicators_is_used_again", memory_of_communicators_is_used_again),
      in_world("who_waits_reads_nothing_of_idle_communicators",
               who_waits_reads_nothing_of_idle_communicators)};
}

}  // namespace qpmesh::ranks

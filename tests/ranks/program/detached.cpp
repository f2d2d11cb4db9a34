// SPDX-License-Identifier: MIT
// Operations that are left to themselves.
#include <array>
#include <optional>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

constexpr std::array<std::size_t, 3> lengths_bytes{8, 50'000, 2'000'000};

// Of all kinds and lengths: what they do is done when finish() has returned.
void detached_operations_end_with_finish(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  Communicator group = world.duplicate();
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  std::vector<std::vector<std::int64_t>> sums;
  for (const std::size_t bytes : lengths_bytes) {
    sent.push_back(pattern(bytes, me));
    received.emplace_back(bytes);
    sums.push_back(addends(me, bytes / 8));
  }
  int told = 0;
  for (std::size_t i = 0; i < lengths_bytes.size(); ++i) {
    const int tag = static_cast<int>(i);
    Request receive = group.receive_async(received[i], previous, tag);
    receive.on_end([&] { ++told; });
    receive.detach();
    check(!receive.is_in_flight(), "the request is empty");
    group.send_async(sent[i], next, tag).detach();
    group.allreduce_async(sums[i], sum).detach();
    group.barrier_async().detach();
  }
  group.finish();
  for (std::size_t i = 0; i < lengths_bytes.size(); ++i) {
    check_pattern(received[i], previous);
    check_sum(sums[i], world.size());
  }
  check_equal(told, static_cast<int>(lengths_bytes.size()));
  Request ended = world.receive_async(received[0], previous, 9);
  world.send(sent[0], next, 9);
  world.barrier();
  while (!ended.test()) {}
  ended.detach();
  Request none;
  none.detach();
  world.barrier();
}

// finish() waits for them as long as it may.
void finish_tells_of_detached_operations_that_do_not_end(Communicator& world, Arguments) {
  Communicator own = world.self();
  int never = 0;
  own.receive_async(never, 0, 3).detach();
  expect_error([&] { own.finish({.timeout = 50ms}); },
               {ErrorCode::timeout, any_peer_at_all, "finish", "*", "*"});
  own.send(7, 0, 3);
  own.finish();
  check_equal(never, 7);
  world.barrier();
}

// Nothing of them is left behind: neither what they read nor the communicator.
void a_communicator_takes_its_detached_operations_along(Communicator& world, Arguments) {
  for (int i = 0; i < 20; ++i) {
    Communicator group = world.duplicate();
    std::optional<Bytes> unread{pattern(300'000, i)};
    Bytes never(16);
    int told = 0;
    group.send_async(*unread, world.rank(), 1).detach();
    Request receive = group.receive_async(never, world.rank(), 2);
    receive.on_end([&] { ++told; });
    receive.detach();
    group = world.duplicate();
    unread.reset();
    check_equal(told, 1);
    std::vector<std::int64_t> sums = addends(world.rank(), 3000);
    group.allreduce(sums, sum);
    check_sum(sums, world.size());
  }
  world.barrier();
}

// Who waits for a message that is never sent in full is told, however far it was with it.
void who_waits_for_what_a_group_took_along_is_told(Communicator& world, Arguments) {
  for (const bool holds : {true, false}) {
    Communicator group = world.duplicate();
    if (world.rank() == 0) {
      const Bytes unread = pattern(3'000'000, 1);
      group.send_async(unread, 1, 1).detach();
      world.receive<int>(1, 2);
      group = world.duplicate();
      world.barrier();
      continue;
    }
    std::optional<Message> message;
    if (world.rank() == 1) {
      if (holds) message = group.match(0, 1);
      else group.probe(0, 1);
      world.send(0, 0, 2);
    }
    const Communicator other = world.duplicate();
    world.barrier();
    if (world.rank() != 1) continue;
    Bytes all(3'000'000);
    const Expected told{ErrorCode::aborted, 0, "receive", "*", "*"};
    if (holds) expect_error([&] { message->receive(all); }, told);
    else expect_error([&] { group.receive(all, 0, 1); }, told);
  }
  world.barrier();
}

// Messages that nobody received go with their group: they take no room of a limit, nor of a ring.
void messages_that_a_group_leaves_stop_nobody(Communicator& world, Arguments) {
  const Bytes unread = pattern(8'000, 1);
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (int i = 0; i < 300; ++i) {
    Communicator group = world.duplicate();
    group.send_async(unread, next, 1).detach();
    group.finish();
  }
  // Without finish(), where messages come when it has gone.
  for (int i = 0; i < 300; ++i) {
    std::optional<Communicator> group = world.duplicate();
    if (world.rank() == 1) group.reset();
    world.barrier();
    if (world.rank() == 0) group->send(i, 1, 1);
    world.barrier();
  }
  Request sent = world.send_async(unread, next, 2);
  Bytes received(unread.size());
  world.receive(received, previous, 2);
  sent.wait();
  check_pattern(received, 1);
  world.barrier();
}

}  // namespace

std::vector<Scenario> detached_scenarios() {
  return {in_world("who_waits_for_what_a_group_took_along_is_told",
                   who_waits_for_what_a_group_took_along_is_told),
          in_world("messages_that_a_group_leaves_stop_nobody",
                   messages_that_a_group_leaves_stop_nobody),
          in_world("detached_operations_end_with_finish", detached_operations_end_with_finish),
          in_world("finish_tells_of_detached_operations_that_do_not_end",
                   finish_tells_of_detached_operations_that_do_not_end),
          in_world("a_communicator_takes_its_detached_operations_along",
                   a_communicator_takes_its_detached_operations_along)};
}

}  // namespace qpmesh::ranks

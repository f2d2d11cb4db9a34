// SPDX-License-Identifier: MIT
// Messages that are matched first and received later, sends that end with their receive, exchanges
// with two tags.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

const std::vector<std::size_t> lengths{0, 1, 70, 5'000, 100'000, 3'000'000};

void a_matched_message_is_nobody_elses(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  int tag = 10;  // of a length: a rank that is ahead is not heard
  for (const std::size_t bytes : lengths) {
    ++tag;
    const Bytes first = pattern(bytes, me);
    const Bytes second = pattern(bytes, me + 50);
    std::vector<Request> sent;
    sent.push_back(world.send_async(first, next, tag));
    sent.push_back(world.send_async(second, next, tag));
    Message message = world.match(previous, tag);
    check_status(message.status(), previous, tag, bytes);
    // Receives get what comes behind it, whatever they name.
    Bytes other(bytes);
    check_status(world.receive(other, any_source, tag), previous, tag, bytes);
    check_pattern(other, previous + 50);
    check(!world.try_match(any_source, tag).has_value(), "nothing else is in line");
    if (bytes > 0) {
      Bytes less(bytes - 1);
      expect_error([&] { message.receive(less); },
                   {ErrorCode::truncated, previous, "receive", "the message has * bytes, *", "*"});
      expect_error([&] { message.receive_async(less).wait(); },
                   {ErrorCode::truncated, previous, "receive", "the message has * bytes, *", "*"});
    }
    if (bytes % 4 == 1)
      expect_error([&] { message.receive<float>(); },
                   {ErrorCode::mismatch, previous, "receive", "a message of * bytes holds no *",
                    "receive it as bytes: receive<std::byte>"});
    const Bytes received = message.receive<std::uint8_t>();
    check_equal(received.size(), bytes);
    check_pattern(received, previous);
    expect_error([&] { message.receive<std::uint8_t>(); },
                 {ErrorCode::bad_argument, no_peer, "receive", "the message has been received",
                  "a message is received once"});
    wait_all(sent);
  }
}

void a_message_that_was_not_received_is_first_in_line_again(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  int tag = 10;  // of a length: a rank that is ahead is not heard
  for (const std::size_t bytes : lengths) {
    ++tag;
    const Bytes first = pattern(bytes, me);
    const Bytes second = pattern(bytes, me + 50);
    Request a = world.send_async(first, next, tag);
    Request b = world.send_async(second, next, tag);
    {
      const Message left = world.match(previous, tag);
      world.probe(previous, tag);  // the second
    }
    Bytes received(bytes);
    world.receive(received, previous, tag);
    check_pattern(received, previous);
    std::optional<Message> message;
    while (!message) message = world.try_match(previous, tag);
    Request request = message->receive_async(received);
    request.wait();
    check_pattern(received, previous + 50);
    message.reset();
    a.wait();
    b.wait();
    check(!world.try_probe(any_source, tag).has_value(), "all were received");
  }
  const Message nobody = world.match(no_rank);
  check_status(nobody.status(), no_rank, any_tag, 0);
}

// It is held when its communicator goes, and nobody is disturbed.
void a_held_message_outlives_its_handle(Communicator& world, Arguments) {
  const int me = world.rank();
  std::optional<Message> held;
  {
    Communicator group = world.duplicate();
    group.send(std::vector<int>{me, 7}, (me + 1) % world.size(), 1);
    held = group.match(any_source, 1);
  }
  check_equal(held->receive<int>().at(1), 7);
  held.reset();
  world.barrier();
}

void a_synchronous_send_ends_with_its_receive(Communicator& world, Arguments) {
  const int me = world.rank();
  const int last = world.size() - 1;
  for (const std::size_t bytes : lengths) {
    const Bytes data = pattern(bytes, 3);
    if (me == 0) {
      std::vector<Request> sends;
      sends.reserve(static_cast<std::size_t>(world.size()));
      for (int to = 0; to < world.size(); ++to)
        sends.push_back(world.send_async(data, to, 2, {.synchronous = true}));
      // Nobody receives before they are told that nothing has ended.
      for (int i = 0; i < 100; ++i)
        for (Request& send : sends) check(!send.test(), "ended without its receive");
      for (int to = 1; to < world.size(); ++to) world.send(to, to, 3);
      check_pattern(world.receive<std::uint8_t>(0, 2), 3);
      wait_all(sends);
    } else {
      world.receive<int>(0, 3);
      check_pattern(world.receive<std::uint8_t>(0, 2), 3);
    }
    // Blocking, in a ring, and matched.
    if (world.size() > 1) {
      Bytes got(bytes);
      if (me == 0) world.send(data, 1, 4, {.synchronous = true});
      if (me > 0) {
        world.match(me - 1, 4).receive(got);
        check_pattern(got, 3);
        if (me < last) world.send(got, me + 1, 4, {.synchronous = true});
      }
    }
  }
  if (me == 0) {
    Communicator own = world.self();
    expect_error([&] { own.send(me, 0, 0, {.timeout = 200ms, .synchronous = true}); },
                 {ErrorCode::timeout, 0, "send", "*", "*"});
  }
  world.barrier();
}

void an_exchange_may_have_two_tags(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  int got = -1;
  // Each sends with its own tag.
  check_status(world.sendrecv(me, next, got, previous, {me, previous}), previous, previous, 4);
  check_equal(got, previous);
  check_status(world.sendrecv_async(me, next, got, previous, {me + 10, any_tag}).wait(), previous,
               previous + 10, 4);
  check_status(world.sendrecv(me, next, got, no_rank, {8, 9}), no_rank, any_tag, 0);
  check_equal(world.receive<int>(previous, 8).at(0), previous);
  expect_error(
      [&] {
        world.sendrecv(me, next, got, previous, {any_tag, 3});
      },
      {ErrorCode::bad_argument, no_peer, "sendrecv", "tag -1 is negative",
       "tags are 0 to 2147483647"});
  world.barrier();
}

// However it is received, the head is there and what comes behind the message is whole.
void the_head_of_a_longer_message_is_received(Communicator& world, Arguments) {
  const CallOptions head{.head = true};
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  int tag = 10;  // of a length: a rank that is ahead is not heard
  for (const std::size_t bytes : lengths) {
    for (const std::size_t taken : {std::size_t{0}, bytes / 3, bytes, bytes + 5}) {
      ++tag;
      const Bytes sent = pattern(bytes, me);
      const Bytes expected = pattern(bytes, previous);
      // What is behind the buffer stays as it is.
      const auto check_head = [&](const Bytes& got, const Status& status) {
        check_status(status, previous, tag, bytes);
        const std::size_t came = std::min(taken, bytes);
        check(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(came),
                         expected.begin()),
              "the head is another one");
        check(std::all_of(got.begin() + static_cast<std::ptrdiff_t>(came), got.end(),
                          [](std::uint8_t byte) { return byte == 0xee; }),
              "there is more than the head");
      };
      const auto room = [&] { return Bytes(taken + 8, 0xee); };
      const auto part = [&](Bytes& memory) { return std::span{memory}.first(taken); };
      std::vector<Request> sends;
      const auto send = [&] { sends.push_back(world.send_async(sent, next, tag)); };
      Bytes posted = room();
      Request request = world.receive_async(part(posted), previous, tag, head);
      send();
      check_head(posted, request.wait());
      send();
      world.probe(previous, tag);  // it has come before its receive
      Bytes unexpected = room();
      check_head(unexpected, world.receive(part(unexpected), any_source, tag, head));
      send();
      Bytes matched = room();
      check_head(matched, world.match(previous, tag).receive(part(matched), head));
      send();
      Bytes matched_async = room();
      check_head(matched_async,
                 world.match(previous, tag).receive_async(part(matched_async), head).wait());
      Bytes exchanged = room();
      check_head(exchanged, world.sendrecv(sent, next, part(exchanged), previous, tag, head));
      send();
      check_pattern(world.receive<std::uint8_t>(previous, tag), previous);
      wait_all(sends);
    }
  }
  std::array<int, 2> two{};
  const std::vector<int> four{1, 2, 3, me};
  Request many = world.send_async(four, next, 5);
  check_equal(world.receive(two, previous, 5, head).bytes, 16U);
  check_equal(two[1], 2);
  many.wait();
  // Another type is no head.
  const std::vector<double> doubles{1, 2};
  Request words = world.send_async(doubles, next, 6);
  expect_error([&] { world.receive(two, previous, 6, head); },
               {ErrorCode::mismatch, previous, "receive", "*", "*"});
  world.receive<double>(previous, 6);
  words.wait();
  // Taken back, and at the end.
  Request never = world.receive_async(two, previous, 7, head);
  check(never.cancel(), "it is taken back");
  int told = 0;
  Request late = world.receive_async(std::span{two}.first(1), previous, 8, head);
  late.on_end([&] { told = two[0]; });
  const std::vector<int> nine{9, 10};
  Request sent = world.send_async(nine, next, 8);
  late.wait();
  check_equal(told, 9);
  sent.wait();
  world.barrier();
}

// Receives that were posted while it was held come before those that are posted later.
void a_message_that_goes_back_is_what_a_posted_receive_waits_for(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  int tag = 10;
  for (const std::size_t bytes : lengths) {
    for (const int source : {previous, any_source}) {
      ++tag;
      const Bytes first = pattern(bytes, me);
      const Bytes second = pattern(bytes, me + 50);
      std::vector<Request> sent;
      sent.push_back(world.send_async(first, next, tag));
      std::optional<Message> message = world.match(previous, tag);
      Bytes less(bytes > 0 ? bytes - 1 : 0);
      Bytes one(bytes);
      Bytes other(bytes);
      Request too_small = world.receive_async(less, source, tag);
      Request early = world.receive_async(one, source, tag);
      int told = 0;
      early.on_end([&] { ++told; });
      if (bytes == 0) check(too_small.cancel(), "nothing is too small for no bytes");
      message.reset();
      world.barrier();  // nothing else comes before
      if (bytes > 0) {
        expect_error([&] { too_small.wait(); },
                     {ErrorCode::truncated, previous, "receive_async", "*", "*"});
      }
      sent.push_back(world.send_async(second, next, tag));
      early.wait();
      check_equal(told, 1);
      check_pattern(one, previous);
      world.receive(other, source, tag);
      check_pattern(other, previous + 50);
      wait_all(sent);
    }
  }
}

// Whatever the order in which they go back, and whatever came meanwhile.
void messages_that_go_back_keep_their_order(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  for (int value = 0; value < 6; ++value) world.send(value, next, 10 + value % 2);
  std::vector<Message> held;
  held.reserve(4);
  for (int i = 0; i < 3; ++i) held.push_back(world.match(previous, 10));
  held.push_back(world.match(previous, 11));
  for (const std::size_t i : {std::size_t{1}, std::size_t{3}, std::size_t{0}, std::size_t{2}})
    const Message goes_back = std::move(held[i]);
  for (int value = 0; value < 6; ++value)
    check_equal(world.receive<int>(previous, any_tag)[0], value);
  world.barrier();
}

}  // namespace

std::vector<Scenario> matched_scenarios() {
  return {
      in_world("a_message_that_goes_back_is_what_a_posted_receive_waits_for",
               a_message_that_goes_back_is_what_a_posted_receive_waits_for),
      in_world("messages_that_go_back_keep_their_order", messages_that_go_back_keep_their_order),
      in_world("a_matched_message_is_nobody_elses", a_matched_message_is_nobody_elses),
      in_world("a_message_that_was_not_received_is_first_in_line_again",
               a_message_that_was_not_received_is_first_in_line_again),
      in_world("a_held_message_outlives_its_handle", a_held_message_outlives_its_handle),
      in_world("a_synchronous_send_ends_with_its_receive",
               a_synchronous_send_ends_with_its_receive),
      in_world("an_exchange_may_have_two_tags", an_exchange_may_have_two_tags),
      in_world("the_head_of_a_longer_message_is_received",
               the_head_of_a_longer_message_is_received)};
}

}  // namespace qpmesh::ranks

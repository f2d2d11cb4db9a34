// SPDX-License-Identifier: MIT
// Point to point: sizes, order, any source and any tag, self, probe, sendrecv,
// truncation, unexpected messages, a deadline.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <random>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// Around what a record holds, the eager limit and the ring.
constexpr std::array<std::size_t, 14> sizes{0,     1,     12,    17,    168,   169,     8192,
                                            16384, 32767, 32768, 32769, 65536, 1 << 20, 16 << 20};

void every_size_between_all_pairs(Communicator& world, Arguments) {
  for (const std::size_t bytes : sizes) {
    for (int shift = 0; shift < world.size(); ++shift) {  // 0: with itself
      const int to = (world.rank() + shift) % world.size();
      const int from = (world.rank() - shift + world.size()) % world.size();
      const Bytes out = pattern(bytes, world.rank());
      Bytes in(bytes, 0xEE);
      check_status(world.sendrecv(out, to, in, from, 7), from, 7, bytes);
      check_pattern(in, from);
    }
  }
  for (const std::size_t bytes : sizes) {
    Bytes data(bytes);
    if (world.size() == 1) break;
    if (world.rank() == 0) {
      world.send(pattern(bytes, 5), 1, 3);
      check_status(world.receive(data, 1, 4), 1, 4, bytes);
      check_pattern(data, 6);
    } else if (world.rank() == 1) {
      check_status(world.receive(data, 0, 3), 0, 3, bytes);
      check_pattern(data, 5);
      world.send(pattern(bytes, 6), 0, 4);
    }
  }
}

// Parts of one private memory, and all of it, are the sources of many messages in flight: what is
// opened for one of them is not closed under another.
void one_memory_is_sent_to_all_at_once(Communicator& world, Arguments) {
  constexpr std::size_t bytes = 1 << 20;
  constexpr int rounds = 3;
  const Bytes out = pattern(bytes, world.rank());
  const std::span<const std::uint8_t> all{out};
  const auto index = [](int from, int round) {
    return static_cast<std::size_t>(from) * rounds + static_cast<std::size_t>(round);
  };
  std::vector<Bytes> in(index(world.size(), 0), Bytes(bytes, 0xEE));
  std::vector<Request> requests;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t length = bytes >> round;
    for (int shift = 1; shift < world.size(); ++shift) {
      const int from = (world.rank() + shift) % world.size();
      Bytes& target = in[index(from, round)];
      target.resize(length);
      requests.push_back(world.receive_async(target, from, round));
      requests.push_back(world.send_async(
          all.first(length), (world.rank() - shift + world.size()) % world.size(), round));
    }
  }
  wait_all(requests);
  for (int from = 0; from < world.size(); ++from) {
    for (int round = 0; round < rounds && from != world.rank(); ++round)
      check_pattern(in[index(from, round)], from);
  }
}

constexpr std::array<std::size_t, 6> mixed{4, 200, 9'000, 20'000, 0, 300'000};

// Small messages must not overtake large ones between the same two ranks.
void order_per_pair(Communicator& world, Arguments) {
  constexpr int count = 120;
  const auto bytes_of = [](int i) { return mixed[static_cast<std::size_t>(i) % mixed.size()]; };
  if (world.rank() == 0) {
    std::vector<Bytes> data;
    std::vector<Request> requests;
    data.reserve(2 * count);
    requests.reserve(2 * count);
    for (int i = 0; i < 2 * count; ++i) data.push_back(pattern(bytes_of(i), i));
    for (int i = 0; i < 2 * count; ++i)
      requests.push_back(world.send_async(data[static_cast<std::size_t>(i)], 1, i % 3));
    wait_all(requests);
    return;
  }
  Bytes data(300'000);
  for (int i = 0; i < count; ++i) {
    check_status(world.receive(data, 0, any_tag), 0, i % 3, bytes_of(i));
    check_pattern(std::span{data}.first(bytes_of(i)), i);
  }
  for (const int tag : {2, 0, 1}) {
    for (int i = count; i < 2 * count; ++i) {
      if (i % 3 != tag) continue;
      check_status(world.receive(data, any_source, tag), 0, tag, bytes_of(i));
      check_pattern(std::span{data}.first(bytes_of(i)), i);
    }
  }
}

void any_source_from_everybody(Communicator& world, Arguments) {
  constexpr int count = 60;
  if (world.rank() != 0) {
    for (int i = 0; i < count; ++i)
      world.send(pattern(mixed[static_cast<std::size_t>(i) % mixed.size()], world.rank() + i), 0,
                 i);
    return;
  }
  std::vector<int> next(static_cast<std::size_t>(world.size()), 0);
  Bytes data(300'000);
  for (int i = 0; i < count * (world.size() - 1); ++i) {
    const Status status = world.receive(data, any_source, any_tag);
    check(status.source > 0 && status.source < world.size(), "a source that exists");
    const int number = next[static_cast<std::size_t>(status.source)]++;
    check_status(status, status.source, number,
                 mixed[static_cast<std::size_t>(number) % mixed.size()]);
    check_pattern(std::span{data}.first(status.bytes), status.source + number);
  }
  for (int rank = 1; rank < world.size(); ++rank)
    check_equal(next[static_cast<std::size_t>(rank)], count);
  check(!world.try_probe().has_value(), "nothing is left");
}

void messages_to_itself(Communicator& world, Arguments) {
  const int me = world.rank();
  world.send(std::vector<int>{me}, me, 1);  // small: needs no receive yet
  std::vector<int> one(1);
  check_status(world.receive(one, me, 1), me, 1, sizeof(int));
  check_equal(one[0], me);
  for (const std::size_t bytes : sizes) {
    const Bytes out = pattern(bytes, me);
    Bytes in(bytes);
    Request send = world.send_async(out, me, 2);
    check_status(world.receive(in, any_source, any_tag), me, 2, bytes);
    send.wait();
    check_pattern(in, me);
    Bytes again(bytes);
    Request receive = world.receive_async(again, me, 3);
    world.send(out, me, 3);
    check_status(receive.wait(), me, 3, bytes);
    check_pattern(again, me);
  }
}

void probe_tells_and_leaves(Communicator& world, Arguments) {
  if (world.rank() == 1) {
    check(!world.try_probe(0, 5).has_value(), "nothing was sent yet");
    world.send(Bytes{1}, 0, 1);
    for (const std::size_t bytes : {std::size_t{30}, std::size_t{9'000}, std::size_t{100'000}}) {
      check_status(world.probe(any_source, 5), 0, 5, bytes);
      check_status(*world.try_probe(0, any_tag), 0, 5, bytes);
      check_status(world.probe(0, 5), 0, 5, bytes);
      Bytes data(bytes);
      check_status(world.receive(data, 0, 5), 0, 5, bytes);
      check_pattern(data, 9);
    }
    check(!world.try_probe().has_value(), "all was taken");
    expect_error([&] { world.probe(0, 6, {.timeout = 30ms}); },
                 {.code = ErrorCode::timeout,
                  .peer = 0,
                  .operation = "probe",
                  .cause = "rank 0 (pid * on *) did not do its part within 30 ms; it is alive as "
                           "far as the kernel knows",
                  .hint = timeout_hint});
    expect_error([&] { world.probe(any_source, 6, {.timeout = 30ms}); },
                 {.code = ErrorCode::timeout,
                  .peer = no_peer,
                  .operation = "probe",
                  .cause = "nothing came within 30 ms",
                  .hint = timeout_hint});
    return;
  }
  Bytes go(1);
  world.receive(go, 1, 1);
  for (const std::size_t bytes : {std::size_t{30}, std::size_t{9'000}, std::size_t{100'000}})
    world.send(pattern(bytes, 9), 1, 5);
}

Expected truncated(const std::string& operation, std::size_t message_bytes,
                   std::size_t buffer_bytes) {
  return {.code = ErrorCode::truncated,
          .peer = 0,
          .operation = operation,
          .cause = "the message has " + std::to_string(message_bytes) + " bytes, the buffer " +
                   std::to_string(buffer_bytes),
          .hint = "the message stays in line for the next receive; probe() tells its size"};
}

void truncated_stays_first_in_line(Communicator& world, Arguments) {
  const std::array<std::size_t, 3> lengths{100, 10'000,
                                           1 << 20};  // in the record, in the ring, by rendezvous
  if (world.rank() == 0) {
    for (const std::size_t bytes : lengths) {
      for (int i = 0; i < 2; ++i) {
        Bytes go(1);
        if (i == 1) world.receive(go, 1, 9);  // the second time the receive is there first
        const Bytes first = pattern(bytes, 1);
        const Bytes second = pattern(8, 2);
        Request large = world.send_async(first, 1, 4);
        Request small = world.send_async(second, 1, 4);
        large.wait();
        small.wait();
      }
    }
    return;
  }
  for (const std::size_t bytes : lengths) {
    for (int i = 0; i < 2; ++i) {
      Bytes small(10, 0xEE);
      const Expected expected = truncated(i == 0 ? "receive" : "receive_async", bytes, 10);
      if (i == 0) {
        expect_error([&] { world.receive(small, 0, 4); }, expected);
      } else {
        Request request = world.receive_async(small, any_source, 4);
        world.send(Bytes{1}, 0, 9);
        expect_error([&] { request.wait(); }, expected);
        expect_error([&] { request.test(); }, expected);
      }
      check(small == Bytes(10, 0xEE), "nothing was written");
      check_equal(world.probe(0, 4).bytes, bytes);
      Bytes data(bytes);
      check_status(world.receive(data, any_source, any_tag), 0, 4, bytes);
      check_pattern(data, 1);
      check_status(world.receive(data, 0, 4), 0, 4, 8U);
      check_pattern(std::span{data}.first(8), 2);
    }
  }
}

// Two receives too small, and one that fits: all three are there before the message.
void truncated_passes_on_to_the_receive_behind(Communicator& world, Arguments) {
  const std::array<std::size_t, 3> lengths{100, 10'000, 1 << 20};
  for (const std::size_t bytes : lengths) {
    if (world.rank() == 0) {
      const Bytes first = pattern(bytes, 1);
      const Bytes second = pattern(8, 2);
      Bytes go(1);
      world.receive(go, 1, 9);
      Request large = world.send_async(first, 1, 4);
      Request small = world.send_async(second, 1, 4);
      large.wait();
      small.wait();
      continue;
    }
    Bytes nothing;
    Bytes ten(10, 0xEE);
    Bytes fitting(bytes);
    Bytes last(10);
    Request too_small = world.receive_async(nothing, 0, 4);
    Request still_too_small = world.receive_async(ten, any_source, 4);
    Request behind = world.receive_async(fitting, 0, any_tag);
    Request after = world.receive_async(last, any_source, any_tag);
    world.send(Bytes{1}, 0, 9);
    expect_error([&] { too_small.wait(); }, truncated("receive_async", bytes, 0));
    expect_error([&] { still_too_small.wait(); }, truncated("receive_async", bytes, 10));
    check(ten == Bytes(10, 0xEE), "nothing was written");
    check_status(behind.wait(), 0, 4, bytes);
    check_pattern(fitting, 1);
    check_status(after.wait(), 0, 4, 8U);
    check_pattern(std::span{last}.first(8), 2);
    check(!world.try_probe().has_value(), "each message was received once");
  }
}

void many_unexpected(Communicator& world, Arguments) {
  constexpr int small_count = 4'000;
  constexpr int medium_count = 150;
  constexpr int large_count = 5;
  if (world.rank() == 0) {
    for (int i = 0; i < small_count; ++i) world.send(std::vector<int>{i}, 1, 1);
    std::vector<Bytes> data;
    std::vector<Request> requests;
    data.reserve(medium_count + large_count);
    requests.reserve(medium_count + large_count);
    for (int i = 0; i < medium_count; ++i) data.push_back(pattern(8'000, i));
    for (int i = 0; i < large_count; ++i) data.push_back(pattern(200'000, i));
    for (const Bytes& bytes : data) requests.push_back(world.send_async(bytes, 1, 2));
    world.send(Bytes{1}, 1, 9);
    wait_all(requests);
    return;
  }
  Bytes last(1);
  world.receive(last, 0, 9);  // behind all the others
  Bytes data(200'000);
  for (int i = 0; i < medium_count + large_count; ++i) {
    const bool medium = i < medium_count;
    check_status(world.receive(data, 0, 2), 0, 2, medium ? 8'000U : 200'000U);
    check_pattern(std::span{data}.first(medium ? 8'000 : 200'000), medium ? i : i - medium_count);
  }
  std::vector<int> number(1);
  for (int i = 0; i < small_count; ++i) {
    world.receive(number, 0, 1);
    check_equal(number[0], i);
  }
}

// With QPMESH_UNEXPECTED_MESSAGES_MAX=50.
void too_many_unexpected(Communicator& world, Arguments) {
  const std::string cause = "50 messages wait for receives that were never posted";
  const auto expected = [&](std::string operation, std::string its_cause) {
    return Expected{.code = ErrorCode::no_resource,
                    .peer = 0,
                    .operation = std::move(operation),
                    .cause = std::move(its_cause),
                    .hint = "post receives, or raise QPMESH_UNEXPECTED_MESSAGES_MAX"};
  };
  if (world.rank() == 0) {
    const std::vector<int> value{1};
    expect_error(
        [&] {
          while (true) world.send(value, 1, 1);
        },
        expected("send", cause + ", seen by rank 1 (pid * on *) in receive"));
  }
  expect_error([&] { world.barrier(); }, expected("barrier", "*" + cause + "*"));
  say("refused");
  std::_Exit(0);  // the communicator is broken: there is nothing to finish
}

// Eager ones keep no sender waiting, whether a receiver stands ready for one of them or not.
void messages_of_some_kib_wait_for_nobody(Communicator& world, Arguments) {
  constexpr std::array<std::size_t, 6> lengths{4096, 4097, 9000, 16384, 20001, 32768};
  constexpr std::size_t long_bytes = 1 << 20;
  const int other = 1 - world.rank();
  std::mt19937 random{20261127};  // the same on both ranks
  for (int round = 0; round < 1200; ++round) {
    const std::size_t bytes = lengths[random() % lengths.size()];
    const bool is_first = world.rank() == static_cast<int>(random() % 2);
    const auto send = [&](int seed, int tag = 0) { world.send(pattern(bytes, seed), other, tag); };
    const auto receive = [&](int seed, int tag = 0) {
      Bytes data(bytes, 0xEE);
      check_status(world.receive(data, other, tag), other, tag, bytes);
      check_pattern(data, seed);
    };
    switch (random() % 6) {
      case 0:  // there and back
        is_first ? send(round) : receive(round);
        is_first ? receive(round + 1) : send(round + 1);
        break;
      case 1:  // both at once
        send(world.rank());
        receive(other);
        break;
      case 2:
        for (int i = 0; i < 5; ++i) is_first ? send(i) : receive(i);
        break;
      case 3: {  // the second one is received only behind a message that waits for its receive
        Bytes long_one(long_bytes, 0xEE);
        if (is_first) {
          send(1);
          send(2);
          world.receive(long_one, other);
          check_pattern(long_one, 3);
        } else {
          receive(1);
          world.send(pattern(long_bytes, 3), other);
          receive(2);
        }
        break;
      }
      case 4:  // in another order
        for (const int tag : {1, 2}) is_first ? send(tag, tag) : receive(3 - tag, 3 - tag);
        break;
      default:
        if (is_first) {
          send(round);
          check_equal(world.receive<int>(other).front(), 1);
        } else {
          Bytes shorter(bytes / 2);
          Expected expected = truncated("receive", bytes, shorter.size());
          expected.peer = other;
          expect_error([&] { world.receive(shorter, other); }, expected);
          world.send(1, other);  // whose message has not been received
          receive(round);
        }
    }
  }
}

void move_crowds(Communicator& world, bool waits_for_nobody) {
  const int other = 1 - world.rank();
  for (int round = 0; round < 50; ++round) {
    for (const std::size_t bytes : {9000UL, 16385UL, 32768UL}) {
      constexpr std::size_t count = 12;
      std::vector<Bytes> out;
      std::vector<Bytes> in(count, Bytes(bytes, 0xEE));
      std::vector<Request> requests;
      for (std::size_t i = 0; i < count; ++i) {
        out.push_back(pattern(bytes, world.rank() + static_cast<int>(i)));
        if (waits_for_nobody) world.send(out[i], other, 5);
        else requests.push_back(world.send_async(out[i], other, 5));
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (round % 2 == 0) world.receive(in[i], other, 5);
        else requests.push_back(world.receive_async(in[i], other, 5));
      }
      wait_all(requests);
      for (std::size_t i = 0; i < count; ++i) check_pattern(in[i], other + static_cast<int>(i));
    }
  }
}

void crowds_of_messages_of_some_kib(Communicator& world, Arguments) { move_crowds(world, false); }
// A quarter of a ring of shared memory and more, after others whose credits have not come back. The
// rings of networks are shorter.
void crowds_that_wait_for_nobody(Communicator& world, Arguments) { move_crowds(world, true); }

// The others, each of which is received, go round the ring several times.
void one_that_stays_makes_no_others_wait(Communicator& world, Arguments) {
  constexpr std::size_t bytes = 32 << 10;
  constexpr int later = 1;
  if (world.rank() == 0) world.send(pattern(200, 1), 1, later);
  for (int round = 0; round < 300; ++round) {
    if (world.rank() == 0) world.send(pattern(bytes, round), 1, 2);
    world.barrier();
    if (world.rank() == 0) continue;
    Bytes data(bytes);
    world.receive(data, 0, 2);
    check_pattern(data, round);
  }
  if (world.rank() == 0) return;
  Bytes data(200);
  world.receive(data, 0, later);
  check_pattern(data, 1);
}

// The last segments of the long one fill the ring until they are taken, which needs no receive. So
// no send may wait for its own: the messages behind it are received in another order.
void eager_ones_behind_a_long_one(Communicator& world, Arguments) {
  constexpr std::size_t eager_bytes = 16 << 10;
  constexpr std::size_t rings_bytes = 8 << 20;  // more than any ring has
  const int other = 1 - world.rank();
  for (int round = 0; round < 20; ++round) {
    if (round % 2 == world.rank()) {
      world.send(pattern(rings_bytes, 1), other);
      world.send(pattern(eager_bytes, 2), other, 1);
      world.send(pattern(eager_bytes, 3), other, 2);
    } else {
      Bytes data(rings_bytes);
      world.receive(data, other);
      check_pattern(data, 1);
      data.resize(eager_bytes);
      for (const int tag : {2, 1}) {
        world.receive(data, other, tag);
        check_pattern(data, 1 + tag);
      }
    }
  }
}

void receive_deadline_leaves_all_well(Communicator& world, Arguments) {
  std::vector<int> value(1);
  const auto begin = std::chrono::steady_clock::now();
  expect_error(
      [&] { world.receive(value, 1 - world.rank(), 3, {.timeout = 60ms}); },
      {.code = ErrorCode::timeout,
       .peer = 1 - world.rank(),
       .operation = "receive",
       .cause =
           "rank " + std::to_string(1 - world.rank()) +
           " (pid * on *) did not do its part within 60 ms; it is alive as far as the kernel knows",
       .hint = timeout_hint});
  expect_error([&] { world.receive(value, any_source, any_tag, {.timeout = 40ms}); },
               {.code = ErrorCode::timeout,
                .peer = no_peer,
                .operation = "receive",
                .cause = "nothing came within 40 ms",
                .hint = timeout_hint});
  Request request = world.receive_async(value, any_source, 3, {.timeout = 20ms});
  expect_error([&] { request.wait(); }, {.code = ErrorCode::timeout,
                                         .peer = no_peer,
                                         .operation = "receive_async",
                                         .cause = "nothing came within 20 ms",
                                         .hint = timeout_hint});
  check(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds{120},
        "no deadline passes early");
  world.barrier();
  check_status(
      world.sendrecv(std::vector<int>{world.rank()}, 1 - world.rank(), value, 1 - world.rank(), 3),
      1 - world.rank(), 3, sizeof(int));
  check_equal(value[0], 1 - world.rank());
}

// Over tcp, connected at first use: rank 1 calls, and rank 0 cannot answer until one is free.
void a_rank_without_descriptors_answers_when_it_has_one(Communicator& world, Arguments) {
  std::vector<int> value(1, world.rank());
  if (world.rank() == 1) {
    world.send(value, 0, 3);
  } else {
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    check(next >= 0 && ::close(next) == 0, "the lowest descriptor that is free");
    rlimit limit{};
    check(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
    const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = limit.rlim_max};
    check(::setrlimit(RLIMIT_NOFILE, &none) == 0, "setrlimit");
    expect_error([&] { world.receive(value, 1, 3, {.timeout = 500ms}); },
                 {.code = ErrorCode::timeout,
                  .peer = 1,
                  .operation = "receive",
                  .cause = "rank 1 (pid * on *) did not do its part within 500 ms; it is alive as "
                           "far as the kernel knows",
                  .hint = timeout_hint});
    check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    world.receive(value, 1, 3);
    check(value[0] == 1, "what rank 1 sent");
  }
  world.barrier();
}

}  // namespace

std::vector<Scenario> message_scenarios() {
  return {in_world("every_size_between_all_pairs", every_size_between_all_pairs),
          in_world("one_memory_is_sent_to_all_at_once", one_memory_is_sent_to_all_at_once),
          in_world("order_per_pair", order_per_pair),
          in_world("any_source_from_everybody", any_source_from_everybody),
          in_world("messages_to_itself", messages_to_itself),
          in_world("probe_tells_and_leaves", probe_tells_and_leaves),
          in_world("truncated_stays_first_in_line", truncated_stays_first_in_line),
          in_world("truncated_passes_on_to_the_receive_behind",
                   truncated_passes_on_to_the_receive_behind),
          in_world("many_unexpected", many_unexpected),
          in_world("too_many_unexpected", too_many_unexpected),
          in_world("messages_of_some_kib_wait_for_nobody", messages_of_some_kib_wait_for_nobody),
          in_world("crowds_of_messages_of_some_kib", crowds_of_messages_of_some_kib),
          in_world("crowds_that_wait_for_nobody", crowds_that_wait_for_nobody),
          in_world("eager_ones_behind_a_long_one", eager_ones_behind_a_long_one),
          in_world("one_that_stays_makes_no_others_wait", one_that_stays_makes_no_others_wait),
          in_world("receive_deadline_leaves_all_well", receive_deadline_leaves_all_well),
          in_world("a_rank_without_descriptors_answers_when_it_has_one",
                   a_rank_without_descriptors_answers_when_it_has_one)};
}

}  // namespace qpmesh::ranks

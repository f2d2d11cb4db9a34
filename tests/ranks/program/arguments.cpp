// SPDX-License-Identifier: MIT
// Arguments that cannot mean anything, through every call that takes them: what the caller is told,
// and that nothing came of it.
#include <array>
#include <limits>

#include "program/every_call.hpp"
#include "program/scenario.hpp"
#include "qpmesh/arena_resource.hpp"

namespace qpmesh::ranks {
namespace {

constexpr ErrorCode bad = ErrorCode::bad_argument;
constexpr int least = std::numeric_limits<int>::min();
constexpr int most = std::numeric_limits<int>::max();

// Good arguments, of which a test spoils one.
struct Given {
  std::span<int> out;
  std::span<int> in;
  int to = 0;
  int from = 0;
  int tag = 0;
  CallOptions call{};
};

struct OneCall {
  std::string operation;
  bool sends;
  bool receives;  // or looks for a message
  bool has_data;
  bool has_deadline;
  void (*make)(Communicator& world, const Given& given);
};

// An asynchronous call throws where it is made, so its request is never one to wait for.
const std::array<OneCall, 8> message_calls{{
    {"send", true, false, true, true,
     [](Communicator& world, const Given& given) {
       world.send(given.out, given.to, given.tag, given.call);
     }},
    {"send_async", true, false, true, true,
     [](Communicator& world, const Given& given) {
       const Request request = world.send_async(given.out, given.to, given.tag, given.call);
     }},
    {"receive", false, true, true, true,
     [](Communicator& world, const Given& given) {
       world.receive(given.in, given.from, given.tag, given.call);
     }},
    {"receive_async", false, true, true, true,
     [](Communicator& world, const Given& given) {
       const Request request = world.receive_async(given.in, given.from, given.tag, given.call);
     }},
    {"sendrecv", true, true, true, true,
     [](Communicator& world, const Given& given) {
       world.sendrecv(given.out, given.to, given.in, given.from, given.tag, given.call);
     }},
    {"sendrecv_async", true, true, true, true,
     [](Communicator& world, const Given& given) {
       const Request request =
           world.sendrecv_async(given.out, given.to, given.in, given.from, given.tag, given.call);
     }},
    {"probe", false, true, false, true,
     [](Communicator& world, const Given& given) {
       world.probe(given.from, given.tag, given.call);
     }},
    {"try_probe", false, true, false, false,
     [](Communicator& world, const Given& given) { world.try_probe(given.from, given.tag); }},
}};

struct Memory {
  std::vector<int> sent = std::vector<int>(8);
  std::vector<int> received = std::vector<int>(8);
  Given good() { return {.out = std::span{sent}.first(4), .in = std::span{received}.first(4)}; }
};

// Nothing of what was refused was counted or sent: the next calls match on every rank.
void check_nothing_happened(Communicator& world) {
  check(!world.try_probe().has_value(), "nothing was sent");
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  world.allreduce(sums, sum);
  check_sum(sums, world.size());
}

void ranks_and_tags_out_of_range(Communicator& world, Arguments) {
  Memory memory;
  const std::string hint = "ranks here are 0 to " + std::to_string(world.size() - 1);
  for (const OneCall& call : message_calls) {
    for (const int peer : {world.size(), most, -3, least, any_source}) {
      const auto told = [&](const std::string& what) {
        const std::string cause =
            what + " " + std::to_string(peer) + " is not a rank of this communicator";
        return Expected{bad, peer, call.operation, cause, hint};
      };
      Given given = memory.good();
      given.to = peer;
      if (call.sends) expect_error([&] { call.make(world, given); }, told("destination"));
      given = memory.good();
      given.from = peer;
      if (call.receives && peer != any_source)
        expect_error([&] { call.make(world, given); }, told("source"));
    }
    for (const int tag : {any_tag, -2, least}) {
      if (tag == any_tag && !call.sends) continue;
      Given given = memory.good();
      given.tag = tag;
      expect_error([&] { call.make(world, given); },
                   {bad, no_peer, call.operation, "tag " + std::to_string(tag) + " is negative",
                    "tags are 0 to 2147483647"});
    }
  }
  check_nothing_happened(world);
}

// Every way to spoil a range of ints, and what is said about it.
struct BadRange {
  std::span<int> range;
  std::string cause;
  std::string hint;
};

std::vector<BadRange> bad_ranges(std::vector<int>& data) {
  const std::string negative = "a negative count, turned unsigned, looks like this";
  std::vector<BadRange> all{{{static_cast<int*>(nullptr), 3},
                             "null with a count of 3",
                             "a range without memory has a count of 0"}};
  constexpr auto bytes_max = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  for (const std::size_t count : {bytes_max / sizeof(int) + 1, static_cast<std::size_t>(-1)}) {
    const std::string cause =
        std::to_string(count) + " elements of 4 bytes are more than memory can hold";
    all.push_back({{data.data(), count}, cause, negative});
    all.push_back({{static_cast<int*>(nullptr), count}, cause, negative});
  }
  return all;
}

void ranges_that_are_none(Communicator& world, Arguments) {
  Memory memory;
  for (const BadRange& none : bad_ranges(memory.sent)) {
    for (const OneCall& call : message_calls) {
      if (!call.has_data) continue;
      Given given = memory.good();
      given.out = none.range;
      if (call.sends)
        expect_error([&] { call.make(world, given); },
                     {bad, no_peer, call.operation, none.cause, none.hint});
      given = memory.good();
      given.in = none.range;
      if (call.receives)
        expect_error([&] { call.make(world, given); },
                     {bad, no_peer, call.operation, none.cause, none.hint});
    }
    const std::span<int> good = std::span{memory.received}.first(4);
    const Expected told{bad, no_peer, "allreduce", none.cause, none.hint};
    expect_error([&] { world.allreduce(none.range, sum); }, told);
    expect_error([&] { world.allreduce(none.range, good, sum); }, told);
    expect_error([&] { world.allreduce(good, none.range, sum); }, told);
    const Expected told_async{bad, no_peer, "allreduce_async", none.cause, none.hint};
    expect_error([&] { const Request request = world.allreduce_async(none.range, sum); },
                 told_async);
    expect_error([&] { const Request request = world.allreduce_async(none.range, good, sum); },
                 told_async);
    expect_error([&] { const Request request = world.allreduce_async(good, none.range, sum); },
                 told_async);
  }
  for (const std::size_t count : {static_cast<std::size_t>(-1), std::size_t{1} << 62}) {
    expect_error([&] { world.allocate<int>(count); },
                 {bad, no_peer, "allocate",
                  std::to_string(count) + " elements of 4 bytes are more than memory can hold",
                  "a negative count, turned unsigned, looks like this"});
  }
  // No memory and no elements is a message like any other.
  const std::span<int> nothing{static_cast<int*>(nullptr), 0};
  check_status(world.sendrecv(nothing, world.rank(), nothing, world.rank(), 6), world.rank(), 6,
               0U);
  world.allreduce(nothing, sum);
  check_nothing_happened(world);
}

void ranges_that_overlap_or_differ(Communicator& world, Arguments) {
  std::vector<int> data(8);
  const std::span<int> front = std::span{data}.first(4);
  const std::span<int> shifted = std::span{data}.subspan(1, 4);
  for (const Given& given : {Given{.out = front, .in = shifted},
                             {.out = shifted, .in = front},
                             {.out = front, .in = front}}) {
    for (const OneCall& call : message_calls) {
      if (!call.sends || !call.receives) continue;
      expect_error([&] { call.make(world, given); },
                   {bad, no_peer, call.operation,
                    "the 16 bytes to send and the 16 bytes to receive into overlap",
                    "send from one range and receive into another"});
    }
    if (given.out.data() == given.in.data()) continue;  // in place
    const std::string cause = "in and out overlap without being the same 16 bytes";
    const std::string hint = "use one range in place, or two that do not touch";
    expect_error([&] { world.allreduce(given.out, given.in, sum); },
                 {bad, no_peer, "allreduce", cause, hint});
    expect_error([&] { const Request request = world.allreduce_async(given.out, given.in, sum); },
                 {bad, no_peer, "allreduce_async", cause, hint});
  }
  const std::vector<int> four(4);
  const std::string cause = "in has 4 elements, out has 8";
  const std::string hint = "give in and out equal counts";
  expect_error([&] { world.allreduce(four, data, sum); }, {bad, no_peer, "allreduce", cause, hint});
  expect_error([&] { const Request request = world.allreduce_async(four, data, sum); },
               {bad, no_peer, "allreduce_async", cause, hint});
  check_nothing_happened(world);
}

void reductions_without_a_meaning(Communicator& world, Arguments) {
  std::vector<float> floats(2);
  std::vector<double> doubles(2);
  const auto refused = [&](Reduction reduction, const std::string& cause, const std::string& hint) {
    const Expected told{bad, no_peer, "allreduce", cause, hint};
    expect_error([&] { world.allreduce(floats, reduction); }, told);
    expect_error([&] { world.allreduce(doubles, reduction); }, told);
    expect_error([&] { const Request request = world.allreduce_async(floats, reduction); },
                 {bad, no_peer, "allreduce_async", cause, hint});
  };
  for (const Reduction reduction : {bit_and, bit_or, bit_xor}) {
    refused(reduction, "a bitwise reduction of a floating type has no meaning",
            "bit_and, bit_or and bit_xor take integers");
  }
  refused(Reduction{static_cast<ReductionKind>(200)}, "reduction 200 does not exist",
          "take qpmesh::sum or one of its like");
  for (const int color : {-7, least}) {
    expect_error([&] { world.split(color); },
                 {bad, no_peer, "split", "color " + std::to_string(color) + " is negative",
                  "a color is 0 or more, or qpmesh::no_color"});
  }
  check_nothing_happened(world);
}

void deadlines_out_of_range(Communicator& world, Arguments) {
  Memory memory;
  std::vector<int>& data = memory.sent;
  using std::chrono::milliseconds;
  constexpr std::chrono::hours year{365 * 24};
  constexpr auto shortest = std::numeric_limits<std::int64_t>::min() + 1;
  constexpr auto longest = std::numeric_limits<std::int64_t>::max() - 1;
  for (const auto& each : std::vector<std::pair<TimeLimit, std::int64_t>>{
           {0ms, 0},
           {-1ms, -1},
           {milliseconds{shortest}, shortest},
           {year + 1us, year / 1ms + 1},
           {milliseconds{longest}, longest},
           {std::chrono::duration<double>{std::numeric_limits<double>::infinity()}, longest},
           {std::chrono::duration<double>{std::numeric_limits<double>::quiet_NaN()}, shortest}}) {
    const CallOptions call{.timeout = each.first};
    const std::int64_t ms = each.second;
    const auto refused = [&](auto&& make, const std::string& operation) {
      expect_error(make, {bad, no_peer, operation, "a timeout of " + std::to_string(ms) + " ms",
                          "1 to 31536000000 ms, no_limit, or leave it out for QPMESH_TIMEOUT_MS"});
    };
    for (const OneCall& one : message_calls) {
      if (!one.has_deadline) continue;
      Given given = memory.good();
      given.call = call;
      refused([&] { one.make(world, given); }, one.operation);
    }
    refused([&] { world.barrier(call); }, "barrier");
    refused([&] { const Request request = world.barrier_async(call); }, "barrier_async");
    refused([&] { world.allreduce(data, sum, call); }, "allreduce");
    refused([&] { const Request request = world.allreduce_async(data, sum, call); },
            "allreduce_async");
    refused([&] { world.allocate<int>(4, call); }, "allocate");
    refused([&] { world.split(0, 0, call); }, "split");
    refused([&] { world.split_node(call); }, "split_node");
    refused([&] { world.duplicate(call); }, "duplicate");
    refused([&] { world.independent(call); }, "independent");
    std::optional<Communicator> made;
    refused([&] { const Request request = world.split_async(made, 0, 0, call); }, "split_async");
    refused([&] { const Request request = world.duplicate_async(made, call); }, "duplicate_async");
    refused([&] { world.subgroup(std::vector{world.rank()}, 0, call); }, "subgroup");
    refused([&] { const Message message = world.match(any_source, any_tag, call); }, "match");
    refused([&] { world.allreduce_each(std::vector{std::span{data}}, sum, call); },
            "allreduce_each");
    refused(
        [&] {
          const Request request =
              world.allreduce_each_async(std::vector{std::span{data}}, sum, call);
        },
        "allreduce_each_async");
    Prepared prepared = world.prepare_barrier(call);
    refused([&] { prepared.start(); }, "barrier_async");
    refused([&] { world.finish(call); }, "finish");
  }
  world.barrier({.timeout = year});
  world.barrier({.timeout = 10s - 1ns});
  world.barrier({.timeout = no_limit});
  check_nothing_happened(world);
}

// NOLINTBEGIN(bugprone-use-after-move): that is what is tried
void what_was_moved_from_is_refused(Communicator& world, Arguments) {
  Communicator gone = world.duplicate();
  Communicator kept = std::move(gone);
  const auto refused = [](auto&& call, const std::string& operation) {
    expect_error(call, {bad, no_peer, operation, "the object was moved from, and is empty",
                        "use what it was moved to"});
  };
  refused([&] { const Grid grid(gone, {0}); }, "grid");
  std::optional<Communicator> place = world.duplicate();
  const auto no_place = [](const std::string& operation) {
    return Expected{bad, no_peer, operation,
                    "the group would take the place of the communicator that makes it",
                    "give another place for the group"};
  };
  expect_error([&] { place->duplicate_async(place).wait(); }, no_place("duplicate_async"));
  expect_error([&] { place->split_async(place, 0).wait(); }, no_place("split_async"));
  place->barrier();
  check_equal(gone.rank(), no_rank);
  check_equal(gone.size(), 0);
  gone.abort("nobody hears it");
  for (const AnyCall& call : every_call()) refused([&] { call.make(gone); }, call.operation);
  refused([&] { (void)gone.prepare_barrier(); }, "prepare");
  refused([&] { (void)gone.explain(Collective::barrier, 0); }, "explain");
  refused([&] { (void)world.ranks_in(gone); }, "ranks_in");
  refused([&] { const ArenaResource resource{gone}; }, "ArenaResource");

  Prepared prepared = kept.prepare_barrier();
  Prepared step = std::move(prepared);
  refused([&] { prepared.start(); }, "start");
  refused([&] { prepared.test(); }, "test");
  refused([&] { prepared.wait(); }, "wait");
  refused([&] { prepared.cancel(); }, "cancel");
  refused([&] { prepared.request(); }, "request");
  step.start();
  step.wait();

  const int sent = 1;
  const Request sending = kept.send_async(sent, kept.rank());
  Message message = kept.match(kept.rank());
  Message taken = std::move(message);
  int got = 0;
  check_equal(message.status().source, no_rank);
  refused([&] { message.receive(got); }, "receive");
  refused([&] { (void)message.receive<int>(); }, "receive");
  refused([&] { const Request request = message.receive_async(got); }, "receive_async");
  taken.receive(got);
  check_equal(got, 1);

  // Nobody else was disturbed, and it can be assigned to.
  gone = std::move(kept);
  check_nothing_happened(gone);
  check_nothing_happened(world);
}
// NOLINTEND(bugprone-use-after-move)

// One rank's arguments make no sense, the others' do: it may call again, and they never knew.
void a_refused_call_can_be_made_again(Communicator& world, Arguments) {
  std::vector<std::int64_t> sums = addends(world.rank(), 5);
  std::vector<std::int64_t> out(5);
  if (world.rank() == 1) {
    expect_error([&] { world.allreduce(std::span{sums}.first(4), out, sum); },
                 {bad, no_peer, "allreduce", "in has 4 elements, out has 5",
                  "give in and out equal counts"});
  }
  world.allreduce(sums, out, sum);
  check_sum(out, world.size());
}

}  // namespace

std::vector<Scenario> argument_scenarios() {
  return {in_world("ranks_and_tags_out_of_range", ranks_and_tags_out_of_range),
          in_world("ranges_that_are_none", ranges_that_are_none),
          in_world("ranges_that_overlap_or_differ", ranges_that_overlap_or_differ),
          in_world("reductions_without_a_meaning", reductions_without_a_meaning),
          in_world("deadlines_out_of_range", deadlines_out_of_range),
          in_world("what_was_moved_from_is_refused", what_was_moved_from_is_refused),
          in_world("a_refused_call_can_be_made_again", a_refused_call_can_be_made_again)};
}

}  // namespace qpmesh::ranks

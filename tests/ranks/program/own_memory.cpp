// SPDX-License-Identifier: MIT
// Memory that one rank allocates, and looks into Buffers of others.
#include <memory_resource>
#include <numeric>

#include "program/scenario.hpp"
#include "qpmesh/arena_resource.hpp"

namespace qpmesh::ranks {
namespace {

void memory_of_one_rank_is_used_like_any(Communicator& world, Arguments) {
  const int me = world.rank();
  const int next = (me + 1) % world.size();
  const int previous = (me + world.size() - 1) % world.size();
  // Each rank as often as it likes, and of other lengths.
  for (int turn = 0; turn <= me; ++turn) {
    const std::size_t count = 1000 + 100'000 * static_cast<std::size_t>(turn);
    Buffer<int> mine = world.allocate_here<int>(count);
    check(std::ranges::all_of(mine, [](int value) { return value == 0; }), "zeroed");
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{3'000}, std::size_t{700'000}}) {
    Buffer<int> out = world.allocate_here<int>(count);
    Buffer<int> in = world.allocate_here<int>(count);
    std::iota(out.begin(), out.end(), me);
    world.sendrecv(out, next, in, previous);
    for (std::size_t i = 0; i < count; i += 1 + count / 7)
      check_equal(in[i], previous + static_cast<int>(i));
    world.allreduce(out, in, sum);
    for (std::size_t i = 0; i < count; i += 1 + count / 7) {
      const int size = world.size();
      check_equal(in[i], size * static_cast<int>(i) + size * (size - 1) / 2);
    }
    // It may go while it is used.
    Request request = world.send_async(out, next, 7);
    out = {};
    world.receive(in, previous, 7);
    request.wait();
  }
  expect_error([&] { world.allocate_here<int>(1).view_of(0); },
               {ErrorCode::bad_argument, no_peer, "view_of", "the Buffer was allocated here alone",
                "take allocate, which all ranks call"});
}

// The others hear nothing of it.
void one_rank_without_memory_goes_on(Communicator& world, Arguments) {
  if (world.rank() == 0) {
    expect_error([&] { world.allocate_here<char>(std::size_t{1} << 26); },
                 {ErrorCode::no_resource, no_peer, "allocate_here",
                  "the arena has no 67108864 bytes left in one piece, of 67108864 in all",
                  "raise QPMESH_ARENA_BYTES_MAX"});
    // What was refused is there for less.
    for (int i = 0; i < 20; ++i) {
      Buffer<std::uint8_t> buffer = world.allocate_here<std::uint8_t>(40 << 20);
      buffer[0] = 1;
    }
    expect_error([&] { world.allocate_here<double>(std::size_t{1} << 62); },
                 {ErrorCode::bad_argument, no_peer, "allocate_here",
                  "* elements of 8 bytes are more than memory can hold", "*"});
  }
  world.barrier();
}

void buffers_of_others_are_seen(Communicator& world, Arguments) {
  const int me = world.rank();
  for (const std::size_t count : {std::size_t{1}, std::size_t{50'000}}) {
    Buffer<int> mine = world.allocate<int>(count);
    std::iota(mine.begin(), mine.end(), 1000 * me);
    world.barrier();
    for (int rank = 0; rank < world.size(); ++rank) {
      const std::span<const int> view = mine.view_of(rank);
      check_equal(view.size(), count);
      check_equal(view[0], 1000 * rank);
      check_equal(view[count - 1], 1000 * rank + static_cast<int>(count) - 1);
    }
    world.barrier();
    mine[0] = -me;
    world.barrier();
    for (int rank = 0; rank < world.size(); ++rank) check_equal(mine.view_of(rank)[0], -rank);
    world.barrier();
    expect_error([&] { mine.view_of(world.size()); },
                 {ErrorCode::bad_argument, world.size(), "view_of",
                  "rank * is not a rank of this communicator", "ranks here are 0 to *"});
  }
  expect_error([&] { Buffer<int>{}.view_of(0); },
               {ErrorCode::bad_argument, no_peer, "view_of", "the Buffer is empty",
                "allocate makes the others"});
}

void containers_lie_in_the_arena(Communicator& world, Arguments) {
  const int me = world.rank();
  ArenaResource arena{world};
  {
    std::pmr::vector<std::int64_t> data(100'000, me, &arena);
    std::pmr::vector<std::int64_t> sums(data.size(), &arena);
    world.allreduce(data, sums, sum);
    const int size = world.size();
    check(std::ranges::all_of(sums, [&](auto v) { return v == size * (size - 1) / 2; }), "sums");
    for (int i = 0; i < 1000; ++i) data.push_back(i);  // moves
    check_equal(data[100'999], 999);
    // Many small ones.
    std::pmr::unsynchronized_pool_resource pool{&arena};
    std::pmr::vector<std::pmr::vector<int>> rows(200, &pool);
    for (int i = 0; i < 200; ++i) rows[static_cast<std::size_t>(i)].assign(10, i);
    for (int i = 0; i < 200; ++i) check_equal(rows[static_cast<std::size_t>(i)][9], i);
  }
  expect_error([&] { static_cast<void>(arena.allocate(64, 4096)); },
               {ErrorCode::bad_argument, no_peer, "allocate_here", "an alignment of 4096 bytes",
                "align to 128 bytes at most"});
}

// Each Buffer of a list stays until the request has ended, and not the first alone.
void buffers_of_a_list_may_go_while_a_request_uses_them(Communicator& world, Arguments) {
  constexpr std::size_t count = std::size_t{1} << 18;
  const auto size = static_cast<std::size_t>(world.size());
  const std::vector<std::size_t> counts(size, count);
  const auto buffers = [&](int first) {
    std::vector<Buffer<int>> all;
    for (std::size_t i = 0; i < size; ++i) {
      all.push_back(world.allocate_here<int>(count));
      std::ranges::fill(all.back(), first + static_cast<int>(i));
    }
    return all;
  };
  std::vector<int> taken(size * count);
  const std::vector<int> given(size * count, 7);
  Request sends;
  Request receives;
  {
    const std::vector<Buffer<int>> in = buffers(1000 * world.rank());
    sends = world.alltoall_async(blocks(in), blocks(taken, counts));
    std::vector<Buffer<int>> out = buffers(-1);
    receives = world.alltoall_async(blocks(given, counts), blocks(out));
  }
  Request reduces;
  {
    std::vector<Buffer<int>> vectors = buffers(world.rank());
    reduces = world.allreduce_each_async(vectors, sum);
  }
  // Would get the same memory again.
  const std::vector<Buffer<int>> later = buffers(-100);
  sends.wait();
  receives.wait();
  reduces.wait();
  for (std::size_t from = 0; from < size; ++from) {
    check(std::ranges::all_of(
              std::span{taken}.subspan(from * count, count),
              [&](int each) { return each == 1000 * static_cast<int>(from) + world.rank(); }),
          "what a rank gave is what it was when it called");
    check(std::ranges::all_of(later[from],
                              [&](int each) { return each == -100 + static_cast<int>(from); }),
          "nobody writes into memory that is another's");
  }
  world.barrier();
}

void own_memory_is_seen_whatever_joins_the_ranks(Communicator& world, Arguments) {
  Buffer<int> mine = world.allocate<int>(10);
  mine[3] = 5;
  check_equal(mine.view_of(world.rank())[3], 5);
  world.barrier();
}

}  // namespace

std::vector<Scenario> own_memory_scenarios() {
  return {in_world("buffers_of_a_list_may_go_while_a_request_uses_them",
                   buffers_of_a_list_may_go_while_a_request_uses_them),
          in_world("own_memory_is_seen_whatever_joins_the_ranks",
                   own_memory_is_seen_whatever_joins_the_ranks),
          in_world("memory_of_one_rank_is_used_like_any", memory_of_one_rank_is_used_like_any),
          in_world("one_rank_without_memory_goes_on", one_rank_without_memory_goes_on),
          in_world("buffers_of_others_are_seen", buffers_of_others_are_seen),
          in_world("containers_lie_in_the_arena", containers_lie_in_the_arena)};
}

}  // namespace qpmesh::ranks

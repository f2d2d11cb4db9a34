// SPDX-License-Identifier: MIT
// Ranks of one node that load each other's memory: what slow members, failures and the caller's
// elements must not do.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <thread>

#include "program/scenario.hpp"

namespace qpmesh::ranks {
namespace {

// The widest alignment that the caller's elements may have, on both sides of the function.
struct alignas(16) Wide {
  std::int64_t values[2];
};

void wide_elements_are_aligned(Communicator& world, Arguments) {
  std::size_t misplaced = 0;
  const auto add = [&](const Wide* left, Wide* inout, std::size_t count) {
    for (const void* const place :
         {static_cast<const void*>(left), static_cast<const void*>(inout)})
      misplaced += reinterpret_cast<std::uintptr_t>(place) % alignof(Wide) == 0 ? 0U : 1U;
    for (std::size_t i = 0; i < count; ++i) inout[i].values[0] += left[i].values[0];
  };
  for (const std::size_t count : {1U, 33U, 100'000U}) {
    const std::vector<Wide> mine(count, Wide{{world.rank() + 1, 0}});
    std::vector<Wide> result(count);
    world.allreduce(mine, result, ordered(add));
    check_equal(result.back().values[0], world.size() * (world.size() + 1) / 2);
    world.reduce(mine, result, ordered(add), 0);
    world.scan(mine, result, ordered(add));
    const std::vector<Wide> all(count * static_cast<std::size_t>(world.size()), mine.front());
    world.reduce_scatter(all, result, ordered(add));
  }
  check_equal(misplaced, std::size_t{0});
}

// Lengths around those of pieces and of all buffers; private memory, Buffers, some of either, and
// the result in place.
void vectors_are_read_where_each_lies(Communicator& world, Arguments) {
  constexpr std::size_t count_max = 150'001;
  const int last = world.size() - 1;
  Buffer<std::int64_t> shared = world.allocate<std::int64_t>(count_max);
  Buffer<std::int64_t> shared_result = world.allocate<std::int64_t>(count_max);
  std::vector<std::int64_t> own(count_max);
  std::vector<std::int64_t> own_result(count_max);
  const auto element = [](int rank, std::size_t i) {
    return (rank + 1) * (static_cast<std::int64_t>(i) * 7 + 3);
  };
  const auto check_sum = [&](std::span<const std::int64_t> result, const std::string& algorithm) {
    const std::int64_t ranks = last + 1;
    for (std::size_t i = 0; i < result.size(); ++i)
      check(result[i] == ranks * (ranks + 1) / 2 * element(0, i), algorithm);
  };
  for (const std::size_t count : {1U, 8'192U, 8'193U, 32'768U, 40'000U, 65'536U, 150'001U}) {
    for (const std::string algorithm :
         {"direct", "direct_streamed", "one_pass", "one_pass_streamed"}) {
      const CallOptions call{.algorithm = algorithm};
      for (int kind = 0; kind < 4; ++kind) {
        const bool in_buffer = kind == 1 || (kind >= 2 && world.rank() % 2 == kind % 2);
        const std::span<std::int64_t> in =
            (in_buffer ? std::span{shared} : std::span{own}).first(count);
        const std::span<std::int64_t> out =
            (in_buffer ? std::span{shared_result} : std::span{own_result}).first(count);
        const auto fill_in = [&] {
          for (std::size_t i = 0; i < count; ++i) in[i] = element(world.rank(), i);
        };
        fill_in();
        world.allreduce(in, out, sum, call);
        std::ranges::fill(in, -1);  // it is the caller's again: nobody reads it any more
        check_sum(out, algorithm);
        fill_in();
        std::ranges::fill(out, 0);
        world.reduce(in, out, sum, kind % 2 == 0 ? 0 : last, call);
        if (world.rank() == (kind % 2 == 0 ? 0 : last)) check_sum(out, algorithm);
        world.allreduce(in, sum, call);
        check_sum(in, algorithm);
      }
    }
  }
}

// The same of scans, whose ranks read those before them, and tell those that must wait for it.
void prefixes_are_read_where_each_lies(Communicator& world, Arguments) {
  constexpr std::size_t count_max = 150'001;
  Buffer<std::int64_t> shared = world.allocate<std::int64_t>(count_max);
  std::vector<std::int64_t> own(count_max);
  std::vector<std::int64_t> result(count_max);
  const auto element = [](int rank, std::size_t i) {
    return (rank + 1) * (static_cast<std::int64_t>(i) * 7 + 3);
  };
  // Of the ranks before this one.
  const auto check_prefix = [&](std::span<const std::int64_t> found, int ranks) {
    for (std::size_t i = 0; i < found.size(); ++i)
      check(found[i] == ranks * (ranks + 1) / 2 * element(0, i), "a prefix");
  };
  for (const std::size_t count : {1U, 32U, 33U, 1'025U, 5'000U, 65'536U, 150'001U}) {
    for (const std::string algorithm : {"one_pass", "one_pass_streamed"}) {
      const CallOptions call{.algorithm = algorithm};
      for (int kind = 0; kind < 4; ++kind) {
        const bool in_buffer = kind == 1 || (kind >= 2 && world.rank() % 2 == kind % 2);
        const std::span<std::int64_t> in =
            (in_buffer ? std::span{shared} : std::span{own}).first(count);
        const std::span<std::int64_t> out = std::span{result}.first(count);
        const auto fill_in = [&] {
          for (std::size_t i = 0; i < count; ++i) in[i] = element(world.rank(), i);
        };
        fill_in();
        world.scan(in, out, sum, call);
        std::ranges::fill(in, -1);  // it is the caller's again: nobody reads it any more
        check_prefix(out, world.rank() + 1);
        fill_in();
        std::ranges::fill(out, 0);
        world.exscan(in, out, sum, call);
        std::ranges::fill(in, -1);
        check_prefix(out, world.rank());  // rank 0's stays as it is
        fill_in();
        world.scan(in, in, sum, call);
        check_prefix(in, world.rank() + 1);
      }
    }
  }
}

// The root comes to the end of its slots, and sleeps; nothing is published when a reader has done
// with one.
void a_root_sleeps_no_longer_than_its_readers(Communicator& world, Arguments) {
  using namespace std::chrono_literals;
  std::vector<int> data(4);
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  if (world.rank() != 0) std::this_thread::sleep_for(300ms);
  for (int i = 0; i < 40; ++i) world.broadcast(data, 0, {.algorithm = "one_shot"});
  check(std::chrono::steady_clock::now() - begin < 800ms, "slots that are free are seen at once");
}

// The readers begin when rank 0 has given as much as is let run ahead. Waits for a message that
// comes behind it.
template <class Give>
void run_ahead(Communicator& world, Give&& give) {
  constexpr int go = 1;
  if (world.rank() == 0) {
    give();
    for (int rank = 1; rank < world.size(); ++rank) world.send(std::span{&go, 1}, rank);
  } else {
    int received = 0;
    world.receive(std::span{&received, 1}, 0);
    give();
  }
}

void who_only_gives_runs_ahead(Communicator& world, Arguments) {
  const int last = world.size() - 1;
  const auto ranks = static_cast<std::size_t>(world.size());
  for (const std::size_t count : {1U, 64U, 100U, 2048U / 4}) {
    std::vector<int> result(count);
    std::vector<int> all(ranks * count);
    run_ahead(world, [&] {
      for (int i = 0; i < 4; ++i) {
        std::vector<int> data(count, world.rank() == 0 ? i : -1);
        world.broadcast(data, 0, {.algorithm = "one_shot"});
        check_equal(data.back(), i);
        const std::vector<int> mine(count, world.rank() + i);
        world.reduce(mine, result, sum, last, {.algorithm = "one_shot"});
        if (world.rank() == last) check_equal(result.back(), world.size() * (last + 2 * i) / 2);
        world.gather(mine, all, last, {.algorithm = "one_shot"});
        if (world.rank() == last) check_equal(all[count], 1 + i);
        for (std::size_t at = 0; at < all.size(); ++at) all[at] = static_cast<int>(at / count) + i;
        world.scatter(all, result, 0, {.algorithm = "one_shot"});
        check_equal(result.back(), world.rank() + i);
      }
    });
  }
}

// Rank 0 gives its operands, and its block of the sums is empty.
void who_wants_no_sum_runs_ahead(Communicator& world, Arguments) {
  const bool wants = world.rank() != 0;
  const int last = world.size() - 1;
  const auto ranks = static_cast<std::size_t>(world.size());
  for (const std::size_t count : {1U, 64U, 100U, 2048U / 4}) {
    std::vector<std::size_t> counts(ranks, count);
    counts.front() = 0;
    std::vector<int> block(wants ? count : 0);
    run_ahead(world, [&] {
      for (int i = 0; i < 4; ++i) {
        const std::vector<int> operands((ranks - 1) * count, world.rank() + i);
        world.reduce_scatter(blocks(operands, counts), block, sum, {.algorithm = "one_shot"});
        if (wants) check_equal(block.back(), world.size() * (last + 2 * i) / 2);
      }
    });
  }
}

void calls_that_move_nothing_wait_for_nobody(Communicator& world, Arguments) {
  run_ahead(world, [&] {
    std::vector<int> none;
    std::vector<int> result;
    for (int i = 0; i < 100; ++i) {
      world.broadcast(none, 1);
      world.allreduce(none, result, sum);
      world.reduce(none, result, average, 1);
      world.gather(none, result, 1);
      world.scatter_async(none, result, 1).wait();
      world.allgather(none, result);
      world.alltoall(none, result);
      world.reduce_scatter(none, result, sum);
      world.scan(none, result, sum);
    }
  });
  world.barrier();
}

// Rank 0 gives nothing to the others and gets nothing from them: it goes on, for more calls than
// there are slots. What the others give each other comes as ever.
void empty_blocks_are_waited_for_by_nobody(Communicator& world, Arguments) {
  const int rank = world.rank();
  const int last = world.size() - 1;
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::size_t own = rank == 0 ? 0 : 3;
  std::vector<std::size_t> counts(ranks, 3);
  counts.front() = 0;
  std::vector<std::size_t> pairs(ranks, own);
  pairs.front() = 0;
  const std::size_t others = 3 * (ranks - 1);
  run_ahead(world, [&] {
    for (int i = 0; i < 100; ++i) {
      const std::vector<int> mine(own, rank + i);
      std::vector<int> all(others, -1);
      world.gather(mine, blocks(all, counts), last);
      if (rank == last) check_equal(all.back() - all.front(), last - 1);
      world.gather_async(mine, blocks(all, counts), last).wait();
      std::vector<int> block(own, -1);
      world.scatter(blocks(all, counts), block, last);
      if (rank != 0) check_equal(block.back(), rank + i);
      const std::vector<int> sent(rank == 0 ? 0 : others, rank);
      std::vector<int> received(sent.size(), -1);
      world.alltoall(blocks(sent, pairs), blocks(received, pairs));
      if (rank != 0) check_equal(received.back(), last);
    }
  });
  world.barrier();
}

// The last rank comes late to the first call: until then the others have more calls behind it than
// there are slots.
void more_empty_blocks_than_slots_behind_a_call_under_way(Communicator& world, Arguments) {
  const int last = world.size() - 1;
  const bool is_late = world.rank() == last;
  const std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), 0);
  std::vector<int> none;
  const auto gather = [&] { world.gather(none, blocks(none, counts), last); };
  std::vector<int> token(1);
  if (is_late) world.receive(token, 0);
  const std::vector<int> one{1};
  std::vector<int> all(1);
  Request first = world.allreduce_async(one, all, sum);
  for (int i = 0; i < 60; ++i) gather();
  if (world.rank() == 0) world.send(token, last);
  for (int i = 0; i < 60; ++i) gather();
  first.wait();
  check_equal(all.front(), world.size());
  for (int i = 0; i < 200; ++i) world.barrier();
}

bool applies_cma(const Communicator& world) {
  const auto candidates = world.explain(Collective::broadcast, 1 << 20);
  return std::ranges::any_of(
      candidates, [](const Candidate& row) { return row.algorithm == "cma" && row.applies; });
}

// As far as this process can tell: seccomp knows no process from another, yama lets root do
// everything.
bool system_allows_cma() {
  const std::uint64_t from = 42;
  std::uint64_t to = 0;
  iovec here{&to, sizeof to};
  const iovec there{const_cast<std::uint64_t*>(&from), sizeof from};
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof from) return false;
  std::ifstream yama{"/proc/sys/kernel/yama/ptrace_scope"};
  int scope = 0;
  return !(yama >> scope) || scope == 0 || ::geteuid() == 0;
}

// Around what decides how a message travels, and unaligned.
void private_memory_of_every_length(Communicator& world, Arguments) {
  check_equal(applies_cma(world), system_allows_cma());
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (const std::size_t bytes :
       {5'119U, 5'120U, 5'121U, 16'383U, 16'384U, 16'385U, 131'073U, 262'145U, (3U << 20) + 1}) {
    const auto seed = [&](int rank) { return static_cast<int>(bytes % 101) + rank; };
    const Bytes out = pattern(bytes, seed(world.rank()));
    Bytes in(bytes + 1);
    world.sendrecv(out, next, std::span{in}.subspan(1), previous);
    check_pattern(std::span{in}.subspan(1), seed(previous));
    world.broadcast(std::span{in}.subspan(1), 0);  // of what differs
    check_pattern(std::span{in}.subspan(1), seed(world.size() - 1));
  }
}

// Blocks in a slot, in staging, in a Buffer and in private memory, and none at all: rank r gets r
// times so many bytes of everybody, or gives as many.
void blocks_of_unequal_lengths_from_all_memories(Communicator& world, Arguments) {
  const int rank = world.rank();
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto own = static_cast<std::size_t>(rank);
  for (const std::size_t unit : {0U, 5U, 300U, 9'001U, 150'001U, 300'001U, 600'001U}) {
    std::vector<std::size_t> rising;
    for (std::size_t of = 0; of < ranks; ++of) rising.push_back(of * unit);
    const std::vector<std::size_t> alike(ranks, own * unit);
    const std::size_t bytes = unit * ranks * (ranks - 1) / 2;
    Buffer<std::uint8_t> shared = world.allocate<std::uint8_t>(bytes + 1);
    Bytes private_memory(bytes + 1);
    const bool gives_shared = rank == 0;
    const std::span<std::uint8_t> in =
        gives_shared ? std::span{shared}.first(bytes) : std::span{private_memory}.first(bytes);
    const auto fill = [&] { std::ranges::copy(pattern(bytes, rank), in.begin()); };
    // Right behind a call: nobody may still read it.
    const auto spoil = [&] { std::ranges::fill(in, std::uint8_t{0xff}); };
    fill();
    Bytes out(ranks * own * unit);
    const auto block = [&](std::size_t of) {
      return std::span{out}.subspan(of * own * unit, own * unit);
    };
    const auto check_block = [&](std::span<const std::uint8_t> received, int from) {
      const Bytes whole = pattern(bytes, from);
      const std::size_t first = unit * (own * (own - 1) / 2);
      check(std::ranges::equal(received, std::span{whole}.subspan(first, own * unit)), "a block");
    };
    world.alltoall(blocks(in, rising), blocks(out, alike));
    spoil();
    for (std::size_t from = 0; from < ranks; ++from)
      check_block(block(from), static_cast<int>(from));
    for (int root = 0; root < world.size(); ++root) {
      const BlockLayout layout = rank == root ? BlockLayout{rising} : BlockLayout{};
      const auto of_root = [&](std::span<std::uint8_t> all) {
        return all.first(rank == root ? bytes : 0);
      };
      std::ranges::fill(out, std::uint8_t{0});
      fill();
      world.scatter(blocks(of_root(in), layout), block(0), root);
      spoil();
      check_block(block(0), root);
      Bytes gathered(bytes);
      fill();
      world.gather(in.first(own * unit), blocks(of_root(gathered), layout), root);
      spoil();
      if (rank != root) continue;
      std::size_t first = 0;
      for (std::size_t from = 0; from < ranks; ++from) {
        const Bytes whole = pattern(bytes, static_cast<int>(from));
        check(std::ranges::equal(std::span{gathered}.subspan(first, from * unit),
                                 std::span{whole}.first(from * unit)),
              "what was gathered");
        first += from * unit;
      }
    }
    world.barrier();
  }
}

// The last rank may not read its peers, which may read it.
void cma_that_one_rank_is_forbidden(Arguments) {
  const char* const rank =
      std::getenv("QPMESH_RANK");  // NOLINT(concurrency-mt-unsafe): no one sets it
  const char* const size = std::getenv("QPMESH_SIZE");  // NOLINT(concurrency-mt-unsafe)
  if (std::stoi(rank) == std::stoi(size) - 1) {
    std::array filter{
        sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},  // the call's number
        sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_readv},
        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        sock_filter{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog program{filter.size(), filter.data()};
    check_equal(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    check_equal(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
  }
  Communicator world = init();
  check(!applies_cma(world), "all ranks know that one of them cannot");
  Bytes data = pattern(1 << 20, world.rank());
  expect_error(
      [&] { world.broadcast(data, 0, {.algorithm = "cma"}); },
      {ErrorCode::bad_argument, no_peer, "broadcast",
       "cma does not apply to ranks that do not read each other's private memory", "these do: *"});
  world.broadcast(data, 0);
  check_pattern(data, 0);
  const Bytes out = pattern(1 << 20, world.rank());
  const int last = world.size() - 1;
  if (world.rank() == 0) world.sendrecv(out, last, data, last);
  if (world.rank() == last) world.sendrecv(out, 0, data, 0);
  if (world.rank() == 0 || world.rank() == last) check_pattern(data, last - world.rank());
  world.finish();
}

// arguments[0]: a file. The first rank gives a Buffer, or private memory, to calls that end at
// their deadline, because nobody comes, and then writes it, or gives it back to the system. Who
// comes after that must not take what lies there now for what was given.
void a_late_member_does_not_take_what_was_taken_back(Communicator& world, Arguments arguments) {
  constexpr std::size_t count = 1 << 20;
  Buffer<std::uint8_t> buffer = world.allocate<std::uint8_t>(count);
  Bytes memory(count);
  std::vector<std::uint8_t> all(count * static_cast<std::size_t>(world.size()));
  std::vector<std::uint8_t> taken(count);
  const auto write = [](std::span<std::uint8_t> given) {
    std::ranges::fill(given, std::uint8_t{2});
  };
  int calls = 0;
  const auto late = [&](const std::string& name, const std::string& algorithm,
                        std::span<std::uint8_t> given, auto&& call, auto&& take_back) {
    Communicator group = world.duplicate();
    const std::string file = arguments[0] + std::to_string(calls++);
    std::ranges::fill(given, std::uint8_t{1});
    world.barrier();
    if (world.rank() == 0) {
      expect_error(
          [&] { call(group, given, CallOptions{.timeout = 50ms, .algorithm = algorithm}); },
          {ErrorCode::timeout, any_peer_at_all, name, "*", timeout_hint});
      take_back(given);
      make_file(file);
    } else {
      await_file(file);
      expect_error(
          [&] {
            call(group, std::span{taken}, CallOptions{.timeout = 5'000ms, .algorithm = algorithm});
          },
          {ErrorCode::timeout, any_peer_at_all, name, "*", timeout_hint});
    }
    world.barrier();
  };
  const auto broadcast = [](Communicator& group, std::span<std::uint8_t> data, CallOptions call) {
    group.broadcast(data, 0, call);
  };
  const auto allgather = [&](Communicator& group, std::span<std::uint8_t> data, CallOptions call) {
    group.allgather(data, all, call);
  };
  const auto allreduce = [&](Communicator& group, std::span<std::uint8_t> data, CallOptions call) {
    group.allreduce(data, std::span{all}.first(count), sum, call);
  };
  const auto reduce = [&](Communicator& group, std::span<std::uint8_t> data, CallOptions call) {
    group.reduce(data, std::span{all}.first(count), sum, 1, call);
  };
  late("broadcast", "double_buffered", buffer, broadcast, write);
  late("allgather", "double_buffered", buffer, allgather, write);
  late("allreduce", "one_pass", buffer, allreduce, write);
  late("reduce", "one_pass", buffer, reduce, write);
  if (!applies_cma(world)) return;
  late("broadcast", "cma", memory, broadcast, write);
  late("allgather", "cma", memory, allgather, write);
  void* const pages =
      ::mmap(nullptr, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(pages != MAP_FAILED, "pages");
  late("broadcast", "cma", std::span{static_cast<std::uint8_t*>(pages), count}, broadcast,
       [](std::span<std::uint8_t> given) { ::munmap(given.data(), given.size()); });
}

// arguments[0]: a file. All but the last rank give up waiting for what that one has. Who comes late
// must not fill what they have back.
void a_late_root_does_not_fill_what_was_taken_back(Communicator& world, Arguments arguments) {
  if (!applies_cma(world)) return;
  constexpr std::size_t count = 1 << 20;
  const int root = world.size() - 1;
  Bytes memory(count, 1);
  Communicator group = world.duplicate();
  const auto broadcast = [&](std::chrono::milliseconds timeout) {
    expect_error([&] { group.broadcast(memory, root, {.timeout = timeout, .algorithm = "cma"}); },
                 {ErrorCode::timeout, any_peer_at_all, "broadcast", "*", timeout_hint});
  };
  if (world.rank() == root) {
    await_file(arguments[0]);
    broadcast(5s);
  } else {
    broadcast(50ms);
    std::ranges::fill(memory, std::uint8_t{2});
    if (world.rank() == 0) make_file(arguments[0]);
  }
  world.barrier();
  const std::uint8_t expected = world.rank() == root ? 1 : 2;
  check(std::ranges::all_of(memory, [=](std::uint8_t byte) { return byte == expected; }),
        "filled too late");
}

// arguments[0]: a file. The first rank has reduced its part, gives up waiting for the last one, and
// writes its Buffer, which that one reads.
void a_slow_reducer_does_not_take_what_was_taken_back(Communicator& world, Arguments arguments) {
  constexpr std::size_t count = 1000;
  Buffer<int> given = world.allocate<int>(count * static_cast<std::size_t>(world.size()));
  std::vector<int> result(count);
  const bool slow = world.rank() != 0;
  for (const std::string algorithm : {"direct", "cma"}) {
    if (algorithm == "cma" && !applies_cma(world)) continue;
    const std::string file = arguments[0] + algorithm;
    const auto add = [&](const int* left, int* inout, std::size_t element_count) {
      if (slow) await_file(file);
      for (std::size_t i = 0; i < element_count; ++i) inout[i] += left[i];
    };
    std::ranges::fill(given, 1);
    Communicator group = world.duplicate();
    expect_error(
        [&] {
          group.reduce_scatter(given, result, ordered(add),
                               {.timeout = slow ? 5'000ms : 50ms, .algorithm = algorithm});
        },
        {ErrorCode::timeout, any_peer_at_all, "reduce_scatter", "*", timeout_hint});
    if (!slow) {
      std::ranges::fill(given, 2);
      make_file(file);
    }
    world.barrier();
  }
}

// arguments[0]: a file. Nobody comes to what the first rank has in flight.
void a_failure_ends_more_than_are_counted(Communicator& world, Arguments arguments) {
  Communicator group = world.duplicate();
  if (world.rank() != 0) {
    await_file(arguments[0]);
  } else {
    std::vector<Request> requests;
    std::vector<int> data(100);
    requests.reserve(data.size());
    for (int& value : data)
      requests.push_back(group.allreduce_async(std::span{&value, 1}, sum, {.timeout = 50ms}));
    for (Request& request : requests)
      expect_error([&] { request.wait(); },
                   {ErrorCode::timeout, 1, "allreduce_async", "*", timeout_hint});
    make_file(arguments[0]);
  }
  world.barrier();
}

}  // namespace

std::vector<Scenario> node_scenarios() {
  return {
      in_world("wide_elements_are_aligned", wide_elements_are_aligned),
      in_world("vectors_are_read_where_each_lies", vectors_are_read_where_each_lies),
      in_world("prefixes_are_read_where_each_lies", prefixes_are_read_where_each_lies),
      in_world("private_memory_of_every_length", private_memory_of_every_length),
      in_world("blocks_of_unequal_lengths_from_all_memories",
               blocks_of_unequal_lengths_from_all_memories),
      {"cma_that_one_rank_is_forbidden", cma_that_one_rank_is_forbidden},
      in_world("a_root_sleeps_no_longer_than_its_readers",
               a_root_sleeps_no_longer_than_its_readers),
      in_world("who_only_gives_runs_ahead", who_only_gives_runs_ahead),
      in_world("who_wants_no_sum_runs_ahead", who_wants_no_sum_runs_ahead),
      in_world("calls_that_move_nothing_wait_for_nobody", calls_that_move_nothing_wait_for_nobody),
      in_world("empty_blocks_are_waited_for_by_nobody", empty_blocks_are_waited_for_by_nobody),
      in_world("more_empty_blocks_than_slots_behind_a_call_under_way",
               more_empty_blocks_than_slots_behind_a_call_under_way),
      in_world("a_late_member_does_not_take_what_was_taken_back",
               a_late_member_does_not_take_what_was_taken_back),
      in_world("a_late_root_does_not_fill_what_was_taken_back",
               a_late_root_does_not_fill_what_was_taken_back),
      in_world("a_slow_reducer_does_not_take_what_was_taken_back",
               a_slow_reducer_does_not_take_what_was_taken_back),
      in_world("a_failure_ends_more_than_are_counted", a_failure_ends_more_than_are_counted)};
}

}  // namespace qpmesh::ranks

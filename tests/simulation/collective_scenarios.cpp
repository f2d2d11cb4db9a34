// SPDX-License-Identifier: MIT
// Collectives against what loops over all ranks compute.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "simulation/collective_memory.hpp"
#include "simulation/collective_scenarios.hpp"

namespace qpmesh::test {
namespace {

// A case in flight, shared by its ranks.
class Shared {
 public:
  Shared(const CollectiveCase& one, int size)
      : one_{&one}, size_{size}, left_{size}, ranks_{memories(one, size)} {}

  RankMemory& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  bool is_last_to_leave() { return --left_ == 0; }

  // Throws what is wrong with the memory that a rank has after its call.
  void verify(int rank) {
    const RankMemory& mine = of(rank);
    check_out(rank);
    if (mine.memory == mine.expected) return;
    const bool rounds = !one_->exact && one_->element->near(out(mine.memory, mine),
                                                            out(mine.expected, mine).data(), size_);
    std::vector<std::byte> expected = mine.expected;
    if (rounds) std::ranges::copy(out(mine.memory, mine), at(expected, mine.out_begin));
    const auto wrong = std::ranges::mismatch(mine.memory, expected).in1 - mine.memory.begin();
    if (mine.memory == expected) return;
    throw std::runtime_error(fmt::format(
        "{}: byte {} is wrong; in are {} from {} on, out {} from {} on", describe(*one_), wrong,
        mine.in_bytes, mine.in_begin, mine.out_bytes, mine.out_begin));
  }

 private:
  static std::vector<std::byte>::iterator at(std::vector<std::byte>& bytes, std::size_t index) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(index);
  }
  static std::span<const std::byte> out(const std::vector<std::byte>& memory,
                                        const RankMemory& rank) {
    return std::span{memory}.subspan(rank.out_begin, rank.out_bytes);
  }
  // The same bits on every rank, whatever was rounded.
  void check_out(int rank) {
    if (one_->row->collective != Collective::allreduce) return;
    const auto mine = out(of(rank).memory, of(rank));
    if (first_rank_ < 0) {
      first_rank_ = rank;
      first_result_.assign(mine.begin(), mine.end());
    }
    if (!std::ranges::equal(mine, first_result_)) {
      throw std::runtime_error(
          fmt::format("{}: other bits than on rank {}", describe(*one_), first_rank_));
    }
  }

  const CollectiveCase* one_;
  int size_;
  int left_;
  std::vector<RankMemory> ranks_;
  int first_rank_ = -1;
  std::vector<std::byte> first_result_;
};

struct Run {
  const Collectives* collectives;
  std::vector<std::unique_ptr<Shared>> shared;  // by case; while some rank is in it

  Shared& at(std::size_t index) {
    if (shared[index] == nullptr) {
      shared[index] =
          std::make_unique<Shared>(collectives->cases[index], collectives->network.rank_count);
    }
    return *shared[index];
  }
};

Ranges ranges_of(RankMemory& rank) {
  const std::span<std::byte> memory{rank.memory};
  return {.in = memory.subspan(rank.in_begin, rank.in_bytes),
          .out = memory.subspan(rank.out_begin, rank.out_bytes),
          .in_layout = {rank.in_counts, rank.in_displacements},
          .out_layout = {rank.out_counts, rank.out_displacements}};
}

Script collective_calls(SimulatedJob* job, Run* run, std::vector<Communicator>* communicators,
                        int rank) {
  const std::vector<CollectiveCase>& cases = run->collectives->cases;
  const std::size_t together =
      2 * communicators->size();  // operations in flight, two in each communicator
  for (std::size_t begin = 0; begin < cases.size(); begin += together) {
    const std::size_t end = std::min(begin + together, cases.size());
    std::vector<Request> requests;
    const EndsOperations ends{*job, rank};
    for (std::size_t i = begin; i < end; ++i) {
      Communicator& communicator = (*communicators)[i % communicators->size()];
      requests.push_back(
          cases[i].element->start(communicator, cases[i], ranges_of(run->at(i).of(rank))));
    }
    for (std::size_t i = begin; i < end; ++i) {
      Request& request = requests[i - begin];
      co_await until(request);
      request.wait();
      Shared& shared = run->at(i);
      shared.verify(rank);
      // The memory is the caller's again: who still reads it must be seen.
      std::ranges::fill(shared.of(rank).memory, std::byte{0x5a});
    }
    co_await until_all(requests);
    for (std::size_t i = begin; i < end; ++i) {
      if (run->at(i).is_last_to_leave()) run->shared[i] = nullptr;
    }
  }
}

}  // namespace

Outcome run_collectives(const Collectives& collectives) {
  const int size = collectives.network.rank_count;
  std::vector<int> members(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
  Run run{.collectives = &collectives,
          .shared = std::vector<std::unique_ptr<Shared>>(collectives.cases.size())};
  std::vector<std::vector<Communicator>> communicators(static_cast<std::size_t>(size));
  Outcome outcome;
  SimulatedJob job{collectives.network};
  for (int rank = 0; rank < size; ++rank) {
    auto& mine = communicators[static_cast<std::size_t>(rank)];
    for (int i = 0; i < collectives.communicators; ++i) {
      mine.push_back(job.communicator(rank, 200 + static_cast<std::uint64_t>(i), members));
    }
    job.start(rank, collective_calls(&job, &run, &mine, rank));
  }
  job.run();
  outcome.counters = job.counters();
  outcome.trace = job.network().trace_hash();
  outcome.wrong = job.close();
  communicators.clear();
  if (!outcome.wrong.empty()) {
    outcome.wrong =
        fmt::format("{} ranks, seed {}: {}", size, collectives.network.seed, outcome.wrong);
  }
  return outcome;
}

}  // namespace qpmesh::test

// Collectives against what one loop over all ranks computes.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "base/bytes.hpp"
#include "qpmesh/reduction.hpp"
#include "simulation/scenarios.hpp"

namespace qpmesh::test {
namespace {

// One allreduce of one rank: its input is a function of everything that identifies it.
class Case {
 public:
  virtual ~Case() = default;
  virtual Request start(Communicator& communicator) = 0;
  virtual bool right() const = 0;
};

template <class T>
class TypedCase final : public Case {
 public:
  TypedCase(std::uint64_t seed, int size, int rank, std::size_t count, bool in_place)
      : seed_{seed}, size_{size}, in_(count), out_(count), in_place_{in_place} {
    for (std::size_t i = 0; i < count; ++i) in_[i] = value(rank, i);
    if (in_place) out_ = in_;
  }

  Request start(Communicator& communicator) override {
    return in_place_ ? communicator.allreduce_async(out_, sum) : communicator.allreduce_async(in_, out_, sum);
  }

  bool right() const override {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      T expected{};
      for (int rank = 0; rank < size_; ++rank) expected = add(expected, value(rank, i));
      if (out_[i] != expected) return false;
    }
    return true;
  }

 private:
  // Small for floating types: their sums are exact, so that the order of the additions does not show.
  T value(int rank, std::size_t i) const noexcept {
    const std::uint64_t word = base::mix64(seed_ ^ (static_cast<std::uint64_t>(rank) << 40 | i));
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(word % 1000);
    else return static_cast<T>(word);
  }
  static T add(T a, T b) noexcept {
    if constexpr (std::is_floating_point_v<T>) return a + b;
    else return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  std::uint64_t seed_;
  int size_;
  std::vector<T> in_;
  std::vector<T> out_;
  bool in_place_;
};

using Make = std::unique_ptr<Case> (*)(std::uint64_t seed, int size, int rank, std::size_t count,
                                       bool in_place);
template <class T>
std::unique_ptr<Case> make(std::uint64_t seed, int size, int rank, std::size_t count, bool in_place) {
  return std::make_unique<TypedCase<T>>(seed, size, rank, count, in_place);
}
constexpr std::array<Make, 10> types{
    make<std::int8_t>,  make<std::uint16_t>, make<std::int32_t>,  make<std::int64_t>,  make<float>,
    make<std::uint8_t>, make<std::int16_t>,  make<std::uint32_t>, make<std::uint64_t>, make<double>};

struct Plan {
  Collectives collectives;
  std::uint64_t seed;
};

Script collective_calls(SimulatedJob* job, const Plan* plan, std::vector<Communicator>* communicators,
                        int rank) {
  std::uint64_t seed = plan->seed;
  std::size_t type = seed % types.size();
  for (const std::size_t count : plan->collectives.counts) {
    std::vector<std::unique_ptr<Case>> cases;
    std::vector<Request> requests;
    const EndsOperations ends{*job, rank};
    for (Communicator& communicator : *communicators) {
      const bool in_place = (seed & 1) != 0;
      cases.push_back(types[type++ % types.size()](++seed, communicator.size(), rank, count, in_place));
      requests.push_back(cases.back()->start(communicator));
    }
    // Behind the reductions, before they are waited for: several operations of one communicator in flight.
    requests.push_back(communicators->front().barrier_async());
    co_await until_all(requests);
    for (Request& request : requests) request.wait();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (!cases[i]->right())
        throw std::runtime_error(fmt::format("an allreduce of {} elements has wrong values", count));
    }
  }
}

}  // namespace

Outcome random_collectives(const Collectives& collectives) {
  const int size = collectives.network.rank_count;
  std::vector<int> members(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) members[static_cast<std::size_t>(i)] = i;
  const Plan plan{.collectives = collectives, .seed = collectives.network.seed};
  Options options = small_rings();
  options.algorithms = fmt::format("allreduce={}", collectives.allreduce);
  std::vector<std::vector<Communicator>> communicators(static_cast<std::size_t>(size));
  Outcome outcome;
  SimulatedJob job{collectives.network, options};
  for (int rank = 0; rank < size; ++rank) {
    auto& mine = communicators[static_cast<std::size_t>(rank)];
    for (int i = 0; i < collectives.communicators; ++i) {
      mine.push_back(job.communicator(rank, 200 + static_cast<std::uint64_t>(i), members));
    }
    job.start(rank, collective_calls(&job, &plan, &mine, rank));
  }
  job.run();
  outcome.counters = job.counters();
  outcome.trace = job.network().trace_hash();
  outcome.wrong = job.close();
  communicators.clear();
  if (!outcome.wrong.empty()) {
    outcome.wrong = fmt::format("{} of {} ranks, seed {}: {}", collectives.allreduce, size,
                                collectives.network.seed, outcome.wrong);
  }
  return outcome;
}

}  // namespace qpmesh::test

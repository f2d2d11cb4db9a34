// SPDX-License-Identifier: MIT
#include "bench/harness/floats.hpp"

#include <utility>

namespace qpmesh::bench {

FloatCase::FloatCase(Communicator& world, Buffers buffers, Collective collective, Cut cut)
    : world_{world},
      collective_{collective},
      cut_{std::move(cut)},
      ends_{ends_of(collective, cut_, world.rank())},
      in_{world, buffers.kind, ends_.in},
      out_{world, buffers.kind, ends_.out, buffers.offset_bytes} {}

void FloatCase::run_baseline(Baseline& baseline) {
  next_root();
  baseline.collective(
      {.collective = collective_, .in = in(), .out = out(), .root = root_, .cut = &cut_});
}

void FloatCase::prepare(std::uint64_t seed) {
  fill_inputs(in(), seed, world_.rank());
  poison(out());
}

std::size_t FloatCase::wrong(std::uint64_t seed) {
  if (!receives()) return 0;
  return count_wrong(out_.view(),
                     [seed, this](std::size_t index) { return expected(seed, index); });
}

std::span<std::byte> FloatCase::output() {
  return receives() ? out_.bytes() : std::span<std::byte>{};
}

Candidate FloatCase::algorithm() const {
  if (!cut_.is_even()) return {.algorithm = "-"};
  return chosen_algorithm(world_, collective_, cut_.element_count() * sizeof(float));
}

std::vector<std::string> FloatCase::algorithms() const {
  if (!cut_.is_even()) return {};
  return applicable_algorithms(world_, collective_, cut_.element_count() * sizeof(float));
}

Series float_series(std::string name, LimitKind limit, double (*bus_factor)(int ranks),
                    MakeFloatCase make, Roots roots) {
  return {.name = std::move(name),
          .element_bytes = sizeof(float),
          .limit = limit,
          .bus_factor = bus_factor,
          .make = [=](Communicator& world, Buffers buffers, std::size_t bytes) {
            auto subject = make(world, buffers, Cut::even(bytes / sizeof(float), world.size()));
            subject->take_roots(roots);
            return subject;
          }};
}

std::vector<Series> rooted_series(const std::string& name, LimitKind limit, MakeFloatCase make) {
  return {float_series(name, limit, whole_vector, make),
          float_series(name + "_fixed", limit, whole_vector, make, Roots::fixed)};
}

std::vector<Series> block_series(const std::string& name, LimitKind limit, bool ends_with_a_block,
                                 MakeFloatCase make) {
  Series even = float_series(name, limit, others_blocks, make);
  even.has_blocks = true;
  even.ends_with_a_block = ends_with_a_block;
  Series uneven = even;
  uneven.name = name + "_v";
  uneven.make = [make](Communicator& world, Buffers buffers, std::size_t bytes) {
    return make(world, buffers, Cut::uneven(bytes / sizeof(float), world.size()));
  };
  return {std::move(even), std::move(uneven)};
}

std::vector<Series> rooted_block_series(const std::string& name, LimitKind limit,
                                        bool ends_with_a_block, MakeFloatCase make) {
  std::vector<Series> series = block_series(name, limit, ends_with_a_block, make);
  Series fixed = float_series(name + "_fixed", limit, others_blocks, make, Roots::fixed);
  fixed.has_blocks = true;
  fixed.ends_with_a_block = ends_with_a_block;
  series.push_back(std::move(fixed));
  return series;
}

}  // namespace qpmesh::bench

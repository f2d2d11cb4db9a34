// A process of MPI alone, with the settings that its mpirun gave it: scripts/compare builds this with each MPI's compiler
// wrapper and runs it in turn with our programs. Samples are taken by the very functions that take ours; rank 0 prints
// them, a line a size: bytes and microseconds per call.
//   mpi_peer allgather even 21 64 4096       (even or uneven blocks, samples, sizes in bytes)
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/baselines/mpi_calls.hpp"
#include "bench/harness/cut.hpp"
#include "bench/harness/pages.hpp"
#include "bench/harness/sampling.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

struct Wish {
  Collective collective;
  bool uneven;
  std::size_t samples;
  std::vector<std::size_t> sizes;
};

std::size_t number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw std::invalid_argument{"no number: " + std::string{text}};
  return value;
}

Wish parse(const std::vector<std::string>& words) {
  // In the order of Collective.
  constexpr std::array<std::string_view, qpmesh::collective_count> names{
      "barrier", "broadcast", "reduce",   "allgather", "reduce_scatter", "allreduce",
      "gather",  "scatter",   "alltoall", "scan",      "exscan"};
  if (words.size() < 4) throw std::invalid_argument{"usage: mpi_peer COLLECTIVE even|uneven SAMPLES BYTES…"};
  const auto* const name = std::ranges::find(names, words[0]);
  if (name == names.end()) throw std::invalid_argument{"no collective: " + words[0]};
  Wish wish{.collective = static_cast<Collective>(name - names.begin()),
            .uneven = words[1] == "uneven",
            .samples = number(words[2]),
            .sizes = {}};
  std::transform(words.begin() + 3, words.end(), std::back_inserter(wish.sizes), number);
  return wish;
}

class World {
 public:
  World() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  ~World() { MPI_Finalize(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank = 0;
  int size = 0;
};

Cut cut_of(const Wish& wish, std::size_t element_count, const World& world) {
  if (!wish.uneven) return Cut::even(element_count, world.size);
  return Cut::uneven(element_count, world.size, wish.collective == Collective::alltoall ? world.rank : 0);
}

// As bench/harness/floats.hpp arranges it for ours: private buffers, and the next rank as root of every call.
void measure(const Wish& wish, std::size_t bytes, const World& world) {
  const Cut cut = cut_of(wish, bytes / sizeof(float), world);
  const Ends ends = ends_of(wish.collective, cut, world.rank);
  const auto in = make_pages<float>(ends.in);
  const auto out = make_pages<float>(ends.out);
  std::fill_n(in.get(), ends.in, 1.0F);
  std::fill_n(out.get(), ends.out, 2.0F);
  Baseline::Operation operation{
      .collective = wish.collective, .in = {in.get(), ends.in}, .out = {out.get(), ends.out}, .cut = &cut};
  const auto call = [&] {
    operation.root = operation.root + 1 < world.size ? operation.root + 1 : 0;
    if (wish.collective == Collective::broadcast)
      operation.out = {operation.root == world.rank ? in.get() : out.get(), ends.out};
    mpi_collective(operation);
  };
  const auto timed = [&call](std::size_t calls) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const Agreement agreement{.align = [] { MPI_Barrier(MPI_COMM_WORLD); },
                            .max_over_ranks =
                                [](std::span<double> values) {
                                  MPI_Allreduce(MPI_IN_PLACE, values.data(), mpi_count(values.size()),
                                                MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
                                }};
  const Times times = take_samples(timed, {}, wish.samples, agreement);
  if (world.rank != 0) return;
  std::printf("%zu", bytes);
  for (const double seconds : times.ours_s) std::printf(" %.4f", seconds * 1e6);
  std::printf("\n");
  std::fflush(stdout);  // what was measured counts even when the time limit ends this process
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Wish wish = parse({argv + 1, argv + argc});
    const World world;
    if (world.rank == 0) std::printf("# %s\n", mpi_library_version().c_str());
    for (const std::size_t bytes : wish.sizes) measure(wish, bytes, world);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_peer: %s\n", error.what());
    return 2;
  }
}

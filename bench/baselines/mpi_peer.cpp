// A process of MPI alone, with the settings that its mpirun gave it: scripts/compare builds this
// with each MPI's compiler wrapper and runs it in turn with our programs. Samples are taken by the
// very functions that take ours; rank 0 prints them, a line a size: bytes and microseconds per
// call.
//   mpi_peer allgather even 21 64 4096       (even or uneven blocks, samples, sizes in bytes)
//   mpi_peer latency even 21 64 4096         (of a message between neighbours, as bench_sendrecv
//   takes it)
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
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
  std::optional<Collective> collective;  // none: latency
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
  if (words.size() < 4)
    throw std::invalid_argument{"usage: mpi_peer OPERATION even|uneven SAMPLES BYTES…"};
  std::optional<Collective> collective;
  if (words[0] != "latency") {
    const auto* const name = std::ranges::find(names, words[0]);
    if (name == names.end()) throw std::invalid_argument{"no operation: " + words[0]};
    collective = static_cast<Collective>(name - names.begin());
  }
  Wish wish{.collective = collective,
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
  // An exception on its way means that other ranks may never reach MPI_Finalize, which waits for
  // them.
  ~World() {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank = 0;
  int size = 0;
};

Cut cut_of(const Wish& wish, std::size_t element_count, const World& world) {
  if (!wish.uneven) return Cut::even(element_count, world.size);
  return Cut::uneven(element_count, world.size,
                     wish.collective == Collective::alltoall ? world.rank : 0);
}

// There and back; an odd last rank has nobody.
void ping_pong(std::span<float> in, std::span<float> out, const World& world) {
  const int peer = world.rank ^ 1;
  if (peer >= world.size) return;
  const int count = mpi_count(in.size());
  if (world.rank < peer) MPI_Send(in.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
  MPI_Recv(out.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (world.rank > peer) MPI_Send(in.data(), count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
}

// As bench/harness/floats.hpp arranges it for ours: private buffers, and the next rank as root of
// every call.
void measure(const Wish& wish, std::size_t bytes, const World& world) {
  const Cut cut = cut_of(wish, bytes / sizeof(float), world);
  const Ends ends = ends_of(wish.collective.value_or(Collective::broadcast), cut, world.rank);
  const auto in_pages = make_pages<float>(ends.in);
  const auto out_pages = make_pages<float>(ends.out);
  const std::span in{in_pages.get(), ends.in};
  const std::span out{out_pages.get(), ends.out};
  std::ranges::fill(in, 1.0F);
  std::ranges::fill(out, 2.0F);
  Baseline::Operation operation{.collective = {}, .in = in, .out = out, .cut = &cut};
  const auto collective = [&] {
    operation.root = operation.root + 1 < world.size ? operation.root + 1 : 0;
    if (operation.collective == Collective::broadcast)
      operation.out = operation.root == world.rank ? in : out;
    mpi_collective(operation);
  };
  std::function<void()> call = [&] { ping_pong(in, out, world); };
  if (wish.collective) {
    operation.collective = *wish.collective;
    call = collective;
  }
  const auto timed = [&call](std::size_t calls) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls; ++i) call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const Agreement agreement{.align = [] { MPI_Barrier(MPI_COMM_WORLD); },
                            .max_over_ranks =
                                [](std::span<double> values) {
                                  MPI_Allreduce(MPI_IN_PLACE, values.data(),
                                                mpi_count(values.size()), MPI_DOUBLE, MPI_MAX,
                                                MPI_COMM_WORLD);
                                }};
  const double us_per_call = wish.collective ? 1e6 : 0.5e6;
  const Times times = take_samples({.ours = timed}, wish.samples, agreement);
  if (world.rank != 0) return;
  std::printf("%zu", bytes);
  for (const double seconds : times.ours_s) std::printf(" %.4f", seconds * us_per_call);
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

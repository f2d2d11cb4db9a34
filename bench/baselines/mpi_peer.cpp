// SPDX-License-Identifier: MIT
// A process of MPI alone, with the settings that its mpirun gave it: scripts/compare builds this
// with each MPI's compiler wrapper and runs it in turn with our programs. Samples are taken by the
// very functions that take ours; rank 0 prints them, a line a size: bytes and microseconds per
// call.
//   mpi_peer OPERATION even|uneven|fixed SAMPLES OFFSET COMPUTE_US BYTES…
//   mpi_peer allgather even 21 0 0 64 4096
// even or uneven blocks, one root (fixed) or the next one each time; where what is received lies
// behind a page, and computing before each call, as --offset and --compute-us of ours say. Beside
// collectives there are latency, rate, rate_both_ways, bandwidth, both_ways and halo, as
// bench_sendrecv and bench_halo take them, allreduce_polled, alltoallw, iallreduce and its like,
// begun and waited for, and persistent_allreduce and its like: kept, started and waited for.
#include <algorithm>
#include <array>
#include <charconv>
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
#include "bench/harness/patterns.hpp"
#include "bench/harness/sampling.hpp"

namespace {

using namespace qpmesh::bench;
using qpmesh::Collective;

struct Wish {
  std::string operation;
  std::optional<Collective> collective;  // none: messages
  bool waited;
  bool persistent;
  bool typed;  // alltoallw
  bool uneven;
  bool fixed;
  std::size_t samples;
  std::size_t offset_bytes;
  double compute_s;
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
  constexpr std::string_view persistent = "persistent_";
  constexpr std::size_t words_before_sizes = 5;
  if (words.size() <= words_before_sizes) {
    throw std::invalid_argument{
        "usage: mpi_peer OPERATION even|uneven|fixed SAMPLES OFFSET COMPUTE_US BYTES…"};
  }
  Wish wish{.operation = words[0],
            .collective = {},
            .waited = words[0].starts_with('i'),
            .persistent = words[0].starts_with(persistent),
            .typed = words[0].ends_with("alltoallw"),
            .uneven = words[1] == "uneven",
            .fixed = words[1] == "fixed",
            .samples = number(words[2]),
            .offset_bytes = number(words[3]),
            .compute_s = 1e-6 * static_cast<double>(number(words[4])),
            .sizes = {}};
  const std::size_t prefix_length = wish.persistent ? persistent.size() : wish.waited ? 1 : 0;
  const auto* const name = std::ranges::find(names, words[0].substr(prefix_length));
  if (name != names.end()) wish.collective = static_cast<Collective>(name - names.begin());
  if (wish.operation == "allreduce_polled") wish.collective = Collective::allreduce;
  if (wish.typed) wish.collective = Collective::alltoall;
  constexpr std::array<std::string_view, 6> of_messages{"latency", "bandwidth",      "both_ways",
                                                        "rate",    "rate_both_ways", "halo"};
  if (!wish.collective && std::ranges::find(of_messages, words[0]) == of_messages.end())
    throw std::invalid_argument{"there is no operation " + words[0]};
  std::transform(words.begin() + words_before_sizes, words.end(), std::back_inserter(wish.sizes),
                 number);
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

template <class T>
class Array {
 public:
  explicit Array(std::size_t count, std::size_t offset_bytes = 0)
      : pages_{make_pages<T>(offset_bytes / sizeof(T) + count)},
        span_{pages_.get() + offset_bytes / sizeof(T), count} {}
  std::span<T> span() const { return span_; }

 private:
  Pages<T> pages_;
  std::span<T> span_;
};

// What is timed, and what it takes part in.
struct Subject {
  std::function<void()> call;
  double operations_per_call = 1;
};

bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

// As bench/harness/floats.hpp arranges it for ours. kept: what is persistent, by root where there
// is one.
Subject collective(const Wish& wish, const Cut& cut, std::span<float> in, std::span<float> out,
                   std::span<MPI_Request> kept, const World& world) {
  Baseline::Operation operation{.collective = *wish.collective,
                                .in = in,
                                .out = out,
                                .cut = &cut,
                                .polled = wish.operation == "allreduce_polled",
                                .waited = wish.waited};
  return {[=, &world, fixed = wish.fixed, persistent = wish.persistent,
           blocks = wish.typed ? std::optional{TypedBlocks{cut}} : std::nullopt]() mutable {
    if (!fixed) operation.root = operation.root + 1 < world.size ? operation.root + 1 : 0;
    if (operation.collective == Collective::broadcast)
      operation.out = operation.root == world.rank ? in : out;
    const int place = has_root(operation.collective) ? operation.root : 0;
    MPI_Request* const request = persistent ? &kept[static_cast<std::size_t>(place)] : nullptr;
    if (blocks) mpi_alltoallw(operation, *blocks, request);
    else mpi_collective(operation, request);
  }};
}

// Of pairs of neighbours; an odd last rank has nobody. What bench_sendrecv does.
Subject messages(const Wish& wish, std::span<std::byte> out, std::span<std::byte> in,
                 std::size_t bytes, const World& world) {
  const int peer = world.rank ^ 1;
  const bool leads = world.rank < peer;
  if (wish.operation == "latency") {
    return {[=, &world] {
              if (peer >= world.size) return;
              if (leads) mpi_send({out, peer});
              mpi_receive({in, peer});
              if (!leads) mpi_send({out, peer});
            },
            2};
  }
  const bool same = wish.operation.starts_with("rate");
  const bool both_ways = wish.operation.ends_with("both_ways");
  const std::size_t window = window_of(bytes);
  std::vector<Baseline::Outgoing> sends;
  std::vector<Baseline::Incoming> receives;
  for (std::size_t i = 0; i < window && peer < world.size; ++i) {
    const std::size_t at = same ? 0 : i * bytes;
    if (both_ways || leads) sends.push_back({out.subspan(at, bytes), peer});
    if (both_ways || !leads) receives.push_back({in.subspan(at, bytes), peer});
  }
  return {[=, &world, answer = std::array<std::byte, 4>{},
           requests = std::vector<MPI_Request>{}]() mutable {
            if (peer >= world.size) return;
            mpi_send_and_receive(sends, receives, Waiting::together, requests);
            if (both_ways) return;
            if (leads) mpi_receive({answer, peer});
            else mpi_send({answer, peer});
          },
          static_cast<double>(window)};
}

// What bench_halo does.
Subject halo(std::span<std::byte> out, std::span<std::byte> in, std::size_t bytes,
             const World& world) {
  std::vector<Baseline::Outgoing> sends;
  std::vector<Baseline::Incoming> receives;
  for (std::size_t i = 0; i < halo_messages; ++i) {
    sends.push_back({out.subspan(i * bytes, bytes), halo_destination(i, world.rank, world.size)});
    receives.push_back({in.subspan(i * bytes, bytes), halo_source(i, world.rank, world.size)});
  }
  return {[=, requests = std::vector<MPI_Request>{}]() mutable {
    mpi_send_and_receive(sends, receives, Waiting::in_turn, requests);
  }};
}

void measure(const Wish& wish, std::size_t bytes, const World& world) {
  const Cut cut = cut_of(wish, bytes / sizeof(float), world);
  Ends ends = ends_of(wish.collective.value_or(Collective::broadcast), cut, world.rank);
  if (!wish.collective) {
    const bool same = wish.operation == "latency" || wish.operation.starts_with("rate");
    const std::size_t count = same ? 1 : std::max(window_of(bytes), halo_messages);
    ends.in *= count;
    ends.out *= count;
  }
  const Array<float> in{ends.in};
  const Array<float> out{ends.out, wish.offset_bytes};
  std::ranges::fill(in.span(), 1.0F);
  std::ranges::fill(out.span(), 2.0F);
  const auto sent = std::as_writable_bytes(in.span());
  const auto received = std::as_writable_bytes(out.span());
  std::vector<MPI_Request> kept(static_cast<std::size_t>(world.size), MPI_REQUEST_NULL);
  Subject subject;
  if (wish.collective) subject = collective(wish, cut, in.span(), out.span(), kept, world);
  else if (wish.operation == "halo") subject = halo(sent, received, bytes, world);
  else subject = messages(wish, sent, received, bytes, world);
  const Agreement agreement{.align = [] { MPI_Barrier(MPI_COMM_WORLD); },
                            .max_over_ranks =
                                [](std::span<double> values) {
                                  MPI_Allreduce(MPI_IN_PLACE, values.data(),
                                                mpi_count(values.size()), MPI_DOUBLE, MPI_MAX,
                                                MPI_COMM_WORLD);
                                }};
  const Times times = take_samples({.ours = timed_batch([&] { subject.call(); }, wish.compute_s)},
                                   wish.samples, agreement);
  for (MPI_Request& request : kept)
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  if (world.rank != 0) return;
  std::printf("%zu", bytes);
  for (const double seconds : times.ours_s)
    std::printf(" %.4f", seconds * 1e6 / subject.operations_per_call);
  std::printf("\n");
  std::fflush(stdout);  // what was measured counts even when the time limit ends this process
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Wish wish = parse({argv + 1, argv + argc});
    const World world;
    if (!wish.collective && world.size < 2)
      throw std::invalid_argument{wish.operation + " needs two ranks"};
    if (world.rank == 0) std::printf("# %s\n", mpi_library_version().c_str());
    for (const std::size_t bytes : wish.sizes) measure(wish, bytes, world);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_peer: %s\n", error.what());
    return 2;
  }
}

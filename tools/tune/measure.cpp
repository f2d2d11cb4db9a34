#include "tools/tune/measure.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "collectives/kernels/reduce.hpp"
#include "qpmesh/qpmesh.hpp"
#include "tools/tune/timing.hpp"

namespace qpmesh::tune {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

bool shares_memory(const Communicator& world) {
  const auto candidates = world.explain(Collective::barrier, 0);
  return std::ranges::any_of(
      candidates, [](const Candidate& row) { return row.algorithm == "one_shot" && row.applies; });
}

// Of both ranks: a launcher may bind each to a core of its own.
std::vector<cpu_set_t> core_masks(Communicator& world) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_SET(0, &mine);
  std::vector<cpu_set_t> masks(static_cast<std::size_t>(world.size()));
  world.allgather(std::span{&mine, 1}, masks);
  return masks;
}

// This process on one core. Where the system does not allow it, it stays where it may be.
class Binding {
 public:
  explicit Binding(std::size_t core) {
    CPU_ZERO(&before_);
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~Binding() { ::sched_setaffinity(0, sizeof before_, &before_); }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

 private:
  cpu_set_t before_;
};

class Measurement {
 public:
  Measurement(Options options, int tries) : options_{std::move(options)}, tries_{tries} {
    options_.tuning.clear();  // nothing that was measured before, or is forced, has a say
    options_.algorithms.clear();
    options_.spin_us = -1;
  }

  Measured run() && {
    const auto [on_one_node, cores] = look_around();
    if (!on_one_node) {
      in_world([this](Communicator& world) { measure_network(world), measure_one_core(world); });
      return std::move(measured_);
    }
    if (cores.first != cores.second) {
      const Binding binding{rank_is_first() ? cores.first : cores.second};
      in_world([this](Communicator& world) { measure_two_cores(world), measure_one_core(world); });
      measure_wake();
    } else {
      remark(
          "Two ranks on one core: steps between cores, messages and crossing bytes were not "
          "measured.");
      in_world([this](Communicator& world) { measure_one_core(world); });
    }
    const Binding binding{cores.first};
    in_world([this](Communicator& world) { measure_turn(world); });
    return std::move(measured_);
  }

 private:
  static void require_two(const Communicator& world) {
    if (world.size() == 2) return;
    throw Error{
        {.code = ErrorCode::bad_config,
         .operation = "qpmesh-tune",
         .cause = world.size() == 1
                      ? "one rank measures nothing of another"
                      : fmt::format("{} ranks, and constants are those of two", world.size()),
         .hint = "start two: qpmesh-run -np 2 qpmesh-tune --out FILE; --check takes any number"}};
  }

  struct Surroundings {
    bool on_one_node;
    std::pair<std::size_t, std::size_t> cores;  // of the two ranks; different where there are two
  };
  Surroundings look_around() {
    Surroundings found{};
    in_world([&](Communicator& world) {
      require_two(world);
      measured_.rank = world.rank();
      found.on_one_node = shares_memory(world);
      const auto masks = core_masks(world);
      for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, masks.data())) found.cores.first = core;
      }
      found.cores.second = found.cores.first;
      for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &masks[1]) && core != found.cores.first) found.cores.second = core;
      }
    });
    return found;
  }
  bool rank_is_first() const noexcept { return measured_.rank == 0; }

  template <class Use>
  void in_world(Use use) {
    Communicator world = init(options_);
    use(world);
    world.finish();
  }

  void set(double collectives::Constants::*member, double value) {
    for (const collectives::ConstantRow& row : collectives::constant_table()) {
      if (row.member != member) continue;
      // A difference of two times may come out as nothing, or less.
      const double scale = row.unit == "bytes" ? 1 : 1e9;
      measured_.constants.*member = std::clamp(value * scale, row.lowest, row.highest) / scale;
      measured_.names.push_back(row.name);
    }
  }
  void remark(std::string text) { measured_.remarks.push_back(std::move(text)); }

  // Of blocks so long, between both ranks.
  std::function<void()> allgather(Communicator& world, std::size_t bytes,
                                  std::string_view algorithm) {
    return [this, &world, bytes, algorithm] {
      world.allgather(std::span{block_}.first(bytes), std::span{blocks_}.first(2 * bytes),
                      {.algorithm = algorithm});
    };
  }
  static std::function<void()> barrier(Communicator& world, std::string_view algorithm) {
    return [&world, algorithm] { world.barrier({.algorithm = algorithm}); };
  }
  // So many small messages each way at once.
  static std::function<void()> burst(Communicator& world, int count) {
    return [&world, count] {
      static std::array<int, 16> out{};
      static std::array<int, 16> in{};
      const int peer = 1 - world.rank();
      std::vector<Request> requests;
      for (int i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        requests.push_back(world.send_async(std::span{&out[at], 1}, peer));
        requests.push_back(world.receive_async(std::span{&in[at], 1}, peer));
      }
      wait_all(requests);
    };
  }

  void measure_network(Communicator& world) {
    const auto times =
        times_s(world,
                {barrier(world, "dissemination"), burst(world, 1), burst(world, 16),
                 allgather(world, 64 * kib, "all_pairs"), allgather(world, mib, "all_pairs")},
                tries_);
    set(&collectives::Constants::network_latency_s, times[0]);
    set(&collectives::Constants::network_overhead_s, (times[2] - times[1]) / 15);
    set(&collectives::Constants::network_byte_s, (times[4] - times[3]) / (mib - 64 * kib));
  }

  void measure_two_cores(Communicator& world) {
    const std::size_t small = kib;
    const std::size_t message = 32 * kib;
    const std::size_t large = 64 * kib;
    const double copied_byte_s = copy_s(world, large) / large;
    const auto times =
        times_s(world,
                {barrier(world, "one_shot"), barrier(world, "dissemination"),
                 allgather(world, small, "all_pairs"), allgather(world, message, "all_pairs"),
                 allgather(world, large, "double_buffered"), burst(world, 1), burst(world, 16)},
                tries_);
    const double line_s = times[0];
    const double latency_s = times[1];
    const double message_byte_s = (times[3] - times[2]) / (message - small) - copied_byte_s;
    set(&collectives::Constants::line_s, line_s);
    // A copy of one's own block, one into staging and one out of the peer's; two steps
    // (node/work.hpp).
    set(&collectives::Constants::crossed_byte_s,
        ((times[4] - 1.5 * line_s) / large - copied_byte_s) / 2);
    set(&collectives::Constants::message_latency_s, latency_s);
    set(&collectives::Constants::message_payload_s,
        times[2] - latency_s - small * (message_byte_s + copied_byte_s));
    set(&collectives::Constants::message_overhead_s, (times[6] - times[5]) / 15);
    set(&collectives::Constants::message_byte_s, message_byte_s);
  }

  // What a rank does by itself.
  void measure_one_core(Communicator& world) {
    const std::size_t bytes = 64 * kib;
    set(&collectives::Constants::copied_byte_s, copy_s(world, bytes) / bytes);
    const auto kernel = collectives::reduce_kernel(ReductionKind::sum, ElementType::float32);
    const std::array<const std::byte*, 2> sources{blocks_.data(), blocks_.data() + mib};
    const auto reduce = [&] { kernel(block_.data(), sources.data(), 2, bytes); };
    set(&collectives::Constants::reduced_byte_s, time_s(world, reduce, tries_) / bytes);
    measure_system_copy(world);
    measure_caches(world);
  }

  // The longest copy that is nearer to one in the cache than to one that no cache holds. What the
  // system says of caches is that of the host, which a guest shares with others.
  void measure_caches(Communicator& world) {
    const std::size_t longest = 64 * mib;
    block_.resize(longest);
    blocks_.resize(longest);
    const auto copied_byte_s = [&](std::size_t bytes) {
      return copy_s(world, bytes) / static_cast<double>(bytes);
    };
    const double memory_byte_s = copied_byte_s(longest);
    const double limit_s = std::sqrt(memory_byte_s * measured_.constants.copied_byte_s);
    std::size_t fits = mib / 4;
    while (fits < longest / 2 && copied_byte_s(2 * fits) < limit_s) fits *= 2;
    set(&collectives::Constants::memory_byte_s, memory_byte_s);
    set(&collectives::Constants::cache_bytes,
        2 * 2 * static_cast<double>(fits));  // both ranks' in and out
  }

  double copy_s(Communicator& world, std::size_t bytes) {
    const int tries = bytes < mib ? tries_ : std::min(tries_, 15);
    return time_s(
        world,
        [&] {
          std::memcpy(blocks_.data(), block_.data(), bytes);
          asm volatile(""
                       :
                       : "r"(blocks_.data())
                       : "memory");  // somebody reads it, as far as the compiler knows
        },
        tries);
  }

  // A cache line, so that what remains is the call. A container may forbid it even of a process's
  // own memory; then nothing is chosen by it.
  void measure_system_copy(Communicator& world) {
    ::iovec from{block_.data(), 64};
    ::iovec to{blocks_.data(), 64};
    const auto copy = [&] { return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0); };
    const double call_s = time_s(
        world, [&] { copy(); }, tries_);
    if (copy() != 64)
      return remark("process_vm_readv is forbidden here: system_copy was not measured.");
    set(&collectives::Constants::system_copy_s, call_s);
  }

  // Ranks that sleep at once.
  void measure_wake() {
    options_.spin_us = 0;
    in_world([this](Communicator& world) {
      set(&collectives::Constants::wake_s, time_s(world, barrier(world, "dissemination"), tries_));
    });
    options_.spin_us = -1;
  }

  // Both ranks are bound to one core: each step takes a turn of both.
  void measure_turn(Communicator& world) {
    const auto masks = core_masks(world);
    if (CPU_EQUAL(masks.data(), &masks[1])) {
      set(&collectives::Constants::turn_s, time_s(world, barrier(world, "one_shot"), tries_) / 2);
    } else {
      remark("The ranks could not be bound to one core: the turn was not measured.");
    }
  }

  Options options_;
  int tries_;
  Measured measured_;
  std::vector<std::byte> block_ = std::vector<std::byte>(2 * mib);
  std::vector<std::byte> blocks_ = std::vector<std::byte>(2 * mib);
};

}  // namespace

Measured measure(Options options, int tries) {
  return Measurement{std::move(options), tries}.run();
}

}  // namespace qpmesh::tune

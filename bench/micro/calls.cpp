// SPDX-License-Identifier: MIT
// What a call costs beside waiting: a rank that is alone, so that nothing is waited for; and what
// it costs more where several threads may call.
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/micro/probe.hpp"
#include "bench/micro/threads.hpp"
#include "bootstrap/alone.hpp"
#include "qpmesh/qpmesh.hpp"

namespace qpmesh::bench {
namespace {

constexpr int calls_each = 2000;

// Made when it is first measured: the others are measured without its threads.
class World {
 public:
  explicit World(Options options) : options_{std::move(options)} {}

  Communicator& operator*() {
    if (!made_) {
      bootstrap::Alone alone;
      made_.emplace(init(alone, options_));
    }
    return *made_;
  }

 private:
  Options options_;
  std::optional<Communicator> made_;
};

template <class Call>
std::function<double()> calls(const std::shared_ptr<World>& world, Call call) {
  return [=] {
    Communicator& alone = **world;
    return elapsed_ns([&] {
             for (int i = 0; i < calls_each; ++i) call(alone);
           }) /
           calls_each;
  };
}

void allreduce_of_a_range(Communicator& alone) {
  std::array<double, 1> value{1};
  std::array<double, 1> total{};
  alone.allreduce(value, total, sum);
}
void allreduce_of_a_scalar(Communicator& alone) {
  if (alone.allreduce(1.0, sum) != 1.0) std::abort();
}
void allreduce_async(Communicator& alone) {
  std::array<double, 1> value{1};
  alone.allreduce_async(value, sum).wait();
}
void send_and_receive(Communicator& alone) {
  double value = 1;
  alone.send(value, 0);
  alone.receive(value, 0);
}

}  // namespace

std::vector<Probe> call_probes(CorePair cores) {
  pin_to(cores.first);
  const auto one = std::make_shared<World>(Options{});
  Options several;
  several.threads = ThreadUse::several;
  Options progress;
  progress.progress_thread = true;
  std::vector<Probe> probes;
  const auto add = [&](const char* name, auto call) {
    probes.push_back({.name = std::string{"call/"} + name, .sample_ns = calls(one, call)});
  };
  add("allreduce/range", allreduce_of_a_range);
  probes.push_back({.name = "call/allreduce/scalar",
                    .sample_ns = calls(one, allreduce_of_a_scalar),
                    .reference_ns = calls(one, allreduce_of_a_range)});
  add("allreduce_async", allreduce_async);
  add("send_receive", send_and_receive);
  for (const auto& [name, options] :
       {std::pair{"several_threads", several}, std::pair{"progress_thread", progress}}) {
    const auto world = std::make_shared<World>(options);
    const std::string prefix = std::string{"call/"} + name;
    probes.push_back({.name = prefix + "/allreduce/range",
                      .sample_ns = calls(world, allreduce_of_a_range),
                      .reference_ns = calls(one, allreduce_of_a_range)});
    probes.push_back({.name = prefix + "/send_receive",
                      .sample_ns = calls(world, send_and_receive),
                      .reference_ns = calls(one, send_and_receive)});
  }
  return probes;
}

}  // namespace qpmesh::bench

// SPDX-License-Identifier: MIT
// A process of Gloo alone, over TCP, which Open MPI's launcher starts and which links no MPI:
// scripts/compare runs it in turn with our programs. Samples are taken by the very functions that
// take ours; rank 0 prints them, a line a size: bytes and microseconds per call.
//   gloo_peer ring|bcube|halving_doubling FOLDER INTERFACE SAMPLES BYTES…
//   gloo_peer ring /tmp/an-empty-folder lo 21 64 4096
// The ranks meet by files in the folder, at the addresses of the interface. An allreduce of floats,
// in place.
#include <gloo/algorithm.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness/sampling.hpp"

namespace {

using namespace qpmesh::bench;
using Context = std::shared_ptr<gloo::rendezvous::Context>;

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
  if (text == nullptr)
    throw std::runtime_error{std::string{"start it with mpirun: no "} + variable};
  return std::stoi(text);
}

Context connect(const std::string& folder, const std::string& interface) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(number_in("OMPI_COMM_WORLD_RANK"),
                                                             number_in("OMPI_COMM_WORLD_SIZE"));
  gloo::rendezvous::FileStore store{folder};
  context->connectFullMesh(store, device);
  return context;
}

std::function<void()> allreduce(const std::string& algorithm, const Context& context,
                                std::vector<float>& data) {
  if (algorithm == "halving_doubling") {
    auto made = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
        context, std::vector<float*>{data.data()}, static_cast<int>(data.size()));
    return [made] { made->run(); };
  }
  auto options = std::make_shared<gloo::AllreduceOptions>(context);
  options->setOutput(data.data(), data.size());
  options->setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(out, a, b, count);
  });
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  if (algorithm == "bcube") options->setAlgorithm(Algorithm::BCUBE);
  else if (algorithm == "ring") options->setAlgorithm(Algorithm::RING);
  else throw std::invalid_argument{"no algorithm: " + algorithm};
  return [options] { gloo::allreduce(*options); };
}

void max_over_ranks(const Context& context, std::span<double> values) {
  gloo::AllreduceOptions options{context};
  options.setOutput(values.data(), values.size());
  options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
    gloo::max<double>(out, a, b, count);
  });
  gloo::allreduce(options);
}

void measure(const std::string& algorithm, const Context& context, std::size_t bytes,
             std::size_t samples) {
  std::vector<float> data(bytes / sizeof(float), 1.0F);
  const auto call = allreduce(algorithm, context, data);
  const Agreement agreement{
      .align =
          [&] {
            gloo::BarrierOptions options{context};
            gloo::barrier(options);
          },
      .max_over_ranks = [&](std::span<double> values) { max_over_ranks(context, values); }};
  const Times times = take_samples({.ours = timed_batch([&] { call(); })}, samples, agreement);
  if (context->rank != 0) return;
  std::printf("%zu", bytes);
  for (const double seconds : times.ours_s) std::printf(" %.4f", seconds * 1e6);
  std::printf("\n");
  std::fflush(stdout);  // what was measured counts even when the time limit ends this process
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words{argv + 1, argv + argc};
    if (words.size() < 5)
      throw std::invalid_argument{"usage: gloo_peer ALGORITHM FOLDER INTERFACE SAMPLES BYTES…"};
    const Context context = connect(words[1], words[2]);
    if (context->rank == 0) {
      std::printf("# Gloo %d.%d.%d, %s\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR,
                  GLOO_VERSION_PATCH, words[0].c_str());
    }
    for (std::size_t i = 4; i < words.size(); ++i)
      measure(words[0], context, std::stoul(words[i]), std::stoul(words[3]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_peer: %s\n", error.what());
    return 2;
  }
}

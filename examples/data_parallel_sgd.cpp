// SPDX-License-Identifier: MIT
// Logistic regression by stochastic gradient descent, data parallel: the samples of every batch are
// dealt out to the ranks, each computes the gradient of its own, and one allreduce makes them the
// gradient of the whole batch. All ranks take the same step, because every rank gets the same bits;
// the weights are never sent. How many ranks there are changes nothing but the order of the sums.
#include <qpmesh/qpmesh.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace {

constexpr std::size_t feature_count = 8;
constexpr int batch_samples = 250;
constexpr int batches = 300;
constexpr double learning_rate = 2.0;
constexpr double tolerance = 1e-9;  // of a weight: sums in another order

using Weights = std::array<double, feature_count>;
constexpr Weights true_weights{1.5, -2.0, 0.5, 3.0, -1.0, 0.25, -0.75, 2.0};

struct Sample {
  Weights features;
  double label;
};

// Uniform in [-1, 1), by hashing (splitmix64): any rank can make any sample.
double uniform(std::uint64_t index) {
  index = (index + 1) * 0x9e3779b97f4a7c15U;
  index = (index ^ index >> 30) * 0xbf58476d1ce4e5b9U;
  index = (index ^ index >> 27) * 0x94d049bb133111ebU;
  return static_cast<double>((index ^ index >> 31) >> 11) * 0x1p-52 - 1;
}

double dot(const Weights& a, const Weights& b) {
  double sum = 0;
  for (std::size_t i = 0; i < feature_count; ++i) sum += a[i] * b[i];
  return sum;
}

double probability(const Weights& weights, const Weights& features) {
  return 1 / (1 + std::exp(-dot(weights, features)));
}

Sample make_sample(std::uint64_t index) {
  Sample sample{};
  for (std::size_t i = 0; i < feature_count; ++i)
    sample.features[i] = uniform(index * feature_count + i);
  sample.label = dot(true_weights, sample.features) > 0 ? 1 : 0;
  return sample;
}

// Of the loss over the samples rank, rank + ranks, rank + 2 ranks, … of a batch. Multiplied by the
// number of ranks, because the average over them follows: then it is right also where the shares
// are of unequal lengths.
Weights gradient_of_share(const Weights& weights, int batch, int rank, int ranks) {
  Weights gradient{};
  for (int i = rank; i < batch_samples; i += ranks) {
    const Sample sample = make_sample(static_cast<std::uint64_t>(batch) * batch_samples +
                                      static_cast<std::uint64_t>(i));
    const double error = probability(weights, sample.features) - sample.label;
    for (std::size_t f = 0; f < feature_count; ++f)
      gradient[f] += error * sample.features[f] * ranks / batch_samples;
  }
  return gradient;
}

void descend(Weights& weights, const Weights& gradient) {
  for (std::size_t i = 0; i < feature_count; ++i) weights[i] -= learning_rate * gradient[i];
}

double accuracy(const Weights& weights) {
  constexpr int samples = 2000;
  constexpr std::uint64_t first = 1'000'000;  // none of them was learnt from
  int right = 0;
  for (int i = 0; i < samples; ++i) {
    const Sample sample = make_sample(first + static_cast<std::uint64_t>(i));
    right += (probability(weights, sample.features) > 0.5) == (sample.label == 1);
  }
  return static_cast<double>(right) / samples;
}

}  // namespace

int main() {
  try {
    auto world = qpmesh::init();
    Weights weights{};
    Weights weights_alone{};  // what one rank would have learnt
    for (int batch = 0; batch < batches; ++batch) {
      Weights gradient = gradient_of_share(weights, batch, world.rank(), world.size());
      world.allreduce(gradient, qpmesh::average);
      descend(weights, gradient);
      descend(weights_alone, gradient_of_share(weights_alone, batch, 0, 1));
    }

    double difference = 0;
    for (std::size_t i = 0; i < feature_count; ++i)
      difference = std::max(difference, std::abs(weights[i] - weights_alone[i]));
    const bool good =
        world.allreduce(difference <= tolerance && accuracy(weights) > 0.97, qpmesh::logical_and);
    if (world.rank() == 0) {
      std::printf("accuracy %.3f on new samples; the weights are %s\n", accuracy(weights),
                  difference <= tolerance ? "those that one rank learns"
                                          : "not those that one rank learns");
    }
    world.finish();
    return good ? 0 : 1;
  } catch (const qpmesh::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

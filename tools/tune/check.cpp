#include "tools/tune/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tools/tune/timing.hpp"

namespace qpmesh::tune {
namespace {

constexpr double slower_max = 1.1;

// Private memory for any collective of so many floats. Every call has the next rank as its root.
class Caller {
 public:
  Caller(Communicator& world, std::size_t element_count)
      : world_{world}, in_(element_count, 1.0F), out_(element_count) {}

  void call(Collective collective, std::string_view algorithm) {
    const CallOptions how{.algorithm = algorithm};
    const std::size_t block = in_.size() / static_cast<std::size_t>(world_.size());
    const std::span<float> in_block = std::span{in_}.first(block);
    const std::span<float> out_block = std::span{out_}.first(block);
    root_ = (root_ + 1) % world_.size();
    switch (collective) {
      case Collective::barrier: return world_.barrier(how);
      case Collective::broadcast: return world_.broadcast(out_, root_, how);
      case Collective::reduce: return world_.reduce(in_, out_, sum, root_, how);
      case Collective::allgather: return world_.allgather(in_block, out_, how);
      case Collective::reduce_scatter: return world_.reduce_scatter(in_, out_block, sum, how);
      case Collective::allreduce: return world_.allreduce(in_, out_, sum, how);
      case Collective::gather: return world_.gather(in_block, out_, root_, how);
      case Collective::scatter: return world_.scatter(in_, out_block, root_, how);
      case Collective::alltoall: return world_.alltoall(in_, out_, how);
      case Collective::scan: return world_.scan(in_, out_, sum, how);
      case Collective::exscan: return world_.exscan(in_, out_, sum, how);
    }
  }

 private:
  Communicator& world_;
  std::vector<float> in_;
  std::vector<float> out_;
  int root_ = 0;
};

// What the lines of the table come to.
class Summary {
 public:
  void add(std::string_view collective, std::size_t bytes, const std::vector<Candidate>& rows,
           const std::vector<double>& measured_us) {
    const double best_us = std::ranges::min(measured_us);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double ratio = measured_us[i] / rows[i].predicted_us;
      double& worst = worst_[fmt::format("{} {}", collective, rows[i].algorithm)];
      worst = std::max({worst, ratio, 1 / ratio});
      if (!rows[i].chosen) continue;
      ++choices_;
      if (measured_us[i] > slower_max * best_us)
        slower_.push_back(fmt::format("{} {} bytes: {} took {:.2f} times the best", collective,
                                      bytes, rows[i].algorithm, measured_us[i] / best_us));
    }
  }
  void print() const {
    fmt::print("# worst factor between prediction and measurement\n");
    for (const auto& [name, worst] : worst_) fmt::print("# {:<36} {:>8.2f}\n", name, worst);
    fmt::print("# {} of {} choices slower than the best by more than a tenth\n", slower_.size(),
               choices_);
    for (const auto& line : slower_) fmt::print("#   {}\n", line);
  }

 private:
  std::map<std::string, double> worst_;
  std::vector<std::string> slower_;
  std::size_t choices_ = 0;
};

}  // namespace

void check(Communicator& world, const CheckedSizes& sizes, int tries) {
  const bool prints = world.rank() == 0;
  if (prints)
    fmt::print("#{:<14} {:>10} {:>18} {:>13} {:>13} {:>7}\n", "collective", "bytes", "algorithm",
               "predicted_us", "measured_us", "ratio");
  Summary summary;
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    const std::size_t bytes_max =
        collective == Collective::barrier ? sizes.bytes_min : sizes.bytes_max;
    for (std::size_t wanted = sizes.bytes_min; wanted <= bytes_max; wanted *= 2) {
      const auto ranks = static_cast<std::size_t>(world.size());
      const std::size_t element_count = std::max(ranks, wanted / sizeof(float) / ranks * ranks);
      const std::size_t bytes =
          collective == Collective::barrier ? 0 : element_count * sizeof(float);
      std::vector<Candidate> rows = world.explain(collective, bytes);
      std::erase_if(rows, [](const Candidate& row) { return !row.applies; });
      Caller caller{world, element_count};
      Calls calls;
      for (const Candidate& row : rows)
        calls.emplace_back(
            [&caller, collective, name = row.algorithm] { caller.call(collective, name); });
      std::vector<double> measured_us = times_s(world, calls, tries);
      for (double& time : measured_us) time *= 1e6;
      summary.add(name_of(collective), bytes, rows, measured_us);
      for (std::size_t row = 0; prints && row < rows.size(); ++row)
        fmt::print("{:<15} {:>10} {:>18} {:>13.3f} {:>13.3f} {:>7.2f}{}\n", name_of(collective),
                   bytes, rows[row].algorithm, rows[row].predicted_us, measured_us[row],
                   measured_us[row] / rows[row].predicted_us, rows[row].chosen ? " chosen" : "");
    }
  }
  if (prints) summary.print();
}

}  // namespace qpmesh::tune

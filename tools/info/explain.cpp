// SPDX-License-Identifier: MIT
#include "tools/info/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "base/text.hpp"
#include "collectives/registry.hpp"

namespace qpmesh::info {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds measuring{1};
constexpr std::string_view operation = "explain";

bool has_blocks(Collective collective) {
  switch (collective) {
    case Collective::allgather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall: return true;
    default: return false;
  }
}

// A call of so many bytes, in private memory, as most programs have theirs.
class Call {
 public:
  Call(Communicator& world, const Question& question)
      : world_{world}, collective_{question.collective} {
    const auto ranks = static_cast<std::size_t>(world.size());
    const std::size_t step = has_blocks(collective_) ? ranks : 1;
    whole_.resize((question.bytes + step * sizeof(float) - 1) / (step * sizeof(float)) * step);
    block_.resize(has_blocks(collective_) ? whole_.size() / ranks : whole_.size());
  }

  std::size_t bytes() const noexcept { return whole_.size() * sizeof(float); }
  void operator()() {
    switch (collective_) {
      case Collective::barrier: return world_.barrier();
      case Collective::broadcast: return world_.broadcast(whole_, 0);
      case Collective::reduce: return world_.reduce(whole_, block_, sum, 0);
      case Collective::allgather: return world_.allgather(block_, whole_);
      case Collective::reduce_scatter: return world_.reduce_scatter(whole_, block_, sum);
      case Collective::allreduce: return world_.allreduce(whole_, block_, sum);
      case Collective::gather: return world_.gather(block_, whole_, 0);
      case Collective::scatter: return world_.scatter(whole_, block_, 0);
      case Collective::alltoall:
        others_.resize(whole_.size());
        return world_.alltoall(whole_, others_);
      case Collective::scan: return world_.scan(whole_, block_, sum);
      case Collective::exscan: return world_.exscan(whole_, block_, sum);
    }
  }

 private:
  Communicator& world_;
  Collective collective_;
  std::vector<float> whole_{};
  std::vector<float> block_{};
  std::vector<float> others_{};
};

const Candidate& chosen_of(const Answer& answer) {
  return *std::ranges::find_if(answer.rows, &Candidate::chosen);
}

std::string why(const Answer& answer) {
  const Candidate& chosen = chosen_of(answer);
  if (!answer.forced.empty()) return fmt::format("QPMESH_ALGORITHMS={} names it", answer.forced);
  if (std::ranges::count_if(answer.rows, &Candidate::applies) == 1)
    return "no other one applies here";
  if (chosen.samples > 0) return "the fastest of those that were measured while the calls ran";
  if (std::ranges::any_of(answer.rows, [](const Candidate& row) { return row.samples > 0; }))
    return "it was predicted, and what was measured is not decided yet: a call takes long here";
  return "the cheapest by prediction of those that give the same bits";
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array<std::pair<std::size_t, const char*>, 3> units{
      {{std::size_t{1} << 30, "GiB"},
       {std::size_t{1} << 20, "MiB"},
       {std::size_t{1} << 10, "KiB"}}};
  for (const auto& [unit, name] : units)
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
  return fmt::format("{} bytes", bytes);
}

}  // namespace

Question question_of(std::string_view collective, std::string_view bytes) {
  const auto& names = collectives::collective_names;
  const auto name = std::ranges::find(names, collective);
  if (name == names.end()) {
    base::bad_argument(operation, fmt::format("known: {}", fmt::join(names, ", ")),
                       "'{}' is no collective", collective);
  }
  const auto which = static_cast<Collective>(name - names.begin());
  const auto count = base::parse_integer(bytes, true);
  if (!count || *count < 0 || (*count == 0 && which != Collective::barrier)) {
    base::bad_argument(operation, "write bytes of all blocks together, as 8, 64KiB or 1MiB",
                       "'{}' is no number of bytes", bytes);
  }
  return {which, which == Collective::barrier ? 0 : static_cast<std::size_t>(*count)};
}

Answer explain(Communicator& world, const Question& question, const Options& options) {
  Call call{world, question};
  Answer answer{.asked = question,
                .ranks = world.size(),
                .ranks_here = world.split_node().size(),
                .call_bytes = call.bytes()};
  if (options.algorithms.find(fmt::format("{}=", name_of(question.collective))) !=
      std::string::npos)
    answer.forced = options.algorithms;
  // Rank 0's clock says how many calls come next, so that all make the same.
  const auto begin = Clock::now();
  for (int batch = 1; batch > 0; world.broadcast(batch, 0)) {
    const auto batch_begin = Clock::now();
    for (int i = 0; i < batch; ++i) call();
    const auto now = Clock::now();
    answer.calls += batch;
    if (now - begin > measuring) batch = 0;
    else if (now - batch_begin < measuring / 100) batch *= 2;
  }
  answer.rows = world.explain(question.collective, call.bytes());
  return answer;
}

std::string to_text(const Answer& answer) {
  const std::string what =
      answer.asked.collective == Collective::barrier ? "" : " of " + bytes_text(answer.call_bytes);
  std::string text = fmt::format("{}{} by {} ranks, {} of them on this node; {} calls were made\n",
                                 name_of(answer.asked.collective), what, answer.ranks,
                                 answer.ranks_here, answer.calls);
  text += fmt::format("  {:<26} {:>14} {:>14} {:>8}\n", "algorithm", "measured, us",
                      "predicted, us", "samples");
  std::vector<Candidate> rows = answer.rows;
  // What runs, then the measured, then the predicted, each by their times.
  const auto rank_of = [](const Candidate& row) {
    return std::tuple{!row.chosen, !row.applies, row.samples == 0,
                      row.samples > 0 ? row.measured_us : row.predicted_us};
  };
  std::ranges::stable_sort(rows, {}, rank_of);
  for (const Candidate& row : rows) {
    text += fmt::format("{} {:<26}", row.chosen ? '>' : ' ', row.algorithm);
    if (!row.applies) {
      text += " does not apply here\n";
      continue;
    }
    text +=
        row.samples > 0 ? fmt::format(" {:14.2f}", row.measured_us) : fmt::format(" {:>14}", "");
    text += fmt::format(" {:14.2f}", row.predicted_us);
    text += row.samples > 0 ? fmt::format(" {:8}\n", row.samples) : "\n";
  }
  text += fmt::format("{} runs: {}\n", chosen_of(answer).algorithm, why(answer));
  return text;
}

std::string to_json(const Answer& answer) {
  using nlohmann::ordered_json;
  auto rows = ordered_json::array();
  for (const Candidate& row : answer.rows) {
    const bool measured = row.samples > 0;
    rows.push_back(
        {{"algorithm", row.algorithm},
         {"applies", row.applies},
         {"chosen", row.chosen},
         {"measured_us", measured ? ordered_json(row.measured_us) : ordered_json{}},
         {"samples", row.samples},
         {"predicted_us", row.applies ? ordered_json(row.predicted_us) : ordered_json{}}});
  }
  return ordered_json{{"collective", name_of(answer.asked.collective)},
                      {"bytes", answer.call_bytes},
                      {"ranks", answer.ranks},
                      {"ranks_here", answer.ranks_here},
                      {"calls", answer.calls},
                      {"algorithm", chosen_of(answer).algorithm},
                      {"why", why(answer)},
                      {"rows", std::move(rows)}}
             .dump(2) +
         "\n";
}

}  // namespace qpmesh::info
